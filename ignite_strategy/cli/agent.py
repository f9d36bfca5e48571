"""``ignite-strategy agent``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Optional

import typer

from ignite_strategy.errors import InvalidArgumentError

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def agent(
    node: str = typer.Option("localhost:10800", metavar="HOST:PORT", help="The Ignite node of this host."),
    folder: Optional[Path] = typer.Option(None, help="Where logs go."),
    advertise: Optional[str] = typer.Option(
        None, metavar="HOST", help="The address under which tasks are reached, if the node's own do not do."
    ),
    zookeeper: Optional[str] = typer.Option(
        None,
        metavar="HOST:PORT,.../PATH",
        envvar="IGNITE_STRATEGY_ZOOKEEPER",
        help="Meet clients in ZooKeeper instead of an Ignite cache; they need zookeeper= with the same text.",
    ),
    gpus: Optional[str] = typer.Option(
        None,
        metavar="LIST",
        help="GPUs that tasks may use: 0,1 or none. By default those of CUDA_VISIBLE_DEVICES, or all of this host. "
        "Each is given to one task at most.",
    ),
    allow_scripts: bool = typer.Option(
        False,
        "--allow-scripts",
        help="Run users' scripts, too, for whoever signs with the key of --key-file.",
    ),
    key_file: Optional[Path] = typer.Option(
        None, envvar="IGNITE_STRATEGY_KEY_FILE", help="The key, as 'ignite-strategy key' makes it."
    ),
    die_with: Optional[int] = typer.Option(
        None, hidden=True, metavar="PID", help="End with this parent process."
    ),
) -> None:
    """Run TensorFlow tasks beside one Ignite node, for whoever starts a job.

    Runs until SIGTERM or Ctrl-C, which end its tasks too. When the node goes, its tasks are stopped and the agent waits
    for it to come back. With --allow-scripts whoever has the key can run any program here, with this agent's rights.

    \b
      ignite-strategy agent --node localhost:10800
      ignite-strategy agent --node localhost:10800 --zookeeper zk-0:2181,zk-1:2181/training
      ignite-strategy agent --node localhost:10800 --allow-scripts --key-file /etc/ignite-strategy.key
    """  # noqa: D301
    from ignite_strategy.runtime.agent import serve

    if allow_scripts and key_file is None:
        raise InvalidArgumentError("--allow-scripts needs --key-file: 'ignite-strategy key FILE' makes one")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s agent: %(message)s")
    serve(node, folder, advertise, die_with, zookeeper, gpus, key_file if allow_scripts else None)
