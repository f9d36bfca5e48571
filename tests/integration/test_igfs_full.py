"""Writers that fill the cluster's memory: an Ignite node whose data region is full would end."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ignite_strategy.errors import ExhaustedError
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.local import LocalCluster
from ignite_strategy.settings import parse_endpoint

pytestmark = pytest.mark.integration
MIB = 1 << 20


@pytest.fixture(scope="module")
def small() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=2, data_mb=64) as cluster:
        yield cluster


def _fill(address: str, name: str, done: multiprocessing.Queue[tuple[str, int, str]]) -> None:
    files = FileSystem(*parse_endpoint(address), name="full")
    count = 0
    try:
        for count in range(1000):
            files.write(f"/{name}-{count}", name.encode() * MIB)
        done.put((name, count, "no end"))
    except BaseException as error:
        done.put((name, count, type(error).__name__))


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_full_memory_is_an_error_and_ends_no_node(small: LocalCluster) -> None:
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    writers = [context.Process(target=_fill, args=(small.addresses[i % 2], f"{i}", done)) for i in range(3)]
    for writer in writers:
        writer.start()
    ended = {name: (count, error) for name, count, error in (done.get(timeout=120) for _ in writers)}
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert {error for _, error in ended.values()} == {"ExhaustedError"}
    assert all(_is_alive(node.pid) for node in small.nodes)
    files = FileSystem(*parse_endpoint(small.addresses[1]), name="full")
    written = [f"{name}-{count}" for name, (many, _) in ended.items() for count in range(many)]
    assert len(written) > 30
    assert sorted(status.name for status in files.list("/")) == sorted(written)
    assert all(files.read(f"/{path}") == path.partition("-")[0].encode() * MIB for path in written)
    with pytest.raises(
        ExhaustedError, match=r"no memory for it in the cluster: node .* of 64 MiB left .*remove files"
    ):
        files.write("/more", os.urandom(32 * MIB))
    assert not files.exists("/more")

    # What is removed, and what is replaced, makes room long before readers would have to give it up.
    for path in written[:20]:
        files.remove(f"/{path}")
    for _ in range(30):
        files.write("/replaced", b"1" * MIB)
    assert all(_is_alive(node.pid) for node in small.nodes)
    assert files.check().sound
