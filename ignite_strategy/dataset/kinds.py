"""What the values of a column become in Ignite: declared by a name, or found out from the values."""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ignite_strategy.dataset.columns import type_table
from ignite_strategy.errors import InvalidArgumentError

__all__ = [
    "Kind",
    "Ragged",
    "check_name",
    "infer",
    "is_missing",
    "is_null",
    "parse_kind",
]

BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, CHAR, BOOL, STRING, UUID, DATE = range(1, 12)
OBJECT_ARRAY, COLLECTION, MAP, ENUM, ENUM_ARRAY, DECIMAL, TIMESTAMP, TIME = 23, 24, 25, 28, 29, 30, 33, 36
NULL, OBJECT, SQL_DATE = 101, 103, 0xFE
_ARRAY_LIST, _HASH_SET, _HASH_MAP = 1, 3, 1

# The names of scalars; "T[]" is an array of any of them, "list<T>", "set<T>" and "map<K,V>" hold anything.
SCALARS = {
    "bool": BOOL,
    "byte": BYTE,
    "short": SHORT,
    "int": INT,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "char": CHAR,
    "string": STRING,
    "uuid": UUID,
    "date": DATE,
    "sql_date": SQL_DATE,
    "timestamp": TIMESTAMP,
    "time": TIME,
    "decimal": DECIMAL,
}
_DTYPES = {
    "bool": BOOL,
    "int8": BYTE,
    "int16": SHORT,
    "int32": INT,
    "int64": LONG,
    "float32": FLOAT,
    "float64": DOUBLE,
    "uint16": CHAR,
    "uint32": LONG,
}


@dataclass(frozen=True)
class Ragged:
    """Rows of different length, as ``tf.RaggedTensor`` has them.

    Attributes:
      values: The items of all rows, one after another.
      splits: Where each row's items begin, and the end of the last one.
    """

    values: Any
    splits: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Kind:
    """A type of Ignite with all that it is made of.

    Attributes:
      code: Ignite's type code; 0 = nothing is known, all values are NULL.
      parts: Fields of an object with their names; items; keys and values.
      type_name: Of an object or enum.
      constants: Of an enum, in the order of their ordinals.
      variety: Which collection or map.
    """

    code: int
    parts: tuple[tuple[str, Kind], ...] = ()
    type_name: str = ""
    constants: tuple[str, ...] = ()
    variety: int = 1

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return type_table()[self.code].name if self.code else "NULL"

    @property
    def item(self) -> Kind:
        """What an array or collection is made of."""
        return self.parts[0][1]

    def named(self, type_name: str) -> Kind:
        """The same with the names of its objects: those inside are called ``type_name.field``."""
        if self.code == OBJECT:
            parts = tuple((name, kind.named(f"{type_name}.{name}")) for name, kind in self.parts)
            return replace(self, type_name=type_name, parts=parts)
        if self.code in (COLLECTION, OBJECT_ARRAY, MAP):
            return replace(self, parts=tuple((name, kind.named(type_name)) for name, kind in self.parts))
        return self


@functools.lru_cache(maxsize=1)
def _arrays() -> dict[int, int]:
    """Item code -> code of the array type with such items."""
    return {entry.item: code for code, entry in sorted(type_table().items(), reverse=True) if entry.item}


def array_of(item: Kind) -> Kind:
    """The array type for items: of primitives, strings, dates, ...; else an object array."""
    code = _arrays().get(item.code, OBJECT_ARRAY)
    return Kind(code, (("item", item),), item.type_name if item.code == ENUM else "", item.constants)


def is_packed(kind: Kind) -> bool:
    """Whether it is an array of numbers, whose items cannot be NULL."""
    return BOOL + 3 < kind.code < BOOL + 12


