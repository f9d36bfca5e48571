"""One job for each model directory."""

from __future__ import annotations

import os
import socket

import pytest

from ignite_strategy.errors import PreconditionError
from ignite_strategy.runtime.directories import claim, release, spell_out
from ignite_strategy.runtime.records import JOBS
from ignite_strategy.runtime.registry import Lease, Registry
from ignite_strategy.runtime.registry.memory import MemoryRegistry


@pytest.fixture
def registry() -> Registry:
    return MemoryRegistry()


def job(registry: Registry, name: str) -> Lease:
    return registry.acquire(f"{JOBS}/{name}", {"job": name}, 15.0)


def test_a_second_job_is_refused_with_the_firsts_name(registry: Registry) -> None:
    job(registry, "one"), job(registry, "two")
    claim(registry, "one", "igfs:///m", 0)
    claim(registry, "one", "igfs:///m", 0)
    claim(registry, "two", "igfs:///n", 0)
    with pytest.raises(
        PreconditionError, match=f"job one .process {os.getpid()} on .*two jobs would overwrite"
    ):
        claim(registry, "two", "igfs:///m/", 0.1)
    release(registry, "one")
    claim(registry, "two", "igfs:///m", 0)


def test_a_job_that_ended_without_a_word_holds_nothing(registry: Registry) -> None:
    lease = job(registry, "one")
    claim(registry, "one", "/m", 0)
    claim(registry, "one", "/n", 0)
    lease.release()
    job(registry, "two")
    claim(registry, "two", "/m", 0)
    assert {value["directory"] for value in registry.children("directories").values()} == {spell_out("/m")}


def test_a_restart_waits_for_the_end_of_a_killed_job(registry: Registry) -> None:
    registry.acquire(f"{JOBS}/one", {"job": "one"}, 1.0)
    claim(registry, "one", "/m", 0)
    job(registry, "two")
    claim(registry, "two", "/m", 10)


@pytest.mark.parametrize(
    ("directory", "same"),
    [
        ("igfs:///a/b", "igfs://default_fs/a/b"),
        ("igfs://ignite-0:10800/a//b/", "igfs://default_fs/a/b"),
        ("igfs://other@ignite-0/a/../b", "igfs://other/b"),
        ("s3://bucket/a/", "s3://bucket/a"),
        ("/a/./b/", f"file://{socket.gethostname()}/a/b"),
    ],
)
def test_one_directory_has_one_name(directory: str, same: str) -> None:
    assert spell_out(directory, {}) == same
    assert spell_out("igfs:///a", {"IGFS_FS_NAME": "mine"}) == "igfs://mine/a"
