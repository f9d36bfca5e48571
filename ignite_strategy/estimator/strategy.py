"""The public name of the strategies: :class:`IgniteStrategy`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.estimator import guards

if TYPE_CHECKING:
    from ignite_strategy.estimator.supervisor import Supervisor

__all__ = ["IgniteStrategy"]


class IgniteStrategy:
    """How the tasks of an Ignite cluster train one Estimator together.

    ``IgniteStrategy("collective")`` returns an instance of a subclass that is also TensorFlow's own
    strategy of that kind::

        strategy = igs.IgniteStrategy("parameter_server")
        isinstance(strategy, igs.IgniteStrategy)             # True
        isinstance(strategy, tf.distribute.Strategy)         # True

    ``resolver.run_config(strategy="collective")`` makes one; there is seldom a reason to do so by hand.

    Args:
      kind: ``"collective"``: every worker has the model, gradients are reduced over all at each step.
        ``"parameter_server"``: variables live on ps tasks, workers train at their own pace.
        ``"mirrored"``: as collective, with one session that drives all workers.
      gpus_per_worker: GPUs that each worker uses.

    Attributes:
      kind: As given.
      gpus_per_worker: As given.

    Raises:
      UnsupportedError: The installed TensorFlow has no Estimator.
      InvalidArgumentError: There is no such kind.
    """

    kind: str = ""
    gpus_per_worker: int = 0
    _supervisor: Supervisor | None = None

    def __new__(cls, kind: str = "collective", gpus_per_worker: int = 0) -> Any:
        """Makes an instance of the concrete class."""
        if cls is not IgniteStrategy:
            return super().__new__(cls)
        guards.check_tensorflow()
        if kind not in guards.KINDS:
            raise InvalidArgumentError(f"strategy={kind!r}: there are {', '.join(guards.KINDS)}")
        from ignite_strategy.estimator import kinds

        return super().__new__(kinds.CLASSES[kind])
