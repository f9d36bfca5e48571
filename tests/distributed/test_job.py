"""A job on real nodes: started, used, lost in every way, and gone afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ignite_strategy.errors import (
    ClusterError,
    ClusterTimeoutError,
    NotFoundError,
    PreconditionError,
    TaskLostError,
)
from ignite_strategy.local import LocalCluster
from ignite_strategy.runtime.records import JOBS, JobRecord, Status, cluster_key, request_key, status_key
from ignite_strategy.runtime.registry import IgniteRegistry
from ignite_strategy.settings import parse_endpoints
from tests.distributed.conftest import CACHE, Agents, make_cache

pytestmark = [pytest.mark.distributed, pytest.mark.integration]
tf = pytest.importorskip("tensorflow")
from ignite_strategy.topology import IgniteClusterResolver  # noqa: E402


def _until(condition: Callable[[], Any], seconds: float, what: str) -> float:
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < seconds, f"not within {seconds} s: {what}"
        time.sleep(0.05)
    return time.monotonic() - begun


def _resolver(cluster: LocalCluster, **arguments: Any) -> Any:
    return IgniteClusterResolver(CACHE, cluster.addresses, **arguments)


def _entries_of(cluster: LocalCluster, job: str, nodes: tuple[str, ...]) -> list[str]:
    """What the registry still has of a job."""
    keys = [f"{JOBS}/{job}", cluster_key(job)]
    keys += [key for node in nodes for key in (request_key(job, node), status_key(job, node))]
    with IgniteRegistry(parse_endpoints(cluster.addresses)) as registry:
        return sorted(registry.get_many(keys))


def _assert_gone(cluster: LocalCluster, job: str, nodes: tuple[str, ...], pids: list[int]) -> None:
    assert [pid for pid in pids if _runs(pid)] == []
    assert _entries_of(cluster, job, nodes) == []


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _pid_in(target: str) -> int:
    """Runs an op in a task and returns the pid of the process that ran it."""
    with tf.Graph().as_default():
        text = tf.io.read_file("/proc/self/stat")
        with tf.compat.v1.Session(target) as session:
            return int(session.run(text).split()[0])


@pytest.fixture(scope="module")
def job(agents: Agents) -> Iterator[Any]:
    with _resolver(agents.cluster, strategy="parameter_server", evaluator=True) as resolver:
        resolver.start()
        yield resolver


def test_ops_run_in_the_tasks(job: Any) -> None:
    records = {(record.type, record.index): record for record in job.tasks()}
    assert sorted(records) == [("chief", 0), ("ps", 0), ("worker", 0)]
    for (kind, index), record in records.items():
        assert _pid_in(job.master(kind, index)) == record.pid != os.getpid()
        assert job.master(kind, index) == f"grpc://{record.address}"
        assert record.state == "serving"
        assert record.tensorflow == tf.__version__
        assert f"serves on port {record.address.split(':')[1]}" in Path(record.log).read_text()


def test_each_task_runs_beside_the_primary_of_its_partitions(job: Any, cluster: LocalCluster) -> None:
    topology = job.topology()
    assert len(set(topology.primaries)) == 2
    seen = {}
    for record in job.tasks():
        environment = psutil.Process(record.pid).environ()
        node = topology.node(record.node)
        assert environment["IGNITE_DATASET_PORT"] == str(node.port)
        assert environment["IGNITE_DATASET_HOST"] in node.addresses
        assert "PATH" not in environment
        assert "TF_CONFIG" not in environment
        if record.type != "ps":
            partitions = record.partitions[CACHE]
            assert {topology.primaries[p] for p in partitions} == {record.node}
            assert environment["IGNITE_STRATEGY_PARTITIONS"] == f'{{"{CACHE}": "{partitions[0]}"}}'
            seen[record.type, record.index] = partitions
    assert seen == {("chief", 0): (0,), ("worker", 0): (1,)}
    assert job.partition_map() == {0: ("chief", 0), 1: ("worker", 0)}


def test_each_task_reads_its_own_partitions_from_its_own_node(job: Any) -> None:
    """A drain of every task's dataset, key by key: disjoint, together the cache, and all over local connections."""
    import ignite_strategy as igs

    keys: dict[str, list[int]] = {}
    for kind in ("chief", "worker"):
        with tf.Graph().as_default(), tf.device(f"/job:{kind}/task:0/cpu:0"):
            # Neither host nor partitions are named: the environment of the process that runs the op decides.
            rows = tf.compat.v1.data.make_one_shot_iterator(igs.IgniteDataset(CACHE)).get_next()
            with tf.compat.v1.Session(job.master(kind, 0)) as session:
                keys[kind] = _drain(session, rows["key"])
    assert keys["chief"]
    assert keys["worker"]
    assert sorted(keys["chief"] + keys["worker"]) == list(range(100))

    def readings() -> dict[str, Any]:
        return {record.type: record.readings for record in job.tasks() if record.type != "ps"}

    _until(lambda: all(readings().values()), 5, "the tasks report")
    for kind, (reading,) in readings().items():
        assert reading.cache == CACHE
        assert (reading.local_rows, reading.remote_rows, reading.remote_bytes) == (len(keys[kind]), 0, 0)
        assert reading.local_bytes > 0
    for record in job.tasks():
        for reader in record.readers:
            assert reader["node"] == record.node
            assert reader["partitions"] == ",".join(map(str, record.partitions[CACHE]))


