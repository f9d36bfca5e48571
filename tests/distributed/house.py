"""A cluster whose agents run scripts and programs, and the command line in front of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from ignite_strategy.runtime.registry import IgniteRegistry
from ignite_strategy.runtime.scripts.client import Scripts
from ignite_strategy.runtime.scripts.records import ARCHIVES
from ignite_strategy.runtime.scripts.signing import read_key
from ignite_strategy.settings import parse_endpoints
from tests.conftest import without_ours
from tests.distributed.conftest import Agents

CACHE = "SCRIPTS"
SECONDS = 60.0
MARK = f"mark-{os.getpid()}-"  # by which what a script has started is found


class House:
    """A cluster whose agents run scripts, and the command line."""

    def __init__(self, agents: Agents, key_file: Path, folder: Path) -> None:
        self.agents, self.key_file, self.folder = agents, key_file, folder
        self.addresses = agents.cluster.addresses
        self.registry = IgniteRegistry(parse_endpoints(self.addresses))
        self.scripts = Scripts(self.registry, parse_endpoints(self.addresses), read_key(key_file))

    def command(self, name: str, *arguments: str, signed: bool = False) -> list[str]:
        options = ["--address", self.addresses[0]] + (["--key-file", str(self.key_file)] if signed else [])
        return [sys.executable, "-m", "ignite_strategy", name, *options, *arguments]

    def run(self, name: str, *arguments: str, signed: bool = False) -> subprocess.CompletedProcess[str]:
        command = self.command(name, *arguments, signed=signed)
        environment = without_ours(os.environ)
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * SECONDS)

    def start(self, *script: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return self.run(
            "start", *options, CACHE, str(self.folder), "python", "train.py", *script, signed=True
        )

    def begin(self, *script: str) -> subprocess.Popen[str]:
        arguments = (CACHE, str(self.folder), "python", "train.py", *script)
        return subprocess.Popen(
            self.command("start", *arguments, signed=True),
            env=without_ours(os.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def detach(self, *script: str, options: tuple[str, ...] = ()) -> str:
        done = self.start(*script, options=("--detach", *options))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + SECONDS
        while not (found := condition()):
            assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}\n{self.agent_log()}"
            time.sleep(0.1)
        return found

    def running(self, job: str) -> Any:
        return self.until(lambda: (s := self.scripts.status(job)).state == "running" and s, f"{job} runs")

    def agent_log(self) -> str:
        return "\n".join(self.agents.log(at).read_text()[-2000:] for at in range(2))

    def nothing_left(self, job: str, mark: str = "") -> None:
        """Neither a process, nor a folder, nor an entry."""
        self.until(lambda: self.scripts.status(job).is_over, f"{job} is over")
        self.until(
            lambda: not processes(job) and not (mark and processes(mark)), f"the processes of {job} are gone"
        )
        assert list(self.agents.folder.glob(f"agent-*/scripts/{job}*")) == []
        keys = [f"{ARCHIVES}/{job}", f"archive-pieces/{job}/0", f"jobs/{job}"]
        self.until(lambda: not self.registry.get_many(keys), f"the entries of {job} are gone")


def processes(mark: str) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline", "status", "cwd"]):
        words = [*(process.info["cmdline"] or []), process.info["cwd"] or ""]
        if (
            process.info["status"] != psutil.STATUS_ZOMBIE
            and any(mark in w for w in words)
            and "start" not in words
        ):
            found.append(process.pid)
    return found