def parse_kind(declared: Any, where: str) -> Kind:
    """Reads ``"int"``, ``"float[]"``, ``"list<string>"``, ``"map<string,long>"``, fields, or an enum class.

    Raises:
      InvalidArgumentError: It is none of these.
    """
    if isinstance(declared, Kind):
        return declared
    if isinstance(declared, Mapping):
        if not declared:
            raise InvalidArgumentError(f"{where}: an object needs at least one field")
        return Kind(
            OBJECT,
            tuple((str(name), parse_kind(kind, f"{where}.{name}")) for name, kind in declared.items()),
        )
    if isinstance(declared, type) and issubclass(declared, enum.Enum):
        return _enum(declared)
    if isinstance(declared, list) and len(declared) == 1:
        return Kind(COLLECTION, (("item", parse_kind(declared[0], where)),), variety=_ARRAY_LIST)
    if not isinstance(declared, str):
        raise InvalidArgumentError(f"{where}: {declared!r} is not a type, but {_EXPECTED}")
    text = declared.strip()
    if text.endswith("[]"):
        return array_of(parse_kind(text[:-2], where))
    outer, bracket, rest = text.partition("<")
    if bracket and rest.endswith(">") and outer in ("list", "set", "map"):
        inner = [parse_kind(part, where) for part in _split(rest[:-1])]
        if len(inner) == (2 if outer == "map" else 1):
            if outer == "map":
                return Kind(MAP, (("keys", inner[0]), ("values", inner[1])), variety=_HASH_MAP)
            variety = _HASH_SET if outer == "set" else _ARRAY_LIST
            return Kind(COLLECTION, (("item", inner[0]),), variety=variety)
    if text not in SCALARS:
        raise InvalidArgumentError(f"{where}: no type {declared!r}, but {_EXPECTED}")
    return Kind(SCALARS[text])


_EXPECTED = (
    f"one of {', '.join(SCALARS)}, with [] for an array, list<T>, set<T>, map<K,V>, a mapping of fields, [type] for a "
    "list of it, or an enum"
)


