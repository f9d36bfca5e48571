"""The job's state machine, as a table: in this state, this event, these commands and that state."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ignite_strategy.runtime.job import (
    AgentFound,
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
    Progressed,
    PublishCluster,
    ReportFailure,
    ReportHealing,
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
ALL = (CHIEF, WORKER, PS)
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
    job = Job(ASSIGNMENT, restarts=2)
    _feed(job, RUNNING)
    assert job.handle(LOST) == [ReportHealing(2, FAILURE, ALL), StartAttempt(2)]
    assert job.state is JobState.HEALING
    assert job.missing() == [CHIEF, WORKER, PS]
    assert job.cluster() is None
    # The others of the first attempt end as well, and that is no news.
    assert job.handle(TaskExited(CHIEF, 1, "stopped")) == []
    crashed = Failure(Loss.TASK, "a", CHIEF, "crashed")
    assert job.handle(TaskExited(CHIEF, 2, "crashed")) == [
        ReportHealing(3, crashed, ALL),
        StartAttempt(3, 1.0),
    ]
    assert _feed(job, [*_reserve(3), *_serve(3), *_reach(3)])[-1] == ReportRunning()
    assert job.state is JobState.RUNNING
    assert job.handle(TaskExited(WORKER, 3, "x"))[0] == ReportFailure(Failure(Loss.TASK, "b", WORKER, "x"))


def test_progress_makes_all_restarts_available_again_and_their_pauses_short() -> None:
    job = Job(ASSIGNMENT, restarts=3)
    _feed(job, RUNNING)
    pauses = []
    for attempt in range(1, 10):
        *_, start = job.handle(TaskExited(WORKER, attempt, "x"))
        assert isinstance(start, StartAttempt)
        pauses.append(start.pause)
        if attempt % 3 == 0:
            _feed(job, [*_reserve(attempt + 1), *_serve(attempt + 1), *_reach(attempt + 1)])
            assert job.handle(Progressed(attempt)) == []  # of an earlier attempt: late, and no news
            job.handle(Progressed(attempt + 1))
    assert pauses == [0.0, 1.0, 2.0] * 3
    long = Job(ASSIGNMENT, restarts=9)
    _feed(long, RUNNING)
    starts = [long.handle(TaskExited(WORKER, attempt, "x"))[-1] for attempt in range(1, 10)]
    assert max(start.pause for start in starts if isinstance(start, StartAttempt)) == 8.0


def test_a_lost_agent_is_waited_for() -> None:
    job = Job(ASSIGNMENT, restarts=1)
    _feed(job, RUNNING)
    cause = Failure(Loss.AGENT, "b", None, "silent")
    assert job.handle(AgentLost("b", "silent")) == [ReportHealing(2, cause, ALL)]
    assert job.handle(AgentLost("b", "still silent")) == []
    assert job.handle(AgentLost("a", "silent, too")) == []
    assert job.handle(AgentFound("b")) == []
    assert job.handle(AgentFound("b")) == []
    assert job.handle(AgentFound("a")) == [StartAttempt(2)]
    assert job.handle(AgentLost("b", "of before", 1)) == []
    assert _feed(job, [*_reserve(2), *_serve(2), *_reach(2)])[-1] == ReportRunning()
    assert job.handle(AgentFound("a")) == []


def test_a_lost_task_alone() -> None:
    """The others go on, and know its address."""
    job = Job(ASSIGNMENT, restarts=3, together=False)
    _feed(job, RUNNING)
    assert job.handle(LOST) == [ReportHealing(2, FAILURE, (WORKER,)), StartAttempt(2)]
    assert (job.state, job.missing(), job.cluster()) == (JobState.HEALING, [WORKER], None)
    assert [(job.attempt_of(key), job.port_for(key)) for key in ALL] == [(1, 0), (2, 2), (1, 0)]
    # What the others say again is no news; nor is the end of what was lost.
    assert _feed(job, [*_reserve(1), *_serve(1), LOST]) == []
    started = [TaskReserved(WORKER, 2, "h", 2), TaskServing(WORKER, 2), TaskReached(WORKER, 2)]
    assert _feed(job, started) == [PublishCluster(2, CLUSTER), Probe(WORKER, 2, ("h", 2)), ReportRunning()]
    # It did not help.
    again = Failure(Loss.TASK, "b", WORKER, "again")
    assert job.handle(TaskExited(WORKER, 2, "again"))[0] == ReportHealing(3, again, ALL)
    assert [(job.attempt_of(key), job.port_for(key)) for key in ALL] == [(3, 0)] * 3


def test_a_lost_agent_takes_its_tasks_along() -> None:
    job = Job(ASSIGNMENT, restarts=3, together=False)
    _feed(job, RUNNING)
    node = ASSIGNMENT[WORKER].node
    lost = [share.key for share in ASSIGNMENT.on_node(node)]
    report, *rest = job.handle(AgentLost(node, "silent"))
    assert isinstance(report, ReportHealing)
    assert (list(report.tasks), rest) == (lost, [])
    assert job.handle(AgentFound(node)) == [StartAttempt(2)]
    assert [job.attempt_of(key) for key in ALL] == [2 if key in lost else 1 for key in ALL]
    other = next(key for key in ALL if key not in lost)
    # With a second one nothing is left to go on.
    job.handle(AgentLost(node, "silent"))
    job.handle(AgentLost(ASSIGNMENT[other].node, "silent, too"))
    assert len({job.attempt_of(key) for key in ALL}) == 1


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (AgentLost("b", "it is silent"), "it is silent; time was up before b had an agent again"),
        (LOST, "was killed by SIGKILL; time was up before chief 0, ps 0 could be reached again"),
    ],
)
def test_an_attempt_that_takes_too_long_fails_with_what_began_it(event: Event, text: str) -> None:
    job = Job(ASSIGNMENT, restarts=3)
    _feed(job, [*RUNNING, event])
    if event is LOST:
        _feed(job, [*_reserve(2), *_serve(2), TaskReached(WORKER, 2)])
    job.handle(TimeUp())
    assert job.failure is not None
    assert job.failure.reason == text
    assert job.state is JobState.FAILED


def test_a_job_that_never_ran_is_not_tried_again() -> None:
    job = Job(ASSIGNMENT, restarts=2)
    job.handle(LOST)
    assert job.state is JobState.FAILED


def test_a_lost_node_needs_another_assignment() -> None:
    job = Job(ASSIGNMENT, restarts=2)
    _feed(job, [*RUNNING, NodeLost("a", "left")])
    assert job.state is JobState.FAILED
