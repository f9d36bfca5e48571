"""IgniteDataset against real nodes: the examples that people know, every type, partitions, graph mode, errors."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections import OrderedDict
from itertools import chain

import numpy as np
import psutil
import pytest
from pyignite import GenericObjectMeta
from pyignite import datatypes as types

from ignite_strategy import library, settings
from ignite_strategy.dataset import read
from ignite_strategy.errors import (
    ConnectionFailedError,
    InvalidArgumentError,
    NotFoundError,
    PreconditionError,
    UnsupportedError,
)
from ignite_strategy.topology.caches import create_cache, put_objects, sql

tf = pytest.importorskip("tensorflow")
from ignite_strategy.dataset import IgniteDataset  # noqa: E402

pytestmark = pytest.mark.integration

KITTENS = {1: b"WARM KITTY", 2: b"SOFT KITTY", 3: b"LITTLE BALL OF FUR"}
ROWS, PARTITIONS = 500, 4


@pytest.fixture(scope="module")
def kittens(client):
    sql(client, "CREATE TABLE KITTEN_CACHE (ID LONG PRIMARY KEY, NAME VARCHAR)")
    for key, name in KITTENS.items():
        sql(client, "INSERT INTO KITTEN_CACHE VALUES (?, ?)", [key, name.decode()])
    return "SQL_PUBLIC_KITTEN_CACHE"


@pytest.fixture(scope="module")
def images(client):
    fields = {
        "metadata": {"file_name": "string", "label": "string", "width": "int", "height": "int"},
        "pixels": "int[]",
    }
    create_cache(client, "IMAGES")
    metadata = {"file_name": "kitten.png", "label": "little ball of fur", "width": 800, "height": 600}
    put_objects(
        client,
        "IMAGES",
        {"kitten.png": {"metadata": metadata, "pixels": [0, 1, 2, 3]}},
        fields=fields,
        type_name="org.example.Image",
        key="string",
    )
    return "IMAGES"


@pytest.fixture(scope="module")
def numbers(client):
    """A cache of a few partitions with rows of several types in each."""
    create_cache(client, "NUMBERS", partitions=PARTITIONS)
    fields = {"n": "int", "half": "double", "name": "string", "pix": "float[]"}
    rows = {n: {"n": n, "half": n / 2, "name": f"row {n}", "pix": [float(n)] * 4} for n in range(ROWS)}
    put_objects(client, "NUMBERS", rows, fields=fields, type_name="Number")
    return "NUMBERS"


def keys(dataset) -> list[int]:
    return [int(row["key"]) for row in dataset]


class TestExamples:
    def test_sql_table(self, kittens, where):
        rows = {int(row["key"]): row["val"]["NAME"].numpy() for row in IgniteDataset(kittens, **where)}
        assert rows == KITTENS

    def test_structured_objects(self, images, where):
        """The original swapped label and pixels here: it paired values with a hash map's order of names."""
        (row,) = IgniteDataset(cache_name=images, **where).take(1)
        plain = tf.nest.map_structure(lambda tensor: tensor.numpy(), row)
        assert plain["val"].pop("pixels").tolist() == [0, 1, 2, 3]
        assert plain == {
            "key": b"kitten.png",
            "val": {
                "metadata": {
                    "file_name": b"kitten.png",
                    "label": b"little ball of fur",
                    "width": 800,
                    "height": 600,
                }
            },
        }

    def test_map(self, images, where):
        dataset = IgniteDataset(cache_name=images, **where).map(lambda obj: obj["val"]["pixels"])
        assert [pixels.numpy().tolist() for pixels in dataset] == [[0, 1, 2, 3]]

    def test_table_with_a_composite_key(self, client, where, fresh_name):
        sql(client, f"CREATE TABLE {fresh_name} (A INT, B VARCHAR, V DOUBLE, PRIMARY KEY (A, B))")
        sql(client, f"INSERT INTO {fresh_name} VALUES (1, 'x', 0.5)")
        (row,) = IgniteDataset(f"SQL_PUBLIC_{fresh_name}", **where)
        plain = tf.nest.map_structure(lambda tensor: tensor.numpy(), row)
        assert plain == {"key": {"A": 1, "B": b"x"}, "val": {"V": 0.5}}

    def test_numpy_without_tensorflow_ops(self, numbers, where):
        columns = read(numbers, **where, columns=["key", "val.pix", "val.name"])
        assert sorted(columns["key"]) == list(range(ROWS))
        at = columns["key"].tolist().index(7)
        assert columns["val.pix"][at].tolist() == [7.0] * 4
        assert columns["val.name"][at] == b"row 7"


