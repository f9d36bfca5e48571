"""Where files live: the download cache outside the source tree, and what Ignite's side needs (``cluster/``)."""

from __future__ import annotations

import os
from pathlib import Path

from ignite_strategy.errors import NotFoundError

__all__ = ["cache_folder", "cluster_file", "run_folder"]


def cache_folder() -> Path:
    """The one folder for downloads and state.

    It is ``$IGNITE_STRATEGY_CACHE``, else ``$XDG_CACHE_HOME/ignite-strategy``, else ``~/.cache/ignite-strategy``.
    """
    named = os.environ.get("IGNITE_STRATEGY_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "ignite-strategy"


def run_folder() -> Path:
    """Where port locks and the state of ``ignite-strategy local up`` are kept; created on the way."""
    folder = cache_folder() / "run"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


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
