"""Nodes and partitions, who reads what, TF_CONFIG, and the resolver.

Only :class:`IgniteClusterResolver` needs TensorFlow, so it is loaded when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ignite_strategy.topology.assignment import Assignment, Layout, TaskKey, TaskShare, assign
from ignite_strategy.topology.nodes import Node, Topology, connect, discover, list_nodes
from ignite_strategy.topology.tf_config import ClusterLayout

if TYPE_CHECKING:
    from ignite_strategy.topology.resolver import IgniteClusterResolver as IgniteClusterResolver

__all__ = [
    "Assignment",
    "ClusterLayout",
    "IgniteClusterResolver",
    "Layout",
    "Node",
    "TaskKey",
    "TaskShare",
    "Topology",
    "assign",
    "connect",
    "discover",
    "list_nodes",
]


def __getattr__(name: str) -> Any:
    if name != "IgniteClusterResolver":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ignite_strategy.topology.resolver import IgniteClusterResolver as resolver

    globals()[name] = resolver
    return resolver
