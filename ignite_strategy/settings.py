"""Frozen value objects for endpoints, limits, TLS and credentials, and the process-wide default cluster.

Environment variables are read by the native parser (``native/wire/environment.h``), so that an op that runs in a task
and the Python code that reads the schema obey the same rules; :func:`dataset_environment` is its Python face.
"""

from __future__ import annotations

import contextlib
import functools
import numbers
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ignite_strategy.errors import InvalidArgumentError

__all__ = [
    "CLUSTER_PREFIXES",
    "DATASET_PREFIXES",
    "DEFAULT_PORT",
    "PLAIN",
    "Credentials",
    "Endpoint",
    "Security",
    "Timeouts",
    "Tls",
    "ZooKeeper",
    "checked_timeouts",
    "default_endpoints",
    "default_security",
    "format_endpoint",
    "on_default_cluster",
    "on_secrets",
    "parse_endpoint",
    "parse_endpoints",
    "security_for",
    "security_of",
    "use_default_endpoints",
]

DEFAULT_PORT = 10800
MAX_SECONDS = 1_000_000  # native/python/bindings.h has the same limit


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

    def __post_init__(self) -> None:
        for name in ("connect", "request"):
            value: Any = getattr(self, name)
            number = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if not number or not 0 < float(value) < MAX_SECONDS:
                raise InvalidArgumentError(
                    f"Timeouts({name}={value!r}): give seconds, more than 0 and less than {MAX_SECONDS:,}"
                )


def checked_timeouts(value: Any) -> Timeouts:
    """Returns limits on waiting, the default ones for ``None``."""
    if value is None:
        return Timeouts()
    if not isinstance(value, Timeouts):
        raise InvalidArgumentError(f"timeouts={value!r}: give Timeouts(connect=5, request=30), in seconds")
    return value


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
    """Parses a list of addresses, or one string with commas; nothing for ``None`` or an empty list.

    Raises:
      InvalidArgumentError: It is neither, or one of them is no address.
    """
    if addresses is None:
        return []
    if isinstance(addresses, str):
        addresses = [part for part in addresses.split(",") if part.strip()]
    given: Any = addresses  # whatever the annotation says
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise InvalidArgumentError(f"addresses={given!r}: give a list of texts, host:port")
    addresses = list(given)
    for address in addresses:
        if not isinstance(address, str):
            raise InvalidArgumentError(f"addresses={addresses!r}: {address!r} is not a text, host:port")
    return [parse_endpoint(address) for address in addresses]


def format_endpoint(endpoint: tuple[str, int]) -> str:
    """The inverse of :func:`parse_endpoint`.

    >>> format_endpoint(("fd00::5", 2222))
    '[fd00::5]:2222'
    """
    host, port = endpoint
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True)
class Tls:
    """How a connection is encrypted, and who may answer.

    TLS 1.2 or newer. The server's certificate must come from a trusted CA, be valid now, and be for the name or address
    that is connected to.

    Attributes:
      cafile: PEM file (or a folder of hashed certificates) of the trusted CAs; the system's own if not given.
      certfile: PEM file of this client's certificate and its chain, for servers that ask for one (``sslClientAuth``).
      keyfile: PEM file of its key; by default the key is in ``certfile``.
      cert_password: Password of an encrypted key.
      check_hostname: False = any name will do.
      verify: False = any certificate will do: whoever is between can read and change everything.
    """

    cafile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    cert_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    verify: bool = True

    def __post_init__(self) -> None:
        for name in ("cafile", "certfile", "keyfile"):
            value: Any = getattr(self, name)
            if value is not None and not isinstance(value, (str, os.PathLike)):
                raise InvalidArgumentError(f"{name}={value!r}: give the path of a PEM file")
            if value is not None and "\0" in os.fspath(value):
                raise InvalidArgumentError(f"{name}={value!r}: no path has a NUL in it")
        for name in ("check_hostname", "verify"):
            _check_truth(getattr(self, name), name)
        password: Any = self.cert_password
        if password is not None and not isinstance(password, str):
            raise InvalidArgumentError(f"cert_password= is of type {type(password).__name__} and not a text")


def _check_truth(value: Any, name: str) -> None:
    """A text is no truth value: "no" would be true."""
    if not isinstance(value, (bool, int)) or value not in (0, 1):
        raise InvalidArgumentError(f"{name}={value!r} is neither True nor False")


