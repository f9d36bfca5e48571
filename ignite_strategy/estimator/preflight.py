"""Before training starts: is every task reached, has it our ops, does it see the model directory and write there?

Each of these would else be found out by one task, minutes later, while the others wait for it.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ignite_strategy import library
from ignite_strategy.errors import (
    ClusterError,
    ConnectionFailedError,
    IgniteStrategyError,
    InvalidArgumentError,
    UnsupportedError,
)
from ignite_strategy.runtime.account import TaskRecord

__all__ = ["check_tasks"]

_SECONDS = 30.0
_AT_ONCE = 16
_SHARED = "give a place that this process and all tasks see: igfs:///PATH, or a directory that is mounted on all hosts"


def check_tasks(tasks: Sequence[TaskRecord], model_dir: str, seconds: float = _SECONDS) -> None:
    """Has every task read a file that is written here, and write one that is read here.

    Args:
      tasks: The tasks of a job, all serving.
      model_dir: Where checkpoints go; it is there.
      seconds: For all tasks together.

    Raises:
      InvalidArgumentError: A task does not see the directory, or cannot write to it.
      UnsupportedError: A task has not the ops of the datasets.
      ClusterError: A task does not answer.
      ConnectionFailedError: The cluster that holds the directory does not answer.
    """
    probe = f"{model_dir.rstrip('/')}/.preflight-{uuid.uuid4().hex}"
    token = uuid.uuid4().hex
    with contextlib.ExitStack() as stack:
        stack.callback(_remove, [probe, *(_answer(probe, task) for task in tasks)])
        try:
            _write(probe, token)
        except tf.errors.UnavailableError as error:
            raise ConnectionFailedError(f"run_config(model_dir={model_dir!r}): {error.message}") from error
        except tf.errors.OpError as error:
            raise InvalidArgumentError(
                f"run_config(model_dir={model_dir!r}): this process cannot write there: {error.message}"
            ) from error
        _Round(tasks, model_dir, probe, token, time.monotonic() + seconds).run()


class _Round:
    """All tasks are asked, some at a time."""

    def __init__(
        self, tasks: Sequence[TaskRecord], model_dir: str, probe: str, token: str, until: float
    ) -> None:
        self._left = list(tasks)
        self._waiting = {_name(task) for task in tasks}
        self._model_dir = model_dir
        self._probe, self._token = probe, token
        self._until = until
        self._problems: list[IgniteStrategyError] = []
        self._changed = threading.Condition()

    def run(self) -> None:
        """Raises what was found of the first task that is not fit."""
        # Daemons, and not a pool: TensorFlow may hold a thread for longer than anybody wants to wait.
        for _ in range(min(_AT_ONCE, len(self._left))):
            threading.Thread(target=self._work, name="ignite_strategy-preflight", daemon=True).start()
        with self._changed:
            while self._waiting and not self._problems:
                if time.monotonic() > self._until:
                    raise ClusterError(
                        f"{', '.join(sorted(self._waiting))}: no answer to a session that reads a file, although the "
                        "port is open: look at the log of the task"
                    )
                self._changed.wait(0.2)
            if self._problems:
                raise self._problems[0]

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._left or self._problems:
                    return
                task = self._left.pop(0)
            problem: IgniteStrategyError | None = None
            try:
                self._ask(task)
            except IgniteStrategyError as error:
                problem = error
            except Exception as error:
                problem = ClusterError(f"{_name(task)} at {task.address}: {type(error).__name__}: {error}")
            with self._changed:
                self._waiting.discard(_name(task))
                if problem is not None:
                    self._problems.append(problem)
                self._changed.notify_all()

    def _ask(self, task: TaskRecord) -> None:
        left = max(1, round((self._until - time.monotonic()) * 1000))
        device = f"/job:{task.type}/task:{task.index}"
        config = tf.compat.v1.ConfigProto(device_filters=[device], operation_timeout_in_ms=left)
        answer = _answer(self._probe, task)
        with tf.Graph().as_default() as graph:
            with tf.device(f"{device}/device:CPU:0"):
                content = tf.io.read_file(self._probe)
                written = tf.io.write_file(answer, content)
                # Never run: a server takes no graph with an op that it does not know.
                library.ops().ignite_strategy_close(tf.constant(-1, tf.int64))
            try:
                with tf.compat.v1.Session(f"grpc://{task.address}", graph=graph, config=config) as session:
                    seen = session.run(content)
                    self._compare(task, seen)
                    session.run(written)
            except tf.errors.OpError as error:
                raise self._explained(task, error) from error
        try:
            self._compare(task, _read(answer))
        except tf.errors.OpError as error:
            raise self._unshared(task, "this process does not see what it writes there") from error

    def _compare(self, task: TaskRecord, seen: bytes) -> None:
        if seen != self._token.encode():
            raise self._unshared(task, "it sees another file there than this process")

    def _explained(self, task: TaskRecord, error: Any) -> IgniteStrategyError:
        unknown = [line for line in error.message.splitlines() if "not registered" in line]
        if unknown:
            return UnsupportedError(
                f"{_name(task)}, pid {task.pid} on {task.host}, has not the ops of the datasets: install the same "
                f"version of ignite-strategy there ({unknown[0].partition('. ')[0]})"
            )
        if isinstance(error, (tf.errors.UnavailableError, tf.errors.DeadlineExceededError)):
            return ClusterError(f"{_name(task)} at {task.address} does not answer: {error.message}")
        if isinstance(error, tf.errors.NotFoundError):
            return self._unshared(task, "it does not find what this process has written there")
        # TensorFlow puts the places in the graph around what the file system has said.
        lines = [line.strip() for line in error.message.splitlines() if self._model_dir in line]
        return self._unshared(task, f"it cannot read and write there: {(lines or [error.message])[0]}")

    def _unshared(self, task: TaskRecord, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"run_config(model_dir={self._model_dir!r}) is not shared with {_name(task)} on {task.host}: {what}. "
            f"{_SHARED}"
        )


def _name(task: TaskRecord) -> str:
    return f"{task.type} {task.index}"


def _answer(probe: str, task: TaskRecord) -> str:
    return f"{probe}-{task.type}-{task.index}"


def _write(path: str, text: str) -> None:
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(text)


def _read(path: str) -> bytes:
    with tf.io.gfile.GFile(path, "rb") as file:
        return bytes(file.read())


def _remove(paths: Sequence[str]) -> None:
    for path in paths:
        with contextlib.suppress(tf.errors.OpError):
            tf.io.gfile.remove(path)
