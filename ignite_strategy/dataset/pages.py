"""A pass as pages of columns: ``GeneratorDataset`` around the native ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ignite_strategy import library
from ignite_strategy.dataset import source as sources
from ignite_strategy.dataset.columns import Column, mask_path
from ignite_strategy.dataset.source import Source

__all__ = ["ARGUMENTS", "Layout", "Pages", "Part", "arguments_of", "concrete"]

# What arguments_of() gives.
ARGUMENTS = (
    tf.TensorSpec([], tf.string),
    tf.TensorSpec([], tf.string),
    tf.TensorSpec([None], tf.int32),
    tf.TensorSpec([None], tf.int32),
)
# Bytes of a batch that are worth a hand-over of its own; native code hands over twice as many (kGroupBytes).
_SMALL_BATCH = 256 << 10


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
        """Whether ``column`` is a ragged tensor."""
        return self.code == sources.RAGGED and column.is_array and column.length is None

    def is_grouped(self, columns: Sequence[Column], bytes_per_row: float) -> bool:
        """Whether the native code hands over several batches at once, which a batch of some KiB is too small for.

        Shorter arrays of a padded batch are as long as the longest one of that batch, not of several.
        """
        padded = self.padded and any(column.is_array and column.length is None for column in columns)
        return self.batched and not padded and self.rows * bytes_per_row <= _SMALL_BATCH


@dataclass(frozen=True)
class Part:
    """One component of an element.

    Attributes:
      path: Where it is shown.
      column: The column.
      is_mask: Whether it is the column's mask and not its values.
      is_ragged: Whether it is a ragged tensor, which travels as a variant.
      spec: What it looks like in a batch or page.
    """

    path: tuple[str, ...]
    column: Column
    is_mask: bool
    is_ragged: bool
    spec: tf.TypeSpec


def arguments_of(
    source: Source,
    tensors: Mapping[str, tf.Tensor],
    columns: Sequence[Column],
    layout: Layout,
    bytes_per_row: float,
    grouped: bool,
) -> tuple[tf.Tensor, ...]:
    """What a pass is begun with: its description, and the host, port and partitions that replace what that says."""
    config = source.config(
        columns,
        layout.code,
        bytes_per_row,
        layout.rows if layout.batched else 0,
        layout.drop_remainder,
        grouped,
    )
    return (
        tf.constant(config, tf.string),
        # Marked, so that an empty name is not taken for none.
        tf.strings.join(["=", tf.cast(tensors["host"], tf.string)]) if "host" in tensors else tf.constant(""),
        tf.reshape(tf.cast(tensors.get("port", tf.constant([], tf.int32)), tf.int32), [-1]),
        tf.reshape(tf.cast(tensors.get("part", tf.constant([], tf.int32)), tf.int32), [-1]),
    )


class Pages(tf.data.Dataset):  # type: ignore[misc]
    """Elements are flat tuples: per column its values, and its mask if it has one.

    They come in the order of their paths, that is of ``tf.nest.flatten``.

    Attributes:
      parts: What each component is.
      grouped: Whether an element has several batches of one shape, in a dimension before their own.
    """

    def __init__(
        self,
        arguments: Sequence[tf.Tensor],
        columns: Sequence[Column],
        layout: Layout,
        grouped: bool,
        sql: bool,
    ) -> None:
        self.columns = tuple(columns)
        self.layout = layout
        self.grouped = grouped
        # Native code takes the columns of a statement for fields of a value; nobody else sees that.
        self._hidden = int(sql)
        parts = [part for column in columns for part in self._parts(column)]
        self.parts = tuple(sorted(parts, key=lambda part: part.path))
        self._spec = tuple(self._flat(part) for part in self.parts)
        # Kept: a function is gone from the runtime with the last Python reference to it.
        self._functions = _functions(self)
        init, advance, finalize = self._functions
        super().__init__(
            tf.raw_ops.GeneratorDataset(
                init_func_other_args=list(arguments),
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

        def spec(dtype: tf.DType, each_item: bool) -> tf.TypeSpec:
            if each_item and ragged:
                return tf.RaggedTensorSpec([rows, None], dtype, ragged_rank=1, row_splits_dtype=tf.int64)
            return tf.TensorSpec([rows, column.length] if each_item else [rows], dtype)

        dtype = tf.as_dtype(column.dtype)
        parts = [Part(path, column, False, ragged, spec(dtype, column.is_array))]
        if column.masked:
            each_item = column.masks_items
            masked = Part(mask_path(path), column, True, ragged and each_item, spec(tf.bool, each_item))
            parts.append(masked)
        return parts

    def _flat(self, part: Part) -> tf.TensorSpec:
        batches = [None] if self.grouped else []
        if part.is_ragged:
            return tf.TensorSpec(batches, tf.variant)
        return tf.TensorSpec([*batches, *part.spec.shape], part.spec.dtype)

    def component(self, part: Part, values: tf.Tensor, splits: tf.Tensor | None) -> tf.Tensor:
        """What an element has for ``part``, given what the native code gives."""
        if not part.is_ragged:
            values.set_shape(self._flat(part).shape)
            return values
        values.set_shape([None])
        nested = [splits]
        if self.grouped:
            size = tf.constant(self.layout.rows, tf.int64)
            rows = tf.size(splits, tf.int64) - 1
            nested.insert(0, tf.minimum(tf.range(0, rows + size, size), rows))
        return tf.raw_ops.RaggedTensorToVariant(
            rt_nested_splits=nested, rt_dense_values=values, batched_input=self.grouped
        )

    @property
    def is_cut(self) -> bool:
        """Whether elements are cut into what users see, groups into batches or pages into rows.

        Then some of them may have none.
        """
        return self.grouped or not self.layout.batched

    @property
    def element_spec(self) -> tuple[tf.TensorSpec, ...]:
        """The flat tuple's spec."""
        return self._spec

    @property
    def cut_spec(self) -> tuple[tf.TensorSpec, ...]:
        """That of what an element is cut into, or of itself."""
        if not self.is_cut:
            return self._spec
        return tuple(tf.TensorSpec(spec.shape[1:], spec.dtype) for spec in self._spec)

    def _inputs(self) -> list[tf.data.Dataset]:
        return []


