"""The jars of a server: exactly those of its lock (``cluster/jars.lock``), fetched once, verified always.

The resolver inside ``jgo`` knows where Maven artifacts are published and honours the user's mirror settings; it is
imported only when something has to be fetched, so a complete cache never touches the network.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import hashlib
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ignite_strategy.console import progress_console
from ignite_strategy.errors import (
    ConnectionFailedError,
    DataLossError,
    DeadlineExceededError,
    PreconditionError,
)
from ignite_strategy.local.folders import cache_folder, cluster_file

__all__ = ["Jar", "ensure_jars", "read_lock"]

_FETCHERS = 4
_LOCK_WAIT = 600.0
_ATTEMPTS = 3

# Called with the number of bytes that arrived and the number expected so far (which grows while sizes become known).
Progress = Callable[[int, int], None]


class Jar(NamedTuple):
    """One line of the lock."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """The file name."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinate(self) -> str:
        """``group:artifact:version``."""
        return f"{self.group}:{self.artifact}:{self.version}"


def read_lock(path: Path | None = None) -> list[Jar]:
    """Reads ``group:artifact:version sha256`` lines; ``#`` starts a comment.

    Raises:
      DataLossError: A line is neither.
    """
    path = path or cluster_file("jars.lock")
    jars = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.split("#")[0].strip()
        if not text:
            continue
        coordinate, _, digest = text.partition(" ")
        group, artifact, version = [*coordinate.split(":"), "", ""][:3]
        digest = digest.strip()
        if coordinate.count(":") != 2 or len(digest) != 64:
            raise DataLossError(f"{path}:{number}: expected 'group:artifact:version sha256', found {text!r}")
        jars.append(Jar(group, artifact, version, digest))
    return jars


def ensure_jars(
    jars: Sequence[Jar] | None = None, folder: Path | None = None, progress: bool | None = None
) -> list[Path]:
    """Returns the paths of the jars, fetching what is missing or damaged.

    Args:
      jars: What is needed; the package's own lock if not given.
      folder: Where they are kept; a folder in the download cache if not given.
      progress: Whether to draw a progress bar; by default if standard error is a terminal.

    Raises:
      ConnectionFailedError: A jar could not be fetched.
      DataLossError: What was fetched is not what the lock names.
      PreconditionError: Something is missing and ``jgo`` is not installed.
    """
    jars = list(read_lock() if jars is None else jars)
    folder = folder or cache_folder() / "jars"
    if _missing(jars, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _exclusive(folder / ".lock"):
            missing = _missing(jars, folder)  # another process may have fetched them while this one waited
            if missing:
                show = sys.stderr.isatty() if progress is None else progress
                with _bar(len(missing)) if show else contextlib.nullcontext(_silent) as report:
                    _fetch(missing, folder, report)
    return [folder / jar.name for jar in jars]


def _missing(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if _digest(folder / jar.name) != jar.sha256]


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            hashed = hashlib.sha256()
            for block in iter(lambda: file.read(1 << 20), b""):
                hashed.update(block)
            return hashed.hexdigest()
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Holds a file lock, which the kernel drops should this process die."""
    with path.open("w") as file:
        deadline = time.monotonic() + _LOCK_WAIT
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise DeadlineExceededError(
                        f"another process has been fetching jars for {_LOCK_WAIT:.0f} s (it holds {path}): end it "
                        "and try again"
                    ) from None
                time.sleep(0.1)
        yield


def _fetch(jars: Sequence[Jar], folder: Path, progress: Progress) -> None:
    try:
        from jgo.maven import MavenContext, PythonResolver
    except ImportError as error:
        raise PreconditionError(
            f"{len(jars)} jars of the server are not in {folder} yet, and jgo, which fetches them, is not "
            "installed: pip install 'ignite-strategy[local]'"
        ) from error
    logging.getLogger("jgo").setLevel(logging.ERROR)
    scratch = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder))
    meter = _Meter(progress)
    try:
        maven = MavenContext(
            resolver=PythonResolver(progress_callback=meter.file),
            repo_cache=scratch,
            remote_repos=_mirrors(),
            timeout=30,
        )
        with concurrent.futures.ThreadPoolExecutor(_FETCHERS) as pool:
            for done in [pool.submit(_fetch_one, maven, jar, folder) for jar in jars]:
                done.result()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _mirrors() -> dict[str, str] | None:
    """The repositories of the user's own jgo settings, before the default one; one called ``central`` replaces it."""
    from jgo.config import GlobalSettings
    from jgo.maven import MavenContext

    own = dict(GlobalSettings.load().repositories or {})
    others = {name: url for name, url in MavenContext().remote_repos.items() if name not in own}
    return {**own, **others} if own else None


def _fetch_one(maven: Any, jar: Jar, folder: Path) -> None:
    artifact = maven.project(jar.group, jar.artifact).at_version(jar.version).artifact()
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            path = Path(artifact.resolve())
            break
        except Exception as error:
            # A half-written file would be taken for a whole one by the next attempt.
            if artifact.cached_path is not None:
                Path(artifact.cached_path).unlink(missing_ok=True)
            if attempt == _ATTEMPTS:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise ConnectionFailedError(
                    f"cannot fetch {jar.coordinate}: {reason[:200]}. The first start needs the network, or a filled "
                    f"{folder}; a mirror can be named in jgo's settings"
                ) from error
            time.sleep(0.5 * attempt)
    found = _digest(path)
    if found != jar.sha256:
        raise DataLossError(
            f"{jar.coordinate} was fetched, but its SHA-256 is {found} and not {jar.sha256} as jars.lock says: "
            "a mirror or proxy serves another file; it is not used"
        )
    os.replace(path, folder / jar.name)


class _Meter:
    """Adds up what the fetching threads report."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._expected = 0

    @contextlib.contextmanager
    def file(self, name: str, size: int) -> Iterator[Callable[[int], None]]:
        with self._lock:
            self._expected += size
        yield self._arrived

    def _arrived(self, count: int) -> None:
        with self._lock:
            self._progress(count, self._expected)


def _silent(count: int, expected: int) -> None:
    pass


@contextlib.contextmanager
def _bar(files: int) -> Iterator[Progress]:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=progress_console()) as bar:
        task = bar.add_task(f"{files} jars", total=None)
        yield lambda count, expected: bar.update(task, advance=count, total=expected)
