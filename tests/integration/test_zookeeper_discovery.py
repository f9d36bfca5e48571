"""An Ignite cluster whose nodes find each other through a real ZooKeeper."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

import ignite_strategy as igs
from ignite_strategy.errors import InvalidArgumentError, UnsupportedError
from ignite_strategy.local import LocalCluster
from ignite_strategy.settings import Timeouts, parse_endpoint, parse_endpoints
from ignite_strategy.topology.nodes import connect, list_nodes

pytestmark = pytest.mark.integration
ROWS = 1000


@pytest.fixture(scope="module")
def found() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=2, discovery="zookeeper") as cluster:
        yield cluster


def _count(cluster: LocalCluster, at: int) -> int:
    with connect([parse_endpoints(cluster.addresses)[at]], Timeouts()) as connection:
        return len(list_nodes(connection)[1])


def test_the_nodes_see_each_other(found: LocalCluster) -> None:
    assert found.zookeeper is not None
    assert [_count(found, at) for at in range(2)] == [2, 2]


def test_rows_are_read_where_they_are_and_survive_a_killed_node(found: LocalCluster) -> None:
    data = {"key": np.arange(ROWS), "val": np.arange(ROWS) * 0.5}
    igs.write("FOUND", data, *parse_endpoint(found.addresses[0]), create=True, partitions=8, backups=1)
    assert {node.index for node in found.partition_owners("FOUND")} == {0, 1}
    keys = [int(row["key"]) for row in igs.IgniteDataset("FOUND", *parse_endpoint(found.addresses[0]))]
    assert sorted(keys) == list(range(ROWS))
    found.nodes[1].kill()
    until = time.monotonic() + 40  # its session of 10 s ends
    while _count(found, 0) > 1:
        assert time.monotonic() < until
        time.sleep(0.5)
    keys = [int(row["key"]) for row in igs.IgniteDataset("FOUND", *parse_endpoint(found.addresses[0]))]
    assert sorted(keys) == list(range(ROWS))


def test_what_there_is_not() -> None:
    with pytest.raises(InvalidArgumentError, match="discovery='carrier pigeon'"):
        LocalCluster(discovery="carrier pigeon")
    with pytest.raises(UnsupportedError, match=r"2\.17\.0"):
        LocalCluster(version="2.8.1", discovery="zookeeper")
