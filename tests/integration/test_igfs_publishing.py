"""What other processes see of a file that is being written, renamed, replaced or removed, and what dead ones leave."""

from __future__ import annotations

import contextlib
import itertools
import random
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ignite_strategy import _core
from ignite_strategy.errors import (
    AlreadyExistsError,
    IgniteStrategyError,
    NotFoundError,
    PreconditionError,
)
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.settings import parse_endpoint

pytestmark = pytest.mark.integration
BLOCK = 524_288
_names = itertools.count()


@pytest.fixture
def name() -> str:
    return f"publish{next(_names)}"


@pytest.fixture
def files(one_node: str, name: str) -> FileSystem:
    """A file system of its own, because the tests count blocks."""
    return FileSystem(*parse_endpoint(one_node), name)


def blocks(one_node: str, name: str) -> int:
    """How many blocks the cluster holds for a file system."""
    with _core.Connection(*parse_endpoint(one_node)) as connection:
        cache = _core.java_hash(f"igfs-{name}-blocks")
        return struct.unpack("<q", connection.call(1020, struct.pack("<iBi", cache, 0, 0), "counting"))[0]


def eventually(check: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@contextlib.contextmanager
def process(code: str, one_node: str, name: str) -> Iterator[subprocess.Popen[str]]:
    """Runs ``code`` with ``files`` in a new process; it ends with the block, killed if need be."""
    host, port = parse_endpoint(one_node)
    head = (
        f"from ignite_strategy.filesystem import FileSystem\nfiles = FileSystem({host!r}, {port}, {name!r})\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", head + code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=10)


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


# --- dead writers -----------------------------------------------------------------------------------------------------


def test_a_killed_writer_leaves_what_it_published_and_nothing_else(
    one_node: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IGFS_WRITER_LEASE_SECONDS", "1")
    monkeypatch.setenv("IGFS_GRACE_SECONDS", "1")
    files = FileSystem(*parse_endpoint(one_node), name)
    files.write("/old", b"o" * BLOCK)
    code = f"""
new, grown, old, old2 = [files.open(path, "wb") for path in ("/new", "/grown", "/old", "/unflushed")]
for out in (new, old, old2):
    out.write(b"x" * {6 * BLOCK + 5})
grown.write(b"1" * {BLOCK + 5})
grown.flush()
grown.write(b"2" * {3 * BLOCK})
print("ready", flush=True)
input()
"""
    with process(code, one_node, name) as child:
        assert line(child) == "ready"
        assert blocks(one_node, name) > 10
        assert [(entry.name, entry.size) for entry in files.list("/")] == [
            ("grown", BLOCK + 5),
            ("old", BLOCK),
        ]
        child.kill()
        child.wait(10)
    assert files.read("/grown") == b"1" * (BLOCK + 5)
    assert files.read("/old") == b"o" * BLOCK

    def collected() -> bool:
        files.list("/")  # collecting rides on ordinary calls
        return blocks(one_node, name) == 3  # two of grown, one of old

    eventually(collected)
    assert files.read("/grown") == b"1" * (BLOCK + 5)
    assert files.read("/old") == b"o" * BLOCK


def test_a_killed_append_leaves_the_file_as_it_was(files: FileSystem, one_node: str, name: str) -> None:
    files.write("/f", b"1" * (BLOCK + 100))
    code = f'out = files.open("/f", "ab"); out.write(b"2" * {2 * BLOCK}); print("ready", flush=True); input()'
    with process(code, one_node, name) as child:
        assert line(child) == "ready"
        assert files.read("/f") == b"1" * (BLOCK + 100)
        child.kill()
        child.wait(10)
    with files.open("/f", "ab") as out:
        out.write(b"3")
    assert files.read("/f") == b"1" * (BLOCK + 100) + b"3"


def test_a_writer_taken_for_dead_publishes_nothing_more(
    one_node: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IGFS_WRITER_LEASE_SECONDS", "1")
    monkeypatch.setenv("IGFS_GRACE_SECONDS", "0")
    files = FileSystem(*parse_endpoint(one_node), name)
    out = files.open("/f", "wb")
    out.write(b"1" * 3 * BLOCK)
    out.flush()
    out.write(b"2" * 3 * BLOCK)

    def collected() -> bool:
        files.list("/")
        return blocks(one_node, name) == 3

    eventually(collected)
    with pytest.raises(PreconditionError, match="IGFS_WRITER_LEASE_SECONDS"):
        out.close()
    assert files.read("/f") == b"1" * 3 * BLOCK


def test_old_content_is_freed_after_the_grace_time(
    one_node: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IGFS_GRACE_SECONDS", "1")
    files = FileSystem(*parse_endpoint(one_node), name)
    files.makedirs("/d/e")
    for path in ("/f", "/d/g", "/d/e/h", "/i"):
        files.write(path, b"1" * 4 * BLOCK)
    source = files.open("/f")
    assert source.read(10) == b"1" * 10
    files.write("/f", b"2")
    files.remove("/d", recursive=True)
    files.rename("/f", "/i")
    files.write("/small", b"")

    def collected() -> bool:
        files.list("/")
        return blocks(one_node, name) == 1

    eventually(collected)
    source.seek(3 * BLOCK)
    with pytest.raises(PreconditionError, match="IGFS_GRACE_SECONDS"):
        source.read(2 * BLOCK)
    assert files.read("/i") == b"2"


# --- living writers ---------------------------------------------------------------------------------------------------


def test_another_process_reads_what_was_flushed(files: FileSystem, one_node: str, name: str) -> None:
    """TensorBoard shows nothing until training ended (tensorflow/tensorflow #14084, #33595; BR-28)."""
    code = """
import sys
for line in sys.stdin:
    print(len(files.read("/events")), flush=True)
"""
    with process(code, one_node, name) as child, files.open("/events", "wb") as out:
        for length in (3, 6, 9):
            out.write(b"abc")
            out.flush()
            child.stdin.write("\n")
            assert line(child) == str(length)


def test_a_reader_at_the_end_goes_on_when_the_file_grows(files: FileSystem) -> None:
    with files.open("/f", "wb") as out:
        out.write(b"1" * BLOCK)
        out.flush()
        source = files.open("/f")
        assert source.read() == b"1" * BLOCK
        assert source.read() == b""
        out.write(b"2" * BLOCK + b"3")
        out.flush()
        assert source.read() == b"2" * BLOCK + b"3"


def test_of_two_appending_writers_one_is_told(files: FileSystem) -> None:
    files.write("/f", b"1")
    first, second = files.open("/f", "ab"), files.open("/f", "ab")
    first.write(b"2")
    second.write(b"3" * 2 * BLOCK)
    first.flush()
    with pytest.raises(PreconditionError, match="changed by another writer"):
        second.flush()
    with pytest.raises(PreconditionError, match="changed by another writer"):
        second.close()
    first.write(b"4")
    first.close()
    assert files.read("/f") == b"124"


@pytest.mark.parametrize("how", ["removed", "renamed", "replaced"])
def test_a_writer_whose_file_is_gone_brings_nothing_back(files: FileSystem, how: str) -> None:
    files.mkdir("/d")
    out = files.open("/d/f", "wb")
    out.write(b"1")
    out.flush()
    if how == "removed":
        files.remove("/d/f")
    elif how == "renamed":
        files.rename("/d/f", "/d/g")
    else:
        files.write("/d/f", b"other")
    out.write(b"2")
    with pytest.raises(PreconditionError, match="while it was being written"):
        out.flush()
    with pytest.raises(PreconditionError):
        out.close()
    assert {entry.name: files.read(f"/d/{entry.name}") for entry in files.list("/d")} == {
        "removed": {},
        "renamed": {"g": b"1"},
        "replaced": {"f": b"other"},
    }[how]


def test_a_file_is_published_where_its_directory_has_gone(files: FileSystem) -> None:
    files.makedirs("/a/b")
    out = files.open("/a/b/f", "wb")
    out.write(b"1")
    files.rename("/a", "/c")
    out.close()
    assert files.read("/c/b/f") == b"1"
    out = files.open("/c/b/g", "wb")
    out.write(b"1")
    files.remove("/c", recursive=True)
    with pytest.raises(NotFoundError):
        out.close()


def test_exclusive_creation(files: FileSystem) -> None:
    first, second = files.open("/f", "xb"), files.open("/f", "xb")
    first.write(b"1")
    first.close()
    with pytest.raises(PreconditionError):
        second.close()
    with pytest.raises(AlreadyExistsError):
        files.open("/f", "xb")
    assert files.read("/f") == b"1"


def test_a_failing_block_of_code_publishes_nothing_more(files: FileSystem, one_node: str, name: str) -> None:
    with contextlib.suppress(ZeroDivisionError), files.open("/f", "wb") as out:
        out.write(b"1" * 5 * BLOCK)
        raise ZeroDivisionError
    assert not files.exists("/f")
    assert blocks(one_node, name) == 0


# --- several at once --------------------------------------------------------------------------------------------------


def run_all(seconds: float, *workers: Callable[[], None]) -> None:
    """Runs each worker again and again in its own thread; the first exception of any is raised."""
    problems: list[BaseException] = []
    deadline = time.monotonic() + seconds

    def loop(worker: Callable[[], None]) -> None:
        while time.monotonic() < deadline and not problems:
            try:
                worker()
            except BaseException as error:
                problems.append(error)

    threads = [threading.Thread(target=loop, args=[worker]) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 60)
    if problems:
        raise problems[0]


def test_a_file_replaced_by_rename_is_always_there_and_whole(files: FileSystem) -> None:
    size = 2 * BLOCK + 10
    files.write("/latest", b"\0" * size)
    counters = {side: itertools.count() for side in "ab"}

    def replace(side: str) -> None:
        files.write(f"/tmp-{side}", bytes([next(counters[side]) % 256]) * size)
        files.rename(f"/tmp-{side}", "/latest")

    def look() -> None:
        content = files.read("/latest")
        assert content == content[:1] * size

    def look_by_name() -> None:
        assert "latest" in [entry.name for entry in files.list("/")]

    run_all(4, lambda: replace("a"), lambda: replace("b"), look, look, look_by_name)
    assert next(counters["a"]) > 5


def test_a_directory_is_renamed_whole(files: FileSystem) -> None:
    files.makedirs("/a/deep/er")
    for number in range(3):
        files.write(f"/a/deep/er/{number}", b"1")
    files.makedirs("/b")

    def move(source: str, target: str) -> None:
        files.rename(source, target)
        assert not files.exists(source)
        assert files.exists(f"{target}/deep/er/2")

    def look() -> None:
        for path in ("/a/deep/er", "/b/a/deep/er"):
            with contextlib.suppress(NotFoundError):
                assert [entry.name for entry in files.list(path)] == ["0", "1", "2"]

    def move_and_back() -> None:
        move("/a", "/b/a")
        move("/b/a", "/a")

    run_all(3, move_and_back, look, look)


def test_directories_moved_into_each_other_make_no_cycle(files: FileSystem) -> None:
    files.makedirs("/a/x")
    files.makedirs("/b/y")

    def move(source: str, target: str, back: str) -> None:
        with contextlib.suppress(IgniteStrategyError):
            files.rename(source, target)
            files.rename(target, back)

    run_all(4, lambda: move("/a", "/b/y/a", "/a"), lambda: move("/b", "/a/x/b", "/b"))
    found = set()

    def walk(path: str, depth: int) -> None:
        assert depth < 6
        for entry in files.list(path):
            found.add(entry.name)
            walk(f"{path}/{entry.name}", depth + 1)

    walk("", 0)
    assert found == {"a", "b", "x", "y"}  # nothing was cut off from the root


def test_a_directory_is_removed_only_while_it_is_empty(files: FileSystem) -> None:
    done: list[int] = []

    def create(number: int) -> None:
        path = f"/d/{number}"
        try:
            files.makedirs("/d")
            files.write(path, b"1")
        except (NotFoundError, AlreadyExistsError):
            return  # the directory went before the file came
        assert files.read(path) == b"1"
        done.append(number)
        files.remove(path)

    def remove() -> None:
        with contextlib.suppress(NotFoundError, PreconditionError):
            files.remove("/d")
        time.sleep(random.uniform(0, 0.005))

    for _ in range(10):  # on a busy machine the directory may go each time before the file comes
        run_all(4, lambda: create(1), lambda: create(2), remove, remove)
        if len(done) > 5:
            break
    assert len(done) > 5


def test_many_writers_in_one_directory(files: FileSystem, one_node: str, name: str) -> None:
    counters = {number: itertools.count() for number in range(4)}

    def create(number: int) -> None:
        files.write(f"/{number}-{next(counters[number])}", b"%d" % number)

    code = "for i in range(100): files.write(f'/other-{i}', b'x')\nprint('done', flush=True)"
    with process(code, one_node, name) as child:
        run_all(3, *[lambda number=number: create(number) for number in range(4)])  # type: ignore[misc]
        assert line(child) == "done"
    expected = {f"{number}-{i}" for number in range(4) for i in range(next(counters[number]))}
    assert {entry.name for entry in files.list("/")} == expected | {f"other-{i}" for i in range(100)}


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_memory_does_not_depend_on_the_size_of_a_file(files: FileSystem, one_node: str, name: str) -> None:
    code = """
import resource
files.write("/warm", b"1")
files.read("/warm")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
piece = bytes(1 << 20)
with files.open("/f", "wb") as out:
    for _ in range(128):
        out.write(piece)
files.copy("/f", "/g")
with files.open("/g") as source:
    while source.read(1 << 20):
        pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, flush=True)
"""
    with process(code, one_node, name) as child:
        assert int(line(child)) < 32
    assert files.stat("/g").size == 128 << 20


def test_several_file_systems_in_one_cluster(one_node: str, name: str) -> None:
    one, two = (FileSystem(*parse_endpoint(one_node), f"{name}.{suffix}") for suffix in ("one", "two"))
    one.write("/f", b"1")
    assert not two.exists("/f")
    assert two.list("/") == []
    two.write("/f", b"22")
    assert (one.read("/f"), two.read("/f")) == (b"1", b"22")
    two.remove("/f")
    assert one.read("/f") == b"1"


def test_looking_at_a_file_system_does_not_create_it(one_node: str, name: str) -> None:
    files = FileSystem(*parse_endpoint(one_node), f"{name}.none")
    assert files.list("/") == []
    assert not files.exists("/a/b")
    for act in (files.read, files.stat, files.list, files.remove):
        with pytest.raises(NotFoundError):
            act("/f")
    with pytest.raises(NotFoundError):
        files.rename("/f", "/g")
    with pytest.raises(IgniteStrategyError):
        blocks(one_node, f"{name}.none")
