"""What the rows of a cache look like: SQL tables without rows and after ALTER TABLE, several types, all partitions."""

from __future__ import annotations

import re
from collections import OrderedDict

import numpy as np
import pytest
from pyignite import GenericObjectMeta
from pyignite import datatypes as types

from ignite_strategy.dataset import read
from ignite_strategy.errors import InvalidArgumentError, PreconditionError, UnsupportedError
from ignite_strategy.topology.caches import create_cache, sql
from tests import binary

tf = pytest.importorskip("tensorflow")
from ignite_strategy.dataset import IgniteDataset  # noqa: E402

pytestmark = pytest.mark.integration

SQL_COLUMNS = {
    "BO": ("BOOLEAN", "TRUE", "bool", True),
    "TI": ("TINYINT", "-1", "int8", -1),
    "SM": ("SMALLINT", "-2", "int16", -2),
    "I": ("INT", "3", "int32", 3),
    "BI": ("BIGINT", "4", "int64", 4),
    "RE": ("REAL", "0.5", "float32", 0.5),
    "DO": ("DOUBLE", "2.5", "float64", 2.5),
    "DE": ("DECIMAL(20, 5)", "-123.45", "string", b"-123.45"),
    "VC": ("VARCHAR", "'x'", "string", b"x"),
    "CH": ("CHAR(3)", "'abc'", "string", b"abc"),
    "U": (
        "UUID",
        "'00112233-4455-6677-8899-aabbccddeeff'",
        "string",
        b"00112233-4455-6677-8899-aabbccddeeff",
    ),
    "D": ("DATE", "'2020-01-02'", "int64", None),  # midnight where the server is
    "T": ("TIME", "'01:02:03'", "int64", None),
    "TS": ("TIMESTAMP", "'1969-12-31 12:00:00.123456789'", "int64", None),
    "BY": ("BINARY", "X'01ff'", "int8", [1, -1]),
}


def plain(value):
    value = value.numpy() if hasattr(value, "numpy") else value
    return value if isinstance(value, bytes) else np.asarray(value).tolist()


def by_key(dataset) -> dict[int, dict[str, object]]:
    return {int(row["key"]): {name: plain(value) for name, value in row["val"].items()} for row in dataset}


