"""An overview as one HTML page: no script, nothing from the network, everything escaped (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from ignite_strategy.runtime.account import TaskRecord
from ignite_strategy.topology.nodes import Topology
from ignite_strategy.topology.overview import JobView, Overview, node_address
from ignite_strategy.topology.ranges import format_ranges
from ignite_strategy.topology.sheets import Sheet, printable, sheets, shortened

__all__ = ["render_page"]

_MOST_CELLS = 512  # partitions that are drawn one by one
_GOLDEN_ANGLE = 137.508  # neighbours get hues that are far apart, however many there are
_FIRST_HUE = 210  # not red, which is for what is wrong

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1d21; --dim: #5c6670; --line: #d5dae0; --paper: #fff; --panel: #f5f7f9;
  --free: #e3e7eb; --alarm: #b3261e; --fill: 62% 84%; --edge: 45% 55%; --mark: #0002; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --dim: #9aa5b0; --line: #3a424a; --paper: #14171a;
  --panel: #1c2126; --free: #2c333a; --alarm: #ff8a80; --fill: 35% 28%; --edge: 40% 55%; --mark: #fff2; } }
body { margin: 2rem auto; max-width: 92rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1rem 0 .4rem; font-weight: 600; }
.dim { color: var(--dim); } .alarm { color: var(--alarm); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; min-width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line);
  white-space: pre; }
th { color: var(--dim); font-weight: 500; } th.n, td.n { text-align: right; }
.map { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .4rem .8rem; }
.node { display: flex; align-items: center; padding: .4rem 0; }
.node + .node { border-top: 1px solid var(--line); }
.name { flex: 0 0 13rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; padding-right: .6rem; }
.name small { display: block; color: var(--dim); overflow: hidden; text-overflow: ellipsis; }
.bar { flex: 1 1 auto; min-width: 0; display: flex; gap: 3px; }
.key { display: inline-block; width: .9em; height: .9em; border-radius: 3px; vertical-align: -1px; margin: 0 .3em 0 1em;
  border: 1px solid var(--line); background: var(--free); }
.part { min-width: 2px; overflow: hidden; border-radius: 4px; padding: .25rem .4rem; background: var(--free);
  border: 1px solid var(--line); }
.task { background: hsl(var(--hue) var(--fill)); border-color: hsl(var(--hue) var(--edge)); }
.part b { display: block; font-weight: 600; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.far { background-image: repeating-linear-gradient(45deg, transparent 0 6px, var(--mark) 6px 8px); }
.gone { border: 1px dashed var(--alarm); }
.cells { display: flex; flex-wrap: wrap; gap: 2px; margin-top: .15rem; }
.cells i { font-style: normal; font-size: 11px; min-width: 1.5em; text-align: center; padding: 0 2px;
  border-radius: 3px; background: color-mix(in srgb, var(--paper) 55%, transparent); }
"""

_HEAD = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    # A browser that obeys this loads nothing and runs nothing, whatever a name on this page may say.
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
)


class _Part(NamedTuple):
    """Partitions of one node that one task reads, or that none does."""

    partitions: list[int]
    job: JobView | None = None
    task: TaskRecord | None = None


def render_page(overview: Overview, title: str, when: str) -> str:
    """The page.

    Args:
      overview: What is on it.
      title: Its heading, the cluster's addresses for instance.
      when: The moment that it shows.
    """
    hues = {
        (job.id, task.type, task.index): round((_FIRST_HUE + at * _GOLDEN_ANGLE) % 360)
        for at, (job, task) in enumerate(overview.tasks)
    }
    body = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="dim">{_text(when)} - Ignite topology version {overview.version}; '
        f"nodes: {len(overview.nodes):,}, agents: {len(overview.agents):,}, jobs: {len(overview.jobs):,}</p>",
        *(f'<p class="alarm">{_text(problem)}</p>' for problem in _problems(overview)),
        "<h2>Which partitions lie where, and which task reads them</h2>",
        '<p class="dim">A row is a node with the partitions that it is primary for.'
        '<span class="key"></span>no task reads them<span class="key far"></span>read by a task beside another node'
        '<span class="key gone"></span>no node has them</p>',
        *(part for topology in overview.caches for part in _map(overview, topology, hues)),
        *(part for sheet in sheets(overview) for part in _table(sheet)),
    ]
    return "".join(
        (
            _HEAD,
            f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n",
            "\n".join(body),
            "\n</body>\n</html>\n",
        )
    )