def _split(text: str) -> list[str]:
    """Splits at the commas that are not inside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _enum(kind: type[enum.Enum]) -> Kind:
    return Kind(ENUM, type_name=kind.__name__, constants=tuple(member.name for member in kind))


# Most values are of these, and need not be looked at more closely.
_NEVER_NULL = frozenset(
    (bool, int, float, str, bytes, list, tuple, dict, set, datetime.datetime, datetime.date)
)


def is_null(value: Any) -> bool:
    """Whether an object stands for NULL whatever the type: ``None``, NaT, ``pandas.NA``, a masked item."""
    if type(value) in _NEVER_NULL:
        return False
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NAType", "NaTType")


def is_missing(value: Any) -> bool:
    """Whether an object stands for NULL in whatever is not floating: NaN too, as pandas means it."""
    return is_null(value) or _is_nan(value)


def _is_nan(value: Any) -> bool:
    if type(value) in _NEVER_NULL:
        return bool(value != value) if type(value) is float else False
    if isinstance(value, decimal.Decimal):
        return value.is_qnan()
    return isinstance(value, (float, np.floating)) and bool(value != value)


def infer(values: Any, where: str) -> Kind:
    """What ``values`` become if nobody says so; code 0 if they are all NULL or there are none.

    Raises:
      InvalidArgumentError: There is no type for them, or several; the message says how to declare one.
    """
    if isinstance(values, Kind):
        return values
    if isinstance(values, Mapping):
        return Kind(
            OBJECT, tuple((str(name), infer(each, f"{where}.{name}")) for name, each in values.items())
        )
    if isinstance(values, Ragged):
        return _array(infer(values.values, where), where)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "O":
        item = _of_dtype(values.dtype, where)
        if values.ndim == 1:
            return item
        if values.ndim == 2:
            return array_of(item)
        raise InvalidArgumentError(
            f"{where} has {values.ndim} dimensions: a value is a scalar or a vector, so reshape it to (rows, n)"
        )
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return _array(infer(values.reshape(-1), where), where)
    return _of_objects(values, where)


def _array(item: Kind, where: str) -> Kind:
    if item.code == 0:
        raise InvalidArgumentError(
            f"{where}: only empty arrays; say of what type, types={{{where!r}: 'long[]'}}"
        )
    return array_of(item)


def _of_dtype(dtype: np.dtype[Any], where: str) -> Kind:
    if dtype.kind == "M":
        return Kind(TIMESTAMP)
    if dtype.kind in "SU":
        return Kind(STRING)
    if dtype.name not in _DTYPES:
        hint = {"uint8": "byte", "uint64": "long", "float16": "float"}.get(dtype.name)
        what = f"; types={{{where!r}: {hint!r}}} (or '{hint}[]') writes it as {hint}" if hint else ""
        note = {"byte": ", whose sign is the top bit", "long": ", if the values fit"}.get(hint or "", "")
        raise InvalidArgumentError(f"{where} is {dtype.name}, which Ignite does not have{what}{note}")
    return Kind(_DTYPES[dtype.name])


def _of_objects(values: Iterable[Any], where: str) -> Kind:
    present = [value for value in values if not is_null(value)]
    if not present:
        return Kind(0)
    solid = next((value for value in present if not _is_nan(value)), None)
    if solid is not None and (isinstance(solid, (bool, np.bool_)) or not isinstance(solid, _NUMBERS)):
        present = [
            value for value in present if not _is_nan(value)
        ]  # text, dates, ...: NaN is what is missing
    first = present[0]
    if isinstance(first, Mapping):
        if all(isinstance(name, str) for value in present for name in value):
            return _of_dicts(present, where)
        keys = infer(list(itertools.chain.from_iterable(value.keys() for value in present)), where)
        items = infer(list(itertools.chain.from_iterable(value.values() for value in present)), where)
        return Kind(MAP, (("keys", keys), ("values", items)), variety=_HASH_MAP)
    if isinstance(first, np.ndarray):
        dtypes = {value.dtype for value in present if isinstance(value, np.ndarray)}
        item = _of_objects(first.tolist(), where) if first.dtype == object else _of_dtype(first.dtype, where)
        if len(dtypes) > 1:
            raise InvalidArgumentError(f"{where} has arrays of {' and of '.join(sorted(map(str, dtypes)))}")
        return _array(item, where)
    if isinstance(first, (set, frozenset)):
        item = _of_objects(itertools.chain.from_iterable(present), where)
        return Kind(COLLECTION, (("item", _known(item, where)),), variety=_HASH_SET)
    if isinstance(first, (list, tuple)):
        item = _known(_of_objects(list(itertools.chain.from_iterable(present)), where), where)
        if item.code in _arrays():
            return array_of(item)
        return Kind(COLLECTION, (("item", item),), variety=_ARRAY_LIST)
    return _of_scalars(present, where)


def _known(item: Kind, where: str) -> Kind:
    if item.code == 0:
        raise InvalidArgumentError(
            f"{where}: only empty ones; say of what type, types={{{where!r}: 'long[]'}}"
        )
    return item


def _of_dicts(present: Sequence[Mapping[str, Any]], where: str) -> Kind:
    names = dict.fromkeys(itertools.chain.from_iterable(present))
    return Kind(
        OBJECT,
        tuple((name, infer([value.get(name) for value in present], f"{where}.{name}")) for name in names),
    )


_NUMBERS = (int, float, np.number)
_PYTHON: tuple[tuple[type, int], ...] = (
    (bool, BOOL),
    (np.bool_, BOOL),
    (int, LONG),
    (float, DOUBLE),
    (str, STRING),
    (bytes, STRING),
    (uuid.UUID, UUID),
    (decimal.Decimal, DECIMAL),
    (datetime.datetime, TIMESTAMP),
    (datetime.date, SQL_DATE),
    (datetime.time, TIME),
)


def _of_scalars(present: Sequence[Any], where: str) -> Kind:
    kinds = {_of_scalar(kind, where) for kind in dict.fromkeys(map(type, present))}
    if len(kinds) > 1 and all(kind.code in (BYTE, SHORT, INT, LONG, FLOAT, DOUBLE) for kind in kinds):
        codes = {kind.code for kind in kinds}
        return Kind(DOUBLE if codes & {FLOAT, DOUBLE} else max(codes))
    if len(kinds) > 1:
        names = " and ".join(sorted(kind.name for kind in kinds))
        raise InvalidArgumentError(f"{where} has values of several types: {names}")
    return kinds.pop()


def _of_scalar(kind: type, where: str) -> Kind:
    if issubclass(kind, enum.Enum):
        return _enum(kind)
    if issubclass(kind, np.datetime64):
        return Kind(TIMESTAMP)
    if issubclass(kind, np.generic) and not issubclass(kind, (np.str_, np.bytes_)):
        return _of_dtype(np.dtype(kind), where)
    for python, code in _PYTHON:
        if issubclass(kind, python):
            return Kind(code)
    raise InvalidArgumentError(
        f"{where} has values of {kind.__module__}.{kind.__name__}, which Ignite does not have"
    )


def check_name(name: Any, what: str) -> str:
    """A name of a cache, type or field as text.

    Raises:
      InvalidArgumentError: It is no text, or empty, or has a NUL.
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(f"{what} {name!r}: a name is a text that is not empty")
    if "\0" in name:
        raise InvalidArgumentError(f"{what} {name!r}: a name has no NUL")
    return name
