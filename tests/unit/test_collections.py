"""Collections, object arrays, maps and references: vectors, dicts of vectors, and errors that name the field."""

from __future__ import annotations

import struct

import pytest

from ignite_strategy import _core
from ignite_strategy.errors import DataLossError, IgniteStrategyError, InvalidArgumentError
from tests import binary

MASK = {"nulls": 2, "item_mask": True}
ITEM = binary.metadata("Item", {"name": 9, "price": 6}, [["price", "name"], ["name", "price"], ["name"]])
TYPES = {binary.type_id("Item"): ITEM}


def item(price: float | None, name: str, swapped: bool = False) -> bytes:
    fields = {"price": binary.NULL if price is None else binary.f64(price), "name": binary.text(name)}
    if swapped:
        fields = dict(reversed(fields.items()))
    return binary.binary_object("Item", fields)


def column(*path: str, code: int, repeated: int = 1, **options) -> tuple:
    return (list(path), code, -1, 2, {"repeated": repeated, **options})


def decode(value: bytes, *columns: tuple, count: int = 1, types=TYPES):
    return _core.decode_rows((binary.i32(1) + value) * count, count, list(columns), types)


class TestSequencesOfScalars:
    @pytest.mark.parametrize("container", [binary.collection, binary.object_array])
    def test_numbers_and_texts(self, container):
        ((values, splits),) = decode(container(binary.i32(4), binary.i32(-5)), column("val", code=3), count=2)
        assert (values.tolist(), splits.tolist()) == ([4, -5, 4, -5], [0, 2, 4])
        ((values, splits),) = decode(container(binary.text("a"), binary.text("")), column("val", code=9))
        assert (values, splits.tolist()) == ([b"a", b""], [0, 2])

    def test_golden_bytes(self):
        for golden in ("18010000000103 01000000", "1801000000030301000000"):  # ArrayList[1], HashSet[1]
            ((values, _),) = decode(bytes.fromhex(golden), column("val", code=3))
            assert values.tolist() == [1]

    def test_empty(self):
        ((values, splits),) = decode(binary.collection(), column("val", code=6))
        assert (values.tolist(), values.dtype, splits.tolist()) == ([], "float64", [0, 0])

    def test_another_type_among_the_items(self):
        with pytest.raises(
            InvalidArgumentError, match=r"key 1.*val is a string here but a collection of int"
        ):
            decode(binary.collection(binary.i32(1), binary.text("2")), column("val", code=3))

    def test_a_count_beyond_the_page(self):
        with pytest.raises(DataLossError):
            decode(b"\x18\xff\xff\xff\x7f\x01" + binary.i32(1), column("val", code=3))


class TestSequencesOfObjects:
    COLUMNS = (column("val", "name", code=9, **MASK), column("val", "price", code=6, **MASK))

    @pytest.mark.parametrize("wrap", [lambda value: value, lambda value: binary.wrapped(value, b"\x00" * 7)])
    @pytest.mark.parametrize("container", [binary.collection, binary.object_array])
    def test_one_ragged_dimension_for_all_their_fields(self, container, wrap):
        items = [wrap(item(1.5, "a")), wrap(item(None, "b", swapped=True)), binary.NULL]
        name, price = decode(container(*items), *self.COLUMNS, count=2)
        assert name["values"][0] == [b"a", b"b", b""] * 2
        assert price["values"][0].tolist() == [1.5, 0, 0] * 2
        assert name["values"][1].tolist() == price["values"][1].tolist() == [0, 3, 6]
        assert name["mask"].tolist() == [True, True, False] * 2
        assert price["mask"].tolist() == [True, False, False] * 2

    def test_a_missing_field_is_null(self):
        short = binary.binary_object("Item", {"name": binary.text("c")})
        name, price = decode(binary.collection(item(1, "a"), short), *self.COLUMNS)
        assert (name["values"][0], price["mask"].tolist()) == ([b"a", b"c"], [True, False])

    def test_no_collection_at_all(self):
        name, _ = decode(binary.NULL, *self.COLUMNS)
        assert (name["values"][0], name["values"][1].tolist()) == ([], [0, 0])

    def test_something_else_among_them(self):
        with pytest.raises(InvalidArgumentError, match="val is an int here but a collection of objects"):
            decode(binary.collection(binary.i32(1)), *self.COLUMNS)

    def test_a_reference_among_them(self):
        """Java writes an object a second time as a reference to its first place."""
        first = item(1.5, "a")
        again = b"\x66" + struct.pack("<i", len(first))
        name, price = decode(binary.collection(first, again), *self.COLUMNS)
        assert (name["values"][0], price["values"][0].tolist()) == ([b"a", b"a"], [1.5, 1.5])


