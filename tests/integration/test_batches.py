"""Small batches, which the native code hands over several at a time: none differs from one that came alone."""

from __future__ import annotations

import decimal
from contextlib import closing

import numpy as np
import pytest
from pyignite.datatypes import IntArrayObject

import ignite_strategy as igs
from ignite_strategy.settings import parse_endpoint
from ignite_strategy.topology.caches import connect, create_cache, put_objects

tf = pytest.importorskip("tensorflow")
from ignite_strategy.dataset import IgniteDataset  # noqa: E402

pytestmark = pytest.mark.integration

ROWS, BATCH = 3001, 7


@pytest.fixture(scope="module")
def at(one_node):
    host, port = parse_endpoint(one_node)
    return {"host": host, "port": port}


@pytest.fixture(scope="module")
def mixed(cluster):
    """Numbers, texts that are made while reading, arrays of one and of many lengths, NULLs."""
    with closing(connect(cluster.addresses)) as client:
        create_cache(client, "BATCHES", partitions=2)
        put_objects(
            client,
            "BATCHES",
            {
                n: {
                    "n": n,
                    "price": decimal.Decimal(n) / 8,
                    "name": None if n % 5 == 0 else f"name {n} " + "x" * (n % 40),
                    "pix": [n, n + 1, n + 2],
                    "ids": list(range(n % 6)),
                    "words": [str(n)] * (n % 3),
                }
                for n in range(ROWS)
            },
            fields={
                "n": "int",
                "price": "decimal",
                "name": "string",
                "pix": "int[]",
                "ids": "long[]",
                "words": "string[]",
            },
            type_name="Batches",
        )
    return "BATCHES"


def plain(value):
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


def row_by_row(dataset):
    """Its rows, one tuple each: the lists of a batch, transposed."""
    for batch in dataset:
        yield from zip(*(plain(value) for value in tf.nest.flatten(batch)))


@pytest.mark.parametrize("page_size", [1, 5, 7, 64, 1000, None])
@pytest.mark.parametrize("drop_remainder", [False, True])
def test_all_rows_in_order_whatever_the_page(mixed, at, page_size, drop_remainder):
    dataset = IgniteDataset(mixed, **at, page_size=page_size, nulls="default")
    batches = list(dataset.ragged_batch(BATCH, drop_remainder))
    sizes = [len(batch["key"]) for batch in batches]
    whole, rest = divmod(ROWS, BATCH)
    assert sizes == [BATCH] * whole + [rest] * (not drop_remainder and rest > 0)
    alone = list(IgniteDataset(mixed, **at, page_size=page_size, nulls="default"))
    keys = [int(row["key"]) for row in alone]
    assert [int(key) for batch in batches for key in batch["key"]] == keys[: sum(sizes)]
    for key, ids, n, name, pix, price, words in row_by_row(batches):
        assert (n, ids, words) == (key, list(range(key % 6)), [b"%d" % key] * (key % 3))
        assert (pix, decimal.Decimal(price.decode())) == ([key, key + 1, key + 2], decimal.Decimal(key) / 8)
        assert name == (b"" if key % 5 == 0 else b"name %d " % key + b"x" * (key % 40))


@pytest.mark.parametrize("page_size", [3, 50, None])
def test_rows_that_are_dropped_leave_no_gap(mixed, at, page_size):
    dataset = IgniteDataset(mixed, **at, page_size=page_size, nulls={"val.name": "drop"}, batch_size=BATCH)
    batches = list(dataset)
    keys = [int(key) for batch in batches for key in batch["key"]]
    assert sorted(keys) == [n for n in range(ROWS) if n % 5]
    assert {len(batch["key"]) for batch in batches[:-1]} == {BATCH}
    assert all(row[1] == list(range(row[0] % 6)) for row in row_by_row(batches))


def test_masks_go_with_their_values(mixed, at):
    dataset = IgniteDataset(mixed, **at, nulls="mask", batch_size=BATCH, page_size=100)
    for batch in dataset:
        there = batch["key"].numpy() % 5 != 0
        assert batch["val"]["name_mask"].numpy().tolist() == there.tolist()
        assert (batch["val"]["name"].numpy() != b"").tolist() == there.tolist()


