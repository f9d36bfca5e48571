"""Which checkpoint is evaluated next, and when.

TensorFlow's own loop evaluates the latest checkpoint, then sleeps ``throttle_secs``, also after the last
one, where nothing wakes it. Here the same loop asks :class:`Pace`, which waits in a way that ends: when
there is a checkpoint to evaluate, when training is over, or when the run has failed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Evaluation", "Pace", "print_evaluation", "step_of"]

_POLL = 0.2


@dataclass(frozen=True)
class Evaluation:
    """The result of evaluating one checkpoint.

    Attributes:
      step: The global step of the checkpoint.
      checkpoint: Its path, without the suffixes of its files.
      metrics: What ``Estimator.evaluate`` returned.
      final: Whether training ends with this checkpoint (``max_steps`` is reached).
    """

    step: int
    checkpoint: str
    metrics: Mapping[str, Any] = field(default_factory=dict)
    final: bool = False


def print_evaluation(evaluation: Evaluation) -> None:
    """Prints one line to stderr."""
    values = ", ".join(
        f"{name} = {value:.6g}" for name, value in sorted(evaluation.metrics.items()) if name != "global_step"
    )
    print(
        f"evaluation at step {evaluation.step}: {values} ({evaluation.checkpoint})",
        file=sys.stderr,
        flush=True,
    )


def step_of(checkpoint: str) -> int:
    """Returns the global step in a checkpoint's name, -1 if it has none.

    >>> step_of("igfs:///digits/model.ckpt-200")
    200
    """
    number = checkpoint.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


class Training(Protocol):
    """The training that an evaluator accompanies."""

    def check(self) -> None:
        """Raises the reason when the run has failed."""

    def wait(self, seconds: float) -> bool:
        """Waits; True as soon as the run has failed."""

    def training_is_over(self) -> bool:
        """Tells whether every training task has ended, so that no checkpoint will be added."""


class Pace:
    """Hands out checkpoints in order, each at most once.

    ``throttle_secs`` means what TensorFlow's documentation says: an evaluation starts no sooner than that
    after the last one started. If this limit is what makes the evaluator wait, it goes on with the latest
    checkpoint and those in between are skipped, as in TensorFlow; otherwise none is: with
    ``throttle_secs=0`` each checkpoint is evaluated. The last one always is, at once.

    Args:
      training: The training run.
      checkpoints: Returns the paths of the existing checkpoints, oldest first.
      throttle: ``EvalSpec.throttle_secs``.
      start_delay: ``EvalSpec.start_delay_secs``.
      keep: How many checkpoints are kept, 0 for all: the oldest of that many may be deleted at any moment.
      first_step: The step of the latest checkpoint when the run began, -1 if there was none: a run that resumes
        begins with what it starts from, not with its history, and a new one with its first.
      is_last: Whether TensorFlow would take this checkpoint for the last one. With parameter servers one may hold a
        later step than its name says, and be followed by another; then only the one after it is evaluated.
    """

    def __init__(
        self,
        training: Training,
        checkpoints: Callable[[], list[str]],
        throttle: float,
        start_delay: float,
        keep: int = 0,
        first_step: int = -1,
        is_last: Callable[[str], bool] = lambda _: False,
        evaluated: int | None = None,
    ) -> None:
        self._training = training
        self._checkpoints = checkpoints
        self._throttle = throttle
        self._keep = keep
        self._not_before = time.monotonic() + start_delay
        self._last_step = evaluated
        self._first_step = first_step
        self._is_last = is_last

    def next(self) -> str | None:
        """Waits for the next checkpoint to evaluate; None when there will be none.

        Raises:
          Exception: The reason, when the run has failed.
        """
        over = self._training.training_is_over()
        waited = self._wait_for_turn()
        while True:
            self._training.check()
            over = self._training.training_is_over()  # before the look at the files: none may slip through
            pending = self._pending()
            if pending:
                path = pending[-1] if waited and not over else pending[0]
                if self._is_last(path):
                    if not over:
                        self._training.wait(_POLL)
                        continue
                    path = pending[-1]
                self._last_step = step_of(path)
                self._not_before = time.monotonic() + self._throttle
                return path
            if over:
                return None
            self._training.wait(_POLL)

    def _wait_for_turn(self) -> bool:
        waited = False
        while True:
            left = self._not_before - time.monotonic()
            if left <= 0 or self._training.training_is_over():
                return waited
            waited = True
            if self._training.wait(min(left, _POLL)):
                self._training.check()

    def _pending(self) -> list[str]:
        paths = self._checkpoints()
        last = self._first_step - 1 if self._last_step is None else self._last_step
        if len(paths) > 1 and len(paths) == self._keep:
            paths = paths[1:]
        return [path for path in paths if step_of(path) > last]
