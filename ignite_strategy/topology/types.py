"""The types that cache administration can name, and what they are called on each side.

One description serves both ends: ``{"pixels": "float[]", "label": "int", "origin": {"writer": "string"}}`` creates the
SQL columns of a cache and writes its objects.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Union

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.topology.clients import check_names

__all__ = [
    "Fields",
    "TypeName",
    "check_fields",
    "java_name",
    "object_class",
    "to_object",
    "to_value",
    "value_type",
]

# A field's type: a name such as "int" or "float[]", or the fields of a nested object.
TypeName = str
Fields = Mapping[str, Union[str, "Fields"]]


class _Type(NamedTuple):
    pyignite: str
    sql: str
    java: str


_OBJECT = ("OTHER", "java.lang.Object")
_TYPES: dict[str, _Type] = {
    "bool": _Type("BoolObject", "BOOLEAN", "java.lang.Boolean"),
    "byte": _Type("ByteObject", "TINYINT", "java.lang.Byte"),
    "short": _Type("ShortObject", "SMALLINT", "java.lang.Short"),
    "int": _Type("IntObject", "INT", "java.lang.Integer"),
    "long": _Type("LongObject", "BIGINT", "java.lang.Long"),
    "float": _Type("FloatObject", "REAL", "java.lang.Float"),
    "double": _Type("DoubleObject", "DOUBLE", "java.lang.Double"),
    "string": _Type("String", "VARCHAR", "java.lang.String"),
    "uuid": _Type("UUIDObject", "UUID", "java.util.UUID"),
    "timestamp": _Type("TimestampObject", "TIMESTAMP", "java.sql.Timestamp"),
    "char": _Type("CharObject", *_OBJECT),
    "date": _Type("DateObject", *_OBJECT),
    "decimal": _Type("DecimalObject", "DECIMAL", "java.math.BigDecimal"),
    "time": _Type("TimeObject", "TIME", "java.sql.Time"),
    "sql_date": _Type("AnyDataObject", "DATE", "java.sql.Date"),
    "object": _Type("AnyDataObject", *_OBJECT),
    "bool[]": _Type("BoolArrayObject", *_OBJECT),
    "byte[]": _Type("ByteArrayObject", "BINARY", "[B"),
    "short[]": _Type("ShortArrayObject", *_OBJECT),
    "int[]": _Type("IntArrayObject", *_OBJECT),
    "long[]": _Type("LongArrayObject", *_OBJECT),
    "float[]": _Type("FloatArrayObject", *_OBJECT),
    "double[]": _Type("DoubleArrayObject", *_OBJECT),
    "string[]": _Type("StringArrayObject", *_OBJECT),
}


def _lookup(name: str, where: str) -> _Type:
    try:
        return _TYPES[name]
    except (KeyError, TypeError):
        raise InvalidArgumentError(
            f"{where}: no type {name!r}; choose one of {', '.join(_TYPES)}, or a mapping for a nested object"
        ) from None


def sql_name(kind: str | Fields, where: str) -> str:
    """The SQL type of a column."""
    return _lookup(kind, where).sql if isinstance(kind, str) else _OBJECT[0]


def java_name(kind: str | Fields, where: str) -> str:
    """The Java class of a column."""
    return _lookup(kind, where).java if isinstance(kind, str) else _OBJECT[1]


def value_type(kind: str, where: str) -> Any:
    """The pyignite type that writes a value."""
    import pyignite.datatypes

    return getattr(pyignite.datatypes, _lookup(kind, where).pyignite)


def check_fields(fields: Fields, where: str) -> None:
    """Raises an error for a type that does not exist, an object without fields, or fields that Ignite takes for one."""
    from ignite_strategy.dataset.structure import check_fields as check_names

    if not fields:
        raise InvalidArgumentError(f"{where}: an object needs at least one field")
    check_names(list(fields), where)
    for name, kind in fields.items():
        if isinstance(kind, Mapping):
            check_fields(kind, f"{where}.{name}")
        else:
            _lookup(kind, f"{where}.{name}")


def _frozen(fields: Fields) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (name, _frozen(kind) if isinstance(kind, Mapping) else kind) for name, kind in fields.items()
    )


def object_class(type_name: str, fields: Fields) -> Any:
    """The pyignite class of a structured object; nested objects are of type ``type_name.field``."""
    return _object_class(type_name, _frozen(fields))


@lru_cache(maxsize=256)
def _object_class(type_name: str, fields: tuple[tuple[str, Any], ...]) -> Any:
    from pyignite import GenericObjectMeta
    from pyignite.datatypes import BinaryObject

    check_names(type_name, (name for name, _ in fields))
    schema = OrderedDict(
        (name, value_type(kind, name) if isinstance(kind, str) else BinaryObject) for name, kind in fields
    )
    return GenericObjectMeta(type_name.rsplit(".", 1)[-1], (), {}, type_name=type_name, schema=schema)


def to_object(type_name: str, fields: Fields, row: Mapping[str, Any]) -> Any:
    """Turns a mapping into a structured object; a field that ``row`` does not have is null."""
    unknown = [name for name in row if name not in fields]
    if unknown:
        raise InvalidArgumentError(f"{type_name} has no field {unknown[0]!r}, only {', '.join(fields)}")
    values = {}
    for name, kind in fields.items():
        value = row.get(name)
        if value is not None and isinstance(kind, Mapping):
            values[name] = to_object(f"{type_name}.{name}", kind, value)
        else:
            values[name] = to_value(value, kind, f"{type_name}.{name}")
    return object_class(type_name, fields)(**values)


_FLOAT_END = float(2**128 - 2**103)
_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}


def to_value(value: Any, kind: str | Fields | None = None, where: str = "value") -> Any:
    """NumPy scalars and arrays as Python's own; everything else as it is.

    Raises:
      InvalidArgumentError: A number is beyond the type ``kind``; pyignite would keep its lower bits, or infinity.
    """
    plain = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(kind, str):
        scalar = kind[:-2] if kind.endswith("[]") else kind
        for item in plain if kind.endswith("[]") and isinstance(plain, (list, tuple)) else [plain]:
            _check_range(item, scalar, where)
    return plain


def _check_range(value: Any, kind: str, where: str) -> None:
    if kind in _BITS and isinstance(value, int):
        limit = 1 << _BITS[kind] - 1
        wrong = not -limit <= value < limit
    else:
        # The largest float, and half of its last digit.
        wrong = kind == "float" and isinstance(value, (int, float)) and _FLOAT_END <= abs(value) < math.inf
    if wrong:
        raise InvalidArgumentError(f"{where}: {value!r} is beyond the type {kind}")
