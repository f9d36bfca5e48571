"""Removes what is left in the registry of a job whose client has gone."""

from __future__ import annotations

from ignite_strategy.runtime.records import AGENTS, JOBS, JobRecord, cluster_key, request_key, status_key
from ignite_strategy.runtime.registry import Registry

__all__ = ["collect_job", "remove_job", "remove_part"]


def remove_part(registry: Registry, job: str, node: str) -> None:
    """Removes one node's part of a job."""
    registry.delete(request_key(job, node))
    registry.delete(status_key(job, node))


def remove_job(registry: Registry, record: JobRecord) -> None:
    """Removes every entry of a job except its lease."""
    registry.delete(cluster_key(record.job))
    for node in record.nodes:
        remove_part(registry, record.job, node)


def collect_job(registry: Registry, record: JobRecord) -> bool:
    """Removes a job whose lease has ended or is gone, once no living agent has a part of it any more.

    Every agent calls this; it does no harm when several do at once.

    Returns:
      Whether the job is gone.
    """
    agents = registry.leases(AGENTS)
    held = registry.get_many(status_key(record.job, node) for node in record.nodes)
    for node in record.nodes:
        agent = agents.get(f"{AGENTS}/{node}")
        if status_key(record.job, node) in held and agent is not None and agent.alive:
            return False  # it stops its tasks and removes its part itself
    remove_job(registry, record)
    registry.expire(JOBS)
    return True
