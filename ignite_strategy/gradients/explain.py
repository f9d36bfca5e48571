"""Which task has failed, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ignite_strategy.errors import GradientError, InvalidArgumentError, PreconditionError
from ignite_strategy.gradients.traced import name_of

if TYPE_CHECKING:
    from ignite_strategy.gradients.link import Link, Task
    from ignite_strategy.topology import IgniteClusterResolver

__all__ = ["MAY_BE_LOSS", "describe", "explained", "no_rows", "not_finite", "workers_of"]

# What TensorFlow reports when a task is lost, or when what it knew of the tasks is gone with one; each may also be the
# user's own error.
MAY_BE_LOSS = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.InvalidArgumentError,
    tf.errors.NotFoundError,
    tf.errors.UnavailableError,
    tf.errors.UnknownError,
)
# Some of them are the user's own far more often: a lost task has been noticed by then, or is soon.
_SECONDS = {tf.errors.InvalidArgumentError: 1.0, tf.errors.NotFoundError: 1.0}
_LONGEST = 2000
_NODE = re.compile(r"\s*\[\[[^\n]*|\s*\[Op:[^\]]*\]|\{\{[^}]*\}\} ?")
_STACK = re.compile(
    r"\s|$|=+$|:?\{|\(?\d+\) |(\w+: )?(Graph execution error|Detected at node|Node: |Original stack trace|From /job"
    r"|Additional GRPC|Recent warning and error logs)"
)


def workers_of(resolver: IgniteClusterResolver) -> list[Task]:
    """The tasks of a running job that have partitions, in order.

    Raises:
      PreconditionError: The job does not run.
    """
    if resolver.job is None:
        raise PreconditionError(
            f"the job on cache {resolver.cache!r} does not run: call resolver.start() before the aggregator is made"
        )
    return [(share.key.type, share.key.index) for share in resolver.assignment.tasks if share.partitions]


def describe(task: Task) -> str:
    """A task's name for people."""
    return f"{task[0]} {task[1]}"


def explained(error: Any, task: Task | None, link: Link) -> Exception:
    """What is to be raised for an error of TensorFlow.

    Args:
      error: The error.
      task: Whose it is, if that is known.
      link: The way to the tasks, which knows of losses.
    """
    if isinstance(error, MAY_BE_LOSS):
        lost = link.explain(_SECONDS.get(type(error), 3.0))
        if lost is not None:
            return lost
    message = _plain(str(error.message))
    if task is None:
        return GradientError(f"a task could not compute its gradient: {message}")
    return GradientError(f"{describe(task)} could not compute its gradient: {message}", task=task)


def _plain(message: str) -> str:
    """What an error says, without the stacks of the ops that it came through."""
    lines = [line for line in _NODE.sub("", message).splitlines() if not _STACK.match(line)]
    return "\n".join(dict.fromkeys(lines))[:_LONGEST] or message[:_LONGEST]


def not_finite(task: Task, flags: Iterable[bool], variables: Sequence[Any]) -> GradientError | None:
    """The error for a loss or gradients that are NaN or infinite."""
    loss, *others = flags
    bad = [f"the gradient of {name_of(one)}" for one, good in zip(variables, others) if not good]
    bad = bad if loss else ["the loss", *bad]
    if not bad:
        return None
    return GradientError(
        f"{describe(task)}: {', '.join(bad)} over its rows: NaN or infinite; nothing was applied", task=task
    )


def no_rows(cache: str, tasks: Sequence[Task]) -> InvalidArgumentError:
    """The error for a step in which no task had a row."""
    return InvalidArgumentError(
        f"cache {cache!r}: none of {', '.join(map(describe, tasks))} had a row, so there is no gradient"
    )
