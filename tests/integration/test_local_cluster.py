"""The embedded cluster with real nodes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ignite_strategy.errors import (
    AlreadyExistsError,
    ClusterError,
    ConnectionFailedError,
    InvalidArgumentError,
    UnsupportedError,
)
from ignite_strategy.local import LocalCluster
from ignite_strategy.local.probe import probe
from ignite_strategy.topology import caches

pytestmark = pytest.mark.integration

_PARENT = """
import sys, threading
from ignite_strategy.local import LocalCluster

def run():
    cluster = LocalCluster(nodes=1)
    node = cluster.nodes[0]
    print(cluster._processes.pid, *(node.pid for node in cluster.nodes), node.port, cluster.folder, flush=True)
    return cluster

# From a thread that ends: what the kernel ties to the parent's thread must not end the nodes early.
if sys.argv[1] == "thread":
    kept = []
    thread = threading.Thread(target=lambda: kept.append(run()))
    thread.start(); thread.join()
else:
    kept = run()
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[LocalCluster]:
    """For a test that kills nodes."""
    with LocalCluster(nodes=2) as running:
        yield running


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node in a folder of the caller's, whose starter has variables that Java and Ignite know."""
    with pytest.MonkeyPatch.context() as shell:
        shell.setenv("IGNITE_HOME", "/nowhere")
        shell.setenv("JAVA_TOOL_OPTIONS", "-Dstray=1")
        running = LocalCluster(nodes=1, folder=tmp_path_factory.mktemp("alone"))
    with running:
        yield running


