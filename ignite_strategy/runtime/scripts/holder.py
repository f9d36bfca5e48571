"""Holds a user's program: starts it, tells how it ends, and lets nothing of it outlive its job.

Run as a file, with the standard library only: it starts in 20 ms. It reads what to run from standard input, one line of
JSON, and then waits there: a ``T`` asks the program to end, and the end of the input, which comes even if the other
side is killed, ends the program and everything that it has started, daemons too. It reports in lines of JSON to the
file descriptor that is its argument: ``pid``, then ``exit`` (negative = a signal), or ``error``.

The program has a session of its own; what is orphaned below it comes here (PR_SET_CHILD_SUBREAPER), and should this
process be killed the kernel kills the program (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_GRACE = 3.0  # between SIGTERM and SIGKILL
_SWEEP = 2.0
_TICK = 0.1
_LONGEST_LINE = 16 << 20


def become_reaper() -> None:
    """From now on orphans below this process are its children."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """Ends all children of this process and, as their orphans come here, all below them; bounded."""
    deadline = time.monotonic() + _SWEEP
    while time.monotonic() < deadline:
        left = _children()
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _reap(0)
        time.sleep(0.01)


def main() -> None:
    """Runs one program."""
    report = int(sys.argv[1])
    os.set_inheritable(report, False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(
            number, lambda *_: None
        )  # a handler, as what is ignored would be ignored by the program too
    become_reaper()
    said = json.loads(sys.stdin.buffer.readline(_LONGEST_LINE))
    try:
        program = subprocess.Popen(
            said["command"],
            cwd=said["folder"],
            env=said["environment"],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
    except OSError as error:
        _tell(report, error=f"{said['command'][0]}: {error.strerror or error}")
        return
    _tell(report, pid=program.pid)
    code = _hold(program)
    _signal_group(program.pid, signal.SIGKILL)
    end_children()
    _tell(report, exit=code)


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _tell(report: int, **content: Any) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(report, json.dumps(content).encode() + b"\n")


def _hold(program: subprocess.Popen[bytes]) -> int:
    """Waits for the end of the program, or brings it about; its exit code."""
    deadline: float | None = None
    while program.poll() is None:
        ready, _, _ = select.select([0], [], [], _TICK)
        if ready:
            data = os.read(0, 64)
            if not data:
                break  # the other side is gone
            if b"T" in data and deadline is None:
                deadline = time.monotonic() + _GRACE
                _signal_group(program.pid, signal.SIGTERM)
        if deadline is not None and time.monotonic() > deadline:
            break
        _reap(program.pid)
    if program.returncode is None:
        _signal_group(program.pid, signal.SIGKILL)
    return program.wait()


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _reap(but: int) -> None:
    """Buries orphans, and leaves the program to :mod:`subprocess`."""
    for pid in _children():
        if pid != but:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _children() -> list[int]:
    found: list[int] = []
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/children") as file:
            found += map(int, file.read().split())
    return found


if __name__ == "__main__":
    main()
