"""Consistent ids that spread few partitions evenly.

With a handful of partitions chance decides: two partitions fall on the same one of two nodes half the time. Which node
owns a partition depends on nothing but the nodes' consistent ids, so the embedded cluster uses ids that suit. They were
found by trying numbers with :func:`owners`, which is Ignite's rendezvous affinity.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["consistent_ids", "owners"]

_MASK = (1 << 64) - 1
# nodes -> the number in their ids. With them partition p of a cache with as many partitions as nodes is on node p.
_SALTS: dict[int, int] = {2: 2751, 3: 37278, 4: 7065, 5: 415, 6: 9706, 7: 9706}


def consistent_ids(count: int) -> list[str]:
    """Consistent ids for ``count`` nodes, the same in every run.

    Up to 7 nodes, partition ``p`` of a cache with ``count`` partitions is on node ``p``; with two nodes, up to 12
    partitions alternate. Beyond 7 nodes chance decides.

    >>> owners(consistent_ids(2), 6)
    [0, 1, 0, 1, 0, 1]
    """
    salt = _SALTS.get(count, 0)
    return [f"node-{at}-{salt}" for at in range(count)]


def owners(ids: Sequence[str], partitions: int) -> list[int]:
    """The position in ``ids`` of each partition's primary node."""
    hashes = [_java_hash(text) for text in ids]
    return [min(range(len(ids)), key=lambda at: _rank(hashes[at], part)) for part in range(partitions)]


def _java_hash(text: str) -> int:
    """``String.hashCode`` of an ASCII text."""
    value = 0
    for byte in text.encode("ascii"):
        value = (31 * value + byte) & 0xFFFFFFFF
    return value


def _rank(node_hash: int, partition: int) -> int:
    """The order of a node for a partition (``RendezvousAffinityFunction.hash``): the smallest one owns it."""
    key = (node_hash & 0xFFFFFFFF) | (partition << 32)
    key = (~key + (key << 21)) & _MASK
    key ^= key >> 24
    key = (key + (key << 3) + (key << 8)) & _MASK
    key ^= key >> 14
    key = (key + (key << 2) + (key << 4)) & _MASK
    key ^= key >> 28
    key = (key + (key << 31)) & _MASK
    return key - (1 << 64) if key >> 63 else key
