"""``make bench``: ours and its peers, side by side, on real nodes of this host."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

import ignite_strategy as igs
from ignite_strategy.settings import parse_endpoint
from tests.benchmarks import files, picture, report
from tests.benchmarks.contestant import Contestant
from tests.benchmarks.elsewhere import NotPermittedError, node_elsewhere
from tests.benchmarks.fill import fill
from tests.benchmarks.measure import Ratio, Result, Work, compare
from tests.benchmarks.works import ELSEWHERE, FILES, Plan, plans

BUILD = Path(__file__).parents[2] / "build" / "bench"
SCRIPTS = ("ignite_strategy", "raw", "records", "pyignite", "igfs", "raw_kv")


def main() -> int:
    """Measures; the exit code is 0 whether or not the targets hold, unless ``--strict``."""
    options = _options()
    console = Console(width=max(120, Console().width))
    chosen = _chosen(options)
    contestants = {script: Contestant(script) for script in SCRIPTS}
    for script in ("tensorflow_io", "tensorflow_io_igfs"):
        contestants[script] = Contestant(script, options.tensorflow_io)
    documents: list[dict[str, Any]] = []
    ratios: list[Ratio] = []
    try:
        for nodes in sorted(
            {plan.nodes for plan in chosen.values()}, key=lambda count: (count in (ELSEWHERE, FILES), count)
        ):
            wanted = [plan for plan in chosen.values() if plan.nodes == nodes]
            _measure(wanted, nodes, options, contestants, console, documents, ratios)
    finally:
        for contestant in contestants.values():
            contestant.close()
        if documents:
            report.save(BUILD / "bench.json", _machine(), documents)
            picture.draw(BUILD / "bench.svg", documents)
            console.print(f"{BUILD / 'bench.json'} and bench.svg: {report.summary(ratios)}", soft_wrap=True)
    return int(options.strict and not all(ratio.met for ratio in ratios))


def _measure(
    wanted: list[Plan],
    nodes: int,
    options: argparse.Namespace,
    contestants: Mapping[str, Contestant],
    console: Console,
    documents: list[dict[str, Any]],
    ratios: list[Ratio],
) -> None:
    filled: set[str] = set()
    (BUILD / "records").mkdir(parents=True, exist_ok=True)

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False)

    say(f"starting {_described(nodes)} at full speed ...")
    try:
        with _cluster(nodes) as addresses, _original(nodes, options) as where:
            for plan in wanted:
                work, results, found = _one(plan, addresses, where, filled, options, contestants, say)
                report.show(console, work, results, found)
                documents.append(report.document(work, results, found))
                ratios.extend(found)
    except NotPermittedError as error:
        say(f"left out ({', '.join(plan.work.name for plan in wanted)}): {error}")


def _one(
    plan: Plan,
    addresses: list[str],
    where: Mapping[str, Any],
    filled: set[str],
    options: argparse.Namespace,
    contestants: Mapping[str, Contestant],
    say: Callable[[str], None],
) -> tuple[Work, list[Result], list[Ratio]]:
    cache = plan.cache
    if cache.name not in filled:
        start = time.monotonic()
        fill(cache, addresses)
        filled.add(cache.name)
        say(f"{cache.name}: {cache.rows:,} rows written in {time.monotonic() - start:.1f} s")
    endpoint = parse_endpoint(addresses[0])
    request = {
        "cache": cache.name,
        "host": endpoint.host,
        "port": endpoint.port,
        "folder": str(BUILD / "records"),
        **where,
    }
    work = replace(plan.work, request={**request, **plan.work.request})
    say(f"{work.name}: {work.title}")
    results, found = compare(work, contestants, options.pairs, say)
    return work, results, found


def _described(nodes: int) -> str:
    if nodes == FILES:
        return "an Ignite node for files"
    if nodes == ELSEWHERE:
        return "an Ignite node in another network namespace"
    return f"{nodes} Ignite node{'s' * (nodes > 1)}"


@contextlib.contextmanager
def _cluster(nodes: int) -> Iterator[list[str]]:
    if nodes == ELSEWHERE:
        with node_elsewhere() as address:
            yield [address]
    elif nodes == FILES:
        with igs.LocalCluster(nodes=1, full_speed=True, heap_mb=1536, data_mb=8192) as cluster:
            yield cluster.addresses
    else:
        with igs.LocalCluster(nodes=nodes, full_speed=True, heap_mb=1536, data_mb=4096) as cluster:
            yield cluster.addresses


@contextlib.contextmanager
def _original(nodes: int, options: argparse.Namespace) -> Iterator[Mapping[str, Any]]:
    """For files: an Ignite 2.7.6, the last but one with the file system that tensorflow-io speaks to."""
    if nodes != FILES or options.tensorflow_io is None:
        yield {}
        return
    with igs.LocalCluster(nodes=1, version="2.7.6", igfs=True, full_speed=True, heap_mb=1024) as cluster:
        endpoint = parse_endpoint(cluster.igfs_addresses[0])
        yield {"igfs_host": endpoint.host, "igfs_port": endpoint.port}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", default="", help="works to measure, with commas; `list` lists them")
    parser.add_argument(
        "--pairs", type=_positive, default=5, help="rounds in which every contestant runs once"
    )
    parser.add_argument("--rows", type=int, default=300_000, help="small rows")
    parser.add_argument("--blobs", type=int, default=1_000, help="rows of 1 MB")
    parser.add_argument(
        "--connections", type=_numbers, default=(2, 3, 4), help="of the parallel readers, to choose from"
    )
    parser.add_argument("--mebibytes", type=int, default=1024, help="of the files on igfs://")
    parser.add_argument("--calls", type=int, default=2000, help="on igfs:// that look or rename")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed")
    parser.add_argument(
        "--tensorflow-io",
        type=lambda text: text or None,
        default=_peer(),
        help="the Python that has tensorflow-io 0.23.1; nothing = leave it out",
    )
    return parser.parse_args()


def _positive(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError("give a number from 1 on")
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def _peer() -> str | None:
    """What ``make bench`` has set up, or an earlier run of it."""
    cache = os.environ.get("IGNITE_STRATEGY_CACHE") or Path.home() / ".cache" / "ignite-strategy"
    folder = Path(cache) / "peers" / "tensorflow-io"
    return str(folder / "bin" / "python") if (folder / ".complete").exists() else None


def _chosen(options: argparse.Namespace) -> Mapping[str, Plan]:
    available = dict(plans(options))
    available.update({plan.work.name: plan for plan in files.plans(options, str(BUILD / "disk"))})
    names = [name for name in options.only.replace(" ", ",").split(",") if name]
    unknown = [name for name in names if name not in available]
    if unknown:
        listing = "\n".join(f"  {name:<16} {plan.work.title}" for name, plan in available.items())
        print(f"the works are:\n{listing}")
        sys.exit(0 if unknown == ["list"] else 2)
    return {name: available[name] for name in names} if names else available


def _machine() -> dict[str, Any]:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": os.getloadavg(),
    }


if __name__ == "__main__":
    sys.exit(main())
