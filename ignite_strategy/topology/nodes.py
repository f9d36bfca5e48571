"""What the Ignite cluster looks like: its nodes, and which node is primary for each partition of a cache."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ignite_strategy.errors import (
    AuthenticationError,
    ClusterError,
    ConnectionFailedError,
    IgniteStrategyError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
)
from ignite_strategy.settings import (
    CLUSTER_PREFIXES,
    DEFAULT_PORT,
    Endpoint,
    Security,
    Timeouts,
    checked_timeouts,
    default_endpoints,
    parse_endpoints,
    security_for,
)
from ignite_strategy.topology.payload import PayloadReader

__all__ = ["Caller", "Node", "Topology", "cache_names", "connect", "discover", "list_nodes"]

_CACHE_NODE_PARTITIONS = 1100
_CACHE_PARTITIONS = 1101
_NODES_ENDPOINTS = 5102
_CACHE_DOES_NOT_EXIST = 1000
_CACHE_NAMES = 1050
_SECONDS_TO_AGREE = 17.0
_MOST_NAMES, _LONGEST_NAME = 50, 80  # that an error tells


class Caller(Protocol):
    """The part of ``_core.Connection`` that discovery needs."""

    @property
    def node_id(self) -> str | None:
        """The node that answered the handshake."""

    @property
    def endpoint(self) -> str:
        """Where it was reached."""

    @property
    def version(self) -> str:
        """The protocol's version."""

    @property
    def has_node_endpoints(self) -> bool:
        """Whether op 5102 is there."""

    def call(self, op: int, payload: bytes, doing: str) -> bytes:
        """Sends a request and returns the payload of the response."""

    def close(self) -> None:
        """Closes the connection."""


