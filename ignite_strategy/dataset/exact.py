"""Numbers in another dtype: the same ones, or an error that names the first that would be another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ignite_strategy.dataset import kinds
from ignite_strategy.dataset.kinds import Kind
from ignite_strategy.errors import InvalidArgumentError

__all__ = ["Refused", "a", "cast", "cast_all", "shown"]

Array = np.ndarray[Any, Any]


class Refused(InvalidArgumentError):
    """A value that cannot be written.

    Attributes:
      where: The column's name.
      row: Which of the rows that were handed over together.
      why: What is wrong with it.
    """

    def __init__(self, where: str, row: int, why: str) -> None:
        super().__init__(f"column {where}, row {row}: {why}")
        self.where, self.row, self.why = where, row, why

    def at(self, row: int) -> Refused:
        """The same for another number of the row."""
        return Refused(self.where, row, self.why)


def a(name: str) -> str:
    """A type's name with its article."""
    return f"{'an' if name[0] in 'aeio' else 'a'} {name}"


def shown(value: Any) -> str:
    """A value as messages have it."""
    text = repr(value.item() if isinstance(value, np.generic) and value.dtype.kind in "biufU" else value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def cast(kind: Kind, array: Array, dtype: np.dtype[Any], where: str) -> Array:
    """The same numbers in the dtype of ``kind``.

    Only doubles that become floats are rounded, as floats are; never to 0 or to infinity.

    Raises:
      Refused: A value would be another one.
      InvalidArgumentError: None of that dtype can become that type.
    """
    array = np.ascontiguousarray(array)
    if array.dtype == dtype:
        return array
    if array.dtype == np.uint8 and kind.code == kinds.BYTE:
        return array.view(np.int8)  # the same eight bits: Java's byte is signed
    if array.dtype.kind not in "biuf" or dtype.kind == "b":
        raise InvalidArgumentError(f"column {where}: {array.dtype} for {a(kind.name)}")
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
        wrong = _changed(array, converted)
    if wrong is not None and wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise _changes(kind, array[row], dtype, where, row)
    return converted


def _changed(array: Array, converted: Array) -> Array | None:
    """Which numbers became others. Going there and back does not tell: 2**64 - 1 is -1 and 2**64 - 1 again."""
    before, after = array.dtype, converted.dtype
    if before.kind == "b":
        return None
    if before.kind in "iu" and after.kind in "iu":
        return _outside(array, int(np.iinfo(after).min), int(np.iinfo(after).max))
    if before.kind in "iu":
        wide = converted.astype(np.float64)
        inside = _within(wide, before)
        # Compared as integers: as floats, an integer of that size and its neighbours look the same.
        wrong: Array = ~inside | (np.where(inside, wide, 0).astype(before) != array)
        return wrong
    if after.kind in "iu":
        wide = array.astype(np.float64) if before.itemsize < 8 else array
        wrong = ~(_within(wide, after) & (np.trunc(wide) == wide))
        return wrong
    wrong = (np.isinf(converted) & np.isfinite(array)) | ((converted == 0) & (array != 0))
    return wrong


def _within(floats: Array, integers: np.dtype[Any]) -> Array:
    """Whether floats are between the limits of an integer type, which are powers of two, so exact."""
    info = np.iinfo(integers)
    inside: Array = (floats >= float(info.min)) & (floats < float(2 ** (info.bits - (integers.kind == "i"))))
    return inside


def _outside(array: Array, low: int, high: int) -> Array | None:
    """Which integers are beyond limits, compared in their own dtype: a common one may be a float."""
    info = np.iinfo(array.dtype)
    below = array < array.dtype.type(low) if low > info.min else None
    above = array > array.dtype.type(high) if high < info.max else None
    return below if above is None else above if below is None else below | above


def _changes(kind: Kind, value: Any, dtype: np.dtype[Any], where: str, row: int) -> Refused:
    limits = ""
    if dtype.kind in "iu":
        limits = f", which is an integer from {np.iinfo(dtype).min} to {np.iinfo(dtype).max}"
    return Refused(where, row, f"{shown(value)} cannot become {a(kind.name)} unchanged{limits}")


def cast_all(kind: Kind, values: Sequence[Any], dtype: np.dtype[Any], where: str) -> Array:
    """Python's and NumPy's numbers, also mixed, in the dtype of ``kind``.

    Raises:
      Refused: A value would be another one.
      InvalidArgumentError: None of that dtype can become that type.
    """
    groups: dict[type, list[int]] = {}
    for at, value in enumerate(values):
        groups.setdefault(type(value), []).append(at)
    if len(groups) == 1:
        return _of_one_type(kind, values, dtype, where)
    # Each type by itself: NumPy would make floats of integers that stand beside floats.
    result = np.zeros(len(values), dtype)
    for rows in groups.values():
        try:
            result[rows] = _of_one_type(kind, [values[row] for row in rows], dtype, where)
        except Refused as error:
            raise error.at(rows[error.row]) from None
    return result


def _of_one_type(kind: Kind, values: Sequence[Any], dtype: np.dtype[Any], where: str) -> Array:
    first = values[0]
    if isinstance(first, int) and not isinstance(first, bool):
        try:
            return cast(kind, np.array(values, np.int64), dtype, where)
        except OverflowError:  # Python's have no limit
            return _of_large(kind, values, dtype, where)
    return cast(kind, np.asarray(values), dtype, where)


def _of_large(kind: Kind, values: Sequence[int], dtype: np.dtype[Any], where: str) -> Array:
    result = np.zeros(len(values), dtype)
    for row, value in enumerate(values):
        if dtype.kind in "iu":
            same = int(np.iinfo(dtype).min) <= value <= int(np.iinfo(dtype).max)
        else:
            with np.errstate(all="ignore"):
                result[row] = float(value) if abs(value) < 2**1023 else np.inf
            same = bool(np.isfinite(result[row])) and int(result[row]) == value
        if not same:
            raise _changes(kind, value, dtype, where, row)
        if dtype.kind in "iu":
            result[row] = value
    return result
