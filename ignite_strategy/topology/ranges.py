"""Partition lists as short text: ``0-7,9`` (pure; the native parser reads the same form)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ignite_strategy.errors import InvalidArgumentError

__all__ = ["format_ranges", "parse_ranges"]


def format_ranges(numbers: Iterable[int]) -> str:
    """Writes a set of numbers as ranges.

    >>> format_ranges([9, 0, 1, 2])
    '0-2,9'
    """
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{low}-{high}" if low != high else str(low) for low, high in spans)


def parse_ranges(text: str, limit: int = 65_536) -> tuple[int, ...]:
    """The inverse of :func:`format_ranges`, sorted.

    Args:
      text: ``0-2,9``; an empty text is no number at all.
      limit: Numbers from here on are refused, so that a short text cannot ask for much memory.

    Raises:
      InvalidArgumentError: The text is no list of ranges.
    """
    numbers: set[int] = set()
    for part in text.split(",") if text else []:
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if low > high or high >= limit:
            raise InvalidArgumentError(
                f"{part!r} in {text!r} is no partition or range of partitions below {limit}"
            )
        numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))
