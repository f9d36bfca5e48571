"""Jobs from the shell: ``start``, ``attach``, ``stop``, ``ps``, ``describe``, ``logs`` and ``key``."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any, List, Optional

import typer

from ignite_strategy.cli.meeting import ADDRESS, KEY_FILE, ZOOKEEPER, Meeting
from ignite_strategy.errors import InvalidArgumentError

__all__ = ["attach", "describe", "key", "logs", "ps", "run", "start", "stop"]


def _command() -> typer.Typer:
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


start, run, attach, stop, ps, describe, logs, key = (_command() for _ in range(8))
_JOB: Any = typer.Argument(..., metavar="JOB", help="Id of the job, as 'ps' shows it.")


@start.command(context_settings={"allow_interspersed_args": False})
def _start(
    cache: str = typer.Argument(..., metavar="CACHE", help="The cache whose partitions are trained on."),
    folder: Path = typer.Argument(..., metavar="JOB_DIR", help="The script's folder, or one file."),
    command: List[str] = typer.Argument(..., metavar="COMMAND", help="What is run there, and its arguments."),
    address: Optional[str] = ADDRESS,
    zookeeper: Optional[str] = ZOOKEEPER,
    key_file: Optional[Path] = KEY_FILE,
    detach: bool = typer.Option(False, "--detach", "-d", help="Print the job's id and return; it goes on."),
    env: Optional[List[str]] = typer.Option(
        None, "--env", "-e", metavar="NAME=VALUE", help="For the script."
    ),
    strategy: str = typer.Option("collective", help="collective, or parameter_server."),
    layout: str = typer.Option("auto", help="auto, partition, node, or a number: how many train."),
    chief: bool = typer.Option(True, help="Whether the first task is a chief; without, the script is it."),
    ps: Optional[int] = typer.Option(None, min=0, help="Parameter servers."),
    balance: str = typer.Option("local", help="local, or even."),
    tasks: bool = typer.Option(True, help="Whether tasks are started; without, the script makes its own."),
    start_timeout: int = typer.Option(60, min=1, help="Until every task can be reached, in seconds."),
) -> None:
    """Run a script on the cluster: once, beside the chief's Ignite node, with a TensorFlow task beside each node.

    JOB_DIR is packed and carried there. COMMAND runs in it, its output appears here, and its exit code is kept. Ctrl-C
    ends it, as does the end of this command, unless it is started with --detach.

    The script finds its tasks in TF_CLUSTER (JSON, for remote_cluster), TF_WORKERS (their devices), TF_CHIEF_SERVER
    (for a session) and TF_CONFIG, and its own Ignite node in IGNITE_DATASET_HOST, IGFS_HOST and so on.

    \b
      ignite-strategy start DIGITS ./job python train.py --steps 1000
      ignite-strategy start --detach --strategy parameter_server DIGITS ./job python train.py
      ignite-strategy start --no-tasks DIGITS ./job python estimator.py    a script with a resolver of its own
    """  # noqa: D301
    from ignite_strategy.cli import follow
    from ignite_strategy.runtime.scripts.client import Scripts
    from ignite_strategy.runtime.scripts.records import TaskPlan

    _check_order(command)
    plan = TaskPlan(
        cache=cache,
        strategy=_one_of("--strategy", strategy, "collective", "parameter_server"),
        layout=int(layout) if layout.isdigit() else layout,
        chief=chief,
        ps=ps if ps is not None else int(strategy == "parameter_server"),
        balance=balance,
        start_timeout=start_timeout,
        tasks=tasks,
    )
    meeting = Meeting.of(address, zookeeper, key_file)
    with meeting.registry() as registry:
        scripts = Scripts(registry, meeting.endpoints, meeting.key())
        sys.exit(follow.start(scripts, plan, folder, command, _variables(env or []), detach))


def _check_order(command: list[str]) -> None:
    if command[0].startswith("-"):
        raise InvalidArgumentError(f"{command[0]} is no command: options go before CACHE")


def _one_of(option: str, value: str, *allowed: str) -> str:
    if value not in allowed:
        raise InvalidArgumentError(f"{option}={value!r}: use {' or '.join(allowed)}")
    return value


def _variables(given: list[str]) -> dict[str, str]:
    variables = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidArgumentError(f"--env {text!r}: give NAME=VALUE")
        variables[name] = value
    return variables


@run.command(context_settings={"allow_interspersed_args": False})
def _run(
    cache: str = typer.Argument(..., metavar="CACHE", help="The cache whose partitions are trained on."),
    folder: Path = typer.Argument(..., metavar="JOB_DIR", help="The program's folder, or one file."),
    command: List[str] = typer.Argument(..., metavar="COMMAND", help="What is run there, and its arguments."),
    address: Optional[str] = ADDRESS,
    zookeeper: Optional[str] = ZOOKEEPER,
    key_file: Optional[Path] = KEY_FILE,
    env: Optional[List[str]] = typer.Option(
        None, "--env", "-e", metavar="NAME=VALUE", help="For the programs."
    ),
    strategy: str = typer.Option("collective", help="collective, parameter_server, or coordinator."),
    layout: str = typer.Option("auto", help="auto, partition, node, or a number: how many train."),
    ps: Optional[int] = typer.Option(None, min=0, help="Parameter servers."),
    balance: str = typer.Option("local", help="local, or even."),
    evaluator: bool = typer.Option(False, "--evaluator", help="One more, which reads all, for Estimator."),
    restarts: int = typer.Option(5, min=0, help="How often in a row all are started again."),
    start_timeout: int = typer.Option(60, min=1, help="Until every program has begun, in seconds."),
) -> None:
    """Run a program once for each task, beside the Ignite nodes, with the task's TF_CONFIG.

    In each, IgniteDataset reads the task's own partitions from its own node. Strategies: collective (a chief and
    workers, for MultiWorkerMirroredStrategy and Estimator), parameter_server (servers as well, for Estimator),
    coordinator (a chief that reads nothing, workers and servers, for ParameterServerStrategy with a
    ClusterCoordinator).

    A program that is killed, or lost with its agent, has all started again; they go on from their checkpoint. One
    that ends with an error ends the run with its exit code. Ctrl-C ends all.

    \b
      ignite-strategy run DIGITS ./job python worker.py
      ignite-strategy run --strategy coordinator --ps 2 DIGITS ./job python coordinator.py
    """  # noqa: D301
    from ignite_strategy.cli import programs

    _check_order(command)
    options = programs.RunOptions(
        cache,
        folder,
        command,
        _variables(env or []),
        _one_of("--strategy", strategy, "collective", "parameter_server", "coordinator"),
        int(layout) if layout.isdigit() else layout,
        ps,
        balance,
        evaluator,
        restarts,
        start_timeout,
    )
    sys.exit(programs.run(options, Meeting.of(address, zookeeper, key_file)))


@attach.command()
def _attach(
    job: str = _JOB,
    from_start: bool = typer.Option(False, "--from-start", help="With what it wrote before, too."),
    address: Optional[str] = ADDRESS,
    zookeeper: Optional[str] = ZOOKEEPER,
) -> None:
    """Show what a script writes from now on, and end with its exit code. Ctrl-C leaves it running.

    \b
      ignite-strategy attach digits-1a2b3c4d
    """  # noqa: D301
    from ignite_strategy.cli import follow
    from ignite_strategy.runtime.scripts.client import Scripts

    meeting = Meeting.of(address, zookeeper)
    with meeting.registry() as registry:
        sys.exit(follow.attach(Scripts(registry, meeting.endpoints), job, from_start))


@stop.command()
def _stop(
    job: str = _JOB,
    address: Optional[str] = ADDRESS,
    zookeeper: Optional[str] = ZOOKEEPER,
    key_file: Optional[Path] = KEY_FILE,
) -> None:
    """End a script and its tasks, and wait until they are gone.

    \b
      ignite-strategy stop digits-1a2b3c4d
    """  # noqa: D301
    from ignite_strategy.runtime.scripts.client import Scripts

    meeting = Meeting.of(address, zookeeper, key_file)
    with meeting.registry() as registry:
        status = Scripts(registry, meeting.endpoints, meeting.key()).stop(job)
    typer.echo(f"job {job} has {'been ' if status.state == 'stopped' else ''}{status.state}")


@ps.command()
def _ps(address: Optional[str] = ADDRESS, zookeeper: Optional[str] = ZOOKEEPER) -> None:
    """List the jobs of a cluster: scripts that run or ran lately, and programs with a resolver.

    \b
      ignite-strategy ps
    """  # noqa: D301
    from ignite_strategy.cli import show

    with Meeting.of(address, zookeeper).registry() as registry:
        show.jobs(registry)


@describe.command()
def _describe(
    job: str = _JOB, address: Optional[str] = ADDRESS, zookeeper: Optional[str] = ZOOKEEPER
) -> None:
    """Show a job: its script, and each of its tasks with host, process, partitions and rows read.

    \b
      ignite-strategy describe digits-1a2b3c4d
    """  # noqa: D301
    from ignite_strategy.cli import show

    with Meeting.of(address, zookeeper).registry() as registry:
        show.job(registry, job)


@logs.command()
def _logs(
    job: str = _JOB,
    task: str = typer.Argument("script", metavar="TASK", help="script, or a task: chief:0, worker:1, ps:0."),
    address: Optional[str] = ADDRESS,
    zookeeper: Optional[str] = ZOOKEEPER,
) -> None:
    """Print what a script or a task has written, from whichever host it is on.

    \b
      ignite-strategy logs digits-1a2b3c4d
      ignite-strategy logs digits-1a2b3c4d worker:0
    """  # noqa: D301
    from ignite_strategy.cli import show

    with Meeting.of(address, zookeeper).registry() as registry, contextlib.suppress(KeyboardInterrupt):
        show.log(registry, job, task)


@key.command()
def _key(
    file: Path = typer.Argument(..., metavar="FILE", help="A new file, which only its owner can read."),
) -> None:
    """Make a key for agents that run scripts, and for those who may start some.

    \b
      ignite-strategy key ~/.ignite-strategy.key
      ignite-strategy agent --node localhost:10800 --allow-scripts --key-file ~/.ignite-strategy.key
    """  # noqa: D301
    from ignite_strategy.runtime.scripts.signing import create_key

    made = create_key(file)
    typer.echo(f"{file} is a new key (fingerprint {made.fingerprint}); give copies to the agents only")
