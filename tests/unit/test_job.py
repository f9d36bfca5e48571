"""The job's state machine, as a table: in this state, this event, these commands and that state."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ignite_strategy.runtime.job import (
    AgentLost,
    CloseWanted,
    Command,
    Event,
    Failure,
    Job,
    JobState,
    Loss,
    NodeLost,
    Probe,
    PublishCluster,
    ReportFailure,
    ReportRunning,
    RequestRefused,
    StartAttempt,
    StopTasks,
    TaskExited,
    TaskReached,
    TaskReserved,
    TaskServing,
    TimeUp,
)
from ignite_strategy.topology.assignment import Layout, TaskKey, assign

CHIEF, WORKER, PS = TaskKey("chief", 0), TaskKey("worker", 0), TaskKey("ps", 0)
ASSIGNMENT = assign(["a", "b"], ["a", "b"], Layout(ps=1))
PORTS = {CHIEF: 1, WORKER: 2, PS: 3}
CLUSTER = {"chief": ["h:1"], "worker": ["h:2"], "ps": ["h:3"]}


def _reserve(attempt: int = 1) -> list[Event]:
    return [TaskReserved(key, attempt, "h", port) for key, port in PORTS.items()]


def _serve(attempt: int = 1) -> list[Event]:
    return [TaskServing(key, attempt) for key in PORTS]


def _reach(attempt: int = 1) -> list[Event]:
    return [TaskReached(key, attempt) for key in PORTS]


STARTED = [*_reserve(), *_serve()]
RUNNING = [*STARTED, *_reach()]
LOST = TaskExited(WORKER, 1, "was killed by SIGKILL")
FAILURE = Failure(Loss.TASK, "b", WORKER, "was killed by SIGKILL")


def _feed(job: Job, events: Sequence[Event]) -> list[Command]:
    return [command for event in events for command in job.handle(event)]


@pytest.mark.parametrize(
    ("before", "event", "commands", "state"),
    [
        # Starting.
        ([], _reserve()[0], [], JobState.REQUESTED),
        (_reserve()[:2], _reserve()[2], [PublishCluster(1, CLUSTER)], JobState.STARTING),
        (_reserve()[:2], _reserve()[1], [], JobState.REQUESTED),
        ([], TaskServing(CHIEF, 1), [], JobState.REQUESTED),
        (_reserve(), TaskServing(CHIEF, 1), [Probe(CHIEF, 1, ("h", 1))], JobState.STARTING),
        ([*_reserve(), TaskServing(CHIEF, 1)], TaskServing(CHIEF, 1), [], JobState.STARTING),
        (_reserve(), TaskReached(CHIEF, 1), [], JobState.STARTING),
        ([*STARTED, *_reach()[:2]], TaskReached(PS, 1), [ReportRunning()], JobState.RUNNING),
        (RUNNING, TaskReached(PS, 1), [], JobState.RUNNING),
        ([], TaskReserved(TaskKey("worker", 7), 1, "h", 9), [], JobState.REQUESTED),
        # Losses, in every stage.
        ([], LOST, [ReportFailure(FAILURE), StopTasks()], JobState.FAILED),
        (STARTED, LOST, [ReportFailure(FAILURE), StopTasks()], JobState.FAILED),
        (RUNNING, LOST, [ReportFailure(FAILURE), StopTasks()], JobState.FAILED),
        (
            RUNNING,
            NodeLost("a", "left"),
            [ReportFailure(Failure(Loss.NODE, "a", None, "left")), StopTasks()],
            JobState.FAILED,
        ),
        (
            RUNNING,
            AgentLost("b", "silent"),
            [ReportFailure(Failure(Loss.AGENT, "b", None, "silent")), StopTasks()],
            JobState.FAILED,
        ),
        (
            [],
            RequestRefused("b", 1, "no"),
            [ReportFailure(Failure(Loss.REFUSED, "b", None, "no")), StopTasks()],
            JobState.FAILED,
        ),
        (RUNNING, NodeLost("z", "left"), [], JobState.RUNNING),
        (RUNNING, AgentLost("z", "left"), [], JobState.RUNNING),
        (RUNNING, TaskExited(TaskKey("worker", 7), 1, "?"), [], JobState.RUNNING),
        (
            STARTED,
            TimeUp(),
            [ReportFailure(Failure(Loss.TIME, "", None, "time is up")), StopTasks()],
            JobState.FAILED,
        ),
        (RUNNING, TimeUp(), [], JobState.RUNNING),
        # What another attempt says does not count.
        (RUNNING, TaskExited(WORKER, 0, "?"), [], JobState.RUNNING),
        ([], TaskReserved(CHIEF, 2, "h", 1), [], JobState.REQUESTED),
        # The end.
        ([], CloseWanted(), [StopTasks()], JobState.FINISHED),
        (RUNNING, CloseWanted(), [StopTasks()], JobState.FINISHED),
        ([*RUNNING, CloseWanted()], CloseWanted(), [], JobState.FINISHED),
        ([*RUNNING, CloseWanted()], LOST, [], JobState.FINISHED),
        ([*RUNNING, LOST], NodeLost("a", "left"), [], JobState.FAILED),
        ([*RUNNING, LOST], CloseWanted(), [StopTasks()], JobState.FAILED),
    ],
)
def test_table(before: list[Event], event: Event, commands: list[Command], state: JobState) -> None:
    job = Job(ASSIGNMENT)
    _feed(job, before)
    assert job.handle(event) == commands
    assert job.state is state


def test_the_first_failure_is_the_one_that_counts() -> None:
    job = Job(ASSIGNMENT)
    _feed(job, [*RUNNING, LOST, NodeLost("a", "left")])
    assert job.failure == FAILURE


def test_missing_tasks_in_order() -> None:
    job = Job(ASSIGNMENT)
    assert job.missing() == [CHIEF, WORKER, PS]
    _feed(job, [*STARTED, TaskReached(WORKER, 1)])
    assert job.missing() == [CHIEF, PS]


def test_addresses_with_ipv6() -> None:
    job = Job(ASSIGNMENT)
    assert (job.address(CHIEF), job.cluster()) == (None, None)
    _feed(job, [TaskReserved(key, 1, "fd00::5", port) for key, port in PORTS.items()])
    assert job.address(CHIEF) == "[fd00::5]:1"


def test_another_attempt_while_there_is_one_left() -> None:
    job = Job(ASSIGNMENT, attempts=3)
    _feed(job, RUNNING)
    assert job.handle(LOST) == [StartAttempt(2)]
    assert job.state is JobState.HEALING
    assert job.missing() == [CHIEF, WORKER, PS]
    # The others of the first attempt end as well, and that is no news.
    assert job.handle(TaskExited(CHIEF, 1, "stopped")) == []
    assert job.handle(TaskExited(CHIEF, 2, "crashed")) == [StartAttempt(3)]
    assert _feed(job, [*_reserve(3), *_serve(3), *_reach(3)])[-1] == ReportRunning()
    assert job.state is JobState.RUNNING
    assert job.handle(TaskExited(WORKER, 3, "x"))[0] == ReportFailure(Failure(Loss.TASK, "b", WORKER, "x"))


def test_a_job_that_never_ran_is_not_tried_again() -> None:
    job = Job(ASSIGNMENT, attempts=3)
    job.handle(LOST)
    assert job.state is JobState.FAILED


def test_a_lost_node_needs_another_assignment() -> None:
    job = Job(ASSIGNMENT, attempts=3)
    _feed(job, [*RUNNING, NodeLost("a", "left")])
    assert job.state is JobState.FAILED
