"""Arguments of a dataset that cannot be used are named with what to write instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ignite_strategy.dataset.arguments import (
    checked_flag,
    checked_host,
    checked_page_size,
    checked_port,
    parse_partitions,
)
from ignite_strategy.dataset.read import read
from ignite_strategy.dataset.write import write
from ignite_strategy.errors import ConnectionFailedError, InvalidArgumentError
from ignite_strategy.settings import Timeouts, security_of
from ignite_strategy.topology.caches import create_cache, sql
from ignite_strategy.topology.types import check_fields, to_object


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (None, None),
        (-1, None),
        (3, (3,)),
        (np.int64(3), (3,)),
        ("0-2,7", (0, 1, 2, 7)),
        ([2, 1, 2], (1, 2)),
        (range(2), (0, 1)),
        (np.array([5]), (5,)),
    ],
)
def test_partitions(value: Any, meant: object) -> None:
    assert parse_partitions(value, "partitions") == meant


@pytest.mark.parametrize("value", [[], [1.5], 1.5, True, [True], -2, [-1], 2**40, [2**31], "x", "", object()])
def test_what_names_no_partition(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="partitions="):
        parse_partitions(value, "partitions")


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "7", 1_000_001, 2**31])
def test_a_page_size_that_no_node_should_be_asked_for(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"page_size=.*1 to 1,000,000 rows"):
        checked_page_size(value)


def test_page_sizes() -> None:
    assert [checked_page_size(size) for size in (None, 1, np.int32(7), 1_000_000)] == [0, 1, 7, 1_000_000]


@pytest.mark.parametrize("value", ["10800", 10800.5, True, 0, 65536])
def test_what_is_no_port(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"port=.* is not an integer between 1 and 65535"):
        checked_port(value)


@pytest.mark.parametrize(
    ("value", "said"),
    [("", "give a host"), (5, "give a host"), ("127.0.0.1:10800", "the port belongs in port=")],
)
def test_what_is_no_host(value: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        checked_host(value)


def test_an_address_with_colons_is_a_host() -> None:
    assert checked_host("::1") == "::1"


@pytest.mark.parametrize("value", ["no", "true", 2, b""])
def test_what_is_no_truth_value(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"local=.* is neither True nor False"):
        checked_flag(value, "local")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"env": "x"}, "env='x' is neither True nor False"),
        ({"env": np.zeros(2)}, "env=.* is neither True nor False"),
        ({"timeouts": 5}, r"timeouts=5: give Timeouts\(connect=5, request=30\)"),
        ({"addresses": [5]}, r"addresses=\[5\]: 5 is not a text, host:port"),
        ({"addresses": 5}, "addresses=5: give a list of texts"),
        ({"addresses": b"a:1"}, "addresses=b'a:1': give a list of texts"),
        ({"columns": []}, r"columns=\[\]: no column is no row"),
        ({"columns": [5]}, r"columns=\[5\]: 5 is no name; give names like 'key' and 'val.x'"),
        ({"columns": "key"}, r"columns='key': give a list of names"),
        ({"cache_name": "a\0b"}, r"cache_name='a\\x00b': no cache has a NUL"),
        ({"nulls": [["a"]]}, "nulls=.*choose one of error"),
        ({"cache_name": ""}, "cache_name='': give the name of a cache"),
    ],
)
def test_what_a_read_refuses_before_it_connects(given: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        read(**{"cache_name": "X", **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"batch_size": True}, "batch_size=True: the rows of a batch"),
        ({"assert_rows": "x"}, "assert_rows='x' is neither"),
        ({"parallel_reads": True}, "parallel_reads=True"),
        ({"columns": []}, r"columns=\[\]"),
        ({"env": "x"}, "env='x' is neither"),
    ],
)
def test_what_a_dataset_refuses_before_it_connects(given: Any, said: str) -> None:
    pytest.importorskip("tensorflow")
    from ignite_strategy import IgniteDataset

    with pytest.raises(InvalidArgumentError, match=said):
        IgniteDataset("X", **given)


@pytest.mark.parametrize("value", ["5", 0, -1, True, float("nan"), float("inf"), 1e6, None])
def test_what_is_no_limit_on_waiting(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Timeouts\(request=.*give seconds, more than 0"):
        Timeouts(request=value)
    assert Timeouts(np.float32(0.5), 1).connect == 0.5


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"partitions": "2"}, "partitions='2': how many partitions"),
        ({"partitions": 0}, "partitions=0: .* an integer from 1 to 65,000"),
        ({"backups": "1"}, "backups='1': how many copies"),
        ({"backups": True}, "backups=True"),
        ({"connections": 0}, "connections=0: .* an integer from 1 to 64"),
        ({"in_flight": 1.5}, "in_flight=1.5"),
        ({"batch_rows": "1"}, "batch_rows='1'"),
        ({"partition_aware": "yes"}, "partition_aware='yes' is neither"),
        ({"create": "no"}, "create='no' is neither"),
        ({"sql": "no"}, "sql='no' is neither"),
        ({"progress": "no"}, "progress='no' is neither"),
        ({"batched": 2}, "batched=2 is neither"),
        ({"types": "int"}, "types='int': give a dict"),
        ({"timeouts": 5}, "timeouts=5: give Timeouts"),
        ({"cache": "a\0"}, "has no NUL"),
        ({"addresses": [None]}, r"addresses=\[None\]: None is not a text"),
    ],
)
def test_what_a_write_refuses_before_it_connects(given: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        write(**{"cache": "X", "data": {"key": [1], "val": [1]}, "addresses": ["256.0.0.1:1"], **given})


def test_an_address_that_does_not_answer_is_told_with_where_it_came_from() -> None:
    for call in (lambda **at: read("X", **at), lambda **at: write("X", {"key": [1], "val": [1]}, **at)):
        with pytest.raises(ConnectionFailedError, match="from addresses=, or host= and port="):
            call(addresses=["127.0.0.1:1"])


@pytest.mark.parametrize("name", ["a\0b", "a\nb"])
def test_what_no_cache_is_called(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="a cache cannot be called"):
        create_cache(None, name)


def test_fields_that_ignite_takes_for_one_are_refused_by_cache_administration() -> None:
    with pytest.raises(InvalidArgumentError, match=r"T\.in: the fields 'a' and 'A' differ only in case"):
        check_fields({"in": {"a": "int", "A": "int"}}, "T")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cafile": 5}, "cafile=5: give the path"),
        ({"tls": "no"}, "tls='no' is neither"),
        ({"tls": True, "verify": "no"}, "verify='no' is neither"),
        ({"tls": True, "check_hostname": None}, "check_hostname=None is neither"),
        ({"username": 5, "password": "secret"}, "username= is of type int"),
        ({"username": "me", "password": b"secret"}, "password= is of type bytes and not a text$"),
    ],
)
def test_security_that_cannot_be_used(given: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        security_of(**given)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (2**31, "int"),
        (np.uint64(2**64 - 1), "long"),
        (200, "byte"),
        (-(2**15) - 1, "short"),
        (1e300, "float"),
        ([1, 2**31], "int[]"),
    ],
)
def test_what_pyignite_would_cut_off(value: Any, kind: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"T.x: .* is beyond the type {kind.rstrip('[]')}"):
        to_object("T", {"x": kind}, {"x": value})
    with pytest.raises(
        InvalidArgumentError, match=r"the argument 9223372036854775808: .* beyond the type long"
    ):
        sql(None, "SELECT ?", [2**63])


def test_what_pyignite_keeps() -> None:
    fields = {"a": "byte", "b": "long", "c": "float", "d": "int[]", "e": "double"}
    row = {"a": -128, "b": 2**63 - 1, "c": np.float32(3.4e38), "d": np.array([2**31 - 1]), "e": 1e300}
    assert to_object("T", fields, row).b == 2**63 - 1
