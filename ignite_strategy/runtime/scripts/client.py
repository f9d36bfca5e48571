"""The side of whoever starts, follows and stops scripts; it speaks to the agents through the registry only."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ignite_strategy.errors import (
    AuthenticationError,
    ClusterError,
    DeadlineExceededError,
    IgniteStrategyError,
    NotFoundError,
    PreconditionError,
    TaskLostError,
)
from ignite_strategy.runtime.logs import SCRIPT, LogReader
from ignite_strategy.runtime.records import AGENTS, JOBS, AgentRecord, JobRecord
from ignite_strategy.runtime.registry import Lease, Registry
from ignite_strategy.runtime.runner import JOB_TTL
from ignite_strategy.runtime.scripts import carry
from ignite_strategy.runtime.scripts.archive import pack
from ignite_strategy.runtime.scripts.records import (
    SCRIPTS,
    SUBMITTERS,
    Program,
    ScriptRequest,
    ScriptStatus,
    StopRequest,
    TaskPlan,
    requests_folder,
)
from ignite_strategy.runtime.scripts.signing import EXPIRY_SECONDS, Key
from ignite_strategy.settings import Endpoint
from ignite_strategy.topology.assignment import Layout, assign
from ignite_strategy.topology.nodes import connect, discover

__all__ = ["START", "Scripts", "expiry", "job_id"]

START = 0
_END = 1 << 62
_RENEW_SECONDS = 2.0
_ACCEPT_SECONDS = 30.0
_STOP_SECONDS = 40.0
_AGENT_GRACE_SECONDS = 10.0  # for a cluster that is just starting
_LOOK_SECONDS = 2.0
_ANSWER_SECONDS, _SILENT_SECONDS = 3.0, 60.0  # of an agent that is asked for output
_POLL_SECONDS = 0.1
_QUIET_SECONDS = 0.3


def job_id(cache: str) -> str:
    """A new name that says which cache it is about."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", cache).strip("-")[:40] or "job"
    return f"{readable.lower()}-{uuid.uuid4().hex[:8]}"


