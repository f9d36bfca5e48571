"""No value is changed to fit: what a type cannot hold is an error that names column, row and value."""

from __future__ import annotations

import datetime
import decimal
import enum
import re
import struct
from typing import Any

import numpy as np
import pytest

from ignite_strategy import _core
from ignite_strategy.dataset.encode import Refused, native
from ignite_strategy.dataset.kinds import Kind, Ragged, infer, parse_kind
from ignite_strategy.dataset.structure import check_structure
from ignite_strategy.dataset.tables import Fields, stream
from ignite_strategy.dataset.target import spelled
from ignite_strategy.errors import InvalidArgumentError

pandas = pytest.importorskip("pandas")

NAN = float("nan")
LONG_MAX = 2**63 - 1


class Color(enum.Enum):
    RED = 1
    GREEN = 2


def column(values: Any, declared: Any) -> tuple[list[Any], list[bool]]:
    """The numbers of a column, and which of them are there."""
    (table,) = stream({"key": np.arange(len(values)), "val": values}, None, False)[0]
    kind = infer(table.val, "val") if declared is None else parse_kind(declared, "val")
    found = native(kind, table.val, "val", table.rows)
    data = found[2] if isinstance(found[2], list) else found[2].tolist()
    return data, [True] * len(data) if found[5] is None else np.asarray(found[5], bool).tolist()


def encoded(values: Any, declared: Any = None) -> list[bytes]:
    """The bytes of each value."""
    kind = infer(values, "val") if declared is None else parse_kind(declared, "val")
    key = native(Kind(1), np.zeros(1, np.int8), "key", 1)
    return [
        _core.encode_rows(key, native(kind, values[row : row + 1], "val", 1), 1)[2:]
        for row in range(len(values))
    ]


@pytest.mark.parametrize(
    ("values", "declared", "row", "value"),
    [
        (np.array([0, 2**64 - 1], np.uint64), "long", 1, 2**64 - 1),
        (np.array([2**63], np.uint64), "long", 0, 2**63),
        ([0, 2**63], None, 1, 2**63),
        ([2**63, -1], "long", 0, 2**63),
        ([1, 2**64], "long", 1, 2**64),
        ([-(2**63) - 1], "long", 0, -(2**63) - 1),
        (np.array([1, 2**32 - 1], np.uint32), "int", 1, 2**32 - 1),
        ([np.uint32(2**32 - 1)], "int", 0, 2**32 - 1),
        (np.array([65535], np.uint16), "short", 0, 65535),
        (np.array([0, -1], np.int16), "char", 1, -1),
        (np.array([-1], np.int8), "char", 0, -1),
        ([70000], "char", 0, 70000),
        (np.array([200], np.int16), "byte", 0, 200),
        ([128], "byte", 0, 128),
        ([1.0, 2.0**63], "long", 1, 2.0**63),
        (np.array([-1.0], np.float16), "char", 0, -1.0),
        ([2**53 + 1, 0.5], None, 0, 2**53 + 1),
        ([0.5, 2**53 + 1], "double", 1, 2**53 + 1),
        ([2**24 + 1], "float", 0, 2**24 + 1),
        (np.array([2**64 - 1], np.uint64), "double", 0, 2**64 - 1),
        ([10**400], "double", 0, "1000"),
        ([1e-300], "float", 0, 1e-300),
        ([0, 1, 7], Color, 2, 7),
        (pandas.Series([2**63], dtype="UInt64"), "long", 0, 2**63),
    ],
    ids=lambda each: str(each)[:24].replace("\n", " "),
)
def test_a_number_beyond_its_type(values: Any, declared: Any, row: int, value: Any) -> None:
    with pytest.raises(Refused, match=re.escape(f"column val, row {row}: {value}")):
        column(values, declared)


