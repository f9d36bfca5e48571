"""How many rows a pass has."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from ignite_strategy import _core
from ignite_strategy.dataset.columns import Column
from ignite_strategy.dataset.source import RAGGED, Source, first_answer

__all__ = ["count_rows"]


def count_rows(source: Source, columns: Sequence[Column]) -> int:
    """Counts the rows that a pass in this process would have.

    Raises:
      IgniteStrategyError: As a pass would.
    """
    if not _whole(source, columns):
        with closing(_core.Scan(source.config(columns, RAGGED, 0.0))) as scan:
            return scan.count()
    return first_answer(
        source,
        lambda endpoint: _core.cache_size(
            endpoint.host,
            endpoint.port,
            source.effective_cache(),
            connect_timeout=source.timeouts.connect,
            request_timeout=source.timeouts.request,
            security=source.security.native(),
            env=source.env,
        ),
    )


def _whole(source: Source, columns: Sequence[Column]) -> bool:
    """Whether every row of the cache is one of the pass."""
    if source.sql is not None or source.local or source.partitions is not None:
        return False
    if any(column.nulls == "drop" for column in columns) or (source.value_type and source.value_type[2]):
        return False
    if not source.env:
        return True
    environment = _core.dataset_environment()
    assigned = (environment["assignment"] or {}).get(source.effective_cache())
    return not environment["local"] and environment["part"] is None and assigned is None
