"""A node is lost while files are written, renamed, or just lie there: with a backup nothing published is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from ignite_strategy import settings
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.local import LocalCluster
from ignite_strategy.local.node import LocalNode
from ignite_strategy.settings import parse_endpoints
from ignite_strategy.topology.caches import connect, partition_map

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
MIB = 2**20
CONTENT = bytes(range(256)) * 4096  # 1 MiB


@pytest.fixture(scope="module")
def two() -> Iterator[LocalCluster]:
    with (
        LocalCluster(nodes=2, heap_mb=384, data_mb=512) as cluster,
        settings.use_default_endpoints(parse_endpoints(cluster.addresses)),
    ):
        yield cluster


@pytest.fixture
def lose(two: LocalCluster) -> Iterator[Callable[[int], None]]:
    """Kills a node; it is there again, with its share of the data, before the next test."""
    lost: list[LocalNode] = []

    def kill(index: int) -> None:
        lost.append(two.nodes[index])
        two.nodes[index].kill()

    yield kill
    for node in lost:
        node.restart()
        _wait_until_it_has_its_share(two, node)


def _wait_until_it_has_its_share(two: LocalCluster, node: LocalNode) -> None:
    """A node that has joined is primary for nothing until it has the data."""
    deadline = time.monotonic() + 60
    with closing(connect(two.addresses)) as client:
        for cache in ("igfs-lost-tree", "igfs-lost-blocks"):
            while not partition_map(client, cache).get(node.node_id):
                assert time.monotonic() < deadline, f"{node} never had its share of {cache}"
                time.sleep(0.2)


@pytest.fixture
def files(two: LocalCluster) -> FileSystem:
    return FileSystem(name="lost")


@pytest.mark.parametrize("index", [0, 1])
def test_while_idle(files: FileSystem, lose: Callable[[int], None], index: int) -> None:
    files.makedirs(f"/idle{index}")
    for number in range(20):
        files.write(f"/idle{index}/{number}", CONTENT[number:])
    lose(index)
    assert len(files.list(f"/idle{index}")) == 20
    for number in range(20):
        assert files.read(f"/idle{index}/{number}") == CONTENT[number:]
    files.write(f"/idle{index}/0", b"and it goes on")
    assert FileSystem(name="lost").read(f"/idle{index}/0") == b"and it goes on"


@pytest.mark.parametrize("index", [0, 1])
def test_while_a_file_is_written(files: FileSystem, lose: Callable[[int], None], index: int) -> None:
    files.makedirs("/write")
    with files.open(f"/write/{index}", "wb") as out:
        for number in range(64):
            out.write(CONTENT)
            if number == 20:
                out.flush()  # published
                thread = threading.Thread(target=lose, args=[index])
                thread.start()
    thread.join(30)
    assert files.read(f"/write/{index}") == CONTENT * 64
    assert FileSystem(name="lost").read(f"/write/{index}") == CONTENT * 64


@pytest.mark.parametrize("index", [0, 1])
def test_while_files_are_renamed(files: FileSystem, lose: Callable[[int], None], index: int) -> None:
    """As checkpoints are: what a reader finds under the name is always one whole version."""
    files.makedirs(f"/rename{index}/d0")
    files.write(f"/rename{index}/current", b"0" * 1000)
    wrong: list[bytes] = []
    done = threading.Event()

    def look() -> None:
        mine = FileSystem(name="lost")
        while not done.is_set():
            content = mine.read(f"/rename{index}/current")
            if len(content) != 1000 or len(set(content)) != 1:
                wrong.append(content)

    reader = threading.Thread(target=look)
    reader.start()
    killer = threading.Timer(0.5, lose, args=[index])
    killer.start()
    try:
        begin, versions = time.monotonic(), 0
        while time.monotonic() - begin < 6:
            versions += 1
            files.write(f"/rename{index}/new", bytes([versions % 256]) * 1000)
            files.rename(f"/rename{index}/new", f"/rename{index}/current")
            files.rename(f"/rename{index}/d{versions - 1}", f"/rename{index}/d{versions}")
    finally:
        done.set()
        killer.join(30)
        reader.join(60)
    assert not reader.is_alive()
    assert wrong == []
    assert versions > 5
    assert files.read(f"/rename{index}/current") == bytes([versions % 256]) * 1000
    assert [entry.name for entry in files.list(f"/rename{index}")] == ["current", f"d{versions}"]
    report = files.check()
    assert not [each for each in report.findings if "rename" in each.path], report