class TestMaps:
    def test_golden_bytes(self):
        keys = column("val", "keys", code=3, map=True)
        ((values, _),) = decode(bytes.fromhex("1901000000020301000000 0302000000"), keys)
        assert values.tolist() == [1]

    def test_keys_and_values(self):
        value = binary.mapping((binary.text("k"), binary.i32(1)), (binary.text("l"), binary.NULL))
        columns = [
            column("val", part, code=code, map=True, **MASK) for part, code in (("keys", 9), ("values", 3))
        ]
        keys, values = decode(value, *columns)
        assert (keys["values"][0], values["values"][0].tolist()) == ([b"k", b"l"], [1, 0])
        assert values["mask"].tolist() == [True, False]

    def test_objects_as_values_and_only_those(self):
        value = binary.mapping((binary.i32(1), item(2.5, "x")), (binary.i32(2), item(3.5, "y")))
        ((prices, splits),) = decode(value, column("val", "values", "price", code=6, map=True))
        assert (prices.tolist(), splits.tolist()) == ([2.5, 3.5], [0, 2])


class TestReferences:
    OUTER = binary.metadata("Outer", {"p": 103, "q": 103, "z": 3}, [["p", "q", "z"]])
    TYPES = {**TYPES, binary.type_id("Outer"): OUTER}  # noqa: RUF012

    def outer(self, distance: int, first: bytes) -> bytes:
        reference = b"\x66" + struct.pack("<i", distance)
        return binary.binary_object("Outer", {"p": first, "q": reference, "z": binary.i32(9)})

    def test_to_a_field_before(self):
        first = item(1.5, "a")
        value = binary.wrapped(self.outer(len(first), first), before=b"\x00" * 5)
        columns = [(["val", "q", "price"], 6, -1, 0), (["val", "z"], 3, -1, 0)]
        price, z = decode(value, *columns, types=self.TYPES)
        assert (price.tolist(), z.tolist()) == ([1.5], [9])

    @pytest.mark.parametrize("distance", [0, -8, 2**31 - 1, -(2**31), 1000])
    def test_to_nowhere(self, distance):
        value = binary.wrapped(self.outer(distance, item(1.5, "a")))
        with pytest.raises(DataLossError, match=r"key 1.*val\.q refers to a value that is not there"):
            decode(value, (["val", "q", "price"], 6, -1, 0), types=self.TYPES)

    def test_a_circle_ends(self):
        first = item(1.5, "a")
        value = self.outer(24 + len(first), first)  # q refers to the object that holds it
        with pytest.raises(InvalidArgumentError, match=r"val\.q\.q\.q\.price is missing"):
            decode(value, (["val", "q", "q", "q", "price"], 6, -1, 0), types=self.TYPES)

    def test_many_to_one_large_value_are_bounded(self):
        big = item(1.5, "x" * 2_000_000)
        reference = [b"\x66" + struct.pack("<i", len(big) + 5 * at) for at in range(100)]
        with pytest.raises(IgniteStrategyError, match="references stand for more than 64 MiB"):
            decode(binary.collection(big, *reference), column("val", "name", code=9))


