"""Gradients over a whole cache from one script: tasks compute where their rows are, the script sums and applies.

Nothing here loads TensorFlow before it is used.

* ``graph``       :class:`GraphAggregator`: ops of a ``tf.Graph``, run by a session;
* ``eager``       :class:`EagerAggregator`: the same with eager execution;
* ``part``        what one task does: a pass over its rows, weights in, sums out;
* ``traced``      the user's loss function as a graph function that takes its variables from wherever it runs;
* ``combine``     the sums of all tasks to one mean;
* ``explain``     which task has failed, and why;
* ``remote``      the tasks as remote devices of this process, for eager execution;
* ``link``, ``link_process``  the way to the tasks, which ends every wait when one is lost.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ignite_strategy.gradients.combine import Aggregate as Aggregate
    from ignite_strategy.gradients.eager import EagerAggregator as EagerAggregator
    from ignite_strategy.gradients.graph import GraphAggregator as GraphAggregator

__all__ = ["Aggregate", "EagerAggregator", "GraphAggregator"]

_EXPORTS = {
    "Aggregate": "ignite_strategy.gradients.combine",
    "EagerAggregator": "ignite_strategy.gradients.eager",
    "GraphAggregator": "ignite_strategy.gradients.graph",
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)
