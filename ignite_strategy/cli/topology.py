"""``ignite-strategy topology``."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Optional

import typer

from ignite_strategy.cli.options import ADDRESS, ZOOKEEPER, chosen_endpoints
from ignite_strategy.errors import IgniteStrategyError

if TYPE_CHECKING:
    from ignite_strategy.topology.overview import Overview

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def topology(
    cache: Optional[List[str]] = typer.Option(
        None,
        "--cache",
        "-c",
        help="Show the partitions of this cache; may be given again. By default those that jobs "
        "read, or all.",
    ),
    html: Optional[Path] = typer.Option(
        None, "--html", metavar="FILE", help="Write a page that needs nothing else; '-' is standard output."
    ),
    once: bool = typer.Option(False, "--once", help="Once, also on a terminal."),
    every: float = typer.Option(2.0, "--every", min=0.2, max=3600, help="Seconds between two looks."),
    address: Optional[str] = ADDRESS,
    zookeeper: Optional[str] = ZOOKEEPER,
) -> None:
    """Show nodes, agents, partitions, jobs and tasks, with the rows and bytes that were read.

    On a terminal it is refreshed until Ctrl-C; in a pipe, or with --once, it is printed once. Rows and bytes are those
    that datasets of the tasks have read: of a node, from it; of a task, by it. Local means that both are on one node.

    \b
      ignite-strategy topology
      ignite-strategy topology --cache DIGITS --once
      ignite-strategy topology --html topology.html --address ignite-0:10800
    """  # noqa: D301
    from ignite_strategy.settings import ZooKeeper
    from ignite_strategy.topology.overview import Observer

    endpoints = chosen_endpoints(address)
    with Observer(endpoints, ZooKeeper.of(zookeeper)) as observer:
        if html is not None:
            _write_page(observer.look(cache or ()), ", ".join(map(str, endpoints)), html)
        elif once or not sys.stdout.isatty():
            _print(observer.look(cache or ()))
        else:
            _refresh(observer, cache or [], every)


def _write_page(overview: Overview, where: str, file: Path) -> None:
    from ignite_strategy.topology.page import render_page

    when = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    text = render_page(overview, f"Ignite cluster at {where}", when)
    if str(file) == "-":
        typer.echo(text, nl=False)
        return
    # Whoever reloads the page sees the old one or the new one, whole.
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as target:
            target.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, file)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    typer.echo(f"wrote {file} ({len(text):,} characters)")


def _print(overview: Overview) -> None:
    from rich.console import Console

    # A pipe has no width: there nothing is cut off.
    console = Console() if sys.stdout.isatty() else Console(width=400)
    console.print(_drawn(overview), soft_wrap=not sys.stdout.isatty())


def _refresh(observer: Any, caches: list[str], every: float) -> None:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from ignite_strategy.topology.sheets import printable

    console = Console()
    shown: Any = _drawn(observer.look(caches))  # a first look that fails is an error like others
    with (
        contextlib.suppress(KeyboardInterrupt),
        Live(shown, console=console, auto_refresh=False, screen=False, vertical_overflow="crop") as live,
    ):
        while True:
            time.sleep(every)
            try:
                shown = _drawn(observer.look(caches))
                live.update(shown, refresh=True)
            except IgniteStrategyError as error:  # nodes that come and go, a cache that is dropped
                problem = Text(f"{printable(error)}. Trying again", style="red")
                live.update(
                    Group(problem, shown), refresh=True
                )  # above: what is too long for the screen is cut off


def _drawn(overview: Overview) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from ignite_strategy.topology.sheets import printable, sheets

    parts: list[Any] = [
        Text(f"Ignite topology version {overview.version}, {datetime.now().strftime('%H:%M:%S')}")
    ]
    problems = [
        *overview.problems,
        *(f"job {job.id}: {text}" for job in overview.jobs for text in job.problems),
    ]
    parts += [Text(printable(problem), style="red") for problem in problems]
    for sheet in sheets(overview):
        parts.append(Text(f"\n{sheet.title}", style="bold"))
        if not sheet.rows:
            parts.append(Text(sheet.empty, style="dim"))
            continue
        table = Table(box=None, pad_edge=False)
        for column in sheet.columns:
            table.add_column(
                Text(column.title), justify="right" if column.number else "left", overflow="fold"
            )
        for row in sheet.rows:
            table.add_row(*map(Text, row))  # never as markup: the names are others'
        parts.append(table)
    return Group(*parts)
