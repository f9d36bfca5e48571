"""Ports of tasks: this host must reach them, and nobody else should."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from ignite_strategy.runtime.account import TaskRecord
from ignite_strategy.runtime.ports import is_reachable
from ignite_strategy.settings import Endpoint, parse_endpoint
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

__all__ = ["exposed", "reachable"]

_AT_ONCE = 32
_SECONDS = 2.0
_MOST_TASKS = 256
_FENCE = (
    "TensorFlow's servers listen on every address and ask nobody who they are: whoever connects runs code there. Let a "
    "firewall (or a NetworkPolicy) admit to the ports of tasks only this host and the nodes' hosts"
)


def _serving(patient: Patient) -> list[tuple[TaskRecord, Endpoint]]:
    return [
        (task, parse_endpoint(task.address))
        for _, task in patient.seen.tasks
        if task.address and task.state == "serving"
    ][:_MOST_TASKS]


def reachable(patient: Patient) -> Iterable[Finding]:
    """From here: the client's sessions connect to every task."""
    tasks = _serving(patient)
    if not tasks:
        yield skipped("task ports", "no task runs: look again while a job does")
        return
    with ThreadPoolExecutor(min(_AT_ONCE, len(tasks))) as pool:
        failures = list(pool.map(lambda found: is_reachable(found[1], _SECONDS), tasks))
    shut = [
        f"{task.type} {task.index} at {task.address}: {failure}"
        for (task, _), failure in zip(tasks, failures)
        if failure
    ]
    if shut:
        yield wrong(
            "task ports",
            f"{len(shut)} of {len(tasks)} tasks cannot be reached from here: {some(shut)}",
            "let firewalls pass the ports that the nodes' hosts give out (net.ipv4.ip_local_port_range) from this host "
            "and among the nodes' hosts, or give agents an address that is reached: ignite-strategy agent --advertise",
        )
    else:
        yield ok("task ports", f"all {len(tasks)} are reached")


def exposed(patient: Patient) -> Iterable[Finding]:
    """To other networks: on addresses that nobody who trains needs."""
    tasks = _serving(patient)
    if not tasks:
        yield skipped("exposed ports", "no task runs: look again while a job does")
        return
    public = [f"{task.type} {task.index} at {task.address}" for task, at in tasks if _is_public(at.host)]
    if public:
        yield wrong("exposed ports", f"tasks listen on addresses of the internet: {some(public)}", _FENCE)
    probes = [
        (task, Endpoint(host, at.port)) for task, at in tasks for host in _other_hosts(patient, task, at.host)
    ]
    with ThreadPoolExecutor(max(1, min(_AT_ONCE, len(probes)))) as pool:
        failures = list(pool.map(lambda probe: is_reachable(probe[1], _SECONDS), probes))
    open_to = [
        (f"{task.type} {task.index} at {at}", at.host)
        for (task, at), failure in zip(probes, failures)
        if failure is None
    ]
    further = [text for text, host in open_to if _is_public(host)]
    if further:
        yield wrong(
            "exposed ports", f"tasks are reached from here at public addresses: {some(further)}", _FENCE
        )
    near = [text for text, host in open_to if not _is_public(host)]
    if near:
        yield warning(
            "exposed ports", f"tasks are reached at further addresses of their hosts: {some(near)}", _FENCE
        )
    if not public and not open_to:
        yield ok("exposed ports", "none of the tasks is reached at another address than its own")


def _other_hosts(patient: Patient, task: TaskRecord, own: str) -> list[str]:
    """Further addresses of a task's host: those that its node announces, and this host's if it runs here."""
    node = patient.node(task.node)
    hosts = list(node.addresses) if node is not None else []
    if is_here_only(own):
        hosts += own_addresses()
    return [host for host in dict.fromkeys(hosts) if host != own and _is_foreign(host)]


def _is_foreign(host: str) -> bool:
    """An address, not a name, that another host can use."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or address.is_multicast)


def _is_public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_global
    except ValueError:
        return False


def own_addresses() -> list[str]:
    """Addresses of this host under which others reach it."""
    found = []
    with contextlib.suppress(OSError):
        found += [str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None)]
    # Which one the kernel would send from. The addresses are for documentation, and nothing is sent to them.
    for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            found.append(str(probe.getsockname()[0]))
    return [host for host in dict.fromkeys(found) if _is_foreign(host)]
