"""The registry in ZooKeeper, through kazoo: leases are ephemeral nodes, which also end with their holder's session.

An entry is a node whose data is its text; a folder is one without data. Whoever creates them with user and password
is the only one who may read or change them (ACL ``auth``).
"""

from __future__ import annotations

import contextlib
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ignite_strategy.errors import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidArgumentError,
    PreconditionError,
    ServerError,
)
from ignite_strategy.runtime.registry.patience import try_until
from ignite_strategy.runtime.registry.store import StoreRegistry
from ignite_strategy.settings import PLAIN, Security, ZooKeeper, format_endpoint, parse_endpoint

if TYPE_CHECKING:
    from ignite_strategy.runtime.registry.zookeeper_client import Session

__all__ = ["DEFAULT_PATH", "ZooKeeperRegistry", "check", "parse_hosts"]

DEFAULT_PORT = 2181
DEFAULT_PATH = "/ignite-strategy"
# ZooKeeper's own limit for a node (jute.maxbuffer) is 1 MiB with everything around it: it answers a larger request by
# closing the connection, which says nothing.
_MOST_BYTES = 1_000_000
_ATTEMPTS = 100
_Result = TypeVar("_Result")


def parse_hosts(text: str) -> tuple[str, str]:
    """Splits ``host:port,host:port/path`` as ZooKeeper's clients write it.

    >>> parse_hosts("zk-0,zk-1:2182/training")
    ('zk-0:2181,zk-1:2182', '/training')

    Returns:
      The hosts, each with its port, and the path below which everything is; ``/ignite-strategy`` if there is none.

    Raises:
      InvalidArgumentError: It is none of these.
    """
    given: object = text
    if not isinstance(given, str) or not text.strip():
        raise InvalidArgumentError(f"zookeeper={given!r}: give host:port,host:port/path")
    hosts, slash, path = text.strip().partition("/")
    endpoints = [parse_endpoint(part, DEFAULT_PORT) for part in hosts.split(",")]
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") for part in parts) or parts[:1] == ["zookeeper"]:
        raise InvalidArgumentError(f"zookeeper={text!r}: {slash}{path} is no path for entries of ours")
    base = "/" + "/".join(map(_quoted, parts)) if parts else DEFAULT_PATH
    return ",".join(map(format_endpoint, endpoints)), base


def check(zookeeper: ZooKeeper) -> None:
    """Refuses what cannot be used, before anything starts.

    Raises:
      InvalidArgumentError: The hosts or the security contradict themselves.
      PreconditionError: kazoo is not installed.
    """
    parse_hosts(zookeeper.hosts)
    zookeeper.security.native()
    try:
        import kazoo  # noqa: F401
    except ImportError as error:
        raise PreconditionError(
            "zookeeper= needs kazoo, which is not installed: pip install 'ignite-strategy[zookeeper]'"
        ) from error


