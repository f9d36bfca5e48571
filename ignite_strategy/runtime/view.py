"""What is known of a job's tasks, for people and for errors."""

from __future__ import annotations

from ignite_strategy.errors import TaskLostError
from ignite_strategy.runtime import job as machine
from ignite_strategy.runtime.account import TaskRecord
from ignite_strategy.runtime.records import TaskStatus
from ignite_strategy.runtime.watch import StatusWatch
from ignite_strategy.settings import format_endpoint
from ignite_strategy.topology.assignment import Assignment, TaskKey
from ignite_strategy.topology.nodes import Topology

__all__ = ["JobView"]


class JobView:
    """The tasks of one job.

    Args:
      topology: The nodes, and the cache.
      assignment: Which tasks there are, and where.
      job: The state machine.

    Attributes:
      status: What the agents report; None before they are asked for anything.
      gpus: Of each task that has any.
    """

    def __init__(self, topology: Topology, assignment: Assignment, job: machine.Job) -> None:
        self.status: StatusWatch | None = None
        self.gpus: dict[TaskKey, tuple[str, ...]] = {}
        self._topology = topology
        self._assignment = assignment
        self._job = job

    def tasks(self) -> list[TaskRecord]:
        """The tasks as last reported, in the assignment's order."""
        records = []
        for share in self._assignment.tasks:
            status = self.status_of(share.key)
            report = self.status.statuses.get(share.node) if self.status else None
            records.append(
                TaskRecord(
                    type=share.key.type,
                    index=share.key.index,
                    node=share.node,
                    host=report.host if report else "",
                    pid=status.pid if status else 0,
                    address=self._job.address(share.key),
                    state=status.state if status else "requested",
                    partitions=self.partitions(share.key),
                    readers=status.readers if status else (),
                    log=status.log if status else "",
                    tensorflow=status.tensorflow if status else "",
                    gpus=self.gpus.get(share.key, ()),
                )
            )
        return records

    def partitions(self, key: TaskKey) -> dict[str, tuple[int, ...]]:
        """Cache -> the partitions that a task reads."""
        return (
            {} if key.type == "ps" else dict.fromkeys(self._topology.caches, self._assignment[key].partitions)
        )

    def waiting_for(self) -> str:
        """Which tasks cannot be reached yet, where they are expected and how far they are."""
        missing = self._job.missing()
        lines = [f"waiting for {len(missing)} of {len(self._assignment.tasks)} tasks"]
        return "; ".join(lines + [self._missing(key) for key in missing])

    def _missing(self, key: TaskKey) -> str:
        record = next(r for r in self.tasks() if (r.type, r.index) == key)
        text = f"{key}, expected on Ignite node {record.node}"
        endpoints = self._topology.node(record.node).endpoints
        text += f" ({format_endpoint(endpoints[0])})" if endpoints else ""
        how = {
            "requested": "its agent has not started it",
            "starting": "its process is starting",
            "reserved": "TensorFlow is loading",
            "loaded": "its server has not started",
            "serving": f"it serves, but {record.address} cannot be reached from here",
        }
        return f"{text}: {how.get(record.state, record.state)}" + (
            f" (log: {record.log})" if record.log else ""
        )

    def lost_error(self, failure: machine.Failure) -> TaskLostError:
        """The error for a loss that ends the job."""
        record = next((r for r in self.tasks() if (r.type, r.index) == failure.task), None)
        status = self.status_of(failure.task) if failure.task else None
        return TaskLostError(
            f"{failure.reason}. Start the program again: it resumes from the last checkpoint in its model directory",
            kind="agent" if failure.loss is machine.Loss.REFUSED else failure.loss.value,
            task=failure.task,
            node=failure.node,
            host=record.host if record else "",
            pid=record.pid if record else 0,
            exit_code=status.exit if status else None,
        )

    def status_of(self, key: TaskKey) -> TaskStatus | None:
        """What is reported of one task."""
        report = self.status.statuses.get(self._assignment[key].node) if self.status else None
        return report.tasks.get(key) if report else None
