"""An agent's side of one script: starts its driver, listens to it, and ends it. Nothing here waits but :meth:`kill`."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ignite_strategy.runtime.processes import describe_exit, last_lines
from ignite_strategy.runtime.scripts.records import ENDED

__all__ = ["HostedScript"]

# The script has three seconds after SIGTERM, its tasks eight, and both are patient with the registry.
_STOP_SECONDS = 20.0
_LONGEST_LINE = 1 << 20
_log = logging.getLogger(__name__)


class HostedScript:
    """A script's driver.

    To be created in the thread that runs the agent for good: the kernel ends the driver with that thread.

    Args:
      plan: For :class:`~ignite_strategy.runtime.scripts.driver.Driver`.
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        self.state = "accepted"
        self.pid = 0
        self.exit: int | None = None
        self.error = ""
        self.reason = ""  # why it was asked to end
        self._workspace = Path(plan["workspace"])
        self._said = b""
        self._stopping: float | None = None
        self._ended = False
        folder = Path(plan["folder"])
        self._log = folder / "driver.log"
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ignite_strategy.runtime.scripts.driver", "--agent", str(os.getpid())],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        with contextlib.suppress(OSError):  # it has ended already, which is noticed
            self._process.stdin.write(json.dumps(plan).encode() + b"\n")
            self._process.stdin.flush()

    def fileno(self) -> int:
        """Where it can be heard, for a selector."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def ended(self) -> bool:
        """Nothing is left of it."""
        return self._ended

    def stop(self, reason: str) -> None:
        """Asks it to end; :meth:`pump` goes on from there."""
        if self._stopping is None and not self._ended:
            self._stopping, self.reason = time.monotonic(), reason
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it now; what holds the script notices."""
        if not self._ended:
            self._stopping = self._stopping or time.monotonic()
            self._process.kill()
            self._process.wait(5)
            self.pump()

    def pump(self) -> bool:
        """Takes in what it said and how it is.

        Returns:
          Whether something has changed.
        """
        if self._ended:
            return False
        before = (self.state, self.pid, self._ended)
        code = self._process.poll()
        self._listen()
        if code is not None:
            self._end(code)
        elif self._stopping is not None and time.monotonic() - self._stopping > _STOP_SECONDS:
            self._process.kill()
        return before != (self.state, self.pid, self._ended)

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self.fileno(), 1 << 16):
                self._said += data
        *lines, self._said = self._said[-_LONGEST_LINE:].split(b"\n")
        for line in lines:
            said = json.loads(line)
            # The end is told when the process and all of its tasks are gone, too.
            self.state = str(said["state"])
            self.pid = int(said.get("pid", self.pid))
            self.error = str(said.get("error", self.error))
            self.exit = said.get("exit", self.exit)

    def _end(self, code: int) -> None:
        self._ended = True
        if self.state == "stopped" and not self.reason:
            self.reason = "its agent was stopped"
        if self.state not in ENDED:
            self.state = "stopped" if self._stopping is not None else "failed"
            tail = last_lines(self._log)
            self.error = f"what runs the script {describe_exit(code)}" + (f":\n{tail}" if tail else "")
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        shutil.rmtree(self._workspace, ignore_errors=True)
