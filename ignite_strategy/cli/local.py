"""``ignite-strategy local``: an Ignite cluster on this host."""

from __future__ import annotations

from pathlib import Path
from typing import List, Optional

import typer

from ignite_strategy.errors import InvalidArgumentError

__all__ = ["app"]

_HELP = """An Apache Ignite cluster on this host: real server nodes on the loopback address.

\b
  ignite-strategy local up --nodes 2            until Ctrl-C
  ignite-strategy local up --nodes 2 --detach   until 'local down'
  ignite-strategy local status
  ignite-strategy local sql "SELECT * FROM SYS.NODES"
  ignite-strategy local down
"""

app = typer.Typer(
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_PORT = typer.Option(None, "--port", help="The port of its first node, if several clusters run.")


@app.command()
def up(
    nodes: int = typer.Option(2, "--nodes", "-n", min=1, max=64, help="How many nodes."),
    port: int = typer.Option(
        10800, min=1024, max=65000, help="Thin client port of the first node; the others take the next ones."
    ),
    agents: bool = typer.Option(True, help="Start an agent beside each node, which TensorFlow jobs need."),
    allow_scripts: bool = typer.Option(
        False,
        "--allow-scripts",
        help="Let the agents run scripts, for 'start' of this user: with a new key in the folder.",
    ),
    folder: Optional[Path] = typer.Option(
        None, help="Where logs and work files go; without it a temporary folder that is removed at the end."
    ),
    heap: int = typer.Option(512, min=256, help="Heap of each node, in MiB."),
    data: int = typer.Option(1024, min=64, help="Upper limit of each node's memory for data, in MiB."),
    full_speed: bool = typer.Option(
        False, "--full-speed", help="Let Java optimise fully: a slower start, more throughput after a while."
    ),
    detach: bool = typer.Option(
        False, "--detach", "-d", help="Return once it runs; end it with 'local down'."
    ),
) -> None:
    """Start a cluster. It runs until Ctrl-C and leaves nothing behind.

    The first start fetches Ignite (27 MB); later ones need no network.

    \b
      ignite-strategy local up
      ignite-strategy local up --nodes 4 --port 11800 --heap 1024
    """  # noqa: D301
    from ignite_strategy.cli import up as command

    if allow_scripts and not agents:
        raise InvalidArgumentError("--allow-scripts is about agents: leave out --no-agents")
    options = command.UpOptions(nodes, port, agents, folder, heap, data, full_speed, allow_scripts)
    if detach:
        command.run_detached(options)
    else:
        command.run_here(options)


@app.command()
def down(
    port: Optional[int] = _PORT,
    everything: bool = typer.Option(False, "--all", help="All local clusters."),
) -> None:
    """End a cluster, whichever terminal it runs in.

    \b
      ignite-strategy local down
      ignite-strategy local down --port 11800
    """  # noqa: D301
    from ignite_strategy.local import state

    for cluster in state.list_running() if everything else [state.find(port)]:
        state.stop(cluster)
        typer.echo(f"ended the cluster at port {cluster.port} ({len(cluster.addresses)} nodes)")


@app.command()
def status(port: Optional[int] = _PORT) -> None:
    """Show the nodes and caches of the clusters that run.

    \b
      ignite-strategy local status
    """  # noqa: D301
    from ignite_strategy.cli.tables import print_status
    from ignite_strategy.local import state

    running = state.list_running()
    for cluster in running if port is None and running else [state.find(port)]:
        print_status(cluster)


@app.command()
def sql(
    statement: str = typer.Argument(..., help="One statement; ? stands for an argument."),
    arguments: Optional[List[str]] = typer.Argument(
        None, help="Values for the question marks; numbers as numbers."
    ),
    port: Optional[int] = _PORT,
    address: Optional[str] = typer.Option(
        None, "--address", "-a", metavar="HOST:PORT", help="Any Ignite node, instead of a local cluster."
    ),
) -> None:
    """Run one SQL statement. In a pipe the answer is text with tabs, one row a line.

    \b
      ignite-strategy local sql 'SELECT label, COUNT(*) FROM DIGITS GROUP BY label'
      ignite-strategy local sql 'SELECT * FROM DIGITS WHERE k = ?' 7
      ignite-strategy local sql 'SELECT CONSISTENT_ID FROM SYS.NODES' --address ignite-0:10800
    """  # noqa: D301
    import contextlib

    from ignite_strategy.cli.tables import print_rows
    from ignite_strategy.local import state
    from ignite_strategy.topology import caches

    if not statement.strip():
        raise InvalidArgumentError('the statement is empty: try "SELECT * FROM SYS.NODES"')
    if address and port is not None:
        raise InvalidArgumentError(
            "--address has a port of its own: leave out --port, which names a local cluster"
        )
    addresses = [address] if address else state.find(port).addresses
    with contextlib.closing(caches.connect(addresses)) as client:
        print_rows(caches.sql(client, statement, [_number(text) for text in arguments or []]))


def _number(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
