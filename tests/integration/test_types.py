"""Every type of the native table through a real node: as a field, as the value itself, NULL, missing, in every mode."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import uuid
from decimal import Decimal

import numpy as np
import pytest

from ignite_strategy import _core
from ignite_strategy.dataset import read
from ignite_strategy.errors import UnsupportedError
from ignite_strategy.topology.caches import create_cache
from tests import binary
from tests.values import EXPECTED, UUID, VALUES

tf = pytest.importorskip("tensorflow")
from ignite_strategy.dataset import IgniteDataset  # noqa: E402

pytestmark = pytest.mark.integration


def test_every_type_of_the_table_is_tested():
    kinds = {code: kind for code, (_, _, kind, *_) in _core.type_table().items()}
    assert set(VALUES) == {code for code, kind in kinds.items() if kind in ("scalar", "array")}


@pytest.fixture(scope="module")
def colors(raw) -> None:
    """The enum of the values above."""
    raw.put_enum("TypesColor", {"RED": 0, "GREEN": 1})


@pytest.fixture(scope="module")
def every(client, raw, colors):
    """Row 1 has a value of every type, row 2 a NULL in its place, row 3 nothing at all."""
    create_cache(client, "EVERY_TYPE", partitions=2)
    fields = {f"f{code}": value for code, (value, _) in VALUES.items()}
    raw.put_object("EVERY_TYPE", binary.i32(1), "EveryType", {**fields, "last": binary.i32(9)})
    nulls = dict.fromkeys(fields, binary.NULL)
    raw.put_object("EVERY_TYPE", binary.i32(2), "EveryType", {"last": binary.i32(9), **nulls})
    raw.put_object("EVERY_TYPE", binary.i32(3), "EveryType", {"last": binary.i32(9)})
    return "EVERY_TYPE"


def plain(value):
    """Tensors as what VALUES has."""
    value = value.numpy() if hasattr(value, "numpy") else value
    return value if isinstance(value, bytes) else np.asarray(value).tolist()


def check(rows: dict[int, dict[str, object]], nulls: bool = True) -> None:
    assert {name: rows[1][name] for name in EXPECTED} == EXPECTED
    if not nulls:
        return
    for key in (2, 3):
        for name, value in EXPECTED.items():
            empty = [] if isinstance(value, list) else b"" if isinstance(value, bytes) else type(value)(0)
            assert rows[key][name] == empty, name
    assert [row["last"] for row in rows.values()] == [9, 9, 9]


def by_key(rows) -> dict[int, dict[str, object]]:
    return {
        int(plain(row["key"])): {name: plain(value) for name, value in row["val"].items()} for row in rows
    }


class TestEveryType:
    """One table drives dtype, shape and decoding.

    tensorflow/io (legacy): char was declared uint8 and parsed as uint16, dates were parsed and refused, NULLs in arrays
    of strings shifted what followed (BR-05).
    """

    def test_eagerly(self, every, where):
        dataset = IgniteDataset(every, **where, nulls="default")
        for code, (_, dtype, *_) in _core.type_table().items():
            if code in VALUES:
                spec = dataset.element_spec["val"][f"f{code}"]
                assert (spec.dtype.name, spec.shape.rank) == (dtype, int(isinstance(VALUES[code][1], list)))
        check(by_key(dataset))

    def test_dropping_rows_with_a_null(self, every, where):
        rows = by_key(IgniteDataset(every, **where, nulls="drop"))
        check(rows, nulls=False)
        assert list(rows) == [1]

    def test_masks(self, every, where):
        dataset = IgniteDataset(every, **where, nulls="mask")
        rows = by_key(dataset)
        check(rows)
        for code, (_, value) in VALUES.items():
            each_item = isinstance(value, list) and code not in range(12, 20)
            there, gone = ([True] * len(value), []) if each_item else (True, False)
            assert [rows[key][f"f{code}_mask"] for key in (1, 2, 3)] == [there, gone, gone], code
        # What a spec of it describes is the same again, in batches too.
        again = IgniteDataset(every, **where, nulls="mask", element_spec=dataset.element_spec)
        assert again.element_spec == dataset.element_spec
        assert by_key(again) == rows

    def test_error_is_the_default_and_names_key_and_field(self, every, where):
        """apache/ignite-python-thin-client #6 (BR-04)."""
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"key [23].*field val\.f1 is.*NULL.*nulls="):
            list(IgniteDataset(every, **where))

    def test_policies_by_column(self, every, where):
        policies = {"val": "default", "val.f3": "drop", "val.f9": "mask"}
        rows = by_key(IgniteDataset(every, **where, nulls=policies))
        assert list(rows) == [1]
        assert rows[1]["f9_mask"] is True
        assert "f1_mask" not in rows[1]

    def test_batches(self, every, where):
        (batch,) = IgniteDataset(every, **where, nulls="mask", batch_size=3)
        order = np.argsort(batch["key"].numpy())
        for name, value in EXPECTED.items():
            column = batch["val"][name]
            assert isinstance(column, tf.RaggedTensor) == isinstance(value, list)
            first = column[int(order[0])]
            assert plain(first) == value

    def test_in_a_function(self, every, where):
        dataset = IgniteDataset(every, **where, nulls="default", columns=["val.f4", "val.f33", "val.f9"])

        @tf.function
        def total():
            return dataset.reduce(
                (tf.constant(0, tf.int64), tf.constant("")),
                lambda state, row: (
                    state[0] + row["val"]["f4"] + row["val"]["f33"],
                    tf.strings.join([state[1], row["val"]["f9"]]),
                ),
            )

        numbers, texts = total()
        assert int(numbers) == EXPECTED["f4"] + EXPECTED["f33"]
        assert texts.numpy() == EXPECTED["f9"]

    def test_in_a_graph(self, every, where):
        rows = []
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            dataset = IgniteDataset(every, **where, nulls="default")
            following = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
            while True:
                try:
                    rows.append(session.run(following))
                except tf.errors.OutOfRangeError:
                    break
        check(by_key(rows))

    def test_as_numpy(self, every, where):
        columns = read(every, **where, nulls="mask")
        rows = {
            int(key): {name: plain(columns[f"val.{name}"][at]) for name in [*EXPECTED, "last"]}
            for at, key in enumerate(columns["key"])
        }
        check(rows)
        at = columns["key"].tolist().index(2)
        assert columns["val.f3_mask"].tolist().count(True) == 1
        assert columns["val.f20_mask"][at].tolist() == []

    def test_as_the_value_itself(self, client, raw, colors, where, fresh_name):
        create_cache(client, fresh_name, partitions=1)
        for code, (value, expected) in VALUES.items():
            raw.put(fresh_name, binary.i32(1), value)
            (row,) = IgniteDataset(fresh_name, **where)
            assert plain(row["val"]) == expected, code
            spec = tf.TensorSpec([None] if isinstance(expected, list) else [], row["val"].dtype)
            (again,) = IgniteDataset(fresh_name, **where, element_spec={"val": spec})
            assert plain(again["val"]) == expected, code


