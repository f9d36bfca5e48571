"""``tf.estimator.train_and_evaluate`` on a real job: agents beside real nodes, tasks with TensorFlow servers."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ignite_strategy.local import LocalCluster
from ignite_strategy.topology.caches import connect, create_cache
from tests.distributed.program import Program, pids, wait_until_gone

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def training_cluster() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=2, agents=True) as running:
        with contextlib.closing(connect(running.addresses)) as client:
            create_cache(client, "ESTIMATOR", partitions=2)
        yield running


@pytest.fixture
def run(training_cluster: LocalCluster, tmp_path: Path) -> Iterator[Any]:
    programs: list[Program] = []

    def start(strategy: str, eager: str, *acts: str) -> Program:
        program = Program(
            training_cluster.addresses[0],
            "ESTIMATOR",
            strategy,
            str(tmp_path / "model"),
            eager,
            *acts,
            folder=tmp_path,
        )
        programs.append(program)
        return program

    yield start
    for program in programs:
        program.close()


def evaluations(tmp_path: Path) -> list[int]:
    """The steps in the event files of the evaluator."""
    from tensorflow.compat.v1.train import summary_iterator

    found = []
    for file in (tmp_path / "model" / "eval").glob("events.*"):
        found += [event.step for event in summary_iterator(str(file)) if event.HasField("summary")]
    return sorted(set(found))


@pytest.mark.parametrize("eager", ["eager", "graph"])
def test_collective(run: Any, tmp_path: Path, eager: str) -> None:
    """Errors before training are clear and leave the job usable; then two runs, the second resumes.

    tensorflow/tensorflow #22321 and #22407 (collective training from a client hung), #27857 (it was never evaluated),
    #48957 (generators hang), kubeflow/trainer #1658 (the last checkpoint was not evaluated).
    """
    acts = ["no max_steps", "generator", "broken model", "to 60", "to 100"]
    program = run("collective", eager, *acts)
    assert program.wait("act")["eager"] is (eager == "eager")

    raised = program.wait("raised", 30)
    assert (raised["type"], raised["seconds"] < 5) == ("InvalidArgumentError", True)
    raised = program.wait("raised", 30)
    assert raised["type"] == "UnsupportedError"
    assert "from_generator" in raised["text"]
    raised = program.wait("raised", 30)
    assert raised["type"] == "RuntimeError"
    assert "the model of worker 0 is broken" in raised["text"]
    assert raised["seconds"] < 15

    returned = program.wait("returned", 60)
    assert returned["steps"] == {"chief 0": 60, "worker 0": 60}
    first = program.wait("threads")["names"]
    program.wait("returned", 60)
    assert program.wait("threads")["names"] == first, "each run must clean up"

    told = program.told("evaluated")
    assert [(each["step"], each["final"]) for each in told] == [
        (0, False),
        (20, False),
        (40, False),
        (60, True),
        (60, False),  # the second run starts from it
        (80, False),
        (100, True),
    ]
    assert {"loss", "mean"} <= set(told[0])
    assert evaluations(tmp_path) == [0, 20, 40, 60, 80, 100]
    assert program.exit(15) == 0, program.story()
    wait_until_gone(pids(program), 10)


def test_unequal_numbers_of_rows(run: Any) -> None:
    """tensorflow/tensorflow #21305, #34750: the first worker at its end leaves the others waiting."""
    program = run("collective", "eager", "uneven")
    raised = program.wait("raised", 120)
    assert raised["type"] == "InvalidArgumentError"
    assert "training of task worker:0 has ended" in raised["text"]
    assert "repeat" in raised["text"]
    assert raised["seconds"] < 45
    assert program.exit(15) == 0, program.story()


@pytest.mark.parametrize("strategy", ["collective", "parameter_server"])
def test_hooks_that_end_training_end_it_for_all_tasks(run: Any, strategy: str) -> None:
    """TensorFlow runs them on the chief only: the others trained on, or waited for it for ever.

    An input without a row is an error, and not a success; a broken hook ends the program.
    """
    acts = ["no rows", "early stopping", "stop at 10", "uneven", "broken hook"]
    if strategy == "collective":
        acts.remove("uneven")  # there it is an error: see above
    program = run(strategy, "eager", *acts)
    raised = program.wait("raised", 60)
    assert raised["type"] == "InvalidArgumentError", program.story()
    assert "gave no task a row" in raised["text"]
    for taken in (16, 10):  # the first hook looks before the model's own one has counted
        returned = program.wait("returned", 60)
        assert returned["seconds"] < 30
        if strategy == "collective":  # the others are in the next step when the chief's hook asks
            assert returned["steps"] == {"chief 0": taken + 1, "worker 0": taken + 1}
        else:
            assert 1 <= returned["steps"]["chief 0"] <= taken
    if strategy == "parameter_server":
        assert program.wait("returned", 60)["steps"] == {"chief 0": 30, "worker 0": 10}
        assert "worker:0 have ended before max_steps" in program.story(), "nothing else would say so"
    raised = program.wait("raised", 60)
    assert (raised["type"], raised["text"]) == ("RuntimeError", "the hook is broken")
    assert program.exit(20) == 1, program.story()
    wait_until_gone(pids(program), 10)


