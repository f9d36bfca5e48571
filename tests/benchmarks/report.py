"""The results: a table for people, JSON for programs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.measure import Ratio, Result, Work, taken


def show(console: Console, work: Work, results: Sequence[Result], ratios: Sequence[Ratio]) -> None:
    """Prints one work."""
    table = Table(title=work.title, title_justify="left", box=None, pad_edge=False)
    for name in (
        "contestant",
        "page",
        f"{work.unit}/s",
        "lowest..highest",
        "MB/s",
        f"CPU s/M {work.unit}",
        "peak MB",
        "took MB",
    ):
        table.add_column(name, justify="left" if name == "contestant" else "right")
    for result in results:
        if not result.samples:
            table.add_row(result.entry.label, "", "not run")
            continue
        rates = [sample.rate for sample in result.samples]
        size = work.row_bytes or _row_bytes(results)
        table.add_row(
            result.entry.label,
            result.setting,
            f"{result.rate:,.0f}",
            f"{min(rates):,.0f}..{max(rates):,.0f}",
            f"{result.rate * size / 1e6:,.0f}" if size else "",
            f"{result.cpu_per_million:.2f}",
            f"{result.peak / 1e6:,.0f}",
            f"{result.growth / 1e6:,.0f}",
        )
    console.print(table)
    for ratio in ratios:
        verdict = "[green]holds[/green]" if ratio.met else "[red]missed[/red]"
        console.print(
            f"  {ratio.target.entry} / {' or '.join(ratio.target.others)} = {ratio.median:.2f} "
            f"({ratio.lowest:.2f} to {ratio.highest:.2f}), target {ratio.target.ratio:g}: {verdict}",
            highlight=False,
        )
    for memory in taken(work, results, work.row_bytes or _row_bytes(results)):
        verdict = "[green]holds[/green]" if memory.met else "[red]missed[/red]"
        console.print(
            f"  {memory.limit.entry} took {memory.taken / 1e6:,.1f} MB in a run, at most "
            f"{memory.allowed / 1e6:,.1f} MB ({memory.limit.pages} pages and a group of batches): {verdict}",
            highlight=False,
        )
    console.print()


def _row_bytes(results: Sequence[Result]) -> float:
    for result in results:
        for sample in result.samples:
            if sample.size:
                return sample.size / sample.rows
    return 0.0


def document(work: Work, results: Sequence[Result], ratios: Sequence[Ratio]) -> dict[str, Any]:
    """One work as JSON's types."""
    return {
        "work": work.name,
        "title": work.title,
        "rows": work.rows,
        "unit": work.unit,
        "row_bytes": work.row_bytes or _row_bytes(results),
        "results": [
            {
                "contestant": result.entry.label,
                "page": result.page,
                "connections": result.connections,
                "sweep": result.sweep,
                "problem": result.problem,
                "rows_per_second": [round(sample.rate, 1) for sample in result.samples],
                "median": round(result.rate, 1),
                "cpu_seconds_per_million_rows": round(result.cpu_per_million, 3) if result.samples else None,
                "peak_bytes": result.peak if result.samples else None,
                "taken_bytes": result.growth if result.samples else None,
            }
            for result in results
        ],
        "ratios": [
            {
                "of": ratio.target.entry,
                "over": " or ".join(ratio.target.others),
                "target": ratio.target.ratio,
                "median": round(ratio.median, 3),
                "lowest": round(ratio.lowest, 3),
                "highest": round(ratio.highest, 3),
                "holds": ratio.met,
            }
            for ratio in ratios
        ],
        "memory": [
            {
                "of": memory.limit.entry,
                "taken_bytes": memory.taken,
                "allowed_bytes": memory.allowed,
                "holds": memory.met,
            }
            for memory in taken(work, results, work.row_bytes or _row_bytes(results))
        ],
    }


def save(path: Path, machine: dict[str, Any], works: Sequence[dict[str, Any]]) -> None:
    """Writes the JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "works": works}, indent=1) + "\n")


def summary(ratios: Sequence[Ratio]) -> str:
    """One line about all targets."""
    if not ratios:
        return "none of these works has a target"
    met = sum(ratio.met for ratio in ratios)
    middle = statistics.median(ratio.median / ratio.target.ratio for ratio in ratios)
    return f"{met} of {len(ratios)} targets hold (measured / target: {middle:.2f} in the middle)"
