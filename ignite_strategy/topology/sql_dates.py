"""SQL's DATE for pyignite, which does not know it: Ignite sends ``java.sql.Date`` as its own marshaller has it."""

from __future__ import annotations

import ctypes
import datetime
import struct
from io import SEEK_CUR
from typing import Any

__all__ = ["register", "to_date"]

_CODE = b"\xfe"
# An object with a known class: its mark, the hash of "java.sql.Date", two bytes of a checksum, the milliseconds.
_HEAD, _SIZE = bytes.fromhex("663aded540"), 15
_DAY = 86_400_000
# Midnight is up to 13 hours before that of UTC (New Zealand's summer), and less than 11 behind.
_EAST = 13 * 3_600_000
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_GREGORIAN = datetime.date(1582, 10, 15).toordinal()


def to_date(millis: int) -> datetime.date | int:
    """The day whose midnight somewhere is so many milliseconds after 1970 UTC.

    SQL's DATE is midnight in the time zone of the node that has made it, which it does not send along: the zone here,
    or UTC, if it is midnight there, else the day that fits. What ``datetime.date`` does not have, years outside 1 to
    9999, stays a number of milliseconds.
    """
    days = (millis if millis % _DAY == 0 else millis + _EAST) // _DAY + _EPOCH
    try:
        here = datetime.datetime.fromtimestamp(millis // 1000)
        if millis % 1000 == 0 and here.time() == datetime.time(0):
            days = here.toordinal()
    except (OverflowError, ValueError, OSError):
        pass
    try:
        return datetime.date.fromordinal(days) if days >= _GREGORIAN else datetime.date(*_julian(days))
    except (OverflowError, ValueError):
        return millis


def _julian(days: int) -> tuple[int, int, int]:
    """Year, month and day as Java and SQL count them before October 1582."""
    from_march = days + 1_721_425 + 32_082  # days since March 1st, 4801 before Christ
    year = (4 * from_march + 3) // 1461
    day = from_march - 1461 * year // 4
    month = (5 * day + 2) // 153
    return year - 4800 + month // 10, month + 3 - 12 * (month // 10), day - (153 * month + 2) // 5 + 1


def register() -> None:
    """Teaches pyignite the type, once per process."""
    from pyignite.datatypes import internal
    from pyignite.datatypes.base import IgniteDataType
    from pyignite.exceptions import ParseError

    internal.tc_map(b"e")  # makes the table
    if _CODE in internal._tc_map:
        return

    class SqlDate(IgniteDataType):  # type: ignore[misc]
        """Reads what stands behind the code 0xfe."""

        @classmethod
        def parse(cls, stream: Any) -> Any:
            (size,) = struct.unpack("<i", bytes(stream.slice(stream.tell() + 1, 4)))
            body = bytes(stream.slice(stream.tell() + 5, max(size, 0)))
            if size != _SIZE or len(body) != size or not body.startswith(_HEAD):
                raise ParseError(
                    "a Java object of a class that pyignite does not read (leave the column out)"
                )
            stream.seek(1 + 4 + size, SEEK_CUR)
            fields = [
                ("type_code", ctypes.c_ubyte),
                ("length", ctypes.c_int),
                ("head", ctypes.c_ubyte * (_SIZE - 8)),
                ("millis", ctypes.c_longlong),
            ]
            return type(cls.__name__, (ctypes.LittleEndianStructure,), {"_pack_": 1, "_fields_": fields})

        @classmethod
        async def parse_async(cls, stream: Any) -> Any:
            return cls.parse(stream)

        @classmethod
        def to_python(cls, ctypes_object: Any, **kwargs: Any) -> Any:
            return to_date(ctypes_object.millis)

        @classmethod
        async def to_python_async(cls, ctypes_object: Any, **kwargs: Any) -> Any:
            return cls.to_python(ctypes_object, **kwargs)

    internal._tc_map[_CODE] = SqlDate
