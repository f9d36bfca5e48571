"""The agent: runs beside one Ignite node, and starts, watches and stops TensorFlow tasks for it.

It registers the node's id with a lease, looks for requests, and obeys only data of a fixed form: it starts nothing but
``ignite_strategy.runtime.task``, and users' scripts only if it has a key with which the request is signed. When its
node goes it stops its tasks and waits for the node to come back.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import selectors
import signal
import socket
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from ignite_strategy import __version__
from ignite_strategy.errors import (
    AlreadyExistsError,
    AuthenticationError,
    CancelledError,
    IgniteStrategyError,
    InvalidArgumentError,
    PreconditionError,
    UnsupportedError,
)
from ignite_strategy.runtime.agent_jobs import AgentJob, keep_newest, refuse, was_started_before
from ignite_strategy.runtime.collector import collect_job, remove_part
from ignite_strategy.runtime.gpus import find_gpus
from ignite_strategy.runtime.janitor import Janitor
from ignite_strategy.runtime.logs import LogServer
from ignite_strategy.runtime.processes import die_with_parent, is_running, start_ticks
from ignite_strategy.runtime.records import AGENTS, JOBS, AgentRecord, JobRecord, Request, request_key
from ignite_strategy.runtime.registry import Lease, LeaseView, Registry, Value, open_registry
from ignite_strategy.runtime.registry.zookeeper import check
from ignite_strategy.runtime.scripts.agent import AgentScripts
from ignite_strategy.runtime.scripts.hosted import HostedScript
from ignite_strategy.runtime.scripts.signing import Key, Notary, read_key
from ignite_strategy.runtime.supervisor import TaskProcess
from ignite_strategy.settings import Endpoint, Timeouts, ZooKeeper, parse_endpoint
from ignite_strategy.topology.address import advertise_address
from ignite_strategy.topology.nodes import Caller, Node, connect, list_nodes

__all__ = ["AGENT_TTL", "Agent", "main"]

# Three renewals may be missed; whoever watches notices a dead agent after this time.
AGENT_TTL = 6.0
_POLL_SECONDS = 0.15
_RENEW_SECONDS = 1.0
_SECONDS_PER_NODE = 0.1
_STOP_SECONDS = 4.0
_log = logging.getLogger(__name__)


class Agent:
    """The agent of one node.

    Args:
      node: Address of its Ignite node.
      folder: Where logs go; created, for this user only.
      advertise: Address under which the tasks are reached, if the node's own addresses are not right.
      tend_every: How often file systems are looked through for what nobody needs any more, in seconds.
      zookeeper: Where it meets its clients, if not in a cache of the cluster.
      gpus: The GPUs that its tasks may use.
      key: Requests to run users' scripts are signed with it; without one there are none.
    """

    def __init__(
        self,
        node: Endpoint,
        folder: Path,
        advertise: str | None = None,
        tend_every: float = 30.0,
        zookeeper: ZooKeeper | None = None,
        gpus: tuple[str, ...] = (),
        key: Key | None = None,
    ) -> None:
        self._gpus = gpus
        self._key = key
        self._endpoint = node
        self._zookeeper = zookeeper
        self._folder = folder
        self._advertise = advertise
        self._tend_every = tend_every
        self._instance = uuid.uuid4().hex
        # It remembers what was served for as long as the instance lives, whatever becomes of the node.
        self._notary = Notary(key, self._instance) if key else None
        self._stop = threading.Event()
        self._has_served = False

    def stop(self, *_: object) -> None:
        """Makes :meth:`run` stop its tasks and return; fit for a signal handler."""
        self._stop.set()

    def run(self) -> None:
        """Serves the node until :meth:`stop`; waits for it, with back-off, while it is not there."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        pause, said = 0.5, 0.0
        while not self._stop.is_set():
            try:
                self._serve()
                pause = 0.5
            except IgniteStrategyError as error:
                if self._stop.is_set():
                    break
                if (
                    isinstance(error, (UnsupportedError, InvalidArgumentError, AuthenticationError))
                    and not self._has_served
                ):
                    raise  # waiting would not help
                if time.monotonic() - said > 10:
                    _log.warning("waiting for Ignite node %s: %s", self._endpoint, error)
                    said = time.monotonic()
                self._stop.wait(pause)
                pause = min(pause * 2, 5.0)

    def _serve(self) -> None:
        with _Connected(self._endpoint) as (connection, node, others):
            host = advertise_address(node.addresses, configured=self._advertise)
            endpoints = [self._endpoint, *(e for other in others for e in other.endpoints[:1])]
            registry = open_registry(endpoints, self._zookeeper, ttl=AGENT_TTL)
            with registry:
                lease = self._register(registry, node, host)
                print(f"agent of Ignite node {node.id} ready: {self._endpoint}, tasks at {host}", flush=True)
                self._has_served = True
                session = _Session(registry, lease, connection, node, host, self)
                with Janitor(self._endpoint, self._tend_every):
                    try:
                        session.loop()
                    finally:
                        session.close()

    def _register(self, registry: Registry, node: Node, host: str) -> Lease:
        pid = os.getpid()
        record = AgentRecord(
            node=node.id,
            host=host,
            pid=pid,
            started=start_ticks(pid) or 0,
            machine=socket.gethostname(),
            instance=self._instance,
            version=__version__,
            gpus=self._gpus,
            scripts=self._key.fingerprint if self._key else "",
        )
        key = f"{AGENTS}/{node.id}"
        for _ in range(round(3 * AGENT_TTL / 0.5)):
            before = registry.get(key)
            if before is not None and _is_gone(AgentRecord.from_json(before), record):
                registry.delete(key)
            try:
                return registry.acquire(key, record.to_json(), AGENT_TTL)
            except AlreadyExistsError as error:
                problem = error
            if self._stop.wait(0.5):
                raise CancelledError("the agent was stopped before it could register")
        raise PreconditionError(f"node {node.id} has another agent already: {problem}")


