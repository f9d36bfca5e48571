"""Several caches that are read with one assignment, features and labels: partition p of each lies on one node."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from ignite_strategy.errors import PreconditionError
from ignite_strategy.topology.nodes import Caller, Topology, discover

__all__ = ["discover_together"]

_SECONDS_TO_SETTLE = 15.0  # after a node has joined, caches move one after another
_PAUSE = 0.25


def discover_together(
    connection: Caller, caches: Sequence[str], patience: float = _SECONDS_TO_SETTLE
) -> Topology:
    """Finds out where the partitions of several caches are, which must be the same nodes.

    Args:
      connection: To any node.
      caches: Their names; the first one's is the topology's.
      patience: How long caches may lie apart, in seconds: Ignite moves them one by one when nodes join or leave.

    Raises:
      NotFoundError: One of them does not exist.
      PreconditionError: They do not lie together; it names the first partition.
      ClusterError: As of :func:`~ignite_strategy.topology.nodes.discover`.
    """
    until = time.monotonic() + patience
    while True:
        first, *others = [discover(connection, cache) for cache in caches]
        problem = next((text for other in others if (text := _difference(first, other))), None)
        if problem is None:
            return replace(first, together=tuple(caches[1:]))
        changing = any(other.version != first.version for other in others)
        different = any(len(other.primaries) != len(first.primaries) for other in others)
        if (different and not changing) or time.monotonic() > until:
            raise PreconditionError(problem)
        time.sleep(_PAUSE)


def _difference(first: Topology, other: Topology) -> str | None:
    """Why two caches cannot be read with one assignment; ``None`` if they can."""
    if len(first.primaries) != len(other.primaries):
        return (
            f"cache {first.cache!r} has {len(first.primaries)} partitions and cache {other.cache!r} "
            f"{len(other.primaries)}: caches that are read together need the same number (partitions= of create_cache)"
        )
    apart = [p for p, pair in enumerate(zip(first.primaries, other.primaries)) if pair[0] != pair[1]]
    if not apart:
        return None
    at = apart[0]
    more = f" (and {len(apart) - 1} more)" if len(apart) > 1 else ""
    return (
        f"partition {at}{more} of cache {first.cache!r} lies on node {first.primaries[at]}, that of cache "
        f"{other.cache!r} on node {other.primaries[at]}: they cannot be read by one task without rows that travel. "
        "Give both the same affinity function, number of partitions and node filter"
    )
