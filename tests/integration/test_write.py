"""Bulk writing to real nodes: rows come back equal by every reader, tables see them, caches are made as asked."""

from __future__ import annotations

import datetime
import decimal
import enum
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ignite_strategy as igs
from ignite_strategy import _core
from ignite_strategy.errors import (
    AlreadyExistsError,
    IgniteStrategyError,
    InvalidArgumentError,
    NotFoundError,
    PreconditionError,
    UnsupportedError,
    WriteError,
)
from ignite_strategy.local import LocalCluster
from ignite_strategy.topology import caches

pytestmark = pytest.mark.integration

ROWS = 3000


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


def columns(rows: int = ROWS) -> dict[str, Any]:
    at = np.arange(rows)
    return {
        "id": at * 7,
        "a": (at - 5).astype(np.int32),
        "b": at * 0.5,
        "f": at.astype(np.float32),
        "flag": at % 2 == 0,
        "name": [f"größe {i}" for i in range(rows)],
        "pix": (at[:, None] + np.arange(16)).astype(np.float32),
        "tags": [[f"t{k}" for k in range(i % 3)] for i in range(rows)],
    }


def by_key(read: dict[str, Any]) -> dict[str, Any]:
    order = np.argsort(read["key"])
    return {column: values[order] for column, values in read.items()}


