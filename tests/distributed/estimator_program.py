"""A user's program for test_estimator.py: trains on a real job, tells what happens as JSON lines on stdout.

Not a test. Arguments: addresses, cache, strategy, model directory, whether eager execution is on, then names of acts.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import ignite_strategy as igs

ADDRESSES, CACHE, STRATEGY, MODEL_DIR, EAGER, *ACTS = sys.argv[1:]
STARTED = time.monotonic()
RESTARTS = {"restarts": 0} if "no restarts" in ACTS else {}
steps: dict[str, int] = {}


def tell(event: str, **facts: object) -> None:
    line = json.dumps({"event": event, "at": time.monotonic() - STARTED, **facts}) + "\n"
    os.write(1, line.encode())  # in one piece: several threads tell


class Clock(tf.estimator.SessionRunHook):
    """Counts the steps of one task, and makes a step long enough to be interrupted."""

    def __init__(self, task: str, sleep: float) -> None:
        self.task, self.sleep = task, sleep
        self.begins_at = -1

    def after_create_session(self, session: object, coord: object) -> None:
        self.begins_at = int(session.run(tf.compat.v1.train.get_global_step()))  # type: ignore[attr-defined]

    def after_run(self, run_context: object, run_values: object) -> None:
        if self.begins_at >= 0:
            tell("first step", task=self.task, after=self.begins_at)
            self.begins_at = -1
        steps[self.task] = steps.get(self.task, 0) + 1
        time.sleep(self.sleep)


def model_fn(features, labels, mode, config, params):  # type: ignore[no-untyped-def]
    weights = tf.compat.v1.get_variable("weights", [3, 1])
    predicted = tf.matmul(features, weights)
    loss = tf.reduce_mean((predicted - labels) ** 2)
    step = tf.compat.v1.train.get_global_step()
    return tf.estimator.EstimatorSpec(
        mode,
        loss=loss,
        predictions=predicted,
        train_op=tf.compat.v1.train.GradientDescentOptimizer(0.01).minimize(loss, step),
        training_hooks=[Clock(f"{config.task_type} {config.task_id}", params["sleep"])],
        eval_metric_ops={"mean": tf.compat.v1.metrics.mean(predicted)},
    )


def input_fn() -> object:
    return tf.data.Dataset.from_tensors(([1.0, 2.0, 3.0], [1.0])).repeat(64).batch(8).repeat()


def rows() -> object:
    """From the cache: each task its own partitions."""
    values = igs.IgniteDataset(CACHE, columns=["val"]).map(lambda row: tf.cast(row["val"], tf.float32))
    return values.map(lambda value: (tf.fill([3], value), tf.fill([1], value))).repeat().batch(8)


def finite() -> object:
    return tf.data.Dataset.from_tensors(([1.0, 2.0, 3.0], [1.0])).repeat(16).batch(8)


def uneven(input_context) -> object:  # type: ignore[no-untyped-def]
    return input_fn().take(30 - 20 * input_context.input_pipeline_id)  # type: ignore[attr-defined]


def stalling() -> object:
    """After some rows, none for ever."""
    return input_fn().take(10).concatenate(input_fn().filter(lambda *_: False))  # type: ignore[attr-defined]


def generator() -> object:
    return (
        tf.data.Dataset.from_generator(lambda: iter([1.0] * 64), tf.float32, [])
        .map(lambda value: (tf.fill([3], value), tf.fill([1], value)))
        .batch(8)
    )


def broken_model_fn(features, labels, mode, config, params):  # type: ignore[no-untyped-def]
    if config.task_type == "worker":
        raise RuntimeError("the model of worker 0 is broken")
    # A chief that is within a collective operation already leaves its server unusable (README, Limits).
    time.sleep(2)
    return model_fn(features, labels, mode, config, params)


def late_chief_model_fn(features, labels, mode, config, params):  # type: ignore[no-untyped-def]
    if config.task_type == "chief":
        time.sleep(3)
    return model_fn(features, labels, mode, config, params)


def slow_evaluation_model_fn(features, labels, mode, config, params):  # type: ignore[no-untyped-def]
    if mode == tf.estimator.ModeKeys.EVAL:
        time.sleep(2)
    return model_fn(features, labels, mode, config, params)


class Broken(tf.estimator.SessionRunHook):
    """A user's hook with a fault."""

    def after_run(self, run_context: object, run_values: object) -> None:
        raise RuntimeError("the hook is broken")


