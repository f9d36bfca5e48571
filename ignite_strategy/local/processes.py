"""The program's side of the supervisor."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ignite_strategy.errors import ClusterError

__all__ = ["Processes", "kept_environment", "tail"]

_ANSWER_LIMIT = 10.0
_KEPT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
_TAIL = 25


def kept_environment() -> dict[str, str]:
    """A server's environment, from a list: a stray ``IGNITE_*`` or ``JAVA_TOOL_OPTIONS`` changes nothing."""
    return {key: os.environ[key] for key in _KEPT if key in os.environ}


def tail(log: Path) -> str:
    """The last lines of a log, for an error message."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL:])
    except OSError as error:
        return f"({error})"


class Processes:
    """Named processes that end with this program, however it ends.

    Args:
      descriptors: File descriptors that shall stay open as long as the processes run.
      remove: A folder to delete at the end.
    """

    def __init__(self, descriptors: Sequence[int] = (), remove: Path | None = None) -> None:
        self._lock = threading.Lock()
        script = Path(__file__).with_name("supervisor.py")
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), *([str(remove)] if remove else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=tuple(descriptors),
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process id of the supervisor."""
        return self._supervisor.pid

    def spawn(self, name: str, argv: Sequence[str], env: Mapping[str, str], log: Path, cwd: Path) -> int:
        """Starts a process and returns its id."""
        answer = self._ask(do="spawn", name=name, argv=list(argv), env=dict(env), log=str(log), cwd=str(cwd))
        return int(answer["pid"])

    def status(self) -> dict[str, int | None]:
        """Exit codes by name, ``None`` for a process that runs."""
        return dict(self._ask(do="status")["codes"])

    def stop(self, names: Sequence[str], grace: float = 10.0) -> None:
        """Sends SIGTERM, and SIGKILL to those that still run after ``grace`` seconds; all are gone on return."""
        self._ask(limit=grace + _ANSWER_LIMIT, do="stop", names=list(names), grace=grace)

    def kill(self, names: Sequence[str]) -> None:
        """Sends SIGKILL; all are gone on return."""
        self._ask(do="kill", names=list(names))

    def keep(self) -> None:
        """Leaves the folder behind that would be removed at the end."""
        self._ask(do="keep")

    def close(self) -> None:
        """Stops everything and waits for it; may be called again."""
        stdin = self._supervisor.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):
            stdin.close()
        try:
            self._supervisor.wait(15)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()  # the kernel then kills its processes
            self._supervisor.wait(5)
        if self._supervisor.stdout is not None:
            self._supervisor.stdout.close()

    def _ask(self, limit: float = _ANSWER_LIMIT, **request: Any) -> dict[str, Any]:
        stdin, stdout = self._supervisor.stdin, self._supervisor.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            try:
                if stdin.closed:
                    raise BrokenPipeError
                stdin.write(json.dumps(request).encode() + b"\n")
                answer = self._read_line(stdout.fileno(), limit)
            except BrokenPipeError:
                raise ClusterError("the embedded cluster is closed: start a new one") from None
        if "error" in answer:
            raise ClusterError(
                f"cannot {request['do']} {request.get('name', 'processes')}: {answer['error']}"
            )
        return answer

    def _read_line(self, descriptor: int, limit: float) -> dict[str, Any]:
        deadline = time.monotonic() + limit
        text = b""
        stdout = self._supervisor.stdout
        assert stdout is not None
        while not text.endswith(b"\n"):
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise ClusterError(f"the supervisor (pid {self.pid}) did not answer within {limit:.0f} s")
            piece = stdout.read(65536)
            if not piece:
                raise ClusterError(
                    f"the supervisor (pid {self.pid}) is gone, and the nodes with it: start a new cluster"
                )
            text += piece
        answer: dict[str, Any] = json.loads(text)
        return answer
