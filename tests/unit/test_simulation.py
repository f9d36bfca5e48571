"""A job's life at scale and through failures, on a virtual clock (see tests/simulated.py)."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from ignite_strategy.topology.assignment import Layout, assign
from tests.simulated import World
from tests.simulated import simulate as simulate  # a fixture


def assert_every_partition_is_read_where_it_is(world: World) -> None:
    topology = world.topology()
    reads: Counter[int] = Counter()
    for name, task in world.serving():
        reads.update(task.partitions)
        assert all(topology.primaries[partition] == name for partition in task.partitions)
    assert reads == Counter(range(world.partitions))


def test_a_thousand_nodes_and_65_000_partitions(simulate: Any) -> None:
    world = simulate(nodes=1_000, partitions=65_000)
    topology = world.topology()
    times = []
    for _ in range(3):
        begun = time.process_time()
        assignment = assign([node.id for node in topology.nodes], topology.primaries, Layout(replicas=1_000))
        times.append(time.process_time() - begun)
    print(f"65,000 partitions are assigned to 1,000 workers in {min(times) * 1000:.0f} ms")
    assert len(assignment.partition_map()) == 65_000
    world.start_job(Layout(replicas="node"), restarts=3)
    print(f"1,000 tasks run after {world.run(world.is_running, 60):.1f} s")
    assert_every_partition_is_read_where_it_is(world)


def test_a_task_ends_in_a_large_job(simulate: Any) -> None:
    world = simulate(nodes=200, partitions=1_024)
    world.start_job(Layout(replicas="node"), restarts=3)
    world.run(world.is_running, 60)
    before = {task.pid for _, task in world.serving()}
    world.random.choice(world.serving())[1].crash()
    world.run(lambda: not world.is_running(), 5)
    print(f"200 tasks run again {world.run(world.is_running, 60):.1f} s after one of them was killed")
    assert not before & {task.pid for _, task in world.serving()}
    assert_every_partition_is_read_where_it_is(world)


def test_the_client_ends(simulate: Any) -> None:
    world = simulate(nodes=20, partitions=64)
    world.start_job(Layout(replicas="node"))
    world.run(world.is_running, 60)
    world.runner = None  # kill -9
    took = world.run(lambda: not any(not task.ended for _, task in world.tasks()), 30)
    print(f"all tasks are gone after {took:.1f} s")
    world.run(lambda: not world.tasks(), 30)
    left = [key for key in world.store._entries if not key.startswith(("agents", "index:agents"))]
    assert left == []


def test_a_lost_node_and_one_that_joins(simulate: Any) -> None:
    world = simulate(nodes=30, partitions=300, backups=1)
    before = world.start_job(Layout(replicas="node"), restarts=3).partition_map()
    world.run(world.is_running, 60)
    world.kill_node("node-0007")
    world.run(lambda: world.runner.failure is not None, 10)
    assert world.runner.failure.kind == "node"
    assert "node-0007" in str(world.runner.failure)
    world.runner.close()
    assignment = world.start_job(Layout(replicas="node"), restarts=3)
    world.run(world.is_running, 60)
    assert_every_partition_is_read_where_it_is(world)
    lost = sum(owners[0] == "node-0007" for owners in world.owners)
    where = {partition: world.owners[partition][0] for partition in before}
    moved = [p for p, key in assignment.partition_map().items() if assignment[key].node != where[p]]
    assert len(moved) == lost, "only the lost share moves"


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_failures_at_random(simulate: Any, seed: int, together: bool) -> None:
    """Whatever ends, and whenever: the job runs again, and every task of it once; or it fails and says why."""
    world = simulate(nodes=12, partitions=48, seed=seed)
    world.start_job(Layout(replicas="node", ps=2), restarts=4, together=together)
    world.run(world.is_running, 60)
    down: dict[str, float] = {}
    for _ in range(300):
        if world.random.random() < 0.04 and world.serving():
            world.random.choice(world.serving())[1].crash()
        if world.random.random() < 0.015 and len(world.agents) > 1:
            name = world.random.choice(sorted(world.agents))
            world.kill_agent(name)
            down[name] = world.clock.now + world.random.uniform(0.2, 8.0)
        for name, back in list(down.items()):
            if world.clock.now >= back:
                world.start_agent(name)
                del down[name]
        if world.is_running() and world.random.random() < 0.3:
            world.runner.note_progress(world.runner.attempt)
        world.tick()
        keys = Counter(task.key for _, task in world.serving() if task.attempt == world.runner.attempt)
        assert not [key for key, count in keys.items() if count > 1]
        if world.runner.failure is not None:
            break
    for name in list(down):
        world.start_agent(name)
    for _ in range(20):
        world.tick()  # until what ended last has been noticed
    if world.runner.failure is None:
        world.run(lambda: world.is_running() or world.runner.failure is not None, 120)
    if world.runner.failure is None:
        attempts = world.runner.attempts()
        assert {task.key: task.attempt for _, task in world.serving()} == attempts
        assert_every_partition_is_read_where_it_is(world)
    else:
        assert str(world.runner.failure).startswith(("worker", "chief", "ps", "the agent"))
    print(f"{world.runner.attempt} attempts, {world.runner.failure}")
