"""Hooks of the chief that end training: all tasks end with it.

In standalone client mode TensorFlow runs a TrainSpec's hooks on the chief only. One that asks to stop ends the
chief; the other tasks would train on without it or, in collective training, wait for it for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow_estimator.python.estimator import early_stopping

if TYPE_CHECKING:
    from ignite_strategy.estimator.run import Run

__all__ = ["for_chief"]


def for_chief(hooks: Iterable[Any], run: Run) -> tuple[Any, ...]:
    """Returns a TrainSpec's hooks as the chief shall run them."""
    return (*map(_alone, hooks), _StopTogether(run))


def _alone(hook: Any) -> Any:
    # TensorFlow's makes a variable that all workers must add to, in the one graph that it sees.
    if isinstance(hook, early_stopping._MultiWorkerEarlyStoppingHook):
        return _EarlyStopping(hook._should_stop_fn, hook._timer)
    return hook


class _EarlyStopping(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Asks ``should_stop`` every so many steps."""

    def __init__(self, should_stop: Any, timer: Any) -> None:
        self._should_stop = should_stop
        self._timer = timer
        self._step: Any = None

    def begin(self) -> None:
        self._step = tf.compat.v1.train.get_global_step()

    def before_run(self, run_context: Any) -> Any:
        return tf.compat.v1.train.SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        step = run_values.results
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._should_stop():
                run_context.request_stop()


class _StopTogether(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Comes after the user's hooks, and passes on to the run what they ask for."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._last_step = False

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._last_step:
            run_context.request_stop()
        elif run_context.stop_requested and not self._run.stop_training():
            # The others are in the next step already, and wait for this task to take it with them.
            self._last_step = True
            run_context._stop_requested = False

    def end(self, session: Any) -> None:
        self._run.chief_is_done()
