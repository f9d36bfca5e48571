"""A program that trains, run in a process of its own: for tests that end it, or what it needs."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from tests.distributed.conftest import Agents

PROGRAM = Path(__file__).with_name("estimator_program.py")


class Program:
    """A running estimator_program.py and what it tells."""

    def __init__(self, *arguments: str, folder: Path, path: Path = PROGRAM) -> None:
        self.errors = (folder / "stderr").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(path), *arguments], stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.events: list[dict[str, Any]] = []
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self._queue.put(json.loads(line))
        self._queue.put(None)

    def next(self, seconds: float) -> dict[str, Any] | None:
        """What it tells next, None if it is silent for so long."""
        try:
            found = self._queue.get(timeout=max(0.01, seconds))
        except queue.Empty:
            return None
        assert found is not None, f"it has ended: {self.story()}"
        self.events.append(found)
        return found

    def wait(self, event: str, seconds: float = 120, **facts: object) -> dict[str, Any]:
        """The next event of this name with these facts."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.next(deadline - time.monotonic())
            assert found is not None, f"no {event!r} within {seconds} s: {self.story()}"
            if found["event"] == event and all(found[name] == value for name, value in facts.items()):
                return found

    def poll(self, event: str) -> bool:
        """Whether it has told this, without waiting."""
        with contextlib.suppress(queue.Empty):
            while found := self._queue.get_nowait():
                self.events.append(found)
        return bool(self.told(event))

    def exit(self, seconds: float) -> int:
        """Waits for the end of the process; the exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s: {self.story()}") from None

    def told(self, event: str) -> list[dict[str, Any]]:
        return [found for found in self.events if found["event"] == event]

    def story(self) -> str:
        self.errors.flush()
        self.errors.seek(0)
        ends = [found for found in self.events if found["event"] in ("raised", "returned")]
        return f"{ends}\n{self.events[-8:]}\n{self.errors.read()[-3000:]}"

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(10)
        self.errors.close()


def pids(program: Program) -> dict[str, int]:
    return dict(program.told("running")[0]["tasks"])


def tasks(agents: Agents) -> dict[str, int]:
    """The tasks' processes as they are now, by name (``worker 0``)."""
    found = {}
    for agent in agents.processes.values():
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(agent.pid).children():
                command = child.cmdline()
                if "--task" in command:
                    kind, _, index = command[command.index("--task") + 1].partition(":")
                    found[f"{kind} {index}"] = child.pid
    return found


def wait_until_gone(tasks: dict[str, int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while left := [name for name, pid in tasks.items() if psutil.pid_exists(pid)]:
        assert time.monotonic() < deadline, f"tasks left: {left}"
        time.sleep(0.1)
