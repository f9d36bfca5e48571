"""An embedded cluster: real Apache Ignite nodes on this host, for tests, demos and development."""

from __future__ import annotations

from ignite_strategy.local.cluster import LocalCluster
from ignite_strategy.local.node import LocalNode, NodeTls
from ignite_strategy.local.zookeeper import LocalZooKeeper, ZooKeeperTls

__all__ = ["LocalCluster", "LocalNode", "LocalZooKeeper", "NodeTls", "ZooKeeperTls"]
