"""What runs on an Ignite cluster now: nodes, agents, jobs with their tasks, and who reads which partitions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ignite_strategy.errors import (
    ConnectionFailedError,
    IgniteStrategyError,
    NotFoundError,
    PreconditionError,
)
from ignite_strategy.runtime.account import TaskRecord
from ignite_strategy.runtime.readers import readings
from ignite_strategy.runtime.records import (
    AGENTS,
    JOBS,
    AgentRecord,
    ClusterRecord,
    JobRecord,
    Request,
    Status,
    cluster_key,
    request_key,
    status_key,
)
from ignite_strategy.runtime.registry import LeaseView, Registry, Value, open_registry
from ignite_strategy.runtime.registry.ignite import CACHE_NAME
from ignite_strategy.settings import Endpoint, Security, Timeouts, ZooKeeper, format_endpoint
from ignite_strategy.topology.address import advertise_address
from ignite_strategy.topology.nodes import Node, Topology, cache_names, connect, discover, list_nodes
from ignite_strategy.topology.tf_config import TASK_TYPES, ClusterLayout

__all__ = [
    "AgentView",
    "JobView",
    "Observer",
    "Overview",
    "Traffic",
    "is_own_cache",
    "node_address",
    "traffic_of",
]

_MOST_CACHES = 50  # that are shown unless they are named


def is_own_cache(name: str) -> bool:
    """Whether a cache is this package's: the registry, or part of a file system."""
    return name == CACHE_NAME or name.startswith("igfs-")


class Traffic(NamedTuple):
    """What was read.

    Attributes:
      local_rows: By tasks of the same node.
      local_bytes: Likewise.
      remote_rows: By or from other nodes.
      remote_bytes: Likewise.
    """

    local_rows: int = 0
    local_bytes: int = 0
    remote_rows: int = 0
    remote_bytes: int = 0


@dataclass(frozen=True)
class AgentView:
    """An agent.

    Attributes:
      record: What it says.
      alive: Whether it renews its lease, as far as this observer can tell.
      proven: Whether this observer has seen it do so.
    """

    record: AgentRecord
    alive: bool
    proven: bool


@dataclass(frozen=True)
class JobView:
    """A job.

    Attributes:
      record: What its client says.
      alive: Whether its client renews the lease, as far as this observer can tell.
      proven: Whether this observer has seen it do so.
      tasks: Its tasks; those that no agent has reported on yet are ``requested``.
      layout: Their addresses, once all are known.
      problems: Why agents refuse to run tasks, and what could not be read.
    """

    record: JobRecord
    alive: bool
    proven: bool
    tasks: tuple[TaskRecord, ...] = ()
    layout: ClusterLayout | None = None
    problems: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Id of the job."""
        return self.record.job

    @property
    def caches(self) -> tuple[str, ...]:
        """The caches whose partitions its tasks share."""
        return tuple(sorted({cache for task in self.tasks for cache in task.partitions}))

    @property
    def state(self) -> str:
        """``running``, ``starting``, ``closing``, or ``silent``: its client no longer renews the lease."""
        if not self.alive:
            return "silent"
        if self.record.closing:
            return "closing"
        return "running" if all(task.state in ("serving", "done") for task in self.tasks) else "starting"

    def readers_of(self, cache: str) -> dict[int, TaskRecord]:
        """Partition -> the task that reads it."""
        return {p: task for task in self.tasks for p in task.partitions.get(cache, ())}


@dataclass(frozen=True)
class Overview:
    """Everything, at one moment.

    Attributes:
      version: Ignite's topology version.
      nodes: Its nodes that have a client connector.
      caches: The caches that were asked for, with the primaries of their partitions.
      agents: By id of their node.
      jobs: Sorted by id.
      problems: What could not be read.
    """

    version: int
    nodes: tuple[Node, ...]
    caches: tuple[Topology, ...] = ()
    agents: Mapping[str, AgentView] = field(default_factory=dict)
    jobs: tuple[JobView, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def tasks(self) -> tuple[tuple[JobView, TaskRecord], ...]:
        """All tasks, each with its job."""
        return tuple((job, task) for job in self.jobs for task in job.tasks)

    def address(self, node: str) -> str:
        """Where a node is reached; its id if it has left."""
        found = next((each for each in self.nodes if each.id == node), None)
        return node if found is None else node_address(found)

    def layout_of(self, cache: str, job: str | None = None) -> ClusterLayout:
        """The addresses of the tasks of the job that reads a cache.

        Raises:
          NotFoundError: There is no such job.
          PreconditionError: Several read it and none is named, or its tasks are not all there yet.
        """
        found = [each for each in self.jobs if cache in each.caches and job in (None, each.id)]
        if not found:
            others = ", ".join(f"{each.id} on {', '.join(each.caches) or 'nothing'}" for each in self.jobs)
            named = f"job {job!r}, reading cache {cache!r}," if job else f"job that reads cache {cache!r}"
            raise NotFoundError(f"there is no {named} on this cluster; there are: {others or 'none'}")
        if len(found) > 1:
            raise PreconditionError(
                f"{len(found)} jobs read cache {cache!r}: name one of {', '.join(each.id for each in found)}"
            )
        layout = found[0].layout
        if layout is None:
            raise PreconditionError(
                f"job {found[0].id} is starting: the addresses of its tasks are not known yet; try again"
            )
        return layout

    def served(self) -> dict[str, Traffic]:
        """What the datasets of all tasks have read from each node; local if the task runs beside it."""
        sums: dict[str, list[int]] = {}
        for _, task in self.tasks:
            for entry in task.readers:
                counts = sums.setdefault(str(entry["node"]), [0, 0, 0, 0])
                at = 0 if task.node == entry["node"] else 2
                counts[at] += int(entry["rows"])
                counts[at + 1] += int(entry["bytes"])
        return {node: Traffic(*counts) for node, counts in sums.items()}


def node_address(node: Node) -> str:
    """The best of a node's addresses, with its port."""
    if not node.addresses:
        return f"{node.id} (without an address)"
    return format_endpoint((advertise_address(node.addresses), node.port))


