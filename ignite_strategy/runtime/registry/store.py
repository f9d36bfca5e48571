"""Registry over a plain store of texts that can compare and set: values and leases are built here.

A backend supplies a few operations on texts. For one that cannot list, :class:`IndexedRegistry` keeps an index entry
with the names of each folder's children, by compare-and-set: listing needs no scan.
"""

from __future__ import annotations

import abc
import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable

from ignite_strategy.errors import AlreadyExistsError, DataLossError, InvalidArgumentError
from ignite_strategy.runtime.registry.base import Lease, LeaseView, Registry, Value

__all__ = ["IndexedRegistry", "StoreRegistry"]

_INDEX = "index:"
_ATTEMPTS = 1_000
_log = logging.getLogger(__name__)


class StoreRegistry(Registry):
    """Implements the contract on top of the methods that begin with an underscore.

    Args:
      clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._watch = _LeaseWatch(clock)

    # What a backend supplies.

    @abc.abstractmethod
    def _read(self, keys: list[str]) -> dict[str, str]:
        """The texts of those keys that exist."""

    @abc.abstractmethod
    def _write(self, key: str, text: str) -> None:
        """Sets a text."""

    @abc.abstractmethod
    def _swap(self, key: str, expected: str | None, text: str | None) -> bool:
        """Compare and set; ``None`` = no entry."""

    @abc.abstractmethod
    def _remove(self, key: str) -> bool:
        """Removes an entry; whether there was one."""

    @abc.abstractmethod
    def _texts_below(self, folder: str) -> dict[str, str]:
        """The texts of the entries directly below a folder."""

    def _begin(self, key: str, expected: str | None, text: str) -> bool:
        """The same for the entry of a lease that begins, perhaps in place of one that has ended."""
        return self._swap(key, expected, text)

    def _enter(self, key: str, write: Callable[[], bool | None]) -> bool:
        """Writes an entry that may be new."""
        return write() is not False

    def _leave(self, key: str, remove: Callable[[], bool]) -> bool:
        """Removes an entry."""
        return remove()

    # Values.

    def get(self, key: str) -> Value | None:
        """See the contract."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, Value]:
        """See the contract."""
        texts = self._read([_checked(key) for key in keys])
        return {key: _decode(key, text)["value"] for key, text in texts.items()}

    def put(self, key: str, value: Value) -> None:
        """See the contract."""
        text = _encode({"value": value})
        self._enter(_checked(key), lambda: self._write(key, text))

    def compare_and_set(self, key: str, expected: Value | None, value: Value | None) -> bool:
        """See the contract."""
        _checked(key)
        before = None if expected is None else _encode({"value": expected})
        if value is None:
            return before is not None and self._leave(key, lambda: self._swap(key, before, None))
        return self._enter(key, lambda: self._swap(key, before, _encode({"value": value})))

    def delete(self, key: str) -> bool:
        """See the contract."""
        return self._leave(_checked(key), lambda: self._remove(key))

    def children(self, folder: str) -> dict[str, Value]:
        """See the contract."""
        return {key: _decode(key, text)["value"] for key, text in self._texts_below(folder).items()}

    # Leases.

    def acquire(self, key: str, value: Value, ttl: float) -> Lease:
        """See the contract."""
        if ttl <= 0:
            raise InvalidArgumentError(f"a lease of {ttl} s would have ended before it began")
        lease = _StoreLease(self, _checked(key), value, ttl)
        if self._enter(key, lambda: self._begin(key, None, lease.text)):
            return lease
        current = self._read([key]).get(key)
        if current is None:
            return self.acquire(key, value, ttl)
        view = self._watch.see(key, current)
        if view.alive or not self._enter(key, lambda: self._begin(key, current, lease.text)):
            raise AlreadyExistsError(f"the lease {key!r} is held by another: {view.value}")
        return lease

    def leases(self, folder: str) -> dict[str, LeaseView]:
        """See the contract."""
        texts = self._texts_below(folder)
        self._watch.forget(folder, texts)
        return {key: self._watch.see(key, text) for key, text in texts.items() if _is_lease(key, text)}

    def expire(self, folder: str) -> list[str]:
        """See the contract."""
        ended = []
        texts = self._texts_below(folder)
        self._watch.forget(folder, texts)
        for key, text in texts.items():
            if not _is_lease(key, text) or self._watch.see(key, text).alive:
                continue
            # Exactly what was seen: a holder that comes back in this moment keeps its lease.
            if self._leave(key, lambda key=key, text=text: self._swap(key, text, None)):  # type: ignore[misc]
                ended.append(key)
        return ended


