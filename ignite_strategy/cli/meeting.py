"""Where a command finds the cluster: the address, ZooKeeper and the key that it was given, or what there is here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer

from ignite_strategy.cli.options import ADDRESS, ZOOKEEPER, chosen_endpoints
from ignite_strategy.errors import IgniteStrategyError
from ignite_strategy.runtime.registry import Registry, open_registry
from ignite_strategy.runtime.scripts.signing import Key, read_key
from ignite_strategy.settings import Endpoint, ZooKeeper, parse_endpoints

__all__ = ["ADDRESS", "KEY_FILE", "ZOOKEEPER", "Meeting"]

KEY_FILE: Any = typer.Option(
    None, envvar="IGNITE_STRATEGY_KEY_FILE", help="The key of the agents; that of 'local up' is found."
)


class Meeting(NamedTuple):
    """Where agents are met, and the key if there is one.

    Attributes:
      endpoints: Ignite nodes.
      zookeeper: Where the registry is, if not in the cluster.
      key_file: The key.
    """

    endpoints: list[Endpoint]
    zookeeper: ZooKeeper | None
    key_file: Path | None

    @staticmethod
    def of(address: str | None, zookeeper: str | None, key_file: Path | None = None) -> Meeting:
        """What the options say, completed from a local cluster that runs."""
        from ignite_strategy.local import state

        endpoints = chosen_endpoints(address)
        for cluster in state.list_running() if key_file is None else ():
            if cluster.key_file and not set(parse_endpoints(cluster.addresses)).isdisjoint(endpoints):
                key_file = Path(cluster.key_file)
        return Meeting(endpoints, ZooKeeper.of(zookeeper), key_file)

    def key(self) -> Key | None:
        """The key, if one is known."""
        return read_key(self.key_file) if self.key_file is not None else None

    @contextlib.contextmanager
    def registry(self, ttl: float = 15.0) -> Iterator[Registry]:
        """The registry, which knows the other nodes as well if the cluster tells them."""
        from ignite_strategy.topology.nodes import connect, list_nodes

        with open_registry(self.endpoints, self.zookeeper, ttl=ttl) as registry:
            with contextlib.suppress(IgniteStrategyError):  # the registry's own error says more
                connection = connect(self.endpoints)
                with contextlib.closing(connection):
                    nodes = list_nodes(connection)[1]
                registry.use_endpoints([e for node in nodes for e in node.endpoints[:1]])
            yield registry
