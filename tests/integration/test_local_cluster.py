"""The embedded cluster with real nodes."""

from __future__ import annotations

import socket

import psutil
import pytest

from ignite_strategy.local import LocalCluster
from ignite_strategy.local.probe import probe

pytestmark = pytest.mark.integration


def test_each_node_answers_and_sees_the_other(cluster: LocalCluster) -> None:
    ids = {node.node_id for node in cluster.nodes}
    assert len(ids) == 2
    for node in cluster.nodes:
        assert probe(node.host, node.port) == (node.node_id, ids)


def test_nodes_listen_on_loopback_only(cluster: LocalCluster) -> None:
    for node in cluster.nodes:
        listening = [
            connection.laddr.ip
            for connection in psutil.Process(node.pid).net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert len(listening) == 3
        assert set(listening) == {"127.0.0.1"}


def test_close_is_idempotent_and_frees_ports_and_folder() -> None:
    running = LocalCluster(nodes=1)
    node = running.nodes[0]
    running.close()
    running.close()
    assert not running.folder.exists()
    assert not psutil.pid_exists(node.pid)
    with pytest.raises(ConnectionRefusedError), socket.create_connection((node.host, node.port), 1):
        pass
