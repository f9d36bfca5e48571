"""The results as a picture: a bar for each contestant, a group for each work.

Plain SVG: nothing more need be installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

_WIDTH, _LABELS, _BAR, _GAP, _TITLE = 960, 330, 18, 5, 34
_OURS, _PEER, _RANGE = "#1f6feb", "#8c959f", "#24292f"


def draw(path: Path, works: Sequence[Mapping[str, Any]]) -> None:
    """Writes the picture."""
    parts: list[str] = []
    top = 10
    for work in works:
        top = _work(parts, work, top) + 16
    style = "font-family: system-ui, sans-serif; font-size: 13px"
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top}" style="{style}">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _work(parts: list[str], work: Mapping[str, Any], top: int) -> int:
    results = [result for result in work["results"] if result["rows_per_second"]]
    parts.append(f'<text x="10" y="{top + 18}" font-weight="bold">{escape(work["title"])}</text>')
    top += _TITLE
    longest = max((max(result["rows_per_second"]) for result in results), default=1.0)
    scale = (_WIDTH - _LABELS - 130) / longest
    for result in results:
        rates = result["rows_per_second"]
        middle = top + _BAR / 2
        colour = _OURS if result["contestant"].startswith("ours") else _PEER
        low, high, median = (_LABELS + rate * scale for rate in (min(rates), max(rates), result["median"]))
        parts.append(
            f'<text x="{_LABELS - 8}" y="{middle + 4}" text-anchor="end">{escape(result["contestant"])}</text>'
            f'<rect x="{_LABELS}" y="{top}" width="{median - _LABELS:.1f}" height="{_BAR}" fill="{colour}"/>'
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}" stroke="{_RANGE}" stroke-width="2"/>'
            f'<text x="{max(high, median) + 6:.1f}" y="{middle + 4}">{result["median"]:,.0f} {work["unit"]}/s</text>'
        )
        top += _BAR + _GAP
    return top
