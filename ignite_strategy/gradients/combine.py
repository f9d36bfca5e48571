"""From the tasks' sums to the mean over all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ignite_strategy.gradients.part import Part
from ignite_strategy.gradients.traced import DENSE, SPARSE

__all__ = ["Aggregate", "combine"]


@dataclass(frozen=True)
class Aggregate:
    """A step over all rows.

    Attributes:
      loss: The mean over all rows.
      rows: How many there were.
      gradients: Of the mean loss, one for each variable: a tensor, ``tf.IndexedSlices`` where the loss looks up some
        rows of the variable only, or ``None`` where it does not depend on it.
      variables: The variables.
      shares: Rows of each task, by ``(type, index)``.
    """

    loss: float
    rows: int
    gradients: list[Any]
    variables: tuple[Any, ...] = ()
    shares: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @property
    def grads_and_vars(self) -> list[tuple[Any, Any]]:
        """What an optimizer's ``apply_gradients`` takes."""
        return [pair for pair in zip(self.gradients, self.variables) if pair[0] is not None]


def combine(
    parts: Sequence[Part], kinds: Sequence[str], variables: Sequence[Any]
) -> tuple[Any, Any, list[Any]]:
    """The mean loss, the number of rows and the gradients of the mean.

    Each task gives sums, so that a task weighs as much as it has rows, and one that has none weighs nothing.
    """
    rows = tf.add_n([part.rows for part in parts])
    weight = tf.cast(tf.maximum(rows, 1), tf.float64)
    loss = tf.add_n([part.total for part in parts]) / weight
    gradients: list[Any] = []
    for at, (kind, variable) in enumerate(zip(kinds, variables)):
        shares = [part.sums[at] for part in parts]
        if kind == DENSE:
            total = tf.add_n([tf.cast(share, tf.float64) for share in shares])
            gradients.append(tf.cast(total / weight, variable.dtype))
        elif kind == SPARSE:
            gradients.append(_slices(shares, weight, variable))
        else:
            gradients.append(None)
    return loss, rows, gradients


def _slices(shares: Sequence[tuple[Any, Any]], weight: Any, variable: Any) -> Any:
    values = tf.concat([tf.cast(values, tf.float64) for values, _ in shares], 0)
    # Several tasks may have looked up the same row.
    indices, places = tf.unique(tf.concat([indices for _, indices in shares], 0))
    summed = tf.math.unsorted_segment_sum(values, places, tf.size(indices))
    return tf.IndexedSlices(
        tf.cast(summed / weight, variable.dtype), indices, tf.constant(variable.shape.as_list(), tf.int64)
    )
