"""Where rows come from: SQL statements, some columns, keys or values alone, any cache; and how many there are."""

from __future__ import annotations

import datetime
import decimal
import json
import re
from itertools import chain

import pytest
from pyignite.datatypes import prop_codes
from pyignite.datatypes.cache_config import CacheMode

from ignite_strategy.errors import (
    InvalidArgumentError,
    PreconditionError,
    ServerError,
    UnsupportedError,
)
from ignite_strategy.topology.caches import create_cache, put_objects, sql
from tests.counting import CountingProxy

tf = pytest.importorskip("tensorflow")
from ignite_strategy.dataset import IgniteDataset  # noqa: E402

pytestmark = pytest.mark.integration

ROWS, PARTITIONS = 230, 4


@pytest.fixture(scope="module")
def table(client):
    sql(
        client,
        "CREATE TABLE SOURCES (ID INT PRIMARY KEY, NAME VARCHAR, WEIGHT DOUBLE, BORN TIMESTAMP, PRICE DECIMAL(12, 3)) "
        'WITH "TEMPLATE=igs-p4-,CACHE_NAME=SOURCES"',
    )
    for first in range(0, ROWS, 46):
        values = ", ".join(
            f"({n}, 'n{n}', {n / 2}, TIMESTAMP '2020-01-01 00:00:{n % 60:02d}', {n}.125)"
            for n in range(first, first + 46)
        )
        sql(client, f"INSERT INTO SOURCES VALUES {values}")
    return "SOURCES"


def rows(dataset) -> list[dict]:
    return [tf.nest.map_structure(lambda tensor: tensor.numpy(), row) for row in dataset]


