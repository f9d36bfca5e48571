"""Dates and times as the numbers that Ignite keeps: milliseconds since 1970, of timestamps nanoseconds too."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ignite_strategy.dataset import kinds
from ignite_strategy.dataset.exact import Refused, a, shown
from ignite_strategy.dataset.kinds import Kind
from ignite_strategy.errors import InvalidArgumentError

__all__ = ["KINDS", "PAIR", "of_array", "of_objects"]

Array = np.ndarray[Any, Any]

KINDS = (kinds.TIMESTAMP, kinds.DATE, kinds.SQL_DATE, kinds.TIME)
# A timestamp as Ignite keeps it, for years that int64 nanoseconds cannot tell: see kTimestampPair of native/binary.
PAIR = np.dtype([("millis", "<i8"), ("nanos", "<i4")])

_MILLI, _SECOND = 10**6, 10**9  # nanoseconds
_DAY = 86_400 * _SECOND
_LIMIT = 2**63
_FAR = 10**9  # years or months that no int64 of milliseconds tells, but whose days are still an int64
_COARSE = {
    "W": 7 * _DAY,
    "D": _DAY,
    "h": 3600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
    "ms": _MILLI,
    "us": 1000,
    "ns": 1,
}
_FINE = {"ps": 10**3, "fs": 10**6, "as": 10**9}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


def of_array(kind: Kind, array: Array, where: str) -> Array:
    """datetime64 without NaT as int64: nanoseconds of timestamps (else :data:`PAIR`), milliseconds of other kinds.

    Raises:
      Refused: A moment has more digits than that type, is beyond it, or is none of it.
      InvalidArgumentError: It is no type of dates or times.
    """
    if kind.code not in KINDS:
        raise InvalidArgumentError(f"column {where}: datetime64 for {a(kind.name)}")
    unit, count = np.datetime_data(array.dtype)
    ticks = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))).view(np.int64)
    if unit in ("Y", "M"):
        far = np.abs(ticks) > _FAR // count
        if far.any():
            raise _beyond(kind, array[far][0], where, int(np.flatnonzero(far)[0]))
        ticks, unit, count = array.astype("M8[D]").view(np.int64), "D", 1
    target = 1 if kind.code == kinds.TIMESTAMP else _MILLI
    numerator, denominator = count * _COARSE.get(unit, 1), target * _FINE.get(unit, 1)
    common = math.gcd(numerator, denominator)
    numerator, denominator = numerator // common, denominator // common
    if numerator == 1:
        whole, rest = np.divmod(ticks, denominator)
        if rest.any():
            row = int(np.flatnonzero(rest)[0])
            raise _finer(kind, array[row], where, row)
        return _checked(kind, whole, array, where)
    limit = (_LIMIT - 1) // numerator
    if denominator == 1 and not ((ticks > limit) | (ticks < -limit)).any():
        return _checked(kind, ticks * numerator, array, where)
    exact = []
    for row, tick in enumerate(ticks.tolist()):
        whole, rest = divmod(tick * numerator, denominator)
        if rest:
            raise _finer(kind, array[row], where, row)
        exact.append(whole)
    return _checked(kind, _fitted(kind, exact, array, where), array, where)


def of_objects(kind: Kind, values: Sequence[Any], where: str) -> Array:
    """The same of Python's, NumPy's and pandas' objects, and of numbers, which stand for themselves.

    Raises:
      Refused: As :func:`of_array`, or an object is neither date nor time.
    """
    scale = 1 if kind.code == kinds.TIMESTAMP else _MILLI
    exact, numbers = [], []
    for row, value in enumerate(values):
        nanos = _nanoseconds(kind, value, where, row)
        numbers.append(nanos is None)
        if nanos is None:
            exact.append(_integer(kind, value, where, row))
        elif nanos % scale:
            raise _finer(kind, value, where, row)
        else:
            exact.append(nanos // scale)
    whole = _fitted(kind, exact, values, where)
    if all(numbers):  # a time as a number may be of another day: in the time zone of whoever wrote it
        return whole
    return _checked(kind, whole, values, where, np.array(numbers, bool))


def _nanoseconds(kind: Kind, value: Any, where: str, row: int) -> int | None:
    """Nanoseconds since 1970, exactly; ``None`` for what is no date or time. Naive times are UTC."""
    if hasattr(value, "to_datetime64"):  # pandas.Timestamp
        value = value.to_datetime64()
    if isinstance(value, np.datetime64):
        unit, count = np.datetime_data(value.dtype)
        if unit in ("Y", "M"):
            if abs(int(value.astype(np.int64))) > _FAR // count:
                raise _beyond(kind, value, where, row)
            value, unit, count = value.astype("M8[D]"), "D", 1
        whole, rest = divmod(int(value.astype(np.int64)) * count * _COARSE.get(unit, 1), _FINE.get(unit, 1))
        if rest:
            raise _finer(kind, value, where, row)
        return whole
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return (moment - _EPOCH) // _MICROSECOND * 1000
    if isinstance(value, datetime.date):
        return (value.toordinal() - _EPOCH.date().toordinal()) * _DAY
    if isinstance(value, datetime.time):
        if kind.code != kinds.TIME:
            raise Refused(where, row, f"{value!r} has no day, {a(kind.name)} has one")
        if value.tzinfo is not None:
            raise Refused(
                where, row, f"{value!r} has a time zone, which {a(kind.name)} has not: leave it out"
            )
        return (
            (datetime.datetime.combine(_EPOCH.date(), value, _EPOCH.tzinfo) - _EPOCH) // _MICROSECOND * 1000
        )
    return None


def _integer(kind: Kind, value: Any, where: str, row: int) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return int(value)
    raise Refused(where, row, f"{shown(value)} is not {a(kind.name)}")


def _fitted(kind: Kind, exact: Sequence[int], values: Any, where: str) -> Array:
    """Nanoseconds or milliseconds in the narrowest form that has room for all of them."""
    if all(-_LIMIT <= number < _LIMIT for number in exact):
        return np.array(exact, np.int64)
    scale = _MILLI if kind.code == kinds.TIMESTAMP else 1
    pairs = np.zeros(len(exact), PAIR)
    for row, number in enumerate(exact):
        millis, nanos = divmod(number, scale)
        if not -_LIMIT <= millis < _LIMIT:
            raise _beyond(kind, values[row], where, row)
        pairs[row] = millis, nanos
    return pairs


def _checked(kind: Kind, whole: Array, values: Any, where: str, skipped: Array | None = None) -> Array:
    """Times are of the first day, and days have no time."""
    if kind.code == kinds.TIME:
        wrong = (whole < 0) | (whole >= _DAY // _MILLI)
        why = "is not on 1970-01-01, and a time has no other day: give datetime.time, or write a timestamp"
    elif kind.code == kinds.SQL_DATE:
        wrong = whole % (_DAY // _MILLI) != 0
        why = "has a time of day, which an SQL date has not: take its date(), or write a date or timestamp"
    else:
        return whole
    if skipped is not None:
        wrong &= ~skipped
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise Refused(where, row, f"{shown(values[row])} {why}")
    return whole


def _finer(kind: Kind, value: Any, where: str, row: int) -> Refused:
    unit = "nanosecond" if kind.code == kinds.TIMESTAMP else "millisecond"
    other = "" if kind.code == kinds.TIMESTAMP else ", or write a timestamp, which has nanoseconds"
    if kind.code == kinds.TIME:
        other = ""
    return Refused(
        where, row, f"{shown(value)} has digits below a {unit}, which {a(kind.name)} has not: round it{other}"
    )


def _beyond(kind: Kind, value: Any, where: str, row: int) -> Refused:
    return Refused(
        where,
        row,
        f"{shown(value)} is beyond {a(kind.name)}: Ignite keeps milliseconds since 1970 in 64 bits, which is the years "
        "-292275055 to 292278994",
    )
