"""Cache administration against real nodes."""

from __future__ import annotations

import datetime
import re
import uuid
from typing import Any

import numpy as np
import pytest
from pyignite.datatypes import IntObject

import ignite_strategy as igs
from ignite_strategy.errors import (
    AlreadyExistsError,
    ConnectionFailedError,
    InvalidArgumentError,
    NotFoundError,
    PreconditionError,
    ServerError,
    UnsupportedError,
)
from ignite_strategy.local import LocalCluster
from ignite_strategy.local.ports import PortClaims
from ignite_strategy.topology import caches

pytestmark = pytest.mark.integration

DIGIT = {"pixels": "float[]", "label": "int", "origin": {"writer": "string", "page": "long"}}
_FULL_SYNC, _READ_WRITE_SAFE = 0, 2
_LOSS, _SYNC, _BACKUPS, _MODE, _ATOMICITY = 404, 4, 3, 1, 2


def _rows(count: int) -> list[tuple[int, dict[str, Any]]]:
    return [
        (
            key,
            {
                "pixels": np.full(64, key / 2, np.float32),
                "label": np.int64(key % 10),
                "origin": {"writer": f"w{key}", "page": key * 10**10},
            },
        )
        for key in range(count)
    ]


@pytest.mark.parametrize("partitions", [1, 2, 5, 16, 1024])
def test_a_cache_has_as_many_partitions_as_asked_for(client: Any, name: str, partitions: int) -> None:
    caches.create_cache(client, name, partitions=partitions)
    found = caches.partition_map(client, name)
    assert sorted(part for parts in found.values() for part in parts) == list(range(partitions))
    settings = client.get_cache(name).settings
    assert settings[_SYNC] == _FULL_SYNC
    assert settings[_LOSS] == _READ_WRITE_SAFE


def test_two_partitions_are_on_two_nodes(cluster: LocalCluster, client: Any, name: str) -> None:
    caches.create_cache(client, name, partitions=2, key="int", value=DIGIT)
    assert caches.partition_map(client, name) == {
        cluster.nodes[0].node_id: [0],
        cluster.nodes[1].node_id: [1],
    }
    assert [node.index for node in cluster.partition_owners(name)] == [0, 1]


@pytest.mark.parametrize("partitions", [None, 2])
def test_structured_objects_are_rows_for_sql_and_objects_for_everybody_else(
    client: Any, name: str, partitions: int | None
) -> None:
    caches.create_cache(client, name, partitions=partitions, key="int", value=DIGIT, type_name="Digit")
    assert caches.put_objects(client, name, _rows(25), fields=DIGIT, type_name="Digit", batch=10) == 25
    back = client.get_cache(name).get(7, key_hint=IntObject)
    assert back.pixels == [3.5] * 64
    assert (back.label, back.origin.writer, back.origin.page) == (7, "w7", 7 * 10**10)
    answer = caches.sql(client, f'SELECT label, COUNT(*) AS n FROM "{name}" GROUP BY label ORDER BY label')
    assert answer.columns == ["LABEL", "N"]
    assert answer.rows == [[label, 3 if label < 5 else 2] for label in range(10)]
    assert caches.sql(client, f'SELECT label FROM "{name}" WHERE k = ?', [12]).rows == [[2]]


def test_a_field_left_out_is_null_and_an_unknown_one_an_error(client: Any, name: str) -> None:
    caches.create_cache(client, name, partitions=1)
    caches.put_objects(client, name, {1: {"label": 3}}, fields=DIGIT)
    back = client.get_cache(name).get(1, key_hint=IntObject)
    assert back.label == 3
    assert back.pixels is None
    with pytest.raises(InvalidArgumentError, match="no field 'lable', only pixels, label, origin"):
        caches.put_objects(client, name, {2: {"lable": 3}}, fields=DIGIT)


@pytest.mark.parametrize(
    ("key", "value", "rows"),
    [
        ("int", "double", {1: 1.5, 2: -2.0}),
        ("long", "string", {2**40: "aé", 5: ""}),
        ("string", "float[]", {"a": [1.0, 2.0], "b": []}),
        ("int", "byte[]", {1: b"\x00\xff"}),
        ("uuid", "bool", {uuid.UUID(int=7): True}),
        ("int", "long", dict(zip(np.arange(3), np.arange(3) * 2**33))),
    ],
)
def test_values_of_one_type(client: Any, name: str, key: str, value: str, rows: dict[Any, Any]) -> None:
    caches.create_cache(client, name, partitions=2, key=key, value=value)
    assert caches.put_values(client, name, rows, key=key, value=value) == len(rows)
    cache = client.get_cache(name)
    hint = caches.value_type(key, "")
    for each, expected in rows.items():
        found = cache.get(each.tolist() if hasattr(each, "tolist") else each, key_hint=hint)
        assert found == expected or bytes(found) == expected


