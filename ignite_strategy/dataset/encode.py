"""Values in memory to what the native encoder takes: contiguous numbers, lists of strings, row splits, masks."""

from __future__ import annotations

import datetime
import decimal
import enum
import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Union

import numpy as np

from ignite_strategy.dataset import kinds
from ignite_strategy.dataset.columns import type_table
from ignite_strategy.dataset.kinds import Kind, Ragged, is_null
from ignite_strategy.errors import InvalidArgumentError

__all__ = ["NativeColumn", "native", "slice_rows"]

# See ToColumn in native/python/bind_bulk.cc.
NativeColumn = tuple[str, int, Any, Any, int, Any, "list[Any]", Any, Union[str, None], int]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_DAY = datetime.timedelta(days=1)


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
      InvalidArgumentError: A value cannot become that type; the message names the column.
    """
    if kind.code == 0:  # nothing but NULLs: any type will do for them
        if isinstance(values, Ragged) or not all(map(is_null, values)):
            raise InvalidArgumentError(
                f"column {where} began with NULLs only and has values now: declare its type with types="
            )
        return _column(where, Kind(kinds.LONG), np.zeros(rows, np.int64), valid=np.zeros(rows, np.uint8))
    if kind.code == kinds.OBJECT:
        return _object(kind, values, where, rows, compact)
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
    return where, kind.code, data, splits, length, valid, list(parts), described, name, kind.variety


def _object(kind: Kind, values: Any, where: str, rows: int, compact: bool) -> NativeColumn:
    valid = None
    if not isinstance(values, Mapping):
        dicts = list(values)
        valid = _valid(dicts)
        dicts = [{} if is_null(value) else value for value in dicts]
        names = [name for name, _ in kind.parts]
        for value in dicts:
            if not isinstance(value, Mapping):
                raise InvalidArgumentError(f"column {where}: {value!r} is not an object with fields")
            unknown = [name for name in value if name not in names]
            if unknown:
                raise InvalidArgumentError(
                    f"column {where} has no field {unknown[0]!r}, only {', '.join(names)}"
                )
        values = {name: [value.get(name) for value in dicts] for name in names}
    parts = [native(part, values[name], f"{where}.{name}", rows, compact) for name, part in kind.parts]
    described = (kind.type_name, [name for name, _ in kind.parts], compact)
    return _column(where, kind, None, valid=valid, parts=parts, described=described)


def _map(kind: Kind, values: Any, where: str, compact: bool) -> NativeColumn:
    maps = list(values)
    valid = _valid(maps)
    maps = [{} if is_null(value) else value for value in maps]
    for value in maps:
        if not isinstance(value, Mapping):
            raise InvalidArgumentError(f"column {where}: {value!r} is not a map")
    splits = _splits(map(len, maps))
    keys = list(itertools.chain.from_iterable(value.keys() for value in maps))
    items = list(itertools.chain.from_iterable(value.values() for value in maps))
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
        lists = [() if is_null(value) else value for value in lists]
        for value in lists:
            if isinstance(value, (str, bytes)) and kind.item.code != kinds.BYTE:
                raise InvalidArgumentError(f"column {where}: {value[:40]!r} is not an array")
            if not hasattr(value, "__len__"):
                raise InvalidArgumentError(f"column {where}: {value!r} is not {_a(kind.name)}")
        splits = _splits(map(len, lists))
        items = _flat(lists)
    count = rows * length if splits is None else int(splits[-1])
    part = native(kind.item, items, where, count, compact)
    if not kinds.is_packed(kind):
        return _column(where, kind, None, splits=splits, length=length, valid=valid, parts=[part])
    if part[5] is not None and not np.asarray(part[5]).all():
        raise InvalidArgumentError(f"column {where}: NULL in an array of numbers, which Ignite does not have")
    return _column(where, kind, part[2], splits=splits, length=length, valid=valid)


def _flat(lists: list[Any]) -> Any:
    present = [value for value in lists if len(value)]
    if present and all(isinstance(value, np.ndarray) for value in present):
        return np.concatenate(present)
    if present and all(isinstance(value, (bytes, bytearray)) for value in present):
        return np.frombuffer(b"".join(present), np.int8)
    return list(itertools.chain.from_iterable(lists))


def _splits(lengths: Iterable[int]) -> np.ndarray[Any, Any]:
    return np.concatenate([[0], np.cumsum(np.fromiter(lengths, np.int64))]).astype(np.int64)


def _valid(values: list[Any]) -> np.ndarray[Any, Any] | None:
    mask = np.fromiter((not is_null(value) for value in values), np.uint8, len(values))
    return None if mask.all() else mask


def _scalar(kind: Kind, values: Any, where: str) -> NativeColumn:
    dtype = type_table()[kind.code].dtype
    valid = None
    if isinstance(values, np.ma.MaskedArray):
        mask = np.broadcast_to(np.asarray(values.mask), values.shape)
        valid = np.ascontiguousarray(~mask, np.uint8) if mask.any() else None
        values = np.asarray(values.data)
        if valid is not None and values.dtype.kind not in "biufM":
            values = [None if absent else value for value, absent in zip(values.tolist(), mask)]
    if isinstance(values, np.ndarray) and values.dtype.kind in "SUO":
        values = values.tolist()
    if isinstance(values, np.ndarray):
        return _numbers(kind, dtype, values, valid, where)
    values = list(values)
    if valid is None:
        valid = _valid(values)
    if valid is not None:
        values = [value if there else None for value, there in zip(values, valid)]
    if dtype == "string":
        return _column(where, kind, _texts(kind, values, where), valid=valid)
    nothing = np.dtype(dtype).type(0).item()  # False among booleans
    converted = [nothing if value is None else _number(kind, value, where) for value in values]
    try:
        array = np.asarray(converted) if converted else np.zeros(0, dtype)
    except (OverflowError, ValueError) as error:
        raise InvalidArgumentError(f"column {where}: {error}") from None
    if array.dtype == object:
        raise InvalidArgumentError(f"column {where}: not numbers, or numbers beyond {kind.name}")
    return _numbers(kind, dtype, array, valid, where)


def _texts(kind: Kind, values: list[Any], where: str) -> list[Any]:
    if kind.code == kinds.STRING:
        return values  # checked by the native code
    if kind.code == kinds.DECIMAL:
        for value in values:
            if value is not None and isinstance(value, float):
                raise InvalidArgumentError(
                    f"column {where}: {value!r} is no exact decimal: use decimal.Decimal, or text"
                )
            if isinstance(value, decimal.Decimal) and not value.is_finite():
                raise InvalidArgumentError(f"column {where}: {value!r} is not a number that Ignite has")
    return [value if value is None or isinstance(value, (str, bytes)) else str(value) for value in values]


def _number(kind: Kind, value: Any, where: str) -> Any:
    """One Python object as the number that stands for it."""
    if isinstance(value, enum.Enum):
        try:
            return kind.constants.index(value.name)
        except ValueError:
            raise InvalidArgumentError(f"column {where}: {value!r} is not of enum {kind.type_name}") from None
    if kind.code == kinds.ENUM and isinstance(value, str):
        if value not in kind.constants:
            raise InvalidArgumentError(f"column {where}: {value!r} is not one of {', '.join(kind.constants)}")
        return kind.constants.index(value)
    if isinstance(value, np.datetime64):
        return _instants(kind, np.asarray([value]), where)[0]
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        microseconds = (moment - _EPOCH) // datetime.timedelta(microseconds=1)
        nanoseconds = microseconds * 1000 + getattr(value, "nanosecond", 0)  # pandas.Timestamp has them
        return nanoseconds if kind.code == kinds.TIMESTAMP else nanoseconds // 1_000_000
    if isinstance(value, datetime.date):
        days = value.toordinal() - _EPOCH.date().toordinal()
        return days * (_DAY // _MILLISECOND) * (1_000_000 if kind.code == kinds.TIMESTAMP else 1)
    if isinstance(value, datetime.time):
        moment = datetime.datetime.combine(_EPOCH.date(), value, datetime.timezone.utc)
        return (moment - _EPOCH) // _MILLISECOND
    if kind.code == kinds.CHAR and isinstance(value, str):
        if len(value) != 1 or ord(value) > 0xFFFF:
            raise InvalidArgumentError(f"column {where}: {value!r} is not one UTF-16 unit")
        return ord(value)
    if isinstance(value, (str, bytes)) or not isinstance(value, (bool, int, float, np.generic)):
        raise InvalidArgumentError(f"column {where}: {value!r} is not {_a(kind.name)}")
    return value


def _numbers(kind: Kind, dtype: str, array: np.ndarray[Any, Any], valid: Any, where: str) -> NativeColumn:
    if array.dtype.kind == "M":
        absent = np.isnat(array)
        if absent.any():
            valid = np.ascontiguousarray(~absent if valid is None else ~absent & (valid != 0), np.uint8)
            array = np.where(absent, np.datetime64(0, "s").astype(array.dtype), array)
        array = _instants(kind, array, where)
    elif dtype == "string":
        raise InvalidArgumentError(f"column {where}: {array.dtype} for {_a(kind.name)}")
    return _column(where, kind, _cast(kind, array, np.dtype(dtype), where), valid=valid)


def _instants(kind: Kind, array: np.ndarray[Any, Any], where: str) -> np.ndarray[Any, Any]:
    """datetime64 as int64 nanoseconds of a timestamp, or milliseconds of the other kinds."""
    if kind.code not in (kinds.TIMESTAMP, kinds.DATE, kinds.SQL_DATE, kinds.TIME):
        raise InvalidArgumentError(f"column {where}: datetime64 for {_a(kind.name)}")
    unit = "ns" if kind.code == kinds.TIMESTAMP else "ms"
    converted = array.astype(f"datetime64[{unit}]")
    if (converted.astype("datetime64[D]") != array.astype("datetime64[D]")).any():
        raise InvalidArgumentError(f"column {where}: a time beyond those that int64 {unit} can tell")
    return np.ascontiguousarray(converted).view(np.int64)


def _cast(kind: Kind, array: np.ndarray[Any, Any], dtype: np.dtype[Any], where: str) -> np.ndarray[Any, Any]:
    """The same numbers in another dtype; never others."""
    array = np.ascontiguousarray(array)
    if array.dtype == dtype:
        return array
    if array.dtype == np.uint8 and kind.code == kinds.BYTE:
        return array.view(np.int8)  # the same eight bits: Java's byte is signed
    if array.dtype.kind not in "biuf":
        raise InvalidArgumentError(f"column {where}: {array.dtype} for {_a(kind.name)}")
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
    rounds = dtype.kind == "f" and array.dtype.kind == "f"  # what floats do
    # A float of that size and its neighbours look the same to an integer that was made a float to be compared.
    same = converted.astype(array.dtype) == array if array.dtype.kind in "iu" else converted == array
    if array.dtype.kind == "f":
        same |= np.isnan(array)
    if rounds:
        same = np.isfinite(converted) | ~np.isfinite(array.astype(np.float64))
    if not same.all() or (dtype.kind == "b" and array.dtype.kind != "b"):
        wrong = array[~same][0] if not same.all() else array[0]
        raise InvalidArgumentError(f"column {where}: {wrong!r} cannot become {_a(kind.name)} unchanged")
    return converted


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeio' else 'a'} {name}"
