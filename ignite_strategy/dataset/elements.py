"""Between flat columns and the elements that a dataset shows: nested dicts, ragged tensors, single rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from ignite_strategy.dataset.columns import Column, Options, mask_path
from ignite_strategy.dataset.pages import ARGUMENTS, Layout, Pages, arguments_of, concrete
from ignite_strategy.dataset.schema import columns_of
from ignite_strategy.dataset.source import Source
from ignite_strategy.errors import InvalidArgumentError

__all__ = ["columns_of_spec", "dataset_of", "pack"]


def dataset_of(
    source: Source,
    tensors: Mapping[str, tf.Tensor],
    columns: Sequence[Column],
    layout: Layout,
    bytes_per_row: float,
) -> tf.data.Dataset:
    """The dataset that users see.

    ``GeneratorDataset`` cannot be written down as a graph, which keeps tf.data from optimizing whatever follows it: a
    user's ``map()`` would run on one processor. Inside the function of a ``flat_map()`` it does no harm.
    """
    grouped = layout.is_grouped(columns, bytes_per_row)
    kept: list[Pages] = []  # a function is gone from the runtime with the last Python reference to it

    def begin(*arguments: tf.Tensor) -> tf.Tensor:
        kept.append(Pages(arguments, columns, layout, grouped, sql=source.sql is not None))
        return (_cut(kept[-1]) if kept[-1].is_cut else kept[-1])._variant_tensor

    arguments = arguments_of(source, tensors, columns, layout, bytes_per_row, grouped)
    function = concrete(begin, ARGUMENTS)
    pages = kept[-1]
    flat = pages.cut_spec
    shown = [part.spec if part.is_ragged else spec for part, spec in zip(pages.parts, flat)]
    packed = pack([part.path for part in pages.parts], shown)
    return _Flat(tf.data.Dataset.from_tensors(arguments), function, flat, packed, kept)


class _Flat(tf.data.Dataset):  # type: ignore[misc]
    """``flat_map()`` with a function that is cheap to begin, which shows its elements as ``shown``.

    Structure costs nothing while it runs: ``tf.nest`` sorts as we do.
    """

    def __init__(
        self,
        elements: tf.data.Dataset,
        function: Any,
        flat: Sequence[tf.TensorSpec],
        shown: Any,
        kept: Any = None,
    ) -> None:
        self._elements, self._function, self._shown, self._kept = elements, function, shown, kept
        super().__init__(
            tf.raw_ops.FlatMapDataset(
                input_dataset=elements._variant_tensor,
                other_arguments=[],
                f=function,
                output_types=[spec.dtype for spec in flat],
                output_shapes=[spec.shape for spec in flat],
            )
        )

    @property
    def element_spec(self) -> Any:
        return self._shown

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._elements]


def _cut(pages: Pages) -> tf.data.Dataset:
    """The batches of a group, or the rows of a page, one by one."""
    if all(
        column.length or not column.is_array or pages.layout.is_ragged(column) for column in pages.columns
    ):
        return pages.unbatch()
    # unbatch(), which is twice as fast, kills the process on an empty array (TensorFlow 2.15).
    inner = pages.cut_spec

    def slices(*flat: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.TensorSliceDataset(components=flat, output_shapes=[spec.shape for spec in inner])

    return _Flat(pages, concrete(slices, pages.element_spec), inner, inner)


def pack(paths: Sequence[tuple[str, ...]], values: Sequence[Any]) -> dict[str, Any]:
    """Nests values by their paths."""
    packed: dict[str, Any] = {}
    for path, value in zip(paths, values):
        inner = packed
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
        inner[path[-1]] = value
    return packed


def columns_of_spec(
    element_spec: Any, wanted: Sequence[str] | None, cache: str, options: Options
) -> tuple[Column, ...]:
    """The columns that a declared ``element_spec`` means, with these options.

    Where ``options`` ask for masks, ``x_mask`` beside ``x`` is no column but the mask of ``x``.

    Raises:
      InvalidArgumentError: It is not nested dicts of tensor specs below ``key`` and ``val``, or ``wanted`` names a
        column that it does not have.
      UnsupportedError: A dtype or shape that no readable type becomes.
    """
    if (
        not isinstance(element_spec, Mapping)
        or not element_spec
        or set(element_spec) - {"key", "val", "key_mask", "val_mask"}
    ):
        raise InvalidArgumentError(
            f"element_spec={element_spec!r}: give a dict with 'key' and 'val', each a tf.TensorSpec or nested dicts "
            f"of them"
        )
    columns = _with_masks(columns_of(_leaves((), element_spec)), options, cache)
    if wanted is None:
        return columns
    chosen = [
        column
        for column in columns
        if any(column.name == name or column.name.startswith(name + ".") for name in wanted)
    ]
    for name in wanted:
        if not any(column.name == name or column.name.startswith(name + ".") for column in columns):
            raise InvalidArgumentError(f"element_spec for cache {cache!r} has no column {name!r}")
    return tuple(chosen)


def _with_masks(columns: Sequence[Column], options: Options, cache: str) -> tuple[Column, ...]:
    by_path = {column.path: column for column in columns}
    masks = {}
    asked = options.nulls == "mask" or (
        isinstance(options.nulls, Mapping) and "mask" in options.nulls.values()
    )
    for column in columns if asked else ():
        mask = by_path.get(mask_path(column.path))
        if mask is not None and mask.dtype == "bool":
            masks[mask.path] = column.path
    own = {owner: by_path[path].is_array for path, owner in masks.items()}
    plain = [
        # A mask like the values has an entry for each item; without one the column's type decides.
        replace(column, item_mask=own.get(column.path, column.is_array and column.dtype == "string"))
        for column in columns
        if column.path not in masks
    ]
    return options.apply(plain, cache)


def _leaves(path: tuple[str, ...], spec: Any) -> Iterator[tuple[tuple[str, ...], str, bool, int | None]]:
    if isinstance(spec, Mapping):
        for name in sorted(spec):
            yield from _leaves((*path, str(name)), spec[name])
        return
    ragged = isinstance(spec, tf.RaggedTensorSpec)
    if not isinstance(spec, (tf.TensorSpec, tf.RaggedTensorSpec)):
        raise InvalidArgumentError(f"element_spec: {'.'.join(path)} is {spec!r} and not a tf.TensorSpec")
    shape = tf.TensorShape(spec.shape)
    if shape.rank not in (0, 1) or (ragged and shape.rank != 1):
        raise InvalidArgumentError(
            f"element_spec: {'.'.join(path)} has shape {shape}; the value of a row is a scalar [] or a vector, "
            f"[None] or [n]"
        )
    yield path, spec.dtype.name, shape.rank == 1, shape[0] if shape.rank == 1 else None
