"""Every type code against bytes that Ignite 2.17's own writer made."""

from __future__ import annotations

import struct
from decimal import Decimal

import numpy as np
import pytest

from ignite_strategy import _core
from ignite_strategy.errors import DataLossError, InvalidArgumentError, UnsupportedError
from tests import binary

# code, hexadecimal bytes of the value, dtype, the value in NumPy
READ = [
    (1, "0105", "int8", 5),
    (1, "01ff", "int8", -1),  # Java's byte is signed
    (2, "02feff", "int16", -2),
    (3, "0301000000", "int32", 1),
    (4, "040100000000000000", "int64", 1),
    (5, "050000c03f", "float32", 1.5),
    (6, "06000000000000f83f", "float64", 1.5),
    (7, "074100", "uint16", 65),
    (7, "071604", "uint16", 0x416),
    (8, "0801", "bool", True),
    (12, "0c020000000102", "int8", [1, 2]),
    (13, "0d02000000feff0100", "int16", [-2, 1]),
    (14, "0e0100000007000000", "int32", [7]),
    (15, "0f010000000700000000000000", "int64", [7]),
    (16, "10010000000000c03f", "float32", [1.5]),
    (17, "1101000000000000000000f83f", "float64", [1.5]),
    (18, "12010000004100", "uint16", [65]),
    (19, "13020000000100", "bool", [True, False]),
    (16, "1000000000", "float32", []),
    (11, "0be803000000000000", "int64", 1000),
    (11, "0bffffffffffffffff", "int64", -1),  # before 1970
    (0xFE, "fe0f000000663aded5409766e803000000000000", "int64", 1000),  # java.sql.Date
    (33, "216304000000000000" + "55f80600", "int64", 1_123_456_789),
    (33, "21ffffffffffffffff" + "3f420f00", "int64", -1),  # one nanosecond before 1970
    (36, "248813000000000000", "int64", 5000),
    (28, "1c0100000002000000", "int32", 2),
    (28, "260100000002000000", "int32", 2),  # a binary enum, code 38
    (38, "260100000002000000", "int32", 2),
    (22, "16010000000be803000000000000", "int64", [1000]),
    (29, "1d01000000010000001c0100000002000000", "int32", [2]),
    (34, "2201000000216304000000000000" + "55f80600", "int64", [1_123_456_789]),
    (37, "2501000000248813000000000000", "int64", [5000]),
]
TEXTS = [
    (9, "090300000061c3a9", "aé"),
    (9, "0900000000", ""),
    (9, "0903000000610062", "a\0b"),  # a NUL inside
    (10, "0a7766554433221100ffeeddccbbaa9988", "00112233-4455-6677-8899-aabbccddeeff"),
    (30, "1e02000000020000003039", "123.45"),
    (30, "1e0200000002000000b039", "-123.45"),
    (30, "1e00000000020000008080", "-128"),
    (30, "1e000000000100000000", "0"),
    (30, "1efdffffff0100000001", "1E+3"),  # a negative scale
    (30, "1e020000000100000081", "-0.01"),
    (30, "1e080000000100000001", "1E-8"),
    (30, "1e00000000010000007f", "127"),
]
TEXT_ARRAYS = [
    (20, "140200000009010000006109" + "00000000", [b"a", b""]),
    (21, "15010000000a7766554433221100ffeeddccbbaa9988", [b"00112233-4455-6677-8899-aabbccddeeff"]),
    (31, "1f010000001e02000000020000003039", [b"123.45"]),
]
NOT_READ = {
    "class": "2001000000",
    "NULL": "65",
}
LEFT_OUT = {
    **{f"{code}-{golden[:24]}": golden for code, golden, *_ in READ + TEXTS + TEXT_ARRAYS},
    **NOT_READ,
    "object array": "17ffffffff020000000301000000090100000061",
    "collection": "1801000000010301000000",
    "map": "1901000000010301000000090100000061",
    "reference": "6610000000",
}
VAL = ["val"]


def decode(rows: bytes, columns, count=1, types=None):
    return _core.decode_rows(rows, count, columns, types or {})


@pytest.mark.parametrize(("code", "golden", "dtype", "value"), READ)
def test_reads_what_the_java_writer_wrote(code, golden, dtype, value):
    """tensorflow/io declared char columns uint8 and parsed them as uint16: one table now drives both."""
    (column,) = decode(binary.i32(1) + bytes.fromhex(golden), [(VAL, code, -1, 0)])
    assert column.dtype == dtype == _core.type_table()[code][1]
    np.testing.assert_array_equal(column, np.array([value], dtype))


