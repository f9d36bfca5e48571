"""Fills the caches that are measured."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ignite_strategy.topology.caches import connect, create_cache, put_objects, put_values

sys.path.insert(0, str(Path(__file__).parent / "drains"))

import rows as made

from tests.benchmarks.works import Cache

_NAMES = {np.int8: "byte", np.int32: "int", np.int64: "long", np.float32: "float", np.float64: "double"}


def fill(cache: Cache, addresses: list[str]) -> None:
    """Creates ``cache`` and puts its rows into it."""
    with contextlib.closing(connect(addresses, request_timeout=120.0)) as client:
        create_cache(client, cache.name, partitions=cache.partitions)
        if cache.kind == "megabytes":
            blob = b"x" * 1_000_000
            put_values(
                client, cache.name, ((key, blob) for key in range(cache.rows)), value="byte[]", batch=8
            )
            return
        columns = getattr(made, cache.kind)(cache.rows)
        fields = {name: _kind(column) for name, column in columns.items()}
        put_objects(client, cache.name, _objects(columns, cache.rows), fields=fields, type_name="Row")


def _kind(column: Any) -> str:
    if isinstance(column, list):
        return "string"
    values = column[0] if isinstance(column, tuple) else column
    name = _NAMES[values.dtype.type]
    return name + "[]" if isinstance(column, tuple) or values.ndim == 2 else name


def _objects(columns: dict[str, Any], rows: int) -> Iterator[tuple[int, dict[str, Any]]]:
    lists: dict[str, Any] = {}
    for name, column in columns.items():
        if isinstance(column, tuple):
            values, splits = column
            lists[name] = [values[splits[i] : splits[i + 1]].tolist() for i in range(rows)]
        elif isinstance(column, list):
            lists[name] = column
        elif column.dtype == np.int8 and column.ndim == 2:
            lists[name] = [row.tobytes() for row in column]
        else:
            lists[name] = column.tolist()
    for key in range(rows):
        yield key, {name: values[key] for name, values in lists.items()}
