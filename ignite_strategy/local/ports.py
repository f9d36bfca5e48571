"""Ports that stay ours from choosing them until the node that uses them has ended.

A Java process binds its ports itself, seconds after they were chosen, so they cannot be handed over as open sockets.
Instead they are taken outside the range that the kernel gives to outgoing connections, and each is claimed by a lock on
a file, which every cluster of this user honours and which ends with the process that holds it.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import BinaryIO

from ignite_strategy.errors import AlreadyExistsError, PreconditionError

__all__ = ["PortClaims", "is_free"]

_FIRST, _LAST = 11_000, 31_999


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether ``port`` can be bound right now."""
    with socket.socket() as probe:
        # As Java does: connections of an earlier run that linger in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)  # with SO_REUSEADDR only listening tells a taken port from a free one
        except OSError:
            return False
    return True


class PortClaims:
    """A set of claimed ports; the locks are inherited by the supervisor and end with the last of the two."""

    def __init__(self, folder: Path | None = None) -> None:
        # Not in the cache folder: two users, or two cache folders, share the ports of one host.
        self._folder = folder or Path(tempfile.gettempdir()) / f"ignite-strategy-ports-{os.getuid()}"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._files: dict[int, BinaryIO] = {}

    @property
    def descriptors(self) -> list[int]:
        """The file descriptors that hold the claims."""
        return [file.fileno() for file in self._files.values()]

    def claim(self, port: int) -> int:
        """Claims this very port.

        Raises:
          AlreadyExistsError: Somebody uses it.
        """
        if not self._take(port):
            raise AlreadyExistsError(
                f"port {port} of this host is in use: choose another one, or end what uses it"
            )
        return port

    def claim_any(self) -> int:
        """Claims some free port."""
        for port in random.sample(range(_FIRST, _LAST + 1), 500):
            if self._take(port):
                return port
        raise PreconditionError(f"no free port between {_FIRST} and {_LAST} on this host (500 were tried)")

    def release(self) -> None:
        """Gives all claims of this process up."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _take(self, port: int) -> bool:
        if port in self._files:
            return False
        file = (self._folder / str(port)).open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        if not is_free(port):
            file.close()
            return False
        self._files[port] = file
        return True
