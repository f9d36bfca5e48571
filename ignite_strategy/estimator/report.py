"""Those who are told of evaluations, as TensorFlow wants them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ignite_strategy.estimator.evaluation import Evaluation, step_of

if TYPE_CHECKING:
    from ignite_strategy.estimator.run import Run

__all__ = ["Check", "Report"]


class Check(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Ends an evaluation whose run has failed."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def before_run(self, run_context: Any) -> None:
        """Raises the reason."""
        self._run.check()


class Report(tf.estimator.Exporter):  # type: ignore[misc]
    """Exports nothing: an exporter is the one who is told the metrics of each evaluation."""

    is_listed = False

    def __init__(self, report: Callable[[Evaluation, dict[str, Any]], None]) -> None:
        self._report = report

    @property
    def name(self) -> str:
        """Of the exporter, and of the directory that it never makes."""
        return "ignite_strategy_report"

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Any,
        is_the_final_export: bool,
    ) -> None:
        """Passes on what was evaluated."""
        metrics = {name: float(value) for name, value in eval_result.items() if _is_number(value)}
        evaluation = Evaluation(step_of(checkpoint_path), checkpoint_path, metrics, bool(is_the_final_export))
        self._report(evaluation, eval_result)


def _is_number(value: Any) -> bool:
    with contextlib.suppress(TypeError, ValueError):
        float(value)
        return True
    return False
