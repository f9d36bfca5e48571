"""Which of a node's addresses its tasks announce to their peers (pure)."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from ignite_strategy.errors import InvalidArgumentError

__all__ = ["advertise_address"]

_DOCKER_BRIDGES = ipaddress.ip_network("172.16.0.0/12")


def _rank(address: str) -> int | None:
    """Lower is better; ``None`` when ``address`` can never be announced."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if ip.is_unspecified or ip.is_multicast or ip.is_link_local:
        return None
    if ip.is_loopback:
        return 4 if ip.version == 4 else 5
    # x.y.0.1 of Docker's range is the bridge on each host itself, so several hosts have it; a container's own
    # address in the same range (x.y.0.2) is as good as any other.
    if ip.version == 4 and ip in _DOCKER_BRIDGES and address.endswith(".0.1"):
        return 3
    return 1 if ip.version == 4 else 2


def advertise_address(
    addresses: Sequence[str], host_names: Sequence[str] = (), configured: str | None = None
) -> str:
    """Returns the address that peers on other hosts most likely reach.

    TensorFlow resolves names by itself and fails on some that Python knows, so addresses come before names; loopback
    and Docker's bridge are the last choice, right only when there is nothing else (every node on this host).

    >>> advertise_address(["127.0.0.1", "172.17.0.1", "10.0.0.5"], ["ip6-localhost"])
    '10.0.0.5'

    Args:
      addresses: What the node announces, in its order.
      host_names: Names of the node, used when no address can be.
      configured: What the operator wants; wins over everything.

    Raises:
      InvalidArgumentError: There is nothing to announce.
    """
    if configured:
        return configured
    ranked = [(rank, at) for at, rank in enumerate(map(_rank, addresses)) if rank is not None]
    if ranked:
        return addresses[min(ranked)[1]]
    # The endpoint list of a node mixes names and addresses.
    names = [name for name in (*host_names, *addresses) if name and _is_name(name)]
    named = [name for name in names if "localhost" not in name]
    if named or names:
        return (named or names)[0]
    raise InvalidArgumentError(
        f"the node announces no address that peers can reach: {list(addresses)}; give the agent one with --advertise"
    )


def _is_name(text: str) -> bool:
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return True
    return False
