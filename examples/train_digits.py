#!/usr/bin/env python
"""Trains a classifier of handwritten digits on the nodes that hold them, and checks what came of it.

    python examples/train_digits.py --nodes 2 --strategy collective
    python examples/train_digits.py --addresses ignite-0:10800 --strategy parameter_server --steps 600

Without --addresses it starts an Apache Ignite cluster on this host, with an agent beside each node. Then it

1. writes scikit-learn's digits into the cache DIGITS, one partition per node, and the held-out rows into DIGITS_TEST;
2. trains and evaluates an Estimator: each task reads the partition of its own node, checkpoints go to igfs://;
3. shows who has read what, over which connection, and that the tasks' passes are disjoint and together the cache;
4. reads the checkpoint and the exported model in a new process, after the tasks are gone, and computes the accuracy.
"""

from __future__ import annotations

import os
import time

STARTED = time.time()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse  # noqa: E402
import contextlib  # noqa: E402
import signal  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Iterable, Iterator  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from rich.console import Console  # noqa: E402
from rich.markup import escape  # noqa: E402
from rich.table import Table  # noqa: E402

import ignite_strategy as igs  # noqa: E402
from ignite_strategy.errors import IgniteStrategyError, InvalidArgumentError, PreconditionError  # noqa: E402
from ignite_strategy.estimator import check_environment  # noqa: E402
from ignite_strategy.topology import caches  # noqa: E402

if TYPE_CHECKING:
    import tensorflow as tf
else:

    class _Lazy:
        """TensorFlow, imported when it is first needed: by a thread, while the nodes start."""

        def __getattr__(self, name: str) -> Any:
            import tensorflow

            return getattr(tensorflow, name)

    tf = _Lazy()

TRAIN, TEST = "DIGITS", "DIGITS_TEST"
FIELDS = {"pixels": "float[]", "label": "int"}
BATCH = 64
REQUIRED = 0.93
console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
begun = STARTED  # or when make was called


def say(text: str, style: str = "") -> None:
    """Prints a line after the seconds since the command."""
    console.print(f"{time.time() - begun:5.1f} s  {escape(text)}", style=style)


# 1. The data.


def load_digits(addresses: list[str], partitions: int | None) -> None:
    """Writes the rows as structured objects, every fifth into the cache of held-out rows."""
    from sklearn.datasets import load_digits as from_scikit_learn

    images, labels = from_scikit_learn(return_X_y=True)
    rows = [
        (number, {"pixels": (pixels / 16.0).astype("float32"), "label": int(label)})
        for number, (pixels, label) in enumerate(zip(images, labels))
    ]
    with contextlib.closing(caches.connect(addresses)) as client:
        if TRAIN in caches.cache_names(client):
            say(f"cache {TRAIN} is there already and used as it is")
            return
        for name, count in ((TEST, None), (TRAIN, partitions)):
            caches.create_cache(client, name, partitions=count, key="int", value=FIELDS, type_name="Digit")
            mine = [row for row in rows if (row[0] % 5 == 0) == (name == TEST)]
            written = caches.put_objects(client, name, mine, fields=FIELDS, type_name="Digit")
            say(f"wrote {written} digits into cache {name}")


def digits(cache: str, shuffle: bool) -> Any:
    """The rows of a cache, in the process that runs the op: all of them, or the partitions assigned to that task."""
    dataset = igs.IgniteDataset(cache).map(
        lambda row: (tf.ensure_shape(row["val"]["pixels"], [64]), row["val"]["label"])
    )
    return dataset.shuffle(1000).repeat().batch(BATCH) if shuffle else dataset.batch(BATCH)


