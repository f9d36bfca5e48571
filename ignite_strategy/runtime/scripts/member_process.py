"""An agent's side of a user's program that is one of a job's tasks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ignite_strategy.runtime.records import TaskRequest
from ignite_strategy.runtime.scripts.output import first_file
from ignite_strategy.runtime.scripts.records import Program
from ignite_strategy.runtime.supervisor import TaskProcess
from ignite_strategy.settings import Endpoint, ZooKeeper, format_endpoint

__all__ = ["MemberProcess", "member_plan"]


def member_plan(
    program: Program,
    node: Endpoint,
    environment: Mapping[str, str],
    workspace: Path,
    zookeeper: ZooKeeper | None,
) -> dict[str, Any]:
    """What the process that runs the program is told.

    Args:
      program: What is run.
      node: The Ignite node beside it.
      environment: A task's.
      workspace: Where its folder is unpacked.
      zookeeper: Where the registry is, if not in the cluster.
    """
    return {
        "program": program.to_json(),
        "node": format_endpoint(node),
        "environment": dict(environment),
        "workspace": str(workspace),
        "zookeeper": zookeeper.hosts if zookeeper else None,
    }


class MemberProcess(TaskProcess):
    """A program's process, or rather that of :mod:`ignite_strategy.runtime.scripts.member`, which runs it.

    Args:
      job: Id of the job.
      request: Which task it is.
      folder: Where it logs.
      plan: What it is told.
    """

    module = "ignite_strategy.runtime.scripts.member"

    def __init__(self, job: str, request: TaskRequest, folder: Path, plan: dict[str, Any]) -> None:
        super().__init__(job, request, dict(os.environ), folder)
        self.log = first_file(folder, f"{request.key.type}-{request.key.index}")
        self._workspace = Path(plan["workspace"])
        self._say({"command": "program", **plan})

    def _end(self, code: int) -> None:
        super()._end(code)
        shutil.rmtree(self._workspace, ignore_errors=True)
        if code == 0 and self._state == "exited":
            self._state, self._error = "done", ""
