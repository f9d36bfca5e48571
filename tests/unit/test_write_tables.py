"""How data that a user hands over is told apart into keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ignite_strategy.dataset.kinds import Kind, infer
from ignite_strategy.dataset.tables import Fields, stream
from ignite_strategy.errors import InvalidArgumentError

pandas = pytest.importorskip("pandas")


def one(data: Any, key: Any = None) -> Any:
    tables, rows = stream(data, key, False)
    (table,) = tables
    assert rows == table.rows
    return table


def test_a_column_is_the_key() -> None:
    table = one({"id": [1, 2], "x": [3, 4]}, "id")
    assert (table.key, table.val, table.rows) == ([1, 2], {"x": [3, 4]}, 2)


def test_several_columns_are_an_object() -> None:
    table = one({"a": [1], "b": ["x"], "c": [2.0]}, ["a", "b"])
    assert (table.key, table.val) == ({"a": [1], "b": ["x"]}, {"c": [2.0]})


def test_the_columns_that_read_returns() -> None:
    table = one({"key.a": [1], "val.x": [2], "val.n.y": [3]})
    assert (table.key, table.val) == ({"a": [1]}, {"x": [2], "n": {"y": [3]}})
    table = one({"key": [1], "val": ["only"]})
    assert (table.key, table.val) == ([1], ["only"])


def test_pairs_arrays_and_lists_of_mappings() -> None:
    assert one((np.arange(2), {"x": [1, 2]})).val == {"x": [1, 2]}
    table = one(np.ones((2, 3), np.float32), key=range(2))
    assert (table.key.tolist(), table.val.shape) == ([0, 1], (2, 3))
    table = one([{"id": 1, "x": 5}, {"id": 2}], "id")
    assert (table.key, table.val) == ([1, 2], {"x": [5, None]})
    structured = np.array([(1, 2.5)], [("id", "i4"), ("x", "f8")])
    assert one(structured, "id").val["x"].tolist() == [2.5]


def test_frames() -> None:
    frame = pandas.DataFrame({"id": [1, 2], "n": pandas.array([1, None], "Int64"), "s": ["a", None]})
    table = one(frame, "id")
    assert table.key.dtype == np.int64
    assert table.val["n"].mask.tolist() == [False, True]
    assert table.val["s"] == ["a", None]
    indexed = one(frame.set_index("id"))
    assert list(indexed.val) == ["n", "s"]
    assert indexed.key.tolist() == [1, 2]
    moments = pandas.to_datetime(pandas.Series(["2020-01-01 00:00", None])).dt.tz_localize("Europe/Berlin")
    table = one(pandas.DataFrame({"id": [1, 2], "t": moments, "c": pandas.Categorical(["x", "y"])}), "id")
    assert table.val["t"][0] == np.datetime64("2019-12-31T23:00")
    assert np.isnat(table.val["t"][1])
    index = pandas.date_range("2020-01-01", periods=2, tz="Europe/Berlin")
    assert one({"id": [1, 2], "t": index}, "id").val["t"][0] == np.datetime64("2019-12-31T23:00")
    assert infer(table.val["c"], "c") == Kind(9)


def test_columns_of_an_sql_key_are_found_whatever_their_case() -> None:
    table = one({"id": [1], "name": ["x"]}, Fields(("ID",), single=True))
    assert (table.key, table.val) == ([1], {"name": ["x"]})


def test_an_iterator_is_taken_piece_by_piece() -> None:
    taken = []

    def pieces() -> Any:
        for first in range(3):
            taken.append(first)
            yield {"key": [first], "val": [first]}

    tables, rows = stream(pieces(), None, False)
    assert rows is None
    next(tables)
    assert taken == [0]


@pytest.mark.parametrize(
    ("data", "key", "message"),
    [
        ({"id": [1], "x": [2]}, None, "do not say what the key is: give key='ID'"),
        ({"id": [1], "x": [2]}, "no", "no column 'no', only id, x"),
        ({"id": [1], "x": [2, 3]}, "id", "1 keys and 2 values"),
        ({"id": [1, 2], "x": [2, 3], "y": [1]}, "id", "columns of different length: val.x: 2, val.y: 1"),
        ({"id": [1]}, "id", "no other column"),
        (np.arange(3), None, "values without columns need their keys"),
        ({"key": [1], "x": [2]}, None, "do not say what the key is"),
        ({"key": [1]}, None, "no column 'val'"),
        ({"id": [1], "x": "text"}, "id", "'text' is not a column"),
    ],
)
def test_errors(data: Any, key: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        one(data, key)
