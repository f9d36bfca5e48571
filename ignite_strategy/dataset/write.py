"""Writes arrays, datasets and DataFrames to a cache: typed objects, in batches, over several connections."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from ignite_strategy import _core
from ignite_strategy.console import progress_console
from ignite_strategy.dataset import kinds, target
from ignite_strategy.dataset.arguments import MAX_PARTITIONS, checked_count, checked_flag
from ignite_strategy.dataset.encode import NativeColumn, Refused, native
from ignite_strategy.dataset.kinds import Kind, infer, parse_kind
from ignite_strategy.dataset.source import endpoints_of
from ignite_strategy.dataset.structure import MAX_DEPTH, check_columns, check_structure
from ignite_strategy.dataset.tables import Table, stream
from ignite_strategy.errors import (
    IgniteStrategyError,
    InvalidArgumentError,
    WriteError,
    WriteInterrupted,
)
from ignite_strategy.settings import Security, Timeouts, checked_timeouts, security_for

__all__ = ["WriteReport", "write"]

# Rows that are handed to the native code at once.
_BLOCK = 8192
# More copies than any cluster has nodes are a mistake.
MAX_BACKUPS = 1000
# How long answers that are outstanding are waited for after a failure, and after Ctrl-C, in seconds.
_GRACE, _SHORT_GRACE = 10.0, 2.0


@dataclass(frozen=True)
class WriteReport:
    """What :func:`write` did.

    Attributes:
      rows: Rows written, all of them acknowledged.
      seconds: How long it took, without the creation of the cache.
      nodes: Nodes that were written to.
      connections: Connections to them.
      partition_aware: Whether each row went to the node that is primary for it.
    """

    rows: int
    seconds: float
    nodes: int
    connections: int
    partition_aware: bool


def write(
    cache: str,
    data: Any,
    host: str | None = None,
    port: int | None = None,
    *,
    key: Any = None,
    types: Mapping[str, Any] | None = None,
    type_name: str | None = None,
    key_type_name: str | None = None,
    batched: bool = False,
    create: bool = False,
    partitions: int | None = None,
    backups: int = 0,
    sql: bool = False,
    connections: int = 2,
    in_flight: int = 2,
    batch_rows: int = 2048,
    partition_aware: bool = True,
    progress: bool | None = None,
    addresses: str | Sequence[str] | None = None,
    timeouts: Timeouts | None = None,
    security: Security | None = None,
) -> WriteReport:
    """Writes rows to a cache; a row whose key is there already replaces it.

    >>> write("DIGITS", {"id": ids, "pixels": pixels, "label": labels}, key="id", create=True)  # doctest: +SKIP
    >>> write("COPY", igs.read("DIGITS"), create=True, partitions=2)  # doctest: +SKIP

    What values become: bool, int8 to int64, float32, float64 and uint16 (char) what Ignite calls so; text and bytes in
    UTF-8 a string; 2-D arrays, ragged tensors and lists an array; mappings an object; ``datetime64`` and ``datetime`` a
    timestamp (UTC), ``date`` an SQL date, ``time`` a time, ``uuid.UUID``, ``decimal.Decimal`` and enums what they are.
    ``None``, masked items, NaT and ``pandas.NA`` are NULL, NaN too but in floats and doubles, which have it. ``types``
    says otherwise. In an SQL table the columns' own types decide. No value is ever changed to fit: that is an error
    that names column, row and value. Only doubles that become floats are rounded.

    Keys should differ within one call: which of two rows with the same key stays is not defined.

    Args:
      cache: The cache; a table T made by ``CREATE TABLE`` is the cache ``SQL_PUBLIC_T``.
      data: Column name -> array of one value per row; a ``pandas.DataFrame``; a list of mappings; an array of values of
        one type, with ``key=array``; a ``tf.data.Dataset`` of mappings or of pairs (key, value); or an iterator over
        any of the in-memory kinds, for data that does not fit into memory.
      host: A node, by default as in :class:`ignite_strategy.IgniteDataset`.
      port: Its client port.
      key: The column that is the key, a list of columns for a key that is an object of them, or an array of keys. Not
        needed for columns called ``key`` and ``val.*``, as :func:`read` returns them, for a DataFrame whose index has a
        name (or one for each level), and for an SQL table.
      types: Column -> type where the values do not tell it: ``"byte[]"``, ``"list<string>"``, ``"map<string,long>"``,
        an ``enum.Enum`` class, a mapping of fields. Names are those of the columns; ``"key"`` and ``"val"`` as well.
      type_name: What objects are called; by default as the table, or as the rows that are there, else as the cache.
      key_type_name: The same for keys that are objects; by default ``type_name`` with ``Key`` behind it.
      batched: Whether the elements of a dataset are batches rather than rows.
      create: Create the cache if there is none of this name.
      partitions: How many partitions the new cache has; the server's default if not given. The nodes need a cache
        template for it: where there is none, the error prints the XML to add.
      backups: How many further copies of each partition the new cache has.
      sql: Make the new cache an SQL table of its name, whose columns are the key and the fields.
      connections: Connections per node.
      in_flight: Unanswered batches per connection.
      batch_rows: Rows of a batch, at most; 1 MiB ends a batch too.
      partition_aware: Send rows to the node that is primary for them, where several nodes are in ``addresses``.
      progress: Whether to draw a progress bar; by default on a terminal.
      addresses: Several nodes instead of ``host`` and ``port``: ``["a:10800", "b:10800"]``.
      timeouts: Limits on waiting.
      security: TLS, user and password; by default an open resolver's, and the environment's.

    Raises:
      WriteError: Not everything was written; its attributes tell which rows are there, which may be, and which are not.
      InvalidArgumentError: Data or arguments that cannot be used; nothing was written.
      NotFoundError: There is no such cache, and ``create`` is not given.
      PreconditionError: The nodes have no template for this number of partitions.
      WriteInterrupted: Ctrl-C, with the same attributes as WriteError.
    """
    kinds.check_name(cache, "cache")
    limits = checked_timeouts(timeouts)
    tuning = _tuning(connections, in_flight, batch_rows, partition_aware)
    types = _checked_types(types, key)
    for name, flag in (("batched", batched), ("create", create), ("sql", sql), ("progress", progress)):
        checked_flag(flag, name)
    if partitions is not None:
        checked_count(partitions, "partitions", 1, MAX_PARTITIONS, "how many partitions the new cache has")
    checked_count(backups, "backups", 0, MAX_BACKUPS, "how many copies beside the primary one")
    endpoints = endpoints_of(host, port, addresses)
    secured = security_for(endpoints, security)
    place = target.Target(cache, endpoints, limits, secured)
    facts = place.facts()
    if facts is None and not create:
        raise place.missing()
    tables, total = stream(data, key if key is not None else target.key_columns(facts), batched)
    tables = (
        Table(target.spelled(facts, "key", each.key), target.spelled(facts, "val", each.val), each.rows)
        for each in tables
        if each.rows
    )
    first = _first(tables)
    if first is None:
        if facts is None:
            raise InvalidArgumentError(
                f"cache {cache!r} cannot be created for no rows: nothing tells their types"
            )
        return WriteReport(0, 0.0, 0, 0, False)
    try:
        layout = _layout(first, types, facts, cache, type_name, key_type_name)
    except RecursionError:
        raise InvalidArgumentError(f"a column is nested far deeper than {MAX_DEPTH} levels") from None
    created = facts is None
    if created:
        if sql:
            key_name = _key_name(key)
            objects = [kind for kind in (layout.key, layout.val) if kind.code == kinds.OBJECT]
            fields = [name for kind in objects for name, _ in kind.parts]
            check_columns(fields + ([key_name] if key_name else []))
        _rehearse(layout, first)
    place.register([layout.key, layout.val])
    if created:
        place.create(
            layout.key, layout.val, partitions=partitions, backups=backups, sql=sql, key_name=_key_name(key)
        )
    try:
        writer = _core.BulkWriter(
            cache,
            [(endpoint.host, endpoint.port) for endpoint in endpoints],
            connect_timeout=limits.connect,
            request_timeout=limits.request,
            security=secured.native(),
            **tuning,
        )
    except IgniteStrategyError as error:
        if created:
            raise type(error)(f"{error}; {place.remains()}") from error
        raise
    remains = place.remains() if created else ""
    start = time.monotonic()
    try:
        with _progress(cache, total, progress) as advance:
            for table in itertools.chain([first], tables):
                for block in table.blocks(_BLOCK):
                    _put(writer, layout, block, place.compact)
                    advance(writer.acknowledged)
            writer.finish()
            advance(writer.acknowledged)
    except KeyboardInterrupt as error:
        writer.stop(_SHORT_GRACE)
        raise WriteInterrupted("interrupted", **_outcome(writer)) from error
    except Exception as error:  # also what the user's own iterator raises
        writer.stop(_GRACE)
        raise _failure(error, writer, remains) from error
    except BaseException:
        writer.stop(_SHORT_GRACE)
        raise
    else:
        report = writer.report()
        return WriteReport(
            report["acknowledged"],
            time.monotonic() - start,
            report["nodes"],
            report["connections"],
            report["partition_aware"],
        )
    finally:
        writer.close()


def _tuning(connections: Any, in_flight: Any, batch_rows: Any, partition_aware: Any) -> dict[str, Any]:
    return {
        "connections": checked_count(connections, "connections", 1, 64, "connections per node"),
        "in_flight": checked_count(in_flight, "in_flight", 1, 64, "unanswered batches per connection"),
        "batch_rows": checked_count(batch_rows, "batch_rows", 1, 1 << 24, "rows of a batch"),
        "partition_aware": checked_flag(partition_aware, "partition_aware"),
    }


def _checked_types(types: Any, key: Any) -> dict[str, Any]:
    if types is None:
        return {}
    if not isinstance(types, Mapping):
        raise InvalidArgumentError(f"types={types!r}: give a dict of column -> type, {{'a': 'int'}}")
    # A column that is the key may be meant by its own name.
    return {"key" if isinstance(key, str) and name == key else name: kind for name, kind in types.items()}


def _first(tables: Iterator[Table]) -> Table | None:
    """The first rows; what the user's own iterator raises is told as later on."""
    try:
        return next(tables, None)
    except IgniteStrategyError:
        raise
    except RecursionError:
        raise InvalidArgumentError(f"a column is nested far deeper than {MAX_DEPTH} levels") from None
    except Exception as error:
        raise WriteError(_raised(error), taken=0, acknowledged=0, unknown=[], unsent=[]) from error


