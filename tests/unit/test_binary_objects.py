"""Objects are read through their own schemas: footers of every kind, raw data, nesting, evolved types."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from ignite_strategy import _core
from ignite_strategy.errors import (
    DataLossError,
    IgniteStrategyError,
    InvalidArgumentError,
)
from tests import binary
from tests.binary import Footer

TYPE = "org.example.Image"
FIELDS = {"label": binary.text("kitten"), "width": binary.i32(800), "pixels": binary.ints(1, 2, 3)}
# In another order than any object has: a hash map's.
METADATA = binary.metadata(TYPE, {"width": 3, "pixels": 14, "label": 9}, [list(FIELDS)])
COLUMNS = [
    (["val", "label"], 9, -1, 0),
    (["val", "pixels"], 14, -1, 0),
    (["val", "width"], 3, -1, 0),
]
FOOTERS = [
    Footer(compact, offset_size, raw, registered)
    for compact in (True, False)
    for offset_size in (1, 2, 4)
    for raw in (b"", b"\x03\x01\x02\x03raw")
    for registered in (True, False)
]


def row(value: bytes, key: int = 7) -> bytes:
    return binary.i64(key) + binary.wrapped(value)


def decode(rows: bytes, columns=COLUMNS, count=1, types=None):
    return _core.decode_rows(
        rows, count, columns, {binary.type_id(TYPE): METADATA} if types is None else types
    )


@pytest.mark.parametrize("footer", FOOTERS, ids=str)
def test_fields_are_found_through_every_kind_of_footer(footer):
    label, pixels, width = decode(row(binary.binary_object(TYPE, FIELDS, footer)))
    assert label == [b"kitten"]
    np.testing.assert_array_equal(pixels, [[1, 2, 3]])
    np.testing.assert_array_equal(width, [800])


@pytest.mark.parametrize("before", [b"", b"\x00" * 13, b"\x67" * 40])
def test_a_wrapped_object_may_start_anywhere(before):
    """tensorflow/io ignored the start offset of a wrapped object."""
    value = binary.wrapped(binary.binary_object(TYPE, FIELDS), before, after=b"\x09\x09")
    assert decode(binary.i64(1) + value)[0] == [b"kitten"]


def test_a_full_footer_needs_no_metadata():
    value = binary.binary_object(TYPE, FIELDS, Footer(compact=False))
    assert decode(row(value), types={})[0] == [b"kitten"]


def test_several_schemas_and_orders_of_one_type_in_one_cache():
    """The names were paired with the metadata's list order: label and pixels came swapped (originals, L4)."""
    orders = [
        {"label": binary.text("a"), "width": binary.i32(1), "pixels": binary.ints(1)},
        {"pixels": binary.ints(2), "label": binary.text("b"), "width": binary.i32(2)},
        {
            "width": binary.i32(3),
            "extra": binary.f64(0.5),
            "pixels": binary.ints(3),
            "label": binary.text("c"),
        },
    ]
    response = binary.metadata(
        TYPE, {"width": 3, "extra": 6, "pixels": 14, "label": 9}, [list(o) for o in orders]
    )
    rows = b"".join(row(binary.binary_object(TYPE, fields), key) for key, fields in enumerate(orders)) * 2
    label, pixels, width = decode(rows, count=6, types={binary.type_id(TYPE): response})
    assert label == [b"a", b"b", b"c"] * 2
    np.testing.assert_array_equal(pixels.ravel(), [1, 2, 3] * 2)
    np.testing.assert_array_equal(width, [1, 2, 3] * 2)


def test_nested_objects_by_path():
    inner = binary.binary_object("Meta", {"height": binary.i32(600), "name": binary.text("x")})
    outer = binary.binary_object("Outer", {"id": binary.i32(1), "metadata": inner, "tail": binary.i32(9)})
    types = {
        binary.type_id("Meta"): binary.metadata("Meta", {"name": 9, "height": 3}, [["height", "name"]]),
        binary.type_id("Outer"): binary.metadata(
            "Outer", {"tail": 3, "metadata": 103, "id": 3}, [["id", "metadata", "tail"]]
        ),
    }
    columns = [(["val", "metadata", "height"], 3, -1, 0), (["val", "tail"], 3, -1, 0)]
    height, tail = decode(row(outer), columns, types=types)
    assert (height.tolist(), tail.tolist()) == ([600], [9])


