"""What checks are made of."""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from ignite_strategy.settings import Endpoint, Security, Timeouts, ZooKeeper
from ignite_strategy.topology.nodes import Node
from ignite_strategy.topology.overview import Overview

__all__ = ["Finding", "Level", "Patient", "is_here_only", "ok", "skipped", "some", "warning", "wrong"]


class Level(enum.Enum):
    """How bad a finding is; only ``WRONG`` makes a cluster unfit."""

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    WRONG = "WRONG"


@dataclass(frozen=True)
class Finding:
    """What one check has found.

    Attributes:
      check: Its name.
      level: How bad it is.
      text: What is so.
      fix: What to do about it; never empty for a warning or something wrong.
    """

    check: str
    level: Level
    text: str
    fix: str = ""


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, text)


def skipped(check: str, text: str) -> Finding:
    """It could not be looked at."""
    return Finding(check, Level.SKIPPED, text)


def warning(check: str, text: str, fix: str) -> Finding:
    """Training works, until something happens."""
    return Finding(check, Level.WARNING, text, fix)


def wrong(check: str, text: str, fix: str) -> Finding:
    """Training does not work, or is open to everybody."""
    return Finding(check, Level.WRONG, text, fix)


@dataclass
class Patient:
    """The cluster that is looked at, and what is known of it so far.

    Attributes:
      endpoints: The addresses that were given.
      caches: The caches that were given; without any, all.
      zookeeper: Where agents and clients meet, if not in the cluster.
      security: How the nodes are spoken to.
      timeouts: Limits of single requests.
      overview: What runs; ``None`` while no node has answered.
      names: All caches.
      reached: By id of the node, where it answered and its protocol version.
    """

    endpoints: Sequence[Endpoint]
    caches: Sequence[str] = ()
    zookeeper: ZooKeeper | None = None
    security: Security | None = None
    timeouts: Timeouts = field(default_factory=lambda: Timeouts(connect=3.0, request=10.0))
    overview: Overview | None = None
    names: Sequence[str] = ()
    reached: dict[str, tuple[Endpoint, str]] = field(default_factory=dict)

    @property
    def seen(self) -> Overview:
        """What runs, for checks that come after the one that has found out."""
        assert self.overview is not None
        return self.overview

    def node(self, node_id: str) -> Node | None:
        """A node of the cluster."""
        return next((node for node in self.seen.nodes if node.id == node_id), None)


def some(items: Sequence[object], most: int = 5) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(items) - most:,} more" if len(items) > most else ""
    return ", ".join(map(str, items[:most])) + more


def is_here_only(host: str) -> bool:
    """Whether only this host reaches it."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"
