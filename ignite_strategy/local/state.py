"""The clusters of ``ignite-strategy local up``: one file each, which its process keeps locked as long as it lives.

So a file that nobody holds is the trace of a process that was killed, and no process id is trusted without its lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from ignite_strategy.errors import (
    AlreadyExistsError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
)
from ignite_strategy.local.folders import run_folder

__all__ = ["RunningCluster", "find", "list_running", "publish", "stop"]

_POLL = 0.1


@dataclass(frozen=True)
class RunningCluster:
    """What ``local up`` tells the other commands.

    Attributes:
      port: The thin client port of the first node; names the cluster.
      pid: The process of ``local up``.
      addresses: ``host:port`` of each node.
      logs: The log file of each node.
      folder: Where logs and work files are.
      agents: Whether agents run beside the nodes.
      key_file: The key with which they run scripts; ``None`` if they run none.
    """

    port: int
    pid: int
    addresses: list[str]
    logs: list[str]
    folder: str
    agents: bool
    key_file: str | None = None


@contextlib.contextmanager
def publish(cluster: RunningCluster) -> Iterator[None]:
    """Makes the cluster known to the other commands while the block runs."""
    path = _path(cluster.port)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyExistsError(f"a cluster at port {cluster.port} runs already ({path})") from None
        file.truncate(0)
        file.write(json.dumps(asdict(cluster)))
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def list_running() -> list[RunningCluster]:
    """All clusters that run, by port; removes the files of those that do not any more."""
    found = []
    for path in sorted(run_folder().glob("local-*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError):
            if _held(path):
                found.append(RunningCluster(**json.loads(path.read_text())))
            else:
                path.unlink(missing_ok=True)
    return found


def find(port: int | None = None) -> RunningCluster:
    """The cluster at ``port``, or the only one.

    Raises:
      NotFoundError: There is none.
      InvalidArgumentError: There are several.
    """
    running = list_running()
    chosen = [each for each in running if port is None or each.port == port]
    if not chosen:
        others = ", ".join(str(each.port) for each in running)
        at = f" at port {port} (but at {others})" if port is not None and others else ""
        raise NotFoundError(f"no local cluster runs{at}: start one with 'ignite-strategy local up'")
    if len(chosen) > 1:
        ports = ", ".join(str(each.port) for each in chosen)
        raise InvalidArgumentError(f"{len(chosen)} local clusters run: choose one with --port ({ports})")
    return chosen[0]


def stop(cluster: RunningCluster, timeout: float = 30.0) -> None:
    """Asks ``local up`` to end and waits until it has; insists at the end of the time."""
    path = _path(cluster.port)
    for number, limit in ((signal.SIGTERM, timeout), (signal.SIGKILL, 10.0)):
        if not _held(path):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(cluster.pid, number)
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if not _held(path) and not _runs(cluster.pid):
                return
            time.sleep(_POLL)
    raise DeadlineExceededError(
        f"the cluster at port {cluster.port} (pid {cluster.pid}) does not end: see {path}"
    )


def _path(port: int) -> Path:
    return run_folder() / f"local-{port}.json"


def _runs(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return status != "Z"


def _held(path: Path) -> bool:
    try:
        with path.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False