class TestTypes:
    VALUES = {  # noqa: RUF012
        "bool": (types.BoolObject, True, "bool"),
        "byte": (types.ByteObject, -5, "int8"),
        "short": (types.ShortObject, -300, "int16"),
        "int": (types.IntObject, -70_000, "int32"),
        "long": (types.LongObject, -(2**40), "int64"),
        "float": (types.FloatObject, 1.5, "float32"),
        "double": (types.DoubleObject, 1e300, "float64"),
        "char": (types.CharObject, "Ж", "uint16"),
        "string": (types.String, "aé", "string"),
        "bools": (types.BoolArrayObject, [True, False], "bool"),
        "bytes": (types.ByteArrayObject, b"\x01\xff", "int8"),
        "shorts": (types.ShortArrayObject, [-1, 2], "int16"),
        "ints": (types.IntArrayObject, [-1, 2], "int32"),
        "longs": (types.LongArrayObject, [-1, 2**40], "int64"),
        "floats": (types.FloatArrayObject, [0.5, 1.5], "float32"),
        "doubles": (types.DoubleArrayObject, [0.5], "float64"),
        "chars": (types.CharArrayObject, ["Ж", "A"], "uint16"),
    }
    EXPECTED = {"char": 0x416, "chars": [0x416, 65], "string": "aé".encode(), "bytes": [1, -1]}  # noqa: RUF012

    def check(self, name, tensor):
        _, value, dtype = self.VALUES[name]
        assert tensor.dtype == dtype
        np.testing.assert_array_equal(tensor.numpy(), self.EXPECTED.get(name, value))

    def test_every_type_as_a_field(self, client, where, fresh_name):
        """tensorflow/io declared char uint8 and parsed uint16 (BR-05): discovery and decoding share one table."""
        schema = OrderedDict((name, kind) for name, (kind, _, _) in self.VALUES.items())
        every = GenericObjectMeta("Every", (), {}, type_name="Every", schema=schema)
        cache = client.create_cache(fresh_name)
        cache.put(1, every(**{name: value for name, (_, value, _) in self.VALUES.items()}))
        dataset = IgniteDataset(fresh_name, **where)
        for row in [*dataset, *dataset.batch(2).unbatch()]:
            assert sorted(row["val"]) == sorted(self.VALUES)
            for name, tensor in row["val"].items():
                self.check(name, tensor)

    @pytest.mark.parametrize("name", VALUES)
    def test_every_type_as_the_value_itself(self, client, where, fresh_name, name):
        kind, value, _ = self.VALUES[name]
        client.create_cache(fresh_name).put(1, value, value_hint=kind)
        (row,) = IgniteDataset(fresh_name, **where)
        self.check(name, row["val"])

    def test_several_versions_of_a_type(self, client, where, fresh_name):
        """Positions are a matter of each object's own schema, which differ here in order and number of fields."""
        cache = client.create_cache(fresh_name)
        orders = [("a", "b"), ("b", "a"), ("c", "b", "a")]
        for key, order in enumerate(orders):
            schema = OrderedDict((name, types.IntObject) for name in order)
            version = GenericObjectMeta("Evolved", (), {}, type_name=f"Evolved{fresh_name}", schema=schema)
            cache.put(key, version(**{name: ord(name) for name in order}))
        dataset = IgniteDataset(fresh_name, **where, columns=["key", "val.a", "val.b"])
        rows = [(int(row["val"]["a"]), int(row["val"]["b"])) for row in dataset]
        assert rows == [(ord("a"), ord("b"))] * 3
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"val\.c is missing"):
            list(IgniteDataset(fresh_name, **where))

    def test_values_of_several_types_in_one_place(self, client, where, fresh_name):
        cache = client.create_cache(fresh_name)
        cache.put(1, 5, value_hint=types.IntObject)
        cache.put(2, "five")
        with pytest.raises(UnsupportedError, match="val holds values of several types: int and string"):
            IgniteDataset(fresh_name, **where)
        assert sorted(keys(IgniteDataset(fresh_name, **where, columns=["key"]))) == [1, 2]


