"""What several commands ask for in the same words."""

from __future__ import annotations

from typing import Any

import typer

from ignite_strategy.settings import Endpoint

__all__ = ["ADDRESS", "ZOOKEEPER", "chosen_endpoints"]

ADDRESS: Any = typer.Option(
    None,
    "--address",
    "-a",
    metavar="HOST:PORT",
    help="Ignite nodes, with commas between them; one is enough. By default IGNITE_DATASET_HOST and _PORT, else "
    "localhost:10800.",
)
ZOOKEEPER: Any = typer.Option(
    None,
    "--zookeeper",
    metavar="HOST:PORT,.../PATH",
    envvar="IGNITE_STRATEGY_ZOOKEEPER",
    help="Where agents and clients meet, if not in a cache of the cluster.",
)


def chosen_endpoints(addresses: str | None) -> list[Endpoint]:
    """The nodes that an option names, or else the environment, as for a resolver."""
    from ignite_strategy.topology.arguments import client_endpoints

    return client_endpoints(addresses)
