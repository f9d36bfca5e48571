"""Training goes on when a task or an agent ends: all tasks are started again, and resume at the last checkpoint."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ignite_strategy.local import LocalCluster
from ignite_strategy.topology.caches import connect, create_cache
from tests.distributed.conftest import Agents
from tests.distributed.program import Program, tasks, wait_until_gone

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(300)]

SAVED_EVERY = 20  # steps, in the program
_SECONDS = 60.0  # until every worker steps again, on a busy machine; make soak-cluster measures it


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    with LocalCluster(nodes=2) as running:
        with contextlib.closing(connect(running.addresses)) as client:
            create_cache(client, "HEALING", partitions=2)
        agents = Agents(running, tmp_path_factory.mktemp("agents"))
        yield agents
        agents.close()


@pytest.fixture
def start(beside: Agents, tmp_path: Path) -> Iterator[Any]:
    programs: list[Program] = []

    def run(strategy: str, *acts: str, eager: str = "eager") -> Program:
        model = f"igfs:///{tmp_path.name}"
        arguments = [beside.cluster.addresses[0], "HEALING", strategy, model, eager, *acts]
        programs.append(Program(*arguments, folder=tmp_path))
        return programs[-1]

    yield run
    for program in programs:
        program.close()


def trained(program: Program, step: int) -> None:
    while program.wait("evaluated", 120)["step"] < step:
        pass


def resumed(program: Program, after: int, count: int, seconds: float) -> float:
    """Waits until every training task has taken a step again; the time that took."""
    begun, seen = time.monotonic(), set()
    while len(seen) < count:
        found = program.wait("first step", seconds)
        seen.add(found["task"])
        if found["task"] == "chief 0":
            assert found["after"] >= after - SAVED_EVERY, "more than one checkpoint interval is lost"
    return time.monotonic() - begun


def ended_well(program: Program, last: int) -> list[list[Any]]:
    program.wait("returned", 120)
    found = program.wait("healings")["found"]
    steps = [each["step"] for each in program.told("evaluated")]
    assert steps == sorted(set(steps)), "each checkpoint once, in order"
    assert steps[-1] >= last
    assert program.exit(60) == 0, program.story()
    return list(found)


@pytest.mark.parametrize(
    ("strategy", "eager", "victims"),
    [
        ("collective", "eager", ["chief 0"]),
        ("parameter_server", "eager", ["worker 0", "ps 0"]),
    ],
)
def test_killed_tasks(start: Any, beside: Agents, strategy: str, eager: str, victims: list[str]) -> None:
    """yahoo/TensorFlowOnSpark #309, #38: a lost task left the rest of the job waiting for ever."""
    together = strategy == "collective"
    last = (200 if together else 500) * (len(victims) + 1)
    program = start(strategy, f"slowly to {last}", eager=eager)
    trained(program, 40)
    for at, victim in enumerate(victims):
        reached = max(each["step"] for each in program.told("evaluated"))
        running = tasks(beside)
        begun = time.monotonic()
        os.kill(running[victim], signal.SIGKILL)
        resumed(program, reached, 2 if together or victim == "ps 0" else 1, _SECONDS)
        took = time.monotonic() - begun
        print(f"{strategy}: {victim} killed, every worker steps again after {took:.1f} s")
        assert took < _SECONDS
        lost = running if together else {victim: running[victim]}
        wait_until_gone(lost, 30)
        now = tasks(beside)
        assert not set(now.values()) & set(lost.values()), (
            "what takes each step together is started again together"
        )
        assert all(now[name] == pid for name, pid in running.items() if name not in lost)
        trained(program, reached + 90 if at + 1 < len(victims) else last - SAVED_EVERY)
    found = ended_well(program, last)
    assert [kind for kind, _, _ in found] == ["task"] * len(victims)
    for victim, (_, reason, seconds) in zip(victims, found):
        assert victim in reason
        assert "SIGKILL" in reason
        assert 0 < seconds < _SECONDS


def test_a_killed_agent_that_is_started_again(start: Any, beside: Agents) -> None:
    program = start("collective", "slowly to 300")
    trained(program, 40)
    running = tasks(beside)
    beside.processes[1].kill()
    beside.processes[1].wait()
    time.sleep(1)
    begun = time.monotonic()
    beside.start(1)  # as its supervisor would
    resumed(program, 40, 2, _SECONDS)
    print(
        f"an agent killed and started again: every worker steps again {time.monotonic() - begun:.1f} s later"
    )
    wait_until_gone(running, 30)
    ((kind, reason, _),) = ended_well(program, 300)
    assert kind in ("agent", "task")
    assert "agent" in reason


def test_a_task_that_always_dies_ends_the_run(start: Any, beside: Agents) -> None:
    program = start("collective", "slowly to 100000")
    trained(program, 20)
    deadline = time.monotonic() + 120
    while "worker 0" in tasks(beside) or not program.poll("raised"):
        assert time.monotonic() < deadline, program.story()
        with contextlib.suppress(KeyError, ProcessLookupError):
            os.kill(tasks(beside)["worker 0"], signal.SIGKILL)
        time.sleep(0.3)
    raised = program.told("raised")[0]
    assert "TaskLostError" in (raised["type"], raised["cause"])
    assert "worker 0" in raised["text"]
    assert program.exit(60) == 0, program.story()


def test_training_that_stalls(start: Any) -> None:
    program = start("collective", "stalling")
    raised = program.wait("raised", 120)
    assert "StalledError" in (raised["type"], raised["cause"]), program.story()
    assert "for 4 s" in raised["text"]
    assert program.exit(60) == 0, program.story()
