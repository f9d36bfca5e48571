"""Frees what nobody needs any more of the file systems on a cluster, beside an agent.

Processes that use ``igfs://`` do so by the way, but many end before anything is due.
"""

from __future__ import annotations

import logging
import threading

from ignite_strategy.errors import IgniteStrategyError
from ignite_strategy.settings import Endpoint
from ignite_strategy.topology.nodes import cache_names, connect, list_nodes

__all__ = ["Janitor"]

_PREFIX, _SUFFIX = "igfs-", "-tree"
_JOIN_SECONDS = 3.0
_log = logging.getLogger(__name__)


class Janitor:
    """A thread that looks through every file system now and then.

    Args:
      node: The Ignite node.
      every: Seconds between two looks of all agents together: each agent waits that long times the number of nodes.
    """

    def __init__(self, node: Endpoint, every: float = 30.0) -> None:
        self._node = node
        self._every = every
        self._stop = threading.Event()
        # A daemon: at the end of the process nobody waits for a cluster that does not answer.
        self._thread = threading.Thread(target=self._run, name="igfs-janitor", daemon=True)

    def __enter__(self) -> Janitor:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        pause = self._every
        while not self._stop.wait(pause):
            try:
                pause = self._every * self._look()
            except IgniteStrategyError as error:
                _log.info("the file systems of %s are looked through later: %s", self._node, error)

    def _look(self) -> int:
        """Returns the number of nodes."""
        from ignite_strategy.filesystem import FileSystem

        connection = connect([self._node])
        try:
            names = cache_names(connection)
            _, nodes = list_nodes(connection)
        finally:
            connection.close()
        for name in names:
            if name.startswith(_PREFIX) and name.endswith(_SUFFIX) and not self._stop.is_set():
                system = name[len(_PREFIX) : -len(_SUFFIX)]
                try:
                    FileSystem(self._node.host, self._node.port, system, backend="caches").tend()
                except IgniteStrategyError as error:  # the others are not to wait for it
                    _log.info("the file system %s is looked through later: %s", system, error)
        return max(1, len(nodes))
