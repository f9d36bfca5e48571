"""The concrete strategies: TensorFlow's own, made to work from a client beside a cluster.

Each runs its constructor, ``configure`` and ``__deepcopy__`` in a graph: with eager execution on,
collective strategies would otherwise start collective operations on devices that this process does not
have.
"""

from __future__ import annotations

import copy
import weakref
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import (
    collective_all_reduce_strategy,
    collective_util,
    distribute_coordinator_context,
    mirrored_strategy,
    parameter_server_strategy,
)

from ignite_strategy.estimator import call
from ignite_strategy.estimator.strategy import IgniteStrategy

__all__ = ["CLASSES"]


class _Standalone(IgniteStrategy):
    """What the concrete classes have in common."""

    extended: Any

    def configure(
        self, session_config: Any = None, cluster_spec: Any = None, task_type: Any = None, task_id: Any = None
    ) -> None:
        """Called by TensorFlow for each task: in a new thread first, then inside its worker context."""
        with tf.Graph().as_default():
            self.extended._configure(session_config, cluster_spec, task_type, task_id)
        if self._supervisor is None:
            return
        context = distribute_coordinator_context.get_current_worker_context()
        if cluster_spec and context is None:
            self._supervisor.enter(in_graph=task_type is None)
        elif context is not None and context.distributed_mode:
            self._supervisor.adopt(context)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        with tf.Graph().as_default():
            result = type(self).__new__(type(self))
            memo[id(self)] = result
            for name, value in vars(self).items():
                setattr(result, name, copy.deepcopy(value, memo))
            result.extended._container_strategy_weakref = weakref.ref(result)
        return result

    def again(self) -> Any:
        """A strategy of the same kind for another cluster, with the same supervisor."""
        fresh = type(self)(self.kind, self.gpus_per_worker)
        fresh._supervisor = self._supervisor
        return fresh

    def _begin(self, frame: Any) -> None:
        if frame is not None and self._supervisor is not None:
            self._supervisor.begin(frame)


def _telling(extended: Any) -> Any:
    """Returns a subclass that tells its strategy when TensorFlow is about to start the threads of a call."""

    class Extended(extended):  # type: ignore[misc]
        @property
        def experimental_between_graph(self) -> Any:
            # Read exactly once by the coordinator, in the caller's thread and before the first thread is
            # started.
            self._container_strategy()._begin(call.called_from(1))
            return super().experimental_between_graph

    Extended.__name__ = extended.__name__
    return Extended


def _no_cluster(gpus_per_worker: int) -> Any:
    """A resolver of nothing: the default one follows TF_CONFIG, and counts this process's GPUs."""
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({}),
        rpc_layer="grpc",
        num_accelerators={"GPU": gpus_per_worker} if gpus_per_worker else {},
    )


_CollectiveExtended = _telling(collective_all_reduce_strategy.CollectiveAllReduceExtended)
_ParameterServerExtended = _telling(parameter_server_strategy.ParameterServerStrategyExtended)
_MirroredExtended = _telling(mirrored_strategy.MirroredExtended)


# Estimator looks at the class's name, and takes the wrong branch for any other.
class CollectiveAllReduceStrategyV1(
    _Standalone,
    collective_all_reduce_strategy.CollectiveAllReduceStrategyV1,  # type: ignore[misc]
):
    """Synchronous training; the gradients are reduced over all workers at each step."""

    def __init__(self, kind: str = "collective", gpus_per_worker: int = 0) -> None:
        self.kind, self.gpus_per_worker = kind, gpus_per_worker
        with tf.Graph().as_default():
            tf.compat.v1.distribute.Strategy.__init__(
                self,
                _CollectiveExtended(
                    self,
                    cluster_resolver=_no_cluster(gpus_per_worker),
                    communication_options=collective_util.Options(),
                ),
            )


class ParameterServerStrategyV1(_Standalone, parameter_server_strategy.ParameterServerStrategyV1):  # type: ignore[misc]
    """Asynchronous training; variables live on ps tasks."""

    def __init__(self, kind: str = "parameter_server", gpus_per_worker: int = 0) -> None:
        self.kind, self.gpus_per_worker = kind, gpus_per_worker
        with tf.Graph().as_default():
            tf.compat.v1.distribute.Strategy.__init__(
                self, _ParameterServerExtended(self, cluster_resolver=_no_cluster(gpus_per_worker))
            )


class MirroredStrategyV1(_Standalone, mirrored_strategy.MirroredStrategyV1):  # type: ignore[misc]
    """Synchronous training in one graph over all workers."""

    def __init__(self, kind: str = "mirrored", gpus_per_worker: int = 0) -> None:
        self.kind, self.gpus_per_worker = kind, gpus_per_worker
        with tf.Graph().as_default():
            # The only reduction that TensorFlow can do over the devices of several hosts in one graph.
            reduce = tf.distribute.ReductionToOneDevice()
            tf.compat.v1.distribute.Strategy.__init__(self, _MirroredExtended(self, cross_device_ops=reduce))


CLASSES = {
    "collective": CollectiveAllReduceStrategyV1,
    "parameter_server": ParameterServerStrategyV1,
    "mirrored": MirroredStrategyV1,
}