def plain(value: Any) -> Any:
    """What reading gives as Python's own."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def test_rows_come_back_equal_by_every_reader(cluster: LocalCluster, client: Any, name: str) -> None:
    tf = pytest.importorskip("tensorflow")
    data = columns()
    report = igs.write(name, data, addresses=cluster.addresses, key="id", create=True, partitions=4)
    told = os.environ.get("IGNITE_STRATEGY_TEST_VERSION") != "2.7.6"  # where the partitions are
    assert (report.rows, report.nodes, report.partition_aware) == (ROWS, 2 if told else 1, told)

    read = by_key(igs.read(name, addresses=cluster.addresses))
    assert read["key"].tolist() == data["id"].tolist()
    for column in ("a", "b", "f", "flag"):
        assert read[f"val.{column}"].dtype == data[column].dtype
        assert (read[f"val.{column}"] == data[column]).all()
    assert [text.decode() for text in read["val.name"]] == data["name"]
    assert (np.stack(list(read["val.pix"])) == data["pix"]).all()
    assert [[tag.decode() for tag in tags] for tags in read["val.tags"]] == data["tags"]

    rows = {}
    for batch in igs.IgniteDataset(name, addresses=cluster.addresses, batch_size=256):
        for key, number, text in zip(
            batch["key"].numpy(), batch["val"]["a"].numpy(), batch["val"]["name"].numpy()
        ):
            rows[int(key)] = (int(number), text.decode())
    assert rows == {7 * i: (i - 5, f"größe {i}") for i in range(ROWS)}
    assert tf.__version__

    from pyignite.datatypes import LongObject

    found = client.get_cache(name).get(7 * 11, key_hint=LongObject)
    assert (found.a, found.b, found.flag, found.name) == (6, 5.5, False, "größe 11")
    assert (found.pix, found.tags) == (data["pix"][11].tolist(), ["t0", "t1"])


def test_an_sql_table_is_made_and_sees_the_rows(cluster: LocalCluster, client: Any, name: str) -> None:
    data = {column: values for column, values in columns(100).items() if column != "tags"}
    igs.write(name, data, addresses=cluster.addresses, key="id", create=True, sql=True, backups=1)
    answer = caches.sql(
        client, f'SELECT COUNT(*), SUM(a), MAX(b), SUM(CASE WHEN flag THEN 1 END) FROM "{name}"'
    )
    assert answer.rows == [[100, sum(range(-5, 95)), 49.5, 50]]
    assert caches.sql(client, f'SELECT name FROM "{name}" WHERE id = ?', [21]).rows == [["größe 3"]]
    assert client.get_cache(name).settings[3] == 1  # backups


@pytest.mark.parametrize("partitions", [None, 2])
def test_a_table_with_any_partition_count_has_the_columns(
    cluster: LocalCluster, client: Any, name: str, partitions: int | None
) -> None:
    data = {"number": np.arange(10), "text": list("abcdefghij")}
    igs.write(
        name, data, addresses=cluster.addresses, key="number", create=True, sql=True, partitions=partitions
    )
    assert caches.sql(client, f'SELECT text FROM "{name}" WHERE number = 3').rows == [["d"]]


@pytest.mark.parametrize("partitions", [None, 2])
@pytest.mark.parametrize("of", [["part", "number"], ["number"]])
def test_a_table_whose_key_is_an_object(
    cluster: LocalCluster, client: Any, name: str, partitions: int | None, of: list[str]
) -> None:
    """Its rows are found, replaced and joined by SQL under the same keys."""
    data = {
        "number": np.arange(20, dtype=np.int32),
        "part": [f"p{i % 3}" for i in range(20)],
        "text": [f"t{i}" for i in range(20)],
    }
    options = {"addresses": cluster.addresses, "create": True, "partitions": partitions}
    assert igs.write(name, data, key=of, sql=True, **options).rows == 20
    where = " AND ".join(f"{column} = {'?' if column == 'number' else repr('p1')}" for column in of)
    assert caches.sql(client, f'SELECT text FROM "{name}" WHERE {where}', [4]).rows == [["t4"]]
    caches.sql(client, f"UPDATE \"{name}\" SET text = 'new' WHERE {where}", [4])
    caches.sql(client, f"MERGE INTO \"{name}\" (number, part, text) VALUES (7, 'p1', 'merged')")
    caches.sql(client, f"INSERT INTO \"{name}\" (number, part, text) VALUES (50, 'p1', 'more')")
    # Without key= the table says which columns are the key.
    again = {"number": np.int32([5, 60]), "part": ["p2", "p0"], "text": ["written", "w"]}
    assert igs.write(name, again, addresses=cluster.addresses).rows == 2
    rows = caches.sql(client, f'SELECT number, part, text FROM "{name}" ORDER BY number').rows
    expected = {i: [i, f"p{i % 3}", f"t{i}"] for i in range(20)}
    expected[4][2], expected[7][2], expected[5][2] = "new", "merged", "written"
    assert rows == [*expected.values(), [50, "p1", "more"], [60, "p0", "w"]]
    read = igs.read(name, addresses=cluster.addresses)
    assert len(read["key.number" if len(of) == 1 else "key.part"]) == 22


def test_a_table_made_by_create_table_decides_the_types(one_node: str, client: Any, fresh_name: str) -> None:
    """Columns are matched by name whatever the case; the types are the table's, and NULLs are NULLs."""
    table = f"W_{fresh_name}"
    host, port = one_node.split(":")
    caches.sql(
        client,
        f"CREATE TABLE {table} (A INT, B VARCHAR, D DATE, TS TIMESTAMP, DEC DECIMAL(20, 3), U UUID, TI TIME, Q DOUBLE, "
        f"S SMALLINT, BYTES BINARY, PRIMARY KEY (A, B))",
    )
    moment = datetime.datetime(2020, 1, 1, 1, 2, 3, 456789)
    rows = {
        "a": [1, 2],
        "b": ["x", "y"],
        "d": [datetime.date(2020, 2, 29), None],
        "ts": [moment, None],
        "dec": [decimal.Decimal("-1.250"), None],
        "u": [uuid.UUID(int=5), None],
        "ti": [datetime.time(3, 4, 5), None],
        "q": [1, None],
        "s": [-3, None],
        "bytes": [b"\x00\xff", None],
    }
    cache = f"SQL_PUBLIC_{table}"
    assert igs.write(cache, rows, host, int(port)).rows == 2
    answer = caches.sql(
        client,
        f"SELECT A, B, CAST(D AS VARCHAR), TS, DEC, U, CAST(TI AS VARCHAR), Q, S, BYTES FROM {table} ORDER BY A",
    ).rows
    whole = (moment.replace(microsecond=456000), 789000)
    assert answer[0] == [
        1, "x", "2020-02-29", whole, decimal.Decimal("-1.250"), uuid.UUID(int=5), "03:04:05", 1.0, -3, b"\x00\xff",
    ]  # fmt: skip
    assert answer[1][2:] == [None] * 8
    # Found by its key, and replaced by SQL and by another write.
    assert caches.sql(client, f"SELECT Q FROM {table} WHERE A = 1 AND B = 'x'").rows == [[1.0]]
    caches.sql(client, f"UPDATE {table} SET Q = 5 WHERE A = 1 AND B = 'x'")
    caches.sql(client, f"INSERT INTO {table} (A, B, D) VALUES (3, 'z', '2021-03-04')")
    igs.write(cache, {"a": [3], "b": ["z"], "d": [datetime.date(2022, 1, 1)]}, host, int(port))
    assert caches.sql(client, f"SELECT A, Q, CAST(D AS VARCHAR) FROM {table} ORDER BY A").rows == [
        [1, 5.0, "2020-02-29"],
        [2, None, None],
        [3, None, "2022-01-01"],
    ]
    with pytest.raises(InvalidArgumentError, match="no column 'nope', only A, B"):
        igs.write(cache, {"a": [1], "b": ["x"], "nope": [1]}, host, int(port))
    with pytest.raises(WriteError, match="cannot become an int unchanged"):
        igs.write(cache, {"a": [2**40], "b": ["x"], "q": [1.0]}, host, int(port))
    caches.sql(client, f"DROP TABLE {table}")


