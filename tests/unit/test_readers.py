"""What tasks have read, summed up: small, and local told from remote by the node that answered."""

from __future__ import annotations

from typing import Any

from ignite_strategy.runtime.readers import Reading, readings, summarize


def _entry(partition: int, node: str | None, rows: int, **more: Any) -> dict[str, Any]:
    entry = {
        "pass": 1,
        "cache": "C",
        "partition": partition,
        "node_id": node,
        "endpoint": "h:1",
        "rows": rows,
    }
    return {**entry, "bytes": 10 * rows, "state": "done", **more}


def test_sums_per_cache_and_node() -> None:
    report = [
        _entry(0, "a", 5),
        _entry(1, "a", 6),
        _entry(0, "a", 5, **{"pass": 2}),
        _entry(2, "b", 7, state="failed"),
        _entry(3, None, 0, state="waiting"),
        _entry(-1, "a", 100, cache="LOOKUP"),
    ]
    summary = summarize(report)
    assert summary == [
        {
            "cache": "C",
            "node": "a",
            "endpoint": "h:1",
            "rows": 16,
            "bytes": 160,
            "failed": 0,
            "partitions": "0-1",
        },
        {
            "cache": "C",
            "node": "b",
            "endpoint": "h:1",
            "rows": 7,
            "bytes": 70,
            "failed": 1,
            "partitions": "2",
        },
        {
            "cache": "LOOKUP",
            "node": "a",
            "endpoint": "h:1",
            "rows": 100,
            "bytes": 1000,
            "failed": 0,
            "partitions": "",
        },
    ]
    assert readings(summary, "a") == (Reading("C", 16, 160, 7, 70), Reading("LOOKUP", 100, 1000, 0, 0))
    assert summarize([]) == []
