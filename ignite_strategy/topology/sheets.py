"""An overview as tables of text, for a terminal and for a page alike (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ignite_strategy.runtime.account import TaskRecord
from ignite_strategy.topology.overview import JobView, Overview, Traffic, node_address, traffic_of
from ignite_strategy.topology.ranges import format_ranges

__all__ = ["Column", "Sheet", "format_bytes", "printable", "sheets", "shortened"]

_LONGEST_RANGES = 20


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
      title: Above it.
      number: Aligned to the right.
    """

    title: str
    number: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table.

    Attributes:
      title: Above it.
      columns: Its columns.
      rows: Texts, as many as columns; a text may have several lines.
      empty: What to say if there is no row.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = ""


def printable(text: object) -> str:
    r"""Names come from whoever writes to the cluster: control characters, which a terminal obeys, are shown instead.

    >>> printable("a\x1b[2J")
    'a\\x1b[2J'
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(text))


def format_bytes(count: float) -> str:
    """A size for people.

    >>> format_bytes(1536000)
    '1.5 MB'
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:,.0f} B" if unit == "B" else f"{count:,.1f} {unit}"


def shortened(partitions: Sequence[int], longest: int = _LONGEST_RANGES) -> str:
    """Partitions as ranges, or how many there are if that would be too long.

    >>> shortened([0, 1, 2, 7])
    '0-2,7'
    """
    text = format_ranges(partitions)
    return text if len(text) <= longest else f"{len(partitions):,} partitions"


def sheets(overview: Overview) -> list[Sheet]:
    """Nodes, caches, jobs and tasks."""
    return [_nodes(overview), _caches(overview), _jobs(overview), _tasks(overview)]


def _numbers(titles: Iterable[str]) -> tuple[Column, ...]:
    return tuple(Column(title, number=True) for title in titles)


def _traffic(traffic: Traffic) -> tuple[str, str, str, str]:
    return (
        f"{traffic.local_rows:,}",
        format_bytes(traffic.local_bytes),
        f"{traffic.remote_rows:,}",
        format_bytes(traffic.remote_bytes),
    )


_TRAFFIC = _numbers(("rows local", "bytes local", "rows remote", "bytes remote"))


def _nodes(overview: Overview) -> Sheet:
    rows = []
    placed = [(topology.cache, topology.placement()) for topology in overview.caches]
    tasks: dict[str, list[str]] = {}
    for _, task in overview.tasks:
        tasks.setdefault(task.node, []).append(f"{task.type} {task.index}")
    served = overview.served()
    for node in overview.nodes:
        primary = [(cache, placement.get(node.id, ())) for cache, placement in placed]
        rows.append(
            (
                f"{node_address(node)}\n{node.id}",
                _agent(overview, node.id),
                "\n".join(f"{cache}: {shortened(parts)}" for cache, parts in primary if parts),
                ", ".join(tasks.get(node.id, ())),
                *_traffic(served.get(node.id, Traffic())),
            )
        )
    columns = tuple(map(Column, ("node", "agent", "primary for", "tasks"))) + _TRAFFIC
    return Sheet("Nodes", columns, _printable(rows), "no node has a client connector")


def _agent(overview: Overview, node: str) -> str:
    found = overview.agents.get(node)
    if found is None:
        return "none"
    text = f"{found.record.host}, pid {found.record.pid}, {found.record.version}"
    text += f", GPUs: {len(found.record.gpus)}" if found.record.gpus else ""
    return text if found.alive else f"{text} (silent)"


def _caches(overview: Overview) -> Sheet:
    rows = []
    for topology in overview.caches:
        missing = [p for p, primary in enumerate(topology.primaries) if primary is None]
        placed = topology.placement()
        spread = [len(placed.get(node.id, ())) for node in overview.nodes]
        readers = [job.id for job in overview.jobs if topology.cache in job.caches]
        rows.append(
            (
                topology.cache,
                f"{len(topology.primaries):,}",
                f"{sum(map(bool, spread)):,} of {len(spread):,}",
                _spread([count for count in spread if count]),
                shortened(missing) if missing else "",
                ", ".join(readers),
            )
        )
    columns = (Column("cache"), *_numbers(("partitions", "nodes", "per node")))
    columns += tuple(map(Column, ("without a primary", "read by")))
    return Sheet("Caches", columns, _printable(rows), "no caches")


def _spread(counts: Sequence[int]) -> str:
    low, high = min(counts, default=0), max(counts, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _jobs(overview: Overview) -> Sheet:
    rows = [
        (
            job.id,
            job.state,
            str(job.record.attempt),
            f"{job.record.host}, pid {job.record.pid}",
            f"{sum(task.state == 'serving' for task in job.tasks)} of {len(job.tasks)}",
            ", ".join(job.caches),
        )
        for job in overview.jobs
    ]
    columns = (Column("job"), Column("state"), Column("attempt", True), Column("client"))
    return Sheet(
        "Jobs",
        (*columns, Column("tasks serving", True), Column("caches")),
        _printable(rows),
        "no job runs",
    )


def _tasks(overview: Overview) -> Sheet:
    rows = [(*_task(overview, job, task), *_traffic(traffic_of(task))) for job, task in overview.tasks]
    titles = ("job", "task", "node", "process", "listens at", "state", "reads")
    return Sheet("Tasks", tuple(map(Column, titles)) + _TRAFFIC, _printable(rows), "no task runs")


def _task(overview: Overview, job: JobView, task: TaskRecord) -> tuple[str, ...]:
    reads = "\n".join(f"{cache}: {shortened(parts)}" for cache, parts in sorted(task.partitions.items()))
    return (
        job.id,
        f"{task.type} {task.index}",
        overview.address(task.node),
        (f"pid {task.pid}" if task.pid else "") + "".join(f"\nGPU {gpu}" for gpu in task.gpus),
        task.address or "",
        task.state,
        reads,
    )


def _printable(rows: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple("\n".join(map(printable, cell.split("\n"))) for cell in row) for row in rows)
