"""The life of a job: a pure state machine. Events go in, commands come out; no sockets, no clock.

::

    requested --every port reserved--> starting --every task reached--> running --close--> finished
        |                                 |                                |
        +------- a task, agent or node is lost, time is up ----------------+--> healing (another attempt) or failed
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Union

from ignite_strategy.settings import format_endpoint
from ignite_strategy.topology.assignment import Assignment, TaskKey

__all__ = [
    "AgentLost",
    "CloseWanted",
    "Command",
    "Event",
    "Failure",
    "Job",
    "JobState",
    "Loss",
    "NodeLost",
    "Probe",
    "PublishCluster",
    "ReportFailure",
    "ReportRunning",
    "RequestRefused",
    "StartAttempt",
    "StopTasks",
    "TaskExited",
    "TaskReached",
    "TaskReserved",
    "TaskServing",
    "TimeUp",
]


class JobState(enum.Enum):
    """Where a job is in its life."""

    REQUESTED = "requested"
    STARTING = "starting"
    RUNNING = "running"
    HEALING = "healing"
    FINISHED = "finished"
    FAILED = "failed"


class Loss(enum.Enum):
    """What was lost."""

    TASK = "task"
    AGENT = "agent"
    NODE = "node"
    REFUSED = "refused"
    TIME = "time"


class Failure(NamedTuple):
    """Why a job cannot go on.

    Attributes:
      loss: What was lost.
      node: Id of the node where it was, empty if it is not one node's.
      task: The task, if it was one.
      reason: In words.
    """

    loss: Loss
    node: str
    task: TaskKey | None
    reason: str


# Events. Those of an earlier attempt are ignored.


class TaskReserved(NamedTuple):
    """A task's process holds its port."""

    task: TaskKey
    attempt: int
    host: str
    port: int


class TaskServing(NamedTuple):
    """A task's TensorFlow server runs, it says."""

    task: TaskKey
    attempt: int


class TaskReached(NamedTuple):
    """The client could connect to a task."""

    task: TaskKey
    attempt: int


class TaskExited(NamedTuple):
    """A task's process has ended."""

    task: TaskKey
    attempt: int
    reason: str


class RequestRefused(NamedTuple):
    """An agent does not run what it was asked for."""

    node: str
    attempt: int
    reason: str


class AgentLost(NamedTuple):
    """An agent's lease has ended, or another run of it has taken its place."""

    node: str
    reason: str


class NodeLost(NamedTuple):
    """An Ignite node is no longer in the cluster."""

    node: str
    reason: str


class TimeUp(NamedTuple):
    """The limit for the start has passed."""


class CloseWanted(NamedTuple):
    """The client is done with the job."""


Event = Union[
    TaskReserved,
    TaskServing,
    TaskReached,
    TaskExited,
    RequestRefused,
    AgentLost,
    NodeLost,
    TimeUp,
    CloseWanted,
]


# Commands.


class PublishCluster(NamedTuple):
    """Tell the agents every task's address."""

    attempt: int
    cluster: Mapping[str, list[str]]


class Probe(NamedTuple):
    """Connect to a task, and go on trying."""

    task: TaskKey
    attempt: int
    address: tuple[str, int]


class ReportRunning(NamedTuple):
    """Every task is reachable."""


class ReportFailure(NamedTuple):
    """The job has failed."""

    failure: Failure


class StartAttempt(NamedTuple):
    """Stop what runs of earlier attempts and start every task afresh."""

    attempt: int


class StopTasks(NamedTuple):
    """Stop every task."""


Command = Union[PublishCluster, Probe, ReportRunning, ReportFailure, StartAttempt, StopTasks]


@dataclass
class _Task:
    address: tuple[str, int] | None = None
    serving: bool = False
    reached: bool = False