def traffic_of(task: TaskRecord) -> Traffic:
    """What a task's datasets have read, over all caches."""
    sums = [0, 0, 0, 0]
    for reading in readings(task.readers, task.node):
        for at, count in enumerate(reading[1:]):
            sums[at] += int(count)
    return Traffic(*sums)


class Observer:
    """Looks at a cluster, again and again. Changes nothing, and starts nothing.

    Args:
      endpoints: Ignite nodes; one is enough, the others are found.
      zookeeper: Where agents and clients meet, if not in the cluster.
      security: How the nodes are spoken to.
      timeouts: Limits of single requests.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        zookeeper: ZooKeeper | None = None,
        security: Security | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._endpoints = list(endpoints)
        self._known = self._endpoints
        self._zookeeper = zookeeper
        self._security = security
        self._timeouts = timeouts
        self._registry: Registry | None = None

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the registry."""
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.close()

    def look(self, caches: Iterable[str] = ()) -> Overview:
        """Asks the cluster once.

        Args:
          caches: Whose partitions; without any, those of the jobs that run, or all caches if none does.

        Raises:
          ConnectionFailedError: No node answers.
          NotFoundError: One of the caches does not exist.
        """
        with contextlib.closing(connect(self._known, self._timeouts, self._security)) as connection:
            version, nodes = list_nodes(connection)
            addresses = [endpoint for node in nodes for endpoint in node.endpoints[:1]]
            self._known = list(dict.fromkeys([*self._endpoints, *addresses]))
            names = cache_names(connection)
            agents, jobs, problems = self._meet(names)
            asked = list(dict.fromkeys(caches))
            wanted = asked or _interesting(names, jobs)
            found = []
            for name in wanted:
                try:
                    found.append(discover(connection, name))
                except ConnectionFailedError:
                    raise
                except IgniteStrategyError as error:
                    if asked:
                        raise
                    problems.append(str(error))  # one that is just being dropped, for instance
        return Overview(version, nodes, tuple(found), agents, jobs, tuple(problems))

    def _meet(self, names: Sequence[str]) -> tuple[dict[str, AgentView], tuple[JobView, ...], list[str]]:
        if self._zookeeper is None and CACHE_NAME not in names:
            return {}, (), []  # no agent has ever been here, and looking at the registry would create it
        if self._registry is None:
            self._registry = open_registry(self._known, self._zookeeper, self._security)
        self._registry.use_endpoints(self._known)
        problems: list[str] = []
        agents = {}
        for view in self._registry.leases(AGENTS).values():
            try:
                agents[view.key.rpartition("/")[2]] = AgentView(
                    AgentRecord.from_json(view.value), view.alive, view.proven
                )
            except IgniteStrategyError as error:
                problems.append(f"{view.key}: {error}")
        jobs = []
        for view in self._registry.leases(JOBS).values():
            try:
                jobs.append(_job(self._registry, view))
            except IgniteStrategyError as error:
                problems.append(f"{view.key}: {error}")
        return agents, tuple(sorted(jobs, key=lambda job: job.id)), problems


def _interesting(names: Sequence[str], jobs: Sequence[JobView]) -> list[str]:
    read = {cache for job in jobs for cache in job.caches}
    wanted = [name for name in names if name in read]
    return wanted or [name for name in names if not is_own_cache(name)][:_MOST_CACHES]


def _job(registry: Registry, view: LeaseView) -> JobView:
    record = JobRecord.from_json(view.value)
    keys = [cluster_key(record.job)]
    keys += [key(record.job, node) for node in record.nodes for key in (request_key, status_key)]
    entries = registry.get_many(keys)
    problems: list[str] = []
    tasks: list[TaskRecord] = []
    layout = None
    try:
        layout = _layout(entries.get(cluster_key(record.job)), record.attempt)
        for node in record.nodes:
            found, refused = _tasks(
                entries.get(request_key(record.job, node)), entries.get(status_key(record.job, node)), node
            )
            tasks += found
            problems += [f"the agent of Ignite node {node} refuses: {refused}"] if refused else []
    except IgniteStrategyError as error:
        problems.append(str(error))
    tasks.sort(key=lambda task: (TASK_TYPES.index(task.type), task.index))
    return JobView(record, view.alive, view.proven, tuple(tasks), layout, tuple(problems))


def _layout(value: Value | None, attempt: int) -> ClusterLayout | None:
    if value is None:
        return None
    record = ClusterRecord.from_json(value)
    return ClusterLayout(record.cluster) if record.attempt == attempt else None


def _tasks(asked: Value | None, told: Value | None, node: str) -> tuple[list[TaskRecord], str]:
    """The tasks beside one node, and why its agent runs none of them."""
    if asked is None:
        return [], ""
    request = Request.from_json(asked)
    status = Status.from_json(told) if told is not None else None
    found = []
    for task in request.tasks:
        how = status.tasks.get(task.key) if status and status.attempt == request.attempt else None
        found.append(
            TaskRecord(
                type=task.key.type,
                index=task.key.index,
                node=node,
                host=status.host if status else "",
                pid=how.pid if how else 0,
                address=format_endpoint((status.host, how.port)) if status and how and how.port else None,
                state=how.state if how else "requested",
                partitions=task.partitions,
                readers=how.readers if how else (),
                log=how.log if how else "",
                tensorflow=how.tensorflow if how else "",
                gpus=task.gpus,
            )
        )
    return found, status.refused if status else ""