# 2. The model: an ordinary Estimator. Nothing in it knows about Ignite.


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    pixels = features["pixels"] if isinstance(features, dict) else features
    hidden = dense(pixels, "hidden", 64, 64, tf.nn.relu)
    logits = dense(hidden, "logits", 64, 10, tf.identity)
    classes = tf.argmax(logits, axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = tf.estimator.export.PredictOutput({"class": classes})
        return tf.estimator.EstimatorSpec(
            mode, {"class": classes}, export_outputs={"serving_default": outputs}
        )
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {"accuracy": tf.compat.v1.metrics.accuracy(labels, classes)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = tf.compat.v1.train.AdamOptimizer(0.003)
    step = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)


def dense(inputs: Any, name: str, size: int, units: int, activation: Any) -> Any:
    with tf.compat.v1.variable_scope(name):
        glorot = tf.compat.v1.glorot_uniform_initializer()
        weights = tf.compat.v1.get_variable("weights", [size, units], initializer=glorot)
        bias = tf.compat.v1.get_variable("bias", [units], initializer=tf.compat.v1.zeros_initializer())
        return activation(tf.matmul(inputs, weights) + bias)


def serving_input() -> Any:
    pixels = tf.compat.v1.placeholder(tf.float32, [None, 64], name="pixels")
    return tf.estimator.export.ServingInputReceiver({"pixels": pixels}, {"pixels": pixels})


def progress() -> Any:
    """A hook that prints the time of the first step, and a line every 100."""

    class Progress(tf.estimator.SessionRunHook):  # type: ignore[misc,name-defined]
        steps = 0

        def before_run(self, run_context: Any) -> Any:
            step = tf.compat.v1.train.get_global_step(run_context.session.graph)
            return tf.estimator.SessionRunArgs(step)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.steps += 1
            if self.steps == 1:
                say(f"first training step after {time.time() - begun:.1f} s", style="bold")
            if self.steps % 100 == 0:
                say(f"chief at its step {self.steps}, global step {run_values.results}")

    return Progress()


def train(resolver: igs.IgniteClusterResolver, options: argparse.Namespace) -> list[Any]:
    """Four lines more than on one machine: the resolver, its run_config, and IgniteDataset in input_fn."""
    tf.get_logger().setLevel("CRITICAL")  # what ends the run is raised
    evaluations: list[Any] = []

    def report(evaluation: Any) -> None:
        evaluations.append(evaluation)
        accuracy, loss = evaluation.metrics["accuracy"], evaluation.metrics["loss"]
        say(f"evaluation at step {evaluation.step}: accuracy {accuracy:.4f}, loss {loss:.4f}")

    config = resolver.run_config(
        model_dir=options.model_dir, save_checkpoints_steps=100, tf_random_seed=1, on_evaluation=report
    )
    estimator = tf.estimator.Estimator(model_fn, config=config)
    show_tasks(resolver)
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(
            lambda: digits(TRAIN, shuffle=True), max_steps=options.steps, hooks=[progress()]
        ),
        tf.estimator.EvalSpec(
            lambda: digits(TEST, shuffle=False),
            steps=None,
            exporters=tf.estimator.FinalExporter("digits", serving_input),
            start_delay_secs=0,
            throttle_secs=0,
        ),
    )
    return evaluations


# 3. What is shown.


def show_topology(resolver: igs.IgniteClusterResolver) -> None:
    topology, assignment = resolver.topology(), resolver.assignment
    table = Table(
        "Ignite node", "address", f"partitions of {TRAIN}", "tasks", title="Topology", title_justify="left"
    )
    for node in topology.nodes:
        mine = [str(number) for number, primary in enumerate(topology.primaries) if primary == node.id]
        tasks = [str(share.key) for share in assignment.tasks if share.node == node.id]
        table.add_row(node.id, str(node.endpoints[0]), ", ".join(mine) or "-", ", ".join(tasks) or "-")
    console.print(table)


def show_tasks(resolver: igs.IgniteClusterResolver) -> None:
    for task in resolver.tasks():
        say(f"task {task.type} {task.index}: pid {task.pid} on {task.host}, serving {task.address}")


def show_assignment(resolver: igs.IgniteClusterResolver) -> None:
    time.sleep(2.5)  # the tasks report every second
    table = Table(
        "partitions",
        "node",
        "task",
        "pid",
        "host",
        title="Assignment and what was read",
        title_justify="left",
    )
    for column in ("local rows", "local bytes", "remote rows", "remote bytes"):
        table.add_column(column, justify="right")
    total = remote = 0
    for task in resolver.tasks():
        counts = next((reading[1:] for reading in task.readings if reading.cache == TRAIN), (0, 0, 0, 0))
        total, remote = total + counts[0] + counts[2], remote + counts[2]
        parts = ", ".join(map(str, task.partitions.get(TRAIN, ()))) or "-"
        name = f"{task.type} {task.index}"
        table.add_row(parts, task.node[:8], name, str(task.pid), task.host, *(f"{n:,}" for n in counts))
    console.print(table)
    if not total:
        say("no training rows were read: the run in this model directory was complete")
        return
    share = 100.0 * (total - remote) / total
    say(f"{share:.0f} % of {total:,} training rows were read from the task's own node")


