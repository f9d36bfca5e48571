"""Where client and agents meet: one contract, several backends."""

from __future__ import annotations

from collections.abc import Sequence

from ignite_strategy.runtime.registry.base import Lease, LeaseView, Registry, Value
from ignite_strategy.runtime.registry.ignite import IgniteRegistry
from ignite_strategy.runtime.registry.memory import MemoryRegistry
from ignite_strategy.runtime.registry.zookeeper import ZooKeeperRegistry
from ignite_strategy.settings import Endpoint, Security, ZooKeeper

__all__ = [
    "IgniteRegistry",
    "Lease",
    "LeaseView",
    "MemoryRegistry",
    "Registry",
    "Value",
    "ZooKeeperRegistry",
    "open_registry",
]


def open_registry(
    endpoints: Sequence[Endpoint],
    zookeeper: ZooKeeper | None = None,
    security: Security | None = None,
    ttl: float = 6.0,
) -> Registry:
    """The registry of a cluster.

    Args:
      endpoints: Its nodes.
      zookeeper: Where it is, if not in the cluster itself.
      security: How the nodes are spoken to.
      ttl: Of the leases that will be taken, in seconds: a session of ZooKeeper's lasts as long.
    """
    if zookeeper is not None:
        return ZooKeeperRegistry(zookeeper.hosts, security=zookeeper.security, session=ttl)
    return IgniteRegistry(endpoints, security=security)
