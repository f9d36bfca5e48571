"""``ignite-strategy fs``: the files on ``igfs://`` from the shell."""

from __future__ import annotations

import shutil
import signal
import sys
from datetime import datetime
from typing import Any, List

import typer

from ignite_strategy.console import progress_console, shown
from ignite_strategy.errors import InvalidArgumentError, PreconditionError
from ignite_strategy.filesystem import transfer
from ignite_strategy.filesystem.transfer import Place

__all__ = ["app"]

_HELP = """Files on igfs://, from the shell.

A path is igfs://[FS@]host[:port]/path; igfs:///path means IGFS_HOST and IGFS_PORT, else localhost:10800. Port 10500, or
IGFS_BACKEND=endpoint, is IGFS itself (Ignite up to 2.8.1). With *, ? and [...] in its last parts a path stands for all
that match (quote it, or the shell looks on local disk).

\b
  ignite-strategy fs ls -l igfs:///
  ignite-strategy fs cp -r run1 igfs:///backup/        from local disk
  ignite-strategy fs cp 'igfs:///run1/*.index' .       to local disk
  ignite-strategy fs cp -r igfs:///run1 s3://bucket/   any scheme that fsspec knows
  ignite-strategy fs rm -r igfs:///run1
  ignite-strategy fs df
  ignite-strategy fs fsck --repair --offline
"""

app = typer.Typer(
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def _ended_in_order() -> None:
    # What was begun is undone: a copy leaves no partial file.
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


_PATHS = typer.Argument(..., metavar="PATH...", help="igfs:// paths.")
_RECURSIVE = typer.Option(False, "--recursive", "-r", help="Directories too, with everything in them.")


def _igfs(url: str) -> str:
    """Only what is named as such: nobody removes a local folder by a forgotten scheme."""
    if not url.startswith("igfs://"):
        raise InvalidArgumentError(f"{url!r} is not an igfs:// path: write igfs:///{url.lstrip('/')}")
    return url


def _expand(urls: list[str]) -> list[Place]:
    return [place for url in urls for place in transfer.expand(_igfs(url))]


@app.command()
def ls(
    paths: List[str] = _PATHS,
    long: bool = typer.Option(False, "--long", "-l", help="Kind, size in bytes and time too."),
    recursive: bool = _RECURSIVE,
) -> None:
    """List directories, or the files that are named."""
    places = _expand(paths)
    for place in places:
        if len(places) > 1 and place.kind() == "directory":
            typer.echo(f"{shown(place.url)}:")
        for entry in _entries(place, recursive):
            name = shown(entry["name"][len(place.path.rstrip("/")) :].lstrip("/") or place.name)
            name += "/" if entry["type"] == "directory" else ""
            typer.echo(f"{_kind(entry)} {entry['size']:>14,} {_time(entry)}  {name}" if long else name)


def _entries(place: Place, recursive: bool) -> list[dict[str, Any]]:
    if recursive and place.kind() == "directory":
        found = place.files.find(place.path, withdirs=True, detail=True)
        return [entry for path, entry in sorted(found.items()) if path.rstrip("/") != place.path.rstrip("/")]
    return list(place.files.ls(place.path))


def _kind(entry: dict[str, Any]) -> str:
    return "d" if entry["type"] == "directory" else "-"


def _time(entry: dict[str, Any]) -> str:
    return datetime.fromtimestamp(entry["mtime"]).strftime("%Y-%m-%d %H:%M:%S")


@app.command()
def cat(paths: List[str] = _PATHS) -> None:
    """Write the contents of files to standard output."""
    for place in _expand(paths):
        with place.files.open(place.path, "rb") as source:
            shutil.copyfileobj(source, sys.stdout.buffer, 1 << 20)
    sys.stdout.buffer.flush()


@app.command()
def cp(
    paths: List[str] = typer.Argument(
        ..., metavar="SOURCE... TARGET", help="igfs:// or other URLs, local paths."
    ),
    recursive: bool = _RECURSIVE,
) -> None:
    """Copy files, to, from and within igfs. A copy appears whole under its name, or not at all.

    \b
      ignite-strategy fs cp model.zip igfs:///models/
      ignite-strategy fs cp -r igfs:///run1 igfs:///run1-kept
      ignite-strategy fs cp -r igfs://ignite-0/run1 hdfs://namenode/backup/
    """  # noqa: D301
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    if len(paths) < 2:
        raise InvalidArgumentError("name a source and a target")
    sources = [place for url in paths[:-1] for place in transfer.expand(url)]
    items = transfer.plan(sources, paths[-1], recursive)
    console = progress_console()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=sum(item.size for item in items))
        for item in items:
            bar.update(task, description=item.source.name)
            transfer.copy(item, lambda count: bar.advance(task, count))


