"""Runs a user's program as one task of a job: the counterpart of :mod:`ignite_strategy.runtime.task`.

It talks to the agent as that one does, holds the task's port for the program, and ends as the program does, by the same
exit code or signal.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import queue
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any

from ignite_strategy.errors import DataLossError, InvalidArgumentError, NotFoundError, PreconditionError
from ignite_strategy.runtime.ports import HeldPort
from ignite_strategy.runtime.processes import die_with_parent
from ignite_strategy.runtime.records import parse_task_name
from ignite_strategy.runtime.registry import open_registry
from ignite_strategy.runtime.scripts import carry
from ignite_strategy.runtime.scripts.archive import unpack
from ignite_strategy.runtime.scripts.environment import script_environment
from ignite_strategy.runtime.scripts.holder import become_reaper, end_children
from ignite_strategy.runtime.scripts.output import OutputLog
from ignite_strategy.runtime.scripts.process import UserProcess
from ignite_strategy.runtime.scripts.records import Program
from ignite_strategy.runtime.task import Channel
from ignite_strategy.settings import ZooKeeper, parse_endpoint
from ignite_strategy.topology.assignment import TaskKey
from ignite_strategy.topology.tf_config import ClusterLayout

__all__ = ["main"]

_REPORT_SECONDS = 1.0
_TICK = 0.1
_CANNOT_RUN = 127
_log = logging.getLogger(__name__)


class Member:
    """One program from its request to its end.

    Args:
      channel: To the agent.
      job: Id of the job.
      task: Which task it is.
      port: Where its server listens; 0: anywhere.
    """

    def __init__(self, channel: Channel, job: str, task: TaskKey, port: int) -> None:
        self._channel, self._job, self._task = channel, job, task
        self._port = HeldPort(port)
        self._stopping = False

    def stop(self, _number: int, _frame: FrameType | None) -> None:
        """Handles SIGTERM."""
        self._stopping = True

    def run(self) -> int:
        """Runs the program; its exit code, negative = a signal."""
        self._channel.say("reserved", port=self._port.port)
        plan = self._told("program")
        if plan is None:
            return 0
        program = Program.from_json(plan["program"])
        workspace = Path(plan["workspace"])
        with open_registry([parse_endpoint(plan["node"])], ZooKeeper.of(plan["zookeeper"])) as registry:
            data = carry.fetch(registry, self._job, program.archive)
        workspace.mkdir(mode=0o700, parents=True)
        unpack(data, program.archive.digest, workspace)
        self._channel.say("loaded", tensorflow="")
        order = self._told("serve")
        if order is None:
            return 0
        own = {**self._variables(order["cluster"]), "IGNITE_STRATEGY_JOB": self._job}
        if plan["zookeeper"]:
            own["IGNITE_STRATEGY_ZOOKEEPER"] = str(plan["zookeeper"])
        node = parse_endpoint(plan["node"])
        environment = {**plan["environment"], **script_environment(node, workspace, program.environment, own)}
        output = OutputLog(Path.cwd(), f"{self._task.type}-{self._task.index}")
        process = UserProcess(program.command, workspace, environment, output)
        self._channel.say("serving")
        try:
            return self._watch(process)
        finally:
            process.kill()
            output.close()

    def _variables(self, cluster: dict[str, Any]) -> dict[str, str]:
        layout = ClusterLayout(cluster)
        return {
            "TF_CONFIG": layout.tf_config(self._task.type, self._task.index),
            "TF_CLUSTER": json.dumps(layout.cluster()),
            "TF_GRPC_REUSE_PORT": "true",  # lets the program's server listen at the port that is held for it
        }

    def _told(self, command: str) -> dict[str, Any] | None:
        """Waits for an order of the agent; ``None`` if it wants an end instead."""
        while not self._stopping:
            try:
                said = self._channel.commands.get(timeout=_TICK)
            except queue.Empty:
                continue
            if said.get("command") == command:
                return said
        return None

    def _watch(self, process: UserProcess) -> int:
        reported, asked = time.monotonic(), False
        while not process.ended:
            if self._stopping and not asked:
                asked = True
                process.stop()
            time.sleep(_TICK)
            process.pump()
            if time.monotonic() - reported > _REPORT_SECONDS:
                reported = time.monotonic()
                self._channel.say("report", readers=[])
        if process.exit is not None:
            return process.exit
        if process.pid:
            raise PreconditionError(f"the program was ended: {process.error}")
        self._channel.say("failed", error=f"the program cannot be run: {process.error}")
        return _CANNOT_RUN


def main(arguments: list[str] | None = None) -> None:
    """Runs one program."""
    parser = argparse.ArgumentParser(description="One user's program; started by `ignite-strategy agent`.")
    parser.add_argument("--job", required=True)
    parser.add_argument("--task", required=True, type=parse_task_name)
    parser.add_argument("--agent", required=True, type=int, help="pid of the agent")
    parser.add_argument("--port", type=int, default=0, help="where its server listens; 0: anywhere")
    options = parser.parse_args(arguments)
    die_with_parent(options.agent, signal.SIGTERM)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    channel = Channel()
    try:
        member = Member(channel, options.job, options.task, options.port)
        signal.signal(signal.SIGTERM, member.stop)
        become_reaper()  # should what holds the program be killed
        code = member.run()
        end_children()
    except (DataLossError, InvalidArgumentError, NotFoundError) as error:  # another try would be no better
        channel.say("failed", error=str(error))
        os._exit(_CANNOT_RUN)
    except BaseException as error:
        _log.exception("task %s of job %s failed", options.task, options.job)
        channel.say("failed", error=f"{type(error).__name__}: {error}")
        os.kill(os.getpid(), signal.SIGKILL)  # not the program's own fault: it is started again
        raise
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
