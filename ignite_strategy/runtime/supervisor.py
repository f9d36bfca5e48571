"""An agent's side of one task: starts its process, listens to it, stops it. Nothing here waits."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ignite_strategy.runtime.processes import describe_exit, last_lines
from ignite_strategy.runtime.records import TaskRequest, TaskStatus

__all__ = ["TaskProcess"]

# A task has this long between SIGTERM and SIGKILL.
STOP_SECONDS = 2.0
# A task that serves reports every second. One that has been silent for this long hangs, and others wait for it.
_SILENT_SECONDS = 30.0
_LONGEST_LINE = 1 << 20
_log = logging.getLogger(__name__)


class TaskProcess:
    """A task's process.

    To be created in the thread that runs the agent for good: the kernel ends the task with that thread.

    Args:
      job: Id of the job.
      request: Which task.
      environment: All of its environment.
      folder: Where it runs and logs.
    """

    module = "ignite_strategy.runtime.task"

    def __init__(self, job: str, request: TaskRequest, environment: dict[str, str], folder: Path) -> None:
        self.key = request.key
        self.attempt = request.attempt
        self.log = folder / f"{request.key.type}-{request.key.index}.log"
        self._state = "starting"
        self._port = 0
        self._error = ""
        self._tensorflow = ""
        self._readers: tuple[dict[str, Any], ...] = ()
        self._buffer = b""
        self._heard = time.monotonic()
        self._stopping: float | None = None
        self._told: dict[str, Any] | None = None
        command = [sys.executable, "-m", self.module, "--job", job]
        command += ["--task", request.key.name, "--agent", str(os.getpid()), "--port", str(request.port)]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C in the agent's terminal is for the agent, which then stops its tasks in order.
                start_new_session=True,
            )
        assert self._process.stdout is not None
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._out, False)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def fileno(self) -> int:
        """Where it can be heard, for a selector."""
        return self._out

    @property
    def ended(self) -> bool:
        """Its process is gone."""
        return self._state in ("exited", "done", "stopped")

    @property
    def serving(self) -> bool:
        """Its server runs."""
        return self._state == "serving"

    @property
    def told(self) -> bool:
        """It knows the addresses of all tasks."""
        return self._told is not None

    def status(self) -> TaskStatus:
        """How it is."""
        code = self._process.returncode
        return TaskStatus(
            state=self._state,
            port=self._port,
            pid=self.pid,
            exit=code,
            error=self._error,
            log=str(self.log),
            tensorflow=self._tensorflow,
            readers=self._readers,
            attempt=self.attempt,
        )

    def serve(self, cluster: dict[str, Any]) -> None:
        """Tells it the addresses of all tasks, once."""
        if self._told is None and self._state in ("reserved", "loaded"):
            self._told = cluster
            self._say({"command": "serve", "cluster": cluster})

    def stop(self) -> None:
        """Asks it to end; :meth:`pump` goes on from there."""
        if self._stopping is None and not self.ended:
            self._stopping = time.monotonic()
            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it now, and waits for that."""
        if not self.ended:
            self._stopping = self._stopping or time.monotonic()
            self._signal(signal.SIGKILL)
            self._process.wait(5)
            self.pump()

    def pump(self) -> bool:
        """Takes in what it said and how it is.

        Returns:
          Whether more than its reader counters has changed.
        """
        if self.ended:
            return False
        before = (self._state, self._port)
        code = self._process.poll()
        self._listen()
        if code is not None:
            self._end(code)
        elif self._stopping is not None and time.monotonic() - self._stopping > STOP_SECONDS:
            self._signal(signal.SIGKILL)
        elif self.serving and time.monotonic() - self._heard > _SILENT_SECONDS and not self._error:
            self._error = f"it had not reported for {_SILENT_SECONDS:.0f} s, so its agent ended it"
            self._signal(signal.SIGKILL)
        return before != (self._state, self._port)

    def _listen(self) -> None:
        while True:
            try:
                data = os.read(self._out, 65536)
            except (BlockingIOError, OSError):
                return
            if not data:
                return
            self._buffer += data
            self._heard = time.monotonic()
            *lines, self._buffer = self._buffer.split(b"\n")
            if len(self._buffer) > _LONGEST_LINE:
                self._buffer = b""
            for line in lines:
                self._hear(line)

    def _hear(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            event = message["event"]
            if event == "reserved":
                self._state, self._port = "reserved", int(message["port"])
            elif event == "loaded":
                self._state, self._tensorflow = "loaded", str(message["tensorflow"])
            elif event == "serving":
                self._state = "serving"
            elif event == "report":
                self._readers = tuple(dict(reader) for reader in message["readers"])
            elif event == "failed":
                self._error = str(message["error"])
        except (ValueError, KeyError, TypeError) as error:
            _log.warning("task %s said something strange (%s): %r", self.key, error, line[:200])

    def _end(self, code: int) -> None:
        self._state = "exited" if self._stopping is None else "stopped"
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not sent yet is lost with the process
                    pipe.close()
        if self._state == "exited":
            tail = last_lines(self.log)
            self._error = describe_exit(code) + (f": {self._error}" if self._error else "")
            self._error += f"\nlast lines of {self.log}:\n{tail}" if tail else f" (log: {self.log})"
            _log.warning("task %s, pid %d, %s", self.key, self.pid, self._error)

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            _log.warning("task %s cannot be told anything: %s", self.key, error)

    def _signal(self, signum: int) -> None:
        # Popen takes care not to signal a pid that has been reaped.
        self._process.send_signal(signum)
