"""An agent's scripts: requests checked and served, scripts watched, and told about in the registry."""

from __future__ import annotations

import logging
import shutil
import time
from dataclasses import replace
from pathlib import Path

from ignite_strategy.errors import (
    AlreadyExistsError,
    AuthenticationError,
    IgniteStrategyError,
    InvalidArgumentError,
    NotFoundError,
)
from ignite_strategy.runtime.records import AGENTS, JOBS, Request
from ignite_strategy.runtime.registry import Registry, Value
from ignite_strategy.runtime.scripts import carry
from ignite_strategy.runtime.scripts.hosted import HostedScript
from ignite_strategy.runtime.scripts.records import (
    ARCHIVES,
    SCRIPTS,
    SUBMITTERS,
    Program,
    RunRequest,
    ScriptRequest,
    ScriptStatus,
    parse_request,
    requests_folder,
)
from ignite_strategy.runtime.scripts.signing import Notary
from ignite_strategy.settings import Endpoint, ZooKeeper, format_endpoint

__all__ = ["AgentScripts"]

_POLL_SECONDS = 0.3
_TIDY_SECONDS = 15.0
_KEPT_SECONDS = 60.0  # a refusal waits so long for whoever asked
_MOST_KEPT = 50  # scripts that have ended, of all nodes
_MOST_RUNNING = 16
_log = logging.getLogger(__name__)


