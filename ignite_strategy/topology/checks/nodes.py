"""Ignite nodes: do they answer, how are they spoken to, do their clocks agree?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from ignite_strategy.errors import (
    AuthenticationError,
    ConnectionFailedError,
    IgniteStrategyError,
    UnsupportedError,
)
from ignite_strategy.settings import CLUSTER_PREFIXES, Endpoint, format_endpoint, security_for
from ignite_strategy.topology.checks.base import (
    Finding,
    Patient,
    is_here_only,
    ok,
    skipped,
    some,
    warning,
    wrong,
)
from ignite_strategy.topology.nodes import Node, cache_names, connect
from ignite_strategy.topology.overview import Observer, node_address

__all__ = ["answers", "clocks", "every_node", "security"]

_AT_ONCE = 16
_MOST_ENDPOINTS = 4  # of one node that are tried
_MOST_CLOCKS = 64
_SKEW_SECONDS = 5.0
_OPEN = (
    "open its thin client port (10800 by default) towards this host, or let the node announce an address that others "
    "reach (localHost, or addressResolver, in its configuration)"
)
_AUTHENTICATION = (
    "set IGNITE_CAFILE (the CA of the nodes' certificates), IGNITE_CERTFILE and IGNITE_KEYFILE (where the nodes ask "
    "clients for one), IGNITE_USERNAME and IGNITE_PASSWORD"
)


def answers(patient: Patient) -> Iterable[Finding]:
    """Each address that was given, by itself; then all that is known of the cluster."""
    working = []
    for endpoint in patient.endpoints:
        try:
            with contextlib.closing(connect([endpoint], patient.timeouts, patient.security)) as connection:
                patient.names = cache_names(connection)
                if connection.node_id is not None:
                    patient.reached[connection.node_id] = (endpoint, connection.version)
                working.append(endpoint)
        except AuthenticationError as error:
            yield wrong("security", str(error), _AUTHENTICATION)
        except ConnectionFailedError as error:
            yield wrong(
                "nodes", str(error), "is an Ignite node running there, and its port open? Or give --address"
            )
    if not working:
        return
    patient.endpoints = working
    try:
        with Observer(working, patient.zookeeper, patient.security, patient.timeouts) as observer:
            patient.overview = observer.look()
    except UnsupportedError as error:
        yield wrong("nodes", str(error), "run Apache Ignite 2.9 or newer")


def every_node(patient: Patient) -> Iterable[Finding]:
    """The nodes that the cluster names: each is read from directly."""
    nodes = patient.seen.nodes
    with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(nodes)))) as pool:
        failures = list(pool.map(lambda node: _reach(patient, node), nodes))
    lost = [(node, failure) for node, failure in zip(nodes, failures) if failure]
    for node, failure in lost:
        yield wrong(
            "nodes", f"Ignite node {node.id} ({node_address(node)}) does not answer: {failure}", _OPEN
        )
    if not lost:
        yield ok("nodes", f"{len(nodes)} answer: {some(list(map(node_address, nodes)))}")
    versions = {version for _, version in patient.reached.values()}
    if len(versions) > 1:
        told = sorted(f"{endpoint} has {version}" for endpoint, version in patient.reached.values())
        yield warning(
            "versions",
            f"the nodes speak different versions of the protocol: {some(told)}",
            "run one release of Apache Ignite on all nodes",
        )


def _reach(patient: Patient, node: Node) -> str:
    """Why a node does not answer; empty if it does."""
    if node.id in patient.reached:
        return ""  # at an address that was given
    failures = []
    for endpoint in node.endpoints[:_MOST_ENDPOINTS]:
        try:
            with contextlib.closing(connect([endpoint], patient.timeouts, patient.security)) as connection:
                if connection.node_id == node.id:
                    patient.reached[node.id] = (endpoint, connection.version)
                    return ""
                failures.append(f"{endpoint} is another node, {connection.node_id}")
        except IgniteStrategyError as error:
            failures.append(str(error))
    return "; ".join(failures) or "it announces no address"


def security(patient: Patient) -> Iterable[Finding]:
    """TLS and users, as this process has them."""
    from ignite_strategy.topology.clients import resolve

    tls, credentials = resolve(security_for(list(patient.endpoints), patient.security), CLUSTER_PREFIXES)
    hosts = [endpoint.host for endpoint in patient.endpoints]
    here = all(map(is_here_only, hosts))
    user = "with a user" if credentials else "without a user"
    if tls is not None and not (tls.verify and tls.check_hostname):
        yield warning(
            "security",
            f"TLS, {user}, but who answers is not checked",
            "leave out IGNITE_VERIFY and IGNITE_CHECK_HOSTNAME, and name the nodes' CA in IGNITE_CAFILE",
        )
    elif tls is not None:
        yield ok("security", f"TLS, {user}")
    elif here:
        yield ok("security", f"plain text, {user}, on this host only")
    else:
        yield warning(
            "security",
            f"plain text, {user}: whoever is between can read and change everything",
            "give the nodes TLS (igs.tls in cluster/node.xml) and set IGNITE_CAFILE here and for the agents",
        )


def clocks(patient: Patient) -> Iterable[Finding]:
    """Nothing here compares clocks, but certificates, file times and logs do."""
    skews: list[tuple[float, Endpoint]] = []
    for endpoint, _ in list(patient.reached.values())[:_MOST_CLOCKS]:
        try:
            skews.append((_skew(patient, endpoint), endpoint))
        except IgniteStrategyError as error:
            yield skipped("clocks", f"{endpoint} does not tell its time: {error}")
            return
    far = [f"{endpoint} by {skew:+.0f} s" for skew, endpoint in skews if abs(skew) > _SKEW_SECONDS]
    if far:
        yield warning(
            "clocks",
            f"nodes' clocks differ from this host's: {some(far)}",
            "synchronise them (chrony, systemd-timesyncd): times of files and certificates depend on it",
        )
    elif skews:
        worst = max(abs(skew) for skew, _ in skews)
        yield ok("clocks", f"{len(skews)} nodes agree with this host within {max(worst, 0.1):.1f} s")


def _skew(patient: Patient, endpoint: Endpoint) -> float:
    """How far the clock of a node is ahead of this host's, in seconds."""
    from ignite_strategy.topology import caches

    with contextlib.closing(
        caches.connect([format_endpoint(endpoint)], request_timeout=10.0, security=patient.security)
    ) as client:
        caches.sql(client, "SELECT CURRENT_TIMESTAMP")  # the first statement takes longer
        before = time.time()
        answer = caches.sql(client, "SELECT CURRENT_TIMESTAMP").rows[0][0]
        after = time.time()
    told, _ = answer  # a datetime of this host's zone, and nanoseconds
    skew: float = told.timestamp() - (before + after) / 2
    return 0.0 if abs(skew) <= (after - before) / 2 else skew
