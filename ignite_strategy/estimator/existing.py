"""Evaluation of checkpoints that training may delete at any moment.

An evaluation builds a graph before it reads its checkpoint, and with ``keep_checkpoint_max`` the chief may have deleted
it by then. TensorFlow's evaluator would end the whole run; here the next checkpoint that is there takes its place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf

__all__ = ["Evaluations"]

_log = logging.getLogger(__name__)


class Evaluations:
    """What stands for an Estimator's ``latest_checkpoint`` and ``evaluate`` in one run.

    Args:
      evaluate: The Estimator's own.
      latest_checkpoint: Returns the path of the next checkpoint to evaluate; raises when there will be none.
      keep: ``keep_checkpoint_max``, for the message.
      exported: Called with what each exporter returned.
    """

    def __init__(
        self,
        evaluate: Callable[..., Any],
        latest_checkpoint: Callable[[], str],
        keep: int,
        exported: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self._evaluate = evaluate
        self.exported = exported
        self.latest_checkpoint = latest_checkpoint
        self._keep = keep
        self._evaluated: dict[str, str] = {}

    def __deepcopy__(self, memo: Any) -> Evaluations:
        # TensorFlow copies the Estimator, with everything in it, after the exporters were told of this one.
        return self

    def evaluate(self, input_fn: Any, **arguments: Any) -> Any:
        """Evaluates a checkpoint, or if it has been deleted meanwhile the next one that is there."""
        wanted = path = arguments.pop("checkpoint_path")
        while True:
            try:
                metrics = self._evaluate(input_fn, checkpoint_path=path, **arguments)
            except (ValueError, tf.errors.NotFoundError, tf.errors.DataLossError):
                if tf.compat.v1.train.checkpoint_exists(path):
                    raise
                gone, path = path, self.latest_checkpoint()
                _log.warning(
                    "%s was deleted before it could be evaluated, because evaluation is slower than training: "
                    "evaluating %s. keep_checkpoint_max=%d keeps more, a longer throttle_secs skips some on purpose",
                    gone,
                    path,
                    self._keep,
                )
            else:
                self._evaluated = {wanted: path}
                return metrics

    def exporter(self, exporter: Any) -> Any:
        """The same exporter, told which checkpoint was really evaluated."""
        return _Exporter(exporter, self)

    def evaluated(self, path: str) -> str:
        """The checkpoint that was evaluated in place of ``path``, mostly itself."""
        return self._evaluated.get(path, path)


class _Exporter(tf.estimator.Exporter):  # type: ignore[misc]
    def __init__(self, inner: Any, evaluations: Evaluations) -> None:
        self._inner = inner
        self._evaluations = evaluations

    @property
    def name(self) -> Any:
        return self._inner.name

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Any,
        is_the_final_export: bool,
    ) -> Any:
        result = self._inner.export(
            estimator=estimator,
            export_path=export_path,
            checkpoint_path=self._evaluations.evaluated(checkpoint_path),
            eval_result=eval_result,
            is_the_final_export=is_the_final_export,
        )
        if getattr(self._inner, "is_listed", True):  # our own one is not
            self._evaluations.exported(result)
        return result
