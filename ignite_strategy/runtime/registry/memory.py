"""A registry inside one process: for tests and for simulations on a virtual clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ignite_strategy.runtime.registry.store import IndexedRegistry

__all__ = ["MemoryRegistry"]


class MemoryRegistry(IndexedRegistry):
    """Entries in a dictionary.

    Args:
      clock: Monotonic seconds.
      shared: Another registry whose entries this one sees too, with an observer's memory of its own.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, shared: MemoryRegistry | None = None
    ) -> None:
        super().__init__(clock)
        self._entries: dict[str, str] = shared._entries if shared else {}
        self._mutex: threading.Lock = shared._mutex if shared else threading.Lock()

    def _read(self, keys: list[str]) -> dict[str, str]:
        with self._mutex:
            return {key: self._entries[key] for key in keys if key in self._entries}

    def _write(self, key: str, text: str) -> None:
        with self._mutex:
            self._entries[key] = text

    def _swap(self, key: str, expected: str | None, text: str | None) -> bool:
        with self._mutex:
            if self._entries.get(key) != expected:
                return False
            if text is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = text
            return True

    def _remove(self, key: str) -> bool:
        with self._mutex:
            return self._entries.pop(key, None) is not None

    def close(self) -> None:
        """Nothing to let go of."""
