"""Gradients over a whole cache with eager execution, on the devices of remote tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ignite_strategy.errors import GradientError, PreconditionError
from ignite_strategy.gradients.combine import Aggregate, combine
from ignite_strategy.gradients.explain import describe, explained, no_rows, not_finite, workers_of
from ignite_strategy.gradients.part import Part, pass_over, rows_of
from ignite_strategy.gradients.remote import connect, disconnect, own_executor
from ignite_strategy.gradients.traced import TracedLoss

if TYPE_CHECKING:
    from ignite_strategy.topology import IgniteClusterResolver

__all__ = ["EagerAggregator"]

Task = tuple[str, int]

_POLL = 0.1
_SECONDS_TO_OBEY = 3.0


class EagerAggregator:
    """Computes the gradient of a loss over all rows of a cache, each task over its own rows on its own device.

    ::

        aggregator = igs.gradients.EagerAggregator(resolver, igs.IgniteDataset("DIGITS", batch_size=256), loss)
        for epoch in range(30):
            step = aggregator.compute()
            optimizer.apply_gradients(step.grads_and_vars)

    Variables stay in this process; each :meth:`compute` sends their values to the tasks, and their gradients return.
    This process connects to the tasks as ``tf.config.experimental_connect_to_cluster`` does, through a link that ends
    every wait when a task is lost. TensorFlow has one such connection: an aggregator for another job replaces it.

    Args:
      resolver: Its job must run: ``resolver.start()``.
      dataset: An ``IgniteDataset``, or a function that makes one and what follows it (``map``, ``batch`` and so on).
      loss: Takes an element of the dataset, returns the loss of each of its rows, ``[rows]``, or their mean, ``[]``. It
        uses variables as any other function, and is traced as by ``tf.function(autograph=False)``.
      variables: What the gradient is taken of; by default the trainable variables that ``loss`` uses.
      check_finite: Whether NaN and infinite numbers are an error that names the task.
      patience: Seconds without any answer until a task that hangs, or whose host is away, is lost. One whose process
        has ended is noticed within seconds.

    Raises:
      PreconditionError: The job does not run, or eager execution is off.
      TaskLostError: A task is lost.
      InvalidArgumentError: An argument cannot be used.
      UnsupportedError: ``loss`` does what cannot be done in a task.
    """

    def __init__(
        self,
        resolver: IgniteClusterResolver,
        dataset: Any,
        loss: Callable[..., Any],
        variables: Sequence[Any] | None = None,
        *,
        check_finite: bool = True,
        patience: float = 15.0,
    ) -> None:
        if not tf.executing_eagerly():
            raise PreconditionError("eager execution is off here: use igs.gradients.GraphAggregator")
        self._tasks = workers_of(resolver)
        self._resolver = resolver
        self._check_finite = check_finite
        make, spec = rows_of(dataset)
        self._loss = loss_ = TracedLoss(loss, spec, variables)
        self.variables = loss_.variables

        def work(weights: list[Any], values: list[Any]) -> list[Any]:
            return pass_over(loss_, make, weights, values).flat()

        self._work: Any = None
        self._closed = False
        self._link = connect(resolver, patience)
        try:
            # One function for all tasks: its ops run where it is called.
            self._work = tf.function(work, autograph=False).get_concrete_function(
                [tf.TensorSpec(variable.shape, variable.dtype) for variable in loss_.replicas],
                [tf.TensorSpec(value.shape, value.dtype) for value in loss_.values],
            )
        except tf.errors.OpError as error:
            reason = explained(error, None, self._link)
            self.close()
            raise reason from error
        except BaseException:
            self.close()
            raise
        resolver.on_close(self.close)

    def compute(self) -> Aggregate:
        """A pass of every task over its rows.

        Raises:
          GradientError: A task failed, or its gradient is not finite; it names the task.
          TaskLostError: A task is lost; the aggregator is of no more use.
          InvalidArgumentError: No task has a row.
        """
        if self._work is None:
            raise PreconditionError("the aggregator is closed")
        self._link.check()
        # Each thread makes tensors of its own: TensorFlow cannot send one tensor to several tasks at the same time.
        weights = [variable.numpy() for variable in self._loss.replicas]
        values = [value.numpy() for value in self._loss.values]
        calls = [_Call(task, self._work, weights, values) for task in self._tasks]
        self._wait(calls)
        for call in calls:
            if call.error is not None:
                self._raise(call)
        parts = [Part.packed(call.result, self._loss.kinds) for call in calls]
        if self._check_finite:
            for task, part in zip(self._tasks, parts):
                problem = not_finite(task, part.finite.tolist(), self.variables)
                if problem is not None:
                    raise problem
        loss, rows, gradients = combine(parts, self._loss.kinds, self.variables)
        if not int(rows):
            raise no_rows(self._resolver.cache, self._tasks)
        shares = {task: int(part.rows) for task, part in zip(self._tasks, parts)}
        return Aggregate(float(loss), int(rows), gradients, self.variables, shares)

    def close(self) -> None:
        """Ends the use of the tasks; bounded, whatever has become of them. The resolver calls it when it closes."""
        self._work = None
        if not self._closed:
            self._closed = True
            disconnect(self._link)

    def __enter__(self) -> EagerAggregator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _wait(self, calls: Sequence[_Call]) -> None:
        for call in calls:
            while not call.done.wait(_POLL):
                if self._link.is_over and not call.done.wait(_SECONDS_TO_OBEY):
                    self._link.check()

    def _raise(self, call: _Call) -> None:
        error = call.error
        if isinstance(error, tf.errors.OpError):
            raise explained(error, call.task, self._link) from error
        assert error is not None
        self._link.check()
        raise GradientError(f"{describe(call.task)}: {type(error).__name__}: {error}", call.task) from error


class _Call:
    """A task's share, computed while a thread of its own waits for it."""

    def __init__(self, task: Task, work: Any, weights: Sequence[Any], values: Sequence[Any]) -> None:
        self.task = task
        self.done = threading.Event()
        self.result: list[Any] = []
        self.error: BaseException | None = None
        self._given = (work, list(weights), list(values))
        threading.Thread(target=self._run, name=f"gradient {describe(task)}", daemon=True).start()

    def _run(self) -> None:
        work, weights, values = self._given
        kind, index = self.task
        try:
            with tf.device("CPU:0"):
                weights, values = list(map(tf.constant, weights)), list(map(tf.constant, values))
            with tf.device(f"/job:{kind}/replica:0/task:{index}/device:CPU:0"), own_executor():
                self.result = [tensor.numpy() for tensor in work(weights, values)]
        except BaseException as error:
            self.error = error
        finally:
            self.done.set()
