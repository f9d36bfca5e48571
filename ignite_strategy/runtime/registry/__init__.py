"""Where client and agents meet: one contract, several backends."""

from __future__ import annotations

from ignite_strategy.runtime.registry.base import Lease, LeaseView, Registry, Value
from ignite_strategy.runtime.registry.ignite import IgniteRegistry
from ignite_strategy.runtime.registry.memory import MemoryRegistry

__all__ = ["IgniteRegistry", "Lease", "LeaseView", "MemoryRegistry", "Registry", "Value"]
