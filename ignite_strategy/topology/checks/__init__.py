"""What can be wrong with a cluster, looked at from this host: each finding comes with its fix."""

from __future__ import annotations

from ignite_strategy.topology.checks.base import Finding, Level, Patient
from ignite_strategy.topology.checks.examination import examine

__all__ = ["Finding", "Level", "Patient", "examine"]
