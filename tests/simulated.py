"""A cluster on a virtual clock: the shipped assignment, agents' sessions, job runner and registry; no process, no port.

What is simulated is what they stand on: Ignite's view of its nodes, TensorFlow's processes, and the passing of time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ignite_strategy.errors import IgniteStrategyError
from ignite_strategy.runtime import agent, agent_jobs, runner, watch
from ignite_strategy.runtime.records import TaskRequest, TaskStatus
from ignite_strategy.runtime.registry import Lease, MemoryRegistry
from ignite_strategy.settings import Endpoint
from ignite_strategy.topology.assignment import Layout, TaskKey, assign
from ignite_strategy.topology.nodes import Node, Topology

__all__ = ["World", "simulate"]

CACHE = "SIMULATED"
TICK = 0.5


class Clock:
    """In place of the module ``time``."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Task:
    """In place of a task's process: takes its time to load, serves when told, and can be killed."""

    world: World

    def __init__(self, job: str, request: TaskRequest, environment: Any, folder: Path) -> None:
        self.key, self.attempt, self.log = request.key, request.attempt, folder / "log"
        self.partitions = request.partitions.get(CACHE, ())
        self.port = request.port or self.world.next_port()
        self.pid = self.port
        self.state = "starting"
        self._loaded_at = self.world.clock.now + self.world.random.uniform(2.0, 5.0)
        self.told = False
        self._error = ""
        self.world.by_port[self.port] = self

    @property
    def ended(self) -> bool:
        return self.state in ("exited", "stopped")

    @property
    def serving(self) -> bool:
        return self.state == "serving"

    def fileno(self) -> int:
        raise AssertionError("nobody selects here")

    def status(self) -> TaskStatus:
        return TaskStatus(self.state, self.port, self.pid, error=self._error, attempt=self.attempt)

    def serve(self, cluster: Any) -> None:
        self.told = self.told or self.state in ("reserved", "loaded")

    def stop(self) -> None:
        self._end("stopped")

    kill = stop

    def crash(self) -> None:
        self._error = "was killed by SIGKILL"
        self._end("exited")

    def _end(self, state: str) -> None:
        if not self.ended:
            self.state = state

    def pump(self) -> bool:
        before = self.state
        if not self.ended:
            if self.state == "starting":
                self.state = "reserved"
            elif self.state == "reserved" and self.world.clock.now >= self._loaded_at:
                self.state = "loaded"
            elif self.state == "loaded" and self.told:
                self.state = "serving"
        return before != self.state


@dataclass
class Beside:
    """An agent: its session, driven by the world's ticks."""

    session: Any
    lease: Lease
    last_renewed: float = 0.0

    def tick(self, now: float) -> None:
        if now - self.last_renewed >= 1.0:
            self.last_renewed = now
            self.session._keep_alive()
        self.session._poll()
        for job in self.session._jobs.values():
            job.pump()

    @property
    def tasks(self) -> dict[TaskKey, Task]:
        return {key: task for job in self.session._jobs.values() for key, task in job.tasks.items()}


