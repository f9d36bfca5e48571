"""``make soak-igfs``: workers are killed, nodes are lost and replaced; nothing that was published may change.

Three real nodes with one backup. At the end a check that knows nothing of the workers but their journals.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ignite_strategy.errors import IgniteStrategyError
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.local import LocalCluster
from ignite_strategy.settings import parse_endpoints, use_default_endpoints
from tests.soak.content import BrokenError, parse, told

WORKERS = ("replacer", "replacer", "extender", "extender", "mover", "mover", "reader", "reader")
# What is old is freed while the soak runs, and dead writers' leases end.
_TIMES = {"IGFS_GRACE_SECONDS": "20", "IGFS_WRITER_LEASE_SECONDS": "30"}


@dataclass
class Soak:
    """The run at hand."""

    cluster: LocalCluster
    folder: Path
    say: Console
    workers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def start(self, number: int) -> None:
        """Starts a worker, in place of one that has been killed."""
        command = [
            sys.executable,
            "-m",
            "tests.soak.igfs_worker",
            WORKERS[number],
            str(number),
            str(self.folder),
        ]
        with open(self.folder / f"worker-{number}.log", "ab") as log:
            self.workers[number] = subprocess.Popen(
                [*command, ",".join(self.cluster.addresses), str(os.getpid())],
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, **_TIMES},
                cwd=Path(__file__).parents[2],
            )

    def kill(self, number: int) -> None:
        """Kills one and starts its successor."""
        worker = self.workers[number]
        if worker.poll() is None:
            worker.send_signal(signal.SIGKILL)
            self.counts["kills"] += 1
        worker.wait()
        self.start(number)

    def look(self) -> None:
        """Notes workers that have ended by themselves: they found something wrong."""
        for number, worker in self.workers.items():
            code = worker.poll()
            if code is None:
                continue
            log = (self.folder / f"worker-{number}.log").read_text(errors="replace")
            self.wrong.append(f"{WORKERS[number]} {number} ended with code {code}:\n{log[-1500:]}")
            self.start(number)

    def lose_a_node(self, away: float) -> None:
        """Kills a node, and starts it again ``away`` seconds later. It comes back empty."""
        node = random.choice(self.cluster.nodes)
        node.kill()
        self.counts["nodes lost"] += 1
        time.sleep(away)
        node.restart()

    def stop(self) -> None:
        """Ends all workers, in the middle of what they do."""
        for worker in self.workers.values():
            worker.kill()
            worker.wait()


def main() -> int:
    """Runs; the exit code is 0 only if nothing was wrong."""
    options = _options()
    for each in (signal.SIGINT, signal.SIGTERM):  # a shell ignores the first for what runs in the background
        signal.signal(each, signal.default_int_handler)
    console = Console()
    with (
        tempfile.TemporaryDirectory(prefix="igs-soak-") as temporary,
        # A node that comes back waits for what the others are doing, on a busy machine for minutes.
        LocalCluster(nodes=3, heap_mb=768, data_mb=2048, full_speed=True, start_timeout=300) as cluster,
        use_default_endpoints(parse_endpoints(cluster.addresses)),
    ):
        soak = Soak(cluster, Path(temporary), console)
        FileSystem(name="soak").makedirs("/soak")
        for number in range(len(WORKERS)):
            soak.start(number)
        try:
            try:
                _disturb(soak, options.seconds, options.kills, options.nodes)
            finally:
                soak.stop()
            _check(soak)
        finally:
            for fault in soak.wrong:
                console.print(f"WRONG: {fault}", markup=False, highlight=False)
            console.print(
                ", ".join(f"{count:,} {what}" for what, count in soak.counts.items())
                + f", {len(soak.wrong)} faults"
            )
        return int(bool(soak.wrong))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak-igfs", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0, help="how long")
    parser.add_argument("--kills", type=int, default=200, help="of processes, over that time")
    parser.add_argument("--nodes", type=int, default=6, help="how often a node is lost")
    return parser.parse_args()


def _disturb(soak: Soak, seconds: float, kills: int, nodes: int) -> None:
    begin = time.monotonic()
    events = sorted(
        [(seconds * (at + random.random()) / kills, "kill") for at in range(kills)]
        + [(seconds * (at + 0.3) / nodes, "node") for at in range(nodes)]
    )
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=soak.say, transient=True, disable=not soak.say.is_terminal) as bar:
        task = bar.add_task("", total=seconds)
        for at, kind in events:
            while (passed := time.monotonic() - begin) < at:
                bar.update(
                    task,
                    completed=passed,
                    description=f"{soak.counts['kills']} kills, {len(soak.wrong)} faults",
                )
                soak.look()
                time.sleep(min(0.5, at - passed))
            if kind == "kill":
                soak.kill(random.randrange(len(WORKERS)))
            else:
                soak.lose_a_node(away=5.0)
        time.sleep(max(0.0, seconds - (time.monotonic() - begin)))
        soak.look()


def _check(soak: Soak) -> None:
    """Every file is whole; each journal's last published version is there, or a later one that was intended."""
    files = FileSystem(name="soak")
    _published(soak, files)
    report = files.check(repair=True, offline=True)
    soak.wrong += [f"fsck: {finding}" for finding in report.findings if not _excused(finding.what)]
    soak.counts["blocks freed by fsck"] = report.collected_blocks
    again = files.check(offline=True)
    soak.wrong += [f"fsck, the second time: {finding}" for finding in again.findings]
    blocks = sum(-(-size // 524_288) for _, size in _files(files, "/"))
    # A file that was extended has partial blocks within it.
    if again.usage.stored_blocks < blocks:
        soak.wrong.append(f"{again.usage.stored_blocks} blocks for files of {blocks}")
    _published(soak, files)


def _excused(what: str) -> bool:
    """A process that was killed in a removal leaves the rest to others: that is no fault."""
    return "whoever removed it was interrupted" in what or "no file refers to" in what


def _published(soak: Soak, files: FileSystem) -> None:
    found = {}
    for path, _ in _files(files, "/"):
        try:
            content = parse(files.read(path), path)
        except (BrokenError, IgniteStrategyError) as error:
            soak.wrong.append(f"{path}: {error}")
            continue
        if not path.endswith(".new"):
            found[content.owner] = content
        soak.counts["files read at the end"] += 1
    for number, kind in enumerate(WORKERS):
        journal = soak.folder / f"journal-{number}"
        for owner, (published, intended) in told(journal).items() if journal.exists() else ():
            soak.counts["published"] += published + 1
            content = found.get(owner)
            if content is None:
                if published >= 0:
                    soak.wrong.append(
                        f"{kind} {number}: {owner} is gone, whose version {published} was published"
                    )
                continue
            version = content.records - 1 if content.extended else content.version
            if not published <= version <= intended:
                soak.wrong.append(
                    f"{kind} {number}: {owner} has version {version}, published was {published}, intended {intended}"
                )


def _files(files: FileSystem, folder: str) -> Iterator[tuple[str, int]]:
    """Every file below, with its size."""
    for entry in files.list(folder):
        path = f"{folder.rstrip('/')}/{entry.name}"
        if entry.is_directory:
            yield from _files(files, path)
        else:
            yield path, entry.size


if __name__ == "__main__":
    sys.exit(main())
