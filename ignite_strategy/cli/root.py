"""The command that holds all others, and what becomes of an error."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, NamedTuple, NoReturn

import typer
import typer.core
import typer.main

from ignite_strategy import __version__
from ignite_strategy.console import shown
from ignite_strategy.errors import IgniteStrategyError

__all__ = ["run"]


class _Entry(NamedTuple):
    module: str
    summary: str
    app: str = "app"


# The summaries are here, not in the modules, so that --help imports none of them.
_COMMANDS = {
    "local": _Entry("ignite_strategy.cli.local", "An Ignite cluster on this host: up, down, status, sql."),
    "fs": _Entry("ignite_strategy.cli.fs", "Files on igfs://: ls, cat, cp, mv, rm, mkdir, stat, du."),
    "topology": _Entry(
        "ignite_strategy.cli.topology",
        "Show nodes, partitions, agents, jobs and tasks; --html writes a page.",
    ),
    "tf-config": _Entry("ignite_strategy.cli.tf_config", "Print the TF_CONFIG of a job that runs."),
    "doctor": _Entry(
        "ignite_strategy.cli.doctor", "Find out what is wrong with a cluster, and how to mend it."
    ),
    "agent": _Entry("ignite_strategy.cli.agent", "Run TensorFlow tasks beside one Ignite node."),
    "start": _Entry(
        "ignite_strategy.cli.jobs", "Run a script on the cluster, with a task beside each node.", "start"
    ),
    "run": _Entry("ignite_strategy.cli.jobs", "Run a program once for each task, with its TF_CONFIG.", "run"),
    "attach": _Entry("ignite_strategy.cli.jobs", "Follow a script that runs.", "attach"),
    "stop": _Entry("ignite_strategy.cli.jobs", "End a script and its tasks.", "stop"),
    "ps": _Entry("ignite_strategy.cli.jobs", "List the jobs of a cluster.", "ps"),
    "describe": _Entry("ignite_strategy.cli.jobs", "Show a job and its tasks.", "describe"),
    "logs": _Entry("ignite_strategy.cli.jobs", "Print what a script or a task has written.", "logs"),
    "key": _Entry("ignite_strategy.cli.jobs", "Make a key for agents that run scripts.", "key"),
}

_HELP = """TensorFlow training inside an Apache Ignite cluster.

Try it on this host:

\b
  ignite-strategy local up --nodes 2    two real Ignite nodes, until Ctrl-C
  ignite-strategy local status          what runs, in another terminal

Beside each node of a real cluster:

\b
  ignite-strategy agent --node localhost:10800

Look at it:

\b
  ignite-strategy topology              what runs, and who reads which partitions
  ignite-strategy doctor                what is wrong, and how to mend it
"""


class _Lazy(typer.core.TyperGroup):
    """Imports a command when it is called."""

    _describing = False

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, in the order of the table."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, or while help is printed a stand-in that has its summary only."""
        entry = _COMMANDS.get(cmd_name)
        if entry is None:
            return None
        if self._describing:
            return typer.core.TyperCommand(cmd_name, help=entry.summary)
        command = typer.main.get_command(getattr(importlib.import_module(entry.module), entry.app))
        command.name = cmd_name
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the help."""
        self._describing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._describing = False


app = typer.Typer(
    cls=_Lazy,
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ignite-strategy {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    pass


def _tell(problem: str) -> NoReturn:
    typer.echo("error: " + "\n".join(map(shown, problem.split("\n"))), err=True)
    sys.exit(1)


def run() -> None:
    """Runs the command line. An error of ours is one message and exit code 1, Ctrl-C is 130, wrong usage 2."""
    try:
        app(prog_name="ignite-strategy")
    except IgniteStrategyError as error:
        _tell(str(error))
    except UnicodeError as error:
        _tell(f"a name that is not UTF-8: {error.object!r}" if hasattr(error, "object") else str(error))
    except BrokenPipeError:  # "| head" has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        said = error.strerror or str(error)
        where = f": {error.filename}" if error.filename and str(error.filename) not in said else ""
        _tell(f"{said}{where}")
    except KeyboardInterrupt:
        sys.exit(130)
