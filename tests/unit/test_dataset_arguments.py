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
from ignite_strategy.errors import InvalidArgumentError


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