def test_every_type_with_nulls_comes_back(cluster: LocalCluster, name: str) -> None:
    rows = [
        {
            "id": i,
            "u": uuid.UUID(int=i),
            "dec": decimal.Decimal(i) / 8,
            "ts": datetime.datetime(2020, 1, 1, 0, 0, i),
            "day": datetime.date(2020, 1, 1 + i),
            "at": datetime.time(0, 0, i),
            "size": Size.LARGE,
            "inner": {"x": i, "deep": {"y": f"y{i}"}},
            "blob": [1, 2, i],
        }
        for i in range(4)
    ]
    igs.write(name, rows, addresses=cluster.addresses, key="id", create=True, types={"blob": "byte[]"})
    read = by_key(igs.read(name, addresses=cluster.addresses))
    assert read["val.u"].tolist() == [str(row["u"]).encode() for row in rows]
    assert [decimal.Decimal(text.decode()) for text in read["val.dec"]] == [row["dec"] for row in rows]
    assert read["val.ts"].tolist() == [1577836800_000000000 + i * 10**9 for i in range(4)]
    assert read["val.day"].tolist() == [1577836800_000 + i * 86_400_000 for i in range(4)]
    assert read["val.at"].tolist() == [i * 1000 for i in range(4)]
    assert read["val.size"].tolist() == [1] * 4
    assert read["val.inner.deep.y"].tolist() == [f"y{i}".encode() for i in range(4)]
    assert [each.tolist() for each in read["val.blob"]] == [[1, 2, i] for i in range(4)]