@dataclass(frozen=True)
class Credentials:
    """User and password of a cluster with ``authenticationEnabled``; neither is ever shown."""

    username: str = field(repr=False)
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        for name in ("username", "password"):
            value: Any = getattr(self, name)
            if not isinstance(value, str):  # never shown, whatever it is
                raise InvalidArgumentError(f"{name}= is of type {type(value).__name__} and not a text")


@dataclass(frozen=True)
class Security:
    """How a cluster is spoken to.

    Attributes:
      tls: ``None`` = plain text.
      credentials: ``None`` = no user.
    """

    tls: Tls | None = None
    credentials: Credentials | None = None

    def native(self) -> bytes:
        """What native code and graphs take: no secrets, but the key of their entry in this process's table.

        Raises:
          InvalidArgumentError: The settings contradict themselves.
        """
        return _native(self)


PLAIN = Security()


@dataclass(frozen=True)
class ZooKeeper:
    """Where client and agents meet instead of in an Ignite cache.

    Attributes:
      hosts: ``host:port,host:port/path``: the ensemble, and a path for this Ignite cluster (``/ignite-strategy``).
      security: TLS; user and password (ZooKeeper's ``digest``), which make the entries theirs alone. ``ZOOKEEPER_TLS``,
        ``ZOOKEEPER_CAFILE``, ``ZOOKEEPER_USERNAME`` and so on replace it.
    """

    hosts: str
    security: Security = PLAIN

    @staticmethod
    def of(given: str | ZooKeeper | None) -> ZooKeeper | None:
        """What an argument or, without one, ``IGNITE_STRATEGY_ZOOKEEPER`` says; nothing if neither does.

        Raises:
          InvalidArgumentError: It is neither a text nor a :class:`ZooKeeper`.
        """
        if given is None:
            given = os.environ.get("IGNITE_STRATEGY_ZOOKEEPER") or None
        if isinstance(given, str):
            return ZooKeeper(given)
        wrong: Any = given  # whatever the annotation says
        if wrong is not None and not isinstance(wrong, ZooKeeper):
            raise InvalidArgumentError(f"zookeeper={wrong!r}: give host:port,host:port/path")
        return given


# Variables with these prefixes replace settings, the first that is set: <PREFIX>TLS, _CAFILE, _CERTFILE, _KEYFILE,
# _CERT_PASSWORD, _VERIFY, _CHECK_HOSTNAME, _USERNAME, _PASSWORD.
DATASET_PREFIXES = ("IGNITE_DATASET_", "IGNITE_")
CLUSTER_PREFIXES = ("IGNITE_",)


def security_of(
    *,
    tls: bool | None = None,
    cafile: str | None = None,
    certfile: str | None = None,
    keyfile: str | None = None,
    cert_password: str | None = None,
    check_hostname: bool = True,
    verify: bool = True,
    username: str | None = None,
    password: str | None = None,
) -> Security | None:
    """Builds the settings from single arguments; ``None`` if none is given.

    A CA or a certificate switches TLS on; credentials do not.

    Raises:
      InvalidArgumentError: The arguments contradict themselves.
    """
    files = {"cafile": cafile, "certfile": certfile, "keyfile": keyfile}
    for name, truth in (("check_hostname", check_hostname), ("verify", verify)):
        _check_truth(truth, name)
    if tls is not None:
        _check_truth(tls, "tls")
    for name, value in files.items():
        if value is not None and (not isinstance(value, (str, os.PathLike)) or not os.fspath(value)):
            raise InvalidArgumentError(f"{name}={value!r}: give the path of a PEM file")
    paths = {name: None if value is None else os.fspath(value) for name, value in files.items()}
    secrets = {"username": username, "password": password, "cert_password": cert_password}
    for name, text in {**paths, **secrets}.items():
        if isinstance(text, str) and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InvalidArgumentError(f"{name}= has half of a character (a lone surrogate), and is no text")
    if (username is None) != (password is None):
        given, missing = ("username", "password") if password is None else ("password", "username")
        raise InvalidArgumentError(f"{given}= needs {missing}=")
    if keyfile is not None and certfile is None:
        raise InvalidArgumentError("keyfile= needs certfile=")
    if cert_password is not None and certfile is None:
        raise InvalidArgumentError("cert_password= needs certfile=")
    wanted = tls if tls is not None else cafile is not None or certfile is not None
    if not wanted and (cafile is not None or certfile is not None):
        raise InvalidArgumentError("tls=False contradicts cafile= and certfile=: leave out one of them")
    if not wanted and not (verify and check_hostname):
        raise InvalidArgumentError("verify= and check_hostname= say how TLS checks: give tls=True as well")
    credentials = None
    if username is not None and password is not None:
        credentials = Credentials(username, password)
    if not wanted:
        return None if credentials is None and tls is None else Security(None, credentials)
    return Security(
        Tls(cert_password=cert_password, check_hostname=check_hostname, verify=verify, **paths), credentials
    )