@dataclass(frozen=True)
class Node:
    """An Ignite server node with a client connector.

    Attributes:
      id: Its id; a node that is started again has another.
      addresses: Addresses, then host names, as it announces them.
      port: Port of its client connector.
    """

    id: str
    addresses: tuple[str, ...]
    port: int

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every way to connect to it."""
        return tuple(Endpoint(address, self.port) for address in self.addresses)


@dataclass(frozen=True)
class Topology:
    """The nodes, and the primaries of one cache.

    Attributes:
      version: Ignite's topology version; it grows whenever a node joins or leaves.
      nodes: The nodes that have a client connector, sorted by id.
      cache: Name of the cache.
      primaries: Per partition, the id of its primary node; ``None`` if it has none.
      together: Further caches whose partitions have the same primaries.
    """

    version: int
    nodes: tuple[Node, ...]
    cache: str
    primaries: tuple[str | None, ...]
    together: tuple[str, ...] = ()

    @property
    def caches(self) -> tuple[str, ...]:
        """All caches that this is about."""
        return (self.cache, *self.together)

    def node(self, node_id: str) -> Node:
        """The node with this id.

        Raises:
          NotFoundError: It is not in the cluster.
        """
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise NotFoundError(f"Ignite node {node_id} is not in the cluster (topology version {self.version})")

    def placement(self) -> dict[str, list[int]]:
        """The partitions of every node that is primary for some."""
        placed: dict[str, list[int]] = {}
        for partition, primary in enumerate(self.primaries):
            if primary is not None:
                placed.setdefault(primary, []).append(partition)
        return placed

    def partitions_of(self, node_id: str) -> tuple[int, ...]:
        """The partitions for which a node is primary."""
        return tuple(p for p, primary in enumerate(self.primaries) if primary == node_id)


def connect(
    addresses: str | Sequence[str] | Sequence[Endpoint] | None,
    timeouts: Timeouts | None = None,
    security: Security | None = None,
    prefixes: Sequence[str] = CLUSTER_PREFIXES,
) -> Any:
    """Opens a native connection to the first address that answers.

    Args:
      addresses: ``host:port`` each; none = the addresses of an open resolver, else localhost:10800.
      timeouts: Limits.
      security: TLS, user and password; by default those of an open resolver that speaks to one of these nodes. The
        variables ``IGNITE_TLS``, ``IGNITE_CAFILE``, ``IGNITE_USERNAME`` and so on replace them.
      prefixes: The prefixes of those variables.

    Raises:
      AuthenticationError: User, password or a certificate was refused; other addresses are not tried.
      ConnectionFailedError: None answers; the message has each address's own error.
    """
    from ignite_strategy import _core

    limits = checked_timeouts(timeouts)
    endpoints = _endpoints(addresses)
    failures: list[IgniteStrategyError] = []
    settings = security_for(endpoints, security).native()
    for endpoint in endpoints:
        try:
            return _core.Connection(
                endpoint.host,
                endpoint.port,
                limits.connect,
                limits.request,
                security=settings,
                prefixes=list(prefixes),
            )
        except AuthenticationError:
            raise
        except ConnectionFailedError as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    raise ConnectionFailedError(
        f"no Ignite node answers at {', '.join(map(str, endpoints))}: " + "; ".join(map(str, failures))
    ) from failures[-1]


def _endpoints(addresses: str | Sequence[str] | Sequence[Endpoint] | None) -> list[Endpoint]:
    if addresses is None or not addresses:
        return list(default_endpoints()) or [Endpoint("localhost", DEFAULT_PORT)]
    if isinstance(addresses, str):
        return parse_endpoints(addresses)
    return [a if isinstance(a, Endpoint) else parse_endpoints([a])[0] for a in addresses]


def list_nodes(connection: Caller) -> tuple[int, tuple[Node, ...]]:
    """Asks for the nodes (op 5102).

    Returns:
      The topology version, and the nodes sorted by id.

    Raises:
      UnsupportedError: The server is older than Ignite 2.9.
    """
    if not connection.has_node_endpoints:
        raise UnsupportedError(
            f"{connection.endpoint}: the server (protocol {connection.version}) cannot list its nodes; "
            "cluster management needs Apache Ignite 2.9 or newer"
        )
    doing = "listing the nodes"
    reader = PayloadReader(connection.call(_NODES_ENDPOINTS, struct.pack("<qq", -1, -1), doing), doing)
    version = reader.i64()
    nodes = []
    for _ in range(reader.count(24)):
        node_id, port = reader.raw_uuid(), reader.i32()
        names = [reader.string() for _ in range(reader.count(1))]
        nodes.append(Node(node_id, tuple(dict.fromkeys(name for name in names if name)), port))
    return version, tuple(sorted(nodes, key=lambda node: node.id))


def cache_names(connection: Caller) -> list[str]:
    """The names of all caches, sorted."""
    reader = PayloadReader(connection.call(_CACHE_NAMES, b"", "listing the caches"), "the list of caches")
    return sorted(reader.string() or "" for _ in range(reader.count(1)))


def discover(connection: Caller, cache: str) -> Topology:
    """Finds out which node is primary for each partition of ``cache``.

    Raises:
      NotFoundError: There is no such cache.
      ClusterError: The nodes' addresses do not tell them apart, or the topology kept changing.
    """
    # The answers belong together only if no node joined or left in between, and the nodes have agreed on the partitions
    # since, which takes them seconds.
    until, pause = time.monotonic() + _SECONDS_TO_AGREE, 0.005
    while True:
        version, nodes = list_nodes(connection)
        placed_at, by_node = _ask_partitions(connection, cache)
        try:
            primaries, problem = _primaries(connection, cache, nodes, by_node), None
        except ClusterError as error:
            primaries, problem = (), error
        after, _ = list_nodes(connection)
        known = {node.id for node in nodes}
        if version == after and placed_at in (version, None):
            if problem is not None:
                raise problem
            if all(p is None or p in known for p in primaries):
                return Topology(version, nodes, cache, primaries)
            strange = sorted({p for p in primaries if p is not None} - known)
            raise ClusterError(
                f"cache {cache!r} has partitions on nodes without a client connector: {', '.join(strange)}; "
                "configure clientConnectorConfiguration on every server node"
            )
        if time.monotonic() > until:
            break
        time.sleep(pause)
        pause = min(2 * pause, 0.5)
    raise ClusterError(
        f"the topology kept changing while {connection.endpoint} was asked for the partitions of {cache!r}; "
        "try again when no node joins or leaves"
    )


def _primaries(
    connection: Caller, cache: str, nodes: Sequence[Node], by_node: list[_Owned] | None
) -> tuple[str | None, ...]:
    if by_node is None:
        by_node = _ask_node_partitions(connection, cache, nodes)
    count = max((p for _, parts in by_node for p in parts), default=-1) + 1
    if count == 0:
        raise ClusterError(f"cache {cache!r} has no partition with a primary node: is the cluster active?")
    primaries: list[str | None] = [None] * count
    for node_id, parts in by_node:
        for partition in parts:
            if primaries[partition] not in (None, node_id):
                raise ClusterError(
                    f"partition {partition} of {cache!r} has two primaries: {primaries[partition]} and {node_id}"
                )
            primaries[partition] = node_id
    return tuple(primaries)


class _Owned(NamedTuple):
    node: str
    partitions: list[int]


def _ask_partitions(connection: Caller, cache: str) -> tuple[int | None, list[_Owned] | None]:
    """Op 1101: the topology version that it speaks of, and the partitions.

    No partitions where it does not apply: replicated caches, custom affinity, protocol before 1.4.
    """
    if connection.node_id is None:
        return None, None
    doing = f"asking for the partitions of cache {cache!r}"
    cache_id = _cache_id(cache)
    payload = _named(
        connection, cache, lambda: connection.call(_CACHE_PARTITIONS, struct.pack("<ii", 1, cache_id), doing)
    )
    reader = PayloadReader(payload, doing)
    version = reader.i64()
    reader.i32()
    for _ in range(reader.count(5)):
        applicable, caches = reader.u8(), reader.count(4)
        ids = []
        for _ in range(caches):
            ids.append(reader.i32())
            if applicable:
                for _ in range(reader.count(8)):
                    reader.i64()
        if not applicable:
            if cache_id in ids:
                return version, None
            continue
        owned = [_Owned(reader.typed_uuid(), _partition_list(reader, cache)) for _ in range(reader.count(21))]
        if cache_id in ids:
            return version, owned
    return version, None


def _ask_node_partitions(connection: Caller, cache: str, nodes: Sequence[Node]) -> list[_Owned]:
    """Op 1100, which names nodes by addresses, joined to the node list by port and full address list."""
    doing = f"asking for the partitions of cache {cache!r} by node address"
    payload = _named(
        connection,
        cache,
        lambda: connection.call(_CACHE_NODE_PARTITIONS, struct.pack("<iB", _cache_id(cache), 0), doing),
    )
    reader = PayloadReader(payload, doing)
    owned = []
    for _ in range(reader.count(12)):
        port = reader.i32()
        addresses = {name for name in (reader.string() for _ in range(reader.count(1))) if name}
        found = [node for node in nodes if node.port == port and addresses <= set(node.addresses)]
        if len(found) != 1:
            raise ClusterError(
                f"{len(found)} nodes announce port {port} and addresses {sorted(addresses)}"
                + (f" ({', '.join(node.id for node in found)})" if found else "")
                + f", so the primaries of cache {cache!r} cannot be told apart; give the nodes distinct addresses or "
                "client ports"
            )
        owned.append(_Owned(found[0].id, _partition_list(reader, cache)))
    return owned


def _partition_list(reader: PayloadReader, cache: str) -> list[int]:
    partitions = [reader.i32() for _ in range(reader.count(4))]
    for partition in partitions:
        if not 0 <= partition < 65_536:
            raise ClusterError(f"cache {cache!r} has a partition numbered {partition}")
    return partitions


def _named(connection: Caller, cache: str, call: Any) -> bytes:
    """Says which cache is missing, and which there are: the server only knows its id."""
    try:
        return bytes(call())
    except IgniteStrategyError as error:
        if error.server_status != _CACHE_DOES_NOT_EXIST:
            raise
        names = cache_names(connection)
        shown = ", ".join(repr(name[:_LONGEST_NAME]) for name in names[:_MOST_NAMES])
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        raise NotFoundError(
            f"{connection.endpoint}: cache {cache!r} does not exist; there are: {shown or 'none'}{more} "
            "(a table T made by CREATE TABLE is the cache SQL_PUBLIC_T)"
        ) from error


def _cache_id(cache: str) -> int:
    from ignite_strategy import _core

    if not cache:
        raise InvalidArgumentError("the name of the cache is empty")
    return int(_core.java_hash(cache))