class ZooKeeperRegistry(StoreRegistry):
    """Entries as nodes of a ZooKeeper ensemble.

    Args:
      hosts: ``host:port,host:port/path``. One path for each Ignite cluster.
      timeout: Limit of one operation, reconnecting included, in seconds.
      clock: Monotonic seconds.
      security: TLS; user and password (scheme ``digest``). ``ZOOKEEPER_TLS``, ``ZOOKEEPER_CAFILE``,
        ``ZOOKEEPER_USERNAME`` and so on replace it.
      session: After so many seconds without a sign of this process ZooKeeper ends its session, and its leases with it;
        the server may insist on another time (its ``minSessionTimeout``).

    Raises:
      InvalidArgumentError: ``hosts`` cannot be understood.
      PreconditionError: kazoo is not installed.
    """

    def __init__(
        self,
        hosts: str,
        timeout: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        security: Security = PLAIN,
        session: float = 6.0,
    ) -> None:
        super().__init__(clock)
        check(ZooKeeper(hosts, security))
        self._hosts, self._base = parse_hosts(hosts)
        self._security = security
        self._seconds = session
        self.timeout = timeout
        self._mutex = threading.Lock()
        self._session: Session | None = None
        self._closed = False

    # What the store asks for.

    def _read(self, keys: list[str]) -> dict[str, str]:
        if not keys:
            return {}
        return self._do("reading", keys[0], lambda session: session.read_all(keys, self._path))

    def _texts_below(self, folder: str) -> dict[str, str]:
        def look(session: Session) -> dict[str, str]:
            names = session.children(self._path(folder))
            return session.read_all([f"{folder}/{urllib.parse.unquote(name)}" for name in names], self._path)

        return self._do("listing", folder, look)

    def _write(self, key: str, text: str) -> None:
        data, path = _data(key, text), self._path(key)

        def write(session: Session) -> bool:
            found = session.read(path)
            return session.create(path, data) if found is None else session.set(path, data)

        self._until_done("writing", key, write)

    def _swap(self, key: str, expected: str | None, text: str | None) -> bool:
        path = self._path(key)
        data = None if text is None else _data(key, text)
        tries = 0

        def swap(session: Session) -> bool:
            nonlocal tries
            tries += 1
            found = session.read(path)
            current = found.text if found else None
            if tries > 1 and current == text:
                return True  # the connection broke after the server had done it
            if current != expected:
                return False
            if found is None:
                return data is None or session.create(path, data)
            if data is None:
                return session.delete(path, found.version)
            return session.set(path, data, found.version)

        done = self._do("changing", key, swap)
        if done and text is None:
            self._tidy(key)
        return done

    def _begin(self, key: str, expected: str | None, text: str) -> bool:
        data, path = _data(key, text), self._path(key)

        def begin(session: Session) -> bool:
            found = session.read(path)
            current = found.text if found else None
            if current == text:
                if found is not None and found.owner == session.id:
                    return True  # the connection broke after the server had done it
            elif current != expected:
                return False
            # A node ends with the session that created it, whoever writes to it later: an ended lease's is replaced.
            return session.create(path, data, ephemeral=True, instead_of=found)

        return self._do("taking", key, begin)

    def _remove(self, key: str) -> bool:
        found = self._do("removing", key, lambda session: session.delete(self._path(key)))
        if found:
            self._tidy(key)
        return found

    def close(self) -> None:
        """See the contract; the session ends, and with it the leases of this registry."""
        with self._mutex:
            self._closed = True
            session, self._session = self._session, None
        if session is not None:
            session.close()

    # Inside.

    def _tidy(self, key: str) -> None:
        """Removes the folder of an entry that is gone, if it was the last one."""
        folder = key.rpartition("/")[0]
        if folder:
            with contextlib.suppress(ServerError, ConnectionFailedError):  # of no consequence
                self._do("tidying", folder, lambda session: session.delete_folder(self._path(folder)))

    def _until_done(self, doing: str, key: str, step: Callable[[Session], bool]) -> None:
        """Repeats a step that another process may come before."""
        for _ in range(_ATTEMPTS):
            if self._do(doing, key, step):
                return
        raise ServerError(f"{self._where(doing, key)}: others changed it {_ATTEMPTS} times in a row")

    def _do(self, doing: str, key: str, operation: Callable[[Session], _Result]) -> _Result:
        from ignite_strategy.runtime.registry import zookeeper_client as client

        where = self._where(doing, key)

        def attempt(until: float) -> _Result:
            try:
                return operation(self._connected(doing, key, until))
            except client.RefusedError as error:
                raise AuthenticationError(f"{where}: {error}") from error
            except client.ServerSaysError as error:
                raise ServerError(f"{where}: {error}") from error

        return try_until(
            self.timeout,
            attempt,
            lambda: self._closed,
            lambda failure: f"{where}: no answer within {self.timeout:.0f} s: {failure}",
        )

    def _connected(self, doing: str, key: str, until: float) -> Session:
        from ignite_strategy.runtime.registry.zookeeper_client import Session

        with self._mutex:
            if self._closed:
                raise ConnectionFailedError(f"the registry is closed; it was asked for {doing} {key!r}")
            if self._session is None:
                self._session = Session(self._hosts, self._security, self._seconds)
            session = self._session
        session.wait(until)
        return session

    def _where(self, doing: str, key: str) -> str:
        return f"ZooKeeper at {self._hosts}{self._base} while {doing} registry entry {key!r}"

    def _path(self, key: str) -> str:
        return f"{self._base}/" + "/".join(map(_quoted, key.split("/")))


def _quoted(part: str) -> str:
    """A name that ZooKeeper takes: it refuses control characters and some others, and names of dots alone."""
    return part.replace(".", "%2E") if part in (".", "..") else urllib.parse.quote(part, safe=" :@+=,")


def _data(key: str, text: str) -> bytes:
    data = text.encode()
    if len(data) > _MOST_BYTES:
        raise InvalidArgumentError(
            f"registry entry {key!r} has {len(data):,} bytes, and ZooKeeper takes {_MOST_BYTES:,} at the most"
        )
    return data
