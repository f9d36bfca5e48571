"""Values in memory to what the native encoder takes: contiguous numbers, lists of strings, row splits, masks."""

from __future__ import annotations

import contextlib
import decimal
import enum
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np

from ignite_strategy.dataset import kinds, moments
from ignite_strategy.dataset.columns import type_table
from ignite_strategy.dataset.exact import Refused, a, cast, cast_all, shown
from ignite_strategy.dataset.kinds import Kind, Ragged, is_missing, is_null
from ignite_strategy.errors import InvalidArgumentError

__all__ = ["NativeColumn", "Refused", "native", "slice_rows"]

# See ToColumn in native/python/bind_bulk.cc.
NativeColumn = tuple[str, int, Any, Any, int, Any, "list[Any]", Any, Union[str, None], int]
# What a timestamp's variety is if its items are moments.PAIR.
_PAIRS = 2


def slice_rows(values: Any, first: int, last: int) -> Any:
    """The rows from ``first`` up to ``last`` of a column; nothing is copied where that can be helped."""
    if isinstance(values, Mapping):
        return {name: slice_rows(each, first, last) for name, each in values.items()}
    if isinstance(values, Ragged):
        begin, end = int(values.splits[first]), int(values.splits[last])
        return Ragged(values.values[begin:end], values.splits[first : last + 1] - begin)
    return values[first:last]


def native(kind: Kind, values: Any, where: str, rows: int, compact: bool = True) -> NativeColumn:
    """Describes ``rows`` values of a column.

    Args:
      kind: What they become.
      values: A NumPy array (masked = NULL), a list, a :class:`Ragged`, or a mapping of an object's fields.
      where: The column's name.
      rows: How many there are.
      compact: Whether objects have compact footers.

    Raises:
      Refused: A value cannot become that type; the error names column, row and value.
      InvalidArgumentError: None of the values can.
    """
    if kind.code == 0:  # nothing but NULLs: any type will do for them
        if isinstance(values, Ragged) or not all(map(is_missing, values)):
            raise InvalidArgumentError(
                f"column {where} began with NULLs only and has values now: declare its type with types="
            )
        return _column(where, Kind(kinds.LONG), np.zeros(rows, np.int64), valid=np.zeros(rows, np.uint8))
    if kind.code == kinds.OBJECT:
        return _object(kind, values, where, rows, compact)
    if isinstance(values, Mapping):
        raise Refused(where, 0, f"an object with fields ({', '.join(values)}) is not {a(kind.name)}")
    if kind.code == kinds.MAP:
        return _map(kind, values, where, compact)
    if kind.parts:
        return _array(kind, values, where, rows, compact)
    return _scalar(kind, values, where)


def _column(
    where: str,
    kind: Kind,
    data: Any,
    *,
    splits: Any = None,
    length: int = 1,
    valid: Any = None,
    parts: Iterable[NativeColumn] = (),
    described: Any = None,
) -> NativeColumn:
    name = kind.type_name if kind.code in (kinds.ENUM, kinds.ENUM_ARRAY) else None
    variety = _PAIRS if getattr(data, "dtype", None) == moments.PAIR else kind.variety
    return where, kind.code, data, splits, length, valid, list(parts), described, name, variety


def _object(kind: Kind, values: Any, where: str, rows: int, compact: bool) -> NativeColumn:
    valid = None
    names = [name for name, _ in kind.parts]
    if isinstance(values, Mapping):
        _check_fields(names, values, where)
    else:
        dicts = list(values)
        valid = _valid(dicts)
        dicts = [{} if is_missing(value) else value for value in dicts]
        for row, value in enumerate(dicts):
            if not isinstance(value, Mapping):
                raise Refused(where, row, f"{shown(value)} is not an object with fields")
            unknown = [name for name in value if name not in names]
            if unknown:
                raise Refused(where, row, f"there is no field {unknown[0]!r}, only {', '.join(names)}")
        values = {name: [value.get(name) for value in dicts] for name in names}
    parts = [native(part, values[name], f"{where}.{name}", rows, compact) for name, part in kind.parts]
    described = (kind.type_name, names, compact)
    return _column(where, kind, None, valid=valid, parts=parts, described=described)


def _check_fields(names: Sequence[str], values: Mapping[str, Any], where: str) -> None:
    """The rows have the fields that the first ones had, no other ones, and all of them."""
    for name in values:
        if name not in names:
            raise Refused(
                where, 0, f"there is no field {name!r}, only {', '.join(names)}, which the first rows had"
            )
    for name in names:
        if name not in values:
            raise Refused(
                where,
                0,
                f"its field {name!r} is missing, which the first rows had: NULL would be a list of None",
            )


def _map(kind: Kind, values: Any, where: str, compact: bool) -> NativeColumn:
    maps = list(values)
    valid = _valid(maps)
    maps = [{} if is_missing(value) else value for value in maps]
    for row, value in enumerate(maps):
        if not isinstance(value, Mapping):
            raise Refused(where, row, f"{shown(value)} is not a map")
    splits = _splits(map(len, maps))
    keys = list(itertools.chain.from_iterable(value.keys() for value in maps))
    items = list(itertools.chain.from_iterable(value.values() for value in maps))
    with _rows_of(splits, 1):
        parts = [
            native(kind.parts[0][1], keys, f"{where}.keys", len(keys), compact),
            native(kind.parts[1][1], items, f"{where}.values", len(items), compact),
        ]
    return _column(where, kind, None, splits=splits, valid=valid, parts=parts)


