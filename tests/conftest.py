"""What all tests share: real nodes, a clean environment, fresh names, and a look for processes left behind."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator, Mapping

import psutil
import pytest

from ignite_strategy.local import LocalCluster

_STRIPPED = ("IGNITE_", "IGFS_", "TF_CONFIG", "TF_CLUSTER", "TF_WORKERS")
# Where downloads are, another interpreter, and another release of Ignite (make test-matrix).
_KEPT = ("IGNITE_STRATEGY_CACHE", "IGNITE_STRATEGY_NEWEST_PYTHON", "IGNITE_STRATEGY_TEST_VERSION")
_names = itertools.count()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background, where shells ignore Ctrl-C: programs under test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment that says nothing to the code under test."""
    return {
        name: value for name, value in environment.items() if name in _KEPT or not name.startswith(_STRIPPED)
    }


_LONG_FIRST = ("distributed", "packaging", "fuzz", "integration")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take long come first: at the end no process has one of them to itself while the others wait."""
    items.sort(key=lambda item: _order(item.path.parts))


def _order(parts: tuple[str, ...]) -> int:
    return min((at for at, folder in enumerate(_LONG_FIRST) if folder in parts), default=len(_LONG_FIRST))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the developer's shell changes what a test sees."""
    for name in os.environ.keys() - without_ours(os.environ).keys():
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def release_has_it(request: pytest.FixtureRequest) -> None:
    """Skips what the release that ``make test-matrix`` runs on has not got."""
    marker = request.node.get_closest_marker("since")
    version = os.environ.get("IGNITE_STRATEGY_TEST_VERSION")
    if marker and version and _numbers(version) < _numbers(marker.args[0]):
        pytest.skip(f"Apache Ignite {version} has no such operation, {marker.args[0]} has")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """Two real nodes for the whole session; a test that kills or restarts nodes starts its own cluster.

    Each cache of 1024 partitions takes some 12 MB on each node before it has a row, and the tests make many.
    """
    version = os.environ.get("IGNITE_STRATEGY_TEST_VERSION")
    with LocalCluster(nodes=2, data_mb=6144, version=version) as running:
        yield running


@pytest.fixture(scope="session")
def one_node(cluster: LocalCluster) -> str:
    """The address of one real node, ``host:port``."""
    return cluster.addresses[0]


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> str:
    """A cache name that no other test uses."""
    stem = "".join(letter for letter in request.node.name if letter.isalnum())[:30]
    return f"T{next(_names)}_{stem}".upper()


@pytest.fixture(scope="session", autouse=True)
def no_process_left_behind() -> Iterator[None]:
    """Fails the session if it leaves child processes."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    deadline = time.monotonic() + 15
    while True:
        children = psutil.Process().children(recursive=True)
        left = [child for child in children if child.pid not in before and not _is_pythons_own(child)]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert not left, f"processes left behind by the tests: {[_describe(child) for child in left]}"


def _is_pythons_own(process: psutil.Process) -> bool:
    """multiprocessing's resource tracker, which ends with this interpreter."""
    return "multiprocessing.resource_tracker" in _describe(process)


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:120]}"
    except psutil.Error:
        return f"{process.pid} (gone)"
