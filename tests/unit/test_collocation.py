"""Caches that are read with one assignment. Real ones lie together; here they do not, as while nodes join."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest

from ignite_strategy import _core
from ignite_strategy.errors import PreconditionError
from ignite_strategy.topology.collocation import discover_together


class _Server:
    """Two nodes; answers with the primaries of each cache, which may be others the next time."""

    node_id = "00000000-0000-0000-0000-000000000001"
    endpoint, version, has_node_endpoints = "h:1", "1.7.0", True

    def __init__(self, **caches: Sequence[Sequence[int]]) -> None:
        self._caches = {_core.java_hash(name): list(answers) for name, answers in caches.items()}

    def call(self, op: int, payload: bytes, doing: str) -> bytes:
        if op == 5102:
            return struct.pack("<qi", 7, 2) + b"".join(
                struct.pack("<qqiiBi1s", 0, node, 10800 + node, 1, 9, 1, b"h") for node in (1, 2)
            )
        (cache_id,) = struct.unpack_from("<i", payload, 4)
        answers = self._caches[cache_id]
        primaries = answers.pop(0) if len(answers) > 1 else answers[0]
        body = struct.pack("<qiiBiii", 7, 0, 1, 1, 1, cache_id, 0) + struct.pack("<i", 2)
        for node in (1, 2):
            mine = [p for p, primary in enumerate(primaries) if primary == node]
            body += struct.pack(f"<Bqqi{len(mine)}i", 10, 0, node, len(mine), *mine)
        return body

    def close(self) -> None:
        pass


def _discover(*caches: str, patience: float = 0.0, **answers: Any) -> Any:
    return discover_together(_Server(**answers), caches, patience)


def test_caches_that_lie_together() -> None:
    found = _discover("F", "L", "W", F=[(1, 2, 1)], L=[(1, 2, 1)], W=[(1, 2, 1)])
    assert found.caches == ("F", "L", "W")
    assert [primary[-1] for primary in found.primaries] == ["1", "2", "1"]
    assert _discover("F", F=[(1, 2)]).caches == ("F",)


def test_the_partition_that_lies_elsewhere_is_named() -> None:
    with pytest.raises(PreconditionError) as caught:
        _discover("F", "L", F=[(1, 2, 1, 2)], L=[(1, 2, 2, 1)])
    text = str(caught.value)
    assert "partition 2 (and 1 more) of cache 'F' lies on node 00000000-0000-0000-0000-000000000001" in text
    assert "that of cache 'L' on node 00000000-0000-0000-0000-000000000002" in text


def test_another_number_of_partitions() -> None:
    with pytest.raises(PreconditionError, match=r"'F' has 3 partitions and cache 'L' 2.*create_cache"):
        _discover("F", "L", F=[(1, 2, 1)], L=[(1, 2)], patience=60)  # nothing to wait for


def test_caches_that_move_one_after_another_are_waited_for() -> None:
    found = _discover("F", "L", F=[(1, 1), (1, 2)], L=[(1, 2)], patience=60)
    assert [primary[-1] for primary in found.primaries] == ["1", "2"]
