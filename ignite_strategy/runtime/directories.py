"""One job for each model directory: two that write the same checkpoints would train each other's model.

A job notes the directories it writes to in the registry. The note counts as long as the job's lease does.
"""

from __future__ import annotations

import hashlib
import logging
import os
import posixpath
import socket
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from ignite_strategy.errors import PreconditionError
from ignite_strategy.runtime.records import JOBS
from ignite_strategy.runtime.registry import Registry
from ignite_strategy.runtime.registry.base import Value

__all__ = ["claim", "release", "spell_out"]

_FOLDER = "directories"
_POLL_SECONDS = 0.5
_log = logging.getLogger(__name__)


def spell_out(directory: str, environment: Mapping[str, str] = os.environ) -> str:
    """Returns one text for all ways to name a directory: on local disk with the host, on igfs without one."""
    if "://" not in directory:
        return f"file://{socket.gethostname()}{os.path.abspath(directory)}"
    parts = urlsplit(directory)
    where = parts.netloc
    if parts.scheme == "igfs":  # the registry is in the same cluster, whichever node is named
        where = parts.username or environment.get("IGFS_FS_NAME") or "default_fs"
    return f"{parts.scheme}://{where}{posixpath.normpath(parts.path or '/')}"


def claim(registry: Registry, job: str, directory: str, patience: float) -> None:
    """Notes that a job writes to a directory.

    A job whose client was killed holds it until its lease has ended; that is waited for.

    Args:
      registry: Where.
      job: Id of the job; its lease is held already.
      directory: As the user names it.
      patience: How long another job's end is waited for, in seconds.

    Raises:
      PreconditionError: Another job writes to it.
    """
    text = spell_out(directory)
    key = _key(text)
    mine: Value = {"directory": text, "job": job, "host": socket.gethostname(), "pid": os.getpid()}
    _sweep(registry)
    until, said = time.monotonic() + patience, False
    while True:
        other = registry.get(key)
        if other is not None and other["job"] == job:
            return
        if (other is None or not _lives(registry, other)) and registry.compare_and_set(key, other, mine):
            return
        if other is None:
            continue
        who = f"job {other['job']} (process {other['pid']} on {other['host']})"
        if time.monotonic() > until:
            raise PreconditionError(
                f"model_dir={directory!r}: {who} trains in it, and two jobs would overwrite each other's checkpoints: "
                f"end that one, or give this one another directory"
            )
        if not said:
            said = True
            _log.warning("%s holds %s; waiting up to %.0f s for its end", who, directory, patience)
        time.sleep(_POLL_SECONDS)


def release(registry: Registry, job: str) -> None:
    """Removes a job's notes."""
    for key, value in registry.children(_FOLDER).items():
        if value["job"] == job:
            registry.compare_and_set(key, value, None)


def _sweep(registry: Registry) -> None:
    """Removes the notes of jobs that ended without doing so."""
    jobs = registry.leases(JOBS)
    for key, value in registry.children(_FOLDER).items():
        if f"{JOBS}/{value['job']}" not in jobs:
            registry.compare_and_set(key, value, None)


def _lives(registry: Registry, note: Value) -> bool:
    view = registry.leases(JOBS).get(f"{JOBS}/{note['job']}")
    return view is not None and view.alive


def _key(text: str) -> str:
    return f"{_FOLDER}/{hashlib.sha256(text.encode()).hexdigest()[:32]}"
