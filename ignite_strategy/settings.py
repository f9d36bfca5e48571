"""Frozen value objects for endpoints and limits, and the process-wide default cluster.

Environment variables are read by the native parser (``native/wire/environment.h``), so that an op that runs in a task
and the Python code that reads the schema obey the same rules; :func:`dataset_environment` is its Python face.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ignite_strategy.errors import InvalidArgumentError

__all__ = [
    "DEFAULT_PORT",
    "Endpoint",
    "Timeouts",
    "default_endpoints",
    "format_endpoint",
    "on_default_endpoints",
    "parse_endpoint",
    "parse_endpoints",
    "use_default_endpoints",
]

DEFAULT_PORT = 10800


class Endpoint(NamedTuple):
    """A host name or address and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return format_endpoint(self)


@dataclass(frozen=True)
class Timeouts:
    """Limits on waiting, in seconds; finite by default.

    Attributes:
      connect: Name lookup, TCP connection and handshake together.
      request: One request until its response is complete.
    """

    connect: float = 5.0
    request: float = 30.0


def parse_endpoint(text: str, default_port: int = DEFAULT_PORT) -> Endpoint:
    """Splits ``host``, ``host:port``, ``[v6]`` or ``[v6]:port``.

    >>> parse_endpoint("ignite-0")
    Endpoint(host='ignite-0', port=10800)
    >>> parse_endpoint("[fd00::5]:2222")
    Endpoint(host='fd00::5', port=2222)

    Raises:
      InvalidArgumentError: The text is none of these; an IPv6 address needs brackets.
    """
    match = re.fullmatch(r"\[([0-9A-Fa-f:.%\w]+)\](?::(\d+))?|([^\s:\[\]/@]+)(?::(\d+))?", text.strip())
    if not match:
        hint = " (write an IPv6 address in brackets: [::1]:10800)" if text.count(":") > 1 else ""
        raise InvalidArgumentError(f"not an address of the form host:port: {text!r}{hint}")
    host = match[1] or match[3]
    port = int(match[2] or match[4] or default_port)
    if not 0 < port < 65536:
        raise InvalidArgumentError(f"the port in {text!r} is not between 1 and 65535")
    return Endpoint(host, port)


def parse_endpoints(addresses: str | Sequence[str] | None) -> list[Endpoint]:
    """Parses a list of addresses, or one string with commas; nothing for ``None`` or an empty list."""
    if addresses is None:
        return []
    if isinstance(addresses, str):
        addresses = [part for part in addresses.split(",") if part.strip()]
    return [parse_endpoint(address) for address in addresses]


def format_endpoint(endpoint: tuple[str, int]) -> str:
    """The inverse of :func:`parse_endpoint`.

    >>> format_endpoint(("fd00::5", 2222))
    '[fd00::5]:2222'
    """
    host, port = endpoint
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_lock = threading.Lock()
_defaults: list[tuple[Endpoint, ...]] = []
_listeners: list[Callable[[tuple[Endpoint, ...]], None]] = []


def default_endpoints() -> tuple[Endpoint, ...]:
    """The addresses of the innermost open resolver, or nothing.

    Process-wide rather than per thread, because TensorFlow calls ``input_fn`` in threads of its own.
    """
    with _lock:
        return _defaults[-1] if _defaults else ()


@contextlib.contextmanager
def use_default_endpoints(endpoints: Sequence[Endpoint]) -> Iterator[None]:
    """Makes ``endpoints`` the ones that datasets and ``igfs:///`` paths without a host use, while the block runs."""
    mine = tuple(endpoints)
    with _lock:
        _defaults.append(mine)
        _notify()
    try:
        yield
    finally:
        with _lock:
            for at in range(len(_defaults) - 1, -1, -1):
                if _defaults[at] is mine:
                    del _defaults[at]
                    break
            _notify()


def on_default_endpoints(listener: Callable[[tuple[Endpoint, ...]], None]) -> None:
    """Calls ``listener`` with the default endpoints now and whenever they change.

    For native code that keeps a copy of them. The listener must be quick and must not change them.
    """
    with _lock:
        _listeners.append(listener)
        listener(_defaults[-1] if _defaults else ())


def _notify() -> None:
    for listener in _listeners:
        listener(_defaults[-1] if _defaults else ())
