"""All checks, in the order in which one needs what the other has found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ignite_strategy.errors import IgniteStrategyError
from ignite_strategy.topology.checks import agents, client, data, nodes, ports
from ignite_strategy.topology.checks.base import Finding, Patient, wrong

__all__ = ["examine"]

_Check = Callable[[Patient], Iterable[Finding]]
_CLUSTER: tuple[tuple[str, _Check], ...] = (
    ("security", nodes.security),
    ("nodes", nodes.every_node),
    ("agents", agents.beside_every_node),
    ("versions", agents.versions),
    ("leases", agents.leases),
    ("clocks", nodes.clocks),
    ("task ports", ports.reachable),
    ("exposed ports", ports.exposed),
    ("partitions", data.partitions),
    ("copies", data.copies),
    ("igfs", client.igfs),
)


def examine(patient: Patient) -> Iterator[Finding]:
    """Looks at everything. Bounded; changes nothing but a small file on ``igfs://``, which it removes.

    Yields:
      What it finds, as soon as that is known; one finding or more of each check.
    """
    yield from _one("nodes", nodes.answers, patient)
    if patient.overview is not None:
        for name, check in _CLUSTER:
            yield from _one(name, check, patient)
    yield from _one("dataset ops", client.dataset_ops, patient)


def _one(name: str, check: _Check, patient: Patient) -> Iterator[Finding]:
    """One that fails does not keep the others from being made."""
    try:
        yield from check(patient)
    except (IgniteStrategyError, OSError) as error:
        yield wrong(name, f"this could not be looked at: {error}", "mend that, and look again")
