"""What the datasets of a task have read, summed up so that it is small enough to report every second (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ignite_strategy.topology.ranges import format_ranges

__all__ = ["Reading", "readings", "summarize"]


def summarize(report: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sums up :func:`ignite_strategy.library.reader_report` per cache and node that answered.

    Returns:
      Per cache and node: ``cache``, ``node`` (its id, from the handshake), ``endpoint``, ``partitions`` (ranges, empty
      if the cache was read whole), ``rows``, ``bytes`` and ``failed`` (readers that have).
    """
    sums: dict[tuple[str, str], dict[str, Any]] = {}
    partitions: dict[tuple[str, str], set[int]] = {}
    for entry in report:
        node = entry.get("node_id") or ""
        if not node and not entry["rows"]:
            continue  # waiting for its turn: no node has answered yet
        key = (str(entry["cache"]), str(node))
        total = sums.setdefault(
            key, {"cache": key[0], "node": key[1], "endpoint": "", "rows": 0, "bytes": 0, "failed": 0}
        )
        total["endpoint"] = entry.get("endpoint") or total["endpoint"]
        total["rows"] += int(entry["rows"])
        total["bytes"] += int(entry["bytes"])
        total["failed"] += entry.get("state") == "failed"
        if entry["partition"] >= 0:
            partitions.setdefault(key, set()).add(int(entry["partition"]))
    return [{**total, "partitions": format_ranges(partitions.get(key, ()))} for key, total in sums.items()]


class Reading(NamedTuple):
    """What a task has read of one cache.

    Attributes:
      cache: Its name.
      local_rows: From the task's own node.
      local_bytes: Likewise.
      remote_rows: From other nodes.
      remote_bytes: Likewise.
    """

    cache: str
    local_rows: int
    local_bytes: int
    remote_rows: int
    remote_bytes: int


def readings(summaries: Iterable[Mapping[str, Any]], own_node: str) -> tuple[Reading, ...]:
    """Splits summaries into local and remote, by cache."""
    sums: dict[str, list[int]] = {}
    for entry in summaries:
        counts = sums.setdefault(str(entry["cache"]), [0, 0, 0, 0])
        at = 0 if entry["node"] == own_node else 2
        counts[at] += int(entry["rows"])
        counts[at + 1] += int(entry["bytes"])
    return tuple(Reading(cache, *counts) for cache, counts in sorted(sums.items()))