def test_an_object_as_key():
    key = binary.wrapped(binary.binary_object(TYPE, FIELDS))
    (width,) = decode(key + binary.i32(1), [(["key", "width"], 3, -1, 0)])
    assert width.tolist() == [800]


class TestErrors:
    def test_null_names_key_and_field(self):
        """apache/ignite-python-thin-client #6 (IGNITE-13863): one NULL ended the epoch with an obscure error."""
        value = binary.binary_object(TYPE, {**FIELDS, "width": binary.NULL})
        with pytest.raises(InvalidArgumentError, match=r"key 7.*field val\.width is NULL.*nulls=.*columns="):
            decode(row(value))
        assert decode(row(value), COLUMNS[:2])[0] == [b"kitten"]

    def test_missing_field_is_null(self):
        fields = {name: FIELDS[name] for name in ("label", "pixels")}
        types = {
            binary.type_id(TYPE): binary.metadata(
                TYPE, {"label": 9, "pixels": 14, "width": 3}, [list(fields)]
            )
        }
        with pytest.raises(InvalidArgumentError, match=r"key 7.*val\.width is missing"):
            decode(row(binary.binary_object(TYPE, fields)), types=types)

    @pytest.mark.parametrize(
        ("distance", "message"), [(24, "an object here but an int"), (10_000, "not there"), (0, "not there")]
    )
    def test_references_to_what_they_cannot_mean(self, distance, message):
        value = binary.binary_object(
            TYPE,
            {
                "width": b"\x66" + struct.pack("<i", distance),
                "label": binary.text("x"),
                "pixels": binary.ints(),
            },
        )
        types = {
            binary.type_id(TYPE): binary.metadata(
                TYPE, {"label": 9, "pixels": 14, "width": 3}, [["width", "label", "pixels"]]
            )
        }
        with pytest.raises((DataLossError, InvalidArgumentError), match=rf"val\.width.*{message}"):
            decode(row(value), types=types)

    def test_schema_that_the_server_does_not_know(self):
        value = binary.binary_object(TYPE, {"other": binary.i32(1)})
        with pytest.raises(DataLossError, match="does not know schema"):
            decode(row(value))

    def test_scalar_where_an_object_is_wanted(self):
        with pytest.raises(InvalidArgumentError, match="val is an int here but an object"):
            decode(binary.i64(7) + binary.i32(1))

    def test_long_keys_are_cut_in_messages(self):
        with pytest.raises(InvalidArgumentError, match=r"key 'x{80}\.\.\.'"):
            decode(binary.text("x" * 500) + binary.NULL)

    def test_columns_that_contradict_each_other(self):
        with pytest.raises(InvalidArgumentError, match="twice"):
            decode(row(b""), [(["val"], 3, -1, 0), (["val", "a"], 3, -1, 0)])
        with pytest.raises(InvalidArgumentError, match="neither key nor val"):
            decode(row(b""), [(["value"], 3, -1, 0)])


@pytest.mark.parametrize("footer", FOOTERS[::3], ids=str)
def test_mutated_objects_never_crash(footer):
    """Every byte from the wire may be wrong: an error of ours or other values, never a crash."""
    good = row(binary.binary_object(TYPE, FIELDS, footer))
    choice = random.Random(str(footer))
    outcomes = set()
    for _ in range(4000):
        data = bytearray(good)
        for _ in range(choice.randint(1, 3)):
            data[choice.randrange(len(data))] = choice.choice((0, 1, 0x7F, 0x80, 0xFF, choice.randrange(256)))
        try:
            decode(bytes(data[: choice.randint(1, len(data))] if choice.random() < 0.2 else data))
            outcomes.add("read")
        except IgniteStrategyError:
            outcomes.add("error")
    assert outcomes == {"read", "error"}