class TestSqlTables:
    def test_every_sql_type_with_and_without_rows(self, client, where, fresh_name):
        """Empty: the original needed a row (L2). One row of values, one of NULLs (BR-04)."""
        definitions = ", ".join(f"{name} {kind}" for name, (kind, *_) in SQL_COLUMNS.items())
        options = f'WITH "TEMPLATE=igs-p1-,CACHE_NAME={fresh_name}"'
        sql(client, f"CREATE TABLE {fresh_name} (ID INT PRIMARY KEY, {definitions}) {options}")
        empty = IgniteDataset(fresh_name, **where, nulls="default")
        assert list(empty) == []
        for name, (_, _, dtype, value) in SQL_COLUMNS.items():
            spec = empty.element_spec["val"][name]
            assert (spec.dtype.name, spec.shape.rank) == (dtype, int(isinstance(value, list))), name
        names = ", ".join(SQL_COLUMNS)
        values = ", ".join(text for _, text, *_ in SQL_COLUMNS.values())
        sql(client, f"INSERT INTO {fresh_name} (ID, {names}) VALUES (1, {values})")
        sql(client, f"INSERT INTO {fresh_name} (ID) VALUES (2)")
        full = IgniteDataset(fresh_name, **where, nulls="default")
        assert full.element_spec == empty.element_spec
        rows = by_key(full)
        for name, (_, _, _, value) in SQL_COLUMNS.items():
            assert value is None or rows[1][name] == value, name
        assert rows[1]["TS"] % 10**9 == 123_456_789
        assert rows[1]["D"] % 60_000 == rows[1]["T"] % 1000 == 0
        assert rows[2]["DO"] == 0.0
        assert rows[2]["VC"] == b""
        assert rows[2]["BY"] == []

    def test_the_first_row_does_not_decide(self, client, where, fresh_name):
        """apache/ignite-python-thin-client #6 (IGNITE-13863, BR-04)."""
        options = f'WITH "TEMPLATE=igs-p1-,CACHE_NAME={fresh_name}"'
        sql(client, f"CREATE TABLE {fresh_name} (ID INT PRIMARY KEY, A DOUBLE, S VARCHAR) {options}")
        sql(client, f"INSERT INTO {fresh_name} VALUES (1, NULL, NULL), (2, 2.5, 'x'), (3, NULL, '')")
        rows = by_key(IgniteDataset(fresh_name, **where, nulls="default"))
        assert rows == {1: {"A": 0.0, "S": b""}, 2: {"A": 2.5, "S": b"x"}, 3: {"A": 0.0, "S": b""}}
        assert by_key(IgniteDataset(fresh_name, **where, nulls="drop")) == {2: rows[2]}

    @pytest.mark.since("2.8")
    def test_a_column_that_was_added_and_that_no_row_has(self, client, where, fresh_name):
        """The cache's configuration does not know it, system views do; Ignite 2.7 has none of columns."""
        options = f'WITH "TEMPLATE=igs-p1-,CACHE_NAME={fresh_name}"'
        sql(client, f"CREATE TABLE {fresh_name} (ID INT PRIMARY KEY, A INT) {options}")
        sql(client, f"INSERT INTO {fresh_name} VALUES (1, 10)")
        sql(client, f"ALTER TABLE {fresh_name} ADD COLUMN B DOUBLE")
        assert IgniteDataset(fresh_name, **where).element_spec["val"]["B"].dtype == tf.float64

    @pytest.mark.since("2.8")
    def test_columns_added_and_dropped(self, client, where, fresh_name):
        options = f'WITH "TEMPLATE=igs-p1-,CACHE_NAME={fresh_name}"'
        sql(client, f"CREATE TABLE {fresh_name} (ID INT PRIMARY KEY, A INT, GONE VARCHAR) {options}")
        sql(client, f"INSERT INTO {fresh_name} VALUES (1, 10, 'old')")
        sql(client, f"ALTER TABLE {fresh_name} ADD COLUMN B DOUBLE")
        sql(client, f"INSERT INTO {fresh_name} VALUES (2, 20, 'new', 2.5)")
        sql(client, f"ALTER TABLE {fresh_name} DROP COLUMN GONE")
        sql(client, f"INSERT INTO {fresh_name} VALUES (3, 30, 3.5)")
        rows = by_key(IgniteDataset(fresh_name, **where, nulls="mask"))
        assert {key: (row["A"], row["B"], row["B_mask"]) for key, row in rows.items()} == {
            1: (10, 0.0, False),
            2: (20, 2.5, True),
            3: (30, 3.5, True),
        }
        assert all("GONE" not in row for row in rows.values())


class TestEmptyCaches:
    def test_error_prints_the_spec_to_pass(self, client, where, fresh_name):
        client.create_cache(fresh_name)
        with pytest.raises(PreconditionError, match=f"'{fresh_name}'.*is empty") as raised:
            IgniteDataset(fresh_name, **where)
        spec = eval(re.search(r"element_spec=(.*)", str(raised.value))[1], {"tf": tf})
        dataset = IgniteDataset(fresh_name, **where, element_spec=spec)
        assert dataset.element_spec == spec
        assert list(dataset) == []

    def test_also_where_only_the_keys_are_known(self, client, where, fresh_name):
        create_cache(client, fresh_name, partitions=1, key="int")
        with pytest.raises(
            PreconditionError, match=r"element_spec={'key': tf.TensorSpec\(\[\], tf.int32\), 'val': "
        ):
            IgniteDataset(fresh_name, **where)

    def test_and_has_in_it_what_is_known(self, client, where, fresh_name):
        options = f'WITH "TEMPLATE=igs-p1-,CACHE_NAME={fresh_name}"'
        sql(client, f"CREATE TABLE {fresh_name} (ID BIGINT PRIMARY KEY, A INT, ANY OTHER) {options}")
        with pytest.raises(
            PreconditionError, match=r"val\.ANY.*'key': tf.TensorSpec\(\[\], tf.int64\).*'A': tf.Tens"
        ):
            IgniteDataset(fresh_name, **where)


