"""A pass as pages of columns: ``GeneratorDataset`` around the native ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ignite_strategy import library
from ignite_strategy.dataset import source as sources
from ignite_strategy.dataset.columns import Column, mask_path
from ignite_strategy.dataset.source import Source

__all__ = ["Layout", "Pages", "Part"]


@dataclass(frozen=True)
class Layout:
    """What an element of the pages is.

    Attributes:
      rows: Rows of a batch.
      batched: Whether elements are batches of that size, or whatever a page has.
      drop_remainder: Whether a last batch with fewer rows is dropped.
      dense: Whether arrays without a declared length are dense in a batch, as ``batch()`` makes them, or ragged.
      padded: Whether they are dense and shorter ones are padded, as ``padded_batch()`` does.
    """

    rows: int = 1
    batched: bool = False
    drop_remainder: bool = False
    dense: bool = False
    padded: bool = False

    @property
    def code(self) -> int:
        """The native code's number for the layout of arrays."""
        if not self.batched:
            return sources.UNIFORM
        if self.padded:
            return sources.PADDED
        return sources.DENSE if self.dense else sources.RAGGED

    def is_ragged(self, column: Column) -> bool:
        """Whether ``column`` comes as values and row splits."""
        return self.code == sources.RAGGED and column.is_array and column.length is None


@dataclass(frozen=True)
class Part:
    """One tensor of a page.

    Attributes:
      path: Where it is shown.
      column: The column.
      kind: ``values``, ``splits`` of a ragged column, or its ``mask``.
      spec: What it looks like.
    """

    path: tuple[str, ...]
    column: Column
    kind: str
    spec: tf.TensorSpec


class Pages(tf.data.Dataset):  # type: ignore[misc]
    """Elements are flat tuples: per column its values, for a ragged one its row splits, and a mask if it has one.

    They come in the order of their paths, that is of ``tf.nest.flatten``.
    """

    def __init__(
        self,
        source: Source,
        tensors: Mapping[str, tf.Tensor],
        columns: Sequence[Column],
        layout: Layout,
        bytes_per_row: float,
    ) -> None:
        self.columns = tuple(columns)
        self.layout = layout
        # Native code takes the columns of a statement for fields of a value; nobody else sees that.
        self._hidden = 0 if source.sql is None else 1
        parts = [part for column in columns for part in self._parts(column)]
        # Native code gives them column by column; a mask need not follow its column in the order of paths.
        order = sorted(range(len(parts)), key=lambda at: parts[at].path)
        self.parts = tuple(parts[at] for at in order)
        self._spec = tuple(part.spec for part in self.parts)
        config = source.config(
            columns,
            layout.code,
            bytes_per_row,
            layout.rows if layout.batched else 0,
            layout.drop_remainder,
        )
        arguments = [
            tf.constant(config, tf.string),
            tf.cast(tensors.get("host", tf.constant("")), tf.string),
            tf.reshape(tf.cast(tensors.get("port", tf.constant([], tf.int32)), tf.int32), [-1]),
            tf.reshape(tf.cast(tensors.get("part", tf.constant([], tf.int32)), tf.int32), [-1]),
        ]
        # Kept: a function is gone from the runtime with the last Python reference to it.
        self._functions = _functions([part.spec for part in parts], order)
        init, advance, finalize = self._functions
        super().__init__(
            tf.raw_ops.GeneratorDataset(
                init_func_other_args=arguments,
                next_func_other_args=[],
                finalize_func_other_args=[],
                init_func=init,
                next_func=advance,
                finalize_func=finalize,
                output_types=[spec.dtype for spec in self._spec],
                output_shapes=[spec.shape for spec in self._spec],
            )
        )

    def _parts(self, column: Column) -> list[Part]:
        rows = self.layout.rows if self.layout.batched and self.layout.drop_remainder else None
        ragged = self.layout.is_ragged(column)
        path = column.path[self._hidden :]
        shape = [None] if ragged else [rows, column.length] if column.is_array else [rows]
        parts = [Part(path, column, "values", tf.TensorSpec(shape, tf.as_dtype(column.dtype)))]
        if ragged:
            splits = None if rows is None else rows + 1
            parts.append(Part(path, column, "splits", tf.TensorSpec([splits], tf.int64)))
        if column.masked:
            shape = shape if column.item_mask else [rows]
            parts.append(Part(mask_path(path), column, "mask", tf.TensorSpec(shape, tf.bool)))
        return parts

    @property
    def element_spec(self) -> tuple[tf.TensorSpec, ...]:
        """The flat tuple's spec."""
        return self._spec

    def _inputs(self) -> list[tf.data.Dataset]:
        return []


def _functions(specs: Sequence[tf.TensorSpec], order: Sequence[int]) -> tuple[Any, Any, Any]:
    ops = library.ops()

    def init(config: tf.Tensor, host: tf.Tensor, port: tf.Tensor, partitions: tf.Tensor) -> tf.Tensor:
        handle = ops.ignite_strategy_open(config=config, host=host, port=port, partitions=partitions)
        handle.set_shape([])
        return handle

    def wait(handle: tf.Tensor) -> tf.Tensor:
        ready = ops.ignite_strategy_wait(handle)
        ready.set_shape([])
        return ready

    def advance(handle: tf.Tensor) -> list[tf.Tensor]:
        # Short waits in a loop: a kernel that blocks cannot be cancelled, a function between two kernels can.
        ready = tf.while_loop(tf.logical_not, lambda _: (wait(handle),), (wait(handle),))
        with tf.control_dependencies(tf.nest.flatten(ready)):
            columns = ops.ignite_strategy_next(handle, Tcolumns=[spec.dtype for spec in specs])
        for column, spec in zip(columns, specs):
            column.set_shape(spec.shape)
        return [columns[at] for at in order]

    def finalize(handle: tf.Tensor) -> tf.Tensor:
        closed = ops.ignite_strategy_close(handle)
        closed.set_shape([])
        return closed

    handle_spec = tf.TensorSpec([], tf.int64)
    init_specs = [
        tf.TensorSpec([], tf.string),
        tf.TensorSpec([], tf.string),
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([None], tf.int32),
    ]
    return (
        _concrete(init, init_specs),
        _concrete(advance, [handle_spec]),
        _concrete(finalize, [handle_spec]),
    )


def _concrete(function: Any, specs: Sequence[tf.TensorSpec]) -> Any:
    # Placement inside is the dataset's business: the ops run where the dataset runs.
    return tf.function(function, input_signature=specs, autograph=False).get_concrete_function()
