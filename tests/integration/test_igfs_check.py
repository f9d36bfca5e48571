"""fsck and df: what is wrong with a file system is found, and set right."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from uuid import UUID

import pytest
from typer.testing import CliRunner

from ignite_strategy.cli.root import app
from ignite_strategy.errors import DataLossError
from ignite_strategy.filesystem import FileSystem, Report
from ignite_strategy.runtime.janitor import Janitor
from ignite_strategy.settings import parse_endpoint
from tests import binary
from tests.integration.test_igfs_publishing import blocks, eventually, line, process
from tests.raw import RawClient

pytestmark = pytest.mark.integration
BLOCK = 524_288
ROOT = 1
KEY_TYPE = "ignite_strategy.igfs.EntryKey"
HEADER, DIRECTORY, DOOMED = 3, 4, 8


@pytest.fixture
def name(fresh_name: str) -> str:
    return fresh_name[:40]


@pytest.fixture
def files(one_node: str, name: str) -> FileSystem:
    files = FileSystem(*parse_endpoint(one_node), name)
    files.makedirs("/runs/1")
    files.write("/runs/1/small", b"small")
    files.write("/runs/1/big", bytes(range(256)) * 8 * 1024)  # four blocks
    files.write("/runs/empty", b"")
    return files


@pytest.fixture
def stored(one_node: str, name: str, files: FileSystem) -> Iterator[object]:
    """The cache of blocks, by content and number, for whoever wants to damage it."""
    from ignite_strategy.topology.caches import connect

    with closing(connect(one_node)) as client:
        yield client.get_cache(f"igfs-{name}-blocks")


def put(
    raw: RawClient, name: str, parent: int, entry: str, kind: int, identity: int = 0, version: int = 1
) -> None:
    """A record of the tree as this package never writes it there."""
    key = binary.binary_object(KEY_TYPE, {"parent": binary.i64(parent), "name": binary.text(entry)})
    record = struct.pack("<BBqq", version, kind, identity, 0)
    raw.put(f"igfs-{name}-tree", key, struct.pack("<bi", 12, len(record)) + record)


def remove_block(stored: object, number: int, least: int = BLOCK) -> None:
    """The block with this number of the only file that has blocks of ``least`` bytes."""
    for key, value in stored.scan():  # type: ignore[attr-defined]
        if len(value) >= least and key.int & 0xFFFF == number:
            stored.remove_key(key)  # type: ignore[attr-defined]
            return
    raise AssertionError("no such block")


def whats(report: Report) -> list[tuple[str, str]]:
    return [(finding.path, finding.what) for finding in report.findings]


def test_a_sound_file_system(files: FileSystem) -> None:
    steps: list[str] = []
    report = files.check(progress=lambda step, done, whole: steps.append(f"{step} {done}/{whole}"))
    assert report.sound
    assert report.found == 0
    usage = report.usage
    assert (usage.files, usage.directories, usage.bytes, usage.stored_blocks) == (3, 2, 5 + 4 * BLOCK, 5)
    assert usage == files.usage()
    assert "looking for the blocks of files 3/3" in steps
    again = files.check(repair=True, offline=True)
    assert (again.sound, again.collected_blocks, again.usage) == (True, 0, usage)


def test_one_that_does_not_exist(one_node: str, name: str) -> None:
    report = FileSystem(*parse_endpoint(one_node), name).check(repair=True, offline=True)
    assert (report.sound, report.usage.files, report.usage.stored_blocks) == (True, 0, 0)


@pytest.mark.parametrize(("number", "kept"), [(0, 0), (2, 2 * BLOCK)])
def test_a_file_whose_block_is_gone(files: FileSystem, stored: object, number: int, kept: int) -> None:
    remove_block(stored, number)
    found = files.check()
    assert not found.sound
    assert whats(found) == [
        ("/runs/1/big", f"is not whole: 1 block of its {4 * BLOCK} bytes is gone or too short")
    ]
    assert files.exists("/runs/1/big")

    repaired = files.check(repair=True)
    assert repaired.sound
    assert repaired.findings[0].repair.startswith(f"its first {kept} bytes are now /lost+found/big-")
    assert not files.exists("/runs/1/big")
    (rest,) = files.list("/lost+found")
    content = files.read(f"/lost+found/{rest.name}")
    assert content == (bytes(range(256)) * 8 * 1024)[:kept]
    assert files.check().sound
    # The blocks behind the gap are nobody's.
    final = files.check(repair=True, offline=True)
    assert final.sound
    assert final.usage.stored_blocks == 1 + kept // BLOCK


def test_a_last_block_that_is_too_short(files: FileSystem, stored: object) -> None:
    for key, value in list(stored.scan()):  # type: ignore[attr-defined]
        if bytes(value) == b"small":
            stored.put(key, b"sma")  # type: ignore[attr-defined]
    assert whats(files.check()) == [
        ("/runs/1/small", "is not whole: 1 block of its 5 bytes is gone or too short")
    ]


def test_blocks_of_no_file(files: FileSystem, stored: object, one_node: str, name: str) -> None:
    for number in range(3):
        stored.put(UUID(int=77 << 64 | number), b"orphan")  # type: ignore[attr-defined]
    online = files.check(repair=True)
    assert not online.sound  # others may be about to publish them
    assert "has 3 blocks that no file refers to" in str(online.findings[0])
    assert blocks(one_node, name) == 8
    offline = files.check(repair=True, offline=True)
    assert (offline.sound, offline.collected_blocks) == (True, 3)
    assert blocks(one_node, name) == 5
    assert len(files.read("/runs/1/big")) == 4 * BLOCK


def test_what_a_dead_writer_and_a_removed_tree_leave(files: FileSystem, one_node: str, name: str) -> None:
    code = """