class TestWhatIsNotRead:
    def test_null_names_the_field_and_can_be_left_out(self, client, where, fresh_name):
        """apache/ignite-python-thin-client #6 (IGNITE-13863)."""
        sql(client, f"CREATE TABLE {fresh_name} (ID INT PRIMARY KEY, A DOUBLE, S VARCHAR)")
        sql(client, f"INSERT INTO {fresh_name} VALUES (1, NULL, 'w'), (2, 2.5, 'x'), (3, NULL, '')")
        name = f"SQL_PUBLIC_{fresh_name}"
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=rf"{name}.*key [13].*val\.A.*nulls=.*columns="
        ):
            list(IgniteDataset(name, **where))
        rows = IgniteDataset(name, **where, columns=["key", "val.S"])
        assert {int(row["key"]): row["val"]["S"].numpy() for row in rows} == {1: b"w", 2: b"x", 3: b""}

    def test_what_cannot_be_a_column_is_refused_at_once_and_can_be_left_out(self, client, where, fresh_name):
        """apache/ignite-python-thin-client #48 and its family (BR-08): an error before the first batch."""
        cache = client.create_cache(fresh_name)
        schema = OrderedDict(x=types.IntObject, u=types.CollectionObject)
        pair = GenericObjectMeta("Pair", (), {}, type_name=f"Pair{fresh_name}", schema=schema)
        nested = (types.CollectionObject.ARR_LIST, [(types.CollectionObject.ARR_LIST, [1])])
        cache.put(1, pair(x=7, u=nested))
        with pytest.raises(UnsupportedError, match=r"val\.u .*columns=\['key', 'val\.x'\]"):
            IgniteDataset(fresh_name, **where)
        (row,) = IgniteDataset(fresh_name, **where, columns=["key", "val.x"])
        assert int(row["val"]["x"]) == 7

    def test_uuid_key(self, client, where, fresh_name):
        """UUIDs in java.util.UUID's byte order: apache/ignite #6296 (BR-08)."""
        key = uuid.uuid4()
        client.create_cache(fresh_name).put(key, 5, value_hint=types.IntObject)
        (row,) = IgniteDataset(fresh_name, **where)
        assert row["key"].numpy() == str(key).encode()


