"""Jobs whose client and agents meet in a real ZooKeeper."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ignite_strategy.errors import PreconditionError
from ignite_strategy.local import LocalCluster
from tests.distributed.conftest import CACHE, make_cache

pytestmark = [pytest.mark.distributed, pytest.mark.integration]
pytest.importorskip("tensorflow")
from ignite_strategy.topology import IgniteClusterResolver  # noqa: E402


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """In place of the session's cluster: one with a ZooKeeper, where its agents are."""
    with LocalCluster(nodes=2, agents=True, zookeeper=True) as running:
        make_cache(running)
        yield running


@pytest.fixture(scope="module")
def zookeeper(cluster: LocalCluster) -> str:
    assert cluster.zookeeper is not None
    return cluster.zookeeper.address


@pytest.fixture
def raw(zookeeper: str) -> Iterator[Any]:
    client = KazooClient(zookeeper)
    client.start(10)
    yield client
    client.stop()
    client.close()


def _entries(raw: Any, path: str = "/ignite-strategy") -> list[str]:
    """Everything that has data, below the agents' own entries."""
    try:
        found = [path] if raw.get(path)[0] and "/agents/" not in path else []
        return found + [entry for name in raw.get_children(path) for entry in _entries(raw, f"{path}/{name}")]
    except NoNodeError:
        return []


def _until(condition: Callable[[], Any], seconds: float, what: Callable[[], Any]) -> None:
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds, what()
        time.sleep(0.1)


def test_a_job_runs_and_leaves_nothing(cluster: LocalCluster, zookeeper: str, raw: Any) -> None:
    with IgniteClusterResolver(CACHE, cluster.addresses, zookeeper=zookeeper) as resolver:
        resolver.start()
        assert {record.state for record in resolver.tasks()} == {"serving"}
        resolver.claim_directory("igfs:///through-zookeeper")
        assert [entry for entry in _entries(raw) if resolver.job in entry]
        pids = [record.pid for record in resolver.tasks()]
        assert raw.get(f"/ignite-strategy/jobs/{resolver.job}")[1].ephemeralOwner != 0
    assert not any(psutil.pid_exists(pid) for pid in pids)
    _until(lambda: not _entries(raw), 5, lambda: _entries(raw))


def test_without_it_no_agent_is_found(cluster: LocalCluster, zookeeper: str) -> None:
    with pytest.raises(PreconditionError, match="no agent runs beside Ignite node"):
        IgniteClusterResolver(CACHE, cluster.addresses).start()
    with pytest.raises(PreconditionError, match=f"--zookeeper {zookeeper}/elsewhere"):
        IgniteClusterResolver(CACHE, cluster.addresses, zookeeper=f"{zookeeper}/elsewhere").start()


_CLIENT = """
import sys, time
from ignite_strategy.topology import IgniteClusterResolver
with IgniteClusterResolver(sys.argv[1], sys.argv[2], zookeeper=sys.argv[3]) as resolver:
    resolver.start()
    print(*[record.pid for record in resolver.tasks()], flush=True)
    time.sleep(600)
"""


def test_a_killed_client_leaves_nothing(cluster: LocalCluster, zookeeper: str, raw: Any) -> None:
    command = [sys.executable, "-c", _CLIENT, CACHE, ",".join(cluster.addresses), zookeeper]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert client.stdout is not None
        pids = [int(pid) for pid in client.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(psutil.pid_exists, pids))
    finally:
        client.send_signal(signal.SIGKILL)
        client.wait()
        assert client.stdout is not None
        client.stdout.close()
    _until(lambda: not any(map(psutil.pid_exists, pids)), 30, lambda: pids)
    _until(lambda: not _entries(raw), 10, lambda: _entries(raw))


def test_a_job_survives_a_restart_of_zookeeper(cluster: LocalCluster, zookeeper: str) -> None:
    assert cluster.zookeeper is not None
    with IgniteClusterResolver(CACHE, cluster.addresses, zookeeper=zookeeper) as resolver:
        resolver.start()
        cluster.zookeeper.kill()
        cluster.zookeeper.start()
        time.sleep(3)
        assert resolver.failure is None
        assert {record.state for record in resolver.tasks()} == {"serving"}
