"""What the client sees of a job from outside, turned into the events of its state machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from ignite_strategy.errors import CancelledError, ConnectionFailedError, IgniteStrategyError
from ignite_strategy.runtime.job import (
    AgentFound,
    AgentLost,
    Event,
    NodeLost,
    RequestRefused,
    TaskExited,
    TaskReserved,
    TaskServing,
)
from ignite_strategy.runtime.ports import is_reachable
from ignite_strategy.runtime.records import AGENTS, AgentRecord, Status, status_key
from ignite_strategy.runtime.registry import LeaseView, Registry
from ignite_strategy.settings import Endpoint, Security, Timeouts, format_endpoint
from ignite_strategy.topology.nodes import Caller, Node, connect, list_nodes

__all__ = ["NodeWatch", "StatusWatch"]

# An agent reports every second. When it has been silent for this long its tasks are tried: one that refuses is dead.
_SILENT_SECONDS = 2.5
_log = logging.getLogger(__name__)


class StatusWatch:
    """The agents' reports about one job, and the agents' leases.

    Args:
      registry: Where they report.
      job: Id of the job.
      agents: Node id -> the agent that was asked.
    """

    def __init__(self, registry: Registry, job: str, agents: Mapping[str, AgentRecord]) -> None:
        self.statuses: dict[str, Status] = {}
        self._registry = registry
        self._job = job
        self._agents = dict(agents)
        self._changed: dict[str, float] = {}
        self._missed: set[str] = set()
        self._former = {agent.instance for agent in agents.values()}  # runs of agents that are known

    def read(self) -> list[Event]:
        """Reads the reports."""
        values = self._registry.get_many(status_key(self._job, node) for node in self._agents)
        events: list[Event] = []
        for node in self._agents:
            value = values.get(status_key(self._job, node))
            if value is None:
                continue
            status = Status.from_json(value)
            before = self.statuses.get(node)
            if before is None or (before.instance, before.count) != (status.instance, status.count):
                self._changed[node] = time.monotonic()
            self.statuses[node] = status
            said = list(_events_of(node, status))
            if status.instance not in self._former and not status.refused:
                # Its tasks ended with the run before; its lease will be looked at.
                said = [AgentLost(node, f"{self._who(node)} has ended and another has taken its place")]
            if any(isinstance(event, AgentLost) for event in said):
                self._missed.add(node)
            events += said
        return events

    def look_at_agents(self) -> list[Event]:
        """Looks at the leases, and at the tasks of agents that have gone silent."""
        leases = self._registry.leases(AGENTS)
        events: list[Event] = []
        for node in self._agents:
            events += self._look_at(node, leases.get(f"{AGENTS}/{node}"))
        return events

    def _look_at(self, node: str, view: LeaseView | None) -> list[Event]:
        who = self._who(node)
        if view is None:
            return self._miss(node, f"{who} has stopped")
        if not view.alive:
            return self._miss(node, f"{who} has not renewed its lease; it is dead or cut off")
        if view.value.get("instance") != self._agents[node].instance:
            lost = self._miss(node, f"{who} has ended and another has taken its place")
            self._agents[node] = AgentRecord.from_json(view.value)
            self._former.add(self._agents[node].instance)
            self._missed.discard(node)
            return [*lost, AgentFound(node)]
        silent = time.monotonic() - self._changed.get(node, time.monotonic())
        if silent < _SILENT_SECONDS:
            back = node in self._missed
            self._missed.discard(node)
            return [AgentFound(node)] if back else []
        return self._try_tasks(node, who, silent)

    def _who(self, node: str) -> str:
        agent = self._agents[node]
        return f"the agent of Ignite node {node} (pid {agent.pid} on {agent.machine})"

    def _miss(self, node: str, reason: str) -> list[Event]:
        self._missed.add(node)
        return [AgentLost(node, reason)]

    def _try_tasks(self, node: str, who: str, silent: float) -> list[Event]:
        status = self.statuses[node]
        if status.instance != self._agents[node].instance:
            return []  # it has not reported yet
        for key, task in status.tasks.items():
            if task.state != "serving":
                continue
            endpoint = Endpoint(status.host, task.port)
            refusal = is_reachable(endpoint, timeout=0.5)
            if refusal is not None and "refused" in refusal.lower():
                reason = f"{who} is silent since {silent:.0f} s, and {key} at {endpoint} is gone with it"
                return self._miss(node, reason)
        return []


def _events_of(node: str, status: Status) -> Iterable[Event]:
    """A report as events; the state machine knows which are news."""
    if status.refused:
        yield RequestRefused(node, status.attempt, status.refused)
    if status.node_lost:
        yield NodeLost(node, f"Ignite node {node} is gone: {status.node_lost}")
    for key, task in status.tasks.items():
        if task.port:
            yield TaskReserved(key, task.attempt, status.host, task.port)
        if task.state == "serving":
            yield TaskServing(key, task.attempt)
        where = f"{key} (pid {task.pid} on {status.host}, Ignite node {node})"
        if task.state == "exited":
            yield TaskExited(key, task.attempt, f"{where} {task.error}")
        elif task.state == "stopped":
            reason = f"the agent of Ignite node {node} on {status.host} was stopped, and {key} with it"
            yield AgentLost(node, reason, status.attempt)


class NodeWatch:
    """Whether the nodes that a job needs are in the cluster.

    Args:
      nodes: All nodes that were there when the job began; any of them may be asked.
      needed: Ids of those that the job needs.
      found: Called with the nodes whenever they were listed.
      security: How they are spoken to.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        needed: Iterable[str],
        found: Callable[[Sequence[Node]], None],
        security: Security | None = None,
    ) -> None:
        self._nodes = {node.id: node for node in nodes}
        self._needed = tuple(needed)
        self._found = found
        self._security = security
        self._connection: Caller | None = None

    def look(self) -> list[Event]:
        """Lists the nodes.

        Raises:
          ConnectionFailedError: None of them answers.
        """
        present = self._list()
        if present is None:
            return []
        self._found(present)
        ids = {node.id for node in present}
        return [NodeLost(node, self._describe(node)) for node in self._needed if node not in ids]

    def _describe(self, node: str) -> str:
        known = self._nodes.get(node)
        where = f" at {format_endpoint(known.endpoints[0])}" if known and known.addresses else ""
        return f"Ignite node {node}{where} has left the cluster"

    def _list(self) -> Sequence[Node] | None:
        try:
            if self._connection is None:
                endpoints = [e for node in self._nodes.values() for e in node.endpoints[:1]]
                self._connection = connect(endpoints, Timeouts(connect=2.0, request=5.0), self._security)
            return list_nodes(self._connection)[1]
        except CancelledError:
            self.close()  # Ctrl-C is for the main thread; here it only broke the call
            return None
        except ConnectionFailedError:
            self.close()
            raise
        except IgniteStrategyError as error:
            _log.debug("listing the nodes: %s", error)
            self.close()
            return None

    def close(self) -> None:
        """Closes its connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
