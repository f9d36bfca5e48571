"""What a job tells people and reports: how its tasks are, and what it has lost and started again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ignite_strategy.runtime.readers import Reading, readings

__all__ = ["Healing", "TaskRecord"]


@dataclass(frozen=True)
class Healing:
    """A loss that did not end a job: its tasks were started again.

    Attributes:
      attempt: The one that it began.
      kind: What was lost: ``task`` or ``agent``.
      reason: In words.
      seconds: Until every task was reachable again, from when the loss was noticed; ``None`` before that.
    """

    attempt: int
    kind: str
    reason: str
    seconds: float | None = None


@dataclass(frozen=True)
class TaskRecord:
    """A task of a running job, for people and for reports.

    Attributes:
      type: ``chief``, ``worker`` or ``ps``.
      index: Within its type.
      node: Id of the Ignite node beside which it runs.
      host: Where it runs.
      pid: Its process.
      address: Where its TensorFlow server listens; ``None`` before that is known.
      state: See :class:`~ignite_strategy.runtime.records.TaskStatus`; ``requested`` before the agent has said anything.
      partitions: Cache -> the partitions it reads.
      readers: Counters of its datasets, per cache and node that answered.
      log: Its log file, on its host.
      tensorflow: Version of TensorFlow there.
      gpus: The GPUs of its host that it sees.
    """

    type: str
    index: int
    node: str
    host: str = ""
    pid: int = 0
    address: str | None = None
    state: str = "requested"
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    readers: tuple[Mapping[str, Any], ...] = ()
    log: str = ""
    tensorflow: str = ""
    gpus: tuple[str, ...] = ()

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Rows and bytes that it has read from its own node and from others, by cache."""
        return readings(self.readers, self.node)