_UUIDS = [uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"), uuid.UUID(int=0)]
_UUID_TEXTS = [str(each).encode() for each in _UUIDS]
_DECIMALS = [decimal.Decimal("-0.01"), decimal.Decimal("1E+3")]
_DECIMAL_TEXTS = [b"-0.01", b"1E+3"]
_MOMENTS = [datetime.datetime(1969, 12, 31, 23, 59, 59, 999000), datetime.datetime(2038, 1, 20)]
_DAYS = [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)]
_DAY_MILLIS = [-86_400_000, 1_709_164_800_000]
_TIMES = [datetime.time(0, 0, 5), datetime.time(23, 59, 59)]
_TIME_MILLIS = [5000, 86_399_000]
_MILLIS, _NANOS = [-1, 2_147_558_400_000], [-1_000_000, 2_147_558_400_000_000_000]
# For each code of the type table: the type as it is declared, two values, what reading gives for them.
EVERY_TYPE: dict[int, tuple[Any, list[Any], list[Any]]] = {
    1: ("byte", [-5, 127], [-5, 127]),
    2: ("short", [-300, 7], [-300, 7]),
    3: ("int", [-70_000, 7], [-70_000, 7]),
    4: ("long", [-(2**40), 7], [-(2**40), 7]),
    5: ("float", [1.5, -0.25], [1.5, -0.25]),
    6: ("double", [1e300, -0.1], [1e300, -0.1]),
    7: ("char", ["Ж", "A"], [0x416, 65]),
    8: ("bool", [True, False], [True, False]),
    9: ("string", ["a\0é𝄞", ""], ["a\0é𝄞".encode(), b""]),
    10: ("uuid", _UUIDS, _UUID_TEXTS),
    11: ("date", _MOMENTS, _MILLIS),
    12: ("byte[]", [b"\x01\xff", []], [[1, -1], []]),
    13: ("short[]", [[-2], [1, 2]], [[-2], [1, 2]]),
    14: ("int[]", [[-1, 2], []], [[-1, 2], []]),
    15: ("long[]", [[2**40], [1]], [[2**40], [1]]),
    16: ("float[]", [[0.5], []], [[0.5], []]),
    17: ("double[]", [[0.1], [1e300]], [[0.1], [1e300]]),
    18: ("char[]", [["Ж", "A"], []], [[0x416, 65], []]),
    19: ("bool[]", [[True, False], []], [[True, False], []]),
    20: ("string[]", [["a", None, ""], []], [[b"a", b"", b""], []]),
    21: ("uuid[]", [_UUIDS, [None]], [_UUID_TEXTS, [b""]]),
    22: ("date[]", [_MOMENTS, [None]], [_MILLIS, [0]]),
    23: ("sql_date[]", [_DAYS, [None]], [_DAY_MILLIS, [0]]),
    24: ("list<string>", [["x", None], []], [[b"x", b""], []]),
    25: ("map<string,long>", [{"k": 1, "l": None}, {}], [{"k": 1, "l": 0}, {}]),
    28: (Size, [Size.LARGE, Size.SMALL], [1, 0]),
    29: (None, [[Size.LARGE, None], []], [[1, 0], []]),
    30: ("decimal", _DECIMALS, _DECIMAL_TEXTS),
    31: ("decimal[]", [_DECIMALS, [None]], [_DECIMAL_TEXTS, [b""]]),
    33: ("timestamp", _MOMENTS, _NANOS),
    34: ("timestamp[]", [_MOMENTS, [None]], [_NANOS, [0]]),
    36: ("time", _TIMES, _TIME_MILLIS),
    37: ("time[]", [_TIMES, [None]], [_TIME_MILLIS, [0]]),
    0xFE: ("sql_date", _DAYS, _DAY_MILLIS),
}
_PACKED = range(12, 20)  # arrays whose items cannot be NULL


def test_every_type_of_the_table_is_written_and_read_back(cluster: LocalCluster, name: str) -> None:
    """Row 0 and 1 have values, row 2 has nothing but NULLs. An enum (38) is written as 28, an object wrapped (27)."""
    table = _core.type_table()
    assert set(EVERY_TYPE) == {
        code for code, (_, _, kind, *_) in table.items() if kind not in ("unsupported", "object")
    } - {38}
    rows = [{f"f{code}": values[at] for code, (_, values, _) in EVERY_TYPE.items()} for at in range(2)]
    rows.append(dict.fromkeys(rows[0]))
    types = {f"f{code}": declared for code, (declared, *_) in EVERY_TYPE.items() if declared is not None}
    options = {"addresses": cluster.addresses}
    igs.write(name, rows, key=np.arange(3), create=True, partitions=1, types=types, **options)
    read = by_key(igs.read(name, nulls="mask", **options))
    for code, (_, values, expected) in EVERY_TYPE.items():
        there = [True, True, False]
        if code == 25:
            pairs = zip(read["val.f25.keys"], read["val.f25.values"], read["val.f25.values_mask"])
            found = [{k.decode(): (int(v), bool(m)) for k, v, m in zip(*columns)} for columns in pairs]
            assert found == [{"k": (1, True), "l": (0, False)}, {}, {}]
            continue
        found = [plain(each) for each in read[f"val.f{code}"]]
        each_item = isinstance(expected[0], list) and code not in _PACKED
        empty = type(expected[0])() if isinstance(expected[0], (list, bytes)) else 0
        assert found == [*expected, empty], table[code]
        masks = [plain(mask) for mask in read[f"val.f{code}_mask"]]
        items = [[item is not None for item in each] for each in values] if each_item else []
        assert masks == ([*items, []] if each_item else there), table[code]


