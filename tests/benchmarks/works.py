"""What is measured: the caches, the contestants and the ratios that must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.benchmarks.measure import Entry, Limit, Target, Work

PAGES = (1024, 4096, 16384)
# Of a connection: two in its queue, one with its thread, one with the consumer.
HELD = 4
# In place of a number of nodes: one in another network namespace; one for files, and one of an Ignite with IGFS.
ELSEWHERE, FILES = 0, -1


@dataclass(frozen=True)
class Cache:
    """A cache to measure with.

    Attributes:
      name: Its name.
      kind: Which rows, see ``fill.py``.
      rows: How many.
      partitions: How many.
    """

    name: str
    kind: str
    rows: int
    partitions: int


@dataclass(frozen=True)
class Plan:
    """A work, the cache that it needs, and on how many nodes it is measured."""

    work: Work
    cache: Cache
    nodes: int = 1


def small_rows(rows: int, partitions: int, connections: Sequence[int]) -> Plan:
    """Small structured rows, batches of 256, from one cache."""
    ours = Entry("ours, batch_size=256", "ignite_strategy", "batch_size", (*PAGES, None))
    return Plan(
        Work(
            "small-rows" if partitions == 8 else f"small-rows-{partitions}",
            f"{rows:,} small rows, {partitions} partitions, batches of 256",
            rows,
            [
                ours,
                Entry("ours, .batch(256)", "ignite_strategy", "plain", (*PAGES, None)),
                Entry(
                    "ours, parallel",
                    "ignite_strategy",
                    "parallel",
                    (4096, 16384, None),
                    connections,
                ),
                Entry("raw drain", "raw", "scan", PAGES),
                Entry("tensorflow-io .batch(256)", "tensorflow_io", "batch", PAGES),
                Entry("TFRecord, plain", "records", "plain"),
                Entry("TFRecord, parallel", "records", "parallel"),
                Entry("pyignite scan", "pyignite", "scan", (1024, 4096), options={"limit": min(rows, 5_000)}),
            ],
            [
                Target("ours, .batch(256)", "tensorflow-io .batch(256)", 12),
                Target(ours.label, "tensorflow-io .batch(256)", 14),
                Target(ours.label, "raw drain", 0.8),
                Target(ours.label, "TFRecord, plain", 1.5),
                Target("ours, parallel", "raw drain", 1.2),
                Target("ours, parallel", "TFRecord, plain", 2),
                Target("ours, parallel", "TFRecord, parallel", 1.4),
            ],
            [Limit(ours.label, HELD), Limit("ours, parallel", HELD)],
        ),
        Cache("SMALL" if partitions == 8 else f"SMALL{partitions}", "small", rows, partitions),
    )


def pipelines(rows: int) -> Plan:
    """A user's map and shuffle."""
    return Plan(
        Work(
            "pipeline",
            f"{rows:,} small rows, .map(f).shuffle(10_000).batch(256)",
            rows,
            [
                Entry("ours", "ignite_strategy", "shuffled", (4096, None)),
                Entry("rows in memory", "records", "memory shuffled"),
                Entry("tensorflow-io", "tensorflow_io", "shuffled", (4096,)),
                Entry("ours, without shuffle", "ignite_strategy", "mapped", (4096,)),
            ],
            [Target("ours", "rows in memory", 0.8), Target("ours", "tensorflow-io", 1.6)],
        ),
        Cache("SMALL", "small", rows, 8),
    )


def ragged(rows: int) -> Plan:
    """Arrays of 0 to 32 longs."""
    return Plan(
        Work(
            "ragged",
            f"{rows:,} rows with an array of 0 to 32 longs, ragged batches of 256",
            rows,
            [
                Entry("ours, ragged", "ignite_strategy", "ragged", (*PAGES, None)),
                Entry("tensorflow-io dense_to_ragged_batch(256)", "tensorflow_io", "ragged", PAGES[:2]),
                Entry("raw drain", "raw", "scan", PAGES),
            ],
            [Target("ours, ragged", "tensorflow-io dense_to_ragged_batch(256)", 8)],
        ),
        Cache("RAGGED", "ragged", rows, 8),
    )


