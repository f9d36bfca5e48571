"""What ``make soak-cluster`` trains: a model of the rows of a cache, until a file appears. Tells of it in JSON lines.

Arguments: address, cache, strategy, model directory, the file that ends training.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import ignite_strategy as igs

ADDRESS, CACHE, STRATEGY, MODEL_DIR, STOP = sys.argv[1:]


def tell(event: str, **facts: object) -> None:
    os.write(1, (json.dumps({"event": event, **facts}) + "\n").encode())


class Teller(tf.estimator.SessionRunHook):
    """Tells the first step of each session, and one each second."""

    def __init__(self, task: str) -> None:
        self.task, self.told = task, 0.0

    def begin(self) -> None:
        self.step = tf.compat.v1.train.get_global_step()

    def after_create_session(self, session: object, coord: object) -> None:
        self.told = 0.0
        tell("session", task=self.task, step=int(session.run(self.step)))  # type: ignore[attr-defined]

    def before_run(self, run_context: object) -> object:
        return tf.estimator.SessionRunArgs(self.step)

    def after_run(self, run_context: object, run_values: object) -> None:
        if time.monotonic() - self.told >= 1:
            self.told = time.monotonic()
            tell("step", task=self.task, step=int(run_values.results))  # type: ignore[attr-defined]
        time.sleep(0.01)


class StopWhenAsked(tf.estimator.SessionRunHook):
    """Ends training when the file is there."""

    def after_run(self, run_context: object, run_values: object) -> None:
        if os.path.exists(STOP):
            run_context.request_stop()  # type: ignore[attr-defined]


def model_fn(features, mode, config):  # type: ignore[no-untyped-def]
    weight = tf.compat.v1.get_variable("weight", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean((weight - tf.cast(features, tf.float32)) ** 2)
    step = tf.compat.v1.train.get_global_step()
    return tf.estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=tf.compat.v1.train.GradientDescentOptimizer(1e-3).minimize(loss, step),
        training_hooks=[Teller(f"{config.task_type} {config.task_id}")],
    )


def rows() -> object:
    return igs.IgniteDataset(CACHE).map(lambda row: row["val"]).batch(64)


def main() -> None:
    tf.get_logger().setLevel("CRITICAL")
    with igs.IgniteClusterResolver(CACHE, addresses=[ADDRESS], strategy=STRATEGY, evaluator=True) as resolver:
        config = resolver.run_config(
            model_dir=MODEL_DIR,
            save_checkpoints_steps=200,
            on_evaluation=lambda found: tell("evaluated", step=found.step),
        )
        estimator = tf.estimator.Estimator(model_fn, config=config)
        metrics, _ = igs.train_and_evaluate(
            estimator,
            tf.estimator.TrainSpec(
                lambda: rows().repeat(),  # type: ignore[attr-defined]
                max_steps=100_000_000,
                hooks=[StopWhenAsked()],
            ),
            tf.estimator.EvalSpec(rows, steps=4, start_delay_secs=0, throttle_secs=10),
            stall_seconds=120,
        )
        tell("returned", metrics={name: float(value) for name, value in (metrics or {}).items()})
    tell("closed", threads=sorted(thread.name for thread in threading.enumerate()))


main()