def _raised(error: Exception) -> str:
    if isinstance(error, IgniteStrategyError):
        return str(error)
    return f"the data could not be taken: {type(error).__name__}: {error}"


def _failure(error: Exception, writer: _core.BulkWriter, remains: str) -> WriteError:
    outcome = _outcome(writer)
    message = _raised(error)
    if remains and not outcome["acknowledged"] and not outcome["unknown"]:
        message += f"; {remains}"
    return WriteError(message, **outcome)


def _rehearse(layout: _Layout, table: Table) -> None:
    """Encodes the first rows as they will be, so that no cache is created for rows that cannot be written."""
    block = next(table.blocks(_BLOCK))
    columns = _columns(layout, block, True, 0)
    for part, column in zip(("key", "val"), columns):
        if column[5] is not None and not all(column[5]):
            row = list(column[5]).index(0)
            raise InvalidArgumentError(
                f"column {part}, row {row}: NULL cannot be a {'key' if part == 'key' else 'value'}"
            )
    _core.encode_rows(*columns, block.rows)


@dataclass(frozen=True)
class _Layout:
    key: Kind
    val: Kind


def _layout(
    table: Table,
    types: dict[str, Any],
    facts: Mapping[str, Any] | None,
    cache: str,
    type_name: str | None,
    key_type_name: str | None,
) -> _Layout:
    names = target.type_names(facts, cache)
    used: set[str] = set()
    parts = {}
    for part, values, given in (("key", table.key, key_type_name), ("val", table.val, type_name)):
        declared = target.declared(facts, part, values)
        kind = _kind(values, part, "", types, declared, used)
        if kind.code == 0:
            raise InvalidArgumentError(f"cache {cache}: every {part} is NULL")
        check_structure(kind, part)
        parts[part] = kind
        if given is not None:
            names[part] = kinds.check_name(given, "type name")
    unknown = set(types) - used
    if unknown:
        raise InvalidArgumentError(
            f"types={{{', '.join(map(repr, sorted(unknown)))}: ...}}: there is no such column"
        )
    if names["key"] is None:
        names["key"] = f"{names['val']}Key"
    return _Layout(parts["key"].named(str(names["key"])), parts["val"].named(str(names["val"])))


