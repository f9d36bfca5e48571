"""What a client says about a cluster and a job: checked, and with what the environment adds."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.settings import (
    DEFAULT_PORT,
    Credentials,
    Endpoint,
    Security,
    Tls,
    ZooKeeper,
    default_endpoints,
    parse_endpoints,
    security_for,
)

__all__ = [
    "STRATEGIES",
    "checked_caches",
    "checked_strategy",
    "checked_zookeeper",
    "client_endpoints",
    "client_security",
    "job_id",
]

STRATEGIES = ("collective", "parameter_server", "mirrored")


def checked_caches(given: str | Sequence[str]) -> tuple[str, ...]:
    """The names of one or several caches.

    Raises:
      InvalidArgumentError: They are none, or one is named twice.
    """
    wrong: object = given  # whatever the annotation says
    if not isinstance(wrong, str) and not isinstance(wrong, Sequence):
        raise InvalidArgumentError(f"the name of a cache is needed, or several, not {given!r}")
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names or not all(name and isinstance(name, str) for name in names):
        raise InvalidArgumentError(f"the name of a cache is needed, or several, not {given!r}")
    if len(set(names)) != len(names):
        raise InvalidArgumentError(f"a cache is named twice: {list(names)}")
    return names


def client_endpoints(addresses: str | Sequence[str] | None) -> list[Endpoint]:
    """The addresses that are given, else those of the environment, of an open resolver, or this host's."""
    from ignite_strategy import _core

    given = parse_endpoints(addresses)
    if addresses is not None and not given:
        raise InvalidArgumentError("addresses is empty: give at least one Ignite node, host:port")
    if given:
        return given
    environment = _core.dataset_environment()
    if environment["host"] or environment["port"]:
        return [Endpoint(environment["host"] or "localhost", environment["port"] or DEFAULT_PORT)]
    return list(default_endpoints()) or [Endpoint("localhost", DEFAULT_PORT)]


def client_security(
    endpoints: Sequence[Endpoint], tls: Tls | bool | None, credentials: Credentials | None
) -> Security:
    """How the nodes are spoken to, as arguments say; an open resolver's settings if they say nothing."""
    if tls is None and credentials is None:
        return security_for(endpoints, None)
    security = Security(Tls() if tls is True else tls or None, credentials)
    security.native()  # refuses what contradicts itself before anything starts
    return security


def checked_zookeeper(given: str | ZooKeeper | None) -> ZooKeeper | None:
    """Where agents are met, if it is not in a cache."""
    from ignite_strategy.runtime.registry.zookeeper import check

    found = ZooKeeper.of(given)
    if found is not None:
        check(found)
    return found


def checked_strategy(strategy: str) -> str:
    """The name of a strategy.

    Raises:
      InvalidArgumentError: There is none of this name.
    """
    if strategy not in STRATEGIES:
        raise InvalidArgumentError(f"strategy={strategy!r}: use one of {', '.join(map(repr, STRATEGIES))}")
    return strategy


def job_id(cache: str) -> str:
    """A new one, with the name of the cache in it as far as that is plain."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", cache).strip("-")[:40] or "job"
    return f"{readable.lower()}-{uuid.uuid4().hex[:8]}"
