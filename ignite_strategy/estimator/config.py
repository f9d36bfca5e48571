"""``run_config``: a ``tf.estimator.RunConfig`` for training on the tasks of a resolver."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.estimator import guards
from ignite_strategy.estimator.evaluation import Evaluation, print_evaluation
from ignite_strategy.estimator.strategy import IgniteStrategy
from ignite_strategy.estimator.supervisor import Supervisor

if TYPE_CHECKING:
    from ignite_strategy.topology import IgniteClusterResolver

__all__ = ["DistributeConfig", "run_config"]

# TensorFlow's own default, every 600 seconds, cannot be had in collective training.
_CHECKPOINT_STEPS = 500
_SESSION_SECONDS = 600  # how long a worker waits for the chief; TensorFlow waits two hours

# Never contacted: TensorFlow evaluates in this process, but only if the cluster names an evaluator.
_EVALUATOR = ["evaluator.invalid:1"]


@dataclass
class DistributeConfig:
    """The three attributes that RunConfig reads from ``experimental_distribute``."""

    train_distribute: Any = None
    eval_distribute: Any = None
    remote_cluster: Any = None


def run_config(
    resolver: IgniteClusterResolver,
    strategy: str | IgniteStrategy = "collective",
    model_dir: Any = None,
    *,
    evaluator: bool | None = None,
    restarts: int = 5,
    on_evaluation: Callable[[Evaluation], None] | None = print_evaluation,
    **arguments: Any,
) -> Any:
    """Returns a RunConfig with which an Estimator trains on the resolver's tasks.

    This process is the client ("standalone client mode"): ``model_fn`` and ``input_fn`` are called here,
    and the graphs run in the tasks, where each reads the partitions of its own node. Evaluation runs here.
    The job is started if it was not.

    ``tf.estimator.train_and_evaluate`` with it goes on from the last checkpoint when a task or an agent is lost (all
    tasks are started again), raises the resolver's ``TaskLostError`` within seconds when a node is, evaluates in an
    evaluator that honours ``throttle_secs`` but never outlives training, and can be left with Ctrl-C.

    Args:
      resolver: Where the tasks are.
      strategy: ``"collective"``, ``"parameter_server"`` or ``"mirrored"``, or an :class:`IgniteStrategy`.
      model_dir: Where checkpoints and events go; client and tasks must all see it, as they do ``igfs:///PATH``.
      evaluator: Whether ``train_and_evaluate`` evaluates; by default what the resolver was told.
      restarts: How often in a row tasks are started again without having trained in between (20 steps), with growing
        pauses; 0: what is lost ends training.
      on_evaluation: Called with each evaluation; prints a line by default.
      **arguments: RunConfig's; ``save_checkpoints_steps`` is 500 unless given.

    Raises:
      UnsupportedError: The installed TensorFlow has no Estimator.
      ClusterError: TF_CONFIG describes another cluster.
      InvalidArgumentError: An argument would not do what it says, or ``model_dir`` cannot be created, or is another
        place for a task than for this process.
      PreconditionError: Another job writes to ``model_dir``.
    """
    guards.check_tensorflow()
    guards.check_tf_config()
    kind = strategy.kind if isinstance(strategy, IgniteStrategy) else strategy
    if kind not in guards.KINDS:
        raise InvalidArgumentError(f"strategy={kind!r}: there are {', '.join(guards.KINDS)}")
    if restarts < 0:
        raise InvalidArgumentError(f"restarts={restarts!r}: 0 or more")
    import tensorflow as tf

    from ignite_strategy.estimator.preflight import check_tasks

    known = set(inspect.signature(tf.estimator.RunConfig.__init__).parameters) - {"self", "model_dir"}
    guards.check_options(kind, arguments, known)
    if model_dir is None:
        raise InvalidArgumentError(
            "run_config: model_dir is needed, a place that client and tasks see: igfs:///digits/run1"
        )
    model_dir = os.fspath(model_dir)
    is_local = "://" not in model_dir
    # One on this host before anything is started; what is on the cluster can be reached once the resolver is open.
    if is_local:
        guards.check_directory(model_dir)
    resolver.start(kind)
    if not is_local:
        guards.check_directory(model_dir)
    resolver.claim_directory(model_dir)
    check_tasks(resolver.tasks(), model_dir)
    trained_by = (
        strategy if isinstance(strategy, IgniteStrategy) else IgniteStrategy(kind, resolver.gpus_per_worker)
    )
    resolver.allow_restarts(restarts, together=kind != "parameter_server")
    supervisor = Supervisor(resolver, on_evaluation, in_step=kind == "collective")
    trained_by._supervisor = supervisor
    resolver.on_close(supervisor.close)
    cluster = dict(resolver.cluster_spec().as_dict())
    if resolver.has_evaluator if evaluator is None else evaluator:
        cluster["evaluator"] = _EVALUATOR
    return tf.estimator.RunConfig(
        model_dir=model_dir,
        experimental_distribute=DistributeConfig(train_distribute=trained_by, remote_cluster=cluster),
        **_with_defaults(arguments),
    )


def _with_defaults(arguments: dict[str, Any]) -> dict[str, Any]:
    arguments = dict(arguments)
    if arguments.get("save_checkpoints_steps") is None and arguments.get("save_checkpoints_secs") is None:
        arguments["save_checkpoints_steps"] = _CHECKPOINT_STEPS
        arguments.pop("save_checkpoints_secs", None)
    arguments.setdefault("session_creation_timeout_secs", _SESSION_SECONDS)
    return arguments
