"""The contract of a registry: a small, consistent store of JSON values with leases.

Keys are paths (``agents/<node>``). A *lease* is an entry that says "I live": its holder renews it, and every observer
decides by its own monotonic clock that it has ended, because nothing changed for the lease's time. No two hosts' clocks
are ever compared.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ignite_strategy.settings import Endpoint

__all__ = ["Lease", "LeaseView", "Registry", "Value"]

Value = dict[str, Any]  # a JSON object


@dataclass(frozen=True)
class LeaseView:
    """A lease as one observer sees it.

    Attributes:
      key: Its key.
      value: What its holder says.
      holder: A unique name of the holder; another one means that the lease was given up or ended in between.
      alive: It has not ended yet, as far as this observer can tell.
      proven: The observer has seen a renewal; before that ``alive`` is the benefit of the doubt.
    """

    key: str
    value: Value
    holder: str
    alive: bool
    proven: bool


class Lease(abc.ABC):
    """A lease that this process holds."""

    key: str
    ttl: float

    @abc.abstractmethod
    def renew(self, value: Value | None = None) -> bool:
        """Shows that the holder lives, and replaces the value if one is given.

        To be called at least three times within the lease's time.

        Returns:
          False when the lease was lost: somebody saw it end. It cannot be renewed again then.
        """

    @abc.abstractmethod
    def release(self) -> None:
        """Ends the lease and removes its entry, if it is still ours. May be called twice."""


class Registry(abc.ABC):
    """A store shared by the client, the agents and nobody else.

    Every call is bounded; a store that cannot be reached raises ``ConnectionFailedError``. All methods may be called
    from any thread.

    Attributes:
      timeout: Limit of one call, reconnecting included, in seconds.
    """

    timeout: float = 10.0

    def use_endpoints(self, endpoints: Sequence[Endpoint]) -> None:  # noqa: B027 (others have no use for them)
        """Notes further nodes of the Ignite cluster, for a registry that lives in it."""

    @abc.abstractmethod
    def get(self, key: str) -> Value | None:
        """The value of ``key``, ``None`` if there is none."""

    @abc.abstractmethod
    def get_many(self, keys: Iterable[str]) -> dict[str, Value]:
        """The values of those keys that exist."""

    @abc.abstractmethod
    def put(self, key: str, value: Value) -> None:
        """Sets the value of ``key``."""

    @abc.abstractmethod
    def compare_and_set(self, key: str, expected: Value | None, value: Value | None) -> bool:
        """Sets the value if it is ``expected`` (``None`` = there is no entry; a new ``None`` deletes).

        Returns:
          Whether it was.
        """

    @abc.abstractmethod
    def delete(self, key: str) -> bool:
        """Removes an entry.

        Returns:
          Whether there was one.
        """

    @abc.abstractmethod
    def children(self, folder: str) -> dict[str, Value]:
        """The entries directly below ``folder``: key -> value."""

    @abc.abstractmethod
    def acquire(self, key: str, value: Value, ttl: float) -> Lease:
        """Takes a lease.

        Args:
          key: Its key.
          value: What the holder says about itself.
          ttl: After so many seconds without a renewal observers take it for ended.

        Raises:
          AlreadyExistsError: Somebody else holds it, or it has not ended yet as far as this observer knows.
        """

    @abc.abstractmethod
    def leases(self, folder: str) -> dict[str, LeaseView]:
        """The leases directly below ``folder``.

        An observer looks several times within a lease's time: what it does not watch it cannot see end.
        """

    @abc.abstractmethod
    def expire(self, folder: str) -> list[str]:
        """Removes the leases below ``folder`` that have ended.

        Returns:
          Their keys.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Lets go of the store; leases are neither released nor renewed. Returns at once, may be called twice."""

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
