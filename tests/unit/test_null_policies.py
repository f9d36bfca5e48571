"""What a NULL becomes: an error, a default, a default with a mask, or a row less; never a misread of what follows."""

from __future__ import annotations

import numpy as np
import pytest

from ignite_strategy import _core
from ignite_strategy.errors import InvalidArgumentError
from tests import binary

ERROR, DEFAULT, MASK, DROP = range(4)
TYPE = "T"
FIELDS = {"a": binary.f64(2.5), "s": binary.text("x"), "v": binary.ints(1, 2), "z": binary.i32(9)}
CODES = {"a": 6, "s": 9, "v": 14, "z": 3}


def rows(*changes: dict[str, bytes]) -> tuple[bytes, dict[int, bytes]]:
    """Objects with FIELDS but for the changes; ``b""`` leaves a field out, so that its schema does not have it."""
    data, schemas = b"", []
    for key, change in enumerate(changes, 1):
        fields = {name: value for name, value in {**FIELDS, **change}.items() if value}
        schemas.append(list(fields))
        data += binary.i32(key) + binary.wrapped(binary.binary_object(TYPE, fields))
    return data, {binary.type_id(TYPE): binary.metadata(TYPE, CODES, schemas)}


def column(name: str, policy: int, layout: int = 2, **options) -> tuple:
    return (["val", name], CODES[name], options.pop("length", -1), layout, {"nulls": policy, **options})


CASES = [
    {"a": binary.NULL, "s": binary.NULL, "v": binary.NULL},
    {},
    {"a": b"", "s": binary.text(""), "v": b""},
]


class TestPolicies:
    def test_default(self):
        """apache/ignite-python-thin-client #6 (IGNITE-13863, BR-04): the following fields stay in their places."""
        data, types = rows(*CASES)
        columns = [column(name, DEFAULT) for name in "asvz"]
        a, s, (values, splits), z = _core.decode_rows(data, 3, columns, types)
        assert a.tolist() == [0.0, 2.5, 0.0]
        assert s == [b"", b"x", b""]
        assert (values.tolist(), splits.tolist()) == ([1, 2], [0, 0, 2, 2])
        assert z.tolist() == [9, 9, 9]

    def test_mask(self):
        data, types = rows(*CASES)
        a, s, v, z = _core.decode_rows(data, 3, [column(name, MASK) for name in "asvz"], types)
        assert a["values"].tolist() == [0.0, 2.5, 0.0]
        assert a["mask"].tolist() == [False, True, False]
        assert s["mask"].tolist() == [False, True, True]  # an empty string is not NULL
        assert v["mask"].tolist() == [False, True, False]
        assert z["mask"].tolist() == [True, True, True]

    def test_drop(self):
        data, types = rows(*CASES)
        key, s = _core.decode_rows(data, 3, [(["key"], 3, -1, 0), column("s", DROP)], types)
        assert (key.tolist(), s) == ([2, 3], [b"x", b""])

    def test_a_dropped_row_asks_no_other_columns_policy(self):
        data, types = rows({"a": binary.NULL, "s": binary.NULL}, {})
        for order in ("as", "sa"):
            columns = [column(name, {"a": ERROR, "s": DROP}[name]) for name in order]
            assert _core.decode_rows(data, 2, columns, types)[order.index("s")] == [b"x"]

    def test_error_names_key_and_field(self):
        data, types = rows({}, {"s": binary.NULL})
        with pytest.raises(InvalidArgumentError, match=r"key 2.*field val\.s is NULL.*nulls=.*columns="):
            _core.decode_rows(data, 2, [column("s", ERROR), column("a", DEFAULT)], types)

    def test_a_null_object_is_null_in_all_its_fields(self):
        types = {
            binary.type_id("Outer"): binary.metadata("Outer", {"m": 103, "z": 3}, [["m", "z"]]),
            binary.type_id("In"): binary.metadata("In", {"p": 3, "q": 9}, [["p", "q"]]),
        }
        inner = binary.binary_object("In", {"p": binary.i32(5), "q": binary.text("q")})
        data = b"".join(
            binary.i32(key) + binary.binary_object("Outer", {"m": value, "z": binary.i32(9)})
            for key, value in enumerate([binary.NULL, inner])
        )
        columns = [
            (["val", "m", "p"], 3, -1, 0, {"nulls": MASK}),
            (["val", "m", "q"], 9, -1, 0, {"nulls": DEFAULT}),
            (["val", "z"], 3, -1, 0),
        ]
        p, q, z = _core.decode_rows(data, 2, columns, types)
        assert (p["values"].tolist(), p["mask"].tolist()) == ([0, 5], [False, True])
        assert (q, z.tolist()) == ([b"", b"q"], [9, 9])


class TestArrays:
    def test_declared_length_reads_zeros(self):
        data, types = rows({"v": binary.NULL}, {})
        (v,) = _core.decode_rows(data, 2, [column("v", DEFAULT, length=2)], types)
        np.testing.assert_array_equal(v, [[0, 0], [1, 2]])

    @pytest.mark.parametrize("layout", [1, 2])
    def test_items(self, layout):
        """tensorflow/io lost its place in string arrays with a NULL (BR-05)."""
        data = binary.i32(1) + binary.texts("a", None, "")
        spec = (["val"], 20, -1, layout, {"nulls": MASK, "item_mask": True})
        (column_,) = _core.decode_rows(data, 1, [spec], {})
        values = column_["values"] if layout == 1 else [column_["values"][0]]
        assert values == [[b"a", b"", b""]]
        assert column_["mask"].ravel().tolist() == [True, False, True]

    def test_a_mask_by_rows_says_nothing_of_items(self):
        """Whether a spec's mask has an entry per row or per item is a matter of its shape."""
        data = binary.i32(1) + binary.texts(None, "a") + binary.i32(2) + binary.NULL
        (column_,) = _core.decode_rows(
            data, 2, [(["val"], 20, -1, 2, {"nulls": MASK, "item_mask": False})], {}
        )
        assert column_["mask"].tolist() == [True, False]

    def test_an_item_that_is_null_is_an_error_unless_said_otherwise(self):
        data = binary.i32(1) + binary.texts("a", None)
        with pytest.raises(InvalidArgumentError, match=r"key 1.*field val has an item that is NULL"):
            _core.decode_rows(data, 1, [(["val"], 20, -1, 2)], {})
        assert (
            _core.decode_rows(data, 1, [(["key"], 3, -1, 0), (["val"], 20, -1, 2, {"nulls": DROP})], {})[
                0
            ].size
            == 0
        )

    def test_numbers_in_typed_arrays(self):
        data = binary.i32(1) + b"\x22\x02\x00\x00\x00" + binary.timestamp(-5) + binary.NULL
        ((values, splits),) = _core.decode_rows(data, 1, [(["val"], 34, -1, 2, {"nulls": DEFAULT})], {})
        assert (values.tolist(), splits.tolist()) == ([-5, 0], [0, 2])
