"""A cache as NumPy columns, without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from ignite_strategy import _core
from ignite_strategy.dataset.schema import Column, discover, select
from ignite_strategy.dataset.source import RAGGED, Source, schema_endpoints
from ignite_strategy.settings import Security, Timeouts

__all__ = ["batches", "read"]


def read(
    cache_name: str,
    host: str | None = None,
    port: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    partitions: int | str | Iterable[int] | None = None,
    local: bool = False,
    page_size: int | None = None,
    env: bool = True,
    timeouts: Timeouts | None = None,
    addresses: str | Sequence[str] | None = None,
    security: Security | None = None,
) -> dict[str, Any]:
    """Reads a whole cache, or some partitions of it, into memory.

    Args:
      cache_name: The cache; a table T made by ``CREATE TABLE`` is the cache ``SQL_PUBLIC_T``.
      host: The node, by default as in :class:`ignite_strategy.IgniteDataset`.
      port: Its client port.
      columns: The columns to read, ``["key", "val.x"]``; all by default.
      partitions: The partitions to read; all by default.
      local: Read only what the node itself holds.
      page_size: Rows of a page.
      env: Whether environment variables replace the arguments.
      timeouts: Limits on waiting.
      addresses: Several nodes instead of ``host`` and ``port``, tried in order.
      security: TLS, user and password; by default an open resolver's, and the environment's.

    Returns:
      Column name -> array with one item per row. Strings are ``bytes``, arrays are arrays in an object array.

    Raises:
      IgniteStrategyError: See :class:`ignite_strategy.IgniteDataset`.
    """
    source = Source.of(
        cache_name,
        host,
        port,
        local=local,
        part=None,
        partitions=partitions,
        page_size=page_size,
        env=env,
        timeouts=timeouts,
        addresses=addresses,
        security=security,
    )
    schema = discover(
        source.effective_cache(),
        schema_endpoints(source, None, None),
        local=source.local,
        timeouts=source.timeouts,
        security=source.security,
        env=source.env,
    )
    wanted = select(schema, columns)
    parts: list[list[Any]] = [[] for _ in wanted]
    for batch in batches(source.config(wanted, RAGGED, schema.bytes_per_row)):
        for part, column in zip(parts, batch):
            part.append(column)
    return {column.name: _join(column, part) for column, part in zip(wanted, parts)}


def batches(config: bytes) -> Iterator[list[Any]]:
    """The batches of one pass: per column an array, a list of bytes, or (values, row splits)."""
    with closing(_core.Scan(config)) as scan:
        while (batch := scan.next()) is not None:
            yield batch


def _join(column: Column, parts: list[Any]) -> np.ndarray[Any, Any]:
    if column.is_array:
        rows = [row for values, splits in parts for row in np.split(values, splits[1:-1])]
    elif column.dtype == "string":
        rows = [text for part in parts for text in part]
    else:
        return np.concatenate(parts) if parts else np.empty(0, column.dtype)
    joined = np.empty(len(rows), object)
    for at, row in enumerate(rows):
        joined[at] = row
    return joined
