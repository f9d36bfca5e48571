"""igfs:// with directories of 100,000 entries, and files beyond what 32 bits can tell."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import closing

import fsspec
import numpy as np
import psutil
import pytest

from ignite_strategy import _core
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.local import LocalCluster
from ignite_strategy.settings import parse_endpoint
from tests import binary
from tests.counting import CountingProxy

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.integration
_PUT_ALL, _SCAN, _SCAN_PAGE = 1004, 2000, 2001
_PAGE = 1024  # entries, of native/igfs/store_scan.cc
ENTRIES = 100_000
MIB = 2**20


def _copies(data: bytes, old: bytes, names: list[bytes]) -> list[bytes]:
    """A key of the tree's cache, as binary objects of other names of the same length."""
    start = data.index(old)
    (end,) = struct.unpack_from("<i", data, 20)  # where the schema begins
    found = []
    for name in names:
        key = bytearray(data[:start] + name + data[start + len(old) :])
        struct.pack_into("<I", key, 8, binary.object_hash(key[24:end]))
        found.append(bytes(key))
    return found


def _records(page: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The rows of a scan's first page: keys are objects, wrapped or not, and values are byte arrays."""
    (rows,) = struct.unpack_from("<i", page, 8)
    at = 12
    for _ in range(rows):
        wrapped = page[at] == 27
        at += 5 if wrapped else 0
        end = at + struct.unpack_from("<i", page, at + 12)[0]
        key, at = page[at:end], end + (4 if wrapped else 0)
        end = at + 5 + struct.unpack_from("<i", page, at + 1)[0]
        yield key, page[at:end]
        at = end


def _fill(address: str, name: str, template: str) -> list[str]:
    """Copies a file's record until there are 100,000 of them; their names are as long as its."""
    cache = struct.pack("<iB", _core.java_hash(f"igfs-{name}-tree"), 0)
    names = [f"{number:0{len(template)}d}" for number in range(ENTRIES)]
    with closing(_core.Connection(*parse_endpoint(address))) as connection:
        page = connection.call(_SCAN, cache + binary.NULL + struct.pack("<iiB", 1000, -1, 0), "scanning")
        ((key, value),) = (each for each in _records(page) if template.encode() in each[0])
        for first in range(0, ENTRIES, 5000):
            keys = _copies(key, template.encode(), [each.encode() for each in names[first : first + 5000]])
            pairs = b"".join(each + value for each in keys)
            connection.call(_PUT_ALL, cache + struct.pack("<i", len(keys)) + pairs, "filling")
    return names


@pytest.fixture(scope="module")
def names(one_node: str) -> list[str]:
    files = FileSystem(*parse_endpoint(one_node), "many")
    files.makedirs("/many/few")
    files.write("/many/template", b"")
    return sorted([*_fill(one_node, "many", "template"), "few", "template"])


@pytest.fixture(scope="module")
def large_node() -> Iterator[str]:
    available = psutil.virtual_memory().available / MIB
    if available < 10_000:
        pytest.skip(f"a file beyond 5 GiB needs 10,000 MiB of memory; {available:,.0f} are available")
    with LocalCluster(nodes=1, heap_mb=768, data_mb=7168) as cluster:
        yield cluster.addresses[0]


class TestManyEntries:
    """A directory of 100,000 entries, written past this package because that takes seconds."""

    def test_is_listed_in_pages(self, one_node: str, names: list[str]) -> None:
        with CountingProxy(one_node) as proxy:
            files = FileSystem(proxy.host, proxy.port, "many")
            assert [entry.name for entry in files.list("/many")] == names
            assert ENTRIES // _PAGE <= proxy.requests[_SCAN] + proxy.requests[_SCAN_PAGE] <= 400

    def test_every_other_way_to_list_it(self, one_node: str, names: list[str]) -> None:
        uri = f"igfs://many@{one_node}/many"
        assert sorted(name.rstrip("/") for name in tf.io.gfile.listdir(uri)) == names
        assert len(tf.io.gfile.glob(f"{uri}/000123*")) == 100
        host, port = parse_endpoint(one_node)
        listed = fsspec.filesystem("igfs", host=host, port=port, name="many").ls("/many", detail=False)
        assert sorted(path.rpartition("/")[2] for path in listed) == names

    def test_one_of_them_is_found_without_a_look_at_the_others(self, one_node: str, names: list[str]) -> None:
        with CountingProxy(one_node) as proxy:
            files = FileSystem(proxy.host, proxy.port, "many")
            assert files.stat("/many/00077777").size == 0
            files.write("/many/00077777", b"7")
            files.rename("/many/00077777", "/many/00177777")
            files.write("/many/00077777", b"")
            files.remove("/many/00177777")
            assert proxy.requests[_SCAN] == 0
            assert sum(proxy.requests.values()) < 100

    def test_is_removed_as_a_whole(self, one_node: str, names: list[str]) -> None:
        files = FileSystem(*parse_endpoint(one_node), "many")
        files.rename("/many", "/other")
        begin = time.monotonic()
        files.remove("/other", recursive=True)
        assert time.monotonic() - begin < 60
        assert files.list("/") == []
        usage = files.usage()
        assert (usage.files, usage.directories) == (0, 0), usage


class TestBeyondFourGibibytes:
    """One file of 5.25 GiB. Each 8 bytes say where they are."""

    SIZE = 5 * 1024 * MIB + 256 * MIB
    PIECE = 16 * MIB

    def words(self, start: int, size: int) -> bytes:
        first = start // 8
        whole = np.arange(first, -(-(start + size) // 8), dtype="<i8").tobytes()
        return whole[start - 8 * first :][:size]

    @pytest.mark.timeout(300)
    def test_is_written_read_and_extended(self, large_node: str) -> None:
        files = FileSystem(*parse_endpoint(large_node), "large")
        with files.open("/large", "wb") as out:
            for start in range(0, self.SIZE, self.PIECE):
                out.write(self.words(start, self.PIECE))
        assert files.stat("/large").size == self.SIZE
        with files.open("/large", "ab") as out:
            out.write(self.words(self.SIZE, 1000))
        files.rename("/large", "/extended")
        size = self.SIZE + 1000
        with files.open("/extended") as source:
            start = 0
            while piece := source.read(self.PIECE):
                assert piece == self.words(start, len(piece)), start
                start += len(piece)
            assert start == size
            for start in (2**31 - 3, 2**32 - 5, 2**32 + 1, 5 * 2**30 + 7, size - 100):
                source.seek(start)
                assert source.read(99) == self.words(start, 99)

    def test_through_tensorflow(self, large_node: str) -> None:
        uri = f"igfs://large@{large_node}/extended"
        assert tf.io.gfile.stat(uri).length == self.SIZE + 1000
        with tf.io.gfile.GFile(uri, "rb") as source:
            for start in (2**31 - 3, 2**32 - 5, 5 * 2**30 + 7, self.SIZE - 1):
                source.seek(start)
                assert source.read(2 * MIB) == self.words(start, 2 * MIB)[: self.SIZE + 1000 - start]

    def test_its_memory_is_freed(self, large_node: str) -> None:
        files = FileSystem(*parse_endpoint(large_node), "large")
        files.remove("/extended")
        files.check(repair=True, offline=True)
        assert files.usage().stored_blocks == 0
