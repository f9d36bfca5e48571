"""One task process and its agent's side of it, without a cluster."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ignite_strategy.runtime import supervisor
from ignite_strategy.runtime.environment import task_environment
from ignite_strategy.runtime.ports import is_reachable
from ignite_strategy.runtime.records import Request, TaskRequest
from ignite_strategy.runtime.supervisor import TaskProcess
from ignite_strategy.settings import Endpoint
from ignite_strategy.topology.assignment import TaskKey

pytestmark = pytest.mark.distributed
pytest.importorskip("tensorflow")

_TASK = TaskRequest(TaskKey("worker", 0), {"C": (0,)})


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., TaskProcess]]:
    started: list[TaskProcess] = []

    def start(**environment: str) -> TaskProcess:
        request = Request("job", 1, "node", (_TASK,))
        full = task_environment(request, _TASK, Endpoint("127.0.0.1", 1), tmp_path)
        started.append(TaskProcess("job", _TASK, {**full, **environment}, tmp_path))
        return started[-1]

    yield start
    for task in started:
        task.kill()


def _until(task: TaskProcess, condition: Callable[[], Any], seconds: float = 20) -> float:
    begun = time.monotonic()
    while not condition():
        task.pump()
        assert time.monotonic() - begun < seconds, task.status()
        time.sleep(0.01)
    return time.monotonic() - begun


def _serve(task: TaskProcess) -> int:
    _until(task, lambda: task.status().port)
    port = task.status().port
    task.serve({"worker": [f"127.0.0.1:{port}"]})
    _until(task, lambda: task.serving)
    return port


def test_its_life(start: Callable[..., TaskProcess]) -> None:
    task = start()
    assert (task.status().state, task.status().pid, task.status().exit) == ("starting", task.pid, None)
    _until(task, lambda: task.status().state == "reserved")
    # Held, but nobody listens before the server does.
    assert "refused" in str(is_reachable(Endpoint("127.0.0.1", task.status().port), 1))
    _until(task, lambda: task.status().state == "loaded")
    assert task.status().tensorflow.startswith("2.")
    port = _serve(task)
    assert is_reachable(Endpoint("127.0.0.1", port), 1) is None
    task.stop()
    took = _until(task, lambda: task.ended)
    assert took < 2.0
    assert (task.status().state, task.status().exit) == ("stopped", 0)
    assert task.pump() is False


@pytest.mark.parametrize("state", ["starting", "reserved", "loaded"])
def test_sigterm_before_it_serves(start: Callable[..., TaskProcess], state: str) -> None:
    task = start()
    _until(task, lambda: task.status().state == state)
    task.stop()
    assert _until(task, lambda: task.ended) < 2.0
    assert task.status().state == "stopped"


def test_it_ends_with_its_agent(start: Callable[..., TaskProcess]) -> None:
    """Here only the pipe breaks; that a killed agent takes its tasks along is tested on a job."""
    task = start()
    _serve(task)
    assert task._process.stdin is not None
    task._process.stdin.close()
    assert _until(task, lambda: task.ended) < 2.0
    assert task.status().exit == 1


def test_a_task_that_hangs_is_ended(
    start: Callable[..., TaskProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = start()
    _serve(task)
    monkeypatch.setattr(supervisor, "_SILENT_SECONDS", 3.0)
    os.kill(task.pid, signal.SIGSTOP)
    assert 2.0 < _until(task, lambda: task.ended, 10) < 6.0
    assert "had not reported for 3 s" in task.status().error
    assert task.status().state == "exited"


def test_a_stop_that_is_not_obeyed(
    start: Callable[..., TaskProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = start()
    _serve(task)
    os.kill(task.pid, signal.SIGSTOP)
    task.stop()
    assert _until(task, lambda: task.ended, 5) < 3.0
    assert task.status().exit == -signal.SIGKILL


def test_an_error_comes_with_its_text_and_the_end_of_the_log(start: Callable[..., TaskProcess]) -> None:
    task = start()
    _until(task, lambda: task.status().port)
    task.serve({"worker": ["127.0.0.1:not-a-port"]})
    _until(task, lambda: task.ended)
    status = task.status()
    assert status.exit == 1
    assert "ended with exit code 1: " in status.error
    assert "not-a-port" in status.error
    assert f"last lines of {task.log}" in status.error


def test_no_tensorflow(start: Callable[..., TaskProcess], tmp_path: Path) -> None:
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").touch()
    task = start(PYTHONPATH=str(tmp_path))
    _until(task, lambda: task.ended)
    assert "cannot run a server" in task.status().error
    assert "install tensorflow" in task.status().error


def test_prints_go_to_the_log_and_not_to_the_agent(start: Callable[..., TaskProcess]) -> None:
    task = start(TF_CPP_MIN_LOG_LEVEL="0")
    port = _serve(task)
    text = task.log.read_text()
    assert f"Started server with target: grpc://127.0.0.1:{port}" in text
    assert psutil.Process(task.pid).num_fds() < 60
