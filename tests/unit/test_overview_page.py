"""What a page and tables say of an overview; the real cluster is in tests/distributed/test_overview.py."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from ignite_strategy.errors import NotFoundError, PreconditionError
from ignite_strategy.runtime.account import TaskRecord
from ignite_strategy.runtime.records import AgentRecord, JobRecord
from ignite_strategy.topology.nodes import Node, Topology
from ignite_strategy.topology.overview import AgentView, JobView, Overview, Traffic, traffic_of
from ignite_strategy.topology.page import render_page
from ignite_strategy.topology.sheets import format_bytes, sheets, shortened
from ignite_strategy.topology.tf_config import ClusterLayout

NODES = (Node("a", ("10.0.0.1", "127.0.0.1"), 10800), Node("b", ("10.0.0.2",), 10800))


def _reader(node: str, rows: int) -> dict[str, Any]:
    return {"cache": "C", "node": node, "rows": rows, "bytes": 10 * rows, "failed": 0, "partitions": ""}


def _job(cache: str, parts: dict[str, tuple[int, ...]], **changes: Any) -> JobView:
    tasks = (
        TaskRecord("chief", 0, "a", "10.0.0.1", 7, "10.0.0.1:2222", "serving", {cache: parts["a"]}, (_reader("a", 5),)),
        TaskRecord(
            "worker", 0, "b", "10.0.0.2", 8, "10.0.0.2:2222", "serving", {cache: parts["b"]},
            (_reader("b", 2_000_000), _reader("a", 3)),
        ),
    )  # fmt: skip
    layout = ClusterLayout({"chief": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222"]})
    record = JobRecord("job-1", 2, ("a", "b"), host="client", pid=3)
    return JobView(
        **{"record": record, "alive": True, "proven": True, "tasks": tasks, "layout": layout, **changes}
    )


def _overview(
    cache: str = "C", primaries: tuple[str | None, ...] = ("a", "b", "a", "b"), **changes: Any
) -> Overview:
    agents = {"a": AgentView(AgentRecord("a", "10.0.0.1", 5, 1, "host", "i", "0.1.0"), True, True)}
    job = _job(cache, {"a": (0,), "b": (1, 2, 3)})
    return Overview(
        **{
            "version": 7,
            "nodes": NODES,
            "caches": (Topology(7, NODES, cache, primaries),),
            "agents": agents,
            "jobs": (job,),
            **changes,
        }
    )


class _Reader(HTMLParser):
    """Collects what a browser would load, run and show."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [
            f"{name}={value}" for name, value in attrs if name in ("src", "href") or name[:2] == "on"
        ]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def _read(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    return reader


def test_the_page_needs_nothing_and_runs_nothing() -> None:
    evil = '"><script>alert(1)</script><img src=http://evil/ onerror=x>'
    text = render_page(_overview(cache=evil, problems=(evil,)), evil, "now")
    reader = _read(text)
    assert {"script", "img", "link", "iframe"}.isdisjoint(reader.tags)
    assert reader.addresses == []
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    assert any(evil in shown for shown in reader.texts)


def test_the_page_shows_where_partitions_are_and_who_reads_them() -> None:
    text = render_page(_overview(), "Ignite cluster at h:1", "2026-01-01")
    parts = re.findall(r'<div class="(part[^"]*)" style="flex:(\d+)[^"]*" title="([^"]*)"', text)
    assert parts == [
        ("part task", "1", "chief 0: 0"),
        ("part task far", "1", "worker 0 (from another node): 2"),
        ("part task", "2", "worker 0: 1,3"),
    ]
    assert "<i>3</i>" in text
    assert "prefers-color-scheme: dark" in text


def test_lost_partitions_and_those_that_nobody_reads() -> None:
    text = render_page(_overview(primaries=("a", None, "b", None), jobs=()), "t", "now")
    parts = re.findall(r'<div class="(part[^"]*)" [^>]*title="([^"]*)"', text)
    assert parts == [("part", "not read: 0"), ("part", "not read: 2"), ("part gone", "lost: 1,3")]


def test_a_large_cache_makes_no_large_page() -> None:
    primaries = tuple("ab"[p % 2] for p in range(65_000))
    job = _job("C", {"a": tuple(range(0, 65_000, 2)), "b": tuple(range(1, 65_000, 2))})
    text = render_page(_overview(primaries=primaries, jobs=(job,)), "t", "now")
    assert len(text) < 30_000
    assert "<i>" not in text
    assert "32,500 partitions" in text


def test_tables() -> None:
    nodes, caches, jobs, tasks = sheets(_overview())
    assert nodes.rows[0] == (
        "10.0.0.1:10800\na", "10.0.0.1, pid 5, 0.1.0", "C: 0,2", "chief 0", "5", "50 B", "3", "30 B",
    )  # fmt: skip
    assert nodes.rows[1][1] == "none"
    assert caches.rows == (("C", "4", "2 of 2", "2", "", "job-1"),)
    assert jobs.rows == (("job-1", "running", "2", "client, pid 3", "2 of 2", "C"),)
    assert tasks.rows[1][-4:] == ("2,000,000", "20.0 MB", "3", "30 B")
    for sheet in (nodes, caches, jobs, tasks):
        assert all(len(row) == len(sheet.columns) for row in sheet.rows)


def test_a_terminal_obeys_no_name() -> None:
    shown = sheets(_overview(cache="C\x1b[2J\nD"))
    assert not any("\x1b" in cell for sheet in shown for row in sheet.rows for cell in row)
    assert any("\\x1b[2J" in cell for row in shown[1].rows for cell in row)


def test_traffic() -> None:
    overview = _overview()
    assert overview.served() == {"a": Traffic(5, 50, 3, 30), "b": Traffic(2_000_000, 20_000_000, 0, 0)}
    assert traffic_of(overview.jobs[0].tasks[1]) == Traffic(2_000_000, 20_000_000, 3, 30)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "running"),
        ({"alive": False}, "silent"),
        ({"record": JobRecord("j", 1, ("a",), closing=True)}, "closing"),
        ({"tasks": (TaskRecord("chief", 0, "a", state="loaded"),)}, "starting"),
        ({"tasks": (TaskRecord("chief", 0, "a", state="done"),)}, "running"),
    ],
)
def test_the_state_of_a_job(changes: dict[str, Any], state: str) -> None:
    assert _job("C", {"a": (0,), "b": (1,)}, **changes).state == state


def test_which_job_a_cache_means() -> None:
    one = _job("C", {"a": (0,), "b": (1,)})
    other = _job("C", {"a": (0,), "b": (1,)}, record=JobRecord("job-2", 1, ("a",)), layout=None)
    assert _overview(jobs=(one,)).layout_of("C").jobs == ("chief", "worker")
    with pytest.raises(NotFoundError, match=r"no job that reads cache 'D'.*job-1 on C"):
        _overview(jobs=(one,)).layout_of("D")
    with pytest.raises(PreconditionError, match="name one of job-1, job-2"):
        _overview(jobs=(one, other)).layout_of("C")
    with pytest.raises(PreconditionError, match="job-2 is starting"):
        _overview(jobs=(one, other)).layout_of("C", "job-2")
    with pytest.raises(NotFoundError, match="job 'job-3'"):
        _overview(jobs=(one, other)).layout_of("C", "job-3")


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (3.2e15, "3,200.0 TB")]
)
def test_sizes(count: float, text: str) -> None:
    assert format_bytes(count) == text


def test_ranges_that_are_too_long() -> None:
    assert shortened([0, 1, 2]) == "0-2"
    assert shortened(range(0, 100, 2)) == "50 partitions"
