"""Finding a path: few requests, and always where it is now, whoever moved what."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from ignite_strategy.errors import NotFoundError, PreconditionError
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.settings import parse_endpoint
from tests.counting import CountingProxy
from tests.integration.test_igfs_publishing import line, process

pytestmark = pytest.mark.integration
GET, GET_ALL = 1000, 1003
DEEP = "/1/2/3/4/5/6/7/8/9"


@pytest.fixture(scope="module")
def name() -> str:
    return "lookups"


@pytest.fixture(scope="module")
def counted(one_node: str) -> Iterator[CountingProxy]:
    with CountingProxy(one_node) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def other(one_node: str, name: str) -> FileSystem:
    """Looks at the same tree with a memory of its own."""
    files = FileSystem(*parse_endpoint(one_node), name)
    files.makedirs(DEEP)
    files.write(f"{DEEP}/file", b"0123456789")
    return files


@pytest.fixture(scope="module")
def files(counted: CountingProxy, name: str, other: FileSystem) -> FileSystem:
    return FileSystem(counted.host, counted.port, name)


def gets(counted: CountingProxy) -> int:
    """How many keys were asked for."""
    count = len(counted.bodies[GET]) + sum(
        struct.unpack_from("<i", body, 5)[0] for body in counted.bodies[GET_ALL]
    )
    counted.bodies.clear()
    return count


def test_a_path_of_ten_levels_that_was_never_used(files: FileSystem, counted: CountingProxy) -> None:
    gets(counted)
    assert files.stat(f"{DEEP}/file").size == 10
    assert gets(counted) <= 11


def test_a_file_in_directories_used_before_is_read_by_its_blocks_alone(
    files: FileSystem, counted: CountingProxy
) -> None:
    files.stat(f"{DEEP}/file")
    files.stat(f"{DEEP}/file")
    gets(counted)
    assert files.exists(f"{DEEP[:9]}")
    with files.open(f"{DEEP}/file") as source:
        gets(counted)
        assert source.read() == b"0123456789"
    assert gets(counted) <= 3  # the block, and whether there is more


def test_what_other_processes_move_is_seen_by_the_next_call(
    files: FileSystem, other: FileSystem, one_node: str, name: str
) -> None:
    path = f"{DEEP}/file"
    for _ in range(3):
        assert files.exists(path)
    with process('files.rename("/1/2/3", "/1/2/moved")\nprint("moved")', one_node, name) as child:
        assert line(child) == "moved"
    assert not files.exists(path)
    moved = path.replace("/2/3/", "/2/moved/")
    assert files.stat(moved).size == 10
    # Another directory takes the name.
    with process(
        f'files.makedirs("{DEEP}"); files.write("{path}", b"new"); print("new")', one_node, name
    ) as child:
        assert line(child) == "new"
    assert files.stat(path).size == 3
    assert files.stat(moved).size == 10
    for change, expected in (
        ('files.remove("/1/2/3/4", recursive=True)', None),
        ('files.rename("/1/2/moved/4", "/1/2/3/4")', 10),
        ('files.rename("/1", "/elsewhere")', None),
        ('files.rename("/elsewhere", "/1")', 10),
    ):
        with process(f'{change}\nprint("done")', one_node, name) as child:
            assert line(child) == "done"
        assert files.exists(path) == (expected is not None), change
        if expected is not None:
            assert files.stat(path).size == expected


def test_a_directory_that_became_a_file(files: FileSystem, other: FileSystem) -> None:
    other.makedirs("/kind/below")
    other.write("/kind/below/file", b"1")
    for _ in range(3):
        assert files.exists("/kind/below/file")
    other.remove("/kind/below", recursive=True)
    other.write("/kind/below", b"a file")
    with pytest.raises(PreconditionError, match="is a file, not a directory"):
        files.stat("/kind/below/file")
    with pytest.raises(PreconditionError, match="is a file, not a directory"):
        files.write("/kind/below/file", b"2")


def test_a_file_system_that_was_made_anew(
    files: FileSystem, other: FileSystem, one_node: str, name: str
) -> None:
    from contextlib import closing

    from ignite_strategy.topology.caches import connect, drop_cache

    other.makedirs("/old/place")
    other.write("/old/place/file", b"old")
    for _ in range(3):
        assert files.stat("/old/place/file").size == 3
    with closing(connect(one_node)) as client:
        for part in ("tree", "blocks"):
            drop_cache(client, f"igfs-{name}-{part}")
    with pytest.raises(NotFoundError):
        files.stat("/old/place/file")
    with process(
        'files.makedirs("/old/place"); files.write("/old/place/file", b"again")\nprint(1)', one_node, name
    ) as child:
        assert line(child) == "1"
    assert files.read("/old/place/file") == b"again"