def test_parameter_server(run: Any) -> None:
    """Every worker trains from the start (TensorFlow waits 30 s between looks), and a dead ps ends the run."""
    program = run("parameter_server", "eager", "no restarts", "to 60", "another model to 40", "long")
    program.wait("act")
    returned = program.wait("returned", 60)
    assert returned["seconds"] < 25
    steps = [each["step"] for each in program.told("evaluated")]
    assert steps[0] < 20, steps
    assert steps[-1] >= 60

    # The ps tasks keep variables: a worker that found those of the first model would stop at its 60th step.
    program.wait("act")
    returned = program.wait("returned", 60)
    assert returned["seconds"] < 25
    assert min(returned["steps"].values()) > 5, returned
    assert [each["step"] for each in program.told("evaluated") if each["final"]][-1] < 60

    begun = program.wait("act")
    late = {program.wait("first step", 30)["task"]: program.events[-1]["at"] - begun["at"] for _ in range(2)}
    assert set(late) == {"chief 0", "worker 0"}
    assert max(late.values()) < 10, f"seconds until each task's first step: {late}"
    killed = time.monotonic()
    os.kill(pids(program)["ps 0"], signal.SIGKILL)
    raised = program.wait("raised", 15)
    assert time.monotonic() - killed < 10
    assert raised["type"] == "TaskLostError"
    assert "ps 0" in raised["text"]
    assert program.exit(15) == 0, program.story()
    wait_until_gone(pids(program), 10)


def test_evaluation_slower_than_training(run: Any) -> None:
    """A checkpoint that is deleted while its evaluation begins is left out, and nothing ends before its time."""
    program = run("parameter_server", "eager", "slow evaluation")
    assert program.wait("returned", 150), program.story()
    steps = [each["step"] for each in program.told("evaluated")]
    assert steps == sorted(set(steps))
    assert steps[-1] >= 500, program.story()
    assert program.exit(15) == 0, program.story()


@pytest.mark.parametrize("victim", ["worker 0", "chief 0"])
def test_a_killed_task_ends_the_run_with_its_name(run: Any, victim: str) -> None:
    """yahoo/TensorFlowOnSpark #309, #38: a lost task left the rest of the job waiting for ever."""
    program = run("collective", "eager", "no restarts", "long")
    program.wait("first step", 90)
    time.sleep(0.5)
    killed = time.monotonic()
    os.kill(pids(program)[victim], signal.SIGKILL)
    raised = program.wait("raised", 15)
    assert time.monotonic() - killed < 10
    assert "TaskLostError" in (raised["type"], raised["cause"])
    assert victim in raised["text"]
    # The evaluator had 600 s to wait; nothing of that may keep the interpreter.
    assert program.exit(15) == 0, program.story()
    wait_until_gone(pids(program), 10)


@pytest.mark.parametrize("victim", ["agent", "node"])
def test_a_lost_agent_or_node_ends_the_run_with_its_name(victim: str, tmp_path: Path) -> None:
    with LocalCluster(nodes=2, agents=True) as own:
        with contextlib.closing(connect(own.addresses)) as client:
            create_cache(client, "ESTIMATOR", partitions=2)
        program = Program(
            own.addresses[0],
            "ESTIMATOR",
            "collective",
            str(tmp_path / "model"),
            "eager",
            "no restarts",
            "long",
            folder=tmp_path,
        )
        try:
            program.wait("first step", 90)
            node = own.nodes[1]
            if victim == "node":
                node.kill()
            else:
                agents = {task: psutil.Process(pid).parent() for task, pid in pids(program).items()}
                next(one for one in agents.values() if one and node.address in one.cmdline()).kill()
            killed = time.monotonic()
            raised = program.wait("raised", 15)
            assert time.monotonic() - killed < 10
            assert raised["type"] == "TaskLostError"
            assert victim in raised["text"]
            assert str(node.node_id) in raised["text"]
            assert program.exit(20) == 0, program.story()
        finally:
            program.close()


@pytest.mark.parametrize("strategy", ["collective", "parameter_server"])
def test_the_whole_cluster_ends(strategy: str, tmp_path: Path) -> None:
    with LocalCluster(nodes=2, agents=True) as own:
        with contextlib.closing(connect(own.addresses)) as client:
            create_cache(client, "ESTIMATOR", partitions=2)
        model = f"igfs://{own.addresses[0]}/model"
        program = Program(own.addresses[0], "ESTIMATOR", strategy, model, "eager", "long", folder=tmp_path)
        try:
            program.wait("first step", 90)
            time.sleep(1)
            address = own.addresses[0]
            own.close()
            raised = program.wait("raised", 40)
            # A writer of event files may be the first to notice.
            assert raised["type"] == "TaskLostError" or address in raised["text"], program.story()
            assert program.exit(20) == 0, program.story()
        finally:
            program.close()


def test_ctrl_c(run: Any) -> None:
    program = run("collective", "eager", "long")
    program.wait("first step", 90)
    time.sleep(0.5)
    program.process.send_signal(signal.SIGINT)
    assert program.wait("raised", 5)["type"] == "KeyboardInterrupt"
    assert program.exit(15) == 0, program.story()
    wait_until_gone(pids(program), 10)