def _array(kind: Kind, values: Any, where: str, rows: int, compact: bool) -> NativeColumn:
    valid = splits = None
    length = 1
    if isinstance(values, Ragged):
        items, splits = values.values, np.ascontiguousarray(values.splits, np.int64)
    elif isinstance(values, np.ndarray) and values.ndim == 2:
        items, length = values.reshape(-1), values.shape[1]
    else:
        lists = list(values)
        valid = _valid(lists)
        lists = [() if is_missing(value) else value for value in lists]
        for row, value in enumerate(lists):
            if isinstance(value, str) or (isinstance(value, bytes) and kind.item.code != kinds.BYTE):
                raise Refused(where, row, f"{shown(value)} is not an array")
            if not hasattr(value, "__len__") or isinstance(value, Mapping):
                raise Refused(where, row, f"{shown(value)} is not {a(kind.name)}")
            if isinstance(value, np.ndarray) and value.ndim != 1:
                raise Refused(
                    where, row, f"an array of {value.ndim} dimensions is not {a(kind.name)}: it has one"
                )
        splits = _splits(map(len, lists))
        items = _flat(lists)
    count = rows * length if splits is None else int(splits[-1])
    with _rows_of(splits, length):
        part = native(kind.item, items, where, count, compact)
        if kinds.is_packed(kind) and part[5] is not None and not np.asarray(part[5]).all():
            row = int(np.flatnonzero(np.asarray(part[5]) == 0)[0])
            item = items[row]
            raise Refused(
                where,
                row,
                f"{'a masked item' if item is np.ma.masked else shown(item)} is NULL in an array of numbers, which "
                f"Ignite does not have: fill it, or write a list, types={{{where!r}: 'list<{_named(kind.item)}>'}}",
            )
    if not kinds.is_packed(kind):
        return _column(where, kind, None, splits=splits, length=length, valid=valid, parts=[part])
    return _column(where, kind, part[2], splits=splits, length=length, valid=valid)


def _flat(lists: list[Any]) -> Any:
    present = [value for value in lists if len(value)]
    arrays = present and all(isinstance(value, np.ndarray) for value in present)
    # Of one dtype: NumPy would make floats of integers that stand beside floats.
    if arrays and len({value.dtype for value in present}) == 1:
        masked = any(isinstance(value, np.ma.MaskedArray) for value in present)
        return np.ma.concatenate(present) if masked else np.concatenate(present)  # type: ignore[no-untyped-call]
    if present and all(isinstance(value, (bytes, bytearray)) for value in present):
        return np.frombuffer(b"".join(present), np.int8)
    return list(itertools.chain.from_iterable(lists))


def _splits(lengths: Iterable[int]) -> np.ndarray[Any, Any]:
    return np.concatenate([[0], np.cumsum(np.fromiter(lengths, np.int64))]).astype(np.int64)


def _valid(values: list[Any]) -> np.ndarray[Any, Any] | None:
    mask = np.fromiter((not is_missing(value) for value in values), np.uint8, len(values))
    return None if mask.all() else mask


@contextlib.contextmanager
def _rows_of(splits: np.ndarray[Any, Any] | None, length: int) -> Iterator[None]:
    """What is refused of the items of rows is told by their row."""
    try:
        yield
    except Refused as error:
        at = error.row // length if splits is None else int(np.searchsorted(splits, error.row, "right")) - 1
        raise error.at(at) from None


def _named(kind: Kind) -> str:
    """What ``types=`` calls a scalar."""
    return next(name for name, code in kinds.SCALARS.items() if code == kind.code)


def _scalar(kind: Kind, values: Any, where: str) -> NativeColumn:
    present = None
    if isinstance(values, Ragged) or (isinstance(values, np.ndarray) and values.ndim > 1):
        raise Refused(where, 0, f"an array is not {a(kind.name)}")
    if isinstance(values, np.ma.MaskedArray):
        mask = np.broadcast_to(np.asarray(values.mask), values.shape)
        values = np.asarray(values.data)
        if values.dtype.kind in "biufM":
            present = ~mask if mask.any() else None
        else:
            values = [None if absent else value for value, absent in zip(values.tolist(), mask)]
    if isinstance(values, np.ndarray) and values.dtype.kind in "SUO":
        values = values.tolist()
    if isinstance(values, np.ndarray):
        return _of_numbers(kind, values, present, where)
    values = list(values)
    missing = is_null if kind.code in (kinds.FLOAT, kinds.DOUBLE) else is_missing
    absent = [missing(value) for value in values]
    present = ~np.array(absent, bool) if any(absent) else None
    if type_table()[kind.code].dtype == "string":
        texts = [
            None if gone else _text(kind, value, where, row)
            for row, (value, gone) in enumerate(zip(values, absent))
        ]
        return _column(where, kind, texts, valid=_bytes(present))
    if present is not None:
        values = [value for value, gone in zip(values, absent) if not gone]
    with _rows_at(present):
        return _spread(kind, _of_objects(kind, values, where), present, where)