def _drain(session: Any, value: Any) -> list[int]:
    found = []
    while True:
        try:
            found.append(int(session.run(value)))
        except tf.errors.OutOfRangeError:
            return found


def test_the_collective_leader_is_in_the_servers_configuration(job: Any) -> None:
    """An all-reduce over both replicas' servers, as a collective strategy runs it."""
    from tensorflow.python.ops import collective_ops

    config = tf.compat.v1.ConfigProto()
    config.experimental.collective_group_leader = "/job:chief/replica:0/task:0"
    results: dict[str, float] = {}

    def run(kind: str, value: float) -> None:
        with tf.Graph().as_default(), tf.device(f"/job:{kind}/task:0/cpu:0"):
            total = collective_ops.all_reduce(tf.constant([value]), 2, 1, 1, "Add", "Id")
            with tf.compat.v1.Session(job.master(kind, 0), config=config) as session:
                options = tf.compat.v1.RunOptions(timeout_in_ms=20_000)
                options.experimental.collective_graph_key = 5
                results[kind] = float(session.run(total, options=options)[0])

    threads = [threading.Thread(target=run, args=pair) for pair in (("chief", 1.0), ("worker", 2.0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == {"chief": 3.0, "worker": 3.0}


def test_a_second_start_changes_nothing(job: Any) -> None:
    before = job.cluster_spec()
    assert job.start() is job
    assert job.cluster_spec() == before


def test_two_jobs_at_once(agents: Agents, job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ignite_strategy.runtime.runner.DIRECTORY_SECONDS", 1.0)
    with _resolver(agents.cluster).start() as other:
        other.claim_directory("igfs:///two-jobs")
        with pytest.raises(PreconditionError, match=f"job {other.job} .* trains in it"):
            job.claim_directory("igfs:///two-jobs")
        assert other.job != job.job
        assert not {r.pid for r in other.tasks()} & {r.pid for r in job.tasks()}
        assert _pid_in(other.master("worker", 0)) == other.tasks()[1].pid
    assert job.failure is None
    assert _pid_in(job.master("worker", 0)) == next(r for r in job.tasks() if r.type == "worker").pid


def test_a_task_ends_on_sigterm_within_two_seconds(agents: Agents) -> None:
    with _resolver(agents.cluster).start() as resolver:
        record = resolver.tasks()[1]
        _pid_in(resolver.master("worker", 0))
        process = psutil.Process(record.pid)
        begun = time.monotonic()
        process.terminate()
        _until(lambda: not _runs(record.pid), 2.0, "the task ends")
        _until(lambda: resolver.failure, 5, "the loss is noticed")
        assert "ended with exit code 0" in str(resolver.failure)
        assert time.monotonic() - begun < 6


def test_a_killed_task_is_named(agents: Agents) -> None:
    failures: list[TaskLostError] = []
    with _resolver(agents.cluster) as resolver:
        resolver.on_failure(failures.append)
        resolver.start()
        job, nodes = resolver.job, resolver.assignment.nodes
        records = resolver.tasks()
        victim = records[1]
        os.kill(victim.pid, signal.SIGKILL)
        took = _until(lambda: failures, 5, "the loss is noticed")
        print(f"a killed task is named after {took:.2f} s")
        error = resolver.failure
        assert failures == [error]
        assert (error.kind, error.task, error.pid, error.exit_code) == ("task", ("worker", 0), victim.pid, -9)
        for word in ("worker 0", str(victim.pid), victim.node, "SIGKILL", "serves on port"):
            assert word in str(error)
        with pytest.raises(TaskLostError, match="worker 0"):
            resolver.start()
        # The others are of no use without it.
        _until(lambda: not any(_runs(r.pid) for r in records), 5, "the other tasks end")
    _assert_gone(agents.cluster, job, nodes, [])


def test_a_killed_agent_is_named_and_takes_its_tasks_along(agents: Agents) -> None:
    with _resolver(agents.cluster).start() as resolver:
        job, nodes = resolver.job, resolver.assignment.nodes
        victim = resolver.tasks()[1]
        at = [str(node.node_id) for node in agents.cluster.nodes].index(victim.node)
        agents.processes[at].kill()
        _until(lambda: not _runs(victim.pid), 3, "its task ends")
        took = _until(lambda: resolver.failure, 12, "the loss is noticed")
        print(f"a killed agent is named after {took:.2f} s")
        assert resolver.failure.kind == "agent"
        assert victim.node in str(resolver.failure)
        assert str(agents.processes[at].pid) in str(resolver.failure)
        pids = [record.pid for record in resolver.tasks()]
    _assert_gone(agents.cluster, job, nodes, pids)
    agents.processes[at].wait()
    agents.start(at)
    agents.wait([at])


def test_an_agent_stops_in_order_on_sigterm(agents: Agents) -> None:
    with _resolver(agents.cluster).start() as resolver:
        victim = resolver.tasks()[0]
        at = [str(node.node_id) for node in agents.cluster.nodes].index(victim.node)
        begun = time.monotonic()
        agents.processes[at].terminate()
        assert agents.processes[at].wait(5) == 0
        print(f"an agent with a task stops in {time.monotonic() - begun:.2f} s")
        assert not _runs(victim.pid)
        _until(lambda: resolver.failure, 5, "the loss is noticed")
        assert "was stopped" in str(resolver.failure) or "has stopped" in str(resolver.failure)
    agents.start(at)
    agents.wait([at])


def test_an_agent_that_comes_back_says_that_its_tasks_are_lost(agents: Agents) -> None:
    with _resolver(agents.cluster).start() as resolver:
        victim = resolver.tasks()[1]
        at = [str(node.node_id) for node in agents.cluster.nodes].index(victim.node)
        agents.processes[at].kill()
        agents.processes[at].wait()
        agents.start(at)
        agents.wait([at], timeout=10)  # it does not wait for the lease of its predecessor to end
        _until(lambda: resolver.failure, 10, "the loss is noticed")
        _until(lambda: not _runs(victim.pid), 2, "its task ends")


def test_closing_leaves_nothing(agents: Agents) -> None:
    begun = time.monotonic()
    resolver = _resolver(agents.cluster, strategy="parameter_server").start()
    print(f"3 tasks start in {time.monotonic() - begun:.2f} s")
    job, nodes = resolver.job, resolver.assignment.nodes
    pids = [record.pid for record in resolver.tasks()]
    begun = time.monotonic()
    resolver.close()
    took = time.monotonic() - begun
    print(f"3 tasks stop in {took:.2f} s")
    assert took < 5
    _assert_gone(agents.cluster, job, nodes, pids)
    resolver.close()


_CLIENT = """
import sys, time
from ignite_strategy.topology import IgniteClusterResolver
resolver = IgniteClusterResolver(sys.argv[1], sys.argv[2]).start()
print(resolver.job, ",".join(resolver.assignment.nodes), *[record.pid for record in resolver.tasks()], flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_when_the_client_ends_its_tasks_end(agents: Agents, signum: signal.Signals) -> None:
    command = [sys.executable, "-c", _CLIENT, CACHE, ",".join(agents.cluster.addresses)]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert client.stdout is not None
    job, nodes, *pids = client.stdout.readline().split()
    client.stdout.close()
    assert len(pids) == 2
    client.send_signal(signum)
    client.wait(10)
    limit = 30 if signum == signal.SIGKILL else 5
    took = _until(lambda: not any(_runs(int(pid)) for pid in pids), limit, "the tasks end")
    took += _until(
        lambda: not _entries_of(agents.cluster, job, tuple(nodes.split(","))),
        limit - took,
        "nothing of the job is left",
    )
    print(f"after {signum.name} of the client everything is gone in {took:.1f} s")


def test_a_killed_node_is_named(tmp_path: Path) -> None:
    with LocalCluster(nodes=2) as cluster:
        make_cache(cluster)
        agents = Agents(cluster, tmp_path)
        try:
            with _resolver(cluster).start() as resolver:
                records = resolver.tasks()
                victim = records[0]
                at = [str(node.node_id) for node in cluster.nodes].index(victim.node)
                cluster.nodes[at].kill()
                took = _until(lambda: resolver.failure, 30, "the loss is noticed")
                print(f"a killed node is named after {took:.2f} s")
                assert resolver.failure.kind == "node"
                assert victim.node in str(resolver.failure)
                # Its agent waits for it; the tasks are gone.
                assert agents.processes[at].poll() is None
                _until(lambda: not any(_runs(r.pid) for r in records), 10, "the tasks end")
            cluster.nodes[at].restart()
            agents.wait([at], timeout=20)
            # The same agent, and a node with another id: the next job runs.
            make_cache(cluster)
            with _resolver(cluster).start() as resolver:
                pids = [record.pid for record in resolver.tasks()]
                assert len(pids) == 2
                _stop_nodes(cluster, signal.SIGSTOP)
                time.sleep(1)
                begun = time.monotonic()
                resolver.close()  # as on Ctrl-C: a silent cluster does not hold it up
                assert time.monotonic() - begun < 3
                _stop_nodes(cluster, signal.SIGCONT)
            took = _until(lambda: not any(map(_runs, pids)), 30, "the tasks end")
            print(f"after a close that reached nobody the tasks are gone in {took:.1f} s")
        finally:
            agents.close()


def _stop_nodes(cluster: LocalCluster, signum: signal.Signals) -> None:
    for node in cluster.nodes:
        os.kill(node.pid, signum)


def test_no_agent(cluster: LocalCluster, agents: Agents) -> None:
    agents.processes[1].terminate()
    agents.processes[1].wait(10)
    try:
        begun = time.monotonic()
        with pytest.raises(PreconditionError) as caught:
            _resolver(cluster).start()
        assert time.monotonic() - begun < 20
        address = cluster.addresses[1]
        assert str(cluster.nodes[1].node_id) in str(caught.value)
        assert f"ignite-strategy agent --node {address}" in str(caught.value)
    finally:
        agents.start(1)
        agents.wait([1])


def test_missing_tasks_are_named_with_their_node(agents: Agents) -> None:
    """yahoo/TensorFlowOnSpark #359, #445: a bare timeout after ten minutes of "waiting for N"."""
    agents.processes[1].send_signal(signal.SIGSTOP)
    try:
        resolver = _resolver(agents.cluster, start_timeout=4)
        with pytest.raises((ClusterTimeoutError, TaskLostError)) as caught:
            resolver.start()
        assert str(agents.cluster.nodes[1].node_id) in str(caught.value)
        if isinstance(caught.value, ClusterTimeoutError):
            assert len(caught.value.missing) >= 1
            assert "its agent has not started it" in str(caught.value)
    finally:
        agents.processes[1].send_signal(signal.SIGCONT)
        agents.wait([1])


def test_a_missing_cache(agents: Agents) -> None:
    with pytest.raises(NotFoundError, match="cache 'NOWHERE' does not exist"):
        IgniteClusterResolver("NOWHERE", agents.cluster.addresses).start()


def test_a_request_of_another_form_is_refused(agents: Agents) -> None:
    """Whoever can write to the cache can ask for tasks, and for nothing else."""
    node = str(agents.cluster.nodes[0].node_id)
    with IgniteRegistry(parse_endpoints(agents.cluster.addresses)) as registry:
        record = JobRecord("evil", 1, (node,))
        lease = registry.acquire(f"{JOBS}/evil", record.to_json(), 5)
        registry.put(
            request_key("evil", node),
            {
                "schema": 1,
                "job": "evil",
                "attempt": 1,
                "node": node,
                "tasks": [{"task": "worker:0", "partitions": {}, "attempt": 1, "port": 0}],
                "environment": {"LD_PRELOAD": "/tmp/evil.so"},
                "program": {},
            },
        )
        _until(lambda: registry.get(status_key("evil", node)), 5, "the refusal")
        status = Status.from_json(registry.get(status_key("evil", node)))
        assert "may not set LD_PRELOAD" in status.refused
        assert not status.tasks
        registry.delete(request_key("evil", node))
        registry.delete(status_key("evil", node))
        lease.release()


def test_a_task_that_dies_at_the_start_ends_the_wait(agents: Agents) -> None:
    """yahoo/TensorFlowOnSpark #253, #559: the real failure was in some other log."""
    begun = time.monotonic()
    resolver = _resolver(agents.cluster, task_environment={"TF_NUM_INTRAOP_THREADS": "1"}, start_timeout=60)
    killer = threading.Thread(target=_kill_first_task, args=(agents.processes[0].pid,))
    killer.start()
    with pytest.raises(ClusterError, match="SIGKILL"):
        resolver.start()
    killer.join(30)
    assert time.monotonic() - begun < 15


def _kill_first_task(agent: int) -> None:
    """Kills the first task of that test which the agent starts, as soon as it is there."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for child in psutil.Process(agent).children():
            with contextlib.suppress(psutil.Error):
                environment = child.environ()
                if (
                    "IGNITE_STRATEGY_PARTITIONS" in environment
                    and environment.get("TF_NUM_INTRAOP_THREADS") == "1"
                ):
                    child.kill()
                    return
        time.sleep(0.01)
