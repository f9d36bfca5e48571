#!/usr/bin/env python
"""Chief-mode training: every task computes the gradient over its own rows, this script sums and applies.

    python examples/gradients.py --nodes 2
    python examples/gradients.py --nodes 2 --eager
    python examples/gradients.py --addresses ignite-0:10800      # your own cluster; it needs agents

Without --addresses it starts an Apache Ignite cluster on this host, with an agent beside each node. Then it

1. writes scikit-learn's digits into the cache GRADIENT_DIGITS, one partition per node;
2. reads them once where they are, as the distributed example of the first article on Ignite and TensorFlow does: one
   IgniteDataset, an iterator of it under the device of each task;
3. trains a classifier by gradient descent over all rows, and compares the first gradient with one process's;
4. draws how the loss fell, in the terminal and as an SVG file.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import contextlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import ignite_strategy as igs
from ignite_strategy.errors import IgniteStrategyError, InvalidArgumentError
from ignite_strategy.topology import caches

CACHE = "GRADIENT_DIGITS"
FIELDS = {"pixels": "float[]", "label": "int"}
RATE = 2.0
REQUIRED = 0.85


def digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return (images / 16.0).astype("float32"), labels.astype("int32")


def load(addresses: list[str], nodes: int) -> None:
    with contextlib.closing(caches.connect(addresses)) as client:
        if CACHE in caches.cache_names(client):
            print(f"cache {CACHE} is there already and used as it is")
            return
        caches.create_cache(client, CACHE, partitions=nodes, key="int", value=FIELDS, type_name="Digit")
        rows = [
            (number, {"pixels": pixels, "label": int(label)})
            for number, (pixels, label) in enumerate(zip(*digits()))
        ]
        print(f"wrote {caches.put_objects(client, CACHE, rows, fields=FIELDS, type_name='Digit')} digits")


# The model: its variables belong to this script, its loss is computed in the tasks.


def initial() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return random.normal(scale=0.3, size=[64, 10]).astype("float32"), np.zeros([10], "float32")


def losses(weights: Any, bias: Any, pixels: Any, labels: Any) -> Any:
    """The loss of each row."""
    logits = tf.matmul(pixels, weights) + bias
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def input_fn() -> Any:
    """Batches, made in each task's place; a dataset without map() and the like may be made once for all."""
    rows = igs.IgniteDataset(CACHE).map(
        lambda row: (tf.ensure_shape(row["val"]["pixels"], [64]), row["val"]["label"])
    )
    return rows.batch(256)


# Where the rows are.


def read_in_graph(resolver: igs.IgniteClusterResolver) -> None:
    """The form of the article: sums over the pixels of each task, added up by this script."""
    tasks = [task for task in resolver.tasks() if task.type != "ps"]
    with tf.Graph().as_default():
        dataset = igs.IgniteDataset(CACHE, columns=["val.label"], batch_size=100_000)
        counts, pids = [], []
        for task in tasks:
            with tf.device(f"/job:{task.type}/task:{task.index}"):
                iterator = tf.compat.v1.data.make_one_shot_iterator(dataset)
                counts.append(tf.size(iterator.get_next()["val"]["label"]))
                pids.append(tf.io.read_file("/proc/self/stat"))
        total = tf.reduce_sum(counts)
        with tf.compat.v1.Session(resolver.master(tasks[0].type, tasks[0].index)) as session:
            found, rows, stats = session.run([counts, total, pids])
    for task, count, stat in zip(tasks, found, stats):
        pid = int(stat.split()[0])
        print(f"  {task.type} {task.index}, pid {pid}: partitions {task.partitions[CACHE]}, {count} rows")
        if pid != task.pid:
            raise IgniteStrategyError(f"{task.type} {task.index} is {task.pid}, but {pid} has read its rows")
    print(f"  together {rows}")


# The two forms.


def train_in_graph(
    resolver: igs.IgniteClusterResolver, steps: int
) -> tuple[list[float], list[Any], list[Any]]:
    with tf.Graph().as_default():
        weights, bias = (
            tf.compat.v1.get_variable(name, initializer=value)
            for name, value in zip(("weights", "bias"), initial())
        )
        aggregator = igs.gradients.GraphAggregator(
            resolver, input_fn, lambda pixels, labels: losses(weights, bias, pixels, labels), [weights, bias]
        )
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(RATE)
        step = optimizer.apply_gradients(aggregator.grads_and_vars)
        with aggregator.session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            first = session.run(aggregator.gradients)
            history = [float(session.run([aggregator.loss, step])[0]) for _ in range(steps)]
            return history, first, session.run([weights, bias])