def test_dense_arrays_may_change_their_length_between_batches(cluster, at, fresh_name):
    """One partition is read in the order of its keys' hashes, so the lengths are given by the order that was seen."""
    with closing(connect(cluster.addresses)) as client:
        create_cache(client, fresh_name, partitions=1)
        cache = client.get_cache(fresh_name)
        for n in range(60):
            cache.put(n, [n], value_hint=IntArrayObject)
        order = [int(row["key"]) for row in IgniteDataset(fresh_name, **at)]
        for i, n in enumerate(order):
            cache.put(n, [n] * (i // 20), value_hint=IntArrayObject)
        batches = list(IgniteDataset(fresh_name, **at).batch(10))
        assert [batch["val"].shape for batch in batches] == [(10, i // 2) for i in range(6)]
        assert [int(key) for batch in batches for key in batch["key"]] == order
        # In the middle of the third batch.
        cache.put(order[25], [1, 2, 3], value_hint=IntArrayObject)
        iterator = iter(IgniteDataset(fresh_name, **at).batch(10))
        assert [len(next(iterator)["key"]) for _ in range(2)] == [10, 10]
        for _ in range(2):
            with pytest.raises(
                tf.errors.InvalidArgumentError,
                match=rf"key {order[25]}: array val has 3 items where 1 were.*20 rows of this pass",
            ):
                next(iterator)


def test_batches_before_a_row_that_cannot_be_read_come_first(cluster, at, fresh_name):
    with closing(connect(cluster.addresses)) as client:
        create_cache(client, fresh_name, partitions=1)
        cache = client.get_cache(fresh_name)
        cache.put_all({n: n for n in range(100)})
        order = [int(row["key"]) for row in IgniteDataset(fresh_name, **at)]
        dataset = IgniteDataset(fresh_name, **at, batch_size=8)
        cache.put(order[50], "text")
        iterator = iter(dataset)
        assert [key for _ in range(6) for key in next(iterator)["key"].numpy().tolist()] == order[:48]
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"key {order[50]}.*48 rows of this pass"):
            next(iterator)


def test_a_statements_batches(cluster, at):
    values = {"key": np.arange(1000, dtype=np.int32), "val": {"X": np.arange(1000.0)}}
    igs.write("BATCHES_SQL", values, addresses=cluster.addresses, create=True, partitions=2, sql=True)
    dataset = IgniteDataset.from_sql(
        "SELECT X FROM BATCHES_SQL ORDER BY X", **at, batch_size=64, page_size=100
    )
    batches = [batch["X"].numpy().tolist() for batch in dataset]
    assert [len(batch) for batch in batches] == [64] * 15 + [40]
    assert [x for batch in batches for x in batch] == list(map(float, range(1000)))


def test_large_batches_come_one_by_one(mixed, at):
    """Groups save work that large batches do not have; and shorter arrays are padded to the longest of one batch."""
    grouped = IgniteDataset(mixed, **at, nulls="default").padded_batch(BATCH)
    plain_batches = IgniteDataset(mixed, **at, nulls="default").take(-1).padded_batch(BATCH)
    for ours, theirs in zip(grouped, plain_batches):
        assert ours["val"]["ids"].numpy().tolist() == theirs["val"]["ids"].numpy().tolist()
    (batch,) = IgniteDataset(mixed, **at, nulls="default", batch_size=100_000)
    assert sorted(batch["key"].numpy().tolist()) == list(range(ROWS))


def test_tf_data_optimizes_what_follows(mixed, at, capfd):
    """It says so when it cannot; a user's map() then runs on one processor."""
    for dataset in (
        IgniteDataset(mixed, **at, nulls="default"),
        IgniteDataset(mixed, **at, nulls="default", batch_size=BATCH),
        IgniteDataset(mixed, **at, nulls="default", batch_size=100_000),
    ):
        assert len(list(dataset.map(lambda row: row["key"]).prefetch(2))) > 0
    assert "will not be optimized" not in capfd.readouterr().err