# Secrets, by the key that stands for them in graphs. They stay for the life of the process: a graph may be run later.
_SecretsListener = Callable[[str, "str | None", "str | None", "str | None"], None]
_secrets: dict[str, tuple[str | None, str | None, str | None]] = {}
_secrets_listeners: list[_SecretsListener] = []


@functools.cache  # equal settings share one entry
def _native(security: Security) -> bytes:
    from ignite_strategy import _core

    tls, credentials = security.tls, security.credentials
    username = credentials.username if credentials else None
    password = credentials.password if credentials else None
    cert_password = tls.cert_password if tls else None
    key = uuid.uuid4().hex
    settings = _core.security_settings(
        tls=tls is not None,
        verify=tls is None or tls.verify,
        check_hostname=tls is None or tls.check_hostname,
        cafile=tls.cafile if tls else None,
        certfile=tls.certfile if tls else None,
        keyfile=tls.keyfile if tls else None,
        username=username,
        password=password,
        cert_password=cert_password,
        key=key,
    )
    if username is not None or cert_password is not None:
        with _lock:
            _secrets[key] = (username, password, cert_password)
            for listener in _secrets_listeners:
                listener(key, username, password, cert_password)
    return settings


def on_secrets(listener: _SecretsListener) -> None:
    """Calls ``listener`` with every entry of the table of secrets, those that are there and those that come.

    For the other native library, which has a table of its own. An entry is its key, user name,
    password, and the password of a key file.
    """
    with _lock:
        _secrets_listeners.append(listener)
        for key, entry in _secrets.items():
            listener(key, *entry)


_lock = threading.Lock()
_defaults: list[tuple[tuple[Endpoint, ...], Security]] = []
_listeners: list[Callable[[tuple[Endpoint, ...], bytes], None]] = []


def default_endpoints() -> tuple[Endpoint, ...]:
    """The addresses of the innermost open resolver, or nothing.

    Process-wide rather than per thread, because TensorFlow calls ``input_fn`` in threads of its own.
    """
    with _lock:
        return _defaults[-1][0] if _defaults else ()


def default_security() -> Security:
    """How the innermost open resolver speaks to its nodes; plain text if there is none."""
    with _lock:
        return _defaults[-1][1] if _defaults else PLAIN


def security_for(endpoints: Sequence[Endpoint], given: Security | None) -> Security:
    """The settings for these nodes: those given, else the open resolver's if it speaks to one of them, else plain text.

    Its credentials go to no other node.
    """
    if given is not None:
        return given
    with _lock:
        if _defaults and not set(endpoints).isdisjoint(_defaults[-1][0]):
            return _defaults[-1][1]
    return PLAIN


@contextlib.contextmanager
def use_default_endpoints(endpoints: Sequence[Endpoint], security: Security = PLAIN) -> Iterator[None]:
    """Makes ``endpoints`` the ones that datasets and ``igfs:///`` paths without a host use, while the block runs."""
    mine = (tuple(endpoints), security)
    security.native()  # refuses what cannot be, and makes its entry before the lock is taken
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


def on_default_cluster(listener: Callable[[tuple[Endpoint, ...], bytes], None]) -> None:
    """Calls ``listener`` with the default endpoints and :meth:`Security.native`, now and whenever they change.

    For native code that keeps a copy of them. The listener must be quick and must not change them.
    """
    with _lock:
        _listeners.append(listener)
        _tell(listener)


def _notify() -> None:
    for listener in _listeners:
        _tell(listener)


def _tell(listener: Callable[[tuple[Endpoint, ...], bytes], None]) -> None:
    endpoints, security = _defaults[-1] if _defaults else ((), PLAIN)
    listener(endpoints, security.native() if security != PLAIN else b"")
