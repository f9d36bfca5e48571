"""The registry as an Ignite cache: REPLICATED, FULL_SYNC, texts only. It needs nothing beside the cluster itself."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ignite_strategy.errors import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidArgumentError,
    ServerError,
)
from ignite_strategy.runtime.registry.patience import PassingError, try_until
from ignite_strategy.runtime.registry.store import IndexedRegistry
from ignite_strategy.settings import Endpoint, Security, security_for
from ignite_strategy.topology.clients import open_client

__all__ = ["CACHE_NAME", "IgniteRegistry"]

CACHE_NAME = "igs-registry"
# A node that does not answer within this is left for the next one.
_ANSWER_SECONDS = 3.0
_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


class IgniteRegistry(IndexedRegistry):
    """Entries in a cache, through pyignite.

    It talks to one node at a time and moves on to the next address when that one is gone.

    Args:
      endpoints: Nodes, in the order to try them.
      timeout: Limit of one operation, reconnecting included, in seconds.
      clock: Monotonic seconds.
      security: TLS, user and password; by default as :func:`ignite_strategy.topology.connect` has it.

    Raises:
      ConnectionFailedError: No node answers (on the first operation).
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        timeout: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        security: Security | None = None,
    ) -> None:
        super().__init__(clock)
        if not endpoints:
            raise InvalidArgumentError("the registry needs the address of at least one Ignite node")
        self._endpoints = list(dict.fromkeys(endpoints))
        self._security = security_for(self._endpoints, security)
        self.timeout = timeout
        self._mutex = threading.RLock()
        self._client: Any = None
        self._cache: Any = None
        self._closed = False

    def use_endpoints(self, endpoints: Sequence[Endpoint]) -> None:
        """Adds nodes to move on to, after those that are known."""
        with self._mutex:
            self._endpoints = list(dict.fromkeys([*self._endpoints, *endpoints]))

    def _read(self, keys: list[str]) -> dict[str, str]:
        if not keys:
            return {}
        if len(keys) == 1:
            text = self._do("reading", keys[0], lambda cache: cache.get(keys[0]))
            return {} if text is None else {keys[0]: text}
        return dict(self._do("reading", keys[0], lambda cache: cache.get_all(keys)))

    def _write(self, key: str, text: str) -> None:
        self._do("writing", key, lambda cache: cache.put(key, text))

    def _swap(self, key: str, expected: str | None, text: str | None) -> bool:
        tries = 0

        def swap(cache: Any) -> bool:
            nonlocal tries
            tries += 1
            if tries > 1 and cache.get(key) == text:
                return True  # the connection broke after the server had done it
            if expected is None:
                return bool(cache.put_if_absent(key, text))
            if text is None:
                return bool(cache.remove_if_equals(key, expected))
            return bool(cache.replace_if_equals(key, expected, text))

        return self._do("changing", key, swap)

    def _remove(self, key: str) -> bool:
        return bool(self._do("removing", key, lambda cache: cache.remove_key(key)))

    def close(self) -> None:
        """See the contract."""
        self._closed = True
        # Not waiting for an operation in another thread: closing its socket ends it.
        self._disconnect()

    def _do(self, doing: str, key: str, operation: Callable[[Any], _Result]) -> _Result:
        from pyignite.exceptions import CacheError, ParseError, ReconnectError

        def attempt(until: float) -> _Result:
            try:
                with self._mutex:
                    return operation(self._connected(doing, key, until))
            except CacheError as error:
                self._disconnect()
                if not _is_passing(str(error)):
                    raise ServerError(
                        f"{self._where()}: {error} while {doing} registry entry {key!r}"
                    ) from error
                raise PassingError(str(error)) from error
            except (OSError, ReconnectError, ParseError) as error:
                self._disconnect()
                raise PassingError(str(error)) from error

        return try_until(
            self.timeout,
            attempt,
            lambda: self._closed,
            lambda failure: (
                f"no answer from Ignite at {self._where()} within {self.timeout:.0f} s "
                f"while {doing} registry entry {key!r}: {failure}"
            ),
        )

    def _connected(self, doing: str, key: str, until: float) -> Any:
        if self._closed:
            raise ConnectionFailedError(f"the registry is closed; it was asked for {doing} {key!r}")
        if self._cache is None:
            self._cache = self._connect(until)
        return self._cache

    def _connect(self, until: float) -> Any:
        import pyignite
        from pyignite.exceptions import AuthenticationError as Refused

        # Its log repeats, with a traceback, every error that it also raises.
        logging.getLogger("pyignite.connection").setLevel(logging.CRITICAL)
        failure: Exception = ConnectionFailedError(f"time is up before {self._where()} was tried")
        for endpoint in list(self._endpoints):
            left = until - time.monotonic()
            if left <= 0:
                break
            limit = max(0.5, min(left, _ANSWER_SECONDS))
            try:
                client = open_client(
                    [endpoint], connect_timeout=limit, request_timeout=limit, security=self._security
                )
                self._client = client
                self._prefer(endpoint)
                return client.get_or_create_cache(_cache_settings())
            except ssl.SSLCertVerificationError as error:
                raise AuthenticationError(
                    f"{endpoint}: the server's certificate is not accepted: {error.verify_message} while opening the "
                    "registry"
                ) from error
            except Refused as error:
                raise AuthenticationError(
                    f"{endpoint}: {error.message} while opening the registry"
                ) from error
            except (OSError, pyignite.exceptions.ReconnectError) as error:
                failure = error
                self._disconnect()
        raise failure if isinstance(failure, OSError) else OSError(str(failure))

    def _prefer(self, endpoint: Endpoint) -> None:
        self._endpoints.remove(endpoint)
        self._endpoints.insert(0, endpoint)

    def _disconnect(self) -> None:
        client, self._client, self._cache = self._client, None, None
        if client is not None:
            try:
                client.close()
            except Exception as error:
                _log.debug("closing a broken registry connection: %s", error)

    def _where(self) -> str:
        return ", ".join(map(str, self._endpoints))


def _cache_settings() -> dict[Any, Any]:
    from pyignite.datatypes import prop_codes
    from pyignite.datatypes.cache_config import CacheAtomicityMode, CacheMode, WriteSynchronizationMode

    return {
        prop_codes.PROP_NAME: CACHE_NAME,
        prop_codes.PROP_CACHE_MODE: CacheMode.REPLICATED,
        prop_codes.PROP_CACHE_ATOMICITY_MODE: CacheAtomicityMode.ATOMIC,
        prop_codes.PROP_WRITE_SYNCHRONIZATION_MODE: WriteSynchronizationMode.FULL_SYNC,
    }


def _is_passing(message: str) -> bool:
    """The node is going away or the topology is changing: another try, perhaps elsewhere, is right."""
    return any(word in message.lower() for word in ("stopping", "topology", "left grid", "node left"))
