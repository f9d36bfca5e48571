"""SQL statements as sources of rows: their arguments on the wire, and the columns of their results."""

from __future__ import annotations

import datetime
import decimal
import re
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ignite_strategy import _core
from ignite_strategy.dataset import kinds, moments
from ignite_strategy.dataset.columns import Column, Options, type_table
from ignite_strategy.dataset.kinds import Kind, is_null
from ignite_strategy.dataset.source import Source, first_answer
from ignite_strategy.errors import (
    InvalidArgumentError,
    PreconditionError,
    UnsupportedError,
)

__all__ = ["Statement", "columns_of_statement", "encode_argument", "names_of_statement", "statement"]


@dataclass(frozen=True)
class Statement:
    """A statement whose rows are read.

    Attributes:
      schema: The SQL schema that names in it are looked up in.
      text: The statement.
      count: How many arguments it has.
      arguments: They as typed values on the wire.
      columns: All columns of its result, in order.
      every_task: Whether each task runs it whole.
    """

    schema: str
    text: str
    count: int
    arguments: bytes
    columns: tuple[str, ...] = ()
    every_task: bool = False

    def native(self) -> tuple[str, str, int, bytes, list[str], bool]:
        """What ``_core.scan_config`` takes."""
        return (self.schema, self.text, self.count, self.arguments, list(self.columns), self.every_task)


