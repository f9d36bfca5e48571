"""A contestant: a process of its own that drains or fills a cache when it is asked to."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DRAINS = Path(__file__).parent / "drains"


class ContestantError(Exception):
    """The contestant answered with an error, died, or took too long."""


@dataclass(frozen=True)
class Sample:
    """What one run cost.

    Attributes:
      rows: Rows that came out.
      size: Their bytes on the wire, where the contestant knows.
      seconds: Of the clock.
      cpu: Of all threads of the contestant.
      peak: Its memory at the most, in bytes.
      before: Its memory before the run.
    """

    rows: int
    size: int | None
    seconds: float
    cpu: float
    peak: int
    before: int

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds


class Contestant:
    """Started when it is first asked; ends with this process."""

    def __init__(self, script: str, python: str | None = sys.executable) -> None:
        self.script = script
        self._python = python
        self._process: subprocess.Popen[str] | None = None

    @property
    def available(self) -> bool:
        """Whether there is an interpreter to run it with."""
        return self._python is not None

    def ask(self, request: Mapping[str, Any], limit: float = 600.0) -> Sample:
        """Runs one drain.

        Raises:
          ContestantError: It failed; the message says why.
        """
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise ContestantError(f"{self.script} is gone (exit code {process.wait(5)})") from None
        deadline = time.monotonic() + limit
        while not select.select([process.stdout], [], [], 1.0)[0]:
            if time.monotonic() > deadline:
                self.close()
                raise ContestantError(f"{self.script}: no answer within {limit:.0f} s")
        line = process.stdout.readline()
        if not line:
            raise ContestantError(f"{self.script} is gone (exit code {process.wait(5)})")
        answer = json.loads(line)
        if "error" in answer:
            raise ContestantError(answer["error"])
        answer["size"] = answer.pop("bytes")
        return Sample(**answer)

    def close(self) -> None:
        """Ends the process."""
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
        process.stdout.close()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            environment = {
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("IGNITE_", "PYTHON"))
            }
            self._process = subprocess.Popen(
                [str(self._python), str(DRAINS / f"drain_{self.script}.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if os.environ.get("BENCH_VERBOSE") else subprocess.DEVNULL,
                text=True,
                env=environment,
            )
        return self._process
