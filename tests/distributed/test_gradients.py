"""Gradients over a cache whose partitions have 150, 3 and no rows: each task computes over its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.conftest import without_ours

pytestmark = [pytest.mark.integration, pytest.mark.distributed]
tf = pytest.importorskip("tensorflow")
import numpy as np  # noqa: E402

import ignite_strategy as igs  # noqa: E402
from ignite_strategy.errors import (  # noqa: E402
    GradientError,
    InvalidArgumentError,
    TaskLostError,
    UnsupportedError,
)
from tests.distributed import gradient_rows as data  # noqa: E402
from tests.distributed.program import Program  # noqa: E402

CACHE = "igs-p3-GRADIENTS"
EXAMPLE = Path(data.__file__).parents[2] / "examples" / "gradients.py"
PROGRAM = Path(data.__file__).with_name("gradient_program.py")


@pytest.fixture(scope="module")
def addresses(agents):
    data.fill(agents.cluster.addresses, CACHE)
    return agents.cluster.addresses


@pytest.fixture(scope="module")
def job(addresses):
    """Three workers, one for each partition."""
    with data.resolver(addresses, CACHE) as resolver:
        resolver.start()
        yield resolver


@pytest.fixture
def graph():
    with tf.Graph().as_default() as made:
        yield made


def variables() -> list[object]:
    return [tf.compat.v1.get_variable(name, initializer=value) for name, value in data.initial().items()]


def expected_places(job) -> dict[int, tuple[int, list[int]]]:
    found = {}
    for task in job.tasks():
        (partition,) = task.partitions[CACHE]
        found[task.index] = (task.pid, data.KEYS[partition])
    assert len({pid for pid, _ in found.values()} | {os.getpid()}) == 4
    return found


@pytest.mark.parametrize("how", ["dataset", "batch() of it", "initializable"])
def test_one_dataset_is_read_where_its_iterators_are_made(job, graph, how):
    """The distributed example of the first article, in its own form."""
    dataset = igs.IgniteDataset(CACHE, batch_size=None if how == "batch() of it" else 32)
    if how == "batch() of it":
        dataset = dataset.batch(32)
    starts, keys, pids, gradients = [], [], [], []
    weight = tf.compat.v1.get_variable("weight", initializer=2.0)
    for index in range(3):
        with tf.device(f"/job:worker/task:{index}"):
            if how == "initializable":
                iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
                starts.append(iterator.initializer)
            else:
                iterator = tf.compat.v1.data.make_one_shot_iterator(dataset)
            row = iterator.get_next_as_optional()
            has_value = row.has_value()
            key = tf.cond(has_value, lambda row=row: row.get_value()["key"], lambda: tf.zeros([0], tf.int32))
            keys.append(key)
            pids.append(tf.io.read_file("/proc/self/stat"))
            gradients.append(tf.gradients(tf.reduce_sum(weight * tf.cast(key, tf.float32)), weight)[0])
    total = tf.reduce_sum(gradients)
    found: dict[int, list[int]] = {0: [], 1: [], 2: []}
    summed = 0.0
    with tf.compat.v1.Session(job.master("worker", 0)) as session:
        session.run([starts, weight.initializer])
        while True:
            batches, gradient = session.run([keys, total])
            summed += gradient
            if not any(map(len, batches)):
                break
            for index, batch in enumerate(batches):
                found[index] += batch.tolist()
        places = {index: int(text.split()[0]) for index, text in enumerate(session.run(pids))}
    wanted = expected_places(job)
    assert {index: (places[index], sorted(found[index])) for index in found} == wanted
    assert summed == sum(map(sum, data.KEYS.values()))


def test_what_stays_where_it_was_made_is_an_error_with_the_form_to_use(job, graph):
    dataset = igs.IgniteDataset(CACHE).map(lambda row: row["key"])
    with tf.device("/job:worker/task:1"):
        with pytest.raises(InvalidArgumentError, match=r"worker 1.*no task(.|\n)*def input_fn\(\)"):
            tf.compat.v1.data.make_one_shot_iterator(dataset)
        made_here = igs.IgniteDataset(CACHE).map(lambda row: row["key"]).batch(10)
        keys = tf.compat.v1.data.make_one_shot_iterator(made_here).get_next()
    with tf.compat.v1.Session(job.master("worker", 0)) as session:
        assert sorted(session.run(keys)) == expected_places(job)[1][1]


def test_a_dataset_that_was_made_eagerly_is_read_in_a_graph(job):
    dataset = igs.IgniteDataset(CACHE, batch_size=10)
    with tf.Graph().as_default(), tf.device("/job:worker/task:1"):
        keys = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()["key"]
        with tf.compat.v1.Session(job.master("worker", 0)) as session:
            assert sorted(session.run(keys)) == expected_places(job)[1][1]


def test_the_gradient_is_that_of_one_process_over_all_rows(job):
    wanted_loss, wanted = data.reference(list(data.initial().values()))
    with tf.Graph().as_default():
        mine = variables()
        dataset = igs.IgniteDataset(CACHE, batch_size=16)
        found = igs.gradients.GraphAggregator(job, dataset, lambda row: data.losses(mine, row), mine)
        assert found.gradients[3] is None  # nothing depends on it
        assert isinstance(found.gradients[2], tf.IndexedSlices)
        looked_up = found.gradients[2].indices
        dense = [tf.convert_to_tensor(gradient) for gradient in found.gradients[:3]]
        with found.session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            loss, rows, shares, gradients, indices = session.run(
                [found.loss, found.rows, found.shares, dense, looked_up]
            )
    assert shares == {("worker", index): len(keys) for index, (_, keys) in expected_places(job).items()}
    assert rows == data.ROWS
    assert loss == pytest.approx(wanted_loss, rel=1e-5)
    assert sorted(indices) == [*range(7), 11]
    for gradient, other in zip(gradients, wanted):
        assert gradient.dtype == np.float32
        assert data.error(gradient, other) <= 1e-5


def test_training_goes_as_in_one_process(job):
    """Several passes, mini-batches of another size in each task, the mean instead of the loss of each row."""
    values = list(data.initial().values())
    wanted = []
    for _ in range(6):
        loss, gradients = data.reference(values)
        wanted.append(loss)
        values = [value if one is None else value - 0.02 * one for value, one in zip(values, gradients)]

    def input_fn():
        return igs.IgniteDataset(CACHE).map(lambda row: row).batch(7)

    with tf.Graph().as_default():
        mine = variables()
        found = igs.gradients.GraphAggregator(
            job, input_fn, lambda row: tf.reduce_mean(data.losses(mine, row))
        )
        assert found.variables == tuple(mine[:3])  # those that the loss uses
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.02)
        step = optimizer.apply_gradients(found.grads_and_vars)
        with found.session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            losses = [session.run([found.loss, step])[0] for _ in range(6)]
    assert losses[-1] < losses[0]
    assert losses == pytest.approx(wanted, rel=1e-4)


def test_errors_name_the_task_and_the_reason(job, graph):
    mine = variables()
    dataset = igs.IgniteDataset(CACHE, batch_size=16)

    def assertion(row):
        good = tf.reduce_all(tf.not_equal(row["key"], 4))
        with tf.control_dependencies([tf.debugging.Assert(good, ["key is four"])]):
            return data.losses(mine, row)

    def nan(row):
        return tf.where(tf.equal(row["key"], 4), np.nan, 1.0) * data.losses(mine, row)

    def nothing():
        return igs.IgniteDataset(CACHE, batch_size=16).filter(lambda row: tf.constant(False))

    def plain(row):
        return data.losses(mine, row)

    cases = [(dataset, assertion), (dataset, nan), (nothing, plain)]
    made = [igs.gradients.GraphAggregator(job, rows, loss, mine[:3]) for rows, loss in cases]
    at = next(index for index, (_, keys) in expected_places(job).items() if 4 in keys)
    with made[0].session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        with pytest.raises(
            GradientError, match=rf"worker {at} could not.*assertion failed: \[key is four\]$"
        ) as caught:
            session.run(made[0].loss)
        assert caught.value.task == ("worker", at)
    with (
        made[1].session() as session,
        pytest.raises(GradientError, match=rf"worker {at}: the loss, the gradient of weights, .*bias"),
    ):
        session.run(made[1].loss)
    with (
        made[2].session() as session,
        pytest.raises(InvalidArgumentError, match="none of worker 0, worker 1, worker 2 had a row"),
    ):
        session.run(made[2].loss)


def test_errors_before_anything_runs(job, graph):
    weight = tf.compat.v1.get_variable("weight", initializer=1.0)

    def make(dataset, loss):
        return igs.gradients.GraphAggregator(job, dataset, loss)

    def raises(row):
        raise ZeroDivisionError("the user's own")

    def writes(row):
        with tf.control_dependencies([weight.assign_add(1.0)]):
            return weight * row["val"]["y"]

    dataset = igs.IgniteDataset(CACHE, batch_size=16)
    with pytest.raises(ZeroDivisionError, match="own"):
        make(dataset, raises)
    with pytest.raises(UnsupportedError, match="writes to a variable"):
        make(dataset, writes)
    with pytest.raises(InvalidArgumentError, match=r"val.z"):
        make(lambda: igs.IgniteDataset(CACHE, columns=["val.z"]), writes)
    with pytest.raises(InvalidArgumentError, match="give a function that makes it"):
        make(dataset.map(lambda row: row), writes)
    with pytest.raises(InvalidArgumentError, match=r"returns a tensor of shape \(None, 1\)"):
        make(dataset, lambda row: weight * row["val"]["y"][:, None])
    with pytest.raises(InvalidArgumentError, match="no trainable variable"):
        make(dataset, lambda row: row["val"]["y"])


def run_for_ever(session, value):
    while True:
        session.run(value)


def test_a_lost_task_ends_the_run(addresses):
    with data.resolver(addresses, CACHE) as resolver, tf.Graph().as_default():
        resolver.start()
        mine = variables()
        found = igs.gradients.GraphAggregator(
            resolver, igs.IgniteDataset(CACHE, batch_size=16), lambda row: data.losses(mine, row), mine[:3]
        )
        with found.session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(found.loss)
            pid = next(task.pid for task in resolver.tasks() if task.index == 1)
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(TaskLostError, match=rf"worker 1 \(pid {pid}.*SIGKILL") as caught:
                run_for_ever(session, found.loss)
            assert caught.value.task == ("worker", 1)


def start(addresses, act, tmp_path, patience=60.0) -> Program:
    return Program(",".join(addresses), CACHE, act, str(patience), folder=tmp_path, path=PROGRAM)


def test_eagerly_with_remote_devices(addresses, tmp_path):
    program = start(addresses, "compute", tmp_path)
    try:
        pids = program.wait("running")["tasks"]
        step = program.wait("step")
        assert step["loss"] == pytest.approx(1, rel=1e-5)
        assert step["rows"] == data.ROWS
        assert step["kinds"][2:] == ["IndexedSlices", "NoneType"]
        assert len(step["errors"]) == 3
        assert max(step["errors"]) <= 1e-5
        losses = program.wait("history")["losses"]
        assert losses == sorted(losses, reverse=True)
        places = program.wait("places")["places"]
        assert {name: place[0] for name, place in places.items()} == {
            name.split()[1]: pid for name, pid in pids.items()
        }
        assert sorted(place[1] for place in places.values()) == sorted(data.KEYS.values())
        assert {name: len(place[1]) for name, place in places.items()} == step["shares"]
        at = next(name for name, place in places.items() if 4 in place[1])
        failed = {found["loss"]: found for found in (program.wait("failed"), program.wait("failed"))}
        assert "assertion failed: [key is four]" in failed["fails"]["text"]
        assert "the gradient of weights" in failed["nan"]["text"]
        assert all(found["task"] == ["worker", int(at)] for found in failed.values())
        program.wait("left")
        assert program.exit(60) == 0
    finally:
        program.close()


@pytest.mark.parametrize(("sent", "patience"), [(signal.SIGKILL, 60), (signal.SIGSTOP, 4)])
def test_an_eager_program_notices_a_lost_task_and_can_leave(addresses, tmp_path, sent, patience):
    program = start(addresses, "wait", tmp_path, patience)
    pid = 0
    try:
        pid = program.wait("running")["tasks"]["worker 1"]
        program.wait("computed")
        os.kill(pid, sent)
        lost = program.wait("lost", 60)
        assert lost["task"] == ["worker", 1]
        assert ("SIGKILL" if sent == signal.SIGKILL else "has not answered") in lost["text"]
        program.wait("left", 60)
        assert program.exit(60) == 0
    finally:
        program.close()


@pytest.mark.parametrize("form", [[], ["--eager"]])
def test_the_example(addresses, tmp_path, form):
    picture = tmp_path / "loss.svg"
    command = [sys.executable, str(EXAMPLE), "--addresses", *addresses, "--plot", str(picture), *form]
    done = subprocess.run(command, env=without_ours(os.environ), capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"done: {'eager' if form else 'graph'}, 40 passes")
    (line,) = ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}polyline")
    heights = [float(point.split(",")[1]) for point in line.attrib["points"].split()]
    assert len(heights) == 40
    assert heights[-1] > heights[0]  # downwards
