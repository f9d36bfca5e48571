"""The process between the user's program and the nodes; it sees to it that nothing outlives the program.

It is started in a session of its own, so Ctrl-C in the terminal reaches the program only, which then stops the nodes
in order. Requests and answers are JSON lines on standard input and output. When standard input ends, or the program is
gone (``kill -9`` included), it stops everything and exits; should it be killed itself, the kernel kills its processes
(PR_SET_PDEATHSIG, which counts on the thread that started them: this program has only one).

Uses the standard library only and is run as a file, without the package and without site-packages: it starts in 30 ms.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

_TICK = 0.25
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class Supervisor:
    """Starts, watches and stops named processes."""

    def __init__(self, remove: str | None) -> None:
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._order: list[str] = []
        self._parent = os.getppid()
        self._remove = remove
        self._ending = False

    def run(self) -> None:
        """Serves requests until there is nobody left to serve."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._asked_to_end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        pending = b""
        while not self._ending and os.getppid() == self._parent:
            ready, _, _ = select.select([0], [], [], _TICK)
            if not ready:
                self._reap()
                continue
            data = os.read(0, 65536)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                self._answer(json.loads(line))
        self._end()

    def _asked_to_end(self, _number: int, _frame: object) -> None:
        self._ending = True

    def _answer(self, request: dict[str, Any]) -> None:
        try:
            answer = getattr(self, "do_" + request.pop("do"))(**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        try:
            os.write(1, json.dumps(answer).encode() + b"\n")
        except BrokenPipeError:
            self._ending = True

    def do_spawn(self, name: str, argv: list[str], env: dict[str, str], log: str, cwd: str) -> dict[str, Any]:
        """Starts a process that writes to a log file."""
        with open(log, "ab") as output:
            self._children[name] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                preexec_fn=_die_with_parent,
            )
        self._order = [other for other in self._order if other != name] + [name]
        return {"pid": self._children[name].pid}

    def do_keep(self) -> dict[str, Any]:
        """Leaves the folder behind: somebody will want to read the logs."""
        self._remove = None
        return {}

    def do_status(self) -> dict[str, Any]:
        """Tells the exit code of each process, null for those that run."""
        return {"codes": self._reap()}

    def do_stop(self, names: list[str], grace: float) -> dict[str, Any]:
        """Asks processes to end, and insists after ``grace`` seconds."""
        chosen = [self._children[name] for name in names if name in self._children]
        for child in chosen:
            if child.poll() is None:
                child.terminate()
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline and any(child.poll() is None for child in chosen):
            time.sleep(0.02)
        self.do_kill(names)
        return {"codes": self._reap()}

    def do_kill(self, names: list[str]) -> dict[str, Any]:
        """Kills processes and waits until the kernel has buried them."""
        chosen = [self._children[name] for name in names if name in self._children]
        for child in chosen:
            if child.poll() is None:
                child.kill()
        for child in chosen:
            child.wait()
        return {"codes": self._reap()}

    def _reap(self) -> dict[str, int | None]:
        return {name: child.poll() for name, child in self._children.items()}

    def _end(self) -> None:
        """Stops everything: what was started last (agents) first, then the rest (nodes) together."""
        agents = [name for name in self._order if name.startswith("agent")]
        self.do_stop(agents, 6.0)  # an agent stops its tasks first
        self.do_stop([name for name in self._order if name not in agents], 5.0)
        if self._remove:
            shutil.rmtree(self._remove, ignore_errors=True)


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    Supervisor(sys.argv[1] if len(sys.argv) > 1 else None).run()
