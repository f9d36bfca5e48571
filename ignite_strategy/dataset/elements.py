"""Between flat columns and the elements that a dataset shows: nested dicts, ragged tensors, single rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ignite_strategy.dataset.pages import Pages
from ignite_strategy.dataset.schema import Column, columns_of
from ignite_strategy.errors import InvalidArgumentError

__all__ = ["columns_of_spec", "from_pages", "pack"]


def from_pages(pages: Pages) -> tf.data.Dataset:
    """The dataset that users see, on top of the pages."""
    if any(map(pages.layout.is_ragged, pages.columns)):
        return pages.map(lambda *flat: _ragged(pages, flat))
    shown = _Shown(pages)
    if pages.layout.batched:
        return shown
    if all(column.length or not column.is_array for column in pages.columns):
        return shown.unbatch()
    # unbatch(), which is twice as fast, kills the process on an empty array (TensorFlow 2.15).
    return shown.flat_map(tf.data.Dataset.from_tensor_slices)


class _Shown(tf.data.Dataset):  # type: ignore[misc]
    """The same elements with their structure, which costs nothing while it runs: ``tf.nest`` sorts as we do."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._spec = pack(pages.columns, pages.element_spec)
        super().__init__(pages._variant_tensor)

    @property
    def element_spec(self) -> Any:
        return self._spec

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._pages]


def pack(columns: Sequence[Column], values: Sequence[Any]) -> dict[str, Any]:
    """Nests one value per column by the columns' paths."""
    packed: dict[str, Any] = {}
    for column, value in zip(columns, values):
        inner = packed
        for part in column.path[:-1]:
            inner = inner.setdefault(part, {})
        inner[column.path[-1]] = value
    return packed


def _ragged(pages: Pages, flat: Sequence[tf.Tensor]) -> dict[str, Any]:
    parts = iter(flat)
    values = []
    for column in pages.columns:
        value = next(parts)
        if pages.layout.is_ragged(column):
            # Native code made the splits; checking them again would cost more than making them.
            value = tf.RaggedTensor.from_row_splits(value, next(parts), validate=False)
        values.append(value)
    return pack(pages.columns, values)


def columns_of_spec(element_spec: Any, wanted: Sequence[str] | None, cache: str) -> tuple[Column, ...]:
    """The columns that a declared ``element_spec`` means.

    Raises:
      InvalidArgumentError: It is not nested dicts of tensor specs below ``key`` and ``val``, or ``wanted`` names a
        column that it does not have.
      UnsupportedError: A dtype or shape that no readable type becomes.
    """
    if not isinstance(element_spec, Mapping) or not element_spec or set(element_spec) - {"key", "val"}:
        raise InvalidArgumentError(
            f"element_spec={element_spec!r}: give a dict with 'key' and 'val', each a tf.TensorSpec or nested dicts "
            f"of them"
        )
    columns = columns_of(_leaves((), element_spec))
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