def test_objects_in_lists_maps_and_sets_are_written_and_read_back(cluster: LocalCluster, name: str) -> None:
    rows = [
        {"items": [{"x": 1, "s": "a"}, {"x": None, "s": "b"}], "by": {7: {"y": 0.5}}, "set": {3}},
        {"items": [], "by": {}, "set": set()},
        {"items": [{"x": 4, "s": None}], "by": {8: {"y": 1.5}, 9: {"y": 2.5}}, "set": {5, 6}},
    ]
    types = {"items": [{"x": "int", "s": "string"}], "set": "set<int>"}
    options = {"addresses": cluster.addresses}
    igs.write(name, rows, key=np.arange(3), create=True, partitions=1, types=types, **options)
    read = by_key(igs.read(name, nulls="mask", **options))
    assert [plain(each) for each in read["val.items.x"]] == [[1, 0], [], [4]]
    assert [plain(each) for each in read["val.items.x_mask"]] == [[True, False], [], [True]]
    assert [plain(each) for each in read["val.items.s"]] == [[b"a", b"b"], [], [b""]]
    assert [sorted(plain(each)) for each in read["val.set"]] == [[3], [], [5, 6]]
    pairs = [dict(zip(*each)) for each in zip(read["val.by.keys"], map(plain, read["val.by.values.y"]))]
    assert pairs == [{7: 0.5}, {}, {8: 1.5, 9: 2.5}]


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (np.int32([1, 2]), np.float64([1.5, 2.5])),
        (["a", "b"], np.float32([[1, 2], [3, 4]])),
        ([uuid.UUID(int=1), uuid.UUID(int=2)], ["x", "yé"]),
    ],
)
def test_values_of_one_type(cluster: LocalCluster, name: str, keys: Any, values: Any) -> None:
    igs.write(name, values, addresses=cluster.addresses, key=keys, create=True, partitions=2)
    read = igs.read(name, addresses=cluster.addresses)
    found = {}
    for key, value in zip(read["key"].tolist(), read["val"].tolist()):
        found[key] = value.tolist() if isinstance(value, np.ndarray) else value
    plain = [str(key).encode() if isinstance(key, (str, uuid.UUID)) else int(key) for key in keys]
    expected = values.tolist() if isinstance(values, np.ndarray) else [text.encode() for text in values]
    assert found == dict(zip(plain, expected))


def test_what_is_read_can_be_written_again(cluster: LocalCluster, client: Any, name: str) -> None:
    """A copy by NumPy, by pandas and piece by piece; also with keys that are objects."""
    source = {"k": np.arange(500), "part": [f"p{i}" for i in range(500)], "x": np.arange(500) * 0.25}
    igs.write(name, source, addresses=cluster.addresses, key=["k", "part"], create=True, partitions=2)
    read = igs.read(name, addresses=cluster.addresses)
    assert sorted(read) == ["key.k", "key.part", "val.x"]
    assert igs.write(name, read, addresses=cluster.addresses).rows == 500
    frame = igs.read(name, addresses=cluster.addresses, to="pandas")
    assert frame["key.part"].iloc[0].startswith("p")
    assert igs.write(name, frame, addresses=cluster.addresses).rows == 500
    pieces = ({column: values[at : at + 100] for column, values in read.items()} for at in range(0, 500, 100))
    assert igs.write(name, pieces, addresses=cluster.addresses).rows == 500
    assert client.get_cache(name).get_size() == 500


def test_pandas_dates_text_and_missing_values(cluster: LocalCluster, name: str) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "t": pandas.to_datetime(["2020-01-02 00:00:00.000000001", "1969-12-31 23:59:59.999999999"]),
            "s": ["ä", "b"],
            "n": [1, 2],
        },
        index=pandas.Index([5, 6], name="id"),
    )
    igs.write(name, frame, addresses=cluster.addresses, create=True)
    back = igs.read(name, addresses=cluster.addresses, to="pandas").sort_values("key")
    assert back["key"].tolist() == [5, 6]
    assert (back["val.t"].to_numpy() == frame["t"].to_numpy()).all()
    assert back["val.s"].tolist() == ["ä", "b"]


def test_missing_values_are_missing_again(cluster: LocalCluster, name: str) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "id": range(4),
            "n": pandas.array([1, None, 3, None], "Int64"),
            "s": ["a", None, "c", "d"],
            "t": pandas.to_datetime(["2020-01-01", None, None, "2020-01-02"]),
            "f": [0.5, float("nan"), 1.5, 2.5],
            "flag": pandas.array([True, None, False, True], "boolean"),
        }
    )
    igs.write(name, frame, addresses=cluster.addresses, key="id", create=True, partitions=1)
    back = igs.read(name, addresses=cluster.addresses, to="pandas", nulls="mask").sort_values("key")
    back = back.reset_index(drop=True)
    for column in ("n", "s", "t", "f", "flag"):
        assert back[f"val.{column}"].isna().tolist() == frame[column].isna().tolist(), column
        assert back[f"val.{column}"].dropna().tolist() == frame[column].dropna().tolist(), column
    assert igs.write(name, back, addresses=cluster.addresses).rows == 4
    again = igs.read(name, addresses=cluster.addresses, to="pandas", nulls="mask").sort_values("key")
    pandas.testing.assert_frame_equal(again.reset_index(drop=True), back)


