"""The job as training sees it: what is lost, where its tasks are, and which attempt that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ignite_strategy.topology import IgniteClusterResolver

__all__ = ["TrainingJob"]


class TrainingJob:
    """A resolver's job.

    Args:
      resolver: Its resolver, which has been started.
    """

    def __init__(self, resolver: IgniteClusterResolver) -> None:
        self._resolver = resolver

    @property
    def failure(self) -> BaseException | None:
        """The error that names a lost task, agent or node, when the job cannot go on."""
        return self._resolver.failure

    @property
    def is_out_of_touch(self) -> bool:
        """Whether just now no node of the cluster answers, so that what is lost may be known later."""
        return self._resolver.is_out_of_touch

    @property
    def is_healing(self) -> bool:
        """Whether its tasks are being started again."""
        return self._resolver.is_healing

    @property
    def attempt(self) -> int:
        """How often its tasks have been started; what was a session with an earlier attempt is none any more."""
        return self._resolver.attempt

    def attempts(self) -> Mapping[tuple[str, int], int]:
        """Which attempt has started each task, or starts it."""
        return {(key.type, key.index): found for key, found in self._resolver.task_attempts().items()}

    def restart(self) -> None:
        """Ends the job and starts another, with the nodes as they are then.

        Raises:
          IgniteStrategyError: It does not start in time.
        """
        self._resolver.restart()

    def note_progress(self, attempt: int) -> None:
        """Notes that an attempt has trained."""
        self._resolver.note_progress(attempt)

    def cluster(self) -> Mapping[str, list[str]]:
        """The addresses of the present attempt's tasks, job name -> list of ``host:port``.

        Raises:
          PreconditionError: They are not all known.
        """
        cluster: dict[str, list[str]] = self._resolver.cluster_spec().as_dict()
        return {job: list(tasks) for job, tasks in cluster.items() if job != "evaluator"}

    def __deepcopy__(self, memo: object) -> TrainingJob:
        return self
