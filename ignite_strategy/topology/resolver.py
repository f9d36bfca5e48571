"""The Ignite cluster as a TensorFlow cluster. Importing this module imports TensorFlow."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ignite_strategy.errors import (
    CancelledError,
    DataLossError,
    IgniteStrategyError,
    InvalidArgumentError,
    PreconditionError,
    TaskLostError,
)
from ignite_strategy.runtime.account import Healing, TaskRecord
from ignite_strategy.runtime.runner import JobRunner
from ignite_strategy.settings import Credentials, Endpoint, Timeouts, Tls, ZooKeeper, checked_timeouts
from ignite_strategy.settings import use_default_endpoints as _use_default_endpoints
from ignite_strategy.topology.arguments import (
    checked_caches,
    checked_strategy,
    checked_zookeeper,
    client_endpoints,
    client_security,
    job_id,
)
from ignite_strategy.topology.assignment import Assignment, Layout, TaskKey, assign
from ignite_strategy.topology.collocation import discover_together
from ignite_strategy.topology.nodes import Node, Topology, connect
from ignite_strategy.topology.tf_config import ClusterLayout

__all__ = ["IgniteClusterResolver"]

_RESTART_SECONDS = 1.0
_log = logging.getLogger(__name__)


class IgniteClusterResolver(tf.distribute.cluster_resolver.ClusterResolver):  # type: ignore[misc]
    """Runs TensorFlow tasks beside the Ignite nodes that hold a cache, and tells TensorFlow where they are.

    ::

        with igs.IgniteClusterResolver("DIGITS", addresses=["ignite-0:10800"], evaluator=True) as resolver:
            config = resolver.run_config(model_dir="igfs:///digits/run1")

    While it is open, datasets and ``igfs:///`` paths that name no host use its addresses. The job starts with
    :meth:`start`, which :meth:`run_config` calls, and ends with the ``with`` block.

    Estimator takes the cluster from :meth:`run_config`; TensorFlow 2 strategies take the resolver itself.

    Args:
      cache: The cache whose partitions are trained on. Or several with one assignment, of features and labels for
        instance: each task reads the same partitions of all, so they must have equally many, on the same nodes.
      addresses: Ignite nodes, ``host:port``; one is enough. Without it ``IGNITE_DATASET_HOST`` and ``_PORT``, else
        localhost:10800.
      strategy: ``"collective"``, ``"parameter_server"`` or ``"mirrored"``: which tasks are needed.
      layout: ``"auto"``: one replica per partition if there are at most as many partitions as nodes, else one per node
        that holds primaries; ``"partition"``, ``"node"``, or the number of replicas.
      chief: Whether the first replica is a chief; it trains like a worker.
      ps: Number of parameter servers; 1 for ``"parameter_server"``, else 0.
      evaluator: Whether evaluation runs (in the client) while training goes on.
      balance: ``"local"``, or ``"even"`` to give up locality for counts that differ by at most 1.
      start_timeout: Until every task is reachable, in seconds.
      timeouts: Limits of single requests to Ignite.
      tls: How connections to Ignite are encrypted: :class:`ignite_strategy.settings.Tls`, or True for its defaults.
      credentials: User and password for Ignite, :class:`ignite_strategy.settings.Credentials`. Both serve this process
        and what it opens (topology, registry, datasets and ``igfs:///`` paths that name no host); the tasks use
        their agent's. ``IGNITE_TLS``, ``IGNITE_CAFILE``, ``IGNITE_USERNAME`` and so on replace them.
      zookeeper: ZooKeeper, ``host:port,host:port/path``, where the agents are met (started with the same
        ``--zookeeper``) instead of in a cache of the cluster; :class:`ignite_strategy.settings.ZooKeeper` for TLS, user
        and password. Without it ``IGNITE_STRATEGY_ZOOKEEPER``, if that is set.
      task_environment: Variables for the tasks; only a short list is allowed.
      task_type: For strategies that want to know which task this process is.
      task_id: Its index.
      rpc_layer: TensorFlow's protocol.
      num_accelerators: What :meth:`num_accelerators` answers, for instance ``{"GPU": 1}``; by default the GPUs that
        the agents have given to the tasks.
      environment: What :attr:`environment` answers; TensorFlow knows ``"google"``, where servers run already.

    Raises:
      InvalidArgumentError: An argument is none of these.
    """

    def __init__(
        self,
        cache: str | Sequence[str],
        addresses: str | Sequence[str] | None = None,
        *,
        strategy: str = "collective",
        layout: str | int = "auto",
        chief: bool = True,
        ps: int | None = None,
        evaluator: bool = False,
        balance: str = "local",
        start_timeout: float = 60.0,
        timeouts: Timeouts | None = None,
        tls: Tls | bool | None = None,
        credentials: Credentials | None = None,
        zookeeper: str | ZooKeeper | None = None,
        task_environment: Mapping[str, str] | None = None,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str = "grpc",
        num_accelerators: Mapping[str, int] | None = None,
        environment: str = "",
    ) -> None:
        if not start_timeout > 0:
            raise InvalidArgumentError(f"start_timeout={start_timeout!r} is no number of seconds")
        self._caches = checked_caches(cache)
        self._cache = self._caches[0]
        self._endpoints = client_endpoints(addresses)
        self._security = client_security(self._endpoints, tls, credentials)
        self._zookeeper = checked_zookeeper(zookeeper)
        self._strategy = checked_strategy(strategy)
        self._ps = ps
        self._shape = (layout, chief, balance)
        self._layout()  # refuses what cannot be, before anything starts
        self._evaluator = evaluator
        self._start_timeout = start_timeout
        self._timeouts = checked_timeouts(timeouts)
        self._task_environment = dict(task_environment or {})
        self._task_type = task_type
        self._task_id = task_id
        self._rpc_layer = rpc_layer
        self._accelerators = None if num_accelerators is None else dict(num_accelerators)
        self._environment = environment
        self._runner: JobRunner | None = None
        self._defaults = contextlib.ExitStack()
        self._known: list[Endpoint] = []  # with those that the cluster named
        self._opened = False
        self._callbacks: list[Callable[[TaskLostError], None]] = []
        self._closers: list[Callable[[], None]] = []

    def __deepcopy__(self, memo: Any) -> IgniteClusterResolver:
        # Estimator copies its configuration with everything in it; there is one job all the same.
        return self

    # TensorFlow's contract.

    def cluster_spec(self) -> tf.train.ClusterSpec:
        """The addresses of the chief, the workers and the parameter servers, as they are now; never an evaluator.

        Raises:
          PreconditionError: The job has not started.
        """
        return tf.train.ClusterSpec(self._cluster_layout().cluster())

    def master(
        self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None
    ) -> str:
        """The target of one task for a session; by default of :attr:`task_type` and :attr:`task_id`.

        Returns:
          ``grpc://host:port``, or an empty text if no task is meant.
        """
        kind = task_type if task_type is not None else self._task_type
        index = task_id if task_id is not None else self._task_id
        if kind is None or index is None:
            return ""
        address = self._cluster_layout().task_address(kind, index)
        layer = rpc_layer if rpc_layer is not None else self._rpc_layer
        return f"{layer}://{address}" if layer else address

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """What was given to the constructor, or else the GPUs of one task; by default of the task that this process is.

        It never asks the task, which might wait for ever.

        Returns:
          Kind -> count: ``{"GPU": 2}``, nothing if it has none.
        """
        if self._accelerators is not None or self._runner is None:
            return dict(self._accelerators or {})
        kind = task_type if task_type is not None else self._task_type
        index = task_id if task_id is not None else self._task_id
        if kind is None or index is None:
            return {}
        gpus = self._runner.gpus.get(TaskKey(kind, index), ())
        return {"GPU": len(gpus)} if gpus else {}

    @property
    def gpus_per_worker(self) -> int:
        """How many GPUs each chief and worker of the job has at least; strategies use as many on each."""
        if self._runner is None:
            return 0
        gpus = self._runner.gpus
        return min(len(gpus.get(share.key, ())) for share in self._runner.assignment.replicas)

    @property
    def task_type(self) -> str | None:
        """Which task this process is, for strategies that ask."""
        return self._task_type

    @task_type.setter
    def task_type(self, value: str | None) -> None:
        self._task_type = value

    @property
    def task_id(self) -> int | None:
        """Its index."""
        return self._task_id

    @task_id.setter
    def task_id(self, value: int | None) -> None:
        self._task_id = value

    @property
    def rpc_layer(self) -> str:
        """TensorFlow's protocol."""
        return self._rpc_layer

    @rpc_layer.setter
    def rpc_layer(self, value: str) -> None:
        self._rpc_layer = value

    @property
    def environment(self) -> str:
        """What was given to the constructor."""
        return self._environment

    # The job.

    def __enter__(self) -> IgniteClusterResolver:
        self._open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def start(self, strategy: str | None = None) -> IgniteClusterResolver:
        """Starts the tasks and waits until every one is reachable; does nothing if they run.

        Args:
          strategy: Another one than the constructor's.

        Raises:
          NotFoundError: There is no such cache.
          PreconditionError: A node has no agent, or the tasks that run do not suit ``strategy``.
          ClusterTimeoutError: Tasks are ``missing``.
          TaskLostError: A task has ended, or an earlier failure of this job.
        """
        wanted = self._strategy if strategy is None else checked_strategy(strategy)
        if self._runner is not None:
            if self.failure is not None:
                raise self.failure
            if wanted == "parameter_server" and not self.assignment.on_type("ps"):
                raise PreconditionError(
                    "the job runs without parameter servers; give the resolver strategy='parameter_server'"
                )
            return self
        self._strategy = wanted
        entered = self._opened
        self._open()
        try:
            self._runner = self._start_job()
        except BaseException:
            if not entered:
                self.close()
            raise
        return self

    def restart(self) -> None:
        """Ends the job and starts another, with the nodes and the primaries as they are then.

        Nodes that left may need a moment until the others have taken their partitions: it is tried for as long as a
        start may take. What was said of the job before holds on: restarts, and the directories it writes to.

        Raises:
          IgniteStrategyError: As of :meth:`start`, when time is up.
        """
        before = self._running()
        self._runner = None
        before.close()
        self._runner = runner = self._start_again()
        runner.allow_restarts(before.restarts, before.together)
        for directory in before.directories:
            runner.claim(directory)

    def _start_again(self) -> JobRunner:
        until = time.monotonic() + self._start_timeout
        while True:
            try:
                return self._start_job()
            except IgniteStrategyError as error:
                if isinstance(error, CancelledError) or time.monotonic() > until:
                    raise
                _log.warning("job on cache %r: %s. Trying again", self._cache, error)
            time.sleep(_RESTART_SECONDS)

    def _use(self, nodes: Sequence[Node]) -> None:
        """Adds nodes to the addresses that were given: one of those may be the next to leave."""
        known = (endpoint for node in nodes for endpoint in node.endpoints[:1])
        self._known = list(dict.fromkeys([*self._endpoints, *self._known, *known]))
        self._defaults.close()
        self._defaults.enter_context(_use_default_endpoints(self._known, self._security))

    def _start_job(self) -> JobRunner:
        topology = self.topology()
        self._use(topology.nodes)
        runner = JobRunner(
            job_id(self._cache),
            topology,
            self._assign(topology),
            self._endpoints,
            self._task_environment,
            self._start_timeout,
            self._security,
            self._zookeeper,
        )
        for callback in self._callbacks:
            runner.on_failure(callback)
        runner.start()
        return runner

    def close(self) -> None:
        """Stops the tasks; bounded, in any state, may be called twice. The resolver can be started again."""
        closers, self._closers = self._closers, []
        for closer in closers:
            closer()
        runner, self._runner = self._runner, None
        self._opened = False
        try:
            if runner is not None:
                runner.close()
        finally:
            self._defaults.close()

    def claim_directory(self, directory: str) -> None:
        """Notes that this job writes checkpoints to a directory, so that no other job does; until :meth:`close`.

        Raises:
          PreconditionError: Another job writes to it, or this one has not started.
        """
        self._running().claim(directory)

    def run_config(self, strategy: str | None = None, **arguments: Any) -> Any:
        """A ``tf.estimator.RunConfig`` for this cluster; starts the job.

        Args:
          strategy: ``"collective"``, ``"parameter_server"`` or ``"mirrored"``; the constructor's if not given.
          **arguments: Of ``RunConfig``, such as ``model_dir``.
        """
        from ignite_strategy.estimator import run_config

        return run_config(self, strategy=strategy or self._strategy, **arguments)

    @property
    def failure(self) -> TaskLostError | None:
        """What the job has lost, if it has."""
        return self._runner.failure if self._runner else None

    @property
    def is_out_of_touch(self) -> bool:
        """Whether just now no node of the cluster answers; :attr:`failure` says so if it lasts."""
        return self._runner is not None and self._runner.out_of_touch

    @property
    def attempt(self) -> int:
        """How often the tasks of the job have been started: 1, and more once some were lost; 0 before the start."""
        return self._runner.attempt if self._runner else 0

    @property
    def is_healing(self) -> bool:
        """Whether the tasks are being started again, because some were lost."""
        return self._runner is not None and self._runner.is_healing

    @property
    def healings(self) -> tuple[Healing, ...]:
        """What the job has lost and started again, oldest first."""
        return tuple(self._runner.healings) if self._runner else ()

    def task_attempts(self) -> dict[tuple[str, int], int]:
        """Which attempt has started each task, or starts it."""
        return self._running().attempts()

    def allow_restarts(self, count: int, together: bool = True) -> None:
        """From now on a lost task or agent does not end the job: tasks are started again.

        Args:
          count: How often in a row, without :meth:`note_progress` in between; 0: not at all, as a job begins.
          together: Whether all tasks take each step together. If so all are started again, at other addresses, else
            the lost ones alone, at theirs (all, if that does not help).
        """
        self._running().allow_restarts(count, together)

    def note_progress(self, attempt: int) -> None:
        """Notes that an attempt's tasks have done something that was worth their start."""
        if self._runner is not None:
            self._runner.note_progress(attempt)

    def on_failure(self, callback: Callable[[TaskLostError], None]) -> None:
        """Calls ``callback`` from a thread when a task, an agent or a node is lost."""
        self._callbacks.append(callback)
        if self._runner is not None:
            self._runner.on_failure(callback)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once, when :meth:`close` begins and the tasks still run."""
        self._closers.append(callback)

    # What the cluster looks like.

    @property
    def cache(self) -> str:
        """Name of the cache, the first of several."""
        return self._cache

    @property
    def caches(self) -> tuple[str, ...]:
        """Names of all caches that are read with this assignment."""
        return self._caches

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses of Ignite nodes that were given."""
        return tuple(self._endpoints)

    @property
    def strategy(self) -> str:
        """Name of the strategy that the tasks are for."""
        return self._strategy

    @property
    def has_evaluator(self) -> bool:
        """Whether the client evaluates while it trains."""
        return self._evaluator

    @property
    def job(self) -> str | None:
        """Id of the job that runs."""
        return self._runner.id if self._runner else None

    @property
    def assignment(self) -> Assignment:
        """Which task reads which partitions; before the start, how it would be now."""
        return self._runner.assignment if self._runner else self._assign(self.topology())

    def has_moved(self) -> bool:
        """Whether a job that started now would have other tasks: a node has joined, or partitions have moved.

        Raises:
          IgniteStrategyError: The cluster does not tell.
        """
        return self._assign(self.topology()).tasks != self._running().assignment.tasks

    def topology(self) -> Topology:
        """The nodes and the primaries of the cache, as they are now."""
        known = self._known or self._endpoints
        with contextlib.closing(connect(known, self._timeouts, self._security)) as connection:
            return discover_together(connection, self._caches)

    def partition_map(self) -> dict[int, TaskKey]:
        """Partition -> the task that reads it."""
        return self.assignment.partition_map()

    def tasks(self) -> list[TaskRecord]:
        """The tasks with host, pid, node, address, partitions, state and the counters of their readers."""
        return self._running().tasks()

    def remote_cluster(self) -> dict[str, Any]:
        """What ``RunConfig``'s ``remote_cluster`` takes; with a placeholder for the evaluator if there is one."""
        return self._cluster_layout().remote_cluster(self._evaluator)

    def tf_config(self, task_type: str, task_id: int = 0) -> str:
        """The value of TF_CONFIG for a program that is one of the tasks, JSON."""
        return self._cluster_layout().tf_config(task_type, task_id, self._rpc_layer)

    # Inside.

    def _open(self) -> None:
        if not self._opened:
            self._opened = True
            self._defaults.enter_context(_use_default_endpoints(self._endpoints, self._security))

    def _running(self) -> JobRunner:
        if self._runner is None:
            raise PreconditionError(f"the job on cache {self._cache!r} does not run: call start() first")
        return self._runner

    def _cluster_layout(self) -> ClusterLayout:
        return ClusterLayout(self._running().cluster())

    def _layout(self) -> Layout:
        layout, chief, balance = self._shape
        servers = self._ps if self._ps is not None else int(self._strategy == "parameter_server")
        if self._strategy == "parameter_server" and servers == 0:
            raise InvalidArgumentError("strategy='parameter_server' needs ps=1 or more")
        return Layout(replicas=layout, chief=chief, ps=servers, balance=balance)

    def _assign(self, topology: Topology) -> Assignment:
        try:
            return assign([node.id for node in topology.nodes], topology.primaries, self._layout())
        except DataLossError as error:
            raise DataLossError(f"cache {topology.cache!r}: {error}") from None
