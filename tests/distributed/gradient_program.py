"""A user's eager program for test_gradients.py; tells what happens as JSON lines on stdout.

Not a test: TensorFlow has one set of remote devices for a process. Arguments: addresses, cache, an act, its patience.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).parents[2]))

import tensorflow as tf

import ignite_strategy as igs
from tests.distributed import gradient_rows as data

ADDRESSES, CACHE, ACT, PATIENCE = sys.argv[1].split(","), sys.argv[2], sys.argv[3], float(sys.argv[4])


def tell(event: str, **facts: object) -> None:
    os.write(1, (json.dumps({"event": event, **facts}) + "\n").encode())


def aggregator(resolver, dataset, loss, variables):  # type: ignore[no-untyped-def]
    return igs.gradients.EagerAggregator(resolver, dataset, loss, variables, patience=PATIENCE)


def where_rows_are_read(resolver) -> dict[str, object]:  # type: ignore[no-untyped-def]
    """One dataset, an iterator of it under each device: pid and keys."""
    dataset = igs.IgniteDataset(CACHE, columns=["key"], batch_size=64)
    found = {}
    for index in range(3):
        with tf.device(f"/job:worker/task:{index}"):
            keys = [key for batch in dataset for key in batch["key"].numpy().tolist()]
            pid = int(tf.io.read_file("/proc/self/stat").numpy().split()[0])
        found[str(index)] = [pid, sorted(keys)]
    return found


def compute(resolver, variables) -> None:  # type: ignore[no-untyped-def]
    wanted_loss, wanted = data.reference([variable.numpy() for variable in variables])
    dataset = igs.IgniteDataset(CACHE, batch_size=16)

    def loss_of_rows(row):  # type: ignore[no-untyped-def]
        return data.losses(variables, row)

    with aggregator(resolver, dataset, loss_of_rows, variables) as one:
        with aggregator(resolver, dataset, loss_of_rows, variables) as other:
            other.compute()
        step = one.compute()
        kinds = [type(each).__name__ for each in step.gradients]
        errors = [
            data.error(tf.convert_to_tensor(each).numpy(), other)
            for each, other in zip(step.gradients, wanted)
            if each is not None
        ]
        shares = {str(index): rows for (_, index), rows in step.shares.items()}
        tell("step", loss=step.loss / wanted_loss, rows=step.rows, shares=shares, errors=errors, kinds=kinds)
        optimizer = tf.keras.optimizers.legacy.SGD(0.02)
        history = []
        for _ in range(5):
            step = one.compute()
            history.append(step.loss)
            optimizer.apply_gradients(step.grads_and_vars)
        tell("history", losses=history)
        tell("places", places=where_rows_are_read(resolver))

    def fails(row):  # type: ignore[no-untyped-def]
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(row["key"] != 4), ["key is four"])]):
            return data.losses(variables, row)

    def nan(row):  # type: ignore[no-untyped-def]
        return tf.where(row["key"] == 4, float("nan"), 1.0) * data.losses(variables, row)

    for loss in (fails, nan):
        try:
            aggregator(resolver, lambda: igs.IgniteDataset(CACHE).batch(16), loss, variables).compute()
        except igs.errors.GradientError as error:
            tell("failed", loss=loss.__name__, text=str(error), task=error.task)


def main() -> None:
    variables = [tf.Variable(value, name=name) for name, value in data.initial().items()]
    with data.resolver(ADDRESSES, CACHE) as resolver:
        resolver.start()
        tell("running", tasks={f"{task.type} {task.index}": task.pid for task in resolver.tasks()})
        if ACT == "compute":
            compute(resolver, variables)
        else:
            one = aggregator(
                resolver,
                igs.IgniteDataset(CACHE, batch_size=16),
                lambda row: data.losses(variables, row),
                variables,
            )
            one.compute()
            tell("computed")
            try:
                while True:
                    one.compute()
                    time.sleep(0.05)
            except igs.errors.TaskLostError as error:
                tell("lost", task=error.task, text=str(error))
    tell("left")


main()