def _of_numbers(kind: Kind, array: np.ndarray[Any, Any], present: Any, where: str) -> NativeColumn:
    """A column of an array of numbers, booleans or datetime64; NaT, and NaN in what is not floating, is NULL."""
    absent = None
    if array.dtype.kind == "M":
        absent = np.isnat(array)
    elif array.dtype.kind == "f" and kind.code not in (kinds.FLOAT, kinds.DOUBLE):
        absent = np.isnan(array)
    if absent is not None and absent.any():
        present = ~absent if present is None else present & ~absent
    dtype = type_table()[kind.code].dtype
    if present is not None and not present.any():  # nothing but NULLs: whatever NumPy calls them will do
        array = array[:0] if dtype == "string" else np.zeros(0, dtype)
    elif present is not None:
        array = array[present]
    if dtype == "string":
        if len(array):
            raise InvalidArgumentError(f"column {where}: {array.dtype} for {a(kind.name)}")
        return _column(where, kind, [None] * (0 if present is None else len(present)), valid=_bytes(present))
    with _rows_at(present):
        if array.dtype.kind == "M":
            array = moments.of_array(kind, array, where)
        elif kind.code not in moments.KINDS or array.dtype.kind in "iuf":
            array = _checked(kind, cast(kind, array, np.dtype(dtype), where), where)
        else:
            raise InvalidArgumentError(f"column {where}: {array.dtype} for {a(kind.name)}")
    return _spread(kind, array, present, where)


def _spread(kind: Kind, array: np.ndarray[Any, Any], present: Any, where: str) -> NativeColumn:
    """The values that there are, at their places among those that are NULL."""
    if present is not None:
        everything = np.zeros(len(present), array.dtype)
        everything[present] = array
        array = everything
    return _column(where, kind, array, valid=_bytes(present))


def _bytes(present: Any) -> Any:
    return None if present is None else np.ascontiguousarray(present, np.uint8)


@contextlib.contextmanager
def _rows_at(present: Any) -> Iterator[None]:
    """What is refused of the values that there are is told by its row."""
    try:
        yield
    except Refused as error:
        raise error if present is None else error.at(int(np.flatnonzero(present)[error.row])) from None


def _of_objects(kind: Kind, values: Sequence[Any], where: str) -> np.ndarray[Any, Any]:
    """Python's and NumPy's objects, none of them NULL, as numbers."""
    dtype = np.dtype(type_table()[kind.code].dtype)
    if not values:
        return np.zeros(0, dtype)
    if kind.code in moments.KINDS:
        return moments.of_objects(kind, values, where)
    if not set(map(type, values)) <= {int, float, bool}:
        values = [_number(kind, value, where, row) for row, value in enumerate(values)]
    return _checked(kind, cast_all(kind, values, dtype, where), where)


def _checked(kind: Kind, array: np.ndarray[Any, Any], where: str) -> np.ndarray[Any, Any]:
    """Ordinals are those of constants that there are."""
    if kind.code == kinds.ENUM and kind.constants:
        wrong = (array < 0) | (array >= len(kind.constants))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            last = len(kind.constants) - 1
            raise Refused(
                where, row, f"{shown(array[row])} is no ordinal of {kind.type_name}, which has 0 to {last}"
            )
    return array


def _text(kind: Kind, value: Any, where: str, row: int) -> Any:
    if kind.code == kinds.STRING or isinstance(value, (str, bytes)):
        return value  # checked by the native code
    if kind.code == kinds.DECIMAL:
        if isinstance(value, (float, np.floating)):
            raise Refused(where, row, f"{shown(value)} is no exact decimal: use decimal.Decimal, or text")
        if isinstance(value, decimal.Decimal) and not value.is_finite():
            raise Refused(where, row, f"{value!r} is not a number that Ignite has")
    return str(value)


def _number(kind: Kind, value: Any, where: str, row: int) -> Any:
    """One Python object as the number that stands for it."""
    if kind.code == kinds.ENUM and isinstance(value, enum.Enum):
        if value.name not in kind.constants:
            raise Refused(where, row, f"{value!r} is not of enum {kind.type_name}")
        return kind.constants.index(value.name)
    if kind.code == kinds.ENUM and isinstance(value, str):
        if value not in kind.constants:
            raise Refused(where, row, f"{value!r} is not one of {', '.join(kind.constants)}")
        return kind.constants.index(value)
    if kind.code == kinds.CHAR and isinstance(value, str):
        if len(value) != 1 or ord(value) > 0xFFFF:
            raise Refused(where, row, f"{shown(value)} is not one UTF-16 unit")
        return ord(value)
    plain = isinstance(value, np.generic) and value.dtype.kind in "biuf"
    if not plain and not isinstance(value, (bool, int, float)):
        raise Refused(where, row, f"{shown(value)} is not {a(kind.name)}")
    return value