class Scripts:
    """The scripts of a cluster.

    Args:
      registry: Where the agents are met.
      endpoints: Ignite nodes.
      key: Signs requests; following scripts needs none.
    """

    def __init__(self, registry: Registry, endpoints: Sequence[Endpoint], key: Key | None = None) -> None:
        self._registry = registry
        self._endpoints = list(endpoints)
        self._key = key

    # Starting.

    @contextlib.contextmanager
    def start(
        self,
        plan: TaskPlan,
        source: Path,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        attached: bool = True,
    ) -> Iterator[str]:
        """Starts a script; while the block runs an attached one is kept alive, and then it ends.

        Args:
          plan: The tasks beside it.
          source: The script's folder.
          command: What is run there.
          environment: Variables for it.
          attached: It ends when this client does.

        Yields:
          The id of its job.

        Raises:
          PreconditionError: The agent runs no scripts.
          AuthenticationError: It does not accept the request.
          InvalidArgumentError: The folder or the command cannot be used.
        """
        key = self._needed_key()
        data = pack(source)
        node, agent = self._place(plan, key)
        job = job_id(plan.cache)
        with self._kept_alive(job) as lease:
            archive = carry.upload(self._registry, job, data)
            try:
                program = Program(tuple(command), archive, dict(environment or {})).checked()
                request = ScriptRequest(
                    job, 1, node, agent.instance, expiry(), program, plan, attached, _me()
                )
                self._ask(node, request, key)
            except BaseException:
                carry.remove(self._registry, job)
                raise
            if not attached:
                lease.release()
            yield job

    def _needed_key(self) -> Key:
        if self._key is None:
            raise PreconditionError(
                "a key is needed to start and stop scripts: give --key-file, or set IGNITE_STRATEGY_KEY_FILE; "
                "'ignite-strategy key FILE' makes one, which the agents are given too"
            )
        return self._key

    def _place(self, plan: TaskPlan, key: Key) -> tuple[str, AgentRecord]:
        """The chief's node, and its agent."""
        with contextlib.closing(connect(self._endpoints)) as connection:
            topology = discover(connection, plan.cache)
        layout = Layout(plan.layout, plan.chief, plan.ps, plan.balance)
        assignment = assign([node.id for node in topology.nodes], topology.primaries, layout)
        node = assignment.replicas[0].node
        return node, self._agent(node, key)

    def _agent(self, node: str, key: Key) -> AgentRecord:
        until = time.monotonic() + _AGENT_GRACE_SECONDS
        while True:
            view = self._registry.leases(AGENTS).get(f"{AGENTS}/{node}")
            if view is not None and view.alive:
                break
            if time.monotonic() > until:
                raise PreconditionError(
                    f"no agent runs beside Ignite node {node}: "
                    "ignite-strategy agent --node HOST:PORT --allow-scripts --key-file FILE, on its host"
                )
            time.sleep(_POLL_SECONDS)
        agent = AgentRecord.from_json(view.value)
        who = f"the agent of Ignite node {node} (pid {agent.pid} on {agent.machine})"
        if not agent.scripts:
            raise PreconditionError(f"{who} runs no scripts: start it with --allow-scripts --key-file FILE")
        if agent.scripts != key.fingerprint:
            raise AuthenticationError(
                f"{who} has another key ({agent.scripts}) than the one given ({key.fingerprint})"
            )
        return agent

    @contextlib.contextmanager
    def _kept_alive(self, job: str) -> Iterator[Lease]:
        lease = self._registry.acquire(f"{SUBMITTERS}/{job}", {"client": _me()}, JOB_TTL)
        over = threading.Event()

        def renew() -> None:
            while not over.wait(_RENEW_SECONDS):
                with contextlib.suppress(
                    IgniteStrategyError
                ):  # tried again; without success the agent ends the job
                    if not lease.renew():
                        return

        thread = threading.Thread(target=renew, name=f"lease of job {job}", daemon=True)
        thread.start()
        try:
            yield lease
        finally:
            over.set()
            thread.join(_RENEW_SECONDS)
            with contextlib.suppress(IgniteStrategyError):
                lease.release()

    def _ask(self, node: str, request: ScriptRequest | StopRequest, key: Key) -> None:
        """Sends a request and waits until it is accepted."""
        at = f"{requests_folder(node)}/{uuid.uuid4().hex}"
        self._registry.put(at, request.signed(key))
        until = time.monotonic() + _ACCEPT_SECONDS
        try:
            while (answer := self._registry.get(at)) is not None:
                if "refused" in answer:
                    raise AuthenticationError(
                        f"the agent of Ignite node {node} refuses the request for job {request.job}: "
                        f"{answer['refused']}"
                    )
                if time.monotonic() > until:
                    raise DeadlineExceededError(
                        f"the agent of Ignite node {node} did not accept job {request.job} within "
                        f"{_ACCEPT_SECONDS:.0f} s"
                    )
                time.sleep(_POLL_SECONDS)
        except BaseException:
            self._registry.delete(at)
            raise

    # Looking.

    def all(self) -> list[ScriptStatus]:
        """The scripts that run or ran lately, oldest first."""
        found = [ScriptStatus.from_json(value) for value in self._registry.children(SCRIPTS).values()]
        return sorted(found, key=lambda each: (each.started, each.job))

    def status(self, job: str) -> ScriptStatus:
        """How a script is.

        Raises:
          NotFoundError: There is none of this job.
        """
        value = self._registry.get(f"{SCRIPTS}/{job}")
        if value is not None:
            return ScriptStatus.from_json(value)
        if f"{JOBS}/{job}" in (leases := self._registry.leases(JOBS)):
            record = JobRecord.from_json(leases[f"{JOBS}/{job}"].value)
            raise NotFoundError(
                f"job {job} has no script: a program runs it, process {record.pid} on {record.host}"
            )
        raise NotFoundError(f"there is no job {job}: 'ignite-strategy ps' lists those that there are")

    # Following.

    def follow(
        self, job: str, write: Callable[[bytes], object], stopping: threading.Event, offset: int = _END
    ) -> ScriptStatus:
        """Passes on a script's output until it has ended, or somebody no longer wants that.

        Args:
          job: Its job.
          write: Takes the output.
          stopping: Ends the wait when set.
          offset: From where: by default from now on.

        Returns:
          How the script was at last.

        Raises:
          TaskLostError: Its agent has gone, and it with that.
        """
        status = self.status(job)
        reader = LogReader(self._registry, status.node)
        looked = heard = time.monotonic()
        try:
            while not stopping.is_set():
                status = self.status(job)
                try:
                    found = reader.read(job, SCRIPT, offset, _ANSWER_SECONDS)
                    heard = time.monotonic()
                except DeadlineExceededError:
                    self._check_agent(status)
                    if time.monotonic() - heard > _SILENT_SECONDS:
                        raise
                    continue
                if found is not None:
                    offset = found.offset + len(found.data)
                    write(found.data)
                if found is not None and found.data:
                    continue
                if status.is_over:
                    break
                if time.monotonic() - looked > _LOOK_SECONDS:
                    looked = time.monotonic()
                    self._check_agent(status)
                stopping.wait(_QUIET_SECONDS)
        finally:
            reader.close()
        return status

    def _check_agent(self, status: ScriptStatus) -> None:
        view = self._registry.leases(AGENTS).get(f"{AGENTS}/{status.node}")
        lives = view is not None and view.alive and view.value.get("instance") == status.instance
        if not lives and not self.status(status.job).is_over:
            raise TaskLostError(
                f"the agent of Ignite node {status.node} on {status.host} has gone, and the script of job "
                f"{status.job} with it",
                kind="agent",
                node=status.node,
                host=status.host,
            )

    # Stopping.

    def stop(self, job: str) -> ScriptStatus:
        """Ends a script and its tasks, and waits until they are gone.

        Raises:
          NotFoundError: There is no such script.
          AuthenticationError: The agent does not accept the request.
        """
        status = self.status(job)
        if status.is_over:
            return status
        key = self._needed_key()
        self._agent(status.node, key)
        self._ask(status.node, StopRequest(job, 1, status.node, status.instance, expiry()), key)
        return self.wait(job)

    def wait(self, job: str, seconds: float = _STOP_SECONDS) -> ScriptStatus:
        """Waits for the end of a script.

        Raises:
          ClusterError: It does not end.
        """
        until = time.monotonic() + seconds
        while not (status := self.status(job)).is_over:
            if time.monotonic() > until:
                raise ClusterError(f"job {job} has not ended within {seconds:.0f} s: it is {status.state}")
            self._check_agent(status)
            time.sleep(_POLL_SECONDS)
        return status


def expiry() -> int:
    """Until when a request that is made now may be accepted."""
    return int(time.time() + EXPIRY_SECONDS)


def _me() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
