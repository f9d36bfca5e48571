"""Ports: held from reservation until TensorFlow binds them, and probed."""

from __future__ import annotations

import socket
import time

from ignite_strategy.settings import Endpoint

__all__ = ["HeldPort", "is_reachable"]


class HeldPort:
    """A TCP port that is ours: bound with SO_REUSEPORT, but not listening.

    TensorFlow binds the same port beside us if ``TF_GRPC_REUSE_PORT=true`` is in its environment; until then nobody
    can connect (the kernel refuses), and no other program can take the port. Of several sockets only those that
    listen get connections, so holding on during the bind does no harm.
    """

    def __init__(self, port: int = 0) -> None:
        self._socket = _bind(port)
        self.port: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Gives up the port; whoever has bound it meanwhile keeps it."""
        self._socket.close()

    def __enter__(self) -> HeldPort:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def _bind(port: int) -> socket.socket:
    # gRPC listens on every interface, IPv6 with IPv4 mapped where there is IPv6: the reservation must cover both.
    if socket.has_ipv6:
        held = None
        try:
            held = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
            held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind(("::", port))
            return held
        except OSError:
            if held is not None:
                held.close()
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("", port))
    except OSError:
        held.close()
        raise
    return held


def is_reachable(endpoint: Endpoint, timeout: float) -> str | None:
    """Connects once.

    Returns:
      ``None`` when something listens there, else the reason in words.
    """
    until = time.monotonic() + timeout
    try:
        with socket.create_connection(endpoint, timeout=timeout):
            return None
    except socket.timeout:
        return f"no answer within {timeout:.1f} s"
    except OSError as error:
        return error.strerror or str(error) or f"failed after {timeout - (until - time.monotonic()):.1f} s"
