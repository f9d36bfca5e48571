"""ParameterServerStrategy with a ClusterCoordinator: the chief gives steps to workers, variables are on the servers.

ignite-strategy run --strategy coordinator DIGITS examples/programs python coordinator.py
"""

import json
import os

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    import ignite_strategy.dataset  # noqa: F401  (the ops of the rows)

    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    )
    print(f"{resolver.task_type} {resolver.task_id} serves", flush=True)
    server.join()

import digits  # noqa: E402

STEPS, BATCH = 200, 32
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

with strategy.scope():
    weights = tf.Variable(tf.zeros([64, 10]))
    bias = tf.Variable(tf.zeros([10]))


@tf.function
def step(rows):
    pixels, labels = next(rows)
    with tf.GradientTape() as tape:
        logits = pixels @ weights + bias
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(losses)
    for variable, gradient in zip((weights, bias), tape.gradient(loss, (weights, bias))):
        variable.assign_sub(0.5 * gradient)
    return tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1, tf.int32), labels), tf.float32))


# Made on each worker, where it reads that worker's partitions.
per_worker = iter(coordinator.create_per_worker_dataset(lambda: digits.dataset().batch(BATCH)))
for begun in range(0, STEPS, 50):
    results = [coordinator.schedule(step, (per_worker,)) for _ in range(50)]
    coordinator.join()
    accuracy = sum(float(result.fetch()) for result in results) / len(results)
    print(f"steps {begun} to {begun + 50}: accuracy {accuracy:.3f}", flush=True)
workers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
print(f"done with {workers} workers, accuracy {accuracy:.3f}")
