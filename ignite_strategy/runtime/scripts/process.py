"""One user's program as a process here: started, listened to and ended through its holder. Nothing here waits."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ignite_strategy.runtime.scripts.output import OutputLog

__all__ = ["UserProcess"]

_PIECE = 1 << 16
_MOST_PIECES = 16  # of one look, so that a program that never stops writing does not take all the time


class UserProcess:
    """A user's program.

    To be created in the thread that lives as long as the program may.

    Args:
      command: What to run.
      folder: Where.
      environment: All of its environment.
      output: Where its output goes, standard output and errors in the order in which they come.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], output: OutputLog
    ) -> None:
        self.pid = 0
        self.exit: int | None = None
        self.error = ""
        self._log = output
        self._said = b""
        self._report, report = os.pipe()
        self._out, out = os.pipe()
        for descriptor in (self._report, self._out):
            os.set_blocking(descriptor, False)
        holder = str(Path(__file__).with_name("holder.py"))
        self._holder = subprocess.Popen(
            [sys.executable, "-I", "-S", holder, str(report)],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            pass_fds=(report,),
            env={},
            start_new_session=True,
        )
        os.close(report)
        os.close(out)
        plan = {"command": list(command), "folder": str(folder), "environment": dict(environment)}
        self._tell(json.dumps(plan).encode() + b"\n")

    def files(self) -> tuple[int, int]:
        """Where it can be heard, for a selector."""
        return self._out, self._report

    @property
    def ended(self) -> bool:
        """It has ended and all its output is kept."""
        return self._is_over()

    def _is_over(self) -> bool:
        return self.exit is not None or bool(self.error)

    def pump(self) -> None:
        """Takes in what it wrote and how it is."""
        if self.ended:
            return
        gone = self._holder.poll() is not None  # before looking, as the last words come before the end
        self._copy()
        self._listen()
        if gone and not self.ended:
            self._kill_group()
            self.error = "what held it was killed"
        if self._is_over():
            self._copy()
            self._close()

    def _copy(self) -> None:
        for _ in range(_MOST_PIECES):
            try:
                data = os.read(self._out, _PIECE)
            except OSError:
                return
            if not data:
                return
            self._log.write(data)

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            self._said += os.read(self._report, _PIECE)
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            said: dict[str, Any] = json.loads(line)
            self.pid = int(said.get("pid", self.pid))
            self.error = str(said.get("error", ""))
            self.exit = said.get("exit", self.exit)

    def stop(self) -> None:
        """Asks it to end: SIGTERM, and SIGKILL three seconds later."""
        self._tell(b"T")

    def kill(self) -> None:
        """Ends it, and all that it has started, now; waits for that."""
        if self.ended:
            return
        self._hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._holder.wait(5)
        self.pump()
        if not self.ended:
            self._kill_group()
            self._holder.kill()
            self._holder.wait(5)
            self.pump()

    def _tell(self, data: bytes) -> None:
        assert self._holder.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended: what it said tells
            self._holder.stdin.write(data)
            self._holder.stdin.flush()

    def _hang_up(self) -> None:
        assert self._holder.stdin is not None
        with contextlib.suppress(OSError):
            self._holder.stdin.close()

    def _kill_group(self) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _close(self) -> None:
        self._hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._holder.wait(5)
        os.close(self._out)
        os.close(self._report)