def drain(task: Any) -> list[int]:
    """The keys of one pass of a task's dataset, read in the task's process."""
    with tf.Graph().as_default() as graph:
        with tf.device(f"/job:{task.type}/task:{task.index}/device:CPU:0"):
            keys = igs.IgniteDataset(TRAIN).map(lambda row: row["key"]).batch(1000)
            iterator = tf.compat.v1.data.make_initializable_iterator(keys)
            batch = iterator.get_next()
        config = tf.compat.v1.ConfigProto(operation_timeout_in_ms=30_000)
        config.device_filters.append(f"/job:{task.type}/task:{task.index}")
        found: list[int] = []
        with tf.compat.v1.Session(f"grpc://{task.address}", graph=graph, config=config) as session:
            session.run(iterator.initializer)
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while True:
                    found += session.run(batch).tolist()
    return found


def check_passes(resolver: igs.IgniteClusterResolver) -> None:
    """Each key of the cache exactly once over the passes of all tasks."""
    passes = {f"{task.type} {task.index}": drain(task) for task in resolver.tasks() if task.type != "ps"}
    with contextlib.closing(caches.connect([str(each) for each in resolver.endpoints])) as client:
        size = client.get_cache(TRAIN).get_size()
    keys = [key for found in passes.values() for key in found]
    counts = " + ".join(f"{len(found)} ({name})" for name, found in passes.items())
    if len(set(keys)) != len(keys) or len(keys) != size:
        raise IgniteStrategyError(
            f"the passes are not a partition of the cache: {counts} keys, {len(set(keys))} different ones, of {size}"
        )
    say(f"drained key by key: {counts} = {size}, the whole cache, no key twice")


def show_files(model_dir: str) -> None:
    table = Table("file", "bytes", title=f"Checkpoint files and model in {model_dir}", title_justify="left")
    table.columns[1].justify = "right"
    for folder, _, names in tf.io.gfile.walk(model_dir):
        relative = folder[len(model_dir) :].strip("/")
        if relative.startswith("tmp_"):
            continue  # where collective workers that are not the chief write theirs, for nobody
        for name in sorted(names):
            size = tf.io.gfile.stat(f"{folder.rstrip('/')}/{name}").length
            table.add_row(f"{relative}/{name}".lstrip("/"), f"{size:,}")
    console.print(table)


# 4. The check, in a process of its own.


def check(options: argparse.Namespace) -> None:
    """Accuracy on the held-out rows, from the checkpoint and from the exported model."""
    tf.get_logger().setLevel("CRITICAL")
    with igs.IgniteClusterResolver(TEST, addresses=options.addresses):
        path = tf.train.latest_checkpoint(options.model_dir)
        if path is None:
            raise PreconditionError(f"{options.model_dir}: there is no checkpoint")
        model = tf.saved_model.load(newest(f"{options.model_dir}/export/digits"))
        weights = tf.train.load_checkpoint(path)
        say(f"event files of the evaluator: {history(options.model_dir)}")
        right = {"checkpoint": 0, "exported model": 0}
        rows = 0
        for pixels, labels in digits(TEST, shuffle=False):
            hidden = tf.nn.relu(
                pixels @ weights.get_tensor("hidden/weights") + weights.get_tensor("hidden/bias")
            )
            logits = hidden @ weights.get_tensor("logits/weights") + weights.get_tensor("logits/bias")
            served = model.signatures["serving_default"](pixels=pixels)["class"]
            for name, classes in (("checkpoint", tf.argmax(logits, axis=1)), ("exported model", served)):
                right[name] += int(tf.reduce_sum(tf.cast(tf.cast(classes, tf.int32) == labels, tf.int32)))
            rows += len(labels)
    for name, count in right.items():
        accuracy = count / rows
        say(f"pid {os.getpid()}: {name} of {path}: accuracy {accuracy:.4f} on {rows} held-out rows")
        if accuracy < REQUIRED:
            raise IgniteStrategyError(f"the accuracy is below {REQUIRED}")


