"""Rows with large arrays, which become tensors where they arrived: each stays what it is for as long as it is held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import ignite_strategy as igs
from ignite_strategy.settings import parse_endpoint

pytestmark = pytest.mark.integration
COUNT = 24
ITEMS = 30_000  # of 8 bytes: far above what is worth not to be copied


def longs(row: int) -> np.ndarray[Any, Any]:
    return np.arange(row, row + ITEMS + row, dtype=np.int64)


def doubles(row: int) -> np.ndarray[Any, Any]:
    return np.full(ITEMS, row + 0.5)


@pytest.fixture(scope="module")
def cache(one_node: str) -> str:
    """Keys of several lengths, so that arrays begin anywhere; two large arrays in a row."""
    rows = {
        "key": ["k" * (1 + i * 7 % 90) + str(i) for i in range(COUNT)],
        "number": list(range(COUNT)),
        "longs": [longs(i) for i in range(COUNT)],
        "doubles": [doubles(i) for i in range(COUNT)],
        "truths": [(np.arange(70_000) % (i + 2) == 0) for i in range(COUNT)],
    }
    igs.write("LARGE", rows, *parse_endpoint(one_node), key="key", create=True, partitions=4)
    return "LARGE"


def check(number: int, found: dict[str, Any]) -> None:
    assert np.array_equal(found["longs"], longs(number))
    assert np.array_equal(found["doubles"], doubles(number))
    assert np.array_equal(found["truths"], np.arange(70_000) % (number + 2) == 0)


@pytest.mark.parametrize("page", [1, 3, None])
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(lambda d: d, id="rows"),
        pytest.param(lambda d: d.batch(1).unbatch(), id="batches of one"),
        pytest.param(lambda d: d.padded_batch(1).unbatch(), id="padded"),
        pytest.param(lambda d: d.prefetch(4).shuffle(100), id="shuffled"),
    ],
)
def test_all_rows_are_held_at_once(
    cache: str, one_node: str, page: int | None, shape: Callable[[Any], Any]
) -> None:
    dataset = shape(igs.IgniteDataset(cache, *parse_endpoint(one_node), page_size=page))
    rows = [row["val"] for row in dataset]
    assert sorted(int(row["number"]) for row in rows) == list(range(COUNT))
    for row in rows:
        check(int(row["number"]), {name: row[name].numpy() for name in ("longs", "doubles", "truths")})


def test_ragged_batches_of_one(cache: str, one_node: str) -> None:
    batches = list(igs.IgniteDataset(cache, *parse_endpoint(one_node), page_size=1, batch_size=1))
    assert len(batches) == COUNT
    for batch in batches:
        row = batch["val"]
        found = {name: row[name].to_tensor()[0].numpy() for name in ("longs", "doubles", "truths")}
        check(int(row["number"][0]), found)


def test_who_computes_in_place_changes_no_other_row(cache: str, one_node: str) -> None:
    dataset = igs.IgniteDataset(cache, *parse_endpoint(one_node), page_size=1, columns=["val"])

    def double(row: dict[str, Any]) -> tuple[Any, ...]:
        value = row["val"]
        changed = value["longs"]
        for _ in range(5):
            changed = changed * 2
        return value["number"], changed, value["doubles"]

    for number, changed, untouched in dataset.map(double, num_parallel_calls=2).prefetch(8):
        assert np.array_equal(changed, longs(int(number)) * 32)
        assert np.array_equal(untouched, doubles(int(number)))


def test_keys_of_one_length_are_taken_as_they_arrive(one_node: str) -> None:
    """From the first rows on the others are placed so that nothing is copied; what is read is the same."""
    data = {
        "key": np.arange(40, dtype=np.int64),
        "val": [np.full(200_000 + i, i, np.int8) for i in range(40)],
    }
    igs.write("LARGEBYTES", data, *parse_endpoint(one_node), create=True, partitions=1)
    held = list(igs.IgniteDataset("LARGEBYTES", *parse_endpoint(one_node), page_size=1))
    assert len(held) == 40
    for row in held:
        number = int(row["key"])
        assert row["val"].shape == [200_000 + number]
        assert bool(tf.reduce_all(row["val"] == number))
    columns = igs.read("LARGEBYTES", *parse_endpoint(one_node), page_size=1)
    assert sorted(columns["key"]) == list(range(40))
