"""Runs one user's script beside an Ignite node: its folder, its TensorFlow tasks, the script itself, and their end.

A process of its own, started by the agent, which it tells in lines of JSON on standard output how the script is. It is
the client of the script's tasks, as a resolver is in a program, so they end with it, and it ends with the agent.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import selectors
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from ignite_strategy.errors import IgniteStrategyError, InvalidArgumentError
from ignite_strategy.runtime.logs import SCRIPT
from ignite_strategy.runtime.ports import HeldPort
from ignite_strategy.runtime.processes import die_with_parent
from ignite_strategy.runtime.registry import open_registry
from ignite_strategy.runtime.runner import JobRunner
from ignite_strategy.runtime.scripts import carry
from ignite_strategy.runtime.scripts.archive import unpack
from ignite_strategy.runtime.scripts.environment import cluster_variables, script_environment
from ignite_strategy.runtime.scripts.holder import become_reaper, end_children
from ignite_strategy.runtime.scripts.output import OutputLog
from ignite_strategy.runtime.scripts.process import UserProcess
from ignite_strategy.runtime.scripts.records import ScriptRequest, parse_request
from ignite_strategy.settings import Endpoint, ZooKeeper, format_endpoint, parse_endpoint
from ignite_strategy.topology.assignment import Layout, assign
from ignite_strategy.topology.nodes import connect, discover

__all__ = ["main"]

_RESTARTS = 5
_QUIET_SECONDS = 10.0  # tasks that have run for so long were worth their start
_TICK = 0.2
_log = logging.getLogger(__name__)


class _Stopped(BaseException):
    """The agent wants the script to end."""


class _Output(logging.Handler):
    """What this package has to say goes where the script's own words go."""

    def __init__(self, output: OutputLog) -> None:
        super().__init__(logging.WARNING)
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line."""
        self._output.write(f"ignite-strategy: {record.getMessage()}\n".encode())


class Driver:
    """One script from its request to its end.

    Args:
      plan: What the agent says: ``request``, ``node``, ``host``, ``zookeeper``, ``folder`` and ``workspace``.
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        request, _, _ = parse_request({**plan["request"], "signature": ""})  # checked by the agent
        if not isinstance(request, ScriptRequest):
            raise InvalidArgumentError("this is no request to run a script")
        self._request = request
        self._node: Endpoint = parse_endpoint(plan["node"])
        self._host = str(plan["host"])
        self._zookeeper = ZooKeeper.of(plan["zookeeper"])
        self._workspace = Path(plan["workspace"])
        self._output = OutputLog(Path(plan["folder"]), SCRIPT)
        self._runner: JobRunner | None = None
        self._stopping = False
        self._interruptible = False

    def stop(self, _number: int, _frame: FrameType | None) -> None:
        """Handles SIGTERM."""
        self._stopping = True
        if self._interruptible:
            self._interruptible = False
            raise _Stopped

    def run(self) -> None:
        """Runs the script; says how that ends."""
        logging.getLogger("ignite_strategy").addHandler(_Output(self._output))
        with contextlib.ExitStack() as stack:
            stack.callback(self._output.close)
            try:
                self._interruptible = True
                if self._stopping:
                    raise _Stopped
                self._prepare()
                command, environment = self._started(stack)
                self._interruptible = False
                process = UserProcess(command, self._workspace, environment, self._output)
                stack.callback(process.kill)
                self._watch(process)
            except _Stopped:
                _say("stopped")
            except (IgniteStrategyError, OSError) as error:
                _say("failed", error=str(error))

    def _prepare(self) -> None:
        _say("starting")
        archive = self._request.program.archive
        with open_registry([self._node], self._zookeeper) as registry:
            data = carry.fetch(registry, self._request.job, archive)
            self._workspace.mkdir(mode=0o700, parents=True)
            unpack(data, archive.digest, self._workspace)
            carry.remove(registry, self._request.job)

    def _started(self, stack: contextlib.ExitStack) -> tuple[list[str], dict[str, str]]:
        """Starts the tasks; the command and the environment of the script."""
        program, plan = self._request.program, self._request.plan
        variables = {"IGNITE_STRATEGY_JOB": self._request.job}
        if self._zookeeper is not None:
            variables["IGNITE_STRATEGY_ZOOKEEPER"] = self._zookeeper.hosts
        if plan.tasks:
            self._runner = self._start_tasks()
            stack.callback(self._runner.close)
            cluster = self._runner.cluster()
            if not plan.chief:
                port = stack.enter_context(HeldPort())
                cluster = {"chief": [format_endpoint((self._host, port.port))], **cluster}
            variables.update(cluster_variables(cluster, is_chief=not plan.chief))
        environment = script_environment(self._node, self._workspace, program.environment, variables)
        return list(program.command), environment

    def _start_tasks(self) -> JobRunner:
        plan = self._request.plan
        with contextlib.closing(connect([self._node])) as connection:
            topology = discover(connection, plan.cache)
        layout = Layout(plan.layout, plan.chief, plan.ps, plan.balance)
        assignment = assign([node.id for node in topology.nodes], topology.primaries, layout)
        runner = JobRunner(
            self._request.job,
            topology,
            assignment,
            [self._node],
            start_timeout=float(plan.start_timeout),
            zookeeper=self._zookeeper,
        )
        # Tasks that take each step together return at other addresses, which a script that runs cannot learn.
        runner.allow_restarts(_RESTARTS if plan.strategy == "parameter_server" else 0, together=False)
        runner.start()
        return runner

    def _watch(self, process: UserProcess) -> None:
        """Until the script has ended."""
        reason, told, cluster = "", 0, self._runner.cluster() if self._runner else {}
        with selectors.DefaultSelector() as selector:
            for descriptor in (*process.files(), 0):
                selector.register(descriptor, selectors.EVENT_READ)
            while not process.ended:
                ready = selector.select(_TICK)
                if any(key.fd == 0 for key, _ in ready):  # the agent is gone: it says nothing more
                    selector.unregister(0)
                    self._stopping = True
                process.pump()
                if process.pid != told:
                    told = process.pid
                    _say("running", pid=told)
                problem = self._problem(cluster)
                if (self._stopping or problem) and not reason:
                    reason = problem or "stopped"
                    process.stop()
        if reason == "stopped":
            _say("stopped")
        elif reason:
            _say("failed", error=reason)
        elif process.error and process.pid:
            _say("failed", error=f"the script was ended: {process.error}")
        elif process.error:
            _say("failed", error=f"the script cannot be run: {process.error}", exit=127)
        else:
            _say("ended", exit=process.exit)

    def _problem(self, cluster: dict[str, list[str]]) -> str:
        """Why the script cannot go on."""
        runner = self._runner
        if runner is None:
            return ""
        if runner.failure is not None:
            return str(runner.failure)
        if runner.is_healing:
            self._healed_at = time.monotonic()
        elif runner.healings:
            if runner.cluster() != cluster:
                return f"{runner.healings[-1].reason}; its tasks have other addresses now"
            if time.monotonic() - self._healed_at > _QUIET_SECONDS:
                runner.note_progress(runner.attempt)
        return ""

    _healed_at = 0.0


def _say(state: str, **content: Any) -> None:
    line = json.dumps({"state": state, **content}).encode() + b"\n"
    with contextlib.suppress(OSError):  # without an agent nobody listens
        os.write(_CHANNEL[0], line)


_CHANNEL = [1]


def main(arguments: list[str] | None = None) -> None:
    """Runs one script."""
    parser = argparse.ArgumentParser(description="One user's script; started by `ignite-strategy agent`.")
    parser.add_argument("--agent", required=True, type=int, help="pid of the agent")
    options = parser.parse_args(arguments)
    _CHANNEL[0] = os.dup(1)
    os.dup2(2, 1)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    driver = Driver(json.loads(sys.stdin.buffer.readline()))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, driver.stop)
    die_with_parent(options.agent, signal.SIGTERM)
    become_reaper()  # should what holds the script be killed
    driver.run()
    end_children()


if __name__ == "__main__":
    main()