@dataclass
class World:
    """Nodes with owners of partitions, agents, and one client's job at a time."""

    folder: Path
    nodes: list[str]
    partitions: int
    backups: int = 1
    seed: int = 0
    clock: Clock = field(default_factory=Clock)
    agents: dict[str, Beside] = field(default_factory=dict)
    by_port: dict[int, Task] = field(default_factory=dict)
    runner: Any = None

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.store = MemoryRegistry(self.clock.monotonic)
        self.everyone = {name: Node(name, ("10.0.0.1",), 10800) for name in self.nodes}
        self.alive = set(self.nodes)
        self.owners = [self.random.sample(self.nodes, self.backups + 1) for _ in range(self.partitions)]
        self._ports = 20_000
        self._listed: list[Node] = []
        self._due: dict[str, float] = {}

    def next_port(self) -> int:
        self._ports = self._ports + 1 if self._ports < 65_000 else 20_001
        return self._ports

    # What the shipped code asks.

    def listed(self) -> tuple[int, list[Node]]:
        if len(self._listed) != len(self.alive):
            self._listed = [self.everyone[name] for name in sorted(self.alive)]
        return 2 * len(self.everyone) - len(self.alive), self._listed

    def registry(self) -> MemoryRegistry:
        return MemoryRegistry(self.clock.monotonic, shared=self.store)

    def is_reachable(self, endpoint: Endpoint, timeout: float) -> str | None:
        task = self.by_port.get(endpoint.port)
        return None if task is not None and task.serving else "Connection refused"

    # Agents and nodes.

    def start_agent(self, name: str) -> None:
        registry = self.registry()
        shipped = agent.Agent(Endpoint("127.0.0.1", 10800), self.folder)
        lease = shipped._register(registry, self.everyone[name], name)
        session = agent._Session(registry, lease, None, self.everyone[name], name, shipped)  # type: ignore[arg-type]
        self.agents[name] = Beside(session, lease)

    def kill_agent(self, name: str) -> None:
        for task in self.agents.pop(name).tasks.values():
            task.state = "stopped"  # with nobody to say so

    def kill_node(self, name: str) -> None:
        self.alive.discard(name)
        self.kill_agent(name)

    def tasks(self) -> list[tuple[str, Task]]:
        return [(name, task) for name, beside in self.agents.items() for task in beside.tasks.values()]

    def serving(self) -> list[tuple[str, Task]]:
        return [(name, task) for name, task in self.tasks() if task.serving]

    # The client.

    def topology(self) -> Topology:
        _, nodes = self.listed()
        primaries = [next((name for name in owners if name in self.alive), None) for owners in self.owners]
        return Topology(len(self.everyone), tuple(nodes), CACHE, tuple(primaries))

    def start_job(self, layout: Layout, restarts: int = 0, together: bool = True) -> Any:
        topology = self.topology()
        assignment = assign([node.id for node in topology.nodes], topology.primaries, layout)
        self.runner = runner.JobRunner(f"job-{self.clock.now:.0f}", topology, assignment, [])
        self.runner._ask()
        self.runner.allow_restarts(restarts, together)
        self._due = dict.fromkeys(("renew", "status", "agents", "nodes"), 0.0)
        return assignment

    def tick(self) -> None:
        self.clock.now += TICK
        for name, beside in list(self.agents.items()):
            try:
                beside.tick(self.clock.now)
            except IgniteStrategyError:  # as Agent.run: the session ends, and another begins
                self.kill_agent(name)
                self.start_agent(name)
        if self.runner is not None and self.runner._error is None:
            self.runner._turn(self._due)

    def run(self, until: Any, seconds: float) -> float:
        """Ticks until something is so; the seconds of the virtual clock that it took."""
        begun = self.clock.now
        while not until():
            assert self.clock.now - begun < seconds, f"not within {seconds} s"
            self.tick()
        return self.clock.now - begun

    def is_running(self) -> bool:
        return self.runner._job.state.value == "running"


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Makes a world."""

    def make(nodes: int, partitions: int, backups: int = 1, seed: int = 0) -> World:
        world = World(tmp_path, [f"node-{n:04}" for n in range(nodes)], partitions, backups, seed)
        for module in (agent, agent_jobs, runner, watch):
            monkeypatch.setattr(module, "time", world.clock)
        kind = type("SimulatedTask", (Task,), {"world": world})
        monkeypatch.setattr(agent_jobs, "TaskProcess", kind)
        monkeypatch.setattr(agent_jobs, "task_environment", lambda *_: {})
        monkeypatch.setattr(agent, "list_nodes", lambda _: world.listed())
        monkeypatch.setattr(agent, "is_running", lambda *_: False)
        monkeypatch.setattr(watch, "list_nodes", lambda _: world.listed())
        monkeypatch.setattr(watch, "connect", lambda *_, **__: _Connection())
        monkeypatch.setattr(watch, "is_reachable", world.is_reachable)
        monkeypatch.setattr(runner, "is_reachable", world.is_reachable)
        monkeypatch.setattr(runner, "open_registry", lambda *_: world.registry())
        for name in world.nodes:
            world.start_agent(name)
        return world

    return make


class _Connection:
    def close(self) -> None:
        pass