@pytest.mark.parametrize(
    ("values", "declared", "expected"),
    [
        (np.array([0, LONG_MAX], np.uint64), "long", [0, LONG_MAX]),
        ([-(2**63), LONG_MAX], None, [-(2**63), LONG_MAX]),
        ([2**63], "double", [2.0**63]),
        ([2**53, 0.5, np.int8(3), True], "double", [2.0**53, 0.5, 3.0, 1.0]),
        (np.array([255], np.uint8), "byte", [-1]),
        (np.array([65535], np.uint32), "char", [65535]),
        (np.array([7.0]), "byte", [7]),
        (np.array([1, 2], ">i8"), "long", [1, 2]),
        (np.array([0.1]), "float", [np.float32(0.1)]),
    ],
    ids=lambda each: str(each)[:24],
)
def test_a_number_that_fits(values: Any, declared: Any, expected: Any) -> None:
    assert column(values, declared)[0] == expected


def test_arrays_of_numbers_beyond_their_type_name_the_row() -> None:
    for values in (
        [[1], [2, 2**63]],
        Ragged(np.array([1, 2, 2**63], np.uint64), np.array([0, 1, 3])),
        np.array([[1, 2], [3, 2**63]], np.uint64),
        [np.array([1, 2]), np.array([2**63], np.uint64)],
    ):
        with pytest.raises(Refused, match="column val, row 1: 9223372036854775808 cannot become a long"):
            native(parse_kind("long[]", "val"), values, "val", 2)
    with pytest.raises(Refused, match="row 1: 9007199254740993 cannot become a double"):
        native(parse_kind("double[]", "val"), [np.array([0.5]), np.array([2**53 + 1])], "val", 2)
    with pytest.raises(Refused, match=r"column val.values, row 1: 2147483648 cannot become an int"):
        native(parse_kind("map<string,int>", "val"), [{}, {"a": 1, "b": 2**31}], "val", 2)


@pytest.mark.parametrize("declared", ["byte", "short", "int", "long", "char"])
@pytest.mark.parametrize(
    "values", [pandas.Series([5.0, NAN]), [5, NAN], np.array([5.0, NAN]), [5, None, pandas.NA]]
)
def test_what_is_missing_among_integers_is_null(declared: str, values: Any) -> None:
    data, there = column(values, declared)
    assert (data[0], there) == (5, [True] + [False] * (len(values) - 1))


@pytest.mark.parametrize(
    ("values", "declared", "there"),
    [
        (pandas.Series([1.0, NAN]), "timestamp", [True, False]),
        (pandas.Series([NAN, NAN]), "timestamp", [False, False]),
        (pandas.Series([NAN, NAN]), "string", [False, False]),
        (pandas.Series([NAN]), "decimal", [False]),
        ([datetime.date(2020, 1, 1), NAN], None, [True, False]),
        ([NAN, "a"], None, [False, True]),
        ([True, NAN], "bool", [True, False]),
        ([decimal.Decimal("1.5"), decimal.Decimal("NaN")], None, [True, False]),
        (np.ma.masked_array([NAN, 1.0, 2.0], [False, True, False]), "int", [False, False, True]),
        (np.ma.masked_array([2**40, 1], [True, False]), "int", [False, True]),
        ([[1], NAN], "int[]", [True, False]),
        ([np.datetime64("NaT"), np.datetime64("2020-01-01")], "sql_date", [False, True]),
    ],
    ids=lambda each: str(each)[:24].replace("\n", " "),
)
def test_what_is_missing_among_others_is_null(values: Any, declared: Any, there: list[bool]) -> None:
    kind = infer(values, "val") if declared is None else parse_kind(declared, "val")
    (table,) = stream({"key": np.arange(len(values)), "val": values}, None, False)[0]
    valid = native(kind, table.val, "val", table.rows)[5]
    assert np.asarray(valid, bool).tolist() == there


def test_nan_among_floats_is_a_number() -> None:
    for values in ([1.0, NAN], np.array([1.0, NAN]), [1, NAN]):
        data, there = column(values, "double")
        assert (np.isnan(data[1]), there) == (True, [True, True])


