"""What one agent runs for one job, and the reports about it. Nothing here waits longer than the registry does."""

from __future__ import annotations

import logging
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ignite_strategy.errors import IgniteStrategyError
from ignite_strategy.runtime.environment import task_environment
from ignite_strategy.runtime.records import (
    ClusterRecord,
    Request,
    Status,
    TaskRequest,
    TaskStatus,
    cluster_key,
    request_key,
    status_key,
)
from ignite_strategy.runtime.registry import Registry
from ignite_strategy.runtime.scripts.member_process import MemberProcess, member_plan
from ignite_strategy.runtime.scripts.records import Program
from ignite_strategy.runtime.supervisor import TaskProcess
from ignite_strategy.settings import Endpoint, ZooKeeper
from ignite_strategy.topology.assignment import TaskKey

__all__ = ["AgentJob"]

_REPORT_SECONDS = 1.0
_log = logging.getLogger(__name__)


class AgentJob:
    """The tasks of a job beside one node.

    Args:
      registry: Where it reports.
      request: What is to run.
      instance: The run of the agent.
      host: Under which the tasks are reached.
      node: Where the node listens.
      folder: The agent's folder.
      program: The user's program that is run in place of TensorFlow servers; the request was found to be signed.
      zookeeper: Where the registry is, if not in the cluster.
    """

    def __init__(
        self,
        registry: Registry,
        request: Request,
        instance: str,
        host: str,
        node: Endpoint,
        folder: Path,
        program: Program | None = None,
        zookeeper: ZooKeeper | None = None,
    ) -> None:
        self.request = request
        self._program, self._zookeeper = program, zookeeper
        self._workspace = folder / "scripts" / request.job
        self.tasks: dict[TaskKey, TaskProcess] = {}
        self._registry = registry
        self._instance = instance
        self._host = host
        self._count = 0
        self._reported = 0.0
        self._refused = ""
        self._lost: dict[TaskKey, TaskStatus] = {}
        self._node = node
        self._root = folder / "jobs" / request.job
        if not self._was_started_before():
            self._begin()

    def change(self, request: Request, program: Program | None = None) -> None:
        """Goes over to another attempt: tasks that it names again run on, all others are ended or started."""
        self.request, self._program = request, program
        self._refused, self._lost = "", {}
        wanted = {task.key: task.attempt for task in request.tasks}
        for key, task in list(self.tasks.items()):
            if wanted.get(key) != task.attempt:
                task.kill()
                del self.tasks[key]
        self._begin()

    def _begin(self) -> None:
        request = self.request
        missing = [task for task in request.tasks if task.key not in self.tasks]
        if missing:
            _log.info("job %s: starting %s", request.job, ", ".join(str(task.key) for task in missing))
        try:
            for task in missing:
                folder = self._root / str(task.attempt)
                folder.mkdir(parents=True, exist_ok=True)
                environment = task_environment(request, task, self._node, folder)
                self.tasks[task.key] = self._process(task, environment, folder)
        except OSError as error:
            self._refused = f"cannot start its tasks: {error}"
            self.stop()
        self.report()

    def _process(self, task: TaskRequest, environment: dict[str, str], folder: Path) -> TaskProcess:
        if self._program is None:
            return TaskProcess(self.job, task, environment, folder)
        workspace = self._workspace / f"{task.attempt}-{task.key.type}-{task.key.index}"
        plan = member_plan(self._program, self._node, environment, workspace, self._zookeeper)
        return MemberProcess(self.job, task, folder, plan)

    @property
    def job(self) -> str:
        """Id of the job."""
        return self.request.job

    @property
    def ended(self) -> bool:
        """No process is left."""
        return all(task.ended for task in self.tasks.values())

    def _was_started_before(self) -> bool:
        """Another run of this agent started these tasks; they ended with it, and the client must know."""
        status = was_started_before(self._registry, self.request, self._instance)
        if status is None:
            return False
        gone = "its agent was restarted, and the task ended with it"
        self._lost = {
            key: replace(task, state="exited", exit=None, error=gone) for key, task in status.tasks.items()
        }
        self.report()
        return True

    def pump(self) -> None:
        """Listens to the tasks, passes on the cluster and reports: at once what matters, counters every second."""
        changed = [task.pump() for task in self.tasks.values()]
        if any(changed) or time.monotonic() - self._reported >= _REPORT_SECONDS:
            self.report()

    def look_for_cluster(self) -> None:
        """Tells the tasks each other's addresses as soon as the client has published them."""
        if all(task.told or task.ended for task in self.tasks.values()):
            return
        value = self._registry.get(cluster_key(self.job))
        if value is None or value.get("attempt") != self.request.attempt:
            return  # of an earlier attempt
        record = ClusterRecord.from_json(value)
        for task in self.tasks.values():
            task.serve(dict(record.cluster))

    def report(self, node_lost: str = "") -> None:
        """Writes how the tasks are."""
        self._count += 1
        status = Status(
            attempt=self.request.attempt,
            instance=self._instance,
            count=self._count,
            host=self._host,
            tasks={**{key: task.status() for key, task in self.tasks.items()}, **self._lost},
            refused=self._refused,
            node_lost=node_lost,
        )
        self._reported = time.monotonic()
        self._registry.put(status_key(self.job, self.request.node), status.to_json())

    def stop(self) -> None:
        """Asks every task to end."""
        for task in self.tasks.values():
            task.stop()

    def kill(self) -> None:
        """Ends every task now."""
        for task in self.tasks.values():
            task.kill()

    def forget(self) -> None:
        """Removes what the registry has about this node's part of the job."""
        self._registry.delete(request_key(self.job, self.request.node))
        self._registry.delete(status_key(self.job, self.request.node))
        if self._program is not None:
            shutil.rmtree(self._workspace, ignore_errors=True)


def was_started_before(registry: Registry, request: Request, instance: str) -> Status | None:
    """What another run of this agent reported of the tasks of a request; ``None`` if it did not start them."""
    before = registry.get(status_key(request.job, request.node))
    if before is None:
        return None
    status = Status.from_json(before)
    return status if status.attempt == request.attempt and status.instance != instance else None


def refuse(
    registry: Registry, job: str, attempt: int, node: str, instance: str, error: IgniteStrategyError
) -> None:
    """Tells the client why its request is not run."""
    status = Status(attempt, instance, 1, "", {}, refused=str(error))
    registry.put(status_key(job, node), status.to_json())


def keep_newest(folder: Path, count: int = 20) -> None:
    """Removes the logs of all but the newest jobs."""
    jobs: list[tuple[float, Any]] = []
    for path in (folder / "jobs").glob("*"):
        try:
            jobs.append((path.stat().st_mtime, path))
        except OSError:
            continue
    for _, path in sorted(jobs, reverse=True)[count:]:
        shutil.rmtree(path, ignore_errors=True)
