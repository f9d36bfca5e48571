"""``make soak-cluster``: tasks, agents and nodes are killed while a model is trained; training must go on each time.

Three real nodes, the data with one backup, a collective training and one with parameter servers, one after the other.
For each kill: how long until every training task steps again, and how far behind the kill the first step is.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

import ignite_strategy as igs
from ignite_strategy.local import LocalCluster
from ignite_strategy.topology.caches import connect, create_cache
from tests.distributed.conftest import Agents
from tests.distributed.program import Program, tasks

CACHE = "SOAK"
SAVED_EVERY = 200  # steps, in the program
# Seconds until every training task steps again.
LIMITS = {"worker": 20.0, "chief": 20.0, "ps": 20.0, "agent": 30.0, "node": 60.0}
_PATIENCE = 120.0
_PROGRAM = Path(__file__).with_name("cluster_program.py")


@dataclass
class Soak:
    """One training and what is done to it."""

    agents: Agents
    program: Program
    say: Console
    took: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[str] = field(default_factory=list)
    step: int = 0

    def strike(self, kind: str) -> None:
        """Kills something of a kind and waits until every training task steps again."""
        before, began = self.step, time.monotonic()
        back = self._kill(kind)
        first: int | None = None
        stepped: set[str] = set()
        while time.monotonic() - began < _PATIENCE:
            if back is not None and time.monotonic() - began > 3:
                back()
                back = None
            found = self._hear(1.0)
            if found is None:
                continue
            if found["event"] == "session":
                first = found["step"] if first is None else first
                stepped.clear()  # whoever has none yet is still with what was there before
            elif found["event"] == "step" and first is not None:
                stepped.add(found["task"])
                if stepped >= self._trainers():
                    break
        else:
            self.wrong.append(f"{kind}: not every task stepped again within {_PATIENCE:.0f} s")
            return
        seconds = time.monotonic() - began
        self.took[kind].append(seconds)
        self.say.print(
            f"{kind:6} killed at step {before:,}: all step again after {seconds:.1f} s, from step {first:,}"
        )
        if seconds > LIMITS[kind]:
            self.wrong.append(
                f"{kind}: {seconds:.1f} s until every task stepped again, at most {LIMITS[kind]:.0f} s"
            )
        if (
            first is not None and first < before - SAVED_EVERY - 200
        ):  # what was stepped since it was last told
            self.wrong.append(
                f"{kind}: from step {before} back to {first}, more than a checkpoint's interval"
            )

    def _trainers(self) -> set[str]:
        return {name for name in tasks(self.agents) if not name.startswith("ps")}

    def _kill(self, kind: str) -> Any:
        if kind in ("agent", "node"):
            at = random.randrange(len(self.agents.cluster.nodes))
            if kind == "node":
                self.agents.cluster.nodes[at].kill()
            self.agents.processes[at].kill()
            self.agents.processes[at].wait()
            return lambda: self._bring_back(at, kind)
        chosen = [pid for name, pid in tasks(self.agents).items() if name.startswith(kind)]
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(random.choice(chosen)).kill()
        return None

    def _bring_back(self, at: int, kind: str) -> None:
        if kind == "agent":
            self.agents.start(at)

    def replace(self) -> None:
        """Starts what is missing; for nodes, which are gone for a while."""
        for at, node in enumerate(self.agents.cluster.nodes):
            if not node.running:
                node.restart()
            if self.agents.processes[at].poll() is not None:
                self.agents.start(at)
        self.agents.wait()

    def listen(self, seconds: float) -> None:
        """Lets it train."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._hear(min(0.5, max(0.01, until - time.monotonic())))

    def _hear(self, seconds: float) -> dict[str, Any] | None:
        found = self.program.next(seconds)
        if found is not None and found["event"] == "step":
            self.step = found["step"]
        if found is not None and found["event"] == "returned":
            raise AssertionError(f"training ended by itself: {self.program.story()}")
        return found


def main() -> int:
    """Runs; the exit code is 0 only if nothing was wrong."""
    parser = argparse.ArgumentParser(prog="make soak-cluster", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0, help="how long, for all strategies together")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    say, wrong = Console(), []
    for strategy in ("collective", "parameter_server"):
        wrong += _soak(strategy, options.seconds / 2, say)
    for fault in wrong:
        say.print(f"WRONG: {fault}", markup=False, highlight=False)
    say.print(f"{len(wrong)} faults")
    return int(bool(wrong))


def _soak(strategy: str, seconds: float, say: Console) -> list[str]:
    kinds = [
        "worker",
        "worker",
        "chief",
        "agent",
        "node",
        *(["ps"] if strategy == "parameter_server" else []),
    ]
    with (
        tempfile.TemporaryDirectory(prefix="igs-soak-") as temporary,
        LocalCluster(nodes=3, heap_mb=512, data_mb=1024) as cluster,
        contextlib.closing(Agents(cluster, Path(temporary))) as agents,
    ):
        with contextlib.closing(connect(cluster.addresses)) as client:
            create_cache(client, CACHE, partitions=3, backups=1)
        values = np.arange(10_000, dtype=np.int64)
        igs.write(CACHE, values, key=values, addresses=cluster.addresses)
        stop = Path(temporary) / "stop"
        program = Program(
            cluster.addresses[0],
            CACHE,
            strategy,
            "igfs:///soak",
            str(stop),
            folder=Path(temporary),
            path=_PROGRAM,
        )
        soak = Soak(agents, program, say)
        try:
            program.wait("step", 120)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                soak.listen(random.uniform(3, 10))
                soak.strike(random.choice(kinds))
                soak.replace()
            stop.touch()
            program.wait("returned", 120)
            if program.exit(30) != 0:
                soak.wrong.append(f"it ended with an error: {program.story()}")
        except AssertionError as error:
            soak.wrong.append(str(error))
        finally:
            program.close()
        steps = [found["step"] for found in program.told("evaluated")]
        if steps != sorted(set(steps)):
            soak.wrong.append(f"checkpoints were not evaluated once each, in order: {steps}")
    table = Table("killed", "times", "median s", "longest s", title=strategy)
    for kind, times in sorted(soak.took.items()):
        table.add_row(kind, str(len(times)), f"{statistics.median(times):.1f}", f"{max(times):.1f}")
    say.print(table)
    return [f"{strategy}: {fault}" for fault in soak.wrong]


if __name__ == "__main__":
    sys.exit(main())
