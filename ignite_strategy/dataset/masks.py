"""Columns with masks beside them: what ``nulls="mask"`` reads, and how the values and their masks are one again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["Columns", "with_nulls"]

Array = np.ndarray[Any, Any]


class Columns(dict[str, Array]):
    """Column name -> array, as :func:`ignite_strategy.read` returns it.

    A ``dict`` that knows which of its columns are masks: :func:`ignite_strategy.write` makes NULL of what they say is
    none. A plain ``dict`` of the same columns has no masks, only columns of booleans.

    Attributes:
      masks: Column -> the name of its mask, true where there is a value.
    """

    def __init__(self, columns: Mapping[str, Array], masks: Mapping[str, str]) -> None:
        super().__init__(columns)
        self.masks = dict(masks)

    def values_with_nulls(self) -> dict[str, Any]:
        """The columns without masks: what those say is NULL is masked, or ``None``."""
        masks = {name: mask for name, mask in self.masks.items() if name in self and mask in self}
        return {
            name: with_nulls(values, self[masks[name]]) if name in masks else values
            for name, values in self.items()
            if name not in masks.values()
        }


def with_nulls(values: Array, mask: Array) -> Any:
    """One column with its NULLs: a masked array of numbers, else a list with ``None``.

    Args:
      values: One item per row.
      mask: ``[rows]`` bool, true where there is a value; or one such array per row, for its items.
    """
    if mask.dtype == object:
        return [_items(row, present) for row, present in zip(values, mask)]
    if values.dtype == object:
        return [value if there else None for value, there in zip(values, mask)]
    return np.ma.array(values, mask=~mask)  # type: ignore[no-untyped-call]


def _items(row: Iterable[Any], present: Array) -> Any:
    return row if present.all() else [item if there else None for item, there in zip(row, present)]
