"""One ZooKeeper session through kazoo, with limits on every wait and certificates checked as everywhere here."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kazoo import exceptions, security
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.retry import KazooRetry

from ignite_strategy.runtime.registry.patience import PassingError
from ignite_strategy.settings import Security
from ignite_strategy.topology.clients import resolve, tls_context

__all__ = ["Found", "RefusedError", "ServerSaysError", "Session"]

# The variables ZOOKEEPER_TLS, ZOOKEEPER_CAFILE, ZOOKEEPER_USERNAME and so on.
_PREFIXES = ("ZOOKEEPER_",)
# A host that does not answer within this is left for the next one.
_CONNECT_SECONDS = 3.0
# What an orderly end may take; after it the session ends by its own time.
_CLOSE_SECONDS = 0.5
_PARENT_ATTEMPTS = 20


class RefusedError(Exception):
    """User, password, certificate or ACL."""


class ServerSaysError(Exception):
    """Anything else that ZooKeeper answers."""


@dataclass(frozen=True)
class Found:
    """A node.

    Attributes:
      text: Its data; ``None`` for a folder.
      version: Of the data.
      owner: The session with which it ends, 0 if it stays.
    """

    text: str | None
    version: int
    owner: int


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Opens connections with our rules: kazoo's own TLS trusts the system's CAs beside the ones that are given."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self.context = context
        self.refusal: ssl.SSLError | None = None

    def create_connection(self, address: tuple[str, int], hostname: str, timeout: float, **_: Any) -> Any:
        plain = socket.create_connection(address, min(timeout, _CONNECT_SECONDS))
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context is None:
                return plain
            encrypted = self.context.wrap_socket(plain, server_hostname=hostname)
            self.refusal = None
            return encrypted
        except ssl.SSLError as error:
            plain.close()
            self.refusal = error
            raise
        except BaseException:
            plain.close()
            raise


class Session:
    """A session, begun in the background and renewed by kazoo when it has ended.

    Args:
      hosts: ``host:port,host:port``.
      how: TLS, user and password.
      seconds: How long ZooKeeper keeps the session without a sign of this process.
    """

    def __init__(self, hosts: str, how: Security, seconds: float) -> None:
        # Its log repeats every lost connection at once, with a traceback.
        logger = logging.getLogger("ignite_strategy.kazoo")
        logger.setLevel(logging.CRITICAL)
        tls, credentials = resolve(how, _PREFIXES)
        self._handler = _Handler(tls_context(tls) if tls else None)
        self._client = KazooClient(
            hosts=hosts,
            timeout=seconds,
            handler=self._handler,
            logger=logger,
            auth_data=[("digest", f"{credentials.username}:{credentials.password}")] if credentials else None,
            # Those who have the password, else everybody.
            default_acl=security.CREATOR_ALL_ACL if credentials else security.OPEN_ACL_UNSAFE,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0, sleep_func=time.sleep),
        )
        self._limit = threading.local()  # until when the operation of this thread may wait
        self._closed = False
        self._live = self._client.start_async()

    @property
    def id(self) -> int:
        """The session's number, which the nodes that end with it name as their owner."""
        known = self._client.client_id
        return int(known[0]) if known else 0

    def wait(self, until: float) -> None:
        """Waits until the session is there; every wait of this thread that follows is limited by ``until`` too."""
        self._limit.until = until
        while not self._live.wait(min(0.1, max(0.0, until - time.monotonic()))):
            if self._handler.refusal is not None:
                reason = getattr(self._handler.refusal, "verify_message", "") or self._handler.refusal
                raise RefusedError(f"TLS failed: {reason}")
            if self._client.client_state == "AUTH_FAILED":
                raise RefusedError("user or password is refused")
            if self._closed or time.monotonic() >= until:
                raise PassingError("no connection")

    def close(self) -> None:
        """Ends the session; returns soon, whatever state it is in."""
        self._closed = True
        # kazoo waits for its own threads, which may be waiting for a host that does not answer.
        ending = threading.Thread(target=self._end, name="zookeeper-close", daemon=True)
        ending.start()
        ending.join(_CLOSE_SECONDS)

    def _end(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception as error:
            logging.getLogger(__name__).debug("closing a ZooKeeper session: %s", error)

    # Nodes.

    def read(self, path: str) -> Found | None:
        """A node, ``None`` if there is none."""
        try:
            data, stat = self._answer(self._client.get_async(path))
        except exceptions.NoNodeError:
            return None
        return Found(_text(data), stat.version, stat.ephemeralOwner)

    def read_all(self, keys: Iterable[str], path: Callable[[str], str]) -> dict[str, str]:
        """The texts of those keys that have one, asked for together."""
        asked = [(key, self._client.get_async(path(key))) for key in keys]
        texts = {}
        for key, answer in asked:
            try:
                text = _text(self._answer(answer)[0])
            except exceptions.NoNodeError:
                continue
            if text is not None:
                texts[key] = text
        return texts

    def children(self, path: str) -> list[str]:
        """The names below a node; none if it is not there."""
        try:
            return list(self._answer(self._client.get_children_async(path)))
        except exceptions.NoNodeError:
            return []

    def create(
        self, path: str, data: bytes, ephemeral: bool = False, instead_of: Found | None = None
    ) -> bool:
        """Creates a node and the folders above it; whether it was not there, or still what it is put in place of."""
        for _ in range(_PARENT_ATTEMPTS):
            if instead_of is not None:
                return self._replace(path, data, ephemeral, instead_of)
            try:
                self._answer(self._client.create_async(path, data, ephemeral=ephemeral))
                return True
            except exceptions.NodeExistsError:
                return False
            except exceptions.NoNodeError:
                # Another process may remove an empty folder in this very moment.
                self._answer(self._client.ensure_path_async(path.rpartition("/")[0]))
        raise ServerSaysError(f"the folder of {path} was removed {_PARENT_ATTEMPTS} times in a row")

    def _replace(self, path: str, data: bytes, ephemeral: bool, old: Found) -> bool:
        transaction = self._client.transaction()
        transaction.delete(path, old.version)
        transaction.create(path, data, acl=self._client.default_acl, ephemeral=ephemeral)
        results = self._answer(transaction.commit_async())
        failed = [result for result in results if isinstance(result, Exception)]
        for result in failed:
            if isinstance(result, exceptions.NoAuthError):
                raise RefusedError(_NOT_OURS)
        return not failed

    def set(self, path: str, data: bytes, version: int = -1) -> bool:
        """Replaces a node's data; whether it was there in that version."""
        return self._is_done(self._client.set_async(path, data, version))

    def delete(self, path: str, version: int = -1) -> bool:
        """Removes a node; whether it was there in that version."""
        try:
            return self._is_done(self._client.delete_async(path, version))
        except exceptions.NotEmptyError:
            return self.set(path, b"", version)  # a folder as well

    def delete_folder(self, path: str) -> None:
        """Removes a folder if nothing is in it."""
        found = self.read(path)
        if found is not None and found.text is None:
            with contextlib.suppress(exceptions.NotEmptyError):
                self._is_done(self._client.delete_async(path, found.version))

    def _is_done(self, answer: Any) -> bool:
        try:
            self._answer(answer)
            return True
        except (exceptions.NoNodeError, exceptions.BadVersionError):
            return False

    def _answer(self, answer: Any) -> Any:
        try:
            return answer.get(timeout=max(0.05, self._limit.until - time.monotonic()))
        except (
            exceptions.NoNodeError,
            exceptions.NodeExistsError,
            exceptions.BadVersionError,
            exceptions.NotEmptyError,
        ):
            raise
        except (exceptions.NoAuthError, exceptions.InvalidACLError) as error:
            raise RefusedError(_NOT_OURS) from error
        except exceptions.AuthFailedError as error:
            raise RefusedError("user or password is refused") from error
        except (
            exceptions.ConnectionLoss,
            exceptions.SessionExpiredError,
            exceptions.ConnectionClosedError,
            exceptions.OperationTimeoutError,
            exceptions.SessionMovedError,
            KazooTimeoutError,
        ) as error:
            raise PassingError(f"{type(error).__name__} {error}".strip()) from error
        except exceptions.ZookeeperError as error:
            raise ServerSaysError(f"{type(error).__name__} {error}".strip()) from error


_NOT_OURS = "not allowed: the entries there belong to another user (see ZOOKEEPER_USERNAME and _PASSWORD)"


def _text(data: bytes) -> str | None:
    return data.decode("utf-8", "replace") if data else None
