"""Estimator: the public strategy, the run configuration, and the guard over one training run.

Nothing here loads TensorFlow before it is used.

* ``strategy``      :class:`IgniteStrategy`, the one name for all kinds;
* ``kinds``         its concrete classes, subclasses of TensorFlow's strategies;
* ``config``        :func:`run_config`, a ``RunConfig`` in standalone client mode;
* ``guards``        traps that become errors before training starts;
* ``call``          what one call of ``tf.estimator.train_and_evaluate`` was given;
* ``run``           the watch over one such call: leads it to tasks that were started again, or ends it with an error
                    that names what was lost;
* ``training``      :func:`train_and_evaluate`, which begins again with another job when nodes were lost;
* ``supervisor``    what a strategy and its copies share: the job, and the run that is on;
* ``session``       sessions that can be ended from outside;
* ``evaluation``    which checkpoint is evaluated next;
* ``relay``, ``tombstone``  local ports between the client and its tasks that can be cut.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ignite_strategy.estimator.config import run_config as run_config
    from ignite_strategy.estimator.evaluation import Evaluation as Evaluation
    from ignite_strategy.estimator.guards import check_environment as check_environment
    from ignite_strategy.estimator.strategy import IgniteStrategy as IgniteStrategy
    from ignite_strategy.estimator.training import train_and_evaluate as train_and_evaluate

__all__ = ["Evaluation", "IgniteStrategy", "check_environment", "run_config", "train_and_evaluate"]

_EXPORTS = {
    "Evaluation": "ignite_strategy.estimator.evaluation",
    "IgniteStrategy": "ignite_strategy.estimator.strategy",
    "check_environment": "ignite_strategy.estimator.guards",
    "run_config": "ignite_strategy.estimator.config",
    "train_and_evaluate": "ignite_strategy.estimator.training",
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)
