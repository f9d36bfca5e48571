"""The client's side of a job: asks the agents for tasks, keeps the job's lease, watches, and stops it."""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ignite_strategy.errors import (
    CancelledError,
    ClusterError,
    ClusterTimeoutError,
    ConnectionFailedError,
    IgniteStrategyError,
    PreconditionError,
    TaskLostError,
)
from ignite_strategy.runtime import job as machine
from ignite_strategy.runtime.account import Healing, TaskRecord
from ignite_strategy.runtime.collector import remove_job
from ignite_strategy.runtime.directories import claim, release
from ignite_strategy.runtime.gpus import assign_gpus, taken_gpus
from ignite_strategy.runtime.ports import is_reachable
from ignite_strategy.runtime.records import (
    AGENTS,
    JOBS,
    AgentRecord,
    ClusterRecord,
    JobRecord,
    Request,
    TaskRequest,
    cluster_key,
    request_key,
)
from ignite_strategy.runtime.registry import Lease, open_registry
from ignite_strategy.runtime.view import JobView
from ignite_strategy.runtime.watch import NodeWatch, StatusWatch
from ignite_strategy.settings import Endpoint, Security, ZooKeeper, format_endpoint
from ignite_strategy.topology.assignment import Assignment, TaskKey
from ignite_strategy.topology.nodes import Topology

__all__ = ["JOB_TTL", "JobRunner"]

# Agents stop a job's tasks when its client has been silent for this long. Building a large graph may keep the client's
# threads from running for seconds.
JOB_TTL = 15.0
DIRECTORY_SECONDS = JOB_TTL + 10.0  # the job of a killed client is over by then
_RENEW_SECONDS = 2.0
_START_POLL_SECONDS = 0.1
_POLL_SECONDS = 0.5
_AGENT_SECONDS = 1.0
_NODE_SECONDS = 2.0
_CONTACT_SECONDS = 20.0
_AGENT_GRACE_SECONDS = 10.0
_STOP_SECONDS = 8.0
_log = logging.getLogger(__name__)


def _rank(event: machine.Event) -> int:
    if isinstance(event, machine.NodeLost):
        return 0
    return 1 if isinstance(event, (machine.AgentLost, machine.AgentFound)) else 2


