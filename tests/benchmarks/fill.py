"""Fills the caches that are measured."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import ignite_strategy as igs
from ignite_strategy.dataset.kinds import Ragged
from ignite_strategy.settings import Timeouts
from ignite_strategy.topology.caches import connect, create_cache, drop_cache

sys.path.insert(0, str(Path(__file__).parent / "drains"))

import rows as made

from tests.benchmarks.works import Cache

_BLOB = 1_000_000


def fill(cache: Cache, addresses: list[str]) -> None:
    """Creates ``cache`` and puts its rows into it."""
    with contextlib.closing(connect(addresses, request_timeout=120.0)) as client:
        if cache.kind == "files":  # as those that a file system is kept in
            create_cache(client, "RAW_BLOCKS", backups=1)
            create_cache(client, "RAW_TREE", backups=1, atomicity="transactional")
            return
        drop_cache(client, cache.name)
        create_cache(client, cache.name, partitions=cache.partitions)
    if cache.kind == "empty":
        return
    igs.write(
        cache.name,
        _blobs(cache.rows) if cache.kind == "megabytes" else _rows(cache),
        addresses=addresses,
        # A type of its own: where several caches share one, its fields are those of all of them.
        type_name=f"Row{cache.kind.title()}",
        timeouts=Timeouts(request=120.0),
    )


def _rows(cache: Cache) -> dict[str, Any]:
    columns = getattr(made, cache.kind)(cache.rows)
    values = {
        name: Ragged(*column) if isinstance(column, tuple) else column for name, column in columns.items()
    }
    return {"key": np.arange(cache.rows, dtype=np.int32), "val": values}


def _blobs(rows: int) -> Iterator[dict[str, Any]]:
    block = np.full((8, _BLOB), ord("x"), np.int8)
    for first in range(0, rows, len(block)):
        keys = np.arange(first, min(first + len(block), rows), dtype=np.int32)
        yield {"key": keys, "val": block[: len(keys)]}
