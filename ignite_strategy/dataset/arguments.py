"""Arguments as users give them, checked where they are given: what cannot be used is named, with what to write."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from ignite_strategy import _core
from ignite_strategy.errors import InvalidArgumentError

__all__ = [
    "MAX_PAGE_ROWS",
    "checked_cache",
    "checked_columns",
    "checked_count",
    "checked_flag",
    "checked_host",
    "checked_page_size",
    "checked_port",
    "parse_partitions",
]

# A node makes room for a whole page before it fills it: far more than this ends its Java, and with it its data.
MAX_PAGE_ROWS = 1_000_000
MAX_PARTITIONS = 65_000  # Ignite's own limit


def _integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def checked_count(value: Any, name: str, low: int, high: int, what: str) -> int:
    """Returns an integer between limits; ``what`` tells what it counts."""
    count = _integer(value)
    if count is None or not low <= count <= high:
        raise InvalidArgumentError(f"{name}={value!r}: {what}, an integer from {low} to {high:,}")
    return count


def checked_cache(value: Any, name: str = "cache_name", empty: bool = False) -> str:
    """Returns the name of a cache."""
    if not isinstance(value, str) or not (value or empty):
        raise InvalidArgumentError(f"{name}={value!r}: give the name of a cache")
    if "\0" in value:
        raise InvalidArgumentError(f"{name}={value!r}: no cache has a NUL in its name")
    return value


def checked_columns(value: Any) -> list[str] | None:
    """Returns the names of wanted columns; ``None`` = all."""
    if value is None:
        return None
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InvalidArgumentError(f"columns={value!r}: give a list of names, [{value!r}]")
    names = list(value)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong or not names:
        why = f"{wrong[0]!r} is no name" if wrong else "no column is no row"
        raise InvalidArgumentError(
            f"columns={names!r}: {why}; give names like 'key' and 'val.x', or leave columns= out for all"
        )
    return names


def checked_page_size(value: Any) -> int:
    """Returns the rows of a page, 0 = follows the bytes per row."""
    if value is None:
        return 0
    rows = _integer(value)
    if rows is None or not 1 <= rows <= MAX_PAGE_ROWS:
        raise InvalidArgumentError(f"page_size={value!r}: a page has 1 to {MAX_PAGE_ROWS:,} rows")
    return rows


def checked_port(value: Any, name: str = "port") -> int | None:
    """Returns a port, or ``None`` if none is given."""
    if value is None:
        return None
    port = _integer(value)
    if port is None or not 0 < port < 65536:
        raise InvalidArgumentError(f"{name}={value!r} is not an integer between 1 and 65535")
    return port


def checked_host(value: Any, name: str = "host") -> str | None:
    """Returns a host name or address, or ``None`` if none is given."""
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(f"{name}={value!r}: give a host name or address")
    if value.count(":") == 1:
        raise InvalidArgumentError(
            f"{name}={value!r}: the host alone is meant; the port belongs in {name[:-4]}port="
        )
    return value


def checked_flag(value: Any, name: str) -> bool:
    """Returns a truth value; ``None`` is false. A text is none: "no" would be true."""
    if value is None:
        return False
    try:
        wrong = isinstance(value, (str, bytes)) or bool(value not in (0, 1))
    except (TypeError, ValueError):  # an array
        wrong = True
    if wrong:
        raise InvalidArgumentError(f"{name}={value!r} is neither True nor False")
    return bool(value)


def parse_partitions(value: int | str | Iterable[int] | None, name: str) -> tuple[int, ...] | None:
    """Returns partitions as given in code: an index, a list, or text like ``"0-7,9"``; ``None`` or -1 = all.

    Raises:
      InvalidArgumentError: It is none of these, or names no partition.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return tuple(_core.parse_partitions(value, name))
    one = _integer(value)
    if one == -1:
        return None
    found: list[int | None] = [one]
    if one is None and isinstance(value, Iterable):
        found = [_integer(each) for each in value]
    wrong = [number for number in found if number is None or not 0 <= number < MAX_PARTITIONS]
    if wrong or not found:
        raise InvalidArgumentError(
            f"{name}={value!r}: give a partition from 0 to {MAX_PARTITIONS - 1}, a list of them, or text like '0-7,9'; "
            "-1 for all"
        )
    return tuple(sorted({number for number in found if number is not None}))