class JobRunner:
    """One job from its request to its end.

    Args:
      job: Its id.
      topology: The nodes, and the cache.
      assignment: Its tasks.
      endpoints: Addresses of Ignite nodes; those of the topology are added.
      environment: Variables for the tasks, of a short list.
      start_timeout: Until every task is reachable.
      security: How this process speaks to Ignite.
      zookeeper: Where it meets the agents, if not in a cache of the cluster.
    """

    def __init__(
        self,
        job: str,
        topology: Topology,
        assignment: Assignment,
        endpoints: Sequence[Endpoint],
        environment: Mapping[str, str] | None = None,
        start_timeout: float = 60.0,
        security: Security | None = None,
        zookeeper: ZooKeeper | None = None,
    ) -> None:
        self.id = job
        self._zookeeper = zookeeper
        self.assignment = assignment
        self.failure: TaskLostError | None = None
        self.out_of_touch = False
        self.healings: list[Healing] = []
        self.topology = topology
        self.directories: list[str] = []
        self._environment = dict(environment or {})
        self._start_timeout = start_timeout
        self._job = machine.Job(assignment)
        self._registry = open_registry(
            [*endpoints, *(e for n in topology.nodes for e in n.endpoints[:1])], zookeeper, security, JOB_TTL
        )
        self._lease: Lease | None = None
        self._view = JobView(topology, assignment, self._job)
        self._nodes = NodeWatch(topology.nodes, assignment.nodes, self._found_nodes, security)
        self._callbacks: list[Callable[[TaskLostError], None]] = []
        self._probes: dict[TaskKey, machine.Probe] = {}
        self._to_start: tuple[float, machine.StartAttempt] | None = None
        self._healing_since = 0.0
        self._changed = threading.Condition()
        self._handling = threading.RLock()
        self._error: IgniteStrategyError | None = None
        self._ending = threading.Event()
        self._closing = False
        self._closed = False
        self._thread: threading.Thread | None = None

    # Starting.

    def start(self) -> None:
        """Requests the tasks and waits until each is reachable.

        Raises:
          PreconditionError: A node has no agent.
          ClusterTimeoutError: Tasks are missing when time is up; it names them and where they were expected.
          TaskLostError: A task, agent or node has ended meanwhile.
        """
        atexit.register(self.close)
        try:
            self._ask()
            self._thread = threading.Thread(target=self._run, name=f"job {self.id}", daemon=True)
            self._thread.start()
            self._wait_until_running()
        except BaseException:
            self.close()
            raise

    def _ask(self) -> None:
        self._until = time.monotonic() + self._start_timeout
        agents = self._find_agents()
        self._view.status = StatusWatch(self._registry, self.id, agents)
        if any(agent.gpus for agent in agents.values()):
            self._view.gpus = assign_gpus(self.assignment, agents, taken_gpus(self._registry))
        self._lease = self._registry.acquire(f"{JOBS}/{self.id}", self._record().to_json(), JOB_TTL)
        self._request()

    def _find_agents(self) -> dict[str, AgentRecord]:
        """The agents of the nodes that are to run tasks; a cluster that is just starting gets a few seconds."""
        until = time.monotonic() + min(_AGENT_GRACE_SECONDS, self._start_timeout)
        while True:
            found = {
                view.key.rpartition("/")[2]: view
                for view in self._registry.leases(AGENTS).values()
                if view.alive
            }
            missing = [node for node in self.assignment.nodes if node not in found]
            if not missing:
                return {node: AgentRecord.from_json(found[node].value) for node in self.assignment.nodes}
            if time.monotonic() > until:
                raise PreconditionError("\n".join(map(self._no_agent, missing)))
            time.sleep(_START_POLL_SECONDS)

    def _no_agent(self, node: str) -> str:
        endpoints = self.topology.node(node).endpoints
        address = format_endpoint(endpoints[0]) if endpoints else "HOST:PORT"
        where = f" --zookeeper {self._zookeeper.hosts}" if self._zookeeper else ""
        return (
            f"no agent runs beside Ignite node {node} ({address}), so it cannot run tasks; "
            f"start one on its host: ignite-strategy agent --node {address}{where}"
        )

    def _request(self) -> None:
        for node in self.assignment.nodes:
            tasks = tuple(self._task_request(share.key) for share in self.assignment.on_node(node))
            request = Request(self.id, self._job.attempt, node, tasks, self._environment)
            self._registry.put(request_key(self.id, node), request.to_json())

    def _task_request(self, key: TaskKey) -> TaskRequest:
        job = self._job
        gpus = self.gpus.get(key, ())
        return TaskRequest(key, self._view.partitions(key), job.attempt_of(key), job.port_for(key), gpus)

    def _record(self) -> JobRecord:
        return JobRecord(
            job=self.id,
            attempt=self._job.attempt,
            nodes=self.assignment.nodes,
            closing=self._closing,
            host=socket.gethostname(),
            pid=os.getpid(),
        )

    def _wait_until_running(self) -> None:
        begun, pause = time.monotonic(), 5.0
        said = begun
        with self._changed:
            while self._job.state is not machine.JobState.RUNNING:
                if self._error is not None:
                    raise self._error
                now = time.monotonic()
                if now - said >= pause:
                    said, pause = now, pause * 2
                    _log.warning("%d s of %d: %s", now - begun, self._start_timeout, self._view.waiting_for())
                # In slices, so that Ctrl-C is served at once.
                self._changed.wait(0.2)

    # The thread that watches.

    def _run(self) -> None:
        due = {"renew": 0.0, "status": 0.0, "agents": 0.0, "nodes": 0.0}
        contact = time.monotonic()
        while not self._ending.is_set():
            try:
                self._turn(due)
                contact = time.monotonic()
                self.out_of_touch = False
            except (ConnectionFailedError, CancelledError) as error:
                self.out_of_touch = isinstance(error, ConnectionFailedError)
                if time.monotonic() - contact > _CONTACT_SECONDS:
                    self._fail_contact(error)
                    return
            except Exception as error:
                # Whatever it is: without this thread nobody keeps the lease or ends the wait for the tasks.
                _log.debug("the watch of job %s", self.id, exc_info=True)
                self._fail_contact(error)
                return
            running = self._job.state in (machine.JobState.RUNNING, machine.JobState.FAILED)
            self._ending.wait(_POLL_SECONDS if running else _START_POLL_SECONDS)

    def _turn(self, due: dict[str, float]) -> None:
        now = time.monotonic()
        assert self._view.status is not None
        assert self._lease is not None

        def is_due(what: str, period: float) -> bool:
            if now < due[what]:
                return False
            due[what] = now + period
            return True

        if is_due("renew", _RENEW_SECONDS) and not self._lease.renew() and not self._closing:
            raise ClusterError(
                f"the lease of job {self.id} was taken for ended: this client was silent for too long"
            )
        self._handle(self._view.status.read())
        if self._to_start is not None and now >= self._to_start[0]:
            attempt, self._to_start = self._to_start[1], None
            self._start_attempt(attempt)
        if is_due("agents", _AGENT_SECONDS):
            self._handle(self._view.status.look_at_agents())
        if is_due("nodes", _NODE_SECONDS):
            self._handle(self._nodes.look())
        for probe in list(self._probes.values()):
            if is_reachable(Endpoint(*probe.address), timeout=0.5) is None:
                self._probes.pop(probe.task, None)
                self._handle([machine.TaskReached(probe.task, probe.attempt)])
        if now > self._until:
            self._handle([machine.TimeUp()])

    def _found_nodes(self, nodes: Sequence[Any]) -> None:
        self._registry.use_endpoints([e for node in nodes for e in node.endpoints[:1]])

    def _handle(self, events: Sequence[machine.Event]) -> None:
        # Nodes and agents first: a task that ended with them is named by the cause.
        for event in sorted(events, key=_rank):
            with self._handling:
                commands = [] if self._closing else self._job.handle(event)
            for command in commands:
                self._do(command)
        if events:
            with self._changed:
                self._changed.notify_all()

    def _do(self, command: machine.Command) -> None:
        if isinstance(command, machine.PublishCluster):
            record = ClusterRecord(command.attempt, command.cluster)
            self._registry.put(cluster_key(self.id), record.to_json())
        elif isinstance(command, machine.Probe):
            self._probes[command.task] = command
        elif isinstance(command, machine.ReportHealing):
            self._report_healing(command)
        elif isinstance(command, machine.StartAttempt):
            self._to_start = (time.monotonic() + command.pause, command)
            self._until = time.monotonic() + command.pause + self._start_timeout
        elif isinstance(command, machine.ReportRunning):
            self._report_running()
        elif isinstance(command, machine.StopTasks):
            self._closing = True
            self._renew_now()
        elif isinstance(command, machine.ReportFailure):
            self._fail(command.failure)

    def _report_healing(self, command: machine.ReportHealing) -> None:
        self._to_start = None
        self._probes.clear()
        self._healing_since = time.monotonic()
        self._until = self._healing_since + self._start_timeout
        self.healings.append(Healing(command.attempt, command.cause.loss.value, command.cause.reason))
        whole = len(command.tasks) == len(self.assignment.tasks)
        _log.warning(
            "job %s: %s. Attempt %d: %s started again",
            self.id,
            command.cause.reason,
            command.attempt,
            "all tasks are" if whole else f"{', '.join(map(str, command.tasks))} is",
        )

    def _start_attempt(self, command: machine.StartAttempt) -> None:
        if command.attempt == self._job.attempt:
            self._request()
            self._renew_now()

    def _report_running(self) -> None:
        if self.healings and self.healings[-1].attempt == self._job.attempt:
            seconds = time.monotonic() - self._healing_since
            self.healings[-1] = replace(self.healings[-1], seconds=seconds)
            _log.warning("job %s: every task can be reached again, %.1f s after the loss", self.id, seconds)

    def _renew_now(self) -> None:
        if self._lease is not None:
            self._lease.renew(self._record().to_json())

    def _fail(self, failure: machine.Failure) -> None:
        if failure.loss is machine.Loss.TIME:
            missing = self._job.missing()
            text = f"the cluster was not ready within {self._start_timeout:.0f} s: {self._view.waiting_for()}"
            self._end_with(ClusterTimeoutError(text, missing))
        elif failure.loss is machine.Loss.REFUSED and self._job.attempt == 1:
            self._end_with(ClusterError(f"the agent of Ignite node {failure.node} refuses: {failure.reason}"))
        else:
            self._end_with(self._view.lost_error(failure))

    def _fail_contact(self, error: Exception) -> None:
        self._end_with(TaskLostError(f"job {self.id} cannot be watched any longer: {error}", kind="node"))

    def _end_with(self, error: IgniteStrategyError) -> None:
        self._error = error
        if isinstance(error, TaskLostError):
            self.failure = error
            _log.error("job %s: %s", self.id, error)
            for callback in list(self._callbacks):
                try:
                    callback(error)
                except Exception:
                    _log.exception("a failure callback of job %s", self.id)
        with self._changed:
            self._changed.notify_all()

    # What others ask.

    @property
    def gpus(self) -> dict[TaskKey, tuple[str, ...]]:
        """The GPUs of each task that has any."""
        return self._view.gpus

    def on_failure(self, callback: Callable[[TaskLostError], None]) -> None:
        """Calls ``callback`` once, from the watching thread, when something is lost; at once if it is already."""
        self._callbacks.append(callback)
        if self.failure is not None:
            callback(self.failure)

    @property
    def attempt(self) -> int:
        """How often the tasks have been started; grows as soon as it is decided that they are started again."""
        return self._job.attempt

    @property
    def is_healing(self) -> bool:
        """Whether something was lost and the tasks of the present attempt are not all reachable yet."""
        return self._job.state is machine.JobState.HEALING

    @property
    def restarts(self) -> int:
        """How many :meth:`allow_restarts` allows."""
        return self._job.restarts

    @property
    def together(self) -> bool:
        """What :meth:`allow_restarts` said."""
        return self._job.together

    def allow_restarts(self, count: int, together: bool = True) -> None:
        """From now on a lost task or agent does not end the job: tasks are started again.

        Args:
          count: How often in a row, without :meth:`note_progress` in between.
          together: Whether all tasks take each step together: then all are started again, else the lost ones alone.
        """
        self._job.restarts, self._job.together = count, together

    def attempts(self) -> dict[tuple[str, int], int]:
        """The attempt that has started each task, or starts it."""
        return {share.key: self._job.attempt_of(share.key) for share in self.assignment.tasks}

    def note_progress(self, attempt: int) -> None:
        """Notes that an attempt has done something that was worth the start of its tasks."""
        with self._handling:
            self._job.handle(machine.Progressed(attempt))

    def claim(self, directory: str) -> None:
        """Notes that this job writes checkpoints to ``directory``, until it ends.

        Raises:
          PreconditionError: Another job does.
        """
        claim(self._registry, self.id, directory, DIRECTORY_SECONDS)
        self.directories.append(directory)

    def cluster(self) -> dict[str, list[str]]:
        """Job name -> addresses.

        Raises:
          PreconditionError: They are not known yet.
        """
        cluster = self._job.cluster()
        if cluster is None:
            raise PreconditionError(f"job {self.id} has not started: {self._view.waiting_for()}")
        return cluster

    def tasks(self) -> list[TaskRecord]:
        """The tasks as last reported, in the assignment's order."""
        return self._view.tasks()

    # Ending.

    def close(self) -> None:
        """Stops the tasks and removes the job from the registry; bounded, in any state, may be called twice."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        self._ending.set()
        try:
            if self._lease is not None and self._watch_has_ended():
                self._stop_job(self._lease)
        except IgniteStrategyError as error:
            _log.warning("job %s is not removed; its agents do that within %d s: %s", self.id, JOB_TTL, error)
        finally:
            self._nodes.close()
            self._registry.close()

    def _watch_has_ended(self) -> bool:
        """Ends the thread that watches; if Ignite does not even answer that one, Ctrl-C must not wait for it either."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(1.0)
        if not thread.is_alive():
            return True
        _log.warning(
            "job %s: Ignite does not answer; the agents stop the tasks within %d s", self.id, JOB_TTL
        )
        self._registry.close()
        thread.join(1.0)
        return False

    def _stop_job(self, lease: Lease) -> None:
        self._registry.timeout = 2.0
        self._closing = True
        if lease.renew(self._record().to_json()):
            until = time.monotonic() + _STOP_SECONDS
            while not self._all_stopped() and time.monotonic() < until:
                time.sleep(0.05)
        remove_job(self._registry, self._record())
        release(self._registry, self.id)
        lease.release()

    def _all_stopped(self) -> bool:
        assert self._view.status is not None
        self._view.status.read()
        agents = self._registry.leases(AGENTS)
        for node in self.assignment.nodes:
            view = agents.get(f"{AGENTS}/{node}")
            status = self._view.status.statuses.get(node)
            if view is None or not view.alive:
                continue  # its tasks ended with it
            if status is None or any(
                task.state not in ("exited", "done", "stopped") for task in status.tasks.values()
            ):
                return False
        return True