def early_stopping(estimator: tf.estimator.Estimator) -> list[tf.estimator.SessionRunHook]:
    return [
        tf.estimator.experimental.make_early_stopping_hook(
            estimator, lambda: steps.get("chief 0", 0) >= 15, run_every_secs=None, run_every_steps=1
        )
    ]


def train(  # type: ignore[no-untyped-def]
    config,
    max_steps,
    train_fn=input_fn,
    model=model_fn,
    sleep=0.0,
    throttle=0,
    hooks=lambda _: [],
    how=tf.estimator.train_and_evaluate,
):
    steps.clear()
    begun = time.monotonic()
    estimator = tf.estimator.Estimator(model, config=config, params={"sleep": sleep})
    try:
        result = how(
            estimator,
            tf.estimator.TrainSpec(train_fn, max_steps=max_steps, hooks=hooks(estimator)),
            tf.estimator.EvalSpec(finite, steps=None, start_delay_secs=0, throttle_secs=throttle),
        )
        metrics = {name: float(value) for name, value in result[0].items()} if result else {}
        tell("returned", seconds=time.monotonic() - begun, steps=steps, metrics=metrics)
    except BaseException as error:
        cause = type(error.__cause__).__name__
        tell(
            "raised",
            seconds=time.monotonic() - begun,
            type=type(error).__name__,
            text=str(error),
            cause=cause,
            steps=steps,
        )
        if isinstance(error, RuntimeError) and "hook" in str(error):
            raise  # the interpreter ends with a session in its last traceback


def threads() -> list[str]:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        names = sorted(thread.name for thread in threading.enumerate())
        if "ignite_strategy-run" not in names:
            break
        time.sleep(0.1)
    return names


def main() -> None:
    if EAGER == "graph":
        tf.compat.v1.disable_eager_execution()
    tf.get_logger().setLevel("CRITICAL")
    with igs.IgniteClusterResolver(
        CACHE, addresses=[ADDRESSES], strategy=STRATEGY, evaluator=True
    ) as resolver:

        def config_for(model_dir: str, keep: int = 0) -> object:
            return resolver.run_config(
                model_dir=model_dir,
                save_checkpoints_steps=20,
                keep_checkpoint_max=keep,
                **RESTARTS,
                on_evaluation=lambda found: tell(
                    "evaluated", step=found.step, final=found.final, **found.metrics
                ),
            )

        config = config_for(MODEL_DIR)
        tell("running", tasks=[[f"{task.type} {task.index}", task.pid] for task in resolver.tasks()])
        for act in ACTS:
            if act == "no restarts":
                continue
            tell("act", name=act, eager=tf.executing_eagerly())
            if act == "no max_steps":
                train(config, None)
            elif act == "generator":
                train(config, 10, generator)
            elif act == "uneven":
                train(config, 10_000, uneven)
            elif act == "broken model":
                train(config, 10, model=broken_model_fn)
            elif act == "slow evaluation":
                train(config_for(MODEL_DIR + "-3", keep=2), 500, model=slow_evaluation_model_fn, sleep=0.01)
            elif act == "another model to 40":
                train(config_for(MODEL_DIR + "-2"), 40, model=late_chief_model_fn, sleep=0.02)
            elif act.startswith("to "):
                train(config, int(act[3:]))
            elif act == "no rows":
                train(config, 10, lambda: input_fn().take(0))  # type: ignore[attr-defined]
            elif act == "early stopping":
                train(config, 1_000_000, hooks=early_stopping)
            elif act == "stop at 10":
                train(config, 1_000_000, hooks=lambda _: [tf.estimator.StopAtStepHook(num_steps=10)])
            elif act == "broken hook":
                train(config, 1_000_000, hooks=lambda _: [Broken()])
            elif act.startswith("slowly to "):
                train(config, int(act[10:]), sleep=0.02)
                tell("healings", found=[[each.kind, each.reason, each.seconds] for each in resolver.healings])
            elif act.startswith("anew to "):
                train(config, int(act[8:]), sleep=0.02, how=igs.train_and_evaluate)
                tell("running", tasks=[[f"{task.type} {task.index}", task.pid] for task in resolver.tasks()])
            elif act.startswith("rows anew to "):
                train(
                    config,
                    int(act[13:]),
                    rows,
                    sleep=0.02,
                    how=functools.partial(igs.train_and_evaluate, attempts=3),
                )
            elif act == "stalling":
                stalled = functools.partial(igs.train_and_evaluate, stall_seconds=4, attempts=2)
                train(config, 1_000_000, stalling, how=stalled)
            elif act == "long":
                train(config, 1_000_000, sleep=0.02, throttle=600)
            tell("threads", names=threads())
    tell("closed")


main()
