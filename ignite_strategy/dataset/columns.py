"""Columns: one value of every row each, and the table of Ignite's types that says what becomes of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

from ignite_strategy import _core
from ignite_strategy.errors import InvalidArgumentError

__all__ = ["Column", "Options", "TypeEntry", "below", "mask_path", "type_table"]

# The numbers of native/binary/columns.h.
_POLICIES = {"error": 0, "default": 1, "mask": 2, "drop": 3}

Nulls = Union[str, Mapping[str, str]]


@dataclass(frozen=True)
class TypeEntry:
    """One line of the table of Ignite's types, which native code owns.

    Attributes:
      name: What the type is called in messages.
      dtype: The dtype of its values, ``"none"`` if it cannot be a column.
      kind: ``scalar``, ``array``, ``sequence``, ``map``, ``object`` or ``unsupported``.
      java: The Java class, as query entities name it.
      item: The code of an array's items, 0 if they have no type of their own.
    """

    name: str
    dtype: str
    kind: str
    java: str
    item: int = 0


@functools.lru_cache(maxsize=1)
def type_table() -> dict[int, TypeEntry]:
    """Ignite's type codes."""
    return {code: TypeEntry(*entry) for code, entry in _core.type_table().items()}


@dataclass(frozen=True)
class Column:
    """One value of every row.

    Attributes:
      path: Where it is: ``("val", "metadata", "label")``.
      code: Ignite's type code, of the items if the path leads through a collection or map.
      length: The declared length of an array, ``None`` = any.
      declared: Whether an ``element_spec`` said so: any type with this dtype and shape will do.
      repeated: So many parts of the path lead to a collection, object array or map; 0 = none is on the way.
      is_map: Whether that is a map.
      nulls: What becomes of a NULL: ``error``, ``default``, ``mask`` or ``drop``.
      item_mask: Whether a mask has an entry for each item of an array, not one for each row.
      decimal: ``string`` or ``float64``.
      enum: ``ordinal`` or ``name``.
      timestamp: ``ns`` or ``ms``.
    """

    path: tuple[str, ...]
    code: int
    length: int | None = None
    declared: bool = False
    repeated: int = 0
    is_map: bool = False
    nulls: str = "error"
    item_mask: bool = False
    decimal: str = "string"
    enum: str = "ordinal"
    timestamp: str = "ns"

    @property
    def name(self) -> str:
        """The path with dots."""
        return ".".join(self.path)

    @property
    def dtype(self) -> str:
        """The dtype's name: ``"int64"``, ``"string"``."""
        return _core.dtype_of(self.code, self.decimal == "float64", self.enum == "name")

    @property
    def is_array(self) -> bool:
        """Whether each row has a vector."""
        return self.repeated > 0 or type_table()[self.code].kind == "array"

    @property
    def masked(self) -> bool:
        """Whether a second column says which values are there."""
        return self.nulls == "mask"

    @property
    def masks_items(self) -> bool:
        """Whether that column has a vector for each row, with an entry for each item."""
        return self.masked and self.is_array and self.item_mask

    @property
    def mask_name(self) -> str:
        """The name of that column."""
        return ".".join(mask_path(self.path))

    @property
    def options(self) -> dict[str, Any]:
        """What native code needs to know beside path, type and length."""
        return {
            "declared": self.declared,
            "repeated": self.repeated,
            "map": self.is_map,
            "nulls": _POLICIES[self.nulls],
            "item_mask": self.item_mask,
            "decimal_float64": self.decimal == "float64",
            "enum_name": self.enum == "name",
            "timestamp_millis": self.timestamp == "ms",
        }

    def nullable_items(self) -> bool:
        """Whether items of this array can be NULL one by one, which those of ``int[]`` and its like cannot."""
        if self.repeated:
            return True
        entry = type_table()[self.code]
        # Arrays of the eight primitives are packed; the codes of their items are 1 to 8.
        return entry.kind == "array" and entry.item > 8


def mask_path(path: tuple[str, ...]) -> tuple[str, ...]:
    """Where the mask of a column is: beside it."""
    return (*path[:-1], path[-1] + "_mask")


def below(name: str, prefix: str) -> bool:
    """Whether a column is the one of that name, or below it."""
    return name == prefix or name.startswith(prefix + ".")


@dataclass(frozen=True)
class Options:
    """How values become columns.

    Attributes:
      nulls: One of ``error``, ``default``, ``mask`` and ``drop`` for all columns, or column name -> one of them.
      type: Which of several types of values is read; ``None`` = there is one.
      decimal: ``string``, exact, or ``float64``, rounded.
      enum: ``ordinal`` or ``name``.
      timestamp: ``ns``, for the years 1677 to 2262, or ``ms``.
    """

    nulls: Nulls = "error"
    type: str | None = None
    decimal: str = "string"
    enum: str = "ordinal"
    timestamp: str = "ns"

    def __post_init__(self) -> None:
        for name, choices in (
            ("decimal", ("string", "float64")),
            ("enum", ("ordinal", "name")),
            ("timestamp", ("ns", "ms")),
        ):
            if getattr(self, name) not in choices:
                raise InvalidArgumentError(
                    f"{name}={getattr(self, name)!r}: choose one of {', '.join(choices)}"
                )
        policies = self.nulls.values() if isinstance(self.nulls, Mapping) else [self.nulls]
        for policy in policies:
            if not isinstance(policy, str) or policy not in _POLICIES:
                raise InvalidArgumentError(
                    f"nulls={self.nulls!r}: choose one of {', '.join(_POLICIES)}, or give a dict of columns with them"
                )
        if self.type is not None and (not isinstance(self.type, str) or not self.type):
            raise InvalidArgumentError(f"type={self.type!r}: give the name of a type of values")

    def apply(self, columns: Sequence[Column], cache: str) -> tuple[Column, ...]:
        """Columns with these options.

        Raises:
          InvalidArgumentError: ``nulls`` names a column that there is not, or a mask would have another's name.
        """
        if isinstance(self.nulls, Mapping):
            for name in self.nulls:
                if not any(below(column.name, name) for column in columns):
                    raise InvalidArgumentError(
                        f"nulls= names {name!r}, which cache {cache!r} does not have among the columns read: "
                        f"{', '.join(column.name for column in columns)}"
                    )
        changed = tuple(
            replace(
                column,
                nulls=self._policy(column),
                item_mask=column.item_mask if column.declared else column.nullable_items(),
                decimal=self.decimal,
                enum=self.enum,
                timestamp=self.timestamp,
            )
            for column in columns
        )
        names = {column.name for column in changed}
        for column in changed:
            if column.masked and column.mask_name in names:
                raise InvalidArgumentError(
                    f"cache {cache!r}: the mask of column {column.name} would be called {column.mask_name}, as another "
                    f"column is: leave one of them out with columns=, or choose another policy for it with nulls="
                )
        return changed

    def _policy(self, column: Column) -> str:
        if isinstance(self.nulls, Mapping):
            # The longest name that fits: "val.a.b" before "val.a".
            fitting = [name for name in self.nulls if below(column.name, name)]
            return self.nulls[max(fitting, key=len)] if fitting else "error"
        if self.nulls == "mask" and len(column.path) == 1 and not column.nullable_items():
            return "error"  # a whole key or value is never NULL
        return self.nulls
