"""One script, a task beside each node: every task counts the rows of its own partitions.

ignite-strategy start DIGITS examples/programs python rows.py
"""

import json
import os

import tensorflow as tf
from digits import CACHE

import ignite_strategy as igs

workers = ["/job:chief/task:0", *json.loads(os.environ["TF_WORKERS"])]
with tf.Graph().as_default(), tf.compat.v1.Session(os.environ["TF_CHIEF_SERVER"]) as session:
    counts = []
    for worker in workers:
        with tf.device(worker):  # here the dataset is read, from the node of that task
            rows = igs.IgniteDataset(CACHE, columns=["key"], batch_size=100)
            counted = rows.reduce(tf.constant(0), lambda count, batch: count + tf.size(batch["key"]))
            counts.append(counted)
    found = session.run(counts)
for worker, count in zip(workers, found):
    print(f"{worker}: {count} rows")
print(f"together: {sum(found)}")
