"""Gradients over a whole cache as tensors of a graph, which a session with the tasks runs."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ignite_strategy.errors import PreconditionError
from ignite_strategy.gradients.combine import combine
from ignite_strategy.gradients.explain import describe, explained, no_rows, not_finite, workers_of
from ignite_strategy.gradients.link import Link
from ignite_strategy.gradients.part import Part, pass_over, rows_of
from ignite_strategy.gradients.traced import TracedLoss, name_of

if TYPE_CHECKING:
    from ignite_strategy.topology import IgniteClusterResolver

__all__ = ["GraphAggregator"]

Task = tuple[str, int]

_SECONDS_TO_CLOSE = 2.0


class GraphAggregator:
    """Adds ops to the default graph that compute the gradient of a loss over all rows of a cache.

    ::

        with tf.Graph().as_default():
            weights = tf.compat.v1.get_variable("weights", [64, 10])
            aggregator = igs.gradients.GraphAggregator(resolver, igs.IgniteDataset("DIGITS", batch_size=256), loss)
            train = tf.compat.v1.train.GradientDescentOptimizer(0.1).apply_gradients(aggregator.grads_and_vars)
            with aggregator.session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                for epoch in range(30):
                    print(session.run([aggregator.loss, train])[0])

    Each run is a pass of every task over its own rows, on its own device. Variables are where the user has placed them,
    without a device in the first task; their values go to every task once per run, and sums of gradients return.

    Args:
      resolver: Its job must run: ``resolver.start()``.
      dataset: An ``IgniteDataset``, or a function that makes one and what follows it (``map``, ``batch`` and so on).
      loss: Takes an element of the dataset, returns the loss of each of its rows, ``[rows]``, or their mean, ``[]``. It
        uses variables as any other function, and is traced as by ``tf.function(autograph=False)``.
      variables: What the gradient is taken of; by default the trainable variables that ``loss`` uses.
      check_finite: Whether NaN and infinite numbers are an error that names the task.
      patience: Seconds without any answer until a task that hangs, or whose host is away, is lost. One whose process
        has ended is noticed within seconds.

    Attributes:
      loss: The mean loss over all rows, float64.
      rows: How many there are, int64.
      shares: Those of each task, by ``(type, index)``.
      gradients: Of the mean loss, one for each variable: a tensor, ``tf.IndexedSlices``, or ``None``.
      variables: The variables.

    Raises:
      PreconditionError: The job does not run, or eager execution is on.
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
        if tf.executing_eagerly():
            raise PreconditionError(
                "there is no graph to add ops to: use it within `with tf.Graph().as_default():`, or use "
                "igs.gradients.EagerAggregator"
            )
        self._tasks = workers_of(resolver)
        self._resolver = resolver
        self._patience = patience
        self._graph = tf.compat.v1.get_default_graph()
        make, spec = rows_of(dataset)
        traced = TracedLoss(loss, spec, variables)
        self.variables = traced.variables
        weights = [variable.value() for variable in traced.replicas]
        parts = []
        for task in self._tasks:
            with tf.device(f"/job:{task[0]}/task:{task[1]}/device:CPU:0"), tf.name_scope(_scope(task)):
                part = pass_over(traced, make, weights, traced.values)
            parts.append(part)
        checks = [_assert_finite(task, part, self.variables) for task, part in zip(self._tasks, parts)]
        with tf.control_dependencies(checks if check_finite else []):
            parts = [Part.packed([tf.identity(each) for each in part.flat()], traced.kinds) for part in parts]
        self.shares = {task: part.rows for task, part in zip(self._tasks, parts)}
        some = tf.debugging.Assert(tf.add_n([part.rows for part in parts]) > 0, [_NO_ROWS])
        with tf.control_dependencies([some]):
            parts[0].rows = tf.identity(parts[0].rows)
        self.loss, self.rows, self.gradients = combine(parts, traced.kinds, self.variables)

    @property
    def grads_and_vars(self) -> list[tuple[Any, Any]]:
        """What an optimizer's ``apply_gradients`` takes."""
        return [pair for pair in zip(self.gradients, self.variables) if pair[0] is not None]

    def session(self, config: Any = None) -> Any:
        """A ``tf.compat.v1.Session`` with the first task, for a ``with`` block.

        When a task is lost its ``run`` raises a :class:`~ignite_strategy.errors.TaskLostError`, within seconds; when a
        task fails, a :class:`~ignite_strategy.errors.GradientError` that names it.

        Args:
          config: A ``tf.compat.v1.ConfigProto``.
        """
        return _Session(Link(self._resolver, self._patience), self._told, self._tasks, self._graph, config)

    def _told(self, message: str) -> Exception | None:
        """The error for what an op of ours has found, if it is that."""
        found = _FOUND.search(message)
        if found is None:
            return None
        if found["index"] is None:
            return no_rows(self._resolver.cache, self._tasks)
        flags = [flag == "1" for flag in found["flags"].split()]
        return not_finite((found["type"], int(found["index"])), flags, self.variables)


