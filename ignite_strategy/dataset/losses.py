"""Data that a cache has lost: what this process knows of it, and how to say that all is well again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ignite_strategy import _core, library
from ignite_strategy.errors import IgniteStrategyError
from ignite_strategy.settings import Endpoint

if TYPE_CHECKING:
    from ignite_strategy.dataset.source import Source

__all__ = ["accept_data_loss", "owners"]


def accept_data_loss(cache_name: str) -> None:
    """Lets passes over a cache run again that has lost data: it was loaded again, or what is left will do.

    Once a node has left that kept the only copy of some rows, every pass over their partitions is a ``DataLossError``,
    in this process and in those that read its datasets: a server with Ignite's default settings would deliver the
    other rows as if they were all. Caches that this package creates or drops need no call.

    Args:
      cache_name: The cache.
    """
    _core.forget_owners(cache_name)
    library.forget_owners(cache_name)


def owners(cache: str, endpoint: Endpoint, source: Source) -> bytes:
    """Who owns the partitions now, for a pass that runs later or elsewhere; empty if the node cannot tell."""
    with contextlib.suppress(IgniteStrategyError):
        return _core.owners(
            endpoint.host,
            endpoint.port,
            cache,
            connect_timeout=source.timeouts.connect,
            request_timeout=source.timeouts.request,
            security=source.security.native(),
            env=source.env,
        )
    return b""