def _await(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


def _indices(cluster: LocalCluster, cache: str) -> list[int]:
    return [node.index for node in cluster.partition_owners(cache)]


def _gone(pids: list[int]) -> bool:
    return not any(psutil.pid_exists(pid) for pid in pids)


def test_each_node_answers_and_sees_the_other(cluster: LocalCluster) -> None:
    ids = {node.node_id for node in cluster.nodes}
    assert len(ids) == 2
    for node in cluster.nodes:
        assert probe(node.host, node.port) == (node.node_id, ids)


def test_nodes_listen_on_loopback_only(cluster: LocalCluster) -> None:
    for node in cluster.nodes:
        listening = [
            connection.laddr.ip
            for connection in psutil.Process(node.pid).net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert len(listening) == 3
        assert set(listening) == {"127.0.0.1"}


def test_a_stray_variable_reaches_no_node(alone: LocalCluster) -> None:
    environment = psutil.Process(alone.nodes[0].pid).environ()
    assert "JAVA_TOOL_OPTIONS" not in environment
    assert environment["IGNITE_HOME"] == str(alone.folder / "node-0")


def test_a_statement_right_after_the_start(own_cluster: LocalCluster) -> None:
    """A node's connector answers before its start is complete, and a cache created then ends the node."""
    with contextlib.closing(caches.connect(own_cluster.addresses)) as client:
        caches.create_cache(client, "FIRST", partitions=2)
    assert all(node.running for node in own_cluster.nodes)
    assert _indices(own_cluster, "FIRST") == [0, 1]


def test_a_killed_node_is_missed_and_comes_back(own_cluster: LocalCluster) -> None:
    first, second = own_cluster.nodes
    old = first.node_id
    first.kill()
    assert not first.running
    with pytest.raises(ConnectionFailedError):
        probe(first.host, first.port)
    _await(lambda: probe(second.host, second.port)[1] == {second.node_id}, 15, "the other node misses it")
    first.restart()
    assert first.running
    assert first.node_id != old
    assert probe(second.host, second.port)[1] == {first.node_id, second.node_id}
    second.stop()
    assert not second.running
    second.restart()
    # A partition that lost its data stays lost until its cache is dropped; a new cache is placed as ever.
    with contextlib.closing(caches.connect(own_cluster.addresses)) as client:
        caches.create_cache(client, "SECOND", partitions=2)
    assert _indices(own_cluster, "SECOND") == [0, 1]


def test_clusters_side_by_side_do_not_join(cluster: LocalCluster, alone: LocalCluster) -> None:
    assert probe("127.0.0.1", alone.nodes[0].port)[1] == {alone.nodes[0].node_id}
    assert len(probe("127.0.0.1", cluster.nodes[0].port)[1]) == 2
    assert {node.port for node in cluster.nodes}.isdisjoint({node.port for node in alone.nodes})


def test_a_callers_folder_is_kept(alone: LocalCluster) -> None:
    alone.close()
    assert (alone.folder / "node-0.log").exists()


def test_a_node_that_cannot_start_tells_the_end_of_its_log(tmp_path: Path) -> None:
    config = tmp_path / "node.xml"
    config.write_text("<beans>")
    with pytest.raises(ClusterError) as caught:
        LocalCluster(nodes=1, folder=tmp_path, config=config)
    text = str(caught.value)
    assert "node-0 did not start (exit code" in text
    assert f"The end of {tmp_path / 'node-0.log'}" in text
    assert "XML" in text


def test_igfs_needs_a_release_that_has_it(alone: LocalCluster) -> None:
    with pytest.raises(UnsupportedError, match=r"2\.17\.0 has no IGFS.*2\.8\.1"):
        LocalCluster(nodes=1, igfs=True)
    with pytest.raises(ClusterError, match="no IGFS endpoint"):
        alone.igfs_addresses  # noqa: B018


def test_a_taken_port_is_said_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(AlreadyExistsError, match=f"port {port} of this host is in use"):
            LocalCluster(nodes=1, port=port)


@pytest.mark.parametrize(("who", "where"), [("parent", "thread"), ("supervisor", "main")])
def test_a_kill_leaves_no_process_and_no_port(who: str, where: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert parent.stdout is not None
        *numbers, folder = parent.stdout.readline().split()
        supervisor, *nodes, port = map(int, numbers)
        time.sleep(1.0)
        assert all(psutil.pid_exists(pid) for pid in nodes)
        os.kill(parent.pid if who == "parent" else supervisor, signal.SIGKILL)
        _await(lambda: _gone([*nodes]), 15, "all nodes end")
        if who == "parent":
            parent.wait(10)
            _await(lambda: _gone([supervisor]), 15, "the supervisor ends")
            assert not Path(folder).exists()
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 1):
            pass
    finally:
        parent.kill()
        parent.communicate(timeout=10)


def test_ctrl_c_reaches_the_program_and_not_the_nodes() -> None:
    program = """
import time
from ignite_strategy.local import LocalCluster
with LocalCluster(nodes=1) as cluster:
    try:
        print(cluster.nodes[0].pid, flush=True)
        time.sleep(60)  # signal.pause() would sleep on if the signal came just before it
    except KeyboardInterrupt:
        print("running" if cluster.nodes[0].running else "dead", flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        node = int(process.stdout.readline())
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does
        assert process.stdout.readline() == "running\n"
        assert process.wait(20) == 0
        assert _gone([node])
    finally:
        process.kill()
        process.communicate(timeout=10)


def test_agents_run_beside_the_nodes_and_all_is_gone_after_close() -> None:
    with LocalCluster(nodes=1, agents=True) as running:
        node = running.nodes[0]
        supervisor = psutil.Process(running._processes.pid)
        _await(lambda: len(supervisor.children()) == 2, 10, "an agent beside the node")
        time.sleep(3.0)
        assert running.ended() == {}, (running.folder / "agent-0.log").read_text()
        pids = [child.pid for child in supervisor.children()]
        running.close()
        running.close()  # idempotent
        assert not running.folder.exists()
        assert _gone([*pids, node.pid])
        assert not node.running
        with pytest.raises(ConnectionRefusedError), socket.create_connection((node.host, node.port), 1):
            pass
        with pytest.raises(ClusterError, match="the embedded cluster is closed"):
            node.restart()


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError, match="file cannot be used for logs and work files"):
        LocalCluster(nodes=1, folder=tmp_path / "file")
    with pytest.raises(InvalidArgumentError, match="/proc/none cannot be used"):
        LocalCluster(nodes=1, folder="/proc/none")


def test_a_full_disk_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(InvalidArgumentError, match="has 1 MiB left, and 64 MiB are needed"):
        LocalCluster(nodes=1, folder=tmp_path)
