"""The in-memory registry keeps the contract, on a clock that the test moves."""

from __future__ import annotations

import pytest

from ignite_strategy.errors import DataLossError
from ignite_strategy.runtime.registry import MemoryRegistry, Registry
from tests.contracts.registry import Open, RegistryContract


class TestMemoryRegistry(RegistryContract):
    @pytest.fixture
    def open(self) -> Open:
        self.now = 0.0
        first = MemoryRegistry(lambda: self.now)

        def another() -> Registry:
            return MemoryRegistry(lambda: self.now, shared=first)

        return another

    def wait(self, seconds: float) -> None:
        self.now += seconds


def test_a_foreign_entry_is_named() -> None:
    registry = MemoryRegistry()
    registry._write("a/b", "not json")
    with pytest.raises(DataLossError, match="a/b"):
        registry.get("a/b")


def test_a_foreign_entry_hides_no_lease() -> None:
    registry = MemoryRegistry()
    lease = registry.acquire("jobs/a", {"n": 1}, 5)
    for at, text in enumerate(("not json", "{}", '{"value": {}, "lease": {}}', '{"value": {}, "lease": 3}')):
        registry._enter(f"jobs/x{at}", lambda at=at, text=text: registry._write(f"jobs/x{at}", text))  # type: ignore[misc]
    assert list(registry.leases("jobs")) == [lease.key]
    assert registry.expire("jobs") == []
