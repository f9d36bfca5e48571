"""For the short examples: the node at --address HOST:PORT, or one that is started for as long as the example runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator

import ignite_strategy as igs
from ignite_strategy.errors import IgniteStrategyError
from ignite_strategy.settings import Endpoint, parse_endpoint

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@contextlib.contextmanager
def node(description: str | None) -> Iterator[Endpoint]:
    parser = argparse.ArgumentParser(description=(description or "").split("\n\n")[0])
    parser.add_argument(
        "--address", metavar="HOST:PORT", help="an Ignite node; without it one is started here"
    )
    options = parser.parse_args()
    try:
        if options.address:
            yield parse_endpoint(options.address)
        else:
            with igs.LocalCluster(nodes=1) as cluster:
                yield parse_endpoint(cluster.addresses[0])
    except IgniteStrategyError as error:
        sys.exit(f"{type(error).__name__}: {error}")
