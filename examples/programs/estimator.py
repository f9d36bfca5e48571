"""Estimator between graphs: the same program in each task, asynchronous, with parameter servers. TensorFlow 2.15.

ignite-strategy run --strategy parameter_server DIGITS examples/programs python estimator.py igfs:///digits/estimator
"""

import sys

import digits
import tensorflow as tf

import ignite_strategy  # noqa: F401  (igfs://)

STEPS = 300
tf.get_logger().setLevel("ERROR")


def model_fn(features, labels, mode):
    hidden = tf.compat.v1.layers.dense(features, 64, tf.nn.relu)
    logits = tf.compat.v1.layers.dense(hidden, 10)
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        right = tf.compat.v1.metrics.accuracy(labels, tf.argmax(logits, 1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": right})
    step = tf.compat.v1.train.get_or_create_global_step()
    train = tf.compat.v1.train.AdamOptimizer(3e-3).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


config = tf.estimator.RunConfig(model_dir=sys.argv[1], save_checkpoints_steps=50, log_step_count_steps=50)
estimator = tf.estimator.Estimator(model_fn, config=config)
tf.estimator.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(lambda: digits.dataset().batch(32), max_steps=STEPS),
    tf.estimator.EvalSpec(lambda: digits.dataset().batch(32), steps=10),
)
print(f"{config.task_type} {config.task_id} done")
if config.is_chief:
    # A program of its own would do this while training goes on; here the chief does, at the end.
    found = estimator.evaluate(lambda: digits.dataset().batch(32), steps=20)
    print(f"step {found['global_step']}, accuracy {found['accuracy']:.3f}")
