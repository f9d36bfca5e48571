"""The client's side of the way to its tasks."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ignite_strategy.errors import ClusterError, IgniteStrategyError, TaskLostError
from ignite_strategy.settings import Endpoint, parse_endpoint

if TYPE_CHECKING:
    from ignite_strategy.topology import IgniteClusterResolver

__all__ = ["Link", "Task"]

Task = tuple[str, int]

_START_SECONDS = 60.0
_CUT_SECONDS = 5.0
_END_SECONDS = 5.0
_SECONDS_TO_EXPLAIN = (
    3.0  # the job's own account of a loss, with pid and exit code, comes about a second later
)


class Link:
    """Leads to each task of a running job through a port of this host, until a task is lost.

    Then every call, also those under way, ends with an error.

    Args:
      resolver: Whose job; it has been started.
      patience: Seconds without any answer until a task that hangs, or whose host is away, counts as lost.
    """

    def __init__(self, resolver: IgniteClusterResolver, patience: float) -> None:
        self._resolver = resolver
        self.attempt = resolver.attempt
        self.job = resolver.job
        self._lost: TaskLostError | None = None
        self._ended = threading.Event()
        self._is_cut = threading.Event()
        self._closed = False
        targets = _targets(resolver.cluster_spec().as_dict())
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ignite_strategy.gradients.link_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the client, which ends it
        )
        self._ports: dict[Task, Endpoint] = {}
        ready = threading.Event()
        threading.Thread(
            target=self._listen, args=(list(targets), ready), name="ignite_strategy-link", daemon=True
        ).start()
        rows = [[kind, index, at.host, at.port] for (kind, index), at in targets.items()]
        self._tell({"targets": rows, "patience": patience})
        if not ready.wait(_START_SECONDS) or not self._ports:
            self.close()
            raise ClusterError("the process that leads to the tasks did not start: see what it wrote above")
        resolver.on_failure(self._on_failure)

    def endpoint(self, task: Task) -> Endpoint:
        """The port of this host that leads to a task."""
        return self._ports[task]

    def tasks(self) -> list[Task]:
        """The tasks that it leads to."""
        return list(self._ports)

    def check(self) -> None:
        """Raises what was lost, if something was.

        Raises:
          TaskLostError: A task; or the job's own failure.
          ClusterError: The link has been closed, or its process has ended.
        """
        if self.is_over:
            raise self._reason()

    def explain(self, seconds: float = _SECONDS_TO_EXPLAIN) -> IgniteStrategyError | None:
        """What a call that has failed may have failed of: waits a moment for news of a loss."""
        if not self.is_over and not self._ended.wait(seconds) and self._resolver.failure is None:
            return None
        return self._reason()

    def cut(self) -> None:
        """Ends every call with an error, from now on."""
        self._tell({"command": "cut"})
        self._is_cut.wait(_CUT_SECONDS)

    def close(self) -> None:
        """Ends the process."""
        self._closed = True
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def is_over(self) -> bool:
        """Whether it leads nowhere any more."""
        return self._closed or self._ended.is_set() or self._resolver.failure is not None

    def leads_to(self, resolver: IgniteClusterResolver) -> bool:
        """Whether it leads to the tasks that a resolver has now."""
        return not self.is_over and (self.job, self.attempt) == (resolver.job, resolver.attempt)

    def _reason(self) -> IgniteStrategyError:
        # The resolver knows more, a moment later.
        if self._lost is not None and self._resolver.failure is None and not self._closed:
            _wait_for(lambda: self._resolver.failure is not None, _SECONDS_TO_EXPLAIN)
        failure = self._resolver.failure or self._lost
        if failure is not None:
            return _again(failure)
        return ClusterError(f"the link to the tasks of job {self.job} is closed: make another aggregator")

    def _on_failure(self, failure: TaskLostError) -> None:
        if not self._closed and not self._ended.is_set():
            self._ended.set()
            self._tell({"command": "cut"})

    def _tell(self, content: Mapping[str, object]) -> None:
        with contextlib.suppress(OSError, ValueError):  # ended: what listens says so
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(content) + "\n")
            self._process.stdin.flush()

    def _listen(self, tasks: list[Task], ready: threading.Event) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "ports" in told:
                self._ports = {task: Endpoint("127.0.0.1", port) for task, port in zip(tasks, told["ports"])}
                ready.set()
            elif "lost" in told:
                kind, index = told["lost"]
                self._lost = TaskLostError(
                    f"task {kind} {index} of job {self.job}: {told['reason']}", task=(kind, index)
                )
                self._ended.set()
            elif "cut" in told:
                self._is_cut.set()
        self._ended.set()
        ready.set()


def _targets(cluster: Mapping[str, list[str]]) -> dict[Task, Endpoint]:
    return {
        (kind, index): parse_endpoint(address)
        for kind, addresses in cluster.items()
        for index, address in enumerate(addresses)
    }


def _wait_for(condition: Callable[[], bool], seconds: float) -> None:
    pause = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if condition():
            return
        pause.wait(0.05)


def _again(error: TaskLostError) -> TaskLostError:
    """A copy: an exception that is raised in several places collects all their tracebacks."""
    return TaskLostError(
        str(error),
        kind=error.kind,
        task=error.task,
        node=error.node,
        host=error.host,
        pid=error.pid,
        exit_code=error.exit_code,
    )
