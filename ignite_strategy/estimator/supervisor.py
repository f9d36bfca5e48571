"""What a strategy and its copies share: the cluster they train on, and the run that is on."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from ignite_strategy.errors import CancelledError, ClusterError, ConnectionFailedError, PreconditionError
from ignite_strategy.estimator import guards

if TYPE_CHECKING:
    from ignite_strategy.estimator.evaluation import Evaluation
    from ignite_strategy.estimator.run import Run
    from ignite_strategy.estimator.training import Account
    from ignite_strategy.topology import IgniteClusterResolver

__all__ = ["Supervisor"]

_POLL = 0.1


class Supervisor:
    """Starts a :class:`Run` for each call of ``train_and_evaluate``.

    Args:
      resolver: Whose tasks train; it has been started.
      report: Called with each evaluation.
      in_step: Whether all tasks take each step together.
    """

    def __init__(
        self,
        resolver: IgniteClusterResolver,
        report: Callable[[Evaluation], None] | None = None,
        in_step: bool = False,
    ) -> None:
        self._resolver = resolver
        self._report = report
        self._in_step = in_step
        self._run: Run | None = None
        self.account: Account | None = None  # of a training in several attempts

    def begin(self, frame: FrameType) -> None:
        """Checks a call that is about to start its threads, and watches over it."""
        from ignite_strategy.estimator.call import TrainingCall
        from ignite_strategy.estimator.run import Run
        from ignite_strategy.estimator.session import clear_variables

        guards.check_tf_config()
        call = TrainingCall(frame)
        guards.check_specs(call.train_spec, call.eval_spec)
        guards.check_config(call.estimator.config, self._in_step)
        if self._run is not None:
            if self._run.is_on():
                raise PreconditionError(
                    "train_and_evaluate is already running with this RunConfig: one call at a time"
                )
            self._run.close()
        attempt, cluster = self._reachable()
        if cluster.get("ps"):
            clear_variables(cluster["ps"][0])
        self._run = Run(call, self._resolver, attempt, cluster, self._report, self._in_step, self.account)

    def _reachable(self) -> tuple[int, Mapping[str, list[str]]]:
        """The present attempt and where its tasks are; waits while they are being started, which has its own limit."""
        while True:
            failure = self._resolver.failure
            if failure is not None:
                raise failure
            attempt = self._resolver.attempt
            if not self._resolver.is_healing:
                with contextlib.suppress(PreconditionError):
                    cluster = self._resolver.cluster_spec().as_dict()
                    if attempt == self._resolver.attempt:
                        return attempt, cluster
            time.sleep(_POLL)

    def enter(self, in_graph: bool) -> None:
        """Notes the thread that trains a task, or all of them; called in that thread."""
        if self._run is not None:
            self._run.enter(in_graph)

    def adopt(self, context: Any) -> None:
        """Leads a worker context's sessions through the run's relay."""
        if self._run is not None:
            self._run.adopt(context)

    @property
    def loss(self) -> BaseException | None:
        """Why the last run failed, if it did."""
        return self._run.failure if self._run is not None else None

    def begin_again(self, estimator: Any) -> Any:
        """Starts another job, and returns the Estimator for it; the one that is given stays as it is.

        Raises:
          IgniteStrategyError: It does not start in time.
          InvalidArgumentError: A task of it does not see the model directory.
        """
        from ignite_strategy.estimator.preflight import check_tasks

        if self._run is not None:
            self._run.close()
        self._resolver.restart()
        # A node that has joined may not see the directory. A task that is lost meanwhile is the next run's to find out.
        with contextlib.suppress(ClusterError, ConnectionFailedError):
            check_tasks(self._resolver.tasks(), estimator.model_dir)
        cluster = dict(self._resolver.cluster_spec().as_dict())
        again = copy.copy(estimator)
        config = copy.deepcopy(estimator._config)
        if "evaluator" in config._cluster_spec:
            cluster["evaluator"] = config._cluster_spec["evaluator"]
        strategy = estimator._train_distribution.again()
        distribute = copy.copy(config._experimental_distribute)
        distribute.train_distribute, distribute.remote_cluster = strategy, cluster
        config._experimental_distribute, config._cluster_spec = distribute, cluster
        config._train_distribute = again._train_distribution = strategy
        again._config = config
        return again

    def close(self) -> None:
        """Ends a run that is on, and waits until it has cleaned up: its tasks are about to go."""
        if self._run is not None:
            if self._run.is_on():
                self._run.end(CancelledError("the resolver was closed while training was on"))
            self._run.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Supervisor:
        return self
