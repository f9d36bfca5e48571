"""Agents beside real nodes, and a cache with a partition on each."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyignite
import pytest

from ignite_strategy.local import LocalCluster
from ignite_strategy.runtime.records import AGENTS
from ignite_strategy.runtime.registry import IgniteRegistry
from ignite_strategy.runtime.scripts.signing import create_key
from ignite_strategy.settings import parse_endpoints
from ignite_strategy.topology.caches import connect, create_cache

CACHE = "igs-p2-RUNTIME"


class Agents:
    """One agent process beside each node of a cluster."""

    def __init__(self, cluster: LocalCluster, folder: Path, options: Sequence[Sequence[str]] = ()) -> None:
        self.options = options
        self.cluster = cluster
        self.folder = folder
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for at in range(len(cluster.nodes)):
            self.start(at)
        self.wait()

    def start(self, at: int) -> None:
        """Starts the agent of node ``at``, in place of one that has ended."""
        command = [
            sys.executable,
            "-m",
            "ignite_strategy.runtime.agent",
            "--node",
            self.cluster.addresses[at],
        ]
        command += ["--folder", str(self.folder / f"agent-{at}")]
        command += self.options[at] if self.options else []
        with open(self.log(at), "ab") as log:
            self.processes[at] = subprocess.Popen(command, stdout=log, stderr=log)

    def log(self, at: int) -> Path:
        return self.folder / f"agent-{at}.log"

    def wait(self, nodes: Sequence[int] | None = None, timeout: float = 30) -> None:
        """Until the agents hold their leases."""
        wanted = range(len(self.cluster.nodes)) if nodes is None else nodes
        until = time.monotonic() + timeout
        with IgniteRegistry(parse_endpoints(self.cluster.addresses)) as registry:
            while True:
                values = registry.children(AGENTS).values()
                pids = {value["pid"] for value in values}
                if all(self.processes[at].pid in pids for at in wanted):
                    return
                assert time.monotonic() < until, [self.log(at).read_text() for at in wanted]
                time.sleep(0.1)

    def close(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def make_cache(cluster: LocalCluster) -> None:
    client = pyignite.Client()
    with client.connect([(node.host, node.port) for node in cluster.nodes]):
        client.get_or_create_cache(CACHE).destroy()  # one that has lost partitions takes no rows
        client.get_or_create_cache(CACHE).put_all({key: key for key in range(100)})


@pytest.fixture(scope="session")
def agents(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    """Agents beside the session's nodes; a test that ends one starts another."""
    make_cache(cluster)
    running = Agents(cluster, tmp_path_factory.mktemp("agents"))
    yield running
    running.close()


@pytest.fixture(scope="session")
def scripts_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two nodes of its own, with agents that have a key."""
    from tests.distributed.house import CACHE as OWN
    from tests.distributed.house import House

    key_file = tmp_path_factory.mktemp("key") / "key"
    create_key(key_file)
    with LocalCluster(nodes=2) as running:
        with contextlib.closing(connect(running.addresses)) as client:
            create_cache(client, OWN, partitions=2)
        agents = Agents(running, tmp_path_factory.mktemp("agents"), [["--key-file", str(key_file)]] * 2)
        house = House(agents, key_file, tmp_path_factory.mktemp("nothing"))
        yield house
        house.registry.close()
        agents.close()
