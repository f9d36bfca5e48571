"""What one task does for a step: a pass over its rows, with a copy of the variables, to sums."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ignite_strategy.dataset.placed import PlacedDataset
from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.gradients.traced import DENSE, SPARSE, TracedLoss, in_graph_of

__all__ = ["Part", "Rows", "pass_over", "rows_of"]

Rows = Callable[[], Any]


def rows_of(dataset: Any) -> tuple[Rows, Any]:
    """How a task's dataset is made where it is read, and what its elements look like.

    Args:
      dataset: An ``IgniteDataset``, or a function without arguments that makes one and whatever follows it.

    Raises:
      InvalidArgumentError: It is a dataset that cannot be made again, or none at all.
    """
    if isinstance(dataset, PlacedDataset):
        return dataset.anew, dataset.element_spec
    if isinstance(dataset, tf.data.Dataset):
        raise InvalidArgumentError(
            f"{type(dataset).__name__} is a dataset of this process, whose rows tasks cannot read where they are; "
            "give a function that makes it: lambda: IgniteDataset(...).map(...)"
        )
    if not callable(dataset):
        raise InvalidArgumentError(
            f"{dataset!r} is no dataset: give an IgniteDataset, or a function that makes one"
        )

    def make() -> Any:
        made = dataset()
        if not isinstance(made, tf.data.Dataset):
            raise InvalidArgumentError(
                f"{getattr(dataset, '__name__', dataset)!s}() returns {made!r} and no tf.data.Dataset"
            )
        if in_graph_of(made._variant_tensor):
            return made
        if isinstance(made, PlacedDataset):
            return made.anew()
        raise InvalidArgumentError(
            f"{getattr(dataset, '__name__', dataset)!s}() returns a dataset that was made outside it, which tasks "
            "cannot read: make it within"
        )

    with tf.Graph().as_default():
        return make, make().element_spec


class Part:
    """The tensors of one task's share.

    Attributes:
      total: The sum of the rows' losses, float64.
      rows: Their number, int64.
      sums: For each variable a tensor, ``(values, indices)`` of slices with different indices, or ``None``.
      finite: Whether the loss and each of the sums is finite, bool.
    """

    def __init__(self, total: Any, rows: Any, sums: Sequence[Any], finite: Any) -> None:
        self.total, self.rows, self.sums, self.finite = total, rows, list(sums), finite

    def flat(self) -> list[Any]:
        """All of them in one list, for :meth:`packed`."""
        return [
            self.total,
            self.rows,
            self.finite,
            *tf.nest.flatten([each for each in self.sums if each is not None]),
        ]

    @staticmethod
    def packed(flat: Sequence[Any], kinds: Sequence[str]) -> Part:
        """From the list that :meth:`flat` gives."""
        total, rows, finite, *rest = flat
        left = iter(rest)
        sums = [
            next(left) if kind == DENSE else (next(left), next(left)) if kind == SPARSE else None
            for kind in kinds
        ]
        return Part(total, rows, sums, finite)


def pass_over(loss: TracedLoss, make: Rows, weights: Sequence[Any], values: Sequence[Any]) -> Part:
    """Adds the ops of a pass, under the device in force.

    Weights come once and sums go once, however many batches there are; sums are kept in float64, so that they are as
    exact for a million rows as for ten.

    Args:
      loss: The loss.
      make: Makes the dataset.
      weights: The values of ``loss.replicas``.
      values: Those of ``loss.values``.
    """
    own = _Resources()
    handles = [own.new(value) for value in weights]
    sums = {
        at: own.new(tf.zeros(variable.shape, _exact(variable.dtype)))
        for at, (kind, variable) in enumerate(zip(loss.kinds, loss.variables))
        if kind in (DENSE, SPARSE)
    }
    touched = {
        at: own.new(tf.zeros(loss.variables[at].shape[:1], tf.bool))
        for at, kind in enumerate(loss.kinds)
        if kind == SPARSE
    }

    def add(state: tuple[Any, Any], *element: Any) -> tuple[Any, Any]:
        total, rows, gradients = loss(element, handles, values)
        writes = []
        for at, gradient in enumerate(gradients):
            if gradient is None:
                continue
            if loss.kinds[at] == DENSE:
                exact = tf.cast(gradient, _exact(gradient.dtype))
                writes.append(tf.raw_ops.AssignAddVariableOp(resource=sums[at], value=exact))
                continue
            found, indices = gradient
            exact = tf.cast(found, _exact(found.dtype))
            writes.append(tf.raw_ops.ResourceScatterAdd(resource=sums[at], indices=indices, updates=exact))
            mark = tf.ones_like(indices, tf.bool)
            writes.append(
                tf.raw_ops.ResourceScatterUpdate(resource=touched[at], indices=indices, updates=mark)
            )
        with tf.control_dependencies(writes):
            return state[0] + total, state[1] + rows

    with tf.control_dependencies(own.made):
        start = (tf.zeros([], tf.float64), tf.zeros([], tf.int64))
        total, rows = _untuned(make()).reduce(start, add)
    with tf.control_dependencies([total, rows]):
        shares = [_share(loss, at, sums, touched) for at in range(len(loss.variables))]
    checks = [tf.math.is_finite(total)]
    checks += [_is_finite(share) for share in shares]
    part = Part(total, rows, shares, tf.stack(checks))
    with tf.control_dependencies(part.flat()):
        gone = own.destroy()
    with tf.control_dependencies(gone):
        return Part.packed([tf.identity(tensor) for tensor in part.flat()], loss.kinds)


def _untuned(dataset: Any) -> Any:
    """TensorFlow's thread that tunes a pipeline may sleep through the end of a short pass, for up to a minute."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def _share(loss: TracedLoss, at: int, sums: dict[int, Any], touched: dict[int, Any]) -> Any:
    if at not in sums:
        return None
    variable = loss.variables[at]
    exact = tf.raw_ops.ReadVariableOp(resource=sums[at], dtype=_exact(variable.dtype))
    exact.set_shape(variable.shape)
    if loss.kinds[at] == DENSE:
        return tf.cast(exact, variable.dtype)
    marks = tf.raw_ops.ReadVariableOp(resource=touched[at], dtype=tf.bool)
    marks.set_shape(variable.shape[:1])
    indices = tf.reshape(tf.where(marks), [-1])
    return tf.cast(tf.gather(exact, indices), variable.dtype), indices


def _is_finite(share: Any) -> Any:
    if share is None:
        return tf.constant(True)
    return tf.reduce_all(tf.math.is_finite(share[0] if isinstance(share, tuple) else share))


def _exact(dtype: Any) -> Any:
    return tf.float64 if dtype.is_floating else dtype


class _Resources:
    """Variables of a task that last as long as one pass; without TensorFlow's deleters, which need the task to live."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self._handles: list[Any] = []

    def new(self, value: Any) -> Any:
        handle = tf.raw_ops.VarHandleOp(
            dtype=value.dtype, shape=value.shape, shared_name=f"ignite_strategy_{uuid.uuid4().hex}"
        )
        self._handles.append(handle)
        self.made.append(tf.raw_ops.AssignVariableOp(resource=handle, value=value))
        return handle

    def destroy(self) -> list[Any]:
        return [
            tf.raw_ops.DestroyResourceOp(resource=handle, ignore_lookup_error=True)
            for handle in self._handles
        ]
