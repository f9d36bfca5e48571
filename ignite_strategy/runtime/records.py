"""What client and agents tell each other through the registry: fixed schemas, JSON, never code (pure).

==========================  ==================  =================================================================
key                         written by          value
==========================  ==================  =================================================================
``agents/<node>``           agent (a lease)     :class:`AgentRecord`
``jobs/<job>``              client (a lease)    :class:`JobRecord`
``request/<job>/<node>``    client              :class:`Request`: the tasks to run beside that node
``cluster/<job>``           client              :class:`ClusterRecord`: the addresses, once every port is reserved
``status/<job>/<node>``     agent               :class:`Status`: how these tasks are
==========================  ==================  =================================================================
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.runtime.schema import checked, checked_name
from ignite_strategy.topology.assignment import TaskKey
from ignite_strategy.topology.ranges import format_ranges, parse_ranges
from ignite_strategy.topology.tf_config import ClusterLayout

__all__ = [
    "AGENTS",
    "GPU_NAME",
    "JOBS",
    "AgentRecord",
    "ClusterRecord",
    "JobRecord",
    "Request",
    "Status",
    "TaskRequest",
    "TaskStatus",
    "cluster_key",
    "parse_task_name",
    "request_key",
    "status_key",
]

AGENTS = "agents"
JOBS = "jobs"
_SCHEMA = 1
# The only variables that a request may set; everything else in a task's environment is the agent's decision.
_REQUEST_ENVIRONMENT = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "IGFS_BACKEND",
        "IGFS_FS_NAME",
        "IGFS_HOST",
        "IGFS_PORT",
        "OMP_NUM_THREADS",
        "TF_CPP_MIN_LOG_LEVEL",
        "TF_FORCE_GPU_ALLOW_GROWTH",
        "TF_NUM_INTEROP_THREADS",
        "TF_NUM_INTRAOP_THREADS",
    }
)


# A number, or an identifier of a GPU or of a part of one.
GPU_NAME = re.compile(r"\d{1,3}|(GPU|MIG)-[A-Za-z0-9/-]{1,80}")


def request_key(job: str, node: str) -> str:
    """Where the client asks a node's agent for tasks."""
    return f"request/{job}/{node}"


def status_key(job: str, node: str) -> str:
    """Where the agent of a node reports on a job's tasks."""
    return f"status/{job}/{node}"


def cluster_key(job: str) -> str:
    """Where the addresses of a job's tasks are."""
    return f"cluster/{job}"


def parse_task_name(name: str) -> TaskKey:
    """``worker:0`` -> its key."""
    kind, _, index = name.partition(":")
    alone = kind in ("chief", "evaluator")
    if not (alone or kind in ("worker", "ps")) or not index.isdigit() or (alone and index != "0"):
        raise InvalidArgumentError(f"{name!r} is no task: chief:0, worker:N, ps:N or evaluator:0")
    return TaskKey(kind, int(index))


@dataclass(frozen=True)
class AgentRecord:
    """An agent about itself.

    Attributes:
      node: Id of the Ignite node beside which it runs, from its own handshake.
      host: The address under which its tasks are reached.
      pid: Its process.
      started: When its process started, in clock ticks since its host booted: tells a reused pid apart.
      machine: Name of its host, to know whether ``pid`` can be looked up.
      instance: Unique per run of the agent.
      version: Version of this package.
      gpus: The GPUs that its tasks may use, as ``CUDA_VISIBLE_DEVICES`` names them.
      scripts: The fingerprint of the key with which requests to run scripts are signed; empty if it runs none.
    """

    node: str
    host: str
    pid: int
    started: int
    machine: str
    instance: str
    version: str
    gpus: tuple[str, ...] = ()
    scripts: str = ""

    def to_json(self) -> dict[str, Any]:
        """As a registry value."""
        return {"schema": _SCHEMA, **dataclasses.asdict(self), "gpus": list(self.gpus)}

    @staticmethod
    def from_json(data: Any) -> AgentRecord:
        """The inverse; refuses everything else."""
        kinds = {
            "node": str,
            "host": str,
            "pid": int,
            "started": int,
            "machine": str,
            "instance": str,
            "version": str,
            "gpus": list,
            "scripts": str,
        }
        body = _body(data, kinds, "an agent's record")
        return AgentRecord(**{**body, "gpus": _gpus(body["gpus"], "an agent")})