class Job:
    """A job's state.

    Args:
      assignment: Its tasks.
      attempts: How often its tasks may be started in all. A lost task begins another attempt while there is one left;
        a lost node never does, as the assignment is then another.
    """

    def __init__(self, assignment: Assignment, attempts: int = 1) -> None:
        self.assignment = assignment
        self.state = JobState.REQUESTED
        self.attempt = 1
        self.failure: Failure | None = None
        self._attempts = attempts
        self._tasks = {task.key: _Task() for task in assignment.tasks}

    def handle(self, event: Event) -> list[Command]:
        """Takes one event in and returns what is to be done."""
        if self.state in (JobState.FINISHED, JobState.FAILED):
            return self._close() if isinstance(event, CloseWanted) else []
        if getattr(event, "attempt", self.attempt) != self.attempt:
            return []
        if isinstance(event, TaskReserved):
            return self._reserved(event)
        if isinstance(event, TaskServing):
            return self._serving(event)
        if isinstance(event, TaskReached):
            return self._reached(event)
        if isinstance(event, CloseWanted):
            return self._close()
        return self._lost(event)

    def missing(self) -> list[TaskKey]:
        """The tasks that are not reachable yet, in the assignment's order."""
        return [key for key, task in self._tasks.items() if not task.reached]

    def address(self, task: TaskKey) -> str | None:
        """A task's address, once it is known."""
        found = self._tasks[task].address
        return format_endpoint(found) if found else None

    def cluster(self) -> dict[str, list[str]] | None:
        """Job name -> addresses, once all are known."""
        cluster: dict[str, list[str]] = {}
        for key in self._tasks:
            address = self.address(key)
            if address is None:
                return None
            cluster.setdefault(key.type, []).append(address)
        return cluster

    def _reserved(self, event: TaskReserved) -> list[Command]:
        task = self._tasks.get(event.task)
        if task is None or task.address is not None:
            return []
        task.address = (event.host, event.port)
        cluster = self.cluster()
        if cluster is None:
            return []
        if self.state is JobState.REQUESTED:
            self.state = JobState.STARTING
        return [PublishCluster(self.attempt, cluster)]

    def _serving(self, event: TaskServing) -> list[Command]:
        task = self._tasks.get(event.task)
        if task is None or task.serving or task.address is None:
            return []
        task.serving = True
        return [Probe(event.task, self.attempt, task.address)]

    def _reached(self, event: TaskReached) -> list[Command]:
        task = self._tasks.get(event.task)
        if task is None or not task.serving or task.reached:
            return []
        task.reached = True
        if self.missing():
            return []
        self.state = JobState.RUNNING
        return [ReportRunning()]

    def _lost(self, event: Event) -> list[Command]:
        failure = self._failure_of(event)
        if failure is None:
            return []
        past_start = self.state in (JobState.RUNNING, JobState.HEALING)
        if failure.loss is Loss.TASK and past_start and self.attempt < self._attempts:
            self.attempt += 1
            self.state = JobState.HEALING
            self._tasks = {key: _Task() for key in self._tasks}
            return [StartAttempt(self.attempt)]
        self.state = JobState.FAILED
        self.failure = failure
        return [ReportFailure(failure), StopTasks()]

    def _failure_of(self, event: Event) -> Failure | None:
        if isinstance(event, TaskExited):
            if event.task not in self._tasks:
                return None
            return Failure(Loss.TASK, self.assignment[event.task].node, event.task, event.reason)
        if isinstance(event, TimeUp):
            if self.state is JobState.RUNNING:
                return None
            return Failure(Loss.TIME, "", None, "time is up")
        if isinstance(event, (AgentLost, NodeLost, RequestRefused)):
            if event.node not in self.assignment.nodes:
                return None
            loss = {AgentLost: Loss.AGENT, NodeLost: Loss.NODE, RequestRefused: Loss.REFUSED}[type(event)]
            return Failure(loss, event.node, None, event.reason)
        return None

    def _close(self) -> list[Command]:
        if self.state is JobState.FINISHED:
            return []
        if self.state is not JobState.FAILED:
            self.state = JobState.FINISHED
        return [StopTasks()]