def shaped(name: str, kind: str, rows: int, title: str) -> Plan:
    """Other rows in batches of 256."""
    return Plan(
        Work(
            name,
            f"{rows:,} {title}, batches of 256",
            rows,
            [
                Entry("ours, batch_size=256", "ignite_strategy", "batch_size", (1024, 4096, None)),
                Entry("raw drain", "raw", "scan", (1024, 4096)),
                Entry("tensorflow-io .batch(256)", "tensorflow_io", "batch", (1024, 4096)),
            ],
        ),
        Cache(name.upper(), kind, rows, 8),
    )


def megabytes(rows: int, connections: Sequence[int]) -> Plan:
    """Rows of 1 MB, one at a time."""
    return Plan(
        Work(
            "mb",
            f"{rows:,} rows of 1 MB",
            rows,
            [
                Entry("ours, one connection", "ignite_strategy", "one", (1, 2, 8, None)),
                Entry("ours, one connection, page 1", "ignite_strategy", "one", (1,)),
                Entry(
                    "ours, parallel",
                    "ignite_strategy",
                    "parallel rows",
                    (1, None),
                    connections,
                ),
                Entry("raw drain", "raw", "scan", (1, 2, 8, 20)),
                Entry("tensorflow-io, page 1", "tensorflow_io", "rows", (1,)),
                Entry("tensorflow-io", "tensorflow_io", "rows", (8, 20)),
            ],
            [
                Target("ours, one connection", "tensorflow-io", 3),
                Target("ours, one connection", "raw drain", 0.9),
                Target("ours, parallel", "raw drain", 1.0),
                Target("ours, one connection, page 1", "tensorflow-io, page 1", 10),
            ],
            [Limit("ours, one connection", HELD), Limit("ours, parallel", HELD)],
            row_bytes=1e6,
        ),
        Cache("MB", "megabytes", rows, 8),
    )


def writing(rows: int) -> Plan:
    """Bulk load of small rows."""
    few = min(rows, 20_000)
    return Plan(
        Work(
            "write",
            f"{rows:,} small rows written",
            rows,
            [
                Entry("ours, write", "ignite_strategy", "write", (512, 2048, 8192), (2,)),
                Entry(
                    "pyignite put_all",
                    "pyignite",
                    "put_all",
                    (250, 1000),
                    options={"rows": few, "limit": few},
                ),
            ],
            [Target("ours, write", "pyignite put_all", 10)],
        ),
        Cache("WRITTEN", "empty", 0, 8),
    )


def on_nodes(rows: int, nodes: int, connections: Sequence[int]) -> Plan:
    """Small rows on several nodes, asked through one of them."""
    plan = small_rows(rows, 8, connections)
    wanted = ("ignite_strategy", "raw", "tensorflow_io")
    entries = [entry for entry in plan.work.entries if entry.script in wanted]
    work = replace(
        plan.work,
        name=f"nodes-{nodes}",
        title=f"{rows:,} small rows, 8 partitions on {nodes} nodes, batches of 256",
        entries=entries,
        targets=[],
        limits=[],
    )
    return Plan(work, plan.cache, nodes)


def in_namespace(rows: int, connections: Sequence[int]) -> Plan:
    """Small rows of a node in another network namespace."""
    plan = on_nodes(rows, 1, connections)
    work = replace(
        plan.work,
        name="namespace",
        title=f"{rows:,} small rows of a node in another network namespace, batches of 256",
    )
    return Plan(work, plan.cache, ELSEWHERE)


def plans(options: Any) -> Mapping[str, Plan]:
    """All works by name, in the order in which they run."""
    make: Sequence[Callable[[], Plan]] = [
        lambda: small_rows(options.rows, 8, options.connections),
        lambda: small_rows(options.rows, 1, options.connections),
        lambda: small_rows(options.rows, 1024, options.connections),
        lambda: pipelines(options.rows),
        lambda: ragged(options.rows),
        lambda: shaped("wide", "wide", options.rows // 10, "rows of 100 columns"),
        lambda: shaped("images", "images", options.rows // 5, "images of 784 bytes"),
        lambda: megabytes(options.blobs, options.connections),
        lambda: writing(options.rows),
        lambda: on_nodes(options.rows, 2, options.connections),
        lambda: on_nodes(options.rows, 3, options.connections),
        lambda: in_namespace(options.rows, options.connections),
    ]
    return {plan.work.name: plan for plan in (each() for each in make)}
