"""What ``ignite-strategy run`` does: programs started, their output here line by line, their end."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import typer

from ignite_strategy.cli.follow import INTERRUPTED, noted_signals
from ignite_strategy.cli.meeting import Meeting
from ignite_strategy.errors import IgniteStrategyError, PreconditionError, TaskLostError
from ignite_strategy.runtime.logs import LogReader
from ignite_strategy.runtime.registry import Registry
from ignite_strategy.runtime.scripts import carry
from ignite_strategy.runtime.scripts.archive import pack
from ignite_strategy.runtime.scripts.client import job_id
from ignite_strategy.runtime.scripts.programs import ProgramRunner, assign_programs, describe
from ignite_strategy.runtime.scripts.records import Program
from ignite_strategy.runtime.scripts.signing import Key
from ignite_strategy.topology.assignment import TaskKey
from ignite_strategy.topology.nodes import Topology, connect, discover

__all__ = ["RunOptions", "run"]

_QUIET_SECONDS = 0.3
_ANSWER_SECONDS = 3.0
_POLL_SECONDS = 0.2
_DRAIN_SECONDS = 20.0
_LONGEST_LINE = 1 << 16
_PAUSE_SECONDS = 3.0
_log = logging.getLogger(__name__)


class RunOptions(NamedTuple):
    """The options of ``run``."""

    cache: str
    folder: Path
    command: Sequence[str]
    environment: Mapping[str, str]
    mode: str
    layout: str | int
    ps: int | None
    balance: str
    evaluator: bool
    restarts: int
    start_timeout: int


def run(options: RunOptions, meeting: Meeting) -> int:
    """Runs the programs; the exit code of the command."""
    key = meeting.key()
    if key is None:
        raise PreconditionError("a key is needed: give --key-file, or set IGNITE_STRATEGY_KEY_FILE")
    logging.basicConfig(level=logging.WARNING, format="ignite-strategy: %(message)s")
    data = pack(options.folder)
    with meeting.registry() as registry:
        for again in range(options.restarts + 1):
            try:
                topology = _topology(options, meeting, patient=again > 0)
                # One of those that were given may be the next to leave.
                known = [endpoint for node in topology.nodes for endpoint in node.endpoints[:1]]
                meeting = meeting._replace(endpoints=list(dict.fromkeys([*meeting.endpoints, *known])))
                return _run(options, meeting, registry, key, data, topology)
            except TaskLostError as error:
                # With a node its partitions have gone to others: that takes another job.
                if error.kind != "node" or again == options.restarts:
                    raise
                _log.warning("%s", error)
                time.sleep(_PAUSE_SECONDS)
    raise AssertionError("the last attempt returns or raises")


def _topology(options: RunOptions, meeting: Meeting, patient: bool) -> Topology:
    """The nodes and the primaries now; after a loss it may take a moment until the partitions are others'."""
    until = time.monotonic() + (options.start_timeout if patient else 0)
    while True:
        try:
            with contextlib.closing(connect(meeting.endpoints)) as connection:
                topology = discover(connection, options.cache)
            assign_programs(topology, options.mode, options.layout, options.ps, options.balance)
            return topology
        except IgniteStrategyError:
            if time.monotonic() > until:
                raise
        time.sleep(_PAUSE_SECONDS)


def _run(
    options: RunOptions,
    meeting: Meeting,
    registry: Registry,
    key: Key,
    data: bytes,
    topology: Topology,
) -> int:
    assignment = assign_programs(
        topology, options.mode, options.layout, options.ps, options.balance, options.evaluator
    )
    job = job_id(options.cache)
    with contextlib.ExitStack() as stack:
        stack.callback(_forget, registry, job)
        archive = carry.upload(registry, job, data)
        program = Program(tuple(options.command), archive, dict(options.environment)).checked()
        runner = ProgramRunner(
            job,
            topology,
            assignment,
            meeting.endpoints,
            program,
            key,
            options.mode,
            options.restarts,
            float(options.start_timeout),
            meeting.zookeeper,
        )
        stack.callback(runner.close)
        typer.echo(f"job {job}: {', '.join(share.key.name for share in assignment.tasks)}", err=True)
        runner.start()
        stopping = stack.enter_context(noted_signals())
        output = stack.enter_context(_Output(runner, registry))
        while runner.verdict is None and not stopping.is_set():
            if runner.failure is not None:
                raise runner.failure
            stopping.wait(_POLL_SECONDS)
        verdict = runner.verdict
        runner.close()
        output.drain()
    if verdict is None:
        return INTERRUPTED
    if verdict.exit:
        typer.echo(f"error: {describe(verdict, job)}", err=True)
    return verdict.exit


def _forget(registry: Registry, job: str) -> None:
    with contextlib.suppress(IgniteStrategyError):  # the agents do it, too
        carry.remove(registry, job)


class _Output:
    """The programs' output, each line with the name of its task."""

    def __init__(self, runner: ProgramRunner, registry: Registry) -> None:
        self._runner, self._registry = runner, registry
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(
                target=self._follow, args=(share.key,), name=f"output of {share.key}", daemon=True
            )
            for share in runner.assignment.tasks
        ]

    def __enter__(self) -> _Output:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.drain()

    def drain(self) -> None:
        """Shows the rest of what was written, as far as the agents still answer."""
        self._over.set()
        deadline = time.monotonic() + _DRAIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _follow(self, task: TaskKey) -> None:
        node, attempt = self._runner.log_positions()[task]
        reader, offset, rest = LogReader(self._registry, node), 0, b""
        try:
            while True:
                last = self._over.is_set()
                newest = self._runner.log_positions()[task][1]
                try:
                    found = reader.read(self._runner.id, task.name, offset, _ANSWER_SECONDS, attempt)
                except IgniteStrategyError:
                    if last:
                        break
                    self._over.wait(_QUIET_SECONDS)
                    continue
                if found is not None and found.data:
                    offset = found.offset + len(found.data)
                    rest = self._show(task, rest + found.data)
                elif newest != attempt:
                    attempt, offset = newest, 0
                elif last:
                    break
                else:
                    self._over.wait(_QUIET_SECONDS)
            self._show(task, rest + b"\n" if rest else b"")
        finally:
            with contextlib.suppress(IgniteStrategyError):
                reader.close()

    def _show(self, task: TaskKey, data: bytes) -> bytes:
        """Prints whole lines; what is left."""
        *lines, rest = data.split(b"\n")
        if len(rest) > _LONGEST_LINE:
            lines, rest = [*lines, rest], b""
        prefix = f"[{task.name}] ".encode()
        with self._lock:
            sys.stdout.buffer.write(b"".join(prefix + line + b"\n" for line in lines))
            sys.stdout.buffer.flush()
        return rest
