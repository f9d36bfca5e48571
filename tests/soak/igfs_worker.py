"""One process that uses a file system until it is killed: ``python -m tests.soak.igfs_worker KIND NUMBER ...``."""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ignite_strategy.errors import IgniteStrategyError, NotFoundError, PreconditionError
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.runtime.processes import die_with_parent
from ignite_strategy.settings import parse_endpoints, use_default_endpoints
from tests.soak.content import Journal, parse, record, replaced, told

FILES = 8
_KIB = 1024


class Worker:
    """What all kinds share."""

    def __init__(self, number: int, folder: Path) -> None:
        self.files = FileSystem(name="soak")
        self.random = random.Random(time.monotonic_ns())
        self.home = f"/soak/{number}"
        journal = folder / f"journal-{number}"
        self.known = told(journal) if journal.exists() else {}
        self.journal = Journal(journal)
        self.files.makedirs(self.home)

    def version(self, owner: str) -> int:
        """A version that was never begun."""
        version = max(self.known.get(owner, (-1, -1))) + 1
        self.known[owner] = (version, version)
        return version


class Replacer(Worker):
    """Replaces files: directly, or by writing beside and renaming, as checkpoints are written."""

    def step(self) -> None:
        """One file."""
        owner = f"{self.home}/replaced-{self.random.randrange(FILES)}"
        version = self.version(owner)
        size = self.random.choice([0, 100, 10 * _KIB, 200 * _KIB, 600 * _KIB])
        beside = self.random.random() < 0.5
        target = f"{owner}.new" if beside else owner
        self.journal.say("intends", owner, version)
        with self.files.open(target, "wb") as out:
            for piece in replaced(owner, version, self.random.randint(1, 5), size):
                out.write(piece)
        if beside:
            self.files.rename(target, owner)
        self.journal.say("published", owner, version)


class Extender(Worker):
    """Extends files record by record, as event files grow; each flush publishes whole records."""

    def step(self) -> None:
        """One opening of a file."""
        owner = f"{self.home}/extended-{self.random.randrange(FILES)}"
        count = parse(self.files.read(owner), owner).records if self.files.exists(owner) else 0
        if count > 200:
            return
        with self.files.open(owner, "ab") as out:
            for number in range(count, count + self.random.randint(1, 6)):
                self.journal.say("intends", owner, number)
                out.write(record(owner, 0, number, 0, self.random.choice([10, 5 * _KIB, 300 * _KIB])))
                out.flush()
                self.journal.say("published", owner, number)


class Mover(Worker):
    """Moves a directory with a file in it to and fro, and removes and makes another."""

    def step(self) -> None:
        """One move."""
        names = [f"{self.home}/here", f"{self.home}/there/below"]
        owner = f"{self.home}/moved"
        at = [name for name in names if self.files.exists(name)]
        if len(at) > 1:
            raise AssertionError(f"a directory is at two places: {at}")
        self.files.makedirs(f"{self.home}/there")
        if not at:
            if self.known.get(owner, (-1, -1))[0] >= 0:
                raise AssertionError(f"a directory is at none of {names}")
            version = self.version(owner)
            self.files.makedirs(f"{self.home}/begin")
            self.journal.say("intends", owner, version)
            with self.files.open(f"{self.home}/begin/file", "wb") as out:
                for piece in replaced(owner, version, 3, 100 * _KIB):
                    out.write(piece)
            self.files.rename(f"{self.home}/begin", names[0])
            self.journal.say("published", owner, version)
            return
        self.files.rename(at[0], names[1 - names.index(at[0])])
        export = f"{self.home}/export"
        if self.files.exists(export):
            self.files.remove(export, recursive=True)
        self.files.makedirs(f"{export}/variables")
        for number in range(5):
            self.files.write(f"{export}/variables/{number}", record(export, 0, 0, 1, 1000))


class Reader(Worker):
    """Reads whatever there is, and looks whether it is whole."""

    def step(self) -> None:
        """One file."""
        path = "/soak"
        while True:
            entries = self.files.list(path)
            if not entries:
                return
            entry = self.random.choice(entries)
            path = f"{path}/{entry.name}"
            if not entry.is_directory:
                break
        parse(self.files.read(path), path)


KINDS: dict[str, Callable[[int, Path], Worker]] = {
    "replacer": Replacer,
    "extender": Extender,
    "mover": Mover,
    "reader": Reader,
}


def main() -> None:
    """Works until it is killed; what is wrong is said on standard output, and ends it."""
    kind, number, folder, addresses, parent = sys.argv[1:6]
    die_with_parent(int(parent))
    with use_default_endpoints(parse_endpoints(addresses)):
        worker = KINDS[kind](int(number), Path(folder))
        print("ready", flush=True)
        for turn in itertools.count():
            try:
                worker.step()  # type: ignore[attr-defined]
            except (NotFoundError, PreconditionError) as error:
                if kind != "reader":  # somebody else moved or replaced what a reader was about to read
                    raise AssertionError(f"{kind} {number}, step {turn}: {error}") from error
            except IgniteStrategyError as error:
                # While a node is lost; what was published, if anything, is unknown.
                print(f"{type(error).__name__} {str(error)[:200]}", file=sys.stderr, flush=True)
                time.sleep(0.2)


if __name__ == "__main__":
    main()