def _is_gone(other: AgentRecord, me: AgentRecord) -> bool:
    """A predecessor on this very host whose process has ended: no need to wait for its lease."""
    return other.machine == me.machine and not is_running(other.pid, other.started)


class _Connected:
    """A native connection to the node, its own entry of the node list, and the other nodes."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def __enter__(self) -> tuple[Caller, Node, list[Node]]:
        self._connection = connect([self._endpoint], Timeouts(connect=5.0, request=10.0))
        try:
            _, nodes = list_nodes(self._connection)
            mine = [node for node in nodes if node.id == self._connection.node_id]
            if not mine:
                raise UnsupportedError(f"{self._endpoint}: the server does not tell its node id")
            return self._connection, mine[0], [node for node in nodes if node.id != mine[0].id]
        except BaseException:
            self._connection.close()
            raise

    def __exit__(self, *exc: object) -> None:
        self._connection.close()


class _Session:
    """The agent while its node is there."""

    def __init__(
        self, registry: Registry, lease: Lease, connection: Caller, node: Node, host: str, agent: Agent
    ) -> None:
        self._registry = registry
        self._lease = lease
        self._connection = connection
        self._node = node
        self._host = host
        self._agent = agent
        self._jobs: dict[str, AgentJob] = {}
        # Those whose lease was seen, until nothing is left of them.
        self._known: dict[str, tuple[Value, JobRecord]] = {}
        self._version = -1  # of the topology
        self._renewed = 0.0
        self._look_at_others: float | None = None
        self._polled = 0.0
        self._complained: set[str] = set()
        self._logs = LogServer(registry, node.id, agent._folder)
        self._scripts = AgentScripts(
            registry,
            node.id,
            agent._endpoint,
            host,
            agent._instance,
            agent._folder,
            agent._notary,
            agent._zookeeper,
        )

    def loop(self) -> None:
        """Until the agent is stopped, or the node or the lease is lost."""
        while not self._agent._stop.is_set():
            now = time.monotonic()
            if now - self._renewed >= _RENEW_SECONDS:
                self._renewed = now
                self._keep_alive()
            if now - self._polled >= _POLL_SECONDS:
                self._polled = now
                self._poll()
            for job in self._jobs.values():
                job.pump()
            self._scripts.pump()
            self._listen(0.05 if self._jobs else _POLL_SECONDS)

    def _listen(self, seconds: float) -> None:
        """Waits until a task or a script says something."""
        running: list[TaskProcess | HostedScript] = [
            task for job in self._jobs.values() for task in job.tasks.values() if not task.ended
        ]
        running += self._scripts.scripts()
        if not running:
            self._agent._stop.wait(seconds)
            return
        with selectors.DefaultSelector() as selector:
            for task in running:
                selector.register(task, selectors.EVENT_READ)
            selector.select(seconds)

    def _keep_alive(self) -> None:
        version, nodes = list_nodes(self._connection)  # raises when the node has gone
        if version != self._version:
            self._version = version
            self._registry.use_endpoints([e for node in nodes for e in node.endpoints[:1]])
        if not self._lease.renew():
            raise AlreadyExistsError("the lease was taken for ended by another process; registering again")
        # One agent is enough to remove what is dead: each looks more seldom the more there are, and not all at once.
        now, period = time.monotonic(), max(_RENEW_SECONDS, len(nodes) * _SECONDS_PER_NODE)
        if self._look_at_others is None:
            self._look_at_others = now + random.uniform(0.0, period)
        if now < self._look_at_others:
            return
        self._look_at_others = now + period
        for key in self._registry.expire(AGENTS):
            _log.warning("%s has ended: its lease is removed", key)

    def _poll(self) -> None:
        views = {view.key.rpartition("/")[2]: view for view in self._registry.leases(JOBS).values()}
        for job, view in views.items():
            if job not in self._known or view.value != self._known[job][0]:
                try:
                    self._known[job] = view.value, JobRecord.from_json(view.value)
                except IgniteStrategyError as error:
                    self._complain(job, error)
                    continue
            self._follow(self._known[job][1], view)
        for job in set(self._jobs) - set(views):
            self._end(job, "its lease is gone")
        for job in set(self._known) - set(views) - set(self._jobs):
            if collect_job(self._registry, self._known[job][1]):
                del self._known[job]
        self._scripts.poll()
        self._logs.poll()

    def _follow(self, record: JobRecord, view: LeaseView) -> None:
        running = self._jobs.get(record.job)
        if not view.alive:
            self._end(record.job, "its client has not renewed the lease")
            if record.job not in self._jobs:
                if self._node.id in record.nodes:  # left by an earlier run of this agent
                    remove_part(self._registry, record.job, self._node.id)
                collect_job(self._registry, record)
        elif self._node.id not in record.nodes:
            return
        elif record.closing:
            if running:
                running.stop()
        elif running is None or running.request.attempt < record.attempt:
            self._start(record, running)
        else:
            running.look_for_cluster()

    def _start(self, record: JobRecord, running: AgentJob | None) -> None:
        data = self._registry.get(request_key(record.job, self._node.id))
        if data is None:
            return  # the client writes the job first
        try:
            request = Request.from_json(data)
            if (request.job, request.node) != (record.job, self._node.id):
                raise PreconditionError(f"the request is for job {request.job} on node {request.node}")
            self._check_gpus(request)
            if request.attempt != record.attempt:
                return
            # What an earlier run of this agent started is not started again, whoever signed it.
            is_old = was_started_before(self._registry, request, self._agent._instance)
            program = None if is_old else self._scripts.accept(request)
        except IgniteStrategyError as error:
            if self._complain(record.job, error):
                refuse(
                    self._registry, record.job, record.attempt, self._node.id, self._agent._instance, error
                )
            return
        if running is not None:
            running.change(request, program)
            return
        keep_newest(self._agent._folder)
        self._jobs[record.job] = AgentJob(
            self._registry,
            request,
            self._agent._instance,
            self._host,
            self._agent._endpoint,
            self._agent._folder,
            program,
            self._agent._zookeeper,
        )

    def _check_gpus(self, request: Request) -> None:
        foreign = {gpu for task in request.tasks for gpu in task.gpus} - set(self._agent._gpus)
        if foreign:
            raise PreconditionError(
                f"the request gives tasks GPUs that this agent has not registered: {', '.join(sorted(foreign))}"
            )

    def _end(self, job: str, reason: str) -> None:
        running = self._jobs.get(job)
        if running is None:
            return
        if not running.ended:
            _log.info("job %s: stopping its tasks, as %s", job, reason)
            running.stop()
        else:
            running.forget()
            del self._jobs[job]

    def _complain(self, job: str, error: IgniteStrategyError) -> bool:
        """Logs a request that is refused, once."""
        if job in self._complained:
            return False
        self._complained.add(job)
        _log.warning("job %s is refused: %s", job, error)
        return True

    def close(self) -> None:
        """Ends every task and script, tells what can be told, and gives up the lease; bounded."""
        self._scripts.close()
        for job in self._jobs.values():
            job.stop()
        until = time.monotonic() + _STOP_SECONDS
        while self._has_some() and time.monotonic() < until:
            for job in self._jobs.values():
                for task in job.tasks.values():
                    task.pump()
            for script in self._scripts.scripts():
                script.pump()
            time.sleep(0.02)
        node_lost = "" if self._agent._stop.is_set() else self._node_problem()
        for job in self._jobs.values():
            job.kill()
        self._farewell(node_lost)

    def _has_some(self) -> bool:
        """Whether a task or a script is left."""
        scripts = self._scripts.scripts()
        return any(not job.ended for job in self._jobs.values()) or any(not each.ended for each in scripts)

    def _farewell(self, node_lost: str) -> None:
        try:
            self._scripts.kill()
            for job in self._jobs.values():
                job.report(node_lost)
            self._lease.release()
        except IgniteStrategyError as error:
            _log.warning("the registry does not know yet that this agent has stopped: %s", error)

    def _node_problem(self) -> str:
        try:
            list_nodes(self._connection)
        except IgniteStrategyError as error:
            return str(error)
        return ""


def default_folder(node: Endpoint) -> Path:
    """Where an agent logs unless told otherwise."""
    return Path(tempfile.gettempdir()) / f"ignite-strategy-{os.getuid()}" / f"agent-{node.host}-{node.port}"


def serve(
    node: str,
    folder: Path | None = None,
    advertise: str | None = None,
    die_with: int | None = None,
    zookeeper: str | None = None,
    gpus: str | None = None,
    key_file: Path | None = None,
) -> None:
    """Runs an agent in this process until SIGTERM or SIGINT.

    Args:
      node: Address of the Ignite node.
      folder: For logs.
      advertise: Address under which its tasks are reached.
      die_with: Pid of the parent with which it ends.
      zookeeper: Where it meets its clients, if not in a cache of the cluster.
      gpus: The GPUs that its tasks may use, ``0,1`` or ``none``; by default those of ``CUDA_VISIBLE_DEVICES``, or all.
      key_file: Runs users' scripts for whoever has this key; without one for nobody.
    """
    key = read_key(key_file) if key_file is not None else None
    if die_with is not None:
        die_with_parent(die_with, signal.SIGTERM)
    endpoint, meeting = parse_endpoint(node), ZooKeeper.of(zookeeper)
    if meeting is not None:
        check(meeting)
    agent = Agent(
        endpoint,
        folder or default_folder(endpoint),
        advertise,
        zookeeper=meeting,
        gpus=find_gpus(gpus),
        key=key,
    )
    signal.signal(signal.SIGTERM, agent.stop)
    signal.signal(signal.SIGINT, agent.stop)
    agent.run()


def main(arguments: list[str] | None = None) -> None:
    """``python -m ignite_strategy.runtime.agent``, the same as ``ignite-strategy agent``."""
    parser = argparse.ArgumentParser(description="Runs TensorFlow tasks beside one Ignite node.")
    parser.add_argument("--node", required=True, metavar="HOST:PORT", help="the Ignite node of this host")
    parser.add_argument("--folder", type=Path, help="where logs go")
    parser.add_argument("--advertise", metavar="HOST", help="address under which the tasks are reached")
    parser.add_argument("--zookeeper", metavar="HOSTS", help="where it meets its clients")
    parser.add_argument("--gpus", metavar="LIST", help="GPUs for tasks: 0,1 or none; by default all")
    parser.add_argument("--key-file", type=Path, help="run users' scripts that are signed with this key")
    parser.add_argument("--die-with", type=int, metavar="PID", help="end with this parent process")
    options: dict[str, Any] = vars(parser.parse_args(arguments))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s agent: %(message)s")
    serve(**options)


if __name__ == "__main__":
    main()