def _kind(
    values: Any,
    where: str,
    short: str,
    types: Mapping[str, Any],
    declared: Mapping[str, Kind],
    used: set[str],
) -> Kind:
    """The kind of one column: what the user says, what the table says, what the values tell."""
    for name in (where, short):
        if name and name in types:
            used.add(name)
            return parse_kind(types[name], where)
    if where in declared and not isinstance(values, Mapping):
        return declared[where]
    if isinstance(values, Mapping):
        fields = []
        for name, each in values.items():
            kind = _kind(each, f"{where}.{name}", f"{short}.{name}" if short else name, types, declared, used)
            if kind.code == 0:
                raise InvalidArgumentError(
                    f"column {where}.{name} has nothing but NULLs: say what it is, types={{{name!r}: 'string'}}, or "
                    "leave it out"
                )
            fields.append((name, kind))
        return Kind(kinds.OBJECT, tuple(fields))
    return infer(values, where)


def _key_name(key: Any) -> str | None:
    return key if isinstance(key, str) else None


def _put(writer: _core.BulkWriter, layout: _Layout, block: Table, compact: bool) -> None:
    writer.write(*_columns(layout, block, compact, writer.report()["taken"]), block.rows)


def _columns(layout: _Layout, block: Table, compact: bool, first: int) -> tuple[NativeColumn, NativeColumn]:
    """Keys and values for the native code; ``first`` is the number of the block's first row, for errors."""
    try:
        key = native(layout.key, block.key, "key", block.rows, compact)
        return key, native(layout.val, block.val, "val", block.rows, compact)
    except Refused as error:
        raise error.at(first + error.row) from None


def _outcome(writer: _core.BulkWriter) -> dict[str, Any]:
    report = writer.report()
    return {name: report[name] for name in ("taken", "acknowledged", "unknown", "unsent")}


@contextlib.contextmanager
def _progress(cache: str, total: int | None, wanted: bool | None) -> Iterator[Callable[[int], None]]:
    """Yields a function that is told how many rows are written."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda rows: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=progress_console()) as bar:
        task = bar.add_task(f"writing {cache}", total=total)
        yield lambda rows: bar.update(task, completed=rows)
