"""What several commands ask for in the same words."""

from __future__ import annotations

import os
from typing import Any

import typer

from ignite_strategy.settings import Endpoint, parse_endpoints

__all__ = ["ADDRESS", "ZOOKEEPER", "chosen_endpoints"]

ADDRESS: Any = typer.Option(
    None,
    "--address",
    "-a",
    metavar="HOST:PORT",
    help="Ignite nodes, with commas between them; one is enough. By default IGNITE_DATASET_HOST and _PORT, else "
    "the cluster of 'local up', else localhost:10800.",
)
ZOOKEEPER: Any = typer.Option(
    None,
    "--zookeeper",
    metavar="HOST:PORT,.../PATH",
    envvar="IGNITE_STRATEGY_ZOOKEEPER",
    help="Where agents and clients meet, if not in a cache of the cluster.",
)


def chosen_endpoints(addresses: str | None) -> list[Endpoint]:
    """The nodes that an option names, or else the environment, or a local cluster if there is just one."""
    from ignite_strategy.local import state
    from ignite_strategy.topology.arguments import client_endpoints

    if addresses is None and not any(os.environ.get(f"IGNITE_DATASET_{name}") for name in ("HOST", "PORT")):
        running = state.list_running()
        if len(running) == 1:
            return parse_endpoints(running[0].addresses)
    return client_endpoints(addresses)
