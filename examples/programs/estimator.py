"""Estimator between graphs: the same program in each task, with a parameter server and an evaluator. TensorFlow 2.15.

ignite-strategy run --strategy parameter_server --evaluator DIGITS examples/programs python estimator.py igfs:///e
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


config = tf.estimator.RunConfig(model_dir=sys.argv[1], save_checkpoints_steps=100, log_step_count_steps=50)
estimator = tf.estimator.Estimator(model_fn, config=config)
evaluate = tf.estimator.EvalSpec(
    lambda: digits.dataset().batch(32), steps=20, start_delay_secs=0, throttle_secs=1
)
tf.estimator.train_and_evaluate(
    estimator, tf.estimator.TrainSpec(lambda: digits.dataset().batch(32), max_steps=STEPS), evaluate
)
print(f"{config.task_type} {config.task_id} done", flush=True)
if config.task_type == "evaluator":  # it has evaluated checkpoints all the time; this is the last one
    found = estimator.evaluate(evaluate.input_fn, steps=20)
    print(f"step {found['global_step']}, accuracy {found['accuracy']:.3f}")