@pytest.mark.parametrize(
    ("values", "item"),
    [
        ([[1.0], [2.0, NAN]], "nan"),
        ([[1], [None]], "None"),
        ([[1], np.ma.masked_array([1], [True])], "a masked item"),
    ],
)
def test_what_is_missing_in_an_array_of_numbers_is_an_error(values: Any, item: str) -> None:
    with pytest.raises(
        Refused, match=rf"column val, row 1: {item} is NULL in an array of numbers.*'list<int>'"
    ):
        native(parse_kind("int[]", "val"), values, "val", 2)


UTC = datetime.timezone.utc


@pytest.mark.parametrize(
    ("value", "declared", "said"),
    [
        (datetime.time(0, 0, 0, 1), "time", "has digits below a millisecond"),
        (datetime.time(5, 0, tzinfo=UTC), "time", "has a time zone"),
        (
            datetime.datetime(2020, 1, 1, 0, 0, 0, 1),
            "date",
            "has digits below a millisecond.*or write a timestamp",
        ),
        (np.datetime64("2020-01-01T00:00:00.0001"), "date", "has digits below a millisecond"),
        (np.datetime64(1, "ps"), "timestamp", "has digits below a nanosecond"),
        (pandas.Timestamp(1), "date", "has digits below a millisecond"),
        (datetime.datetime(2020, 1, 1, 5), "time", "is not on 1970-01-01"),
        (datetime.date(2020, 1, 1), "time", "is not on 1970-01-01"),
        (np.datetime64("1970-01-02"), "time", "is not on 1970-01-01"),
        (datetime.datetime(2020, 1, 1, 5), "sql_date", r"has a time of day.*take its date\(\)"),
        (np.datetime64("2020-01-01T05"), "sql_date", "has a time of day"),
        (datetime.time(5), "timestamp", "has no day"),
        (datetime.time(5), "int", "is not an int"),
        (datetime.datetime(2020, 1, 1), "long", "is not a long"),
        (datetime.date(2020, 1, 1), "double", "is not a double"),
        (np.datetime64(2**62, "D"), "date", "beyond a date: Ignite keeps milliseconds"),
        (np.datetime64(10**12, "Y"), "timestamp", "beyond a timestamp"),
    ],
    ids=lambda each: str(each)[:24],
)
def test_a_moment_that_its_type_cannot_tell(value: Any, declared: str, said: str) -> None:
    fine = np.datetime64(0, "D")
    variants = [[fine, value]]
    if isinstance(value, np.datetime64):
        array = np.empty(2, value.dtype)
        array[0], array[1] = np.datetime64(0, np.datetime_data(value.dtype)[0]), value
        variants.append(array)
    for values in variants:
        if declared not in ("time", "date", "sql_date", "timestamp"):
            values = [0, value]
        with pytest.raises(Refused, match=f"column val, row 1: .*{said}"):
            native(parse_kind(declared, "val"), values, "val", 2)