def _text(value: object) -> str:
    return escape(printable(value), quote=True)


def _problems(overview: Overview) -> list[str]:
    return [*overview.problems, *(f"job {job.id}: {each}" for job in overview.jobs for each in job.problems)]


def _map(overview: Overview, topology: Topology, hues: dict[tuple[str, str, int], int]) -> Iterable[str]:
    readers: list[JobView | None] = [job for job in overview.jobs if topology.cache in job.caches]
    for job in readers or [None]:
        by = f", read by job {job.id} ({job.state})" if job else ", read by no job"
        count = len(topology.primaries)
        yield f"<h3>{_text(topology.cache)}: {count:,} partitions{_text(by)}</h3>"
        yield '<div class="map">'
        placed = topology.placement()
        by_partition = job.readers_of(topology.cache) if job else {}
        for node in overview.nodes:
            parts = _parts(placed.get(node.id, []), by_partition, job)
            yield _node(node_address(node), node.id, parts, count, hues)
        lost = [p for p, primary in enumerate(topology.primaries) if primary is None]
        if lost:
            yield _node(
                "no primary node", "their data is not available", [_Part(lost)], count, hues, gone=True
            )
        yield "</div>"


def _parts(mine: Sequence[int], readers: Mapping[int, TaskRecord], job: JobView | None) -> list[_Part]:
    """The partitions of one node by who reads them."""
    parts: dict[tuple[str, int] | None, _Part] = {}
    for partition in mine:
        task = readers.get(partition)
        key = (task.type, task.index) if task else None
        parts.setdefault(key, _Part([], job if task else None, task)).partitions.append(partition)
    return list(parts.values())


def _node(
    name: str,
    detail: str,
    parts: Sequence[_Part],
    count: int,
    hues: dict[tuple[str, str, int], int],
    gone: bool = False,
) -> str:
    label = f'<div class="name" title="{_text(detail)}">{_text(name)}<small>{_text(detail)}</small></div>'
    shown = "".join(_part(part, detail, count, hues, gone) for part in parts)
    empty = '<span class="dim">primary for none</span>'
    return f'<div class="node">{label}<div class="bar">{shown or empty}</div></div>'


def _part(part: _Part, node: str, count: int, hues: dict[tuple[str, str, int], int], gone: bool) -> str:
    kinds, style = ["part"], f"flex:{len(part.partitions)} 1 0"
    name = "not read"
    if gone:
        kinds.append("gone")
        name = "lost"
    elif part.task is not None and part.job is not None:
        name = f"{part.task.type} {part.task.index}"
        kinds.append("task")
        style += f";--hue:{hues[part.job.id, part.task.type, part.task.index]}"
        if part.task.node != node:
            kinds.append("far")
            name += " (from another node)"
    inside = (
        '<div class="cells">' + "".join(f"<i>{p}</i>" for p in part.partitions) + "</div>"
        if count <= _MOST_CELLS
        else f"<span>{_text(shortened(part.partitions))}</span>"
    )
    ranges = format_ranges(part.partitions)
    return (
        f'<div class="{" ".join(kinds)}" style="{style}" title="{_text(f"{name}: {ranges[:2_000]}")}">'
        f"<b>{_text(name)}</b>{inside}</div>"
    )


def _table(sheet: Sheet) -> Iterable[str]:
    yield f"<h2>{_text(sheet.title)}</h2>"
    if not sheet.rows:
        yield f'<p class="dim">{_text(sheet.empty)}</p>'
        return
    kinds = [' class="n"' if column.number else "" for column in sheet.columns]
    yield '<div class="wide"><table><thead><tr>'
    yield "".join(f"<th{kind}>{_text(column.title)}</th>" for kind, column in zip(kinds, sheet.columns))
    yield "</tr></thead><tbody>"
    for row in sheet.rows:
        # The texts of a sheet are printable already, line ends between them apart.
        yield "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row)) + "</tr>"
    yield "</tbody></table></div>"