def test_a_dataset_of_rows_and_of_batches(cluster: LocalCluster, client: Any, name: str) -> None:
    tf = pytest.importorskip("tensorflow")
    rows = tf.data.Dataset.range(1000).map(
        lambda i: {"id": i, "x": tf.cast(i, tf.float32), "tags": tf.fill([i % 3], tf.as_string(i))}
    )
    assert igs.write(name, rows, addresses=cluster.addresses, key="id", create=True).rows == 1000
    read = by_key(igs.read(name, addresses=cluster.addresses))
    assert read["val.x"].tolist() == list(range(1000))
    assert [list(tags) for tags in read["val.tags"]] == [[str(i).encode()] * (i % 3) for i in range(1000)]
    pairs = tf.data.Dataset.range(1000, 1100).map(lambda i: (i, {"x": tf.cast(i, tf.float32), "tags": ["a"]}))
    with tf.Graph().as_default(), pytest.raises(InvalidArgumentError, match=r"outside of tf\.Graph"):
        igs.write(name, tf.data.Dataset.range(3), addresses=cluster.addresses)
    with pytest.raises(InvalidArgumentError, match=r"the key of a row is an array.*batched=True"):
        igs.write(name, pairs.batch(30), addresses=cluster.addresses)
    assert igs.write(name, pairs.batch(30), addresses=cluster.addresses, batched=True).rows == 100
    assert client.get_cache(name).get_size() == 1100


def test_errors_before_anything_is_written(cluster: LocalCluster, client: Any, name: str) -> None:
    data = {"id": [1], "x": [2]}
    with pytest.raises(NotFoundError, match=f"cache '{name}' does not exist.*create=True creates it"):
        igs.write(name, data, addresses=cluster.addresses, key="id")
    with pytest.raises(PreconditionError, match='<property name="name" value="igs-p777-') as caught:
        igs.write(name, data, addresses=cluster.addresses, key="id", create=True, partitions=777)
    assert caches.template_bean(777) in str(caught.value)
    with pytest.raises(UnsupportedError, match="sql=True with a key that has objects in it"):
        igs.write(name, [7], addresses=cluster.addresses, key=[{"a": {"b": 1}}], create=True, sql=True)
    with pytest.raises(InvalidArgumentError, match="x cannot be a column of the key and of the value"):
        igs.write(name, {"key.x": [1], "val.X": [2]}, addresses=cluster.addresses, create=True, sql=True)
    with pytest.raises(InvalidArgumentError, match="v cannot be a column of the key and of the value"):
        igs.write(name, [7], addresses=cluster.addresses, key=[{"v": 1}], create=True, sql=True)
    assert name not in caches.cache_names(client)
    with pytest.raises(InvalidArgumentError, match="no such column"):
        igs.write(name, data, addresses=cluster.addresses, key="id", create=True, types={"z": "int"})
    igs.write(name, data, addresses=cluster.addresses, key="id", create=True)
    with pytest.raises(AlreadyExistsError):
        caches.create_cache(client, name)


@pytest.mark.parametrize("more", [{}, {"partitions": 2}])
def test_a_table_is_not_made_with_columns_that_sql_cannot_show(
    cluster: LocalCluster, client: Any, name: str, more: dict[str, Any]
) -> None:
    for column in ("a.b", "_KEY", "_val", "a\0b", 'say "x"'):
        with pytest.raises(InvalidArgumentError, match=f"cache {name}: a column of an SQL table cannot"):
            caches.create_cache(client, name, key="int", value={column: "int"}, **more)
        with pytest.raises(InvalidArgumentError, match=f"cache {name}: a column of an SQL table cannot"):
            caches.create_cache(client, name, key={column: "int"}, value={"x": "int"}, **more)
        with pytest.raises(InvalidArgumentError, match=f"cache {name}: a column of an SQL table cannot"):
            caches.create_cache(client, name, key="int", key_name=column, value={"x": "int"}, **more)
    assert name not in caches.cache_names(client)
    column = "say 'x', y"
    caches.create_cache(client, name, key="int", value={column: "int"}, **more)
    igs.write(name, {"key": np.int32([1]), f"val.{column}": np.int32([7])}, addresses=cluster.addresses)
    assert caches.sql(client, f'SELECT "{column.upper()}" FROM "{name}"').rows == [[7]]


