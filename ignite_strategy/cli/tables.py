"""Tables for people, and tab-separated text for programs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ignite_strategy.errors import IgniteStrategyError
from ignite_strategy.filesystem.files import FileSystem
from ignite_strategy.local.probe import probe
from ignite_strategy.local.state import RunningCluster
from ignite_strategy.settings import parse_endpoint
from ignite_strategy.topology import caches

__all__ = ["node_table", "print_rows", "print_space", "print_status"]

_WIDEST = 60
_INTERNAL = "igs-"


def node_table(rows: Iterable[Sequence[str]]) -> Table:
    """Name, address, id, process and state of each node."""
    table = Table("node", "address", _id_column(), "pid", "state", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    return table


def _id_column() -> Column:
    return Column("node id", min_width=36)


def print_rows(answer: caches.SqlResult) -> None:
    """Prints the answer to an SQL statement."""
    if not sys.stdout.isatty():
        for row in [answer.columns, *answer.rows]:
            print("\t".join(_text(cell).replace("\t", " ").replace("\n", " ") for cell in row))
        return
    console = Console()
    if answer.columns == ["UPDATED"]:
        count = answer.rows[0][0] if answer.rows else 0
        console.print(f"done, {count} rows changed")
        return
    table = Table(*answer.columns, box=None, pad_edge=False)
    for row in answer.rows:
        table.add_row(*(Text(_short(_text(cell))) for cell in row))
    console.print(table)
    console.print(f"{len(answer.rows)} rows")


def print_status(cluster: RunningCluster) -> None:
    """Prints nodes and caches of a cluster that ``local up`` runs."""
    console = Console()
    console.print(
        f"Local cluster at port {cluster.port} (pid {cluster.pid}), logs in {cluster.folder}", soft_wrap=True
    )
    table = Table("node", "address", _id_column(), "state", box=None, pad_edge=False)
    for index, address in enumerate(cluster.addresses):
        table.add_row(f"node-{index}", address, *_node_state(address))
    console.print(table)
    with contextlib.closing(caches.connect(cluster.addresses)) as client:
        names = [name for name in caches.cache_names(client) if not name.startswith(_INTERNAL)]
        if not names:
            console.print("no caches")
            return
        table = Table("cache", "partitions", "on nodes", "rows", box=None, pad_edge=False)
        for name in names:
            table.add_row(name, *_cache_state(client, name))
        console.print(table)


def _node_state(address: str) -> tuple[str, str]:
    endpoint = parse_endpoint(address)
    try:
        node, seen = probe(endpoint.host, endpoint.port)
    except IgniteStrategyError as error:
        return "", f"does not answer: {error}"
    return str(node), f"sees {len(seen)} nodes"


def _cache_state(client: Any, name: str) -> tuple[str, str, str]:
    try:
        placed = caches.partition_map(client, name)
    except IgniteStrategyError:
        return "replicated", "all", str(client.get_cache(name).get_size())
    spread = " + ".join(str(len(parts)) for parts in placed.values())
    return str(sum(map(len, placed.values()))), spread, str(client.get_cache(name).get_size())


def print_space(files: FileSystem) -> None:
    """Prints what is in a file system, and each node's memory as far as the cluster tells."""
    usage = files.usage()
    kept = f", {usage.trash_blocks:,} of them kept for readers" if usage.trash_blocks else ""
    open_files = f"; {usage.writers:,} files being written" if usage.writers else ""
    print(
        f"{usage.files:,} files, {usage.directories:,} directories, {usage.bytes:,} bytes in "
        f"{usage.stored_blocks:,} blocks{kept}{open_files}"
    )
    try:
        spaces = files.spaces()
    except IgniteStrategyError as error:
        print(f"the nodes' memory is not known: {error}")
        return
    right: Any = {"justify": "right"}
    table = Table(
        "node",
        *(Column(title, **right) for title in ("memory MB", "used MB", "free MB", "used")),
        box=None,
        pad_edge=False,
    )
    for space in spaces:
        numbers = (f"{count / 1e6:,.0f}" for count in (space.size, space.used, space.free))
        table.add_row(space.address, *numbers, f"{space.used / space.size:.0%}" if space.size else "")
    Console().print(table)


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)


def _short(text: str) -> str:
    """What a terminal may show of a value: no control characters, which could act on it, and no end too far away."""
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text[: _WIDEST + 1])
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."