@pytest.mark.parametrize(
    ("value", "millis", "nanos"),
    [
        (datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999), 253402300799999, 999_000),
        (datetime.datetime(1, 1, 1, 0, 0, 0, 1), -62135596800000, 1000),
        (np.datetime64("9999-12-31"), 253402214400000, 0),
        (np.datetime64("-10000-01-01T00:00:00.000001"), -377736739200000, 1000),
        (np.datetime64(1577836800000000001, "ns"), 1577836800000, 1),
        (
            pandas.Timestamp("9999-12-31").as_unit("s") if hasattr(pandas.Timestamp, "as_unit") else None,
            253402214400000,
            0,
        ),
        (datetime.date(9999, 12, 31), 253402214400000, 0),
    ],
    ids=lambda each: str(each)[:24],
)
def test_timestamps_of_any_year_are_exact(value: Any, millis: int, nanos: int) -> None:
    expected = b"\x21" + struct.pack("<qi", millis, nanos)
    recent = b"\x21" + struct.pack("<qi", 1577836800000, 0)
    assert encoded([value], "timestamp") == [expected]
    if isinstance(value, np.datetime64):
        assert encoded(np.array([value]), "timestamp") == [expected]
    key = native(Kind(1), np.zeros(3, np.int8), "key", 3)
    mixed = native(parse_kind("timestamp", "val"), [np.datetime64("2020-01-01"), None, value], "val", 3)
    assert _core.encode_rows(key, mixed, 3) == b"\x01\x00" + recent + b"\x01\x00\x65\x01\x00" + expected
    arrays = native(parse_kind("timestamp[]", "val"), [[value]], "val", 1)
    assert _core.encode_rows(native(Kind(1), np.zeros(1, np.int8), "key", 1), arrays, 1)[-13:] == expected


def test_text_that_is_none_names_its_row() -> None:
    key = native(Kind(1), np.zeros(3, np.int8), "key", 3)
    for values, declared in (
        (["a", "b", b"\xff"], "string"),
        ([["a"], ["b", "c"], ["d", b"\xff"]], "string[]"),
        ([{"k": "a"}, {}, {"k": "b", "l": b"\xff"}], "map<string,string>"),
    ):
        with pytest.raises(InvalidArgumentError, match=r"column val\S*, row 2: it is not UTF-8 text"):
            _core.encode_rows(key, native(parse_kind(declared, "val"), values, "val", 3), 3)


def collision() -> tuple[str, str]:
    """Two names whose Java hash codes are equal: "Aa" and "BB" are not, in lower case."""
    first, second = "b\x01", "a\x20"
    assert _core.java_lower_hash(first) == _core.java_lower_hash(second)
    return first, second


@pytest.mark.parametrize(
    ("fields", "why"), [(("a", "A"), "differ only in case"), (collision(), "have the same hash")]
)
def test_two_fields_that_ignite_takes_for_one(fields: tuple[str, str], why: str) -> None:
    values = {name: [at] for at, name in enumerate(fields)}
    for nested in (values, {"in": values}, [[dict.fromkeys(fields, 1)]]):
        with pytest.raises(
            InvalidArgumentError, match=re.escape(f"the fields {fields[0]!r} and {fields[1]!r} {why}")
        ):
            check_structure(infer(nested, "val"), "val")


def test_two_columns_of_a_table_that_sql_takes_for_one() -> None:
    with pytest.raises(InvalidArgumentError, match="the fields 'id' and 'ID' differ only in case"):
        list(stream({"id": [1], "ID": [2], "x": [3]}, Fields(("ID",), single=True), False)[0])
    facts = {
        "entities": [
            {"key_type": "java.lang.Long", "value_type": "T", "fields": [("X", "java.lang.Long", False)]}
        ]
    }
    with pytest.raises(InvalidArgumentError, match="the fields 'x' and 'X' differ only in case"):
        spelled(facts, "val", {"x": [1], "X": [2]})


def test_two_columns_of_one_name() -> None:
    frame = pandas.DataFrame([[1, 2, 3], [4, 5, 6]], columns=["id", "x", "x"])
    for data in (
        frame,
        {"id": [1], 1: [2], "1": [3]},
        [{"id": 1, 1: 2, "1": 3}],
        {"id": [1], "o": {1: [2], "1": [3]}},
    ):
        with pytest.raises(InvalidArgumentError, match=r"two columns are called '[x1]'"):
            list(stream(data, "id", False)[0])


def test_objects_nested_too_deep() -> None:
    deep: Any = {"x": [1]}
    for _ in range(40):
        deep = {"x": deep}
    with pytest.raises(InvalidArgumentError, match=r"column val(\.x){33} is nested deeper than 32 levels"):
        check_structure(infer(deep, "val"), "val")
