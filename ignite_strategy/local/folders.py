"""Where files live: the download cache outside the source tree, and what Ignite's side needs (``cluster/``)."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from ignite_strategy.errors import InvalidArgumentError, NotFoundError

__all__ = ["cache_folder", "cluster_file", "run_folder", "usable_folder"]

# A node that cannot write its first files does not end, it waits.
_LEAST_SPACE = 64 << 20


def cache_folder() -> Path:
    """The one folder for downloads and state.

    It is ``$IGNITE_STRATEGY_CACHE``, else ``$XDG_CACHE_HOME/ignite-strategy``, else ``~/.cache/ignite-strategy``.

    Raises:
      InvalidArgumentError: It is a file.
    """
    named = os.environ.get("IGNITE_STRATEGY_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    if named:
        folder = Path(named).expanduser().absolute()
    else:
        folder = (Path(base).expanduser() if base else Path.home() / ".cache") / "ignite-strategy"
    if folder.is_file():
        raise InvalidArgumentError(
            f"{folder} is a file, and downloads go there: set IGNITE_STRATEGY_CACHE to a folder"
        )
    return folder


def run_folder() -> Path:
    """Where port locks and the state of ``ignite-strategy local up`` are kept; created on the way."""
    folder = cache_folder() / "run"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def usable_folder(folder: str | Path | None) -> Path:
    """Returns the folder for a cluster's logs and work files, created if need be; without a name a temporary one.

    Raises:
      InvalidArgumentError: It cannot be created or written to, or has no space left.
    """
    try:
        if folder is None:
            path = Path(tempfile.mkdtemp(prefix="ignite-strategy-"))
        else:
            path = Path(folder).absolute()
            path.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=path).close()
        free = shutil.disk_usage(path).free
    except OSError as error:
        raise InvalidArgumentError(
            f"the folder {folder or tempfile.gettempdir()} cannot be used for logs and work files: {error}"
        ) from error
    if free < _LEAST_SPACE:
        raise InvalidArgumentError(
            f"the folder {path} has {free >> 20} MiB left, and {_LEAST_SPACE >> 20} MiB are needed for logs and work "
            "files: make room, or name another folder"
        )
    return path


def cluster_file(name: str) -> Path:
    """The path of a file that runs on the Ignite side: ``node.xml``, ``jars.lock``, ...

    A source tree comes first, so that an edited file takes effect without a build.

    Raises:
      NotFoundError: The installation is incomplete.
    """
    package = Path(__file__).resolve().parents[1]
    tree, packaged = package.parent, package / "cluster"
    folders = [tree / "cluster", packaged] if (tree / "pyproject.toml").is_file() else [packaged]
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise NotFoundError(f"{name} is missing in {packaged}: install ignite-strategy again")