class IndexedRegistry(StoreRegistry):
    """For a store that cannot list its entries."""

    def _texts_below(self, folder: str) -> dict[str, str]:
        index = self._read([_INDEX + _checked(folder)]).get(_INDEX + folder)
        names = json.loads(index) if index else []
        return self._read([f"{folder}/{name}" for name in names]) if names else {}

    def _enter(self, key: str, write: Callable[[], bool | None]) -> bool:
        """Writes an entry; the index has its name before and after, whatever others remove meanwhile."""
        self._edit_index(key, add=True)
        done = write()
        if done is False:
            return False
        self._edit_index(key, add=True)
        return True

    def _leave(self, key: str, remove: Callable[[], bool]) -> bool:
        """Removes an entry, then its name; puts the name back if somebody has written the entry meanwhile."""
        if not remove():
            return False
        self._edit_index(key, add=False)
        if self._read([key]):
            self._edit_index(key, add=True)
        return True

    def _edit_index(self, key: str, add: bool) -> None:
        folder, _, name = key.rpartition("/")
        if not folder:
            return
        for _ in range(_ATTEMPTS):
            before = self._read([_INDEX + folder]).get(_INDEX + folder)
            names = set(json.loads(before)) if before else set()
            if (name in names) == add:
                return
            names ^= {name}
            if self._swap(_INDEX + folder, before, json.dumps(sorted(names)) if names else None):
                return
        raise AlreadyExistsError(f"the index of {folder!r} was changed by others {_ATTEMPTS} times in a row")


class _StoreLease(Lease):
    def __init__(self, registry: StoreRegistry, key: str, value: Value, ttl: float) -> None:
        self.key = key
        self.ttl = ttl
        self._registry = registry
        self._holder = uuid.uuid4().hex
        self._count = 0
        self._value = value
        self._lost = False
        self._lock = threading.Lock()
        self.text = self._stamp(value, 0)

    def _stamp(self, value: Value, count: int) -> str:
        return _encode({"value": value, "lease": {"holder": self._holder, "count": count, "ttl": self.ttl}})

    def renew(self, value: Value | None = None) -> bool:
        """See the contract."""
        with self._lock:
            if self._lost:
                return False
            new = self._value if value is None else value
            text = self._stamp(new, self._count + 1)
            if not self._registry._swap(self.key, self.text, text):
                self._lost = True
                return False
            self.text, self._value, self._count = text, new, self._count + 1
            return True

    def release(self) -> None:
        """See the contract."""
        with self._lock:
            if not self._lost:
                self._registry._leave(self.key, lambda: self._registry._swap(self.key, self.text, None))
                self._lost = True


class _LeaseWatch:
    """Remembers when each lease last changed, by this process's monotonic clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._lock = threading.Lock()

    def see(self, key: str, text: str) -> LeaseView:
        content = _decode(key, text)
        lease = content.get("lease")
        if lease is None:
            raise DataLossError(f"registry entry {key!r} is no lease: {text[:200]}")
        now = self._clock()
        with self._lock:
            seen = self._seen.get(key)
            stamp = (str(lease["holder"]), int(lease["count"]))
            if seen is None or seen.stamp[0] != stamp[0]:
                seen = self._seen[key] = _Seen(stamp, now)
            elif seen.stamp != stamp:
                seen.stamp, seen.idle, seen.proven = stamp, 0.0, True
            else:
                # One long gap between two looks says nothing about the holder: perhaps it was us who slept, or the
                # store that was away. A lease ends only after several looks.
                seen.idle += min(now - seen.looked, float(lease["ttl"]) / 3)
            seen.looked = now
            return LeaseView(key, content["value"], stamp[0], seen.idle < float(lease["ttl"]), seen.proven)

    def forget(self, folder: str, keys: Iterable[str]) -> None:
        """Drops what is gone, so that the memory of past leases does not grow."""
        present = set(keys)
        with self._lock:
            for key in [k for k in self._seen if k.rpartition("/")[0] == folder and k not in present]:
                del self._seen[key]


class _Seen:
    __slots__ = ("idle", "looked", "proven", "stamp")

    def __init__(self, stamp: tuple[str, int], now: float) -> None:
        self.stamp = stamp
        self.looked = now
        self.idle = 0.0
        self.proven = False


def _encode(content: Value) -> str:
    # One text per value, so that comparing texts is comparing values.
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _decode(key: str, text: str) -> Value:
    try:
        content = json.loads(text)
        if isinstance(content, dict) and isinstance(content["value"], dict):
            return content
    except (ValueError, KeyError):
        pass
    raise DataLossError(f"registry entry {key!r} is not one of ours: {text[:200]!r}")


def _is_lease(key: str, text: str) -> bool:
    try:
        lease = _decode(key, text).get("lease")
        return lease is not None and float(lease["ttl"]) > 0 and isinstance(lease["count"], int)
    except (DataLossError, KeyError, TypeError, ValueError):
        _log.warning(
            "registry entry %r is not one of ours", key
        )  # and must not keep us from seeing the others
        return False


def _checked(key: str) -> str:
    if not key or key.startswith(("/", _INDEX)) or key.endswith("/") or "//" in key:
        raise InvalidArgumentError(f"not a registry key: {key!r}")
    return key
