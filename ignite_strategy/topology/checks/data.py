"""Data: has every partition a node, and would it survive the loss of one?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from ignite_strategy.errors import ConnectionFailedError, IgniteStrategyError
from ignite_strategy.settings import format_endpoint
from ignite_strategy.topology.checks.base import Finding, Patient, ok, skipped, some, warning, wrong
from ignite_strategy.topology.nodes import connect, discover
from ignite_strategy.topology.overview import is_own_cache
from ignite_strategy.topology.ranges import format_ranges

__all__ = ["copies", "partitions"]

_MOST_CACHES = 100
# As the protocol numbers cache modes and loss policies.
_PARTITIONED, _IGNORE = 2, 4


def _wanted(patient: Patient) -> list[str]:
    asked = list(dict.fromkeys(patient.caches))
    return asked or [name for name in patient.names if not is_own_cache(name)][:_MOST_CACHES]


def _lost_fix(cache: str) -> str:
    return (
        "start the node that had them again, or write the rows again; then `control.sh --cache reset_lost_partitions "
        f"{cache}` on a node's host, and ignite_strategy.accept_data_loss({cache!r}) in programs that go on running"
    )


def partitions(patient: Patient) -> Iterable[Finding]:
    """Every partition has a primary, and is not marked as lost."""
    whole, names = 0, _wanted(patient)
    with contextlib.closing(connect(patient.endpoints, patient.timeouts, patient.security)) as connection:
        for name in names:
            try:
                primaries = discover(connection, name).primaries
            except ConnectionFailedError:
                raise
            except IgniteStrategyError as error:
                yield wrong("partitions", str(error), "name a cache that is there, or activate the cluster")
                continue
            missing = [p for p, primary in enumerate(primaries) if primary is None]
            if missing:
                text = f"cache {name!r}: no node has partitions {format_ranges(missing)}"
                yield wrong("partitions", text, _lost_fix(name))
            else:
                whole += 1
    lost = _marked_as_lost(patient)
    if isinstance(lost, str):
        yield skipped("partitions", f"whether partitions are marked as lost is not known: {lost}")
        lost = {}
    for name in names:
        if lost.get(name):
            text = f"cache {name!r}: partitions {format_ranges(lost[name])} are lost: reads and writes of them fail"
            yield wrong("partitions", text, _lost_fix(name))
            whole -= 1
    if whole == len(names):
        yield ok(
            "partitions",
            f"all of {len(names)} caches have a primary node" if names else "there are no caches",
        )


def _marked_as_lost(patient: Patient) -> dict[str, list[int]] | str:
    """Partitions that the cluster keeps for lost, by cache; why they are not known otherwise."""
    from ignite_strategy.topology import caches

    statement = (
        "SELECT DISTINCT C.CACHE_NAME, P.PARTITION_ID FROM SYS.PARTITION_STATES P "
        "JOIN SYS.CACHES C ON C.CACHE_GROUP_ID = P.CACHE_GROUP_ID WHERE P.STATE = 'LOST'"
    )
    try:
        with contextlib.closing(_client(patient)) as client:
            rows = caches.sql(client, statement).rows
    except IgniteStrategyError as error:
        return str(error)
    found: dict[str, list[int]] = {}
    for name, partition in rows:
        found.setdefault(str(name), []).append(int(partition))
    return {name: sorted(parts) for name, parts in found.items()}


def copies(patient: Patient) -> Iterable[Finding]:
    """Caches that the loss of one node would take data from, or make shorter without an error."""
    if len(patient.seen.nodes) < 2:
        yield skipped("copies", "one node: there is nowhere for a copy")
        return
    files = [name for name in patient.names if name.startswith("igfs-")]
    single, silent = [], []
    with contextlib.closing(_client(patient)) as client:
        for name in (*_wanted(patient), *files):
            settings = _settings(client, name)
            if settings is None:
                continue
            backups, policy = settings
            single += [name] if backups == 0 else []
            silent += [name] if backups == 0 and policy == _IGNORE else []
    if silent:
        yield warning(
            "copies",
            f"a lost node makes these caches shorter, and Ignite says nothing: {some(list(map(repr, silent)))}",
            "create them with create_cache or write(create=True), whose lost partitions are errors, or set "
            "partitionLossPolicy",
        )
    if single:
        yield warning(
            "copies",
            f"a lost node takes its part of these caches with it: {some(list(map(repr, single)))}",
            "create them with backups=1, if what is in them cannot be written again",
        )
    if not single:
        yield ok("copies", "every cache has a copy of each partition")


def _settings(client: Any, name: str) -> Sequence[int] | None:
    """Backups and loss policy of a partitioned cache; ``None`` for others, or if it has just been dropped."""
    from pyignite.datatypes import prop_codes
    from pyignite.exceptions import CacheError

    try:
        settings = client.get_cache(name).settings
    except CacheError:
        return None
    if settings[prop_codes.PROP_CACHE_MODE] != _PARTITIONED:
        return None
    return (
        int(settings[prop_codes.PROP_BACKUPS_NUMBER]),
        int(settings[prop_codes.PROP_PARTITION_LOSS_POLICY]),
    )


def _client(patient: Patient) -> Any:
    from ignite_strategy.topology import caches

    addresses = [format_endpoint(endpoint) for endpoint in patient.endpoints]
    return caches.connect(addresses, request_timeout=patient.timeouts.request, security=patient.security)
