"""What changes while a program trains: its client dies, nodes join and leave, one takes the only copy of rows along.

The tests are in an order: each finds the cluster as the one before has left it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ignite_strategy.errors import IgniteStrategyError
from ignite_strategy.local import LocalCluster
from ignite_strategy.settings import parse_endpoints
from ignite_strategy.topology.caches import connect, create_cache, put_values
from ignite_strategy.topology.overview import JobView, Observer, Overview
from ignite_strategy.topology.ranges import format_ranges
from tests.distributed.program import Program, wait_until_gone

pytestmark = [pytest.mark.distributed, pytest.mark.integration, pytest.mark.timeout(300)]

SAVED_EVERY = 20  # steps, in the program


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two nodes with agents, and a third one that has left and may come back; its agent waits for it."""
    with LocalCluster(nodes=3, agents=True) as running:
        running.nodes[2].kill()
        _until(lambda: len(_look(running).nodes) == 2, "the third node has left")
        _fill(running, "COPIED", backups=1)
        yield running


def _fill(cluster: LocalCluster, name: str, backups: int) -> None:
    addresses = [node.address for node in cluster.nodes if node.running]
    with contextlib.closing(connect(addresses)) as client:
        create_cache(client, name, partitions=3, backups=backups)
        put_values(client, name, {at: float(at % 7) for at in range(90)})


@pytest.fixture
def start(cluster: LocalCluster, tmp_path: Path) -> Iterator[Any]:
    programs: list[Program] = []

    def run(cache: str, act: str) -> Program:
        folder = tmp_path / str(len(programs))
        folder.mkdir()
        model = f"igfs:///{tmp_path.name}"
        address = next(node.address for node in cluster.nodes if node.running)
        programs.append(Program(address, cache, "collective", model, "eager", act, folder=folder))
        return programs[-1]

    yield run
    for program in programs:
        program.close()


def _until(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(IgniteStrategyError):  # nodes that come and go
            if found := condition():
                return found
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.2)


def _look(cluster: LocalCluster, *caches: str) -> Overview:
    with Observer(parse_endpoints([node.address for node in cluster.nodes if node.running])) as observer:
        return observer.look(caches)


def _job(cluster: LocalCluster) -> JobView | None:
    return next((job for job in _look(cluster).jobs if job.state == "running"), None)


def _trained(program: Program, step: int) -> int:
    while (reached := program.wait("evaluated", 60)["step"]) < step:
        pass
    return int(reached)


def test_the_client_dies_and_the_same_script_resumes(cluster: LocalCluster, start: Any) -> None:
    first = start("COPIED", "rows anew to 100000")
    reached = _trained(first, 2 * SAVED_EVERY)
    tasks = dict(first.told("running")[0]["tasks"])
    assert all(psutil.pid_exists(pid) for pid in tasks.values())
    first.process.send_signal(signal.SIGKILL)
    begun = time.monotonic()
    wait_until_gone(tasks, 30)
    print(f"the client killed: its tasks are gone after {time.monotonic() - begun:.1f} s")
    last = reached + 3 * SAVED_EVERY
    again = start("COPIED", f"rows anew to {last}")
    assert again.wait("first step", 90)["after"] >= reached
    assert again.wait("returned", 60)["metrics"]["global_step"] >= last
    assert again.exit(20) == 0, again.story()


def _stepping(program: Program, count: int, after: int) -> float:
    """Waits until so many tasks have taken a step again; the time that took."""
    begun, seen = time.monotonic(), set()
    while len(seen) < count:
        found = program.wait("first step", 90)
        seen.add(found["task"])
        assert found["after"] >= after - SAVED_EVERY, "more than one checkpoint interval is lost"
    return time.monotonic() - begun


def _reads_where_rows_are(cluster: LocalCluster, nodes: int) -> None:
    job = _until(lambda: _job(cluster), "the job is seen")
    primaries = _look(cluster, "COPIED").caches[0].primaries
    assert len(job.tasks) == len(set(primaries)) == nodes
    assert {p: task.node for p, task in job.readers_of("COPIED").items()} == dict(enumerate(primaries))


def test_a_node_joins_and_another_leaves(cluster: LocalCluster, start: Any) -> None:
    """Nothing restarts for one that joins; when all tasks start again anyway, its partitions are its task's.

    The one that leaves is the one that the resolver was given.
    """
    program = start("COPIED", "rows anew to 100000")
    reached = _trained(program, 2 * SAVED_EVERY)
    before = _until(lambda: _job(cluster), "the job is seen")
    assert len(before.tasks) == 2
    cluster.nodes[2].restart()
    node = str(cluster.nodes[2].node_id)

    def takes_part() -> bool:
        seen = _look(cluster, "COPIED")
        return node in seen.agents and bool(seen.caches[0].partitions_of(node))

    _until(takes_part, "the node has an agent and partitions")
    program.poll("evaluated")
    reached = _trained(program, max(each["step"] for each in program.told("evaluated")) + 3 * SAVED_EVERY)
    after = _job(cluster)
    assert after is not None
    assert (after.id, [task.pid for task in after.tasks]) == (before.id, [task.pid for task in before.tasks])
    assert len(program.told("first step")) == 2, "no session was made again"

    os.kill(after.tasks[1].pid, signal.SIGKILL)
    print(f"every task of the next attempt steps after {_stepping(program, 3, reached):.1f} s")
    _reads_where_rows_are(cluster, 3)

    reached = _trained(program, reached + 2 * SAVED_EVERY)
    cluster.nodes[0].kill()
    took = _stepping(program, 2, reached)
    print(f"a node killed: every task of the new job steps after {took:.1f} s")
    assert took < 60
    _reads_where_rows_are(cluster, 2)
    steps = [each["step"] for each in program.told("evaluated")]
    assert steps == sorted(set(steps)), "each checkpoint once, in order"


def test_a_node_takes_the_only_copy_along(cluster: LocalCluster, start: Any) -> None:
    _fill(cluster, "SINGLE", backups=0)
    program = start("SINGLE", "rows anew to 100000")
    _trained(program, SAVED_EVERY)
    victim = cluster.nodes[2]
    node = str(victim.node_id)
    lost = _look(cluster, "SINGLE").caches[0].partitions_of(node)
    assert lost
    victim.kill()
    begun = time.monotonic()
    raised = program.wait("raised", 120)
    print(f"a node took rows along: {raised['type']} after {time.monotonic() - begun:.1f} s")
    assert "'SINGLE' has lost partitions " + format_ranges(lost) in raised["text"]
    assert node in raised["text"]
    assert program.exit(20) == 0, program.story()