class TestSamples:
    def test_all_partitions_are_looked_at(self, client, raw, where, fresh_name):
        """One row of thousands tells the type of a column, wherever it is."""
        create_cache(client, fresh_name)
        raw.put_type(f"Late{fresh_name}", {"x": 3, "tags": 24}, [["x", "tags"]])
        for key in range(1500):
            tags = binary.collection(binary.text("here")) if key == 1234 else binary.collection()
            value = binary.binary_object(f"Late{fresh_name}", {"x": binary.i32(key), "tags": tags})
            raw.put(fresh_name, binary.i32(key), value)
        dataset = IgniteDataset(fresh_name, **where)
        assert dataset.element_spec["val"]["tags"] == tf.TensorSpec([None], tf.string)
        columns = read(fresh_name, **where)
        assert [key for key, tags in zip(columns["key"], columns["val.tags"]) if tags] == [1234]

    def test_a_later_row_that_contradicts_is_an_error_and_no_cast(self, client, raw, where, fresh_name):
        create_cache(client, fresh_name, partitions=1)
        raw.put(fresh_name, binary.i32(1), binary.i32(5))
        dataset = IgniteDataset(fresh_name, **where)
        raw.put(fresh_name, binary.i32(2), binary.i64(5))
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"key 2.*field val is a long here but an int"
        ):
            list(dataset)

    def test_several_types_of_values(self, client, where, fresh_name):
        create_cache(client, fresh_name, partitions=1)
        cache = client.get_cache(fresh_name)
        kinds = []
        for key, (name, field) in enumerate([("Cat", "lives"), ("Dog", "bones")]):
            schema = OrderedDict([("name", types.String), (field, types.IntObject)])
            full = f"org.example.{name}{fresh_name}"
            kinds.append(full)
            made = GenericObjectMeta(name, (), {}, type_name=full, schema=schema)
            cache.put(key, made(**{"name": name, field: key + 9}))
        cache.put(2, 5, value_hint=types.IntObject)
        with pytest.raises(
            UnsupportedError, match=rf"several types: int and {kinds[0]} and {kinds[1]}.*type="
        ):
            IgniteDataset(fresh_name, **where)
        (row,) = IgniteDataset(fresh_name, **where, type=kinds[1])
        assert {name: plain(value) for name, value in row["val"].items()} == {"name": b"Dog", "bones": 10}
        (row,) = IgniteDataset(fresh_name, **where, type=f"Cat{fresh_name}")  # without the package
        assert plain(row["val"]["lives"]) == 9
        (row,) = IgniteDataset(fresh_name, **where, type="int")
        assert (plain(row["key"]), plain(row["val"])) == (2, 5)
        assert read(fresh_name, **where, type="int")["val"].tolist() == [5]
        with pytest.raises(UnsupportedError, match=f"type='Bird'; there are: int, {kinds[0]}, {kinds[1]}"):
            IgniteDataset(fresh_name, **where, type="Bird")
        spec = {"key": tf.TensorSpec([], tf.int64), "val": {"bones": tf.TensorSpec([], tf.int32)}}
        (row,) = IgniteDataset(fresh_name, **where, type=kinds[1], element_spec=spec)
        assert plain(row["val"]["bones"]) == 10

    def test_another_type_of_values_later(self, client, where, fresh_name):
        create_cache(client, fresh_name, partitions=1)
        cache = client.get_cache(fresh_name)
        schema = OrderedDict(x=types.IntObject)
        first, second = (
            GenericObjectMeta(name, (), {}, type_name=f"{name}{fresh_name}", schema=schema)
            for name in ("One", "Two")
        )
        cache.put(1, first(x=1))
        dataset = IgniteDataset(fresh_name, **where)
        cache.put(2, second(x=2))
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=f"key 2.*'Two{fresh_name}'.*'One{fresh_name}'.*type="
        ):
            list(dataset)

    def test_every_schema_of_a_type(self, client, where, fresh_name):
        """Fields that only some objects have are columns too; the others' are NULL."""
        create_cache(client, fresh_name, partitions=1)
        cache = client.get_cache(fresh_name)
        for key, order in enumerate([("a", "b"), ("b", "a"), ("c", "b", "a")]):
            schema = OrderedDict((name, types.IntObject) for name in order)
            version = GenericObjectMeta("Evolved", (), {}, type_name=f"Evolved{fresh_name}", schema=schema)
            cache.put(key, version(**{name: ord(name) for name in order}))
        rows = by_key(IgniteDataset(fresh_name, **where, nulls={"val.c": "mask"}))
        assert [rows[key]["c_mask"] for key in range(3)] == [False, False, True]
        assert all((row["a"], row["b"]) == (ord("a"), ord("b")) for row in rows.values())
        assert rows[2]["c"] == ord("c")


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"nulls": "skip"}, "nulls='skip': choose one of error, default, mask, drop"),
            ({"nulls": {"val.z": "mask"}}, "nulls= names 'val.z'.*: key, val.x, val.x_mask"),
            ({"nulls": "mask"}, "mask of column val.x would be called val.x_mask"),
            ({"decimal": "float"}, "decimal='float': choose one of string, float64"),
            ({"enum": 1}, "enum=1: choose one of ordinal, name"),
            ({"timestamp": "us"}, "timestamp='us': choose one of ns, ms"),
            ({"type": ""}, "type='': give the name"),
        ],
    )
    def test_that_cannot_be(self, client, where, options, message):
        create_cache(client, "MASKED", partitions=1, exist_ok=True)
        schema = OrderedDict(x=types.IntObject, x_mask=types.BoolObject)
        made = GenericObjectMeta("Masked", (), {}, type_name="Masked", schema=schema)
        client.get_cache("MASKED").put(1, made(x=1, x_mask=True))
        with pytest.raises(InvalidArgumentError, match=message):
            IgniteDataset("MASKED", **where, **options)


