"""A script in the foreground: its output here, its exit code ours, Ctrl-C its end."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import typer

from ignite_strategy.errors import ClusterError
from ignite_strategy.runtime.scripts.client import START, Scripts
from ignite_strategy.runtime.scripts.records import ScriptStatus, TaskPlan

__all__ = ["INTERRUPTED", "attach", "noted_signals", "start"]

INTERRUPTED = 130
_STOPPED = 143


def start(
    scripts: Scripts,
    plan: TaskPlan,
    folder: Path,
    command: Sequence[str],
    environment: Mapping[str, str],
    detach: bool,
) -> int:
    """Starts a script and follows it; the exit code of the command."""
    with scripts.start(plan, folder, command, environment, attached=not detach) as job:
        if detach:
            typer.echo(job)
            return 0
        typer.echo(f"job {job}", err=True)
        with noted_signals() as stopping:
            status = scripts.follow(job, _write, stopping, START)
        interrupted = stopping.is_set()
    if interrupted:
        typer.echo(f"ending job {job}", err=True)
        scripts.wait(job)
        return INTERRUPTED
    return _exit_code(status)


def attach(scripts: Scripts, job: str, from_start: bool) -> int:
    """Follows a script; the exit code of the command."""
    with noted_signals() as stopping:
        status = scripts.follow(job, _write, stopping, *([START] if from_start else []))
    if stopping.is_set():
        typer.echo(f"job {job} goes on; 'ignite-strategy stop {job}' ends it", err=True)
        return INTERRUPTED
    return _exit_code(status)


def _exit_code(status: ScriptStatus) -> int:
    if status.state == "stopped":
        typer.echo(f"error: job {status.job} was stopped: {status.error}", err=True)
        return _STOPPED
    if status.exit is None:
        raise ClusterError(f"job {status.job}: {status.error}")
    code = status.exit if status.exit >= 0 else 128 - status.exit
    if status.exit != 0:
        from ignite_strategy.runtime.processes import describe_exit

        what = status.error or f"its script {describe_exit(status.exit)}"
        typer.echo(f"error: job {status.job}: {what}", err=True)
    return code


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@contextlib.contextmanager
def noted_signals() -> Iterator[threading.Event]:
    """The first signal is noted, so that it breaks no answer in two; a second one ends the command."""
    wanted = threading.Event()

    def note(number: int, frame: object) -> None:
        if wanted.is_set():
            raise KeyboardInterrupt
        wanted.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, note) for number in numbers]
    try:
        yield wanted
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)
