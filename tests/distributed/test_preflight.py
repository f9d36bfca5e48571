"""Before training: tasks that are not fit for it are named, in seconds."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ignite_strategy.errors import ClusterError, InvalidArgumentError, UnsupportedError
from tests.distributed.conftest import CACHE, Agents

pytestmark = [pytest.mark.distributed, pytest.mark.integration]
tf = pytest.importorskip("tensorflow")
if not hasattr(tf, "estimator"):
    pytest.skip("this TensorFlow has no Estimator", allow_module_level=True)
from ignite_strategy.estimator.preflight import check_tasks  # noqa: E402
from ignite_strategy.topology import IgniteClusterResolver  # noqa: E402

_PLAIN_SERVER = """
import sys, tensorflow as tf
server = tf.distribute.Server({"worker": [f"127.0.0.1:{sys.argv[1]}"]}, job_name="worker", task_index=0)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def resolver(agents: Agents) -> Iterator[Any]:
    with IgniteClusterResolver(CACHE, agents.cluster.addresses, strategy="parameter_server") as running:
        yield running.start()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A path that is another directory to each process, as one on the disk of each host is."""
    monkeypatch.chdir(tmp_path)
    return "/proc/self/cwd/model"


def test_directories_that_all_see(resolver: Any, tmp_path: Path) -> None:
    tf.io.gfile.makedirs("igfs:///preflight")
    for place in ("igfs:///preflight", str(tmp_path), f"{tmp_path}/"):
        check_tasks(resolver.tasks(), place)
        assert tf.io.gfile.listdir(place) == [], "nothing is left there"


def test_a_directory_of_one_host_is_an_error_before_training(resolver: Any, elsewhere: str) -> None:
    begun = time.monotonic()
    with pytest.raises(InvalidArgumentError) as caught:
        resolver.run_config(strategy="parameter_server", model_dir=elsewhere)
    assert time.monotonic() - begun < 30
    text = str(caught.value)
    assert f"model_dir={elsewhere!r}" in text
    assert any(f"{task.type} {task.index} on {task.host}" in text for task in resolver.tasks())
    assert "it does not find what this process has written there" in text
    assert "igfs:///PATH" in text
    assert os.listdir(elsewhere) == []


def test_a_task_that_has_a_directory_of_this_name(resolver: Any, elsewhere: str, tmp_path: Path) -> None:
    """But another one: what is there does not count, what is written there does."""
    for task in resolver.tasks():
        (Path(task.log).parent / "model").mkdir(exist_ok=True)
    (tmp_path / "model").mkdir()
    with pytest.raises(InvalidArgumentError, match="is not shared with"):
        check_tasks(resolver.tasks(), elsewhere)


def test_a_task_that_hangs_is_named(resolver: Any, tmp_path: Path) -> None:
    victim = next(task for task in resolver.tasks() if task.type == "worker")
    os.kill(victim.pid, signal.SIGSTOP)
    begun = time.monotonic()
    try:
        with pytest.raises(ClusterError, match="worker 0"):
            check_tasks(resolver.tasks(), str(tmp_path), seconds=3)
    finally:
        os.kill(victim.pid, signal.SIGCONT)
    assert time.monotonic() - begun < 30
    check_tasks(resolver.tasks(), str(tmp_path))


def test_a_server_without_the_ops(resolver: Any, tmp_path: Path) -> None:
    """Started by hand, or by another version: it takes any graph but one with a dataset of ours."""
    from ignite_strategy.runtime.ports import HeldPort

    with HeldPort() as held:
        port = held.port
    server = subprocess.Popen(
        [sys.executable, "-c", _PLAIN_SERVER, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name != "TF_CONFIG"},
        text=True,
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        plain = replace(
            resolver.tasks()[0], type="worker", index=0, address=f"127.0.0.1:{port}", pid=server.pid
        )
        with pytest.raises(
            UnsupportedError, match=f"worker 0, pid {server.pid} .*has not the ops.*IgniteStrategyClose"
        ):
            check_tasks([plain], str(tmp_path))
    finally:
        with contextlib.suppress(OSError):
            server.kill()
        server.wait(10)
        for pipe in (server.stdin, server.stdout):
            if pipe is not None:
                pipe.close()
