"""What discovery says about a real cluster is how it is: a node's partitions are found on that node by a local scan."""

from __future__ import annotations

import contextlib
import struct

import pyignite
import pytest
from pyignite.datatypes.cache_config import CacheMode
from pyignite.datatypes.prop_codes import PROP_BACKUPS_NUMBER, PROP_CACHE_MODE, PROP_NAME

from ignite_strategy import _core
from ignite_strategy.errors import IgniteStrategyError, NotFoundError
from ignite_strategy.local import LocalCluster
from ignite_strategy.topology import Topology, assign, connect, discover

pytestmark = pytest.mark.integration
_SCAN = 2000
_PARTITIONS = {"igs-p2-{}": 2, "igs-p4-{}": 4, "{}": 1024}


@pytest.fixture
def client(cluster: LocalCluster) -> pyignite.Client:
    client = pyignite.Client()
    with client.connect([(node.host, node.port) for node in cluster.nodes]):
        yield client


def _topology(cluster: LocalCluster, cache: str) -> Topology:
    with contextlib.closing(connect(cluster.addresses)) as connection:
        return discover(connection, cache)


def _local_rows(topology: Topology, node: str, partition: int) -> int:
    """Rows of one partition by a scan with the local flag, which never leaves the node that answers."""
    with contextlib.closing(connect(topology.node(node).endpoints)) as connection:
        assert connection.node_id == node
        payload = struct.pack("<iBBiiB", _core.java_hash(topology.cache), 0, 101, 10_000, partition, 1)
        response = connection.call(_SCAN, payload, "scanning locally")
        return struct.unpack_from("<i", response, 8)[0]


@pytest.mark.parametrize("template", list(_PARTITIONS))
def test_partitions_are_where_it_says(
    cluster: LocalCluster, client: pyignite.Client, fresh_name: str, template: str
) -> None:
    name = template.format(fresh_name)
    client.get_or_create_cache(name).put_all({key: key for key in range(500)})
    topology = _topology(cluster, name)
    assert len(topology.primaries) == _PARTITIONS[template]
    assert {node.id for node in topology.nodes} == {str(node.node_id) for node in cluster.nodes}
    nodes = [node.id for node in topology.nodes]
    rows = 0
    for partition in range(len(topology.primaries)) if len(topology.primaries) < 10 else range(0, 1024, 40):
        primary = topology.primaries[partition]
        assert primary is not None
        rows += _local_rows(topology, primary, partition)
        other = next(node for node in nodes if node != primary)
        # No backups: the other node has nothing of it, and says so.
        with pytest.raises(IgniteStrategyError, match="No queryable nodes"):
            _local_rows(topology, other, partition)
    assert rows == 500 if len(topology.primaries) < 10 else rows > 0
    assignment = assign(nodes, topology.primaries)
    assert assignment.remote_share == 0.0


def test_a_replicated_cache_has_one_primary_per_partition(
    cluster: LocalCluster, client: pyignite.Client, fresh_name: str
) -> None:
    """Op 1101 does not apply to it: the primaries come from the addresses."""
    client.create_cache(
        {PROP_NAME: fresh_name, PROP_CACHE_MODE: CacheMode.REPLICATED, PROP_BACKUPS_NUMBER: 1}
    )
    topology = _topology(cluster, fresh_name)
    assert len(topology.primaries) == 512
    assert set(topology.primaries) == {str(node.node_id) for node in cluster.nodes}


def test_a_missing_cache(cluster: LocalCluster) -> None:
    with pytest.raises(NotFoundError, match=r"cache 'NOWHERE' does not exist; there are: .*SQL_PUBLIC_T"):
        _topology(cluster, "NOWHERE")


def test_any_node_tells_the_same(cluster: LocalCluster, client: pyignite.Client, fresh_name: str) -> None:
    client.get_or_create_cache(fresh_name)
    answers = []
    for address in cluster.addresses:
        with contextlib.closing(connect(address)) as connection:
            answers.append(discover(connection, fresh_name))
    assert answers[0] == answers[1]


def test_the_first_address_need_not_answer(cluster: LocalCluster) -> None:
    with contextlib.closing(connect(["127.0.0.1:1", cluster.addresses[1]])) as connection:
        assert connection.node_id == str(cluster.nodes[1].node_id)