def train_eagerly(
    resolver: igs.IgniteClusterResolver, steps: int
) -> tuple[list[float], list[Any], list[Any]]:
    weights, bias = (tf.Variable(value, name=name) for name, value in zip(("weights", "bias"), initial()))
    aggregator = igs.gradients.EagerAggregator(
        resolver, input_fn, lambda pixels, labels: losses(weights, bias, pixels, labels), [weights, bias]
    )
    history: list[float] = []
    first: list[Any] = []
    for _ in range(steps):
        found = aggregator.compute()
        first = first or [gradient.numpy() for gradient in found.gradients]
        history.append(found.loss)
        for gradient, variable in found.grads_and_vars:
            variable.assign_sub(RATE * gradient)
    return history, first, [weights.numpy(), bias.numpy()]


def check(first: Sequence[Any], trained: Sequence[Any]) -> float:
    """Compares the first gradient with that of this process over all rows; the accuracy of the trained model."""
    pixels, labels = digits()
    variables = [tf.Variable(value) for value in initial()]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(losses(*variables, pixels, labels))
    for name, mine, one in zip(("weights", "bias"), first, tape.gradient(loss, variables)):
        error = float(np.linalg.norm(mine - one) / np.linalg.norm(one))
        print(f"first gradient of {name}: relative error {error:.1e} against one process over all rows")
        if error > 1e-5:
            raise IgniteStrategyError(f"the gradient of {name} is not that of one process")
    return float(np.mean(np.argmax(pixels @ trained[0] + trained[1], axis=1) == labels))


# The picture, with nothing to install.


def in_terminal(history: Sequence[float], width: int = 60, height: int = 12) -> str:
    top = max(history)
    columns = [history[at * (len(history) - 1) // max(1, width - 1)] for at in range(width)]
    lines = []
    for row in range(height):
        level = top * (height - row - 0.5) / height
        mark = f"{top * (height - row) / height:5.2f}"
        lines.append(f"{mark} |" + "".join("#" if value >= level else " " for value in columns))
    return "\n".join([*lines, " " * 6 + "+" + "-" * width, f"       loss over {len(history)} passes"])


def as_svg(history: Sequence[float], title: str) -> str:
    width, height, margin, top = 640, 360, 48, max(history)
    across, up = width - 2 * margin, height - 2 * margin
    points = " ".join(
        f"{margin + across * at / max(1, len(history) - 1):.1f},{height - margin - up * loss / top:.1f}"
        for at, loss in enumerate(history)
    )
    marks = "".join(
        f'<line x1="{margin}" x2="{width - margin}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        f'<text x="{margin - 6}" y="{y + 4:.1f}" text-anchor="end">{top * part / 4:.2f}</text>'
        for part in range(5)
        for y in [height - margin - up * part / 4]
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>{marks}'
        f'<text x="{width / 2}" y="28" text-anchor="middle" font-size="15">{title}</text>'
        f'<text x="{width / 2}" y="{height - 14}" text-anchor="middle">passes over all rows: {len(history)}</text>'
        f'<polyline points="{points}" fill="none" stroke="#1f6fb2" stroke-width="2"/></svg>\n'
    )


# The command.


@contextlib.contextmanager
def cluster(options: argparse.Namespace) -> Iterator[list[str]]:
    if options.addresses:
        yield options.addresses
        return
    print(f"starting {options.nodes} Apache Ignite nodes on this host, an agent beside each")
    with igs.LocalCluster(nodes=options.nodes, agents=True) as running:
        yield running.addresses


def run(options: argparse.Namespace) -> None:
    with cluster(options) as addresses:
        load(addresses, options.nodes)
        with igs.IgniteClusterResolver(CACHE, addresses=addresses, chief=False) as resolver:
            resolver.start()
            print("one dataset, read by each task:")
            read_in_graph(resolver)
            train = train_eagerly if options.eager else train_in_graph
            history, first, trained = train(resolver, options.steps)
    accuracy = check(first, trained)
    form = "eager" if options.eager else "graph"
    print(in_terminal(history))
    options.plot.write_text(as_svg(history, f"Mean loss over all digits ({form})"))
    print(f"the same picture: {options.plot}")
    if accuracy < REQUIRED:
        raise IgniteStrategyError(f"accuracy {accuracy:.4f} is below {REQUIRED}")
    print(
        f"done: {form}, {options.steps} passes, loss {history[0]:.4f} -> {history[-1]:.4f}, accuracy {accuracy:.4f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--eager", action="store_true", help="with eager execution instead of a graph")
    parser.add_argument(
        "--nodes", type=int, default=2, help="nodes to start, and partitions of the cache (2)"
    )
    parser.add_argument("--steps", type=int, default=40, help="passes over all rows (40)")
    parser.add_argument(
        "--addresses", nargs="+", metavar="HOST:PORT", help="use this cluster; it needs agents"
    )
    parser.add_argument("--plot", type=Path, default=Path("gradients.svg"), help="where the picture goes")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        if options.nodes < 1 or options.steps < 1:
            raise InvalidArgumentError("--nodes and --steps are at least 1")
        run(options)
    except (IgniteStrategyError, tf.errors.OpError, OSError, ValueError) as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    except KeyboardInterrupt:
        print("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