@pytest.fixture(scope="module")
def parts(client):
    create_cache(client, "INTERLEAVED", partitions=4, exist_ok=True)
    cache = client.get_cache("INTERLEAVED")
    for key in range(100):
        cache.put(key, ["a", None][: key % 3], value_hint=types.StringArrayObject)
    return "INTERLEAVED"


class TestInterleave:
    """tensorflow/io #59 (IGNITE-10996), #526, #431; tensorflow/tensorflow #24899 (BR-16).

    Host, port and partition are tensors there, and a graph has no values to ask for the columns with.
    """

    @pytest.mark.parametrize("told", ["spec", "schema_host"])
    @pytest.mark.parametrize("mode", ["eager", "function", "graph"])
    def test_host_port_and_partition_as_tensors(self, parts, where, told, mode):
        spec = IgniteDataset(parts, **where, nulls="mask").element_spec
        known = {
            "spec": {"element_spec": spec},
            "schema_host": {"schema_host": where["host"], "schema_port": where["port"]},
        }[told]

        def interleaved():
            table = tf.data.Dataset.from_tensor_slices(
                {"host": [where["host"]] * 4, "port": [where["port"]] * 4, "part": [0, 1, 2, 3]}
            )
            return table.interleave(
                lambda at: IgniteDataset(
                    parts, at["host"], at["port"], part=at["part"], nulls="mask", **known
                ),
                cycle_length=4,
            )

        if mode == "function":
            total = tf.function(
                lambda: interleaved().reduce(np.int64(0), lambda sum_, row: sum_ + row["key"])
            )
            assert int(total()) == sum(range(100))
            return
        found = list(interleaved()) if mode == "eager" else list(in_a_graph(interleaved))
        rows = {int(row["key"]): (plain(row["val"]), plain(row["val_mask"])) for row in found}
        assert len(found) == 100
        assert sorted(rows) == list(range(100))
        assert rows[5] == ([b"a", b""], [True, False])

    @pytest.mark.parametrize(
        ("host", "port", "part", "text"),
        [
            ("nohost.invalid", None, 0, "nohost.invalid"),
            ("", None, 0, "host is empty"),
            (None, 1, 0, "127.0.0.1:1"),
            (None, None, -7, "part = -7"),
        ],
    )
    def test_wrong_values_are_errors_and_never_the_rows_of_schema_host(
        self, parts, where, host, port, part, text
    ):
        given = [
            tf.constant(where["host"] if host is None else host),
            tf.constant(port or where["port"]),
        ]
        dataset = IgniteDataset(
            parts,
            *given,
            part=tf.constant(part),
            nulls="mask",
            schema_host=where["host"],
            schema_port=where["port"],
        )
        with pytest.raises(tf.errors.OpError, match=text):
            list(dataset)


def in_a_graph(build):
    """The rows of a dataset that is built and run as an Estimator does it."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        following = tf.compat.v1.data.make_one_shot_iterator(build()).get_next()
        while True:
            try:
                yield session.run(following)
            except tf.errors.OutOfRangeError:
                return