def history(model_dir: str) -> str:
    """The accuracy at each step, as TensorBoard would show it."""
    found = {}
    for path in sorted(tf.io.gfile.glob(f"{model_dir}/eval/events.*")):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag == "accuracy":
                    found[event.step] = value.simple_value
    return ", ".join(f"{accuracy:.3f} at step {step}" for step, accuracy in found.items())


def newest(folder: str) -> str:
    names = sorted(name.strip("/") for name in tf.io.gfile.listdir(folder))
    return f"{folder}/{names[-1]}"


def check_in_a_new_process(options: argparse.Namespace) -> None:
    command = [
        sys.executable,
        __file__,
        "--check",
        "--started-at",
        str(begun),
        "--model-dir",
        options.model_dir,
        "--addresses",
        *options.addresses,
    ]
    if subprocess.run(command, timeout=180).returncode:
        raise IgniteStrategyError("the check of the checkpoint failed")


# The command.


@contextlib.contextmanager
def cluster(options: argparse.Namespace) -> Iterator[list[str]]:
    """The cluster at --addresses, or one on this host for as long as the block runs."""
    if options.addresses:
        yield options.addresses
        return
    say(f"starting {options.nodes} Apache Ignite nodes on this host, an agent beside each")
    threading.Thread(target=lambda: tf.__version__, name="import tensorflow").start()
    with igs.LocalCluster(nodes=options.nodes, agents=True) as running:
        yield running.addresses


def run(options: argparse.Namespace) -> None:
    check_environment()
    with cluster(options) as options.addresses:
        if not options.no_load:
            load_digits(options.addresses, options.nodes)
        resolver = igs.IgniteClusterResolver(
            TRAIN, addresses=options.addresses, strategy=options.strategy, evaluator=True
        )
        with resolver:
            say(f"a row of {TRAIN}: {igs.IgniteDataset(TRAIN).element_spec}")
            show_topology(resolver)
            evaluations = train(resolver, options)
            show_assignment(resolver)
            check_passes(resolver)
        say("the tasks are gone")
        with resolver_defaults(options.addresses):
            show_files(options.model_dir)
        check_in_a_new_process(options)
    last = evaluations[-1]
    say(
        f"done: {options.strategy}, {last.step} steps, {len(evaluations)} evaluations, "
        f"accuracy {last.metrics['accuracy']:.4f}",
        style="bold green",
    )


def resolver_defaults(addresses: list[str]) -> Any:
    """While it is open, igfs:/// without a host means these nodes."""
    return igs.IgniteClusterResolver(TEST, addresses=addresses)


def arguments(given: Iterable[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--strategy", default="collective", choices=["collective", "parameter_server"])
    parser.add_argument(
        "--nodes", type=int, default=2, help="nodes to start, and partitions of the cache (2)"
    )
    parser.add_argument("--steps", type=int, default=600, help="global steps to train (600)")
    parser.add_argument(
        "--addresses", nargs="+", metavar="HOST:PORT", help="use this cluster; it needs agents"
    )
    parser.add_argument(
        "--model-dir", default=None, help="where checkpoints go (igfs:///digits/STRATEGY-TIME)"
    )
    parser.add_argument(
        "--no-load", action="store_true", help=f"the caches {TRAIN} and {TEST} are there already"
    )
    parser.add_argument("--started-at", type=float, default=STARTED, help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if options.nodes < 1 or options.steps < 1:
        raise InvalidArgumentError("--nodes and --steps are at least 1")
    if options.model_dir is None:
        options.model_dir = f"igfs:///digits/{options.strategy}-{int(time.time())}"
    options.model_dir = options.model_dir.rstrip("/")
    return options


def main() -> int:
    global begun
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is taken down as with Ctrl-C
    warnings.simplefilter("ignore")
    try:
        options = arguments()
        begun = options.started_at
        (check if options.check else run)(options)
    except (IgniteStrategyError, tf.errors.OpError, OSError, ValueError) as error:
        console.print(f"[bold red]{type(error).__name__}[/]: ", end="")
        console.print(str(error), markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
