"""Every type code against bytes that Ignite 2.17's own writer made."""

from __future__ import annotations

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
]
NOT_READ = {
    "UUID": "0a7766554433221100ffeeddccbbaa9988",
    "date": "0be803000000000000",
    "SQL date": "fe0f000000663aded5409766e803000000000000",
    "timestamp": "216304000000000000" + "55f80600",
    "time": "248813000000000000",
    "decimal": "1e02000000020000003039",
    "string array": "140200000009010000006165",
    "UUID array": "150100000065",
    "date array": "16010000000be803000000000000",
    "object array": "17ffffffff020000000301000000090100000061",
    "collection": "1801000000010301000000",
    "map": "1901000000010301000000090100000061",
    "enum": "1c0100000002000000",
    "enum array": "1d01000000010000001c0100000002000000",
    "decimal array": "1f010000001e02000000020000003039",
    "timestamp array": "2201000000216304000000000000" + "55f80600",
    "time array": "2501000000248813000000000000",
    "class": "2001000000",
    "reference": "6610000000",
    "NULL": "65",
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


def test_reads_strings_byte_for_byte():
    golden = bytes.fromhex("090300000061c3a9")
    assert decode(binary.i32(1) + golden + binary.i32(2) + binary.text(""), [(VAL, 9, -1, 0)], 2) == [
        ["aé".encode(), b""]
    ]


@pytest.mark.parametrize("name", NOT_READ)
def test_refuses_what_it_does_not_read_and_names_key_and_field(name):
    rows = binary.i32(77) + bytes.fromhex(NOT_READ[name])
    with pytest.raises(UnsupportedError, match=rf"key 77.*field val is .*{name}.*columns="):
        decode(rows, [(VAL, 3, -1, 0)])


@pytest.mark.parametrize("name", NOT_READ)
def test_moves_past_what_is_left_out(name):
    row = binary.i32(77) + bytes.fromhex(NOT_READ[name])
    (keys,) = decode(row * 3, [(["key"], 3, -1, 0)], 3)
    np.testing.assert_array_equal(keys, [77, 77, 77])


def test_covers_every_type_of_the_table():
    read = {code for code, *_ in READ} | {9}
    unread = {bytes.fromhex(golden)[0] for golden in NOT_READ.values()}
    table = _core.type_table()
    opaque = {35, 99, 38}  # proxies have no known end; 38 is a second code for enums
    assert read == {code for code, (_, _, kind, _) in table.items() if kind in ("scalar", "array")}
    assert unread | opaque == {code for code, (_, _, kind, _) in table.items() if kind == "unsupported"}


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
