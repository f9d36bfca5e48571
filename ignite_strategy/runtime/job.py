"""The life of a job: a pure state machine. Events go in, commands come out; no sockets, no clock.

::

    requested --every port reserved--> starting --every task reached--> running --close--> finished
        |                                 |                             |     ^
        |                                 |            a task, an agent |     | every task of the
        |                                 |            is lost          v     | next attempt reached
        |                                 |                             healing
        |                                 |                                |
        +----- anything else is lost, time is up, restarts are used up ----+--> failed
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Union

from ignite_strategy.settings import format_endpoint
from ignite_strategy.topology.assignment import Assignment, TaskKey

__all__ = [
    "AgentFound",
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
    "Progressed",
    "PublishCluster",
    "ReportFailure",
    "ReportHealing",
    "ReportRunning",
    "RequestRefused",
    "StartAttempt",
    "StopTasks",
    "TaskExited",
    "TaskReached",
    "TaskReserved",
    "TaskServing",
    "TimeUp",
    "pause_before",
]


def pause_before(try_in_a_row: int, longest: float) -> float:
    """Seconds to wait before one more of several tries in a row: 0, 1, 2, 4 and so on up to ``longest``."""
    return min(2.0 ** (try_in_a_row - 2), longest) if try_in_a_row > 1 else 0.0


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
    """An agent's lease has ended, or another run of it has taken its place; of an attempt, if it says so itself."""

    node: str
    reason: str
    attempt: int | None = None


class AgentFound(NamedTuple):
    """A lost agent's node has one again."""

    node: str


class NodeLost(NamedTuple):
    """An Ignite node is no longer in the cluster."""

    node: str
    reason: str


class TimeUp(NamedTuple):
    """The limit for the start has passed."""


class Progressed(NamedTuple):
    """The tasks have done something that was worth their start."""

    attempt: int


class CloseWanted(NamedTuple):
    """The client is done with the job."""