files.remove("/runs/1", recursive=True)
out = files.open("/dead", "wb")
out.write(bytes(3_000_000))
print("written", flush=True)
import time; time.sleep(60)
"""
    with process(code, one_node, name) as child:
        assert line(child) == "written"
    eventually(lambda: files.usage().writers == 1)
    usage = files.usage()
    assert (usage.files, usage.directories, usage.trash_blocks) == (1, 1, 5)
    online = files.check(repair=True)
    assert (online.sound, online.collected_blocks) == (True, 0)  # it may be alive, and readers may read on
    offline = files.check(repair=True, offline=True)
    assert offline.sound
    assert offline.collected_blocks >= 10
    assert (blocks(one_node, name), files.usage().writers) == (0, 0)


def test_names_that_no_listing_shows(files: FileSystem, one_node: str, name: str) -> None:
    with closing(RawClient(one_node)) as raw:
        for number, entry in enumerate(("../../etc", "..", "a/b", "x\0y")):
            put(raw, name, ROOT, entry, DIRECTORY, 5000 + number)
            put(raw, name, 5000 + number, "", HEADER)
    assert [entry.name for entry in files.list("/")] == ["runs"]
    found = files.check()
    assert sorted(whats(found)) == [
        (path, "has a name that is not allowed: no listing shows it")
        for path in ("/..", "/.._.._etc", "/a_b", "/x_y")
    ]
    assert files.check(repair=True).sound
    moved = files.list("/lost+found")
    assert len(moved) == 4
    assert all(entry.is_directory and entry.name.startswith("entry-") for entry in moved)
    assert files.check().sound


def test_directories_that_are_lost(files: FileSystem, one_node: str, name: str) -> None:
    with closing(RawClient(one_node)) as raw:
        put(raw, name, ROOT, "bare", DIRECTORY, 6000)  # has lost its own record
        put(raw, name, 7000, "", HEADER)  # has lost its name
        put(raw, name, 7000, "inside", DIRECTORY, 7001)
        put(raw, name, 7001, "", HEADER)
    found = whats(files.check())
    assert ("/bare", "is a directory that has lost its own record") in found
    assert (
        "directory-0000000000001b58",
        "has no name any more, with 1 file in it, or is just being moved",
    ) in found
    assert len(found) == 2
    repaired = files.check(repair=True, offline=True)
    assert repaired.sound
    files.write("/bare/file", b"works again")
    assert [entry.name for entry in files.list("/lost+found/directory-0000000000001b58")] == ["inside"]
    assert files.check().sound


def test_a_removal_that_was_interrupted(files: FileSystem, one_node: str, name: str) -> None:
    with closing(RawClient(one_node)) as raw:
        put(raw, name, ROOT, "\0x" + f"{8000:016x}", DOOMED, 8000)
        put(raw, name, 8000, "", HEADER)
        put(raw, name, 8000, "below", DIRECTORY, 8001)
        put(raw, name, 8001, "", HEADER)
    found = files.check()
    assert "whoever removed it was interrupted" in str(found.findings[0])
    assert files.check(repair=True).sound
    assert files.check().found == 0


def test_what_is_due_is_freed_by_agents(one_node: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory is removed by a process that ends at once, and nobody lists that directory any more."""
    monkeypatch.setenv("IGFS_GRACE_SECONDS", "1")
    watcher = FileSystem(*parse_endpoint(one_node), name)
    watcher.makedirs("/gone/below")
    watcher.write("/gone/below/file", b"1234567")
    with process('files.remove("/gone", recursive=True)\nprint("removed")', one_node, name) as child:
        assert line(child) == "removed"
    assert blocks(one_node, name) == 1
    with closing(RawClient(one_node)) as raw:
        for i in range(4):  # what cannot be read is no reason to leave the others alone
            FileSystem(*parse_endpoint(one_node), f"{name}{i}").makedirs("/a")
            put(raw, f"{name}{i}", ROOT, "newer", HEADER, version=99)
            with pytest.raises(DataLossError):
                FileSystem(*parse_endpoint(one_node), f"{name}{i}").tend()

    with Janitor(parse_endpoint(one_node), every=0.2):
        eventually(lambda: blocks(one_node, name) == 0)


def shell(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["fs", *arguments])
    return done.exit_code, done.output


def test_from_the_shell(files: FileSystem, stored: object, one_node: str, name: str) -> None:
    url = f"igfs://{name}@{one_node}/"
    code, output = shell("df", url)
    assert code == 0
    assert "3 files, 2 directories, 2,097,157 bytes in 5 blocks" in output
    lines = output.strip().splitlines()
    assert lines[1].split()[:3] == ["node", "memory", "MB"]
    assert len(lines) == 4  # two nodes
    for row in lines[2:]:
        size, used, free = (int(number.replace(",", "")) for number in row.split()[1:4])
        assert size == 6442
        assert 0 < used < size
        assert abs(size - used - free) <= 1
    assert one_node in output
    code, output = shell("fsck", url)
    assert code == 0
    assert output.splitlines()[-1].endswith("5 blocks; 0 faults, 0 blocks freed")
    remove_block(stored, 3)
    code, output = shell("fsck", url)
    assert code == 1
    assert "/runs/1/big is not whole" in output
    code, output = shell("fsck", "--repair", "--offline", url)
    assert code == 0
    assert "0 faults" not in output
    assert shell("fsck", url)[0] == 0