def test_keys_become_what_the_keys_are_that_are_there(cluster: LocalCluster, client: Any, name: str) -> None:
    """An int and a long are two keys, though their numbers are equal: a row would be there twice, and unreadable."""
    where: dict[str, Any] = {"addresses": cluster.addresses}
    igs.write(name, {"key": np.arange(3), "val": [0.0, 1.0, 2.0]}, create=True, **where)
    igs.write(name, {"key": np.int32([2, 3]), "val": [7.0, 8.0]}, **where)
    read = by_key(igs.read(name, **where))
    assert (read["key"].tolist(), read["val"].tolist()) == ([0, 1, 2, 3], [0.0, 1.0, 7.0, 8.0])
    with pytest.raises(WriteError, match="column key, row 0: 'a' is not a long"):
        igs.write(name, {"key": ["a"], "val": [1.0]}, **where)
    assert igs.write(name, {"key": ["a"], "val": [1.0]}, types={"key": "string"}, **where).rows == 1


def test_a_field_of_another_type_is_refused_by_the_cluster(
    cluster: LocalCluster, client: Any, name: str
) -> None:
    """Ignite keeps one type per field name of a type: writing another would make the rows unreadable."""
    igs.write(name, {"id": [1], "x": [2]}, addresses=cluster.addresses, key="id", create=True)
    with pytest.raises(IgniteStrategyError, match="registering type"):
        igs.write(name, {"id": [1], "x": ["two"]}, addresses=cluster.addresses, key="id")
    other = f"{name}_2"
    with pytest.raises(IgniteStrategyError, match="registering type"):
        igs.write(
            other,
            {"id": [1], "x": ["two"]},
            addresses=cluster.addresses,
            key="id",
            create=True,
            type_name=name,
        )
    assert other not in caches.cache_names(client)
    assert igs.read(name, addresses=cluster.addresses)["val.x"].tolist() == [2]


PROGRAM = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "keras"):
            raise ImportError("TensorFlow is not here")

sys.meta_path.insert(0, Refuse())
import numpy as np
import ignite_strategy as igs

address, cache = sys.argv[1:]
report = igs.write(cache, {"id": np.arange(50), "x": np.arange(50) / 2}, addresses=[address], key="id", create=True,
                   progress=True)
print(report.rows, igs.read(cache, addresses=[address])["val.x"].sum())
print(igs.read(cache, addresses=[address], to="pandas")["val.x"].sum())
"""


def test_neither_needs_tensorflow_and_progress_goes_to_stderr(one_node: str, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, one_node, name],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert (done.returncode, done.stdout.split()) == (0, ["50", "612.5", "612.5"]), done.stderr
    assert f"writing {name}" in done.stderr
    assert "50/50" in done.stderr


def test_a_value_that_the_key_would_hide(cluster: LocalCluster, client: Any, name: str) -> None:
    """SQL has one column of a name, and that is the key's."""
    where: dict[str, Any] = {"addresses": cluster.addresses}
    for more in ({}, {"partitions": 2}):
        igs.write(name, {"key": [1], "val.k": [2]}, create=True, sql=True, **more, **where)
        assert caches.sql(client, f'SELECT k, key_ FROM "{name}"').rows == [[2, 1]]
        with pytest.raises(
            InvalidArgumentError, match=r"(?i)column val\.key_: 'key_' is a column of the SQL table's key"
        ):
            igs.write(name, {"key": [1], "val.k": [2], "val.KEY_": [3]}, **where)
        caches.drop_cache(client, name)


