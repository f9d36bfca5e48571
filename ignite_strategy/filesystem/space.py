"""How much memory the nodes of a cluster have for files."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ignite_strategy import settings
from ignite_strategy.errors import ConnectionFailedError, IgniteStrategyError

__all__ = ["NodeSpace", "node_ids", "node_spaces"]

_PREFIXES = ("IGFS_", "IGNITE_")
_REGION = "SELECT DATA_REGION_NAME FROM SYS.CACHES WHERE CACHE_NAME = ?"
# Each node tells its own figures only.
_METRICS = "SELECT NAME, VALUE FROM SYS.METRICS WHERE NAME IN (?, ?)"


@dataclass(frozen=True)
class NodeSpace:
    """The data region of one node in which a file system keeps its caches.

    Attributes:
      address: ``host:port`` of the node.
      size: Bytes that it may take.
      used: Bytes that it has taken, for files and everything else.
    """

    address: str
    size: int
    used: int

    @property
    def free(self) -> int:
        """Bytes that are left. Blocks with a copy on another node need as many there."""
        return max(0, self.size - self.used)


def node_spaces(
    endpoints: Sequence[settings.Endpoint], cache: str, security: settings.Security | None = None
) -> list[NodeSpace]:
    """Asks every node of the cluster.

    Args:
      endpoints: One or more of its nodes.
      cache: The cache whose data region is meant; the default one if it does not exist.
      security: TLS, user and password; ``IGFS_TLS`` and so on (or ``IGNITE_...``) replace it.

    Raises:
      ConnectionFailedError: No node answers.
      UnsupportedError: A release that does not list its nodes (before 2.9).
      IgniteStrategyError: A release without these views, or a user who may not read them.
    """
    from ignite_strategy.topology.nodes import list_nodes

    with contextlib.closing(_connect(endpoints, security)) as connection:
        at_hand = settings.parse_endpoint(connection.endpoint)
        # The node at hand by the address that is known to work.
        ways = [
            (at_hand,) if node.id == connection.node_id else node.endpoints
            for node in list_nodes(connection)[1]
        ]
    return [_of_node(each, cache, security) for each in ways]


def node_ids(endpoints: Sequence[settings.Endpoint], security: settings.Security | None = None) -> set[str]:
    """The ids of all nodes of the cluster; arguments and errors are those of :func:`node_spaces`."""
    from ignite_strategy.topology.nodes import list_nodes

    with contextlib.closing(_connect(endpoints, security)) as connection:
        return {node.id for node in list_nodes(connection)[1]}


def _connect(endpoints: Sequence[settings.Endpoint], security: settings.Security | None) -> Any:
    from ignite_strategy.topology.nodes import connect

    return connect(endpoints, settings.Timeouts(connect=5.0, request=10.0), security, _PREFIXES)


def _of_node(ways: Sequence[settings.Endpoint], cache: str, security: settings.Security | None) -> NodeSpace:
    from ignite_strategy.topology.caches import connect, sql

    failure: IgniteStrategyError = ConnectionFailedError("a node announces no address")
    for way in ways:
        address = settings.format_endpoint(way)
        try:
            with contextlib.closing(connect(address, security=security, prefixes=_PREFIXES)) as client:
                region = [name for (name,) in sql(client, _REGION, [cache]).rows if name]
                stem = f"io.dataregion.{region[0] if region else 'default'}."
                asked = sql(client, _METRICS, [f"{stem}MaxSize", f"{stem}TotalUsedSize"])
                found = {str(name): int(value) for name, value in asked.rows}
        except ConnectionFailedError as error:
            failure = error
            continue
        return NodeSpace(address, found.get(f"{stem}MaxSize", 0), found.get(f"{stem}TotalUsedSize", 0))
    raise failure