class TestDeclaredByASpec:
    """An element_spec says dtypes and shapes: all types which become them will do."""

    SPEC = {"declared": True}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("code", "value", "expected"),
        [
            (4, bytes.fromhex("0be803000000000000"), [1000]),
            (4, bytes.fromhex("fe0f000000663aded5409766e803000000000000"), [1000]),
            (9, b"\x0a" + b"\x00" * 16, [b"00000000-0000-0000-0000-000000000000"]),
            (3, b"\x26" + struct.pack("<ii", 5, 2), [2]),
        ],
    )
    def test_scalars(self, code, value, expected):
        (values,) = decode(value, (["val"], code, -1, 0, self.SPEC))
        assert list(values) == expected

    @pytest.mark.parametrize("value", [binary.ints(1, 2), binary.collection(binary.i32(1), binary.i32(2))])
    def test_vectors(self, value):
        ((values, _),) = decode(value, (["val"], 14, -1, 2, self.SPEC))
        assert values.tolist() == [1, 2]

    def test_another_dtype_is_no_cast(self):
        with pytest.raises(InvalidArgumentError, match="val is an int here but int64"):
            decode(binary.i32(1), (["val"], 4, -1, 0, self.SPEC))

    def test_collections_of_objects_and_maps_have_the_shape_of_an_object_with_arrays(self):
        columns = [(["val", "name"], 20, -1, 2, self.SPEC), (["val", "price"], 17, -1, 2, self.SPEC)]
        name, price = decode(binary.collection(item(1.5, "a"), item(2.5, "b")), *columns)
        assert (name[0], price[0].tolist(), price[1].tolist()) == ([b"a", b"b"], [1.5, 2.5], [0, 2])
        columns = [
            (["val", "keys"], 14, -1, 2, self.SPEC),
            (["val", "values", "price"], 17, -1, 2, self.SPEC),
        ]
        keys, price = decode(binary.mapping((binary.i32(7), item(2.5, "x"))), *columns)
        assert (keys[0].tolist(), price[0].tolist()) == ([7], [2.5])


class TestTypesOfValues:
    ROWS = (item(1.0, "a"), binary.i32(5), binary.binary_object("Other", {"price": binary.f64(2.0)}))
    TYPES = {**TYPES, binary.type_id("Other"): binary.metadata("Other", {"price": 6}, [["price"]])}  # noqa: RUF012

    def decode(self, *columns, value_type):
        data = b"".join(binary.i32(key) + value for key, value in enumerate(self.ROWS))
        return _core.decode_rows(data, 3, list(columns), self.TYPES, value_type)

    def test_only_one_is_read(self):
        key, price = (["key"], 3, -1, 0), (["val", "price"], 6, -1, 0)
        keys, prices = self.decode(key, price, value_type=(103, binary.type_id("Other"), True))
        assert (keys.tolist(), prices.tolist()) == ([2], [2.0])
        keys, values = self.decode(key, (["val"], 3, -1, 0), value_type=(3, 0, True))
        assert (keys.tolist(), values.tolist()) == ([1], [5])
        (keys,) = self.decode(key, value_type=(103, binary.type_id("Item"), True))
        assert keys.tolist() == [0]

    def test_another_one_later_is_an_error(self):
        price = (["val", "price"], 6, -1, 0)
        with pytest.raises(
            InvalidArgumentError, match=r"key 0.*type 'Item', where only 'Other' was found.*type="
        ):
            self.decode(price, value_type=(103, binary.type_id("Other"), False))


def test_columns_that_contradict_each_other():
    for columns in (
        [column("val", code=3), column("val", "a", code=3)],
        [column("val", "a", code=3), (["val", "b"], 3, -1, 0)],
        [column("val", "keys", code=3, map=True), column("val", "other", code=3, map=True)],
        [column("val", code=3, map=True)],
        [column("val", code=14)],
    ):
        with pytest.raises(InvalidArgumentError, match="both as a value and as an object"):
            decode(binary.collection(), *columns)