class _Session(tf.compat.v1.Session):  # type: ignore[misc]
    """A session that never waits for what is lost."""

    def __init__(
        self,
        link: Link,
        told: Callable[[str], Exception | None],
        tasks: Sequence[Task],
        graph: Any,
        config: Any,
    ) -> None:
        self._link, self._told = link, told
        self._tasks = tuple(tasks)
        self._is_open = True
        super().__init__(f"grpc://{link.endpoint(self._tasks[0])}", graph=graph, config=config)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """As of ``tf.compat.v1.Session``."""
        self._link.check()
        try:
            return super().run(*args, **kwargs)
        except tf.errors.OutOfRangeError:
            raise  # the end of an iterator of the user's own
        except tf.errors.OpError as error:
            raise self._told(error.message) or explained(error, self._task_of(error), self._link) from error

    def close(self) -> None:
        """Frees what the session holds in the tasks; bounded."""
        if not self._is_open:
            return
        self._is_open = False
        # A session that is deleted unclosed may be so at the end of the interpreter, where no thread can be started.
        if sys._getframe(1).f_code is not tf.compat.v1.Session.__del__.__code__:
            if self._link.is_over:
                self._link.cut()
            closing = threading.Thread(target=self._close, name="ignite_strategy-close", daemon=True)
            closing.start()
            closing.join(_SECONDS_TO_CLOSE)  # it may wait for tasks that do not answer
        self._link.close()

    def _close(self) -> None:
        with contextlib.suppress(tf.errors.OpError):  # nobody needs what is lost
            super().close()

    def _task_of(self, error: Any) -> Task | None:
        text = f"{getattr(error.op, 'name', '')} {error.message}"
        return next((task for task in self._tasks if f"{_scope(task)}/" in text), None)


# What ops of ours say, also to sessions that are not ours.
_NOT_FINITE = "igs.gradients: NaN or infinite (0) over the rows of {task}: the loss, the gradient of {names}"
_NO_ROWS = "igs.gradients: no task had a row"
_FOUND = re.compile(
    r"igs\.gradients: (?:no task had a row|NaN or infinite \(0\) over the rows of "
    r"(?P<type>\w+) (?P<index>\d+):[^\]]*\] \[(?P<flags>[01 ]+)\])"
)


def _scope(task: Task) -> str:
    return f"gradient_of_{task[0]}_{task[1]}"


def _assert_finite(task: Task, part: Part, variables: Sequence[Any]) -> Any:
    names = ", ".join(map(name_of, variables))
    text = _NOT_FINITE.format(task=describe(task), names=names)
    return tf.debugging.Assert(
        tf.reduce_all(part.finite), [text, tf.cast(part.finite, tf.int32)], summarize=len(variables) + 1
    )
