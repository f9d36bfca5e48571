"""The few things about operating-system processes that agent and task need (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

__all__ = ["describe_exit", "die_with_parent", "is_running", "last_lines", "start_ticks"]

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, signum: int = signal.SIGKILL) -> None:
    """Makes the kernel send ``signum`` to this process when its parent ends, however that ends.

    Precisely: when the *thread* ends that started this process, so the parent starts it from one that stays.

    Args:
      parent: Pid of the parent; if that has ended already, this process ends now.
      signum: The signal.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os._exit(1)


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since the host booted; ``None`` if there is no such process.

    With the pid it names a process for good: a pid alone is used again.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def is_running(pid: int, started: int) -> bool:
    """Whether exactly that process still runs on this host."""
    return start_ticks(pid) == started


def describe_exit(code: int) -> str:
    """An exit code in words.

    >>> describe_exit(-9)
    'was killed by SIGKILL'
    """
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def last_lines(path: str | os.PathLike[str], lines: int = 8, limit: int = 4096) -> str:
    """The end of a log file; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - limit))
            return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-lines:])
    except OSError:
        return ""