def _tensors(pages: Pages) -> Iterator[tuple[tuple[tuple[str, ...], str], tf.DType]]:
    """What the native code gives, column by column, and its dtypes."""
    for column in pages.columns:
        yield (column.path, "values"), tf.as_dtype(column.dtype)
        if pages.layout.is_ragged(column):
            yield (column.path, "splits"), tf.int64
        if column.masked:
            yield (column.path, "mask"), tf.bool


def _functions(pages: Pages) -> tuple[Any, Any, Any]:
    ops = library.ops()
    names, dtypes = zip(*_tensors(pages))

    def init(config: tf.Tensor, host: tf.Tensor, port: tf.Tensor, partitions: tf.Tensor) -> tf.Tensor:
        handle = ops.ignite_strategy_open(config=config, host=host, port=port, partitions=partitions)
        handle.set_shape([])
        return handle

    def wait(handle: tf.Tensor) -> tf.Tensor:
        ready = ops.ignite_strategy_wait(handle)
        ready.set_shape([])
        return ready

    def advance(handle: tf.Tensor) -> list[tf.Tensor]:
        # A kernel that blocks cannot be cancelled, what runs between two kernels can: so waits are short ones.
        if pages.is_cut:
            tensors = ops.ignite_strategy_next_or_nothing(handle, Tcolumns=dtypes)
        else:
            # To TensorFlow such a loop is work at the begin of each pass: 15 ms.
            ready = tf.while_loop(tf.logical_not, lambda _: (wait(handle),), (wait(handle),))
            with tf.control_dependencies(tf.nest.flatten(ready)):
                tensors = ops.ignite_strategy_next(handle, Tcolumns=dtypes)
        found = dict(zip(names, tensors))
        return [
            pages.component(
                part,
                found[part.column.path, "mask" if part.is_mask else "values"],
                found.get((part.column.path, "splits")),
            )
            for part in pages.parts
        ]

    def finalize(handle: tf.Tensor) -> tf.Tensor:
        closed = ops.ignite_strategy_close(handle)
        closed.set_shape([])
        return closed

    handle_spec = tf.TensorSpec([], tf.int64)
    return concrete(init, ARGUMENTS), concrete(advance, [handle_spec]), concrete(finalize, [handle_spec])


def concrete(function: Any, specs: Sequence[tf.TensorSpec]) -> Any:
    """``function`` for a dataset to call."""
    # Placement inside is the dataset's business: the ops run where the dataset runs. TensorFlow takes a function with
    # this attribute as it is; others it places and optimizes anew for every pass, 5 ms each.
    return tf.function(
        function,
        input_signature=specs,
        autograph=False,
        experimental_attributes={"experimental_ints_on_device": True},
    ).get_concrete_function()