class TestConstruction:
    def test_positional_arguments_are_the_originals(self, numbers, where):
        dataset = IgniteDataset(numbers, where["host"], where["port"], False, 1, 50)
        assert 0 < len(keys(dataset)) < ROWS

    def test_missing_cache_names_those_there_are(self, kittens, where):
        with pytest.raises(NotFoundError, match=f"'NO_SUCH_CACHE' does not exist; there are: .*{kittens}"):
            IgniteDataset("NO_SUCH_CACHE", **where)

    def test_wrong_host(self):
        start = time.monotonic()
        with pytest.raises(ConnectionFailedError, match=r"'C'.*127\.0\.0\.1:1:.*IGNITE_DATASET_HOST"):
            IgniteDataset("C", "127.0.0.1", 1)
        assert time.monotonic() - start < 3

    def test_empty_cache_without_a_known_type(self, client, where, fresh_name):
        client.create_cache(fresh_name)
        with pytest.raises(PreconditionError, match=f"'{fresh_name}'.*is empty.*element_spec="):
            IgniteDataset(fresh_name, **where)
        spec = {"key": tf.TensorSpec([], tf.int32), "val": {"x": tf.TensorSpec([3], tf.float32)}}
        dataset = IgniteDataset(fresh_name, **where, element_spec=spec)
        assert dataset.element_spec == spec
        assert list(dataset) == []

    def test_empty_sql_table_is_typed(self, client, where, fresh_name):
        """The original needed at least one row (L2)."""
        sql(client, f"CREATE TABLE {fresh_name} (ID LONG PRIMARY KEY, NAME VARCHAR, V DOUBLE)")
        dataset = IgniteDataset(f"SQL_PUBLIC_{fresh_name}", **where)
        assert dataset.element_spec == {
            "key": tf.TensorSpec([], tf.int64),
            "val": {"NAME": tf.TensorSpec([], tf.string), "V": tf.TensorSpec([], tf.float64)},
        }
        assert list(dataset) == []

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"columns": ["val.nothing"]}, "no column 'val.nothing'; there are: key, val.half"),
            ({"batch_size": 0}, "batch_size=0"),
            ({"page_size": 0}, "page_size=0"),
            ({"partitions": []}, "give a partition from 0"),
            ({"part": 1, "partitions": [2]}, "not both"),
            ({"element_spec": tf.TensorSpec([], tf.int32)}, "'key' and 'val'"),
        ],
    )
    def test_arguments_that_cannot_be(self, numbers, where, options, message):
        with pytest.raises(InvalidArgumentError, match=message):
            IgniteDataset(numbers, **where, **options)

    def test_addresses_of_an_open_resolver(self, kittens, where):
        with settings.use_default_endpoints([settings.Endpoint(where["host"], where["port"])]):
            assert len(list(IgniteDataset(kittens))) == 3


class TestBatches:
    def test_arrays_ragged_or_dense(self, numbers, where):
        (ragged,) = IgniteDataset(numbers, **where, batch_size=ROWS)
        assert isinstance(ragged["val"]["pix"], tf.RaggedTensor)
        spec = {"key": tf.TensorSpec([], tf.int32), "val": {"pix": tf.TensorSpec([4], tf.float32)}}
        (dense,) = IgniteDataset(numbers, **where, batch_size=ROWS, element_spec=spec)
        order = np.argsort(dense["key"])
        expected = np.repeat(np.arange(ROWS, dtype="float32")[:, None], 4, 1)
        np.testing.assert_array_equal(dense["val"]["pix"].numpy()[order], expected)
        np.testing.assert_array_equal(
            ragged["val"]["pix"].to_tensor().numpy()[np.argsort(ragged["key"])], expected
        )

    @pytest.mark.parametrize("drop_remainder", [False, True])
    def test_batch_is_that_of_tf_data(self, numbers, where, drop_remainder):
        dataset = IgniteDataset(numbers, **where)
        fast = dataset.batch(64, drop_remainder)
        plain = dataset.take(-1).batch(64, drop_remainder)
        assert fast.element_spec == plain.element_spec
        sizes = [[len(batch["key"]) for batch in batches] for batches in (fast, plain)]
        assert sizes[0] == sizes[1] == [64] * 7 + ([] if drop_remainder else [ROWS - 7 * 64])
        assert sorted(int(key) for batch in fast for key in batch["key"]) == sorted(
            int(key) for batch in plain for key in batch["key"]
        )

    def test_rows_with_arrays_of_several_lengths(self, client, where, fresh_name):
        cache = client.create_cache(fresh_name)
        for key in range(40):
            cache.put(key, list(range(key % 5)), value_hint=types.IntArrayObject)
        rows = {int(row["key"]): row["val"].numpy().tolist() for row in IgniteDataset(fresh_name, **where)}
        assert rows == {key: list(range(key % 5)) for key in range(40)}
        (batch,) = IgniteDataset(fresh_name, **where, batch_size=64)
        assert dict(zip(batch["key"].numpy().tolist(), batch["val"].to_list())) == rows
        with pytest.raises(tf.errors.InvalidArgumentError, match="batch_size="):
            list(IgniteDataset(fresh_name, **where).batch(40))