def test_what_does_not_fit_leaves_nothing_behind(cluster: LocalCluster, client: Any, name: str) -> None:
    """A row that cannot be written ends the writing, and the cache that was made for it is not there."""

    def pieces() -> Iterator[dict[str, Any]]:
        yield {"id": [1], "x": [1]}
        yield {"id": [2], "x": [2**63]}

    where = {"addresses": cluster.addresses, "key": "id"}
    with pytest.raises(
        InvalidArgumentError, match=r"column val\.x, row 1: 9223372036854775808 cannot become a long"
    ):
        igs.write(name, {"id": [1, 2], "x": [1, 2**63]}, create=True, **where)
    with pytest.raises(
        InvalidArgumentError, match="column key, row 0: 9223372036854775808 cannot become a long"
    ):
        igs.write(
            name, {"id": np.array([2**63], np.uint64), "x": [1]}, create=True, types={"id": "long"}, **where
        )
    with pytest.raises(InvalidArgumentError, match="'a' and 'A' differ only in case"):
        igs.write(name, {"id": [1], "a": [1], "A": [2]}, create=True, **where)
    for column in ("a.b", "a\0b", "_KEY", "_val", 'a"b'):
        with pytest.raises(
            InvalidArgumentError, match=f"an SQL table cannot be called {re.escape(repr(column))}"
        ):
            igs.write(name, {"id": [1], column: [1]}, create=True, sql=True, **where)
    with pytest.raises(InvalidArgumentError, match="a field's name is empty"):
        igs.write(name, {"id": [1], "": [1]}, create=True, **where)
    with pytest.raises(InvalidArgumentError, match="row 1: it is not UTF-8"):
        igs.write(name, {"id": [1, 2], "t": ["a", b"\xff"]}, create=True, **where)
    with pytest.raises(
        WriteError, match=r"column val\.x, row 1: 9223372036854775808.*stays, without rows of this call"
    ) as caught:
        igs.write(name, pieces(), create=True, **where)
    assert caught.value.acknowledged == 0
    assert name in caches.cache_names(client)
    with pytest.raises(InvalidArgumentError, match="cannot be created for no rows"):
        igs.write(f"{name}_NONE", {"id": [], "x": []}, create=True, **where)
    igs.write(name, {"id": [1], "x": [1]}, create=True, **where)
    assert igs.write(name, {"id": [], "x": []}, **where).rows == 0
    with pytest.raises(WriteError, match=r"column val\.x, row 1: 9223372036854775808"):
        igs.write(name, pieces(), **where)


def test_what_the_users_iterator_raises_is_told_with_what_was_written(
    cluster: LocalCluster, name: str
) -> None:
    def pieces(before: int) -> Iterator[dict[str, Any]]:
        for first in range(before):
            yield {"id": np.arange(10_000) + 10_000 * first, "x": np.arange(10_000)}
        raise RuntimeError("the disk is gone")

    for before in (3, 0):
        with pytest.raises(WriteError, match="RuntimeError: the disk is gone") as caught:
            igs.write(name, pieces(before), addresses=cluster.addresses, key="id", create=True)
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert caught.value.taken == before * 10_000


def test_missing_values_are_null_and_years_are_any(cluster: LocalCluster, client: Any, name: str) -> None:
    """NaN used to become the smallest integer, and the year 9999 an error."""
    pandas = pytest.importorskip("pandas")
    caches.sql(client, f'CREATE TABLE "{name}" (ID INT PRIMARY KEY, N BIGINT, S SMALLINT, T TIMESTAMP, D DATE) '
                       f'WITH "CACHE_NAME={name}"')  # fmt: skip
    last = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
    frame = pandas.DataFrame(
        {
            "ID": [1, 2],
            "N": [1.0, None],
            "S": [2.0, float("nan")],
            "T": pandas.Series([last, None], dtype=object),
        }
    )
    frame["D"] = [float("nan"), datetime.date(2020, 2, 29)]
    assert igs.write(name, frame, addresses=cluster.addresses).rows == 2
    answer = caches.sql(client, f'SELECT N, S, YEAR(T), D FROM "{name}" ORDER BY ID')
    assert answer.rows == [[1, 2, 9999, None], [None, None, None, datetime.date(2020, 2, 29)]]
    read = by_key(igs.read(name, addresses=cluster.addresses, nulls="mask", timestamp="ms"))
    assert read["val.T"].tolist()[0] == 253402300799999
    assert read["val.T_mask"].tolist() == [True, False]
    assert read["val.N_mask"].tolist() == [True, False]
    with pytest.raises(
        IgniteStrategyError, match=r'field val\.T: .*outside the years 1677 to 2262.*timestamp="ms"'
    ):
        igs.read(name, addresses=cluster.addresses, nulls="default", columns=["val.T"])