class TestSql:
    def test_rows_with_an_argument(self, table, where):
        dataset = IgniteDataset.from_sql("SELECT NAME, ID, WEIGHT FROM SOURCES WHERE ID < ?", [3], **where)
        assert dataset.element_spec == {
            "ID": tf.TensorSpec([], tf.int32),
            "NAME": tf.TensorSpec([], tf.string),
            "WEIGHT": tf.TensorSpec([], tf.float64),
        }
        assert sorted(rows(dataset), key=lambda row: row["ID"]) == [
            {"ID": n, "NAME": b"n%d" % n, "WEIGHT": n / 2} for n in range(3)
        ]
        assert "SELECT NAME" in repr(dataset)

    def test_many_columns_over_several_pages(self, table, where):
        """apache/ignite #8203 (IGNITE-12809): from the second page on columns were sorted as text (BR-13)."""
        names = ", ".join(f"ID * 100 + {n} AS C{n}" for n in range(12))
        dataset = IgniteDataset.from_sql(f"SELECT {names} FROM SOURCES", **where, page_size=10)
        got = rows(dataset)
        assert len(got) == ROWS
        for row in got:
            assert [row[f"C{n}"] - row["C0"] for n in range(12)] == list(range(12))

    @pytest.mark.parametrize(("page_size", "pages"), [(10, 3), (25, 1), (1, 25), (None, 1)])
    def test_each_page_is_one_request(self, table, one_node, page_size, pages):
        """apache/ignite-python-thin-client #13 (IGNITE-14127): by default every row cost a round trip (BR-13)."""
        query, next_page = 2004, 2005
        text = "SELECT ID FROM SOURCES WHERE ID < 25"
        with CountingProxy(one_node) as proxy:
            dataset = IgniteDataset.from_sql(text, host=proxy.host, port=proxy.port, page_size=page_size)
            proxy.requests.clear()
            assert sorted(row["ID"] for row in rows(dataset)) == list(range(25))
            assert (proxy.requests[query], proxy.requests[next_page]) == (1, pages - 1)

    def test_arguments_of_every_type(self, table, where):
        text = "SELECT ID FROM SOURCES WHERE NAME = ? AND WEIGHT = ? AND BORN = ? AND PRICE = ? AND ? IS NULL AND ?"
        args = ["n7", 3.5, datetime.datetime(2020, 1, 1, 0, 0, 7), decimal.Decimal("7.125"), None, True]
        try:
            (row,) = rows(IgniteDataset.from_sql(text, args, **where))
        except PreconditionError:  # the servers' own zone is not UTC
            args[2] = datetime.datetime(2020, 1, 1, 0, 0, 7).astimezone()
            (row,) = rows(IgniteDataset.from_sql(text, args, **where))
        assert row == {"ID": 7}

    def test_batches_and_aggregates(self, table, where):
        (one,) = rows(IgniteDataset.from_sql("SELECT COUNT(*) AS N, SUM(WEIGHT) AS W FROM SOURCES", **where))
        assert one == {"N": ROWS, "W": sum(range(ROWS)) / 2}
        batches = list(IgniteDataset.from_sql("SELECT ID FROM SOURCES", **where, batch_size=100))
        assert [len(batch["ID"]) for batch in batches] == [100, 100, 30]
        batches = list(IgniteDataset.from_sql("SELECT ID FROM SOURCES", **where).batch(100, True))
        assert [len(batch["ID"]) for batch in batches] == [100, 100]

    @pytest.mark.since("2.9")
    def test_a_task_runs_it_over_its_own_partitions(self, table, where, monkeypatch):
        text = "SELECT ID FROM SOURCES"
        dataset = IgniteDataset.from_sql(text, cache_name=table, **where)
        whole = IgniteDataset.from_sql("SELECT COUNT(*) AS N FROM SOURCES", every_task=True, **where)
        unnamed = IgniteDataset.from_sql(text, **where)
        shares = []
        for part in range(PARTITIONS):
            monkeypatch.setenv("IGNITE_STRATEGY_PARTITIONS", json.dumps({table: [part]}))
            shares.append([row["ID"] for row in rows(dataset)])
            scanned = [row["key"] for row in rows(IgniteDataset(table, **where, columns=["key"]))]
            assert sorted(shares[-1]) == sorted(scanned)
            assert rows(whole) == [{"N": ROWS}]
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"cache_name=.*every_task=True"):
                rows(unnamed)
        assert sorted(chain(*shares)) == list(range(ROWS))

    @pytest.mark.since("2.9")
    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("SELECT X FROM SYSTEM_RANGE(1, 9)", "no partitioned table"),
            (
                "SELECT ID FROM SOURCES UNION ALL SELECT CAST(X AS INT) FROM SYSTEM_RANGE(1, 9)",
                "several queries",
            ),
            ("SELECT ID FROM SOURCES LIMIT 3", "LIMIT"),
            ("SELECT ID FROM SOURCES OFFSET 3", "OFFSET"),
            ("SELECT DISTINCT ID FROM SOURCES", "DISTINCT"),
            ("SELECT COUNT(*) AS N FROM SOURCES", "SUM"),
            ("SELECT ID FROM (SELECT ID FROM SOURCES LIMIT 3)", "LIMIT"),
        ],
    )
    def test_what_tasks_cannot_share(self, table, where, monkeypatch, text, why):
        """Each task would get rows that are not its own, or too few; whole in every task it runs."""
        whole = rows(IgniteDataset.from_sql(text, **where))
        shared = IgniteDataset.from_sql(text, cache_name=table, **where)
        every = IgniteDataset.from_sql(text, cache_name=table, every_task=True, **where)
        monkeypatch.setenv("IGNITE_STRATEGY_PARTITIONS", json.dumps({table: [1]}))
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"cannot be shared.*{why}.*every_task=True"):
            rows(shared)
        assert len(rows(every)) == len(whole)

    @pytest.mark.since("2.9")
    def test_words_that_only_look_like_it(self, table, where, monkeypatch):
        text = """SELECT ID AS "LIMIT", 'COUNT(' AS "OFFSET" FROM SOURCES /* DISTINCT */ ORDER BY ID"""
        dataset = IgniteDataset.from_sql(text, cache_name=table, **where)
        found = []
        for part in range(PARTITIONS):
            monkeypatch.setenv("IGNITE_STRATEGY_PARTITIONS", json.dumps({table: [part]}))
            found += [row["LIMIT"] for row in rows(dataset)]
        assert sorted(found) == list(range(ROWS))

    @pytest.mark.parametrize(("name", "told"), [("id", "but 'ID'"), ("NO", "only 'ID'")])
    def test_a_declared_column_that_the_statement_has_not(self, table, where, name, told):
        """It came as zeros."""
        spec = {name: tf.TensorSpec([], tf.int64)}
        with pytest.raises(InvalidArgumentError, match=f"{name!r}.*{told}"):
            IgniteDataset.from_sql("SELECT ID FROM SOURCES", element_spec=spec, **where)

    @pytest.mark.parametrize(
        ("text", "args", "error", "message"),
        [
            ("SELECT NO_SUCH FROM SOURCES", [], ServerError, "NO_SUCH"),
            ("DELETE FROM SOURCES", [], ServerError, "running SQL 'DELETE"),
            ("SELECT ID FROM SOURCES WHERE ID = ?", [], ServerError, "SELECT ID"),
            ("SELECT ID, ID FROM SOURCES", [], UnsupportedError, "several columns called ID"),
            ("", [], InvalidArgumentError, "query=''"),
            ("SELECT ?", [object()], InvalidArgumentError, "type object"),
            ("SELECT ?", "x", InvalidArgumentError, "args='x'"),
        ],
    )
    def test_what_cannot_be_read(self, table, where, text, args, error, message):
        with pytest.raises(error, match=message):
            IgniteDataset.from_sql(text, args, **where)

    @pytest.mark.parametrize(
        ("text", "why", "spec"),
        [
            (
                "SELECT ID, NAME FROM SOURCES WHERE ID < 0",
                "it has no row",
                {"ID": tf.TensorSpec([], tf.int64), "NAME": tf.TensorSpec([], tf.int64)},
            ),
            (
                "SELECT NAME, NULL AS N, WEIGHT FROM SOURCES",
                r"first \d+ rows have only NULLs in N",
                {
                    "NAME": tf.TensorSpec([], tf.string),
                    "N": tf.TensorSpec([], tf.int64),
                    "WEIGHT": tf.TensorSpec([], tf.float64),
                },
            ),
        ],
    )
    def test_a_result_that_tells_no_type_prints_the_spec_to_pass(self, table, where, text, why, spec):
        with pytest.raises(PreconditionError, match=why) as raised:
            IgniteDataset.from_sql(text, **where, nulls={"val.N": "default"})
        printed = eval(re.search(r"element_spec=({.*})", str(raised.value))[1], {"tf": tf})
        assert printed == spec
        dataset = IgniteDataset.from_sql(text, **where, nulls="default", element_spec=printed)
        assert dataset.element_spec == spec
        assert len(rows(dataset)) == (ROWS if "NULL" in text else 0)

    def test_empty_result_of_a_declared_type(self, table, where):
        spec = {"ID": tf.TensorSpec([], tf.int32)}
        dataset = IgniteDataset.from_sql("SELECT ID FROM SOURCES WHERE ID < 0", **where, element_spec=spec)
        assert rows(dataset) == []
        assert dataset.num_rows() == 0

    def test_null_policies(self, client, table, where):
        text = "SELECT ID, CASE WHEN ID < 2 THEN NULL ELSE NAME END AS N FROM SOURCES WHERE ID < 4"
        got = rows(IgniteDataset.from_sql(text, **where, nulls="mask"))
        assert {row["ID"]: (row["N"], row["N_mask"]) for row in got}[1] == (b"", False)
        assert len(rows(IgniteDataset.from_sql(text, **where, nulls="drop"))) == 2
        with pytest.raises(tf.errors.OpError, match="N"):
            rows(IgniteDataset.from_sql(text, **where))