@pytest.mark.parametrize(("code", "golden", "value"), TEXTS)
def test_reads_texts(code, golden, value):
    """UUIDs in java.util.UUID's byte order (apache/ignite #6296), decimals exactly (apache/ignite #5041)."""
    assert decode(binary.i32(1) + bytes.fromhex(golden), [(VAL, code, -1, 0)]) == [[value.encode()]]
    assert _core.type_table()[code][1] == "string"


@pytest.mark.parametrize(("code", "golden", "value"), TEXT_ARRAYS)
def test_reads_arrays_of_texts(code, golden, value):
    """tensorflow/io read string arrays without the type byte of each item (BR-05)."""
    assert decode(binary.i32(1) + bytes.fromhex(golden), [(VAL, code, -1, 0)]) == [[value]]
    ((values, splits),) = decode((binary.i32(1) + bytes.fromhex(golden)) * 2, [(VAL, code, -1, 2)], 2)
    assert values == value * 2
    assert splits.tolist() == [0, len(value), 2 * len(value)]


@pytest.mark.parametrize(
    "digits", ["0", "-0.01", "1E+3", "127.5", "-128", "9" * 40 + ".0001", "1E-400", "-5E+7"]
)
def test_decimals_are_exact(digits):
    """apache/ignite #5041 (IGNITE-9950): decimals lost digits and signs (BR-06)."""
    row = binary.i32(1) + binary.decimal(digits)
    ((text,),) = decode(row, [(VAL, 30, -1, 0)])
    assert Decimal(text.decode()) == Decimal(digits)
    assert Decimal(text.decode()).as_tuple() == Decimal(digits).as_tuple()
    (number,) = decode(row, [(VAL, 30, -1, 0, {"decimal_float64": True})])
    assert number.dtype == "float64"
    assert number.tolist() == [float(digits)]


def test_a_decimal_beyond_float64_is_an_error_and_not_infinity():
    with pytest.raises(InvalidArgumentError, match=r"key 1.*1E\+400.*float64"):
        decode(binary.i32(1) + binary.decimal("1E+400"), [(VAL, 30, -1, 0, {"decimal_float64": True})])


def test_a_decimal_that_takes_for_ever_is_refused():
    row = binary.i32(1) + b"\x1e" + struct.pack("<ii", 0, 100_000) + b"\x55" * 100_000
    with pytest.raises(DataLossError, match="decimal of 100000 bytes"):
        decode(row, [(VAL, 30, -1, 0)])


