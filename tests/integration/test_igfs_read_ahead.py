"""Long reads in order: a thread fetches what comes next. What is read is what is there, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ignite_strategy.errors import DataLossError
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.settings import parse_endpoint
from ignite_strategy.topology import caches
from tests.relay import Relay

pytestmark = pytest.mark.integration
BLOCK = 16_384
COUNT = 80
CONTENT = random.Random(1).randbytes(COUNT * BLOCK + 1000)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IGFS_BLOCK_SIZE", str(BLOCK))


@pytest.fixture
def relay(one_node: str) -> Iterator[Relay]:
    running = Relay(parse_endpoint(one_node))
    yield running
    running.close()


@pytest.fixture
def files(relay: Relay, fresh_name: str) -> FileSystem:
    found = FileSystem("127.0.0.1", relay.port, fresh_name.lower())
    found.write("/f", CONTENT)
    return found


class File:
    """An open file without Python's own buffer."""

    def __init__(self, files: FileSystem) -> None:
        self.raw: Any = files._native.open_read("/f")
        self.at = 0

    def read(self, size: int) -> bytes:
        data = bytes(self.raw.read_at(self.at, size))
        self.at += len(data)
        return data

    def read_blocks(self, count: int) -> bytes:
        """Block by block, for a large read needs no thread."""
        return b"".join(self.read(BLOCK) for _ in range(count))

    def read_all(self, size: int) -> bytes:
        pieces = []
        while piece := self.read(size):
            pieces.append(piece)
        return b"".join(pieces)


@pytest.mark.parametrize("size", [777, BLOCK // 2, BLOCK, 3 * BLOCK + 7, 50 * BLOCK])
def test_all_of_it_in_pieces(files: FileSystem, size: int) -> None:
    assert File(files).read_all(size) == CONTENT


def test_each_block_is_asked_for_once(files: FileSystem, relay: Relay) -> None:
    before = relay.answered
    assert File(files).read_all(5_000) == CONTENT
    assert relay.answered - before < len(CONTENT) + COUNT * 60 + 5_000


def test_jumps_in_between(files: FileSystem) -> None:
    chance = random.Random(2)
    source = File(files)
    for _ in range(60):
        source.at = at = chance.randrange(len(CONTENT))
        for _ in range(chance.choice([1, 3, 30])):
            size = chance.choice([100, BLOCK, 2 * BLOCK])
            assert source.read(size) == CONTENT[at : at + size]
            at = min(at + size, len(CONTENT))


def test_what_is_fetched_ahead_is_bounded(files: FileSystem, relay: Relay) -> None:
    source = File(files)
    begun = relay.answered
    source.read_blocks(21)
    time.sleep(0.5)
    before = relay.answered
    assert before - begun < (21 + 9) * BLOCK
    time.sleep(0.5)
    assert relay.answered == before  # nobody takes, nobody asks


def test_a_reader_that_pauses_goes_on(files: FileSystem) -> None:
    source = File(files)
    assert source.read_blocks(21) == CONTENT[: 21 * BLOCK]
    threads = len(os.listdir("/proc/self/task"))
    time.sleep(6)
    assert len(os.listdir("/proc/self/task")) < threads  # it has gone
    assert source.read_all(BLOCK) == CONTENT[21 * BLOCK :]


@pytest.mark.parametrize("after", [0, 100, BLOCK, 5 * BLOCK + 7, 30 * BLOCK])
def test_a_connection_that_breaks(files: FileSystem, relay: Relay, after: int) -> None:
    source = File(files)
    head = source.read_blocks(12)
    relay.cut_after(after)
    assert head + source.read_all(BLOCK) == CONTENT


def test_a_file_that_grows(files: FileSystem) -> None:
    source = File(files)
    head = source.read_blocks(20)
    with files.open("/f", "ab") as out:
        out.write(CONTENT)
    assert head + source.read_all(10_000) == CONTENT + CONTENT


def test_many_threads_share_one_file(files: FileSystem) -> None:
    failures: list[BaseException] = []
    raw = File(files).raw

    def work(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for _ in range(5):
                for at in range(chance.randrange(20 * BLOCK), len(CONTENT), BLOCK):
                    assert bytes(raw.read_at(at, BLOCK)) == CONTENT[at : at + BLOCK]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures


def test_a_child_process_goes_on_with_an_open_file(files: FileSystem) -> None:
    source = File(files)
    head = source.read_blocks(20)
    for _ in range(3):
        pid = os.fork()  # the thread stays in the parent, and may hold its lock just now
        if pid == 0:
            with contextlib.suppress(BaseException):
                rest = CONTENT[source.at :]
                os._exit(source.read_all(BLOCK) != rest)
            os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
        head += source.read(BLOCK)
    assert head + source.read_all(BLOCK) == CONTENT


def test_a_block_that_is_gone_is_named(files: FileSystem, one_node: str, fresh_name: str) -> None:
    with contextlib.closing(caches.connect([one_node])) as client:
        cache = client.get_cache(f"igfs-{fresh_name.lower()}-blocks")
        (key,) = [key for key, _ in cache.scan() if key.int & 0xFFFF == 40]
        cache.remove_key(key)
    source = File(files)
    assert source.read_blocks(40) == CONTENT[: 40 * BLOCK]
    for _ in range(2):
        with pytest.raises(DataLossError, match=r"/f: block 40 of 16384 bytes is missing"):
            source.read(BLOCK)


def test_a_silent_node_does_not_keep_a_file_from_closing(files: FileSystem, relay: Relay) -> None:
    source = File(files)
    source.read_blocks(20)
    time.sleep(0.5)  # for the next blocks to arrive
    relay.passing.clear()
    source.read(BLOCK)
    begun = time.monotonic()
    del source
    assert time.monotonic() - begun < 1
    relay.passing.set()