class TestNumberOfRows:
    def test_of_a_cache_of_partitions_and_of_a_statement(self, table, where, monkeypatch):
        dataset = IgniteDataset(table, **where, columns=["key"])
        assert dataset.num_rows() == ROWS
        parts = [
            IgniteDataset(table, **where, part=part, columns=["key"]).num_rows() for part in range(PARTITIONS)
        ]
        assert all(parts)
        assert sum(parts) == ROWS
        statement = IgniteDataset.from_sql("SELECT ID FROM SOURCES WHERE ID < 50", **where)
        assert statement.num_rows() == 50
        monkeypatch.setenv("IGNITE_STRATEGY_PARTITIONS", json.dumps({table: [1]}))
        assert dataset.num_rows() == parts[1]

    def test_tells_keras_how_many_elements_there_are(self, table, where):
        dataset = IgniteDataset(table, **where, columns=["key"], assert_rows=True)
        assert int(dataset.cardinality()) == ROWS
        assert int(dataset.batch(100).cardinality()) == 3
        assert int(dataset.batch(100, drop_remainder=True).cardinality()) == 2
        assert int(IgniteDataset(table, **where, batch_size=230, assert_rows=True).cardinality()) == 1
        assert len(rows(dataset)) == ROWS
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        pairs = IgniteDataset(table, **where, columns=["key", "val.WEIGHT"], assert_rows=True)
        history = model.fit(
            pairs.map(
                lambda row: (tf.reshape(tf.cast(row["key"], tf.float32), [1]), row["val"]["WEIGHT"])
            ).batch(46),
            verbose=0,
        )
        assert history.params["steps"] == 5

    def test_in_a_task_its_own_rows_are_counted(self, table, where, monkeypatch):
        """Another process that runs a graph has other partitions than the one that builds it: nothing is asserted."""
        dataset = IgniteDataset(table, **where, columns=["key"])
        monkeypatch.setenv("IGNITE_STRATEGY_PARTITIONS", json.dumps({table: [1, 3]}))
        mine = dataset.num_rows()
        assert 0 < mine < ROWS
        for options in ({}, {"batch_size": 10, "nulls": "drop"}):
            asserted = IgniteDataset(table, **where, columns=["key"], assert_rows=True, **options)
            assert int(asserted.cardinality()) == (-(-mine // 10) if options else mine)
            assert len(rows(asserted)) == int(asserted.cardinality())
        monkeypatch.delenv("IGNITE_STRATEGY_PARTITIONS")
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            built = IgniteDataset(table, **where, columns=["key"], batch_size=ROWS, assert_rows=True)
            following = tf.compat.v1.data.make_one_shot_iterator(built).get_next()
            monkeypatch.setenv("IGNITE_STRATEGY_PARTITIONS", json.dumps({table: [1, 3]}))
            assert len(session.run(following)["key"]) == mine

    def test_an_unknown_place_is_an_error(self, table, where):
        spec = {"key": tf.TensorSpec([], tf.int32)}
        dataset = IgniteDataset(table, **where, part=tf.constant(1), element_spec=spec)
        with pytest.raises(InvalidArgumentError, match="num_rows"):
            dataset.num_rows()


class TestCaches:
    def test_keys_or_values_alone(self, table, where):
        keys = sorted(row["key"] for row in rows(IgniteDataset(table, **where, columns=["key"])))
        assert keys == list(range(ROWS))
        names = rows(IgniteDataset(table, **where, columns=["val.NAME"]))
        assert sorted(row["val"]["NAME"] for row in names) == sorted(b"n%d" % n for n in range(ROWS))

    @pytest.mark.parametrize("options", [{}, {"parallel_reads": 3}, {"partitions": "0-511"}])
    def test_replicated(self, client, where, fresh_name, options):
        create_cache(client, fresh_name, mode="replicated")
        client.get_cache(fresh_name).put_all({n: n for n in range(500)})
        dataset = IgniteDataset(fresh_name, **where, **options)
        assert sorted(row["key"] for row in rows(dataset)) == list(range(500))
        assert dataset.num_rows() == 500

    def test_caches_of_a_group(self, client, where, fresh_name):
        for number in range(2):
            cache = client.create_cache(
                {
                    prop_codes.PROP_NAME: f"{fresh_name}_{number}",
                    prop_codes.PROP_GROUP_NAME: fresh_name,
                    prop_codes.PROP_CACHE_MODE: CacheMode.PARTITIONED,
                }
            )
            cache.put_all(dict.fromkeys(range(100 * (number + 1)), number))
        for number in range(2):
            for options in ({}, {"parallel_reads": 2, "deterministic": False}):
                got = rows(IgniteDataset(f"{fresh_name}_{number}", **where, **options))
                assert sorted(row["key"] for row in got) == list(range(100 * (number + 1)))
                assert {row["val"] for row in got} == {number}

    @pytest.mark.parametrize("name", ["кошки и собаки", "行と列", "a.b/c d"])
    def test_any_name(self, client, where, name, fresh_name):
        """The id of a cache is Java's hash of its name's UTF-16 units."""
        name += fresh_name
        client.create_cache(name).put_all({1: 2})
        assert rows(IgniteDataset(name, **where)) == [{"key": 1, "val": 2}]


class TestPrimaries:
    @pytest.mark.since("2.9")
    def test_every_partition_comes_from_its_own_node(self, client, cluster, where, fresh_name):
        from ignite_strategy import library

        create_cache(client, fresh_name, partitions=12)
        client.get_cache(fresh_name).put_all({n: n for n in range(600)})
        owners = cluster.partition_owners(fresh_name)
        for options in ({}, {"parallel_reads": 4}, {"parallel_reads": 4, "deterministic": False}):
            got = [row["key"] for row in rows(IgniteDataset(fresh_name, **where, **options))]
            assert sorted(got) == list(range(600))
            entries = [entry for entry in library.reader_report() if entry["cache"] == fresh_name][-12:]
            for entry in entries:
                assert entry["endpoint"] == owners[entry["partition"]].address

    @pytest.mark.since("2.9")
    def test_many_small_partitions_of_a_node_are_one_query(self, client, cluster, where, fresh_name):
        from ignite_strategy import library

        create_cache(client, fresh_name)  # 1024 partitions
        client.get_cache(fresh_name).put_all({n: n for n in range(600)})
        dataset = IgniteDataset(fresh_name, **where)
        assert sorted(row["key"] for row in rows(dataset)) == list(range(600))
        entries = [entry for entry in library.reader_report() if entry["cache"] == fresh_name]
        assert {entry["endpoint"] for entry in entries} == {node.address for node in cluster.nodes}
        assert {entry["partition"] for entry in entries} == {-1}
        assert len(entries) == len(cluster.nodes)

    def test_the_order_is_the_same_in_every_pass(self, client, where, fresh_name):
        create_cache(client, fresh_name, partitions=8)
        client.get_cache(fresh_name).put_all({n: n for n in range(2000)})
        dataset = IgniteDataset(fresh_name, **where, parallel_reads=3, page_size=17)
        orders = [[row["key"] for row in rows(dataset)] for _ in range(3)]
        assert sorted(orders[0]) == list(range(2000))
        assert orders[0] == orders[1] == orders[2]

    @pytest.mark.parametrize("count", [0, 65, "2"])
    def test_impossible_numbers_of_connections(self, table, where, count):
        with pytest.raises(InvalidArgumentError, match="parallel_reads="):
            IgniteDataset(table, **where, parallel_reads=count)


@pytest.fixture(scope="module")
def arrays(client):
    create_cache(client, "ARRAYS_OF_SOURCES", partitions=2)
    fields = {"xs": "int[]", "names": "string[]", "n": "int"}
    put_objects(
        client,
        "ARRAYS_OF_SOURCES",
        {n: {"xs": list(range(n % 4)), "names": ["a"] * (n % 3), "n": n} for n in range(50)},
        fields=fields,
        type_name="ArraysOfSources",
    )
    return "ARRAYS_OF_SOURCES"


class TestBatchesOfArrays:
    def test_ragged_batch_is_that_of_tf_data(self, arrays, where):
        dataset = IgniteDataset(arrays, **where)
        fast, plain = dataset.ragged_batch(8), dataset.take(-1).ragged_batch(8)
        assert [len(batch["key"]) for batch in fast] == [8] * 6 + [2]
        for ours, theirs in zip(fast, plain):
            for name in ("xs", "names"):
                assert ours["val"][name].to_list() == theirs["val"][name].to_list()
            assert ours["key"].numpy().tolist() == theirs["key"].numpy().tolist()
        assert [len(batch["key"]) for batch in dataset.ragged_batch(8, drop_remainder=True)] == [8] * 6

    def test_padded_batch_is_that_of_tf_data(self, arrays, where):
        dataset = IgniteDataset(arrays, **where)
        fast, plain = dataset.padded_batch(8), dataset.take(-1).padded_batch(8)
        assert fast.element_spec == plain.element_spec
        count = 0
        for ours, theirs in zip(fast, plain):
            for one, other in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs)):
                assert one.numpy().tolist() == other.numpy().tolist()
            count += 1
        assert count == 7
        values = dataset.padded_batch(
            8, padding_values={"key": None, "val": {"xs": -1, "names": "", "n": None}}
        )
        assert -1 in next(iter(values))["val"]["xs"].numpy()