Event = Union[
    TaskReserved,
    TaskServing,
    TaskReached,
    TaskExited,
    RequestRefused,
    AgentLost,
    AgentFound,
    NodeLost,
    TimeUp,
    Progressed,
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


class ReportHealing(NamedTuple):
    """Something is lost, and these tasks will be started again."""

    attempt: int
    cause: Failure
    tasks: tuple[TaskKey, ...]


class StartAttempt(NamedTuple):
    """Start the tasks of this attempt, and stop those of earlier ones that they replace, after a pause in seconds."""

    attempt: int
    pause: float = 0.0


class StopTasks(NamedTuple):
    """Stop every task."""


Command = Union[PublishCluster, Probe, ReportRunning, ReportFailure, ReportHealing, StartAttempt, StopTasks]

_LONGEST_PAUSE = 8.0


@dataclass
class _Task:
    attempt: int = 1
    port: int = 0  # where it must listen, if others know its address
    address: tuple[str, int] | None = None
    serving: bool = False
    reached: bool = False


class Job:
    """A job's state.

    What heals is what can be healed with the same assignment: once every task was reached, lost tasks and agents. A
    lost node never heals so, as the assignment is then another. Tasks that take each step together all begin afresh, as
    one that returned alone would upset the others. Of others only the lost ones do, at the addresses that the rest
    knows; all of them when that did not help.

    Args:
      assignment: Its tasks.
      restarts: How often in a row tasks are started again, without :class:`Progressed` in between.
      together: Whether its tasks take each step together.

    Attributes:
      state: Where it is.
      attempt: Counts from 1.
      failure: Why it cannot go on.
      restarts: As given; may be changed at any time.
      together: As given; may be changed at any time.
    """

    def __init__(self, assignment: Assignment, restarts: int = 0, together: bool = True) -> None:
        self.assignment = assignment
        self.together = together
        self.state = JobState.REQUESTED
        self.attempt = 1
        self.failure: Failure | None = None
        self.restarts = restarts
        self._in_a_row = 0
        self._cause: Failure | None = None  # of the attempt that is being made
        self._without_agent: set[str] = set()
        self._tasks = {task.key: _Task() for task in assignment.tasks}

    def handle(self, event: Event) -> list[Command]:
        """Takes one event in and returns what is to be done."""
        if self.state in (JobState.FINISHED, JobState.FAILED):
            return self._close() if isinstance(event, CloseWanted) else []
        if getattr(event, "attempt", None) not in (None, self._attempt_for(event)):
            return []
        if isinstance(event, TaskReserved):
            return self._reserved(event)
        if isinstance(event, TaskServing):
            return self._serving(event)
        if isinstance(event, TaskReached):
            return self._reached(event)
        if isinstance(event, AgentFound):
            return self._found(event)
        if isinstance(event, Progressed):
            self._in_a_row = 0
            return []
        if isinstance(event, CloseWanted):
            return self._close()
        return self._lost(event)

    def _attempt_for(self, event: Event) -> int:
        key = getattr(event, "task", None)
        return self._tasks[key].attempt if key in self._tasks else self.attempt

    def attempt_of(self, task: TaskKey) -> int:
        """The attempt that starts, or has started, a task."""
        return self._tasks[task].attempt

    def port_for(self, task: TaskKey) -> int:
        """The port on which a task must listen, 0 for any."""
        return self._tasks[task].port

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
        self._cause = None
        return [ReportRunning()]

    def _found(self, event: AgentFound) -> list[Command]:
        if event.node not in self._without_agent:
            return []
        self._without_agent.discard(event.node)
        return [] if self._without_agent else [self._start()]

    def _lost(self, event: Event) -> list[Command]:
        failure = self._failure_of(event)
        if failure is None:
            return []
        if not isinstance(event, TimeUp):
            if failure.loss is Loss.AGENT and self._without_agent:
                return self._wait_for(failure.node)
            if self._heals(failure):
                return self._heal(failure)
        self.state = JobState.FAILED
        self.failure = failure
        return [ReportFailure(failure), StopTasks()]

    def _wait_for(self, node: str) -> list[Command]:
        """Waits for one more agent: the attempt has not begun."""
        if node not in self._without_agent:
            self._without_agent.add(node)
            self._tasks = {key: _Task(self.attempt) for key in self._tasks}
        return []

    def _heals(self, failure: Failure) -> bool:
        past_start = self.state in (JobState.RUNNING, JobState.HEALING)
        return past_start and failure.loss in (Loss.TASK, Loss.AGENT) and self._in_a_row < self.restarts

    def _heal(self, failure: Failure) -> list[Command]:
        if failure.loss is Loss.AGENT:
            self._without_agent.add(failure.node)
        self.attempt += 1
        affected = self._affected(failure)
        self._in_a_row += 1
        self._cause = failure
        self.state = JobState.HEALING
        for key, port in affected.items():
            self._tasks[key] = _Task(self.attempt, port)
        commands: list[Command] = [ReportHealing(self.attempt, failure, tuple(affected))]
        return commands if self._without_agent else [*commands, self._start()]

    def _affected(self, failure: Failure) -> dict[TaskKey, int]:
        """The tasks that are started again, and their ports."""
        if self.together or self._in_a_row > 0:
            return dict.fromkeys(self._tasks, 0)
        on_node = [share.key for share in self.assignment.on_node(failure.node)]
        lost = [failure.task] if failure.task is not None else on_node
        return {key: (self._tasks[key].address or ("", 0))[1] for key in lost}

    def _start(self) -> StartAttempt:
        return StartAttempt(self.attempt, pause_before(self._in_a_row, _LONGEST_PAUSE))

    def _failure_of(self, event: Event) -> Failure | None:
        if isinstance(event, TaskExited):
            if event.task not in self._tasks:
                return None
            return Failure(Loss.TASK, self.assignment[event.task].node, event.task, event.reason)
        if isinstance(event, TimeUp):
            if self.state is JobState.RUNNING:
                return None
            if self._cause is not None:
                return self._cause._replace(reason=f"{self._cause.reason}; {self._not_healed()}")
            return Failure(Loss.TIME, "", None, "time is up")
        if isinstance(event, (AgentLost, NodeLost, RequestRefused)):
            if event.node not in self.assignment.nodes:
                return None
            loss = {AgentLost: Loss.AGENT, NodeLost: Loss.NODE, RequestRefused: Loss.REFUSED}[type(event)]
            return Failure(loss, event.node, None, event.reason)
        return None

    def _not_healed(self) -> str:
        if self._without_agent:
            return f"time was up before {', '.join(sorted(self._without_agent))} had an agent again"
        return f"time was up before {', '.join(map(str, self.missing()))} could be reached again"

    def _close(self) -> list[Command]:
        if self.state is JobState.FINISHED:
            return []
        if self.state is not JobState.FAILED:
            self.state = JobState.FINISHED
        return [StopTasks()]
