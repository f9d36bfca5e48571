"""What a strategy and its copies share: the cluster they train on, and the run that is on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from ignite_strategy.errors import CancelledError, PreconditionError
from ignite_strategy.estimator import guards

if TYPE_CHECKING:
    from ignite_strategy.estimator.evaluation import Evaluation
    from ignite_strategy.estimator.run import Run

__all__ = ["Supervisor"]


class Supervisor:
    """Starts a :class:`Run` for each call of ``train_and_evaluate``.

    Args:
      cluster: Returns the tasks' present addresses, job name -> list of ``host:port``.
      lost: Returns the error that names a lost task, agent or node, or None.
      report: Called with each evaluation.
      in_step: Whether all tasks take each step together.
      out_of_touch: Tells whether just now no node of the cluster answers.
    """

    def __init__(
        self,
        cluster: Callable[[], Mapping[str, list[str]]],
        lost: Callable[[], BaseException | None],
        report: Callable[[Evaluation], None] | None = None,
        in_step: bool = False,
        out_of_touch: Callable[[], bool] = bool,
    ) -> None:
        self._cluster = cluster
        self._lost = lost
        self._report = report
        self._in_step = in_step
        self._out_of_touch = out_of_touch
        self._run: Run | None = None

    def begin(self, frame: FrameType) -> None:
        """Checks a call that is about to start its threads, and watches over it."""
        from ignite_strategy.estimator.call import TrainingCall
        from ignite_strategy.estimator.run import Run
        from ignite_strategy.estimator.session import clear_variables

        guards.check_tf_config()
        call = TrainingCall(frame)
        guards.check_specs(call.train_spec, call.eval_spec)
        if self._run is not None:
            if self._run.is_on():
                raise PreconditionError(
                    "train_and_evaluate is already running with this RunConfig: one call at a time"
                )
            self._run.close()
        lost = self._lost()
        if lost is not None:
            raise lost
        cluster = self._cluster()
        if cluster.get("ps"):
            clear_variables(cluster["ps"][0])
        self._run = Run(call, cluster, self._lost, self._report, self._in_step, self._out_of_touch)

    def enter(self, in_graph: bool) -> None:
        """Notes the thread that trains a task, or all of them; called in that thread."""
        if self._run is not None:
            self._run.enter(in_graph)

    def adopt(self, context: Any) -> None:
        """Leads a worker context's sessions through the run's relay."""
        if self._run is not None:
            self._run.adopt(context)

    def close(self) -> None:
        """Ends a run that is on, and waits until it has cleaned up: its tasks are about to go."""
        if self._run is not None:
            if self._run.is_on():
                self._run.end(CancelledError("the resolver was closed while training was on"))
            self._run.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Supervisor:
        return self
