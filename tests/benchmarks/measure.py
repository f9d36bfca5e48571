"""How contestants are compared: each at its best page size, in turns, round by round."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.contestant import Contestant, ContestantError, Sample


@dataclass(frozen=True)
class Entry:
    """One contestant in one work.

    Attributes:
      label: What it is called in the results.
      script: The process that does it: ``drains/drain_<script>.py``.
      drain: What that process is asked to do.
      pages: Page sizes to try, in rows; ``None`` = its own choice.
      connections: Numbers of connections to try with each; none = it has one, or ``options`` say.
      options: More for the request.
    """

    label: str
    script: str
    drain: str
    pages: Sequence[int | None] = (None,)
    connections: Sequence[int] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """``entry`` shall be ``ratio`` times as fast as ``over``, or as ``or_over`` if that is slower."""

    entry: str
    over: str
    ratio: float
    or_over: str | None = None

    @property
    def others(self) -> list[str]:
        """What the entry is compared with."""
        return [self.over] + ([self.or_over] if self.or_over else [])


@dataclass(frozen=True)
class Limit:
    """``entry`` shall take no more memory than so many pages, whatever the number of rows.

    Attributes:
      entry: The contestant.
      pages: Of one connection.
      page_bytes: Of a page that has not been asked for by rows.
      batch_bytes: What a consumer of batches has besides: the batch at hand and those that were made with it.
    """

    entry: str
    pages: int
    page_bytes: float = 2 << 20
    batch_bytes: float = 2 << 20


@dataclass(frozen=True)
class Work:
    """One thing to do, and who competes in it.

    Attributes:
      name: Chosen with ``ONLY=``.
      title: For people.
      rows: How many.
      entries: The contestants.
      targets: What must hold.
      limits: How much memory may be taken.
      row_bytes: Of one row on the wire, for MB/s; 0 = not of interest.
      request: What all requests share.
      unit: What is counted.
    """

    name: str
    title: str
    rows: int
    entries: Sequence[Entry]
    targets: Sequence[Target] = ()
    limits: Sequence[Limit] = ()
    row_bytes: float = 0.0
    request: Mapping[str, Any] = field(default_factory=dict)
    unit: str = "rows"


@dataclass
class Result:
    """All runs of one entry."""

    entry: Entry
    page: int | None = None
    connections: int | None = None
    sweep: dict[str, float] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    problem: str | None = None

    @property
    def setting(self) -> str:
        """The page size and the number of connections that were best."""
        return _setting(self.page, self.connections)

    @property
    def rate(self) -> float:
        """Median rows per second."""
        return statistics.median(sample.rate for sample in self.samples) if self.samples else 0.0

    @property
    def cpu_per_million(self) -> float:
        """CPU seconds of the contestant per million rows, the median."""
        return statistics.median(sample.cpu / sample.rows * 1e6 for sample in self.samples)

    @property
    def growth(self) -> int:
        """How much memory the runs took at the most, beyond what was there before, in bytes."""
        return max(sample.peak - sample.before for sample in self.samples)

    @property
    def peak(self) -> int:
        """The process's memory at the most, in bytes."""
        return max(sample.peak for sample in self.samples)


@dataclass(frozen=True)
class Taken:
    """The memory that a run took at the most, and how much it may."""

    limit: Limit
    taken: float
    allowed: float

    @property
    def met(self) -> bool:
        """Whether it is within the limit."""
        return self.taken <= self.allowed


@dataclass(frozen=True)
class Ratio:
    """How a target was met: the median over the rounds of the ratio within each round."""

    target: Target
    median: float
    lowest: float
    highest: float

    @property
    def met(self) -> bool:
        """Whether the median is what was asked for."""
        return self.median >= self.target.ratio


def compare(
    work: Work,
    contestants: Mapping[str, Contestant],
    pairs: int,
    say: Callable[[str], None],
) -> tuple[list[Result], list[Ratio]]:
    """Finds each entry's best page size, then runs all entries in turns, ``pairs`` times."""
    results = [Result(entry) for entry in work.entries]
    for result in results:
        contestant = contestants[result.entry.script]
        if not contestant.available:
            result.problem = f"no environment for {result.entry.script}"
            continue
        try:
            _sweep(work, result, contestant)
        except ContestantError as error:
            result.problem = str(error).splitlines()[0][:300]
            say(f"  {result.entry.label}: {result.problem}")
            continue
        say(f"  {result.entry.label}: best page {result.setting} ({_rates(result.sweep)})")
    running = [result for result in results if result.problem is None]
    for turn in range(pairs):
        # The order turns too: whoever follows a busy contestant finds a warm or a throttled machine.
        for result in running[turn % len(running) :] + running[: turn % len(running)]:
            try:
                result.samples.append(_run(work, result, contestants[result.entry.script]))
            except ContestantError as error:
                result.problem = str(error).splitlines()[0][:300]
                say(f"  {result.entry.label}: {result.problem}")
        running = [result for result in running if result.problem is None]
        line = ", ".join(f"{result.entry.label} {result.samples[-1].rate:,.0f}" for result in running)
        say(f"  round {turn + 1} of {pairs}, {work.unit}/s: {line}")
    return results, _ratios(work, results)


def _setting(page: int | None, connections: int | None) -> str:
    return ("own" if page is None else str(page)) + (f" x {connections}" if connections else "")


def _rates(sweep: Mapping[str, float]) -> str:
    return ", ".join(f"{setting}: {rate:,.0f}" for setting, rate in sweep.items())


def _sweep(work: Work, result: Result, contestant: Contestant) -> None:
    choices = list(itertools.product(result.entry.pages, result.entry.connections or (None,)))
    best, chosen = -1.0, choices[0]
    for choice in choices:
        result.page, result.connections = choice
        _run(work, result, contestant)  # traces, connects, warms up
        rate = 0.0
        if len(choices) > 1:
            # The better of two: a moment in which the machine does something else must not choose.
            rate = max(_run(work, result, contestant).rate for _ in range(2))
        result.sweep[result.setting] = rate
        if rate > best:
            best, chosen = rate, choice
    result.page, result.connections = chosen


def _run(work: Work, result: Result, contestant: Contestant) -> Sample:
    entry = result.entry
    request = {**work.request, "rows": work.rows, "drain": entry.drain, "page": result.page, **entry.options}
    if result.connections:
        request["connections"] = result.connections
    sample = contestant.ask(request)
    expected = entry.options.get("limit") or work.rows
    if sample.rows != expected:
        raise ContestantError(f"{sample.rows} rows instead of {expected}")
    return sample


def taken(work: Work, results: Sequence[Result], row_bytes: float) -> list[Taken]:
    """Which of ``work.limits`` hold."""
    found = []
    for limit in work.limits:
        result = next(result for result in results if result.entry.label == limit.entry)
        if result.samples:
            page = limit.page_bytes if result.page is None else result.page * row_bytes
            pages = limit.pages * (result.connections or 1)
            found.append(Taken(limit, result.growth, pages * page + limit.batch_bytes))
    return found


def _ratios(work: Work, results: Sequence[Result]) -> list[Ratio]:
    by_label = {result.entry.label: result for result in results if result.samples}
    ratios = []
    for target in work.targets:
        others = [by_label[label].samples for label in target.others if label in by_label]
        if target.entry not in by_label or len(others) < len(target.others):
            continue
        pairs = [
            mine.rate / min(other.rate for other in turn)
            for mine, *turn in zip(by_label[target.entry].samples, *others)
        ]
        ratios.append(Ratio(target, statistics.median(pairs), min(pairs), max(pairs)))
    return ratios