def statement(text: str, args: Sequence[Any], schema: str, every_task: bool) -> Statement:
    """Builds it from the arguments as a user gives them.

    Raises:
      InvalidArgumentError: The text is empty, or an argument has a type that SQL has not.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidArgumentError(f"query={text!r}: give an SQL statement")
    if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
        raise InvalidArgumentError(f"args={args!r}: give a list of values, one for each ? of the statement")
    if not isinstance(schema, str) or not schema:
        raise InvalidArgumentError(
            f"schema={schema!r}: give the name of an SQL schema, 'PUBLIC' for instance"
        )
    places = count_placeholders(text)
    if places is not None and len(args) > places:  # the server would ignore those that are too many
        raise InvalidArgumentError(
            f"args= has {len(args)} values, and the statement {places or 'no'} ? to put them: {text[:200]!r}"
        )
    return Statement(schema, text, len(args), b"".join(map(encode_argument, args)), every_task=every_task)


# What a ? is no placeholder in: text, quoted names, comments.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|//[^\n]*|/\*.*?\*/", re.DOTALL)


def count_placeholders(text: str) -> int | None:
    """How many ``?`` a statement has for arguments; ``None`` if that is not certain.

    >>> count_placeholders("SELECT '?' FROM T WHERE A = ? -- ?")
    1
    """
    plain = _QUOTED.sub(" ", text)
    # Numbered ones, dollar quotes, and quotes or comments that have no end.
    if re.search(r"\?\d|\$\$|['\"]|/\*", plain):
        return None
    return plain.count("?")


def encode_argument(value: Any) -> bytes:
    """One value with its type code.

    >>> encode_argument(7).hex()
    '040700000000000000'
    """
    if is_null(value):
        return b"\x65"
    if isinstance(value, bool):
        return b"\x08" + struct.pack("<?", value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise InvalidArgumentError(
                f"the argument {value} does not fit into a BIGINT; give a decimal.Decimal"
            )
        return b"\x04" + struct.pack("<q", value)
    if isinstance(value, float):
        return b"\x06" + struct.pack("<d", value)
    if isinstance(value, str):
        data = value.encode()
        return b"\x09" + struct.pack("<i", len(data)) + data
    if isinstance(value, (bytes, bytearray)):
        return b"\x0c" + struct.pack("<i", len(value)) + bytes(value)
    if isinstance(value, uuid.UUID):
        return b"\x0a" + struct.pack("<QQ", value.int >> 64, value.int & (1 << 64) - 1)
    if isinstance(value, decimal.Decimal):
        return _decimal(value)
    if isinstance(value, (datetime.date, np.datetime64)):
        return _timestamp(value)
    plain = value.item() if isinstance(value, (np.generic, np.ndarray)) and value.size == 1 else value
    if type(plain) is not type(value):  # NumPy's scalars, but for those that Python has not
        return encode_argument(plain)
    raise InvalidArgumentError(
        f"an argument of type {type(value).__name__} cannot be passed to SQL: give None, bool, int, float, str, bytes, "
        f"uuid.UUID, decimal.Decimal, datetime or date"
    )


def _decimal(value: decimal.Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidArgumentError(f"the argument {value} is no number")
    unscaled = int("".join(map(str, digits)) or "0")
    magnitude = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big")  # its top bit is free for the sign
    if sign:
        magnitude = bytes([magnitude[0] | 0x80]) + magnitude[1:]
    return b"\x1e" + struct.pack("<ii", -exponent, len(magnitude)) + magnitude


def _timestamp(value: datetime.date | np.datetime64) -> bytes:
    """Exactly; naive times are UTC, as those that datasets read are."""
    found = moments.of_objects(Kind(kinds.TIMESTAMP), [value], "of args=")
    pair = found[0].tolist() if found.dtype == moments.PAIR else divmod(int(found[0]), 1_000_000)
    return b"\x21" + struct.pack("<qi", *pair)


def names_of_statement(source: Source, wanted: Statement) -> tuple[tuple[str, ...], float]:
    """Runs the statement as far as its first page: the names of its columns in order, and the bytes per row."""
    found, rows, size = _first_page(source, wanted)
    return _checked_names(found), size / rows if rows else 0.0


def check_declared(columns: Sequence[Column], names: Sequence[str]) -> None:
    """Refuses columns that the statement has not, which would come as NULL.

    Raises:
      InvalidArgumentError: There is one; the message names it.
    """
    for column in columns:
        wanted = column.path[1]
        if wanted in names:
            continue
        same = [name for name in names if name.lower() == wanted.lower()]
        raise InvalidArgumentError(
            f"element_spec= has a column {wanted!r}, and the statement has none of that name"
            + (
                f", but {same[0]!r}: SQL writes names that are not quoted in capitals"
                if same
                else f", only {', '.join(map(repr, names))}"
            )
        )


def _checked_names(found: Sequence[tuple[str, set[int], int]]) -> tuple[str, ...]:
    names = tuple(name for name, _, _ in found)
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise UnsupportedError(
            f"the statement has several columns called {', '.join(twice)}: name them with AS"
        )
    for number, name in enumerate(names, 1):
        if not name or "." in name:
            raise InvalidArgumentError(
                f"column {number} of the statement is called {name!r}: a name is not empty and has no dot, which "
                "separates an object from its fields; name it with AS"
            )
    return names


def columns_of_statement(
    source: Source, wanted: Statement, options: Options
) -> tuple[tuple[str, ...], tuple[Column, ...], float]:
    """Runs the statement as far as its first page.

    Returns:
      The names of its columns in order; the columns; the bytes per row.

    Raises:
      PreconditionError: There is no row, or only NULLs in a column, to tell the types.
      UnsupportedError: Values that cannot be a column, or two columns of one name.
      InvalidArgumentError: A column whose name is empty or has a dot.
    """
    found, rows, size = _first_page(source, wanted)
    names = _checked_names(found)
    silent = [name for name, codes, _ in found if not codes]
    if silent:
        raise PreconditionError(_silence(found, silent, rows, options))
    columns = [Column(("val", name), _code(name, codes)) for name, codes, _ in found]
    ordered = sorted(columns, key=lambda column: column.path)
    return names, options.apply(ordered, "SQL"), size / rows if rows else 0.0


def _first_page(source: Source, wanted: Statement) -> tuple[list[tuple[str, set[int], int]], int, int]:
    return first_answer(
        source,
        lambda endpoint: _core.sql_columns(
            endpoint.host,
            endpoint.port,
            wanted.schema,
            wanted.text,
            wanted.count,
            wanted.arguments,
            connect_timeout=source.timeouts.connect,
            request_timeout=source.timeouts.request,
            security=source.security.native(),
            env=source.env,
        ),
    )


def _silence(
    found: Sequence[tuple[str, set[int], int]], silent: Sequence[str], rows: int, options: Options
) -> str:
    """Says which ``element_spec`` to pass, with what is known of it."""
    known = [Column(("val", name), _code(name, codes)) for name, codes, _ in found if codes]
    # A policy for a column that is not known yet is no mistake.
    plain = replace(options, nulls="error")
    specs = {
        column.path[-1]: f"tf.TensorSpec({'[None]' if column.is_array else '[]'}, tf.{column.dtype})"
        for column in plain.apply(known, "SQL")
    }
    spec = ", ".join(f"{name!r}: {specs.get(name, 'tf.TensorSpec([], tf.int64)')}" for name, _, _ in found)
    names = ", ".join(silent)
    why = f"its first {rows} rows have only NULLs in {names}" if rows else "it has no row"
    return (
        f"the server does not tell the types of a statement's columns, its values do, and {why}: pass "
        f"element_spec={{{spec}}} with the dtype of {names}"
    )


def _code(name: str, codes: set[int]) -> int:
    table = type_table()
    if len(codes) > 1:
        kinds = " and ".join(sorted(table[code].name for code in codes))
        raise UnsupportedError(f"column {name} of the statement holds values of several types: {kinds}")
    (code,) = codes
    entry = table.get(code)
    if entry is None or entry.kind not in ("scalar", "array"):
        raise UnsupportedError(
            f"column {name} of the statement has values of type {entry.name if entry else code}, which cannot be a "
            f"column: leave it out of the SELECT list, or select its fields"
        )
    return code
