"""Agents: is there one beside every node, do they live, are all of one version?"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

from ignite_strategy import __version__
from ignite_strategy.runtime.registry.ignite import CACHE_NAME
from ignite_strategy.topology.checks.base import Finding, Patient, ok, skipped, some, warning, wrong
from ignite_strategy.topology.overview import Observer, node_address

__all__ = ["beside_every_node", "leases", "versions"]

_LOOKS_SECONDS = 5.0  # an agent renews every second, a client every two
_LOOK_PAUSE = 0.5


def beside_every_node(patient: Patient) -> Iterable[Finding]:
    """Without one a node runs no task, and a job whose cache has a partition there does not start."""
    where = f" --zookeeper {patient.zookeeper.hosts}" if patient.zookeeper else ""
    nodes, agents = patient.seen.nodes, patient.seen.agents
    missing = [node for node in nodes if node.id not in agents]
    for node in missing:
        address = node_address(node)
        yield wrong(
            "agents",
            f"no agent runs beside Ignite node {node.id} ({address})",
            f"on its host: ignite-strategy agent --node {address}{where}",
        )
    present = {node.id for node in nodes}
    for node_id, view in agents.items():
        if node_id not in present:
            yield warning(
                "agents",
                f"the agent of Ignite node {node_id} ({view.record.host}, pid {view.record.pid}) has an entry, but the "
                "node is not in the cluster",
                "nothing, if the node has just left: another agent removes the entry within seconds",
            )
    if nodes and not missing:
        yield ok("agents", f"one beside each of {len(nodes)} nodes")


def versions(patient: Patient) -> Iterable[Finding]:
    """Of this package, and of TensorFlow."""
    found = Counter(view.record.version for view in patient.seen.agents.values())
    others = [f"{count} agents have {version}" for version, count in found.items() if version != __version__]
    if others:
        yield wrong(
            "versions",
            f"this is ignite-strategy {__version__}, and {some(others)}",
            "install one version everywhere, and start the agents again",
        )
    elif found:
        yield ok("versions", f"ignite-strategy {__version__} here and in {sum(found.values())} agents")
    tensorflows = {task.tensorflow for _, task in patient.seen.tasks if task.tensorflow}
    if not tensorflows:
        return
    here = installed_tensorflow()
    if len(tensorflows) > 1 or (here and tensorflows != {here}):
        told = ", ".join(sorted(tensorflows))
        yield warning(
            "versions",
            f"TensorFlow is {here or 'not installed'} here and {told} in the tasks",
            "install one version everywhere: graphs of one release need not run in another",
        )
    else:
        yield ok("versions", f"TensorFlow {tensorflows.pop()} in the tasks" + (" and here" if here else ""))


def installed_tensorflow() -> str | None:
    """The version of TensorFlow, found without loading it."""
    from importlib import metadata

    for name in ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def leases(patient: Patient) -> Iterable[Finding]:
    """Agents and clients of jobs live as long as they are seen to renew."""
    if patient.zookeeper is None and CACHE_NAME not in patient.names:
        yield skipped("leases", "no agent and no job has ever been here")
        return
    until = time.monotonic() + _LOOKS_SECONDS
    proven: set[str] = set()
    agents = {f"agent {node}" for node in patient.seen.agents}
    with Observer(patient.endpoints, patient.zookeeper, patient.security, patient.timeouts) as observer:
        while True:
            seen = observer.look()
            proven |= {f"agent {node}" for node, view in seen.agents.items() if view.proven}
            proven |= {f"job {job.id}" for job in seen.jobs if job.proven}
            # A job that is over meanwhile is no finding; an agent whose lease others have removed is.
            agents |= {f"agent {node}" for node in seen.agents}
            there = sorted(agents) + [f"job {job.id}" for job in seen.jobs]
            silent = [name for name in there if name not in proven]
            if not silent or time.monotonic() > until:
                break
            time.sleep(_LOOK_PAUSE)
    for name in silent:
        yield wrong(
            "leases",
            f"{name} has not renewed its lease while it was watched, for {_LOOKS_SECONDS:.0f} s",
            "its process hangs or is gone: look at its log, and end it. What is left of it is removed by other agents",
        )
    if there and not silent:
        yield ok("leases", f"{len(there)} are renewed: {some(there, 3)}")
