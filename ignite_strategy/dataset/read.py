"""A cache as NumPy columns or a pandas.DataFrame, without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from ignite_strategy import _core
from ignite_strategy.dataset.arguments import checked_columns
from ignite_strategy.dataset.columns import Column, Options
from ignite_strategy.dataset.masks import Columns, with_nulls
from ignite_strategy.dataset.schema import discover, select
from ignite_strategy.dataset.source import RAGGED, Source, schema_endpoints
from ignite_strategy.errors import InvalidArgumentError, PreconditionError
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
    nulls: str | Mapping[str, str] = "error",
    type: str | None = None,
    decimal: str = "string",
    enum: str = "ordinal",
    timestamp: str = "ns",
    to: str = "numpy",
) -> Any:
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
      nulls: What becomes of a NULL; this and the following as in :class:`ignite_strategy.IgniteDataset`.
      type: Which type of values is read.
      decimal: ``"string"`` or ``"float64"``.
      enum: ``"ordinal"`` or ``"name"``.
      timestamp: ``"ns"`` or ``"ms"``.
      to: ``"numpy"`` or ``"pandas"``.

    Returns:
      Column name (``"key"``, ``"val"``, ``"val.label"``) -> array with one item per row. Strings are ``bytes``, arrays
      are arrays in an object array (arrays of strings lists of ``bytes``). The mask of column ``x`` is ``x_mask``, and
      :func:`write` knows it again. For pandas a DataFrame with the same columns, where strings are ``str``, timestamps
      and dates ``datetime64`` (UTC), what a mask says is NULL is missing, and items that are NULL are ``None``.

    Raises:
      IgniteStrategyError: See :class:`ignite_strategy.IgniteDataset`.
    """
    if to not in ("numpy", "pandas"):
        raise InvalidArgumentError(f"to={to!r}: choose numpy or pandas")
    columns = checked_columns(columns)
    options = Options(nulls=nulls, type=type, decimal=decimal, enum=enum, timestamp=timestamp)
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
        options=options,
    )
    source = replace(source, value_type=schema.value_type)
    wanted = select(schema, columns)
    parts: list[list[Any]] = [[] for _ in wanted]
    for batch in batches(source.config(wanted, RAGGED, schema.bytes_per_row)):
        for part, column in zip(parts, batch):
            part.append(column)
    joined: dict[str, Any] = {}
    for column, part in zip(wanted, parts):
        if column.masked:
            joined[column.mask_name] = _join_masks(column, part)
            part = [batch["values"] for batch in part]
        joined[column.name] = _join(column, part)
    if to == "pandas":
        return _frame(wanted, joined, timestamp)
    return Columns(joined, {column.name: column.mask_name for column in wanted if column.masked})


def batches(config: bytes) -> Iterator[list[Any]]:
    """The batches of one pass: per column an array, a list of bytes, or (values, row splits)."""
    with closing(_core.Scan(config)) as scan:
        while (batch := scan.next()) is not None:
            yield batch


def _join_masks(column: Column, parts: list[Any]) -> np.ndarray[Any, Any]:
    masks = [batch["mask"] for batch in parts]
    if not column.masks_items:
        return np.concatenate(masks) if masks else np.empty(0, bool)
    return _objects(
        row for mask, batch in zip(masks, parts) for row in np.split(mask, batch["values"][1][1:-1])
    )


def _objects(rows: Iterable[Any]) -> np.ndarray[Any, Any]:
    items = list(rows)
    joined = np.empty(len(items), object)
    for at, row in enumerate(items):
        joined[at] = row
    return joined


def _join(column: Column, parts: list[Any]) -> np.ndarray[Any, Any]:
    if column.is_array and column.dtype == "string":
        return _objects(
            values[first:last] for values, splits in parts for first, last in zip(splits, splits[1:])
        )
    if column.is_array:
        return _objects(row for values, splits in parts for row in np.split(values, splits[1:-1]))
    if column.dtype == "string":
        return _objects(text for part in parts for text in part)
    return np.concatenate(parts) if parts else np.empty(0, column.dtype)


def _frame(columns: Sequence[Column], joined: Mapping[str, Any], timestamp: str) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise PreconditionError("to='pandas' needs pandas: pip install pandas") from error
    # Columns of numbers that pandas has a dtype for: java.util.Date, java.sql.Date, Timestamp.
    instants = {11: "datetime64[ms]", 0xFE: "datetime64[ms]", 33: f"datetime64[{timestamp}]"}
    shown: dict[str, Any] = {}
    for column in columns:
        values = joined[column.name]
        if column.code in instants and not column.is_array:
            values = values.view(instants[column.code])
        elif column.dtype == "string" and not column.is_array:
            values = _objects(text.decode() if isinstance(text, bytes) else text for text in values)
        if column.masks_items:
            values = _objects(with_nulls(values, joined[column.mask_name]))
        series = pandas.Series(values)
        if column.masked and not column.masks_items:
            absent = ~joined[column.mask_name]
            if absent.any() and series.dtype.kind in "iub":
                series = series.convert_dtypes(convert_floating=False)  # those that can miss values
            series = series.mask(absent, None if series.dtype == object else pandas.NA)
        shown[column.name] = series
    return pandas.DataFrame(shown)