class AgentScripts:
    """The scripts beside one node.

    Args:
      registry: Where requests come from.
      node: Id of the Ignite node.
      endpoint: Where that listens.
      host: Under which this host is reached.
      instance: The run of the agent.
      folder: The agent's folder.
      notary: Tells which requests to serve; without one nothing is ever run.
      zookeeper: Where the registry is, if not in the cluster.
    """

    def __init__(
        self,
        registry: Registry,
        node: str,
        endpoint: Endpoint,
        host: str,
        instance: str,
        folder: Path,
        notary: Notary | None,
        zookeeper: ZooKeeper | None,
    ) -> None:
        self._registry = registry
        self._node, self._endpoint, self._host, self._instance = node, endpoint, host, instance
        self._folder, self._zookeeper = folder, zookeeper
        self._notary = notary
        self._running: dict[str, HostedScript] = {}
        self._status: dict[str, ScriptStatus] = {}
        self._refused: dict[str, float] = {}
        self._orphans: dict[str, float] = {}
        self._polled = 0.0
        self._tidied = float("-inf")
        if notary is not None:
            shutil.rmtree(folder / "scripts", ignore_errors=True)  # of a run that was killed

    def accept(self, request: Request) -> Program | None:
        """The user's program that a job's request has in place of TensorFlow servers; ``None`` if it has none.

        Raises:
          AuthenticationError: It is not to be run.
        """
        if not request.program:
            return None
        if self._notary is None:
            raise AuthenticationError("this agent runs no programs: it was started without --allow-scripts")
        return RunRequest.accept(request, self._notary)

    def poll(self) -> None:
        """Serves requests, ends scripts whose client has gone, removes what nobody needs."""
        now = time.monotonic()
        if self._notary is None or now - self._polled < _POLL_SECONDS:
            return
        self._polled = now
        for key, value in self._registry.children(requests_folder(self._node)).items():
            self._look_at(key, value, now)
        attached = [job for job in self._running if self._status[job].attached]
        if attached:
            leases = self._registry.leases(SUBMITTERS)
            for job in attached:
                view = leases.get(f"{SUBMITTERS}/{job}")
                if view is None or not view.alive:
                    self._running[job].stop("its client has gone")
        if now - self._tidied > _TIDY_SECONDS:
            self._tidied = now
            self._tidy(now)

    def scripts(self) -> list[HostedScript]:
        """Those that run."""
        return list(self._running.values())

    def pump(self) -> None:
        """Listens to the scripts and tells how they are."""
        for job, script in list(self._running.items()):
            if script.pump():
                self._tell(job, script)
            if script.ended:
                del self._running[job], self._status[job]

    # Requests.

    def _look_at(self, key: str, value: Value, now: float) -> None:
        if "refused" in value:
            if now - self._refused.setdefault(key, now) > _KEPT_SECONDS:
                self._registry.delete(key)
                del self._refused[key]
            return
        try:
            self._serve(value)
        except IgniteStrategyError as error:
            _log.warning("a request to run a script is refused: %s", error)
            self._registry.put(key, {"refused": str(error)})
            self._refused[key] = now
        else:
            self._registry.delete(key)

    def _serve(self, value: Value) -> None:
        assert self._notary is not None
        request, body, signature = parse_request(value)
        self._notary.check(body, signature, node=self._node)
        if isinstance(request, ScriptRequest):
            self._start(request, body)
        elif request.job in self._running:
            self._running[request.job].stop("somebody stopped it")
        else:
            raise NotFoundError(f"job {request.job} does not run beside Ignite node {self._node}")

    def _start(self, request: ScriptRequest, body: Value) -> None:
        if self._registry.get(f"{SCRIPTS}/{request.job}") is not None:
            raise AlreadyExistsError(f"there is a job {request.job} already")
        if len(self._running) >= _MOST_RUNNING:
            raise AlreadyExistsError(f"{_MOST_RUNNING} scripts run beside Ignite node {self._node} already")
        folder = self._folder / "jobs" / request.job
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = ScriptStatus(
            job=request.job,
            node=self._node,
            host=self._host,
            instance=self._instance,
            state="accepted",
            command=request.program.command,
            cache=request.plan.cache,
            client=request.client,
            attached=request.attached,
            started=int(time.time()),
        )
        self._registry.put(f"{SCRIPTS}/{request.job}", status.to_json())
        self._status[request.job] = status
        self._running[request.job] = HostedScript(
            {
                "request": body,
                "node": format_endpoint(self._endpoint),
                "host": self._host,
                "zookeeper": self._zookeeper.hosts if self._zookeeper else None,
                "folder": str(folder),
                "workspace": str(self._folder / "scripts" / request.job),
            }
        )
        _log.info("job %s: running %s for %s", request.job, request.program.command[0], request.client)

    def _tell(self, job: str, script: HostedScript) -> None:
        # How it ended is told once nothing of it is left.
        state = script.state if script.ended else "running" if script.pid else "starting"
        self._status[job] = replace(
            self._status[job],
            state=state,
            exit=script.exit if script.ended else None,
            error=script.error or script.reason if script.ended else "",
            ended=int(time.time()) if script.ended else 0,
            pid=script.pid,
        )
        self._registry.put(f"{SCRIPTS}/{job}", self._status[job].to_json())

    # What is left by others.

    def _tidy(self, now: float) -> None:
        agents = self._registry.leases(AGENTS)
        live: dict[str, ScriptStatus] = {}
        over: list[ScriptStatus] = []
        for key, value in self._registry.children(SCRIPTS).items():
            try:
                status = ScriptStatus.from_json(value)
            except InvalidArgumentError as error:
                _log.warning("%s is not one of ours: %s", key, error)
                continue
            agent = agents.get(f"{AGENTS}/{status.node}")
            runs = agent is not None and agent.alive and agent.value.get("instance") == status.instance
            if status.is_over:
                over.append(status)
            elif runs:
                live[status.job] = status
            elif status.node == self._node or self._is_old(
                key, now
            ):  # of an earlier run of this agent, or lost
                reason = f"the agent of Ignite node {status.node} has ended, and the script with it"
                lost = replace(status, state="failed", error=reason, ended=int(time.time()))
                self._registry.compare_and_set(key, value, lost.to_json())
        for status in sorted(over, key=lambda each: each.ended)[:-_MOST_KEPT]:
            self._registry.delete(f"{SCRIPTS}/{status.job}")
        held = {key.rpartition("/")[2] for f in (SUBMITTERS, JOBS) for key in self._registry.leases(f)}
        self._registry.expire(SUBMITTERS)
        for key in self._registry.children(ARCHIVES):
            job = key.rpartition("/")[2]
            if job not in held and job not in live and self._is_old(key, now):
                carry.remove(self._registry, job)

    def _is_old(self, key: str, now: float) -> bool:
        """Whether this was found twice: what is just beginning, or ending, is left alone."""
        self._orphans = {each: at for each, at in self._orphans.items() if now - at < 3 * _TIDY_SECONDS}
        return now - self._orphans.setdefault(key, now) > _TIDY_SECONDS / 2

    def close(self) -> None:
        """Asks every script to end."""
        for script in self._running.values():
            script.stop("its agent was stopped")

    def kill(self) -> None:
        """Ends every script now, and says so."""
        for job, script in list(self._running.items()):
            script.kill()
            self._tell(job, script)
        self._running.clear()
