"""A value of every type of the native table, as it is on the wire and as NumPy has it."""

from __future__ import annotations

import struct

from tests import binary

UUID = "00112233-4455-6677-8899-aabbccddeeff"
_UUID = bytes.fromhex("0a7766554433221100ffeeddccbbaa9988")
_DATE = bytes.fromhex("0bffffffffffffffff")
_SQL_DATE = bytes.fromhex("fe0f000000663aded5409766e803000000000000")
_TIME = bytes.fromhex("248813000000000000")
_ENUM = b"\x26" + struct.pack("<ii", binary.type_id("TypesColor"), 1)


def typed(code: int, *items: bytes, head: bytes = b"") -> bytes:
    """An array of values with type codes."""
    return bytes([code]) + head + struct.pack("<i", len(items)) + b"".join(items)


# For each code of the table that is a scalar or an array: the bytes, and what they are in NumPy.
VALUES = {
    1: (binary.i8(-5), -5),
    2: (bytes.fromhex("02feff"), -2),
    3: (binary.i32(-70_000), -70_000),
    4: (binary.i64(-(2**40)), -(2**40)),
    5: (bytes.fromhex("050000c03f"), 1.5),
    6: (binary.f64(1e300), 1e300),
    7: (bytes.fromhex("071604"), 0x416),
    8: (bytes.fromhex("0801"), True),
    9: (binary.text("a\0é𝄞"), "a\0é𝄞".encode()),
    10: (_UUID, UUID.encode()),
    11: (_DATE, -1),
    12: (b"\x0c\x02\x00\x00\x00\x01\xff", [1, -1]),
    13: (b"\x0d\x01\x00\x00\x00\xfe\xff", [-2]),
    14: (binary.ints(-1, 2), [-1, 2]),
    15: (b"\x0f" + struct.pack("<iqq", 2, -1, 2**40), [-1, 2**40]),
    16: (binary.floats(0.5, 1.5), [0.5, 1.5]),
    17: (b"\x11" + struct.pack("<id", 1, 0.25), [0.25]),
    18: (b"\x12" + struct.pack("<iHH", 2, 0x416, 65), [0x416, 65]),
    19: (b"\x13\x02\x00\x00\x00\x01\x00", [True, False]),
    20: (binary.texts("a", "", "bé"), [b"a", b"", "bé".encode()]),
    21: (typed(21, _UUID), [UUID.encode()]),
    22: (typed(22, _DATE, bytes.fromhex("0be803000000000000")), [-1, 1000]),
    28: (b"\x1c" + struct.pack("<ii", binary.type_id("TypesColor"), 1), 1),
    29: (typed(29, _ENUM, _ENUM, head=struct.pack("<i", binary.type_id("TypesColor"))), [1, 1]),
    30: (binary.decimal("-123.45"), b"-123.45"),
    31: (typed(31, binary.decimal("1E+3"), binary.decimal("0.10")), [b"1E+3", b"0.10"]),
    33: (binary.timestamp(-1), -1),
    34: (typed(34, binary.timestamp(10**18 + 999_999)), [10**18 + 999_999]),
    36: (_TIME, 5000),
    37: (typed(37, _TIME, _TIME), [5000, 5000]),
    38: (_ENUM, 1),
    0xFE: (_SQL_DATE, 1000),
}
EXPECTED = {f"f{code}": value for code, (_, value) in VALUES.items()}
