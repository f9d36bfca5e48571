"""A Keras model with MultiWorkerMirroredStrategy: the same program in each task, all take each step together.

ignite-strategy run DIGITS examples/programs python keras_workers.py igfs:///digits/keras

Started again after a loss, it goes on with the epoch that it was in. It runs with Keras 2 and 3; that is why it has a
loop of its own, as fit() of Keras 3 does not take this strategy.
"""

import json
import os
import sys
import tempfile

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else of TensorFlow's

import digits  # noqa: E402

import ignite_strategy  # noqa: E402, F401  (igfs://)

STEPS, EPOCHS, BATCH = 30, 6, 32
task = json.loads(os.environ["TF_CONFIG"])["task"]

with strategy.scope():
    layers = [tf.keras.Input((64,)), tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(10)]
    model = tf.keras.Sequential(layers)
    optimizer = tf.keras.optimizers.Adam(3e-3)
    kept = [v if isinstance(v, tf.Variable) else v.value for v in model.trainable_variables]  # Keras 2, or 3
    weights = {str(number): variable for number, variable in enumerate(kept)}
    checkpoint = tf.train.Checkpoint(epoch=tf.Variable(0, dtype=tf.int64), **weights)

# All take part in writing a checkpoint; that of the chief is kept.
directory = sys.argv[1] if task["type"] == "chief" else tempfile.mkdtemp()
manager = tf.train.CheckpointManager(checkpoint, directory, max_to_keep=2)
latest = tf.train.latest_checkpoint(sys.argv[1])
if latest:
    checkpoint.restore(latest)


def one_step(pixels, labels):
    with tf.GradientTape() as tape:
        logits = model(pixels, training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(losses) / strategy.num_replicas_in_sync
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1, tf.int32), labels), tf.float32))


@tf.function
def train(rows):
    return strategy.reduce("MEAN", strategy.run(one_step, next(rows)), axis=None)


# Each task reads its own partitions.
rows = iter(strategy.distribute_datasets_from_function(lambda _: digits.dataset().batch(BATCH)))
first = int(checkpoint.epoch.numpy())
print(f"{task['type']} {task['index']} begins with epoch {first}", flush=True)
for epoch in range(first, EPOCHS):
    accuracy = sum(float(train(rows)) for _ in range(STEPS)) / STEPS
    checkpoint.epoch.assign(epoch + 1)
    manager.save(epoch + 1)
    print(f"epoch {epoch} accuracy {accuracy:.3f}", flush=True)
print(f"{task['type']} {task['index']} done after epoch {EPOCHS - 1}")
