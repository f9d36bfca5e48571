"""The client's side of programs that are a job's tasks: a job whose requests are signed, and that has an end.

A program that ends with an exit code has decided that; one that was killed, or lost with its agent, is started again,
all of them together. Both may look alike at first: where one is killed, the others' errors may arrive before the news.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ignite_strategy.errors import AuthenticationError, PreconditionError
from ignite_strategy.runtime import job as machine
from ignite_strategy.runtime.records import AGENTS, AgentRecord, Request, TaskStatus, request_key
from ignite_strategy.runtime.runner import JobRunner
from ignite_strategy.runtime.scripts.client import expiry
from ignite_strategy.runtime.scripts.records import Program, RunRequest
from ignite_strategy.runtime.scripts.signing import Key
from ignite_strategy.settings import Endpoint, ZooKeeper
from ignite_strategy.topology.assignment import Assignment, Layout, TaskKey, TaskShare, assign
from ignite_strategy.topology.nodes import Topology

__all__ = ["MODES", "ProgramRunner", "Verdict", "assign_programs", "describe"]

MODES = ("collective", "parameter_server", "coordinator")
# An agent is taken for dead after six seconds; until then an error elsewhere may be a consequence of that.
_BLAME_SECONDS = 8.0
# Between the end of the chief and of those that train with it. Servers, and workers that a coordinator uses, never end.
_LAST_SECONDS = {"collective": 60.0, "parameter_server": 10.0, "coordinator": 0.0}
_EVALUATOR_SECONDS = 120.0  # for the last checkpoint
_PROGRESS_SECONDS = 30.0
_log = logging.getLogger(__name__)


def assign_programs(
    topology: Topology, mode: str, layout: str | int, ps: int | None, balance: str, evaluator: bool = False
) -> Assignment:
    """Which programs there are, and what each reads.

    Args:
      topology: The nodes and the cache.
      mode: ``collective`` (a chief and workers, which all train), ``parameter_server`` (the same and servers) or
        ``coordinator`` (a chief that reads nothing and gives work to workers, and servers).
      layout: As of a resolver.
      ps: Parameter servers; one where they are needed.
      balance: As of a resolver.
      evaluator: Whether there is one, which reads all partitions and is no member of the cluster.
    """
    servers = ps if ps is not None else int(mode != "collective")
    plan = Layout(layout, chief=mode != "coordinator", ps=servers, balance=balance)
    assignment = assign([node.id for node in topology.nodes], topology.primaries, plan)
    tasks = assignment.tasks
    if mode == "coordinator":
        tasks = (TaskShare(TaskKey("chief", 0), assignment.replicas[0].node), *tasks)
    if evaluator:
        last = assignment.replicas[-1].node
        tasks = (*tasks, TaskShare(TaskKey("evaluator", 0), last, tuple(range(assignment.partitions))))
    return Assignment(tasks, assignment.partitions)


@dataclass(frozen=True)
class Verdict:
    """How a run has ended.

    Attributes:
      exit: The exit code of the first program that ended with one, or 0.
      task: That program.
      attempt: When it did.
      reason: What its agent says of that.
    """

    exit: int
    task: TaskKey | None = None
    attempt: int = 0
    reason: str = ""


class ProgramRunner(JobRunner):
    """One run of a program for each task.

    Args:
      job: Its id; the archive is in the registry.
      topology: The nodes, and the cache.
      assignment: The tasks.
      endpoints: Ignite nodes.
      program: What is run.
      key: Signs the requests.
      mode: One of :data:`MODES`.
      restarts: How often in a row all programs are started again.
      start_timeout: Until every program has begun, in seconds.
      zookeeper: Where the agents are met, if not in the cluster.

    Attributes:
      verdict: How it has ended, once it has.
    """

    def __init__(
        self,
        job: str,
        topology: Topology,
        assignment: Assignment,
        endpoints: Sequence[Endpoint],
        program: Program,
        key: Key,
        mode: str,
        restarts: int = 5,
        start_timeout: float = 60.0,
        zookeeper: ZooKeeper | None = None,
    ) -> None:
        super().__init__(
            job, topology, assignment, endpoints, start_timeout=start_timeout, zookeeper=zookeeper
        )
        self.verdict: Verdict | None = None
        self._program = program
        self._key = key
        self._mode = mode
        self._raised: tuple[float, Verdict] | None = None
        self._last_since: float | None = None
        self._began: tuple[int, float] = (0, 0.0)  # an attempt, and since when it has been running
        self.allow_restarts(restarts, together=True)

    def _request(self) -> None:
        agents = self._registry.leases(AGENTS)
        for node in self.assignment.nodes:
            tasks = tuple(self._task_request(share.key) for share in self.assignment.on_node(node))
            request = Request(self.id, self._job.attempt, node, tasks, self._environment)
            view = agents.get(f"{AGENTS}/{node}")
            if view is None:
                continue  # it is missed elsewhere
            agent = self._checked(node, AgentRecord.from_json(view.value))
            signed = RunRequest(
                self.id,
                request.attempt,
                node,
                agent.instance,
                expiry(),
                self._program,
                tuple(request.tasks_to_json()),
                request.environment,
            ).signed(self._key)
            self._registry.put(request_key(self.id, node), replace(request, program=signed).to_json())

    def _checked(self, node: str, agent: AgentRecord) -> AgentRecord:
        who = f"the agent of Ignite node {node} (pid {agent.pid} on {agent.machine})"
        if not agent.scripts:
            raise PreconditionError(f"{who} runs no programs: start it with --allow-scripts --key-file FILE")
        if agent.scripts != self._key.fingerprint:
            raise AuthenticationError(f"{who} has another key than the one given ({self._key.fingerprint})")
        return agent

    # What programs tell.

    def _handle(self, events: Sequence[machine.Event]) -> None:
        super()._handle([event for event in events if not self._has_decided(event)])

    def _do(self, command: machine.Command) -> None:
        if isinstance(command, machine.Probe):
            # A program may do anything before its server listens, and some have none.
            self._handle([machine.TaskReached(command.task, command.attempt)])
        else:
            super()._do(command)

    def _has_decided(self, event: machine.Event) -> bool:
        """Whether this is a program's own end, with an exit code."""
        if not isinstance(event, machine.TaskExited):
            return False
        status = self._view.status_of(event.task)
        if status is None or status.exit is None or status.exit <= 0:
            return False
        if self._raised is None and event.attempt == self._job.attempt_of(event.task):
            self._raised = (time.monotonic(), Verdict(status.exit, event.task, event.attempt, event.reason))
        return True

    def _turn(self, due: dict[str, float]) -> None:
        super()._turn(due)
        now = time.monotonic()
        if self._began[0] != self.attempt or self.is_healing:
            self._began = (self.attempt, now)
            self._last_since = None
            if self._raised is not None and self._raised[1].attempt < self.attempt:
                self._raised = None  # something else was the cause
        elif now - self._began[1] > _PROGRESS_SECONDS:
            self.note_progress(self.attempt)
        if self._raised is not None and now - self._raised[0] > _BLAME_SECONDS:
            self._decide(self._raised[1])
        elif self._is_done(now):
            self._decide(Verdict(0))

    def _is_done(self, now: float) -> bool:
        trainers = [share.key for share in self.assignment.tasks if share.key.type != "ps"]
        done = [key for key in trainers if _is_done(self._view.status_of(key), self._job.attempt_of(key))]
        if trainers[0] not in done:
            return False
        self._last_since = self._last_since or now
        evaluates = any(key.type == "evaluator" for key in set(trainers) - set(done))
        limit = _EVALUATOR_SECONDS if evaluates else _LAST_SECONDS[self._mode]
        return len(done) == len(trainers) or now - self._last_since > limit

    def _decide(self, verdict: Verdict) -> None:
        if self.verdict is None:
            self.verdict = verdict
            self._closing = True  # what ends from now on is meant to
            self._renew_now()

    def log_positions(self) -> Mapping[TaskKey, tuple[str, int]]:
        """Where each program's output is: its node, and its attempt."""
        return {share.key: (share.node, self._job.attempt_of(share.key)) for share in self.assignment.tasks}


def _is_done(status: TaskStatus | None, attempt: int) -> bool:
    return status is not None and status.state == "done" and status.attempt == attempt


def describe(verdict: Verdict, job: str) -> str:
    """What is said of a run that went wrong."""
    task: Any = verdict.task
    reason = (verdict.reason.splitlines() or [""])[0].rstrip(":")
    return f"job {job}: {reason} (all of its output: ignite-strategy logs {job} {task.name})"