class TestPartitions:
    def test_are_disjoint_and_together_the_cache(self, numbers, where):
        each = [keys(IgniteDataset(numbers, **where, part=part)) for part in range(PARTITIONS)]
        assert all(each)
        assert sorted(chain(*each)) == list(range(ROWS)) == sorted(keys(IgniteDataset(numbers, **where)))

    def test_several_in_one_dataset(self, numbers, where):
        some = keys(IgniteDataset(numbers, **where, partitions="0,2-3"))
        rest = keys(IgniteDataset(numbers, **where, partitions=[1]))
        assert sorted(some + rest) == list(range(ROWS))

    def test_out_of_range_is_an_error_and_not_an_empty_pass(self, numbers, where):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=f"'{numbers}' has no partition {PARTITIONS}:"
        ):
            list(IgniteDataset(numbers, **where, part=PARTITIONS))

    def test_chosen_by_a_tensor(self, numbers, where):
        """tensorflow/io #59 (IGNITE-10996): inside interleave the partition is a tensor."""
        spec = IgniteDataset(numbers, **where).element_spec
        dataset = tf.data.Dataset.range(PARTITIONS).interleave(
            lambda part: IgniteDataset(numbers, **where, part=part, element_spec=spec), cycle_length=2
        )
        assert sorted(keys(dataset)) == list(range(ROWS))

    @pytest.mark.parametrize("partitions", [[PARTITIONS], [0, 5000], f"0-{PARTITIONS}"])
    def test_one_that_the_cache_has_not(self, numbers, where, partitions):
        """Said before the first row, not after those of the partitions that there are."""
        spec = IgniteDataset(numbers, **where).element_spec
        told = f"'{numbers}' has no partition \\d+: its partitions are 0 to {PARTITIONS - 1}"
        rows = iter(IgniteDataset(numbers, **where, partitions=partitions, element_spec=spec))
        with pytest.raises(tf.errors.InvalidArgumentError, match=told):
            next(rows)

    def test_host_by_a_tensor_needs_to_be_told_the_columns(self, numbers, where):
        host, port = tf.constant(where["host"]), tf.constant(where["port"])
        with pytest.raises(InvalidArgumentError, match="schema_host="):
            IgniteDataset(numbers, host, port)
        dataset = IgniteDataset(numbers, host, port, schema_host=where["host"], schema_port=where["port"])
        assert len(keys(dataset)) == ROWS


class TestEnvironment:
    def test_replaces_host_port_and_partition(self, numbers, where, monkeypatch):
        spec = IgniteDataset(numbers, **where).element_spec
        whole = keys(IgniteDataset(numbers, **where, part=1))
        dataset = IgniteDataset(numbers, "127.0.0.1", 1, part=0, element_spec=spec)
        monkeypatch.setenv("IGNITE_DATASET_HOST", where["host"])
        monkeypatch.setenv("IGNITE_DATASET_PORT", str(where["port"]))
        monkeypatch.setenv("IGNITE_DATASET_PART", "1")
        assert keys(dataset) == whole

    def test_schema_discovery_obeys_it_too(self, numbers, where, monkeypatch):
        """tensorflow/io (legacy) read the schema from another host than the data (BR-17)."""
        monkeypatch.setenv("IGNITE_DATASET_HOST", where["host"])
        monkeypatch.setenv("IGNITE_DATASET_PORT", str(where["port"]))
        monkeypatch.setenv("IGNITE_DATASET_CACHE_NAME", numbers)
        assert len(keys(IgniteDataset("ANOTHER", "127.0.0.1", 1))) == ROWS

    def test_assignment_by_cache(self, numbers, kittens, where, monkeypatch):
        dataset = IgniteDataset(numbers, **where, part=3)
        expected = sorted(chain(*(keys(IgniteDataset(numbers, **where, part=part)) for part in (0, 2))))
        monkeypatch.setenv("IGNITE_STRATEGY_PARTITIONS", json.dumps({numbers: [0, 2]}))
        assert sorted(keys(dataset)) == expected
        assert len(keys(IgniteDataset(kittens, **where))) == 3  # not named there: a lookup table, read whole

    def test_partitions_choose_among_the_assigned_ones(self, numbers, where, monkeypatch):
        expected = keys(IgniteDataset(numbers, **where, part=2))
        monkeypatch.setenv("IGNITE_STRATEGY_PARTITIONS", json.dumps({numbers: [0, 2]}))
        assert keys(IgniteDataset(numbers, **where, partitions=[1, 2, 3])) == expected
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"partitions=1,3.*\(0,2\) have none in common"
        ):
            list(IgniteDataset(numbers, **where, partitions=[1, 3]))

    def test_can_be_ignored(self, numbers, where, monkeypatch):
        monkeypatch.setenv("IGNITE_DATASET_PORT", "1")
        monkeypatch.setenv("IGNITE_STRATEGY_PARTITIONS", json.dumps({numbers: [0]}))
        assert len(keys(IgniteDataset(numbers, **where, env=False))) == ROWS

    def test_bad_values_name_the_variable(self, numbers, where, monkeypatch):
        dataset = IgniteDataset(numbers, **where)
        monkeypatch.setenv("IGNITE_DATASET_PORT", "10x")
        with pytest.raises(InvalidArgumentError, match="IGNITE_DATASET_PORT"):
            IgniteDataset(numbers, **where)
        with pytest.raises(tf.errors.InvalidArgumentError, match="IGNITE_DATASET_PORT"):
            list(dataset)