def test_a_count_without_a_template_is_an_error_with_the_xml_to_add(client: Any, name: str) -> None:
    with pytest.raises(PreconditionError, match="no cache template for 1000 partitions") as caught:
        caches.create_cache(client, name, partitions=1000)
    assert '<property name="name" value="igs-p1000-*"/>' in str(caught.value)
    assert caches.template_bean(1000) in str(caught.value)
    assert name not in caches.cache_names(client)


def test_a_name_that_is_taken(client: Any, name: str) -> None:
    caches.create_cache(client, name, partitions=2)
    with pytest.raises(AlreadyExistsError, match=f"a cache {name} already"):
        caches.create_cache(client, name, partitions=2)
    caches.create_cache(client, name, partitions=2, exist_ok=True)
    with pytest.raises(PreconditionError, match="has 2 partitions and not 4"):
        caches.create_cache(client, name, partitions=4, exist_ok=True)


def test_backups_mode_and_atomicity(client: Any, name: str) -> None:
    caches.create_cache(client, name, mode="replicated", atomicity="transactional")
    settings = client.get_cache(name).settings
    assert (settings[_MODE], settings[_ATOMICITY], settings[_LOSS]) == (1, 0, _READ_WRITE_SAFE)
    with pytest.raises(PreconditionError, match="no partition map"):
        caches.partition_map(client, name)
    caches.drop_cache(client, name)
    caches.create_cache(client, name, partitions=2, backups=1, atomicity="transactional")
    settings = client.get_cache(name).settings
    assert (settings[_BACKUPS], settings[_ATOMICITY], settings[_SYNC]) == (1, 0, _FULL_SYNC)


@pytest.mark.parametrize("partitions", [None, 2])
@pytest.mark.parametrize("value", [None, DIGIT])
def test_drop_removes_every_kind_of_cache(client: Any, name: str, partitions: int | None, value: Any) -> None:
    caches.create_cache(client, name, partitions=partitions, key="int", value=value)
    assert caches.drop_cache(client, name) is True
    assert name not in caches.cache_names(client)
    assert caches.drop_cache(client, name) is False
    caches.create_cache(client, name, partitions=partitions, key="int", value=value)


def test_errors_say_where_and_what(cluster: LocalCluster, client: Any) -> None:
    where = cluster.addresses[0]
    with pytest.raises(NotFoundError, match=rf"{where}.*no cache NOWHERE"):
        caches.put_values(client, "NOWHERE", {1: 1.0})
    with pytest.raises(NotFoundError, match="no cache NOWHERE"):
        caches.partition_map(client, "NOWHERE")
    with pytest.raises(ServerError, match=rf"{where}.*while running 'SELEKT 1'"):
        caches.sql(client, "SELEKT 1")
    with pytest.raises(InvalidArgumentError, match="no type 'flaot'; choose one of bool, byte"):
        caches.create_cache(client, "BAD", value={"pixels": "flaot"})
    with pytest.raises(InvalidArgumentError, match="cannot be called"):
        caches.create_cache(client, 'A"B')


def test_nobody_listens() -> None:
    claims = PortClaims()
    try:
        port = claims.claim_any()
        with pytest.raises(ConnectionFailedError, match=rf"127.0.0.1:{port}: .* while connecting"):
            caches.connect(f"127.0.0.1:{port}")
    finally:
        claims.release()


@pytest.mark.parametrize("field", ['say "x"', "a:print(1)", "class", "ü ü"])
def test_names_of_fields_are_never_code(
    cluster: LocalCluster, client: Any, name: str, field: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """pyignite writes the source text of a class with them in it; whoever writes to a cache chooses them."""
    table = [{"x": {field: 7}}]
    igs.write(name, table, addresses=cluster.addresses, key=[1], create=True, sql=True, type_name=name)
    with pytest.raises(UnsupportedError, match=r"no name in Python.*ignite_strategy\.write"):
        caches.put_objects(client, name, {2: {field: 7}}, fields={field: "int"})
    with pytest.raises(
        UnsupportedError, match=f"have a field {re.escape(repr(field))}.*ignite_strategy.read"
    ):
        caches.sql(client, f'SELECT x FROM "{name}"')
    assert capfd.readouterr().out == ""
    assert igs.read(name, addresses=cluster.addresses)[f"val.x.{field}"].tolist() == [7]


def test_dates_are_ordinary_sql(client: Any, fresh_name: str) -> None:
    answer = caches.sql(
        client, "SELECT CAST('2020-01-01' AS DATE), 1, CAST(NULL AS DATE), CAST('0001-01-01' AS DATE)"
    )
    assert answer.rows == [[datetime.date(2020, 1, 1), 1, None, datetime.date(1, 1, 1)]]
    rows = caches.sql(
        client, "SELECT DATEADD('DAY', X, DATE '2019-12-31'), X FROM SYSTEM_RANGE(0, 2999)"
    ).rows
    assert rows[-1] == [datetime.date(2019, 12, 31) + datetime.timedelta(2999), 2999]  # over several pages