@app.command()
def mv(
    paths: List[str] = typer.Argument(
        ...,
        metavar="SOURCE... TARGET",
        help="igfs:// files and directories, then their new path, or a directory that takes them in.",
    ),
) -> None:
    """Rename files and directories within a file system, each in one step whatever is in it."""
    if len(paths) < 2:
        raise InvalidArgumentError("name a source and a target")
    target = paths[-1]
    sources, there = _expand(paths[:-1]), transfer.resolve(_igfs(target))
    if len(sources) > 1 and there.kind() != "directory":
        raise InvalidArgumentError(f"{target} is not a directory: several files cannot all become it")
    for here in sources:
        if here.files != there.files and not here.files.caches.is_same(there.files.caches):
            raise PreconditionError(
                f"{here.url} and {target} are on different file systems: copy, then remove"
            )
    for here in sources:
        there.files.mv(here.path, there.path + ("/" if target.endswith("/") else ""))


@app.command()
def rm(paths: List[str] = _PATHS, recursive: bool = _RECURSIVE) -> None:
    """Remove files, and directories with -r; each in one step."""
    for place in _expand(paths):
        if place.kind() == "directory" and not recursive:
            raise InvalidArgumentError(f"{place.url} is a directory: remove it with -r")
        place.files.rm_exactly(place.path, recursive=recursive)


@app.command()
def mkdir(
    paths: List[str] = _PATHS,
    parents: bool = typer.Option(False, "--parents", "-p", help="Those above it too; no error if it exists."),
) -> None:
    """Create directories."""
    for place in (transfer.resolve(_igfs(url)) for url in paths):
        if parents:
            place.files.makedirs(place.path, exist_ok=True)
        else:
            place.files.mkdir(place.path, create_parents=False)


@app.command()
def stat(paths: List[str] = _PATHS) -> None:
    """Show kind, size and time of files and directories."""
    for place in _expand(paths):
        info = place.files.info(place.path)
        typer.echo(f"{shown(place.url)}\n  {info['type']}, {info['size']:,} bytes, published {_time(info)}")


@app.command()
def du(paths: List[str] = _PATHS) -> None:
    """Sum up the bytes and files of directories."""
    for place in _expand(paths):
        sizes = place.files.du(place.path, total=False)
        typer.echo(f"{sum(sizes.values()):>16,} bytes {len(sizes):>8,} files  {shown(place.url)}")


_ROOT = typer.Argument("igfs:///", metavar="[URL]", help="Any path of the file system.")


@app.command()
def df(url: str = _ROOT) -> None:
    """Show what is in a file system, and the memory that its nodes have.

    \b
      ignite-strategy fs df
      ignite-strategy fs df igfs://models@ignite-0:10800/
    """  # noqa: D301
    from ignite_strategy.cli.tables import print_space

    print_space(transfer.resolve(_igfs(url)).files.caches)


@app.command()
def fsck(
    url: str = _ROOT,
    repair: bool = typer.Option(False, "--repair", help="Set right what can be; see /lost+found afterwards."),
    offline: bool = typer.Option(
        False,
        "--offline",
        help="Nobody else uses the file system: find blocks of no file, free what dead writers and readers left.",
    ),
) -> None:
    """Look for files whose blocks are gone, lost directories and blocks of no file. Exit code 1 if something is wrong.

    \b
      ignite-strategy fs fsck
      ignite-strategy fs fsck --repair --offline igfs://models@ignite-0:10800/
    """  # noqa: D301
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = progress_console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("")
        report = transfer.resolve(_igfs(url)).files.caches.check(
            repair,
            offline,
            lambda step, done, whole: bar.update(task, description=step, completed=done, total=whole or None),
        )
    for finding in report.findings:
        typer.echo(shown(str(finding)))
    if report.found > len(report.findings):
        typer.echo(f"... and {report.found - len(report.findings):,} more")
    usage = report.usage
    typer.echo(
        f"{usage.files:,} files, {usage.directories:,} directories, {usage.bytes:,} bytes in {usage.stored_blocks:,} "
        f"blocks; {report.found:,} faults, {report.collected_blocks:,} blocks freed"
    )
    if not report.sound:
        raise typer.Exit(1)
