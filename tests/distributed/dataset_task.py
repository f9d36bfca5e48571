"""A TensorFlow task by hand, ``dataset_task.py JOB INDEX CLUSTER_JSON``, until it is killed."""

from __future__ import annotations

import json
import sys

import tensorflow as tf

from ignite_strategy import library

job, index, cluster = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
library.ops()
server = tf.distribute.Server(tf.train.ClusterSpec(cluster), job_name=job, task_index=index)
print("serving", flush=True)
server.join()