class TestGraphMode:
    def drain(self, iterator, session):
        row, rows = iterator.get_next(), []
        while True:
            try:
                rows.append(session.run(row))
            except tf.errors.OutOfRangeError:
                return rows

    def test_one_shot_iterator(self, kittens, where):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            iterator = tf.compat.v1.data.make_one_shot_iterator(IgniteDataset(kittens, **where))
            rows = self.drain(iterator, session)
        assert {row["key"]: row["val"]["NAME"] for row in rows} == KITTENS

    def test_initializable_iterator(self, kittens, where):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            dataset = IgniteDataset(kittens, **where).map(lambda row: row["val"]["NAME"]).repeat(2)
            iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
            for _ in range(2):
                session.run(iterator.initializer)
                assert sorted(self.drain(iterator, session)) == sorted([*KITTENS.values()] * 2)

    def test_function(self, numbers, where):
        @tf.function
        def total():
            rows = IgniteDataset(numbers, **where)
            return rows.reduce(
                tf.constant(0, tf.int64), lambda sum_, row: sum_ + tf.cast(row["key"], tf.int64)
            )

        assert int(total()) == sum(range(ROWS))

    def test_loop_in_a_function(self, numbers, where):
        @tf.function
        def count(rows):
            seen = tf.constant(0)
            for _ in rows:
                seen += 1
            return seen

        assert int(count(IgniteDataset(numbers, **where))) == ROWS

    @pytest.mark.skipif(not hasattr(tf, "estimator"), reason="this TensorFlow has no Estimator")
    def test_input_fn_of_an_estimator(self, numbers, where, tmp_path):
        def input_fn():
            dataset = IgniteDataset(numbers, **where)
            return dataset.map(lambda row: ({"x": row["val"]["pix"]}, row["val"]["half"])).batch(50)

        def model_fn(features, labels, mode):
            loss = tf.reduce_mean((tf.reduce_mean(features["x"], 1) / 2 - tf.cast(labels, tf.float32)) ** 2)
            with tf.control_dependencies([loss]):
                step = tf.compat.v1.assign_add(tf.compat.v1.train.get_or_create_global_step(), 1)
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

        estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
        estimator.train(input_fn)
        result = estimator.evaluate(input_fn)
        assert result["global_step"] == ROWS // 50
        assert result["loss"] == 0

    def test_shards_itself(self, numbers, where):
        """tensorflow/tensorflow #36846: auto-sharding by elements made each worker drop rows of its own partitions."""
        policy = IgniteDataset(numbers, **where).options().experimental_distribute.auto_shard_policy
        assert policy == tf.data.experimental.AutoShardPolicy.OFF

    @pytest.mark.parametrize("rows", [100, 1])
    def test_workers_see_each_key_once_and_fetch_nothing_else(
        self, client, where, fresh_name, monkeypatch, rows
    ):
        """tensorflow/tensorflow #36846, #42146, #56513, #22319 (BR-20).

        Every worker read everything and kept each n-th element, or failed where there were fewer than workers.
        """
        from tensorflow.python.data.experimental.ops import distribute

        create_cache(client, fresh_name, partitions=4)
        client.get_cache(fresh_name).put_all({n: n for n in range(rows)})
        dataset = IgniteDataset(fresh_name, **where).map(lambda row: row["key"])
        seen, size = [], []
        for worker, mine in enumerate(([0, 1], [2, 3])):
            monkeypatch.setenv("IGNITE_STRATEGY_PARTITIONS", json.dumps({fresh_name: mine}))
            before = fetched(fresh_name)
            # What distribution strategies do to the dataset of each of their workers.
            seen.append([int(key) for key in distribute._AutoShardDataset(dataset, 2, worker)])
            size.append(fetched(fresh_name) - before)
        assert sorted(seen[0] + seen[1]) == list(range(rows))
        if rows > 1:
            share = size[0] / sum(size)
            assert abs(share - len(seen[0]) / rows) < 0.1
            assert 0.2 < share < 0.8


