"""`topology`, `tf-config` and `doctor` on a real cluster with a job, and on what is left of it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import ignite_strategy as igs
from ignite_strategy.errors import PreconditionError
from ignite_strategy.local import LocalCluster
from ignite_strategy.settings import parse_endpoints
from ignite_strategy.topology.caches import connect, create_cache, put_values
from ignite_strategy.topology.checks import Finding, Level, Patient, agents, client, data, nodes, ports
from ignite_strategy.topology.overview import Observer
from tests.distributed.conftest import Agents

pytestmark = [pytest.mark.distributed, pytest.mark.integration]
tf = pytest.importorskip("tensorflow")

COMMAND = [sys.executable, "-m", "ignite_strategy"]


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    with LocalCluster(nodes=2) as running:
        with contextlib.closing(connect(running.addresses)) as client:
            create_cache(client, "SHOWN", partitions=4)
            put_values(client, "SHOWN", {at: float(at) for at in range(400)})
            create_cache(client, "KEPT", partitions=2, backups=1)
        started = Agents(running, tmp_path_factory.mktemp("agents"), [["--gpus=0,1"], ["--gpus=1,0"]])
        yield started
        started.close()


@pytest.fixture(scope="module")
def job(beside: Agents) -> Iterator[Any]:
    """A job whose tasks have read everything once."""
    with igs.IgniteClusterResolver(
        "SHOWN", beside.cluster.addresses, strategy="parameter_server"
    ) as resolver:
        resolver.start()
        for kind in ("chief", "worker"):
            with tf.Graph().as_default(), tf.device(f"/job:{kind}/task:0/cpu:0"):
                rows = tf.compat.v1.data.make_one_shot_iterator(igs.IgniteDataset("SHOWN")).get_next()
                with (
                    tf.compat.v1.Session(resolver.master(kind, 0)) as session,
                    contextlib.suppress(tf.errors.OutOfRangeError),
                ):
                    while True:
                        session.run(rows["key"])
        yield resolver


def _call(beside: Agents, *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [*COMMAND, *arguments, "--address", beside.cluster.addresses[0]],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def _examine(cluster: LocalCluster, *wanted: Callable[[Patient], Iterable[Finding]]) -> list[Finding]:
    """Some of the checks, which are made one by one for the sake of time."""
    patient = Patient(parse_endpoints(cluster.addresses[:1]))
    return [finding for check in (nodes.answers, *wanted) for finding in check(patient)]


def _told(findings: list[Finding], check: str, level: Level) -> str:
    found = [finding for finding in findings if (finding.check, finding.level) == (check, level)]
    assert found, f"nothing {level} of {check}: {findings}"
    assert all(finding.fix for finding in found if level in (Level.WARNING, Level.WRONG))
    return "\n".join(f"{finding.text} {finding.fix}" for finding in found)


def test_before_anything_ran_nothing_is_created() -> None:
    """A look leaves no trace: the registry is a cache that the first agent creates."""
    with LocalCluster(nodes=1) as own:
        endpoints = parse_endpoints(own.addresses)
        with Observer(endpoints) as observer:
            overview = observer.look()
        every = (
            agents.beside_every_node,
            agents.leases,
            ports.reachable,
            ports.exposed,
            client.igfs,
            data.copies,
        )
        findings = _examine(own, *every)
        with contextlib.closing(connect(own.addresses)) as connected:
            assert connected.get_cache_names() == []
    assert (len(overview.nodes), overview.agents, overview.jobs, overview.caches) == (1, {}, (), ())
    assert "ignite-strategy agent --node" in _told(findings, "agents", Level.WRONG)
    for check in ("leases", "task ports", "exposed ports", "igfs", "copies"):
        _told(findings, check, Level.SKIPPED)


def test_the_overview(beside: Agents, job: Any) -> None:
    deadline = time.monotonic() + 60
    with Observer(parse_endpoints(beside.cluster.addresses[:1])) as observer:
        while True:
            overview = observer.look()
            rows = sum(traffic.local_rows for traffic in overview.served().values())
            if rows == 400 and all(view.proven for view in overview.agents.values()):
                break
            assert time.monotonic() < deadline, overview
            time.sleep(0.2)
    assert {view.record.pid for view in overview.agents.values()} == {
        each.pid for each in beside.processes.values()
    }
    (found,) = overview.jobs
    assert (found.id, found.state, found.record.pid, found.caches) == (
        job.job,
        "running",
        os.getpid(),
        ("SHOWN",),
    )
    assert [(t.type, t.index, t.pid, t.address) for t in found.tasks] == [
        (t.type, t.index, t.pid, t.address) for t in job.tasks()
    ]
    assert {p: (t.type, t.index) for p, t in found.readers_of("SHOWN").items()} == job.partition_map()
    (topology,) = overview.caches
    assert topology.primaries == job.topology().primaries


def test_each_gpu_is_one_tasks(beside: Agents, job: Any) -> None:
    """Both agents are on one host and have registered the same two; a parameter server has none."""
    visible = {t.type: psutil.Process(t.pid).environ()["CUDA_VISIBLE_DEVICES"] for t in job.tasks()}
    assert sorted(visible[kind] for kind in ("chief", "worker")) == ["0", "1"]
    assert visible["ps"] == "-1"
    assert {t.type: t.gpus for t in job.tasks()} == {
        kind: (() if gpu == "-1" else (gpu,)) for kind, gpu in visible.items()
    }
    assert job.num_accelerators("worker", 0) == {"GPU": 1}
    assert (job.num_accelerators("ps", 0), job.num_accelerators(), job.gpus_per_worker) == ({}, {}, 1)
    with igs.IgniteClusterResolver("SHOWN", beside.cluster.addresses).start() as other:
        assert [t.gpus for t in other.tasks()] == [(), ()], "another job has them"
        assert other.gpus_per_worker == 0
        assert {psutil.Process(t.pid).environ()["CUDA_VISIBLE_DEVICES"] for t in other.tasks()} == {"-1"}


def test_caches_with_one_assignment(beside: Agents) -> None:
    """Features and labels: each task reads the same partitions of both."""
    cluster = beside.cluster
    with contextlib.closing(connect(cluster.addresses)) as client:
        create_cache(client, "LABELS", partitions=4)
    with igs.IgniteClusterResolver(["SHOWN", "LABELS"], cluster.addresses).start() as resolver:
        for task in resolver.tasks():
            told = json.loads(psutil.Process(task.pid).environ()["IGNITE_STRATEGY_PARTITIONS"])
            assert told["SHOWN"] == told["LABELS"] == ",".join(map(str, task.partitions["LABELS"]))
    with pytest.raises(PreconditionError, match="'SHOWN' has 4 partitions and cache 'KEPT' 2"):
        igs.IgniteClusterResolver(["SHOWN", "KEPT"], cluster.addresses).start()


def test_tables_in_a_pipe(beside: Agents, job: Any) -> None:
    text = _call(beside, "topology")
    assert job.job in text
    for task in job.tasks():
        (line,) = [line for line in text.splitlines() if f" {task.address} " in line]
        assert f"pid {task.pid}" in line
        assert "serving" in line
    assert "\x1b" not in text
    assert "KEPT" in _call(beside, "topology", "--cache", "KEPT")
    assert "cache 'NOWHERE' does not exist" in _call(beside, "topology", "--cache", "NOWHERE", code=1)


def test_the_page(beside: Agents, job: Any, tmp_path: Path) -> None:
    page = tmp_path / "topology.html"
    _call(beside, "topology", "--html", str(page))
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "chief 0: " in text
    assert job.job in text
    assert [path.name for path in tmp_path.iterdir()] == ["topology.html"]
    assert "No such file or directory" in _call(
        beside, "topology", "--html", str(tmp_path / "no" / "t"), code=1
    )


def test_a_live_table_until_ctrl_c(beside: Agents, job: Any) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "topology", "--every", "0.2", "--address", beside.cluster.addresses[0]],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "60"},
    )
    os.close(theirs)
    try:
        seen, deadline = b"", time.monotonic() + 60
        while seen.count(job.job.encode()) < 6:  # several times in each picture
            assert time.monotonic() < deadline, seen
            if select.select([ours], [], [], 1)[0]:
                seen += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        while process.poll() is None:  # what it still writes would fill the terminal
            assert time.monotonic() < deadline
            with contextlib.suppress(OSError):
                if select.select([ours], [], [], 0.1)[0]:
                    seen += os.read(ours, 65536)
        assert process.returncode == 0
        assert b"Traceback" not in seen
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_tf_config(beside: Agents, job: Any) -> None:
    for kind in ("chief", "worker", "ps", "evaluator"):
        said = _call(beside, "tf-config", "SHOWN", "--type", kind)
        assert json.loads(said) == json.loads(job.tf_config(kind))
    lines = _call(beside, "tf-config", "SHOWN", "--job", job.job).splitlines()
    assert [json.loads(line)["task"]["type"] for line in lines] == ["chief", "worker", "ps"]
    assert "there is no task worker:1" in _call(
        beside, "tf-config", "SHOWN", "--type", "worker", "--index", "1", code=1
    )
    assert f"there are: {job.job} on SHOWN" in _call(beside, "tf-config", "KEPT", code=1)


def test_doctor_finds_nothing_wrong(beside: Agents, job: Any) -> None:
    tf.io.gfile.makedirs(f"igfs://{beside.cluster.addresses[0]}/somewhere")
    text = _call(beside, "doctor")
    assert " 0 wrong, 0 skipped" in text
    for line in (
        "security: plain text, without a user, on this host only",
        "nodes: 2 answer",
        "agents: one beside each of 2 nodes",
        "leases: 3 are renewed",
        "clocks: 2 nodes agree",
        "task ports: all 3 are reached",
        "igfs: written and read: default_fs",
        f"dataset ops: load in TensorFlow {tf.__version__}",
    ):
        assert line in text
    assert re.search("a lost node takes its part of these caches with it: .*'SHOWN'", text)
    assert tf.io.gfile.listdir(f"igfs://{beside.cluster.addresses[0]}/") == ["somewhere"]


def test_doctor_on_a_task_that_hangs_up(beside: Agents, job: Any) -> None:
    """A port that nobody listens at, and an agent that hangs; both are named."""
    victim = job.tasks()[0]
    at = [str(node.node_id) for node in beside.cluster.nodes].index(victim.node)
    beside.processes[at].send_signal(signal.SIGSTOP)
    os.kill(victim.pid, signal.SIGKILL)
    try:
        findings = _examine(beside.cluster, agents.leases, agents.beside_every_node, ports.reachable)
    finally:
        beside.processes[at].send_signal(signal.SIGCONT)
    assert f"chief 0 at {victim.address}: Connection refused" in _told(findings, "task ports", Level.WRONG)
    # On a busy machine another agent has removed the lease before it is looked at.
    told = "\n".join(finding.text for finding in findings if finding.level is Level.WRONG)
    assert f"agent {victim.node} has not renewed" in told or f"beside Ignite node {victim.node}" in told


def test_doctor_on_a_lost_node(beside: Agents) -> None:
    """The last test of this cluster."""
    beside.processes[1].kill()
    beside.processes[1].wait()
    lost = beside.cluster.partition_owners("SHOWN")
    gone = [at for at, node in enumerate(lost) if node is beside.cluster.nodes[1]]
    node = str(beside.cluster.nodes[1].node_id)
    beside.cluster.nodes[1].kill()
    deadline = time.monotonic() + 60
    while True:
        findings = _examine(beside.cluster, data.partitions, nodes.every_node)
        if any(each.check == "partitions" and each.level is Level.WRONG for each in findings):
            break
        assert time.monotonic() < deadline, findings
    text = _told(findings, "partitions", Level.WRONG)
    assert "cache 'SHOWN'" in text
    assert ",".join(map(str, gone)) in text.replace("-", ",")
    assert "KEPT" not in text
    assert node not in "".join(view.text for view in findings if view.level is Level.OK)