@pytest.mark.parametrize("nanos", [0, 1, -1, 10**18 + 999_999, -(10**18) - 1, -(2**63), 2**63 - 1])
def test_timestamps_keep_their_nanoseconds(nanos):
    row = binary.i32(1) + binary.timestamp(nanos)
    (column,) = decode(row, [(VAL, 33, -1, 0)])
    assert column.tolist() == [nanos]
    (column,) = decode(row, [(VAL, 33, -1, 0, {"timestamp_millis": True})])
    assert column.tolist() == [nanos // 1_000_000]


def test_timestamps_that_int64_nanoseconds_cannot_tell():
    year_9999 = binary.i32(1) + b"\x21" + struct.pack("<qi", 253_402_300_799_000, 0)
    with pytest.raises(InvalidArgumentError, match=r'key 1.*1677 to 2262.*timestamp="ms"'):
        decode(year_9999, [(VAL, 33, -1, 0)])
    (column,) = decode(year_9999, [(VAL, 33, -1, 0, {"timestamp_millis": True})])
    assert column.tolist() == [253_402_300_799_000]
    with pytest.raises(DataLossError, match="1000000 nanoseconds"):
        decode(binary.i32(1) + b"\x21" + struct.pack("<qi", 0, 1_000_000), [(VAL, 33, -1, 0)])


def test_enums_by_name():
    color = binary.enum_metadata("Color", {"RED": 0, "GREEN": 2})
    row = binary.i32(1) + b"\x1c" + struct.pack("<ii", binary.type_id("Color"), 2)
    columns = [(VAL, 28, -1, 0, {"enum_name": True})]
    assert decode(row, columns, types={binary.type_id("Color"): color}) == [[b"GREEN"]]
    named = binary.i32(1) + b"\x1c" + struct.pack("<i", 0) + binary.text("Color") + struct.pack("<i", 0)
    assert decode(named, columns, types={binary.type_id("Color"): color}) == [[b"RED"]]
    with pytest.raises(UnsupportedError, match=r'does not know the name of value 2.*enum="ordinal"'):
        decode(row, columns)


def test_another_class_in_the_optimized_marshaller_is_refused():
    row = binary.i32(7) + bytes.fromhex("fe0f000000663aded5419766e803000000000000")
    with pytest.raises(UnsupportedError, match=r"key 7.*Java-serialized object.*columns="):
        decode(row, [(VAL, 0xFE, -1, 0)])


@pytest.mark.parametrize("name", NOT_READ)
def test_refuses_what_it_does_not_read_and_names_key_and_field(name):
    rows = binary.i32(77) + bytes.fromhex(NOT_READ[name])
    with pytest.raises(
        (UnsupportedError, InvalidArgumentError), match=rf"key 77.*field val is .*{name}.*columns="
    ):
        decode(rows, [(VAL, 3, -1, 0)])


@pytest.mark.parametrize("name", LEFT_OUT)
def test_moves_past_what_is_left_out(name):
    row = binary.i32(77) + bytes.fromhex(LEFT_OUT[name])
    (keys,) = decode(row * 3, [(["key"], 3, -1, 0)], 3)
    np.testing.assert_array_equal(keys, [77, 77, 77])


def test_covers_every_type_of_the_table():
    kinds = {code: kind for code, (_, _, kind, *_) in _core.type_table().items()}
    read = {code for code, *_ in READ + TEXTS + TEXT_ARRAYS}
    assert read == {code for code, kind in kinds.items() if kind in ("scalar", "array")}
    assert {code for code, kind in kinds.items() if kind == "unsupported"} == {32, 35, 99, 101, 102}
    assert {code for code, kind in kinds.items() if kind == "sequence"} == {23, 24}
    assert [code for code, kind in kinds.items() if kind == "map"] == [25]


def test_another_type_than_declared_is_an_error_and_no_misread():
    with pytest.raises(InvalidArgumentError, match="field val is a long here but an int in"):
        decode(binary.i32(1) + binary.i64(5), [(VAL, 3, -1, 0)])


def test_an_unknown_type_code_is_an_error():
    with pytest.raises(DataLossError, match="field val has the unknown type code 77"):
        decode(binary.i32(1) + b"\x4d", [(VAL, 3, -1, 0)])
    with pytest.raises(DataLossError, match="unknown type code 77"):
        decode(binary.i32(1) + b"\x4d", [(["key"], 3, -1, 0)])


def test_booleans_are_zero_or_one_whatever_was_sent():
    (column,) = decode(binary.i32(1) + b"\x08\x07", [(VAL, 8, -1, 0)])
    assert column.view("uint8").tolist() == [1]


def test_deep_nesting_is_refused_before_it_exhausts_the_stack():
    bomb = bytes.fromhex("180100000001") * 100_000 + b"\x65"
    with pytest.raises(DataLossError, match="nested"):
        decode(binary.i32(1) + bomb, [(["key"], 3, -1, 0)])


class TestArrays:
    @staticmethod
    def rows(*lengths):
        return b"".join(binary.i32(i) + binary.floats(*range(length)) for i, length in enumerate(lengths))

    def test_ragged(self):
        ((values, splits),) = decode(self.rows(2, 0, 3), [(VAL, 16, -1, 2)], 3)
        np.testing.assert_array_equal(values, [0, 1, 0, 1, 2])
        np.testing.assert_array_equal(splits, [0, 2, 2, 5])

    def test_dense(self):
        (column,) = decode(self.rows(2, 2), [(VAL, 16, -1, 1)], 2)
        np.testing.assert_array_equal(column, [[0, 1], [0, 1]])

    def test_dense_with_another_length_names_the_row(self):
        with pytest.raises(InvalidArgumentError, match="key 1: array val has 3 items where 2"):
            decode(self.rows(2, 3), [(VAL, 16, -1, 1)], 2)

    def test_declared_length_is_kept_by_every_row(self):
        (column,) = decode(self.rows(2, 2), [(VAL, 16, 2, 2)], 2)
        assert column.shape == (2, 2)
        with pytest.raises(InvalidArgumentError, match="key 0: array val has 2 items where 3 are declared"):
            decode(self.rows(2), [(VAL, 16, 3, 2)], 1)

    def test_a_length_beyond_the_page_is_an_error(self):
        with pytest.raises(DataLossError):
            decode(binary.i32(1) + b"\x10\xff\xff\xff\x7f", [(VAL, 16, -1, 0)])
        with pytest.raises(DataLossError):
            decode(binary.i32(1) + b"\x10\xff\xff\xff\xff", [(VAL, 16, -1, 0)])