@dataclass(frozen=True)
class JobRecord:
    """A client about its job; the lease that keeps the job alive.

    Attributes:
      job: Its id.
      attempt: Counts from 1; agents stop the tasks of earlier ones.
      nodes: The nodes that have a request.
      closing: The job is over: agents stop its tasks.
      host: Where the client runs.
      pid: Its process.
    """

    job: str
    attempt: int
    nodes: tuple[str, ...]
    closing: bool = False
    host: str = ""
    pid: int = 0

    def to_json(self) -> dict[str, Any]:
        """As a registry value."""
        return {"schema": _SCHEMA, **dataclasses.asdict(self), "nodes": list(self.nodes)}

    @staticmethod
    def from_json(data: Any) -> JobRecord:
        """The inverse; refuses everything else."""
        kinds = {"job": str, "attempt": int, "nodes": list, "closing": bool, "host": str, "pid": int}
        body = _body(data, kinds, "a job's record")
        checked_name(body["job"], "job id")
        body["nodes"] = tuple(checked_name(str(node), "node id") for node in body["nodes"])
        return JobRecord(**body)


@dataclass(frozen=True)
class TaskRequest:
    """One task to run.

    Attributes:
      key: Type and index.
      partitions: Cache -> the partitions it reads; empty for a parameter server, which reads nothing.
      attempt: The attempt that started it: of one task alone it may be a later one than of the others.
      port: Where it must listen, because the others know that address already; 0 = anywhere.
      gpus: The GPUs of its host that are its alone; it sees no others.
    """

    key: TaskKey
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    attempt: int = 1
    port: int = 0
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """The tasks of a job that run beside one node.

    Attributes:
      job: Id of the job.
      attempt: Which attempt; tasks of earlier ones that it names go on.
      node: Id of the node.
      tasks: The tasks.
      environment: Variables for them, of a short list only.
      program: The user's program that is run in their place, signed: see
        :class:`ignite_strategy.runtime.scripts.records.RunRequest`; empty for TensorFlow servers.
    """

    job: str
    attempt: int
    node: str
    tasks: tuple[TaskRequest, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    program: Mapping[str, Any] = field(default_factory=dict)

    def tasks_to_json(self) -> list[dict[str, Any]]:
        """The tasks as JSON."""
        return [
            {
                "task": task.key.name,
                "partitions": {c: format_ranges(p) for c, p in task.partitions.items()},
                "attempt": task.attempt,
                "port": task.port,
                "gpus": list(task.gpus),
            }
            for task in self.tasks
        ]

    def to_json(self) -> dict[str, Any]:
        """As a registry value."""
        return {
            "schema": _SCHEMA,
            "job": self.job,
            "attempt": self.attempt,
            "node": self.node,
            "tasks": self.tasks_to_json(),
            "environment": dict(self.environment),
            "program": dict(self.program),
        }

    @staticmethod
    def from_json(data: Any) -> Request:
        """The inverse.

        Raises:
          InvalidArgumentError: An unknown field, a variable that a request may not set, a task that cannot be.
        """
        kinds = {
            "job": str,
            "attempt": int,
            "node": str,
            "tasks": list,
            "environment": dict,
            "program": dict,
        }
        body = _body(data, kinds, "a request")
        checked_name(body["job"], "job id")
        checked_name(body["node"], "node id")
        tasks = tuple(_task_request(task) for task in body["tasks"])
        if not tasks or len({task.key for task in tasks}) != len(tasks):
            raise InvalidArgumentError(f"the tasks of request {body['job']!r} are none, or one twice")
        if not body["program"] and any(task.key.type == "evaluator" for task in tasks):
            raise InvalidArgumentError("evaluator:0 is no task of its own: only a user's program evaluates")
        environment = _environment(body["environment"])
        return Request(body["job"], body["attempt"], body["node"], tasks, environment, body["program"])


def _task_request(data: Any) -> TaskRequest:
    kinds = {"task": str, "partitions": dict, "attempt": int, "port": int}
    body = checked(data, kinds, "a task of a request", {"gpus": list})
    if body["attempt"] < 1:
        raise InvalidArgumentError(f"task {body['task']!r} is of attempt {body['attempt']}")
    if body["port"] != 0 and not 1024 <= body["port"] <= 65535:
        raise InvalidArgumentError(f"task {body['task']!r} is to listen on port {body['port']}")
    partitions = {}
    for cache, ranges in body["partitions"].items():
        if not cache or not isinstance(ranges, str):
            raise InvalidArgumentError(f"task {body['task']!r} has no list of partitions for cache {cache!r}")
        partitions[cache] = parse_ranges(ranges)
    gpus = _gpus(body.get("gpus", []), f"task {body['task']!r}")
    return TaskRequest(parse_task_name(body["task"]), partitions, body["attempt"], body["port"], gpus)


def _gpus(names: Sequence[Any], where: str) -> tuple[str, ...]:
    if len(names) > 64 or not all(isinstance(name, str) and GPU_NAME.fullmatch(name) for name in names):
        raise InvalidArgumentError(f"{where} has GPUs that are none: {str(names)[:200]}")
    return tuple(names)


def _environment(data: Mapping[str, Any]) -> dict[str, str]:
    foreign = sorted(set(data) - _REQUEST_ENVIRONMENT)
    if foreign:
        raise InvalidArgumentError(
            f"a request may not set {', '.join(foreign)}; it may set {', '.join(sorted(_REQUEST_ENVIRONMENT))}"
        )
    for name, value in data.items():
        if not isinstance(value, str) or len(value) > 1_000 or not value.isprintable():
            raise InvalidArgumentError(
                f"{name} in a request is no short, printable text: {str(value)[:100]!r}"
            )
    return dict(data)


@dataclass(frozen=True)
class ClusterRecord:
    """Where the tasks of an attempt are.

    Attributes:
      attempt: Which attempt.
      cluster: Job name -> addresses.
    """

    attempt: int
    cluster: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As a registry value."""
        return {"schema": _SCHEMA, "attempt": self.attempt, "cluster": dict(self.cluster)}

    @staticmethod
    def from_json(data: Any) -> ClusterRecord:
        """The inverse; the cluster is checked as a whole."""
        body = _body(data, {"attempt": int, "cluster": dict}, "a cluster's record")
        return ClusterRecord(body["attempt"], ClusterLayout(body["cluster"]).cluster())


@dataclass(frozen=True)
class TaskStatus:
    """How a task is.

    Attributes:
      state: ``starting``, ``reserved`` (its port is known), ``loaded`` (TensorFlow and our ops too), ``serving``,
        ``exited`` (by itself), ``done`` (a user's program that ended well) or ``stopped`` (by its agent).
      port: Its port, 0 before it is known.
      pid: Its process.
      exit: Exit code, negative = the signal; ``None`` while it runs.
      error: Why it ended, in words, with its last log lines.
      log: Its log file on the agent's host.
      tensorflow: Version of TensorFlow.
      readers: Counters of its datasets: see :func:`ignite_strategy.runtime.readers.summarize`.
      attempt: The attempt that started it.
    """

    state: str
    port: int = 0
    pid: int = 0
    exit: int | None = None
    error: str = ""
    log: str = ""
    tensorflow: str = ""
    readers: tuple[Mapping[str, Any], ...] = ()
    attempt: int = 1


_TASK_STATES = ("starting", "reserved", "loaded", "serving", "exited", "done", "stopped")
_TASK_STATUS_KINDS = {
    "state": str,
    "port": int,
    "pid": int,
    "exit": (int, type(None)),
    "error": str,
    "log": str,
    "tensorflow": str,
    "readers": list,
    "attempt": int,
}


@dataclass(frozen=True)
class Status:
    """An agent about the tasks that it runs for a job; rewritten about once a second.

    Attributes:
      attempt: Which attempt.
      instance: The run of the agent that wrote it.
      count: Grows with every report.
      host: The address under which the tasks are reached.
      tasks: The tasks.
      refused: Why it does not run them; empty if it does.
      node_lost: The Ignite node is gone, says its agent.
    """

    attempt: int
    instance: str
    count: int
    host: str
    tasks: Mapping[TaskKey, TaskStatus]
    refused: str = ""
    node_lost: str = ""

    def to_json(self) -> dict[str, Any]:
        """As a registry value."""
        tasks = {
            key.name: {**dataclasses.asdict(task), "readers": [dict(r) for r in task.readers]}
            for key, task in self.tasks.items()
        }
        return {
            "schema": _SCHEMA,
            **{f.name: getattr(self, f.name) for f in dataclasses.fields(self)},
            "tasks": tasks,
        }

    @staticmethod
    def from_json(data: Any) -> Status:
        """The inverse; refuses everything else."""
        kinds = {
            "attempt": int,
            "instance": str,
            "count": int,
            "host": str,
            "tasks": dict,
            "refused": str,
            "node_lost": str,
        }
        body = _body(data, kinds, "a status report")
        tasks = {}
        for name, task in body["tasks"].items():
            checked(task, _TASK_STATUS_KINDS, f"the status of {name}")
            if task["state"] not in _TASK_STATES:
                raise InvalidArgumentError(f"{name} has a state that does not exist: {task['state']!r}")
            tasks[parse_task_name(name)] = TaskStatus(**{**task, "readers": tuple(task["readers"])})
        return Status(**{**body, "tasks": tasks})


def _body(data: Any, kinds: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Checks the fields and the schema number, and returns the fields without it."""
    if isinstance(data, dict) and data.get("schema", _SCHEMA) != _SCHEMA:
        raise InvalidArgumentError(
            f"{where} has schema {data['schema']!r}, this version of ignite_strategy knows {_SCHEMA}: "
            "run the same version in the client and in every agent"
        )
    body = dict(checked(data, {"schema": int, **kinds}, where))
    del body["schema"]
    return body
