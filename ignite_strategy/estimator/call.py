"""What one call of ``tf.estimator.train_and_evaluate`` was given.

In standalone client mode TensorFlow shows a strategy neither the TrainSpec nor the EvalSpec: they live in
the frame of the call that is running. This module reads them there, so that traps are errors before a
thread is started, and replaces the EvalSpec *of that call* by one whose waiting can be interrupted, and the
TrainSpec by one whose hooks end all tasks. Nothing of TensorFlow's or the user's is changed. Supported
releases are few and frozen (TF 2.13-2.15, the last with Estimator).
"""

from __future__ import annotations

import copy
import sys
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from tensorflow.python.distribute import distribute_coordinator, estimator_training

if TYPE_CHECKING:
    from ignite_strategy.estimator.existing import Evaluations

__all__ = ["TrainingCall", "called_from", "find_frame", "is_running", "is_training", "own_coordinator"]

_RUN = distribute_coordinator.run_distribute_coordinator.__code__
_WORKER = distribute_coordinator._run_single_worker.__code__
_TRAIN = estimator_training.train_and_evaluate.__code__


def find_frame(start: FrameType | None, code: CodeType) -> FrameType | None:
    """Returns the innermost frame of ``code`` on a stack, or None."""
    while start is not None and start.f_code is not code:
        start = start.f_back
    return start


def called_from(depth: int) -> FrameType | None:
    """Returns the frame of ``train_and_evaluate`` if the ``depth``-th caller is its coordinator, else None."""
    frame = sys._getframe(depth + 1)
    return find_frame(frame, _TRAIN) if frame.f_code is _RUN else None


def is_running(thread: int, frame: FrameType) -> bool:
    """Tells whether a thread is inside that very call of ``train_and_evaluate``."""
    return find_frame(sys._current_frames().get(thread), _TRAIN) is frame


def is_training(thread: int) -> bool:
    """Tells whether a thread trains: a task's, or the caller itself when one session drives all tasks."""
    return find_frame(sys._current_frames().get(thread), _WORKER) is not None


def own_coordinator() -> Any:
    """Returns the ``Coordinator`` of the task's or evaluator's thread that calls this, or None."""
    frame = find_frame(sys._getframe(1), _WORKER)
    return None if frame is None else frame.f_locals.get("coord")


class TrainingCall:
    """The arguments of a call that has not started its threads yet.

    Args:
      frame: The frame of ``train_and_evaluate``.

    Attributes:
      estimator: The user's Estimator.
      train_spec: The TrainSpec.
      eval_spec: The EvalSpec as the user gave it.
      frame: As given.
    """

    def __init__(self, frame: FrameType) -> None:
        self.frame = frame
        self.estimator = frame.f_locals["estimator"]
        self.train_spec = frame.f_locals["train_spec"]
        self.eval_spec = frame.f_locals["eval_spec"]
        evaluate = frame.f_locals["_eval_fn"]
        self._cells = dict(zip(evaluate.__code__.co_freevars, evaluate.__closure__))

    def replace_hooks(self, hooks: tuple[Any, ...]) -> None:
        """Makes the chief train with these hooks."""
        self._cells["train_spec"].cell_contents = self.train_spec._replace(hooks=hooks)

    def replace_evaluation(
        self, evaluations: Evaluations, hooks: tuple[Any, ...], exporters: tuple[Any, ...]
    ) -> None:
        """Makes the evaluator ask ``evaluations`` for what to evaluate next, and never sleep by itself."""
        estimator = copy.copy(self.estimator)
        estimator.latest_checkpoint = evaluations.latest_checkpoint
        estimator.evaluate = evaluations.evaluate
        self._cells["estimator"].cell_contents = estimator
        self._cells["eval_spec"].cell_contents = self.eval_spec._replace(
            hooks=(*self.eval_spec.hooks, *hooks),
            exporters=tuple(map(evaluations.exporter, (*self.eval_spec.exporters, *exporters))),
            start_delay_secs=0,
            throttle_secs=0,
        )
