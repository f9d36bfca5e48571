"""``igs.train_and_evaluate``: TensorFlow's, made again when the cluster has changed, until training is done."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ignite_strategy.errors import InvalidArgumentError, PreconditionError, StalledError, TaskLostError
from ignite_strategy.runtime.job import pause_before

if TYPE_CHECKING:
    from ignite_strategy.estimator.evaluation import Evaluation
    from ignite_strategy.estimator.supervisor import Supervisor

__all__ = ["Account", "train_and_evaluate"]

_LONGEST_PAUSE = 16.0
_log = logging.getLogger(__name__)


@dataclass
class Account:
    """What all attempts of one training have done together.

    Attributes:
      stall_seconds: How long no task may take a step, None for any time.
      evaluated: Step of the last checkpoint that was evaluated, None before the first.
      metrics: Of that evaluation.
      exports: What its exporters returned.
      has_trained: Whether the attempt that is on, or was last, has taken steps.
    """

    stall_seconds: float | None = None
    evaluated: int | None = None
    metrics: dict[str, Any] | None = None
    exports: list[Any] = field(default_factory=list)
    has_trained: bool = False
    _exported: list[Any] = field(default_factory=list)

    def add_export(self, result: Any) -> None:
        """Notes what an exporter returned."""
        self._exported.append(result)

    def add_evaluation(self, evaluation: Evaluation, metrics: dict[str, Any]) -> None:
        """Notes an evaluation whose exporters have all been called."""
        self.evaluated = evaluation.step
        self.metrics = dict(metrics)
        self.exports, self._exported = self._exported, []


def train_and_evaluate(
    estimator: Any,
    train_spec: Any,
    eval_spec: Any,
    *,
    attempts: int = 5,
    stall_seconds: float | None = 600.0,
) -> tuple[dict[str, Any] | None, list[Any]]:
    """Trains and evaluates an Estimator through the loss of tasks, agents and Ignite nodes.

    As ``tf.estimator.train_and_evaluate``, which survives lost tasks and agents by itself. When a node is lost, or no
    task takes a step for ``stall_seconds``, this ends what is on within seconds, starts a job with the nodes and the
    primaries as they are then, and goes on from the last checkpoint: each row is again read where it lives. Each
    checkpoint is evaluated at most once, in order, and the last one always.

    Args:
      estimator: An Estimator whose config is of ``resolver.run_config()``.
      train_spec: A ``tf.estimator.TrainSpec`` with ``max_steps``.
      eval_spec: A ``tf.estimator.EvalSpec``.
      attempts: How often in a row it is tried without training (20 steps), with growing pauses.
      stall_seconds: How long no task may take a step; None: for any time. The first step of an attempt, with the
        building of the graph, counts too.

    Returns:
      The metrics of the last evaluation (None without one: the resolver has no evaluator), and what its exporters
      returned.

    Raises:
      PreconditionError: The Estimator's config is of something else.
      IgniteStrategyError: What was lost, when all attempts are used up, or training cannot go on without it.
      Exception: Whatever model_fn, input_fn, hooks or exporters raise; that is never tried again.
    """
    import tensorflow as tf

    if attempts < 1:
        raise InvalidArgumentError(f"attempts={attempts!r}: 1 or more")
    if stall_seconds is not None and not stall_seconds > 0:
        raise InvalidArgumentError(f"stall_seconds={stall_seconds!r}: more than 0, or None")
    supervisor = _supervisor_of(estimator)
    account = Account(stall_seconds)
    supervisor.account = account
    in_a_row = 0
    try:
        while True:
            account.has_trained = False
            try:
                tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
                return account.metrics, account.exports
            except Exception as error:
                loss = supervisor.loss or error
                in_a_row = 1 if account.has_trained else in_a_row + 1
                if not isinstance(loss, (StalledError, TaskLostError)) or in_a_row >= attempts:
                    raise
            _log.warning("%s A new job is started, with the nodes as they are now", _sentence(loss))
            time.sleep(pause_before(in_a_row, _LONGEST_PAUSE))
            estimator = supervisor.begin_again(estimator)
    finally:
        supervisor.account = None


def _sentence(error: BaseException) -> str:
    text = str(error).strip()
    return text if text.endswith(".") else f"{text}."


def _supervisor_of(estimator: Any) -> Supervisor:
    from ignite_strategy.estimator.strategy import IgniteStrategy

    strategy = getattr(estimator, "_train_distribution", None)
    supervisor = strategy._supervisor if isinstance(strategy, IgniteStrategy) else None
    if supervisor is None:
        raise PreconditionError(
            "igs.train_and_evaluate needs an Estimator with config=resolver.run_config(model_dir=...)"
        )
    return supervisor