class TestForms:
    def test_decimals(self, client, raw, where, fresh_name):
        """apache/ignite #5041 (IGNITE-9950, BR-06): exact, whatever their size, sign and scale."""
        create_cache(client, fresh_name, partitions=1)
        numbers = [
            "0",
            "-0.01",
            "1E+3",
            "127.5",
            "-128",
            "9" * 40 + ".0001",
            "123456789012345678901234567890.12345",
        ]
        for key, digits in enumerate(numbers):
            raw.put(fresh_name, binary.i32(key), binary.decimal(digits))
        rows = {int(row["key"]): row["val"].numpy() for row in IgniteDataset(fresh_name, **where)}
        assert [Decimal(rows[key].decode()) for key in range(len(numbers))] == [
            Decimal(each) for each in numbers
        ]
        floats = {
            int(row["key"]): float(row["val"])
            for row in IgniteDataset(fresh_name, **where, decimal="float64")
        }
        assert [floats[key] for key in range(len(numbers))] == [float(each) for each in numbers]

    def test_enums_by_name(self, every, where):
        """tensorflow/io (legacy) refused enums: "not supported yet" (BR-08)."""
        columns = read(
            every, **where, columns=["key", "val.f28", "val.f29", "val.f38"], nulls="drop", enum="name"
        )
        assert columns["val.f28"].tolist() == columns["val.f38"].tolist() == [b"GREEN"]
        assert columns["val.f29"].tolist() == [[b"GREEN", b"GREEN"]]

    def test_timestamps_of_any_year(self, client, raw, where, fresh_name):
        create_cache(client, fresh_name, partitions=1)
        raw.put(fresh_name, binary.i32(1), b"\x21" + struct.pack("<qi", 253_402_300_799_000, 5))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r'key 1.*1677 to 2262.*timestamp="ms"'):
            list(IgniteDataset(fresh_name, **where))
        (row,) = IgniteDataset(fresh_name, **where, timestamp="ms")
        assert int(row["val"]) == 253_402_300_799_000

    def test_uuids_as_java_writes_them(self, client, where, fresh_name):
        """apache/ignite #6296 (IGNITE-10691, BR-08): the bytes came back swapped."""
        value = uuid.UUID(UUID)
        client.create_cache(fresh_name).put(1, value)
        (row,) = IgniteDataset(fresh_name, **where)
        assert row["val"].numpy() == str(value).encode()

    def test_dates_do_not_depend_on_the_time_zone(self, client, raw, where, fresh_name):
        """pyignite 0.6.1 reads naive local times (BR-07): epoch 0 became 1969-12-31 19:00 in New York."""
        create_cache(client, fresh_name, partitions=1)
        fields = {}
        for at, millis in enumerate(
            (-1, 0, 10**12 + 1, 1_520_751_600_000)
        ):  # the last one is in New York's DST gap
            fields[f"d{at}"] = b"\x0b" + struct.pack("<q", millis)
            fields[f"t{at}"] = b"\x21" + struct.pack("<qi", millis, 999_999)
        raw.put_object(fresh_name, binary.i32(1), f"Dates{fresh_name}", fields)
        program = (
            "import json, sys; from ignite_strategy.dataset import read\n"
            "columns = read(sys.argv[1], sys.argv[2], int(sys.argv[3]))\n"
            "print(json.dumps({name: values.tolist() for name, values in columns.items()}))"
        )
        seen = []
        for zone in ("UTC", "America/New_York", "Asia/Kolkata"):
            done = subprocess.run(
                [sys.executable, "-c", program, fresh_name, where["host"], str(where["port"])],
                env={**os.environ, "TZ": zone},
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            seen.append(json.loads(done.stdout))
        assert seen[0] == seen[1] == seen[2]
        assert [seen[0][f"val.d{at}"] for at in range(4)] == [[-1], [0], [10**12 + 1], [1_520_751_600_000]]
        assert seen[0]["val.t0"] == [-1]  # one nanosecond before 1970


@pytest.fixture(scope="module")
def orders(client, raw):
    create_cache(client, "ORDERS", partitions=1)

    def item(price, name):
        fields = {"price": binary.NULL if price is None else binary.f64(price), "name": binary.text(name)}
        return binary.binary_object("OrderItem", fields)

    raw.put_type("OrderItem", {"price": 6, "name": 9}, [["price", "name"]])
    for key, (items, tags, attrs) in enumerate(
        [
            ([item(1.5, "a"), item(None, "b")], ["x", "y"], {"k": 1, "l": 2}),
            ([], [], {}),
            ([item(2.5, "c")], ["z"], {"m": 3}),
        ]
    ):
        pairs = [(binary.text(name), binary.i32(value)) for name, value in attrs.items()]
        fields = {
            "id": binary.i32(key),
            "items": binary.collection(*items),
            "array": binary.object_array(*items),
            "tags": binary.collection(*map(binary.text, tags)),
            "attrs": binary.mapping(*pairs),
            "nested": binary.collection(binary.collection(binary.i32(1))),
        }
        raw.put_object("ORDERS", binary.i32(key), "Order", fields)
    return "ORDERS"


class TestContainers:
    COLUMNS = ["key", "val.items", "val.array", "val.tags", "val.attrs"]  # noqa: RUF012

    def test_what_cannot_be_a_tensor_names_its_path_before_anything_is_read(self, orders, where):
        """apache/ignite-python-thin-client #48 (IGNITE-15266) and its family (BR-08)."""
        with pytest.raises(UnsupportedError, match=r"val\.nested .*collection.*columns=.*'val\.tags'"):
            IgniteDataset(orders, **where)

    def test_objects_in_objects_without_end(self, client, raw, where):
        deep = binary.i32(1)
        for _ in range(40):
            deep = binary.binary_object("Deep", {"x": deep})
        create_cache(client, "DEEP", partitions=1)
        raw.put_object("DEEP", binary.i32(1), "Deep", {"x": deep})
        with pytest.raises(UnsupportedError, match=r"val(\.x)+ .*32 levels.*columns="):
            IgniteDataset("DEEP", **where)
        (only,) = IgniteDataset("DEEP", **where, columns=["key"]).as_numpy_iterator()
        assert only["key"] == 1

    def test_dicts_of_vectors(self, orders, where):
        """apache/ignite-python-thin-client #37 (IGNITE-14705), apache/ignite #6210, #7320: half decoded (BR-08)."""
        dataset = IgniteDataset(orders, **where, columns=self.COLUMNS, nulls={"val": "default"})
        rows = {int(row["key"]): tf.nest.map_structure(plain, row["val"]) for row in dataset}
        assert rows[0] == {
            "items": {"name": [b"a", b"b"], "price": [1.5, 0.0]},
            "array": {"name": [b"a", b"b"], "price": [1.5, 0.0]},
            "tags": [b"x", b"y"],
            "attrs": {"keys": [b"k", b"l"], "values": [1, 2]},
        }
        assert rows[1]["items"] == {"name": [], "price": []}
        assert rows[2]["attrs"] == {"keys": [b"m"], "values": [3]}

    def test_ragged_batches_with_masks(self, orders, where):
        (batch,) = IgniteDataset(orders, **where, columns=self.COLUMNS, nulls="mask", batch_size=3)
        order = np.argsort(batch["key"].numpy()).tolist()
        price, mask = batch["val"]["items"]["price"].to_list(), batch["val"]["items"]["price_mask"].to_list()
        assert [price[at] for at in order] == [[1.5, 0.0], [], [2.5]]
        assert [mask[at] for at in order] == [[True, False], [], [True]]

    def test_declared_by_the_spec_of_another_dataset(self, orders, where):
        first = IgniteDataset(orders, **where, columns=self.COLUMNS, nulls="default")
        second = IgniteDataset(orders, **where, nulls="default", element_spec=first.element_spec)
        assert second.element_spec == first.element_spec
        assert [tf.nest.map_structure(plain, row) for row in first] == [
            tf.nest.map_structure(plain, row) for row in second
        ]

    def test_references(self, client, raw, where, fresh_name):
        """An object that is there twice is written once and then referred to; tensorflow/io stopped at code 102."""
        create_cache(client, fresh_name, partitions=1)
        raw.put_type("Twice", {"p": 103, "q": 103}, [["p", "q"]])
        raw.put_type("OrderItem", {"price": 6, "name": 9}, [["price", "name"]])
        inner = binary.binary_object("OrderItem", {"price": binary.f64(1.5), "name": binary.text("a")})
        reference = b"\x66" + struct.pack("<i", len(inner))
        raw.put(fresh_name, binary.i32(1), binary.binary_object("Twice", {"p": inner, "q": reference}))
        (row,) = IgniteDataset(fresh_name, **where)
        assert tf.nest.map_structure(plain, row["val"]["p"]) == tf.nest.map_structure(plain, row["val"]["q"])
        assert plain(row["val"]["q"]["price"]) == 1.5
