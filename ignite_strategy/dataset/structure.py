"""What no object of Ignite can be: nested too deep, or with two fields that Ignite takes for one."""

from __future__ import annotations

from collections.abc import Sequence

from ignite_strategy import _core
from ignite_strategy.dataset.kinds import OBJECT, Kind
from ignite_strategy.errors import InvalidArgumentError

__all__ = ["MAX_DEPTH", "check_columns", "check_fields", "check_structure"]

# Of native/python/bind_bulk.cc.
MAX_DEPTH = 32


def check_structure(kind: Kind, where: str, depth: int = 0) -> None:
    """Refuses what no object of Ignite can be.

    Raises:
      InvalidArgumentError: Too deep, or two fields of an object have the same id, so that one would hide the other.
    """
    if depth > MAX_DEPTH:
        raise InvalidArgumentError(
            f"column {where} is nested deeper than {MAX_DEPTH} levels, which is the limit: write it as text (JSON), or "
            "as several columns"
        )
    if kind.code == OBJECT:
        check_fields([name for name, _ in kind.parts], where)
    for name, part in kind.parts:
        check_structure(part, f"{where}.{name}" if kind.code == OBJECT else where, depth + 1)


def check_fields(names: Sequence[str], where: str) -> None:
    """Refuses two fields that Ignite takes for one: it knows them by a hash of their names in lower case.

    Raises:
      InvalidArgumentError: There are two; the message names them.
    """
    seen: dict[int, str] = {}
    for name in names:
        if not name:
            raise InvalidArgumentError(
                f"{where}: a field's name is empty; Ignite takes none for such a field"
            )
        other = seen.setdefault(_core.java_lower_hash(name), name)
        if other != name:
            why = "differ only in case" if other.lower() == name.lower() else "have the same hash"
            raise InvalidArgumentError(
                f"{where}: the fields {other!r} and {name!r} {why}, and Ignite tells fields apart by a hash of their "
                "names in lower case: one value would replace the other; give one of them another name"
            )


def check_columns(names: Sequence[str]) -> None:
    """Refuses fields that SQL cannot show as columns.

    Raises:
      InvalidArgumentError: There is one; the message names it.
    """
    for name in names:
        why = None
        if "." in name:
            why = "a dot separates an object from its fields, and SQL would show NULL"
        elif "\0" in name:
            why = "it has a character that SQL cuts names at, and SQL would show NULL"
        elif '"' in name:
            why = "Ignite makes no table with a quotation mark in a name"
        elif name.upper() in ("_KEY", "_VAL"):
            why = "SQL calls the whole key and the whole value so"
        if why:
            raise InvalidArgumentError(
                f"a column of an SQL table cannot be called {name!r}: {why}; give it another name"
            )