def fetched(cache: str) -> int:
    """The bytes of rows that came over the wire."""
    return sum(entry["bytes"] for entry in library.reader_report() if entry["cache"] == cache)


class TestResources:
    def test_stopping_early_leaks_no_socket(self, numbers, where):
        """tensorflow/tensorflow #19499, #37324 (BR-15)."""
        process = psutil.Process()

        def sockets():
            return [
                connection
                for connection in process.net_connections("tcp")
                if connection.raddr and connection.raddr.port == where["port"]
            ]

        dataset = IgniteDataset(numbers, **where, page_size=10)
        for _ in range(3):
            for _ in dataset:
                break
        before = len(sockets())
        for _ in range(60):
            for _ in dataset:
                break
        gc.collect()
        deadline = time.monotonic() + 5
        while len(sockets()) > before + 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(sockets()) <= before + 2
        assert len(process.threads()) < 400

    @pytest.mark.since("2.9")
    def test_stopping_early_leaves_no_cursor_and_says_nothing_at_exit(self, client, numbers, where):
        """tensorflow/tensorflow #37324: cancellation warnings when the interpreter ended (BR-15)."""
        program = (
            "import sys, tensorflow as tf; from ignite_strategy import IgniteDataset\n"
            "dataset = IgniteDataset(sys.argv[1], sys.argv[2], int(sys.argv[3]), page_size=10)\n"
            "print('here', file=sys.stderr)\n"
            "kept = []\n"
            "for _ in range(5):\n"
            "    for row in dataset: break\n"
            "    kept.append(iter(dataset)); next(kept[-1])\n"
        )
        command = [sys.executable, "-c", program, numbers, where["host"], str(where["port"])]
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        after = done.stderr.partition("here\n")[2]
        assert not re.search("cancel|exception|error|leak", after, re.IGNORECASE), after
        queries = f"SELECT COUNT(*) FROM SYS.SCAN_QUERIES WHERE CACHE_NAME = '{numbers}'"
        deadline = time.monotonic() + 5
        while (left := sql(client, queries).rows[0][0]) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert left == 0

    @pytest.mark.since("2.8")
    def test_report_names_node_and_rows(self, numbers, where, cluster):
        dataset = IgniteDataset(numbers, **where, partitions=[1, 2])
        rows = [len(keys(IgniteDataset(numbers, **where, part=part))) for part in (1, 2)]
        list(dataset)
        entries = library.reader_report()[-2:]
        assert [(entry["cache"], entry["partition"], entry["rows"], entry["state"]) for entry in entries] == [
            (numbers, 1, rows[0], "done"),
            (numbers, 2, rows[1], "done"),
        ]
        owners = cluster.partition_owners(numbers)
        for entry in entries:  # each from its primary, not through the node that was named
            assert entry["node_id"] == str(owners[entry["partition"]].node_id)
            assert entry["endpoint"] == owners[entry["partition"]].address
