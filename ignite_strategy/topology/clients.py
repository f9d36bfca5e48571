"""pyignite's client with our rules: certificates and names are checked, credentials never switch TLS on, IPv6 works.

pyignite itself accepts any certificate unless told otherwise, never compares names, knows IPv4 only, and makes classes
whose source text has the names of fields in it.
"""

from __future__ import annotations

import keyword
import logging
import os
import socket
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ignite_strategy.errors import InvalidArgumentError, UnsupportedError
from ignite_strategy.settings import CLUSTER_PREFIXES, Credentials, Endpoint, Security, Tls, security_for
from ignite_strategy.topology import sql_dates

if TYPE_CHECKING:
    import ssl

__all__ = ["check_names", "open_client", "resolve", "tls_context"]


def open_client(
    endpoints: Sequence[Endpoint],
    *,
    connect_timeout: float = 5.0,
    request_timeout: float = 30.0,
    security: Security | None = None,
    prefixes: Sequence[str] = CLUSTER_PREFIXES,
) -> Any:
    """Connects a client to the first of the nodes that answers; it moves on to the others when that one goes.

    Args:
      endpoints: The nodes.
      connect_timeout: Limit on each handshake, in seconds.
      request_timeout: Limit on each request, in seconds.
      security: How to speak to them; by default as an open resolver does to these nodes. ``IGNITE_TLS``,
        ``IGNITE_USERNAME`` and so on replace it.
      prefixes: The prefixes of those variables.

    Returns:
      A connected ``pyignite.Client``.

    Raises:
      OSError: No node answers, or TLS fails; pyignite's own errors otherwise.
    """
    wanted = security_for(endpoints, security)
    tls, credentials = resolve(wanted, prefixes)
    # Without a handler of its own its logger prints the traceback of every refused connection.
    logging.getLogger("pyignite").addHandler(logging.NullHandler())
    sql_dates.register()
    # Not partition aware: then it talks to one node at a time, and that node knows what it was told before. Another
    # one may not know a cache yet that was created a moment ago.
    client = _client_class()(
        partition_aware=False,
        handshake_timeout=connect_timeout,
        timeout=request_timeout,
        username=credentials.username if credentials else None,
        password=credentials.password if credentials else None,
        use_ssl=False,  # it would switch it on by itself for a user; _Transport does it
    )
    client.security, client.prefixes = wanted, list(prefixes)
    client.tls_context = tls_context(tls) if tls else None
    client.connect([tuple(endpoint) for endpoint in endpoints]).__enter__()
    return client


def resolve(security: Security, prefixes: Sequence[str]) -> tuple[Tls | None, Credentials | None]:
    """TLS and credentials as the environment has them, where it says something, else as given.

    Raises:
      InvalidArgumentError: They contradict themselves.
    """
    from ignite_strategy import _core

    found: dict[str, Any] = dict(_core.resolve_security(security.native(), list(prefixes)) or {})
    credentials = None
    if found.get("username") is not None:
        credentials = Credentials(found["username"], found["password"])
    if not found.get("tls"):
        return None, credentials
    tls = Tls(
        cafile=found["cafile"] or None,
        certfile=found["certfile"] or None,
        keyfile=found["keyfile"] or None,
        cert_password=found["cert_password"],
        check_hostname=found["check_hostname"],
        verify=found["verify"],
    )
    return tls, credentials


def tls_context(tls: Tls) -> ssl.SSLContext:
    """A context of Python's ``ssl`` with the same rules as the native code's.

    Raises:
      InvalidArgumentError: A file cannot be used.
    """
    import ssl

    try:
        folder = tls.cafile is not None and os.path.isdir(tls.cafile)
        context = ssl.create_default_context(
            cafile=None if folder else tls.cafile, capath=tls.cafile if folder else None
        )
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = tls.verify and tls.check_hostname
        if not tls.verify:
            context.verify_mode = ssl.CERT_NONE
        if tls.certfile:
            context.load_cert_chain(tls.certfile, tls.keyfile, lambda: tls.cert_password or "")
    except (OSError, ValueError) as error:
        files = [file for file in (tls.cafile, tls.certfile, tls.keyfile) if file]
        raise InvalidArgumentError(f"TLS cannot be used with {', '.join(files)}: {error}") from error
    return context


class _Transport:
    """A socket that is made when it is connected: by name over IPv4 or IPv6, encrypted if there is a context."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._timeout: float | None = None
        self._socket: socket.socket | None = None

    def settimeout(self, timeout: float | None) -> None:
        self._timeout = timeout
        if self._socket is not None:
            self._socket.settimeout(timeout)

    def connect(self, address: tuple[str, int]) -> None:
        plain = socket.create_connection(address, self._timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = (
                plain
                if self._context is None
                else self._context.wrap_socket(plain, server_hostname=address[0])
            )
        except BaseException:
            plain.close()
            raise

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def __getattr__(self, name: str) -> Any:
        if self._socket is None:
            raise OSError("the connection is not open")
        return getattr(self._socket, name)


def check_names(type_name: str, fields: Iterable[str]) -> None:
    """Refuses names that would be code in the class that pyignite makes of an object.

    Whoever writes to a cache chooses them.

    Raises:
      UnsupportedError: A field's name is none in Python.
    """
    for name in fields:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UnsupportedError(
                f"objects of type {type_name!r} have a field {name!r}, which is no name in Python: "
                "ignite_strategy.read and ignite_strategy.write take any"
            )


_made: list[Any] = []


def _client_class() -> Any:
    """The subclass; made on first use, so that importing this module does not load pyignite."""
    if not _made:
        from pyignite import Client
        from pyignite.connection import Connection
        from pyignite.exceptions import ReconnectError

        class SecureConnection(Connection):  # type: ignore[misc]
            """Puts a transport of ours where pyignite puts a socket."""

            @property
            def _socket(self) -> Any:
                return self.__dict__.get("_transport")

            @_socket.setter
            def _socket(self, value: Any) -> None:
                if isinstance(value, socket.socket):
                    value.close()
                    value = _Transport(self.client.tls_context)
                self.__dict__["_transport"] = value

        class SecureClient(Client):  # type: ignore[misc]
            """Opens such connections."""

            tls_context: ssl.SSLContext | None = None
            security: Security
            prefixes: list[str]

            def _connect(self, nodes: Sequence[tuple[str, int]]) -> None:
                self._nodes.extend(
                    SecureConnection(self, host, port, **self._connection_args) for host, port in nodes
                )
                failure: Exception = ReconnectError("Can not connect.")
                for index, node in enumerate(self._nodes):
                    try:
                        node.connect()
                    except OSError as error:
                        failure = error
                        continue
                    self._current_node = index
                    return
                raise failure

            @staticmethod
            def _create_dataclass(type_name: str, schema: Any = None) -> Any:
                check_names(type_name, schema or ())
                return Client._create_dataclass(type_name, schema)

        _made.append(SecureClient)
    return _made[0]
