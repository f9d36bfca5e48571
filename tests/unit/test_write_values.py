"""What the bulk writer makes of values: their types, and their bytes as Ignite's own classes write them."""

from __future__ import annotations

import datetime
import decimal
import enum
import struct
import uuid
from typing import Any

import numpy as np
import pytest

from ignite_strategy import _core
from ignite_strategy.dataset.encode import native, slice_rows
from ignite_strategy.dataset.kinds import Kind, Ragged, infer, parse_kind
from ignite_strategy.errors import InvalidArgumentError
from tests import binary


class Color(enum.Enum):
    RED = 7
    GREEN = 9


def encoded(values: Any, declared: Any = None) -> str:
    """The bytes of one value, by hand or as found out."""
    kind = infer(values, "val") if declared is None else parse_kind(declared, "val")
    key = native(Kind(1), np.zeros(1, np.int8), "key", 1)
    data = _core.encode_rows(key, native(kind.named("Type"), values, "val", 1), 1)
    assert data[:2] == b"\x01\x00"
    return data[2:].hex()


# Dumped from the classes of Ignite 2.17.0.
GOLDEN: list[tuple[Any, Any, str]] = [
    (np.int8([5]), None, "0105"),
    (np.int16([-2]), None, "02feff"),
    (np.int32([1]), None, "0301000000"),
    (np.int64([1]), None, "040100000000000000"),
    ([1], None, "040100000000000000"),
    ([1], "int", "0301000000"),
    (np.float32([1.5]), None, "050000c03f"),
    ([1.5], None, "06000000000000f83f"),
    (["A"], "char", "074100"),
    (np.uint16([65]), None, "074100"),
    ([True], None, "0801"),
    (["aé"], None, "090300000061c3a9"),
    ([b"a\xc3\xa9"], None, "090300000061c3a9"),
    ([None], "string", "65"),
    ([None], "bool", "65"),
    ([uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")], None, "0a7766554433221100ffeeddccbbaa9988"),
    (np.array([1000], "M8[ms]"), "date", "0be803000000000000"),
    ([datetime.date(1970, 1, 2)], None, "fe0f000000663aded5409766005c260500000000"),
    (np.array([1123456789], "M8[ns]"), None, "21630400000000000055f80600"),
    ([datetime.datetime(1970, 1, 1, 0, 0, 1, 123456)], None, "21630400000000000040f50600"),
    ([datetime.time(0, 0, 5)], None, "248813000000000000"),
    ([decimal.Decimal("123.45")], None, "1e02000000020000003039"),
    ([decimal.Decimal("-123.45")], None, "1e0200000002000000b039"),
    ([decimal.Decimal("-128")], None, "1e00000000020000008080"),
    ([decimal.Decimal(0)], None, "1e000000000100000000"),
    (np.int8([[1, 2]]), None, "0c020000000102"),
    ([b"\x01\x02"], "byte[]", "0c020000000102"),
    (np.uint8([[1, 255]]), "byte[]", "0c0200000001ff"),
    ([np.array([True, False])], None, "13020000000100"),
    (np.uint16([[65]]), None, "12010000004100"),
    ([["a", None]], None, "14020000000901000000" + "6165"),
    ([[None]], "uuid[]", "150100000065"),
    ([np.array([1000], "M8[ms]")], "date[]", "16010000000be803000000000000"),
    ([[1]], "list<int>", "1801000000010301000000"),
    ([{1}], "set<int>", "1801000000030301000000"),
    ([{1: "a"}], "map<int,string>", "1901000000010301000000" + "090100000061"),
    (Ragged(np.int32([1, 2]), np.int64([0, 2])), None, "0e020000000100000002000000"),
    ([[]], "float[]", "1000000000"),
]


@pytest.mark.parametrize(("values", "declared", "expected"), GOLDEN, ids=lambda each: str(each)[:30])
def test_golden_bytes(values: Any, declared: Any, expected: str) -> None:
    assert encoded(values, declared) == expected


def test_enums_are_ordinals_of_their_type() -> None:
    type_id = struct.pack("<i", _core.java_lower_hash("Color")).hex()
    assert encoded([Color.GREEN]) == f"1c{type_id}01000000"
    assert encoded(["RED"], Color) == f"1c{type_id}00000000"
    assert encoded([[Color.RED]]) == f"1d{type_id}010000001c{type_id}00000000"


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize(("size", "offset"), [(3, 1), (300, 2), (70_000, 4)])
def test_objects_are_those_that_ignite_writes(compact: bool, size: int, offset: int) -> None:
    values = {"a": np.int32([7]), "text": ["x" * size], "b": [1.5]}
    column = native(infer(values, "val").named("Some"), values, "val", 1, compact)
    data = _core.encode_rows(native(Kind(1), np.zeros(1, np.int8), "key", 1), column, 1)[2:]
    fields = {"a": binary.i32(7), "text": binary.text("x" * size), "b": binary.f64(1.5)}
    expected = bytearray(
        binary.binary_object("Some", fields, binary.Footer(compact=compact, offset_size=offset))
    )
    body = expected[24 : struct.unpack_from("<i", expected, 20)[0]]
    code = 1
    for byte in struct.unpack(f"{len(body)}b", body):
        code = (31 * code + byte) & 0xFFFFFFFF
    struct.pack_into("<I", expected, 8, code)
    assert data == bytes(expected)


def test_nested_objects_and_their_names() -> None:
    rows = [{"p": {"x": 1}, "l": [{"y": 2}]}, {"p": None, "l": []}]
    kind = infer(rows, "val").named("Outer")
    assert (kind.type_name, dict(kind.parts)["p"].type_name) == ("Outer", "Outer.p")
    assert dict(kind.parts)["l"].item.type_name == "Outer.l"
    data = _core.encode_rows(native(Kind(1), np.zeros(2, np.int8), "key", 2), native(kind, rows, "val", 2), 2)
    decoded = _core.decode_rows(
        data,
        2,
        [(["key"], 1, -1, 0)],
        binary.types(("Outer", binary.metadata("Outer", {"p": 103, "l": 24}, [["p", "l"]]))),
    )
    assert decoded[0].tolist() == [0, 0]


def test_nulls_of_every_container() -> None:
    masked = np.ma.masked_array([1, 2], [False, True])
    assert infer(masked, "x") == Kind(4)
    assert native(Kind(4), masked, "x", 2)[5].tolist() == [1, 0]
    assert native(Kind(33), np.array(["NaT", "1970"], "M8[s]"), "x", 2)[5].tolist() == [0, 1]
    assert native(Kind(9), ["a", None], "x", 2)[5].tolist() == [1, 0]
    assert native(parse_kind("int[]", "x"), [None, [1]], "x", 2)[5].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("values", "declared", "message"),
    [
        (np.uint8([1]), None, "uint8, which Ignite does not have; types={'val': 'byte'}"),
        (np.int64([2**40]), "int", r"1099511627776.* cannot become an int unchanged"),
        (np.float64([0.5]), "long", "cannot become a long unchanged"),
        (np.int64([2**60 + 1]), "double", "cannot become a double unchanged"),
        (np.float64([1e300]), "float", "cannot become a float unchanged"),
        ([1, "a"], None, "values of several types: long and string"),
        ([object()], None, "values of builtins.object"),
        ([[1, None]], "int[]", "NULL in an array of numbers"),
        (["\ud800"], None, "not UTF-8"),
        ([b"\xff"], None, r"not UTF-8 text; write bytes as a byte array: types=\{'val': 'byte\[\]'\}"),
        ([0.1], "decimal", "no exact decimal"),
        (["12x"], "decimal", "'12x' is not a decimal"),
        (["not one"], "uuid", "'not one' is not a UUID"),
        (np.zeros((2, 2, 2)), None, "3 dimensions"),
        ([[]], None, "only empty"),
        ([1], "flaot", "no type 'flaot', but one of bool, byte"),
        (["a"], "int", "'a' is not an int"),
        (np.array([10**17], "M8[s]"), "timestamp", "beyond a timestamp.*-292275055 to 292278994"),
    ],
    # The same in every process: without an address in memory.
    ids=lambda each: str(each).split(" at 0x")[0][:24],
)
def test_what_cannot_be_written_is_an_error_that_names_it(values: Any, declared: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        encoded(values, declared)
    assert "val" in str(caught.value)


def test_slices_are_views() -> None:
    values = {"a": np.arange(10), "b": Ragged(np.arange(20), np.arange(0, 21, 2)), "c": list("abcdefghij")}
    piece = slice_rows(values, 3, 5)
    assert piece["a"].base is values["a"]
    assert (piece["b"].values.tolist(), piece["b"].splits.tolist()) == ([6, 7, 8, 9], [0, 2, 4])
    assert piece["c"] == ["d", "e"]


# Computed by Ignite's own affinity function: key, partition of 10, partition of 1024.
@pytest.mark.parametrize(
    ("key", "of_10", "of_1024"),
    [
        (binary.i32(1), 1, 1),
        (binary.i32(12345), 5, 57),
        (binary.i32(-7), 7, 6),
        (binary.i64(5_000_000_000), 5, 4),
        (binary.text("abc"), 4, 99),
    ],
)
def test_partitions_of_keys(key: bytes, of_10: int, of_1024: int) -> None:
    assert _core.partition_of(key, 10) == of_10
    assert _core.partition_of(key, 1024) == of_1024


def test_a_malformed_description_of_a_column_is_refused() -> None:
    good = native(Kind(4), np.arange(3), "x", 3)
    for at, bad in [
        (2, np.arange(2)),
        (3, np.arange(2)),
        (5, np.zeros(1, np.uint8)),
        (1, 77),
        (4, -1),
        (6, [good]),
    ]:
        broken = list(good)
        broken[at] = bad
        with pytest.raises(InvalidArgumentError):
            _core.encode_rows(good, tuple(broken), 3)
