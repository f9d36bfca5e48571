"""The tasks of a job as remote devices of this process, of which TensorFlow has one set."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import tensorflow as tf

from ignite_strategy.gradients.explain import explained
from ignite_strategy.gradients.link import Link

if TYPE_CHECKING:
    from ignite_strategy.topology import IgniteClusterResolver

__all__ = ["connect", "disconnect", "own_executor"]

_link: Link | None = None
_users = 0  # aggregators that use it
_connecting = threading.Lock()
_held = contextlib.ExitStack()


def connect(resolver: IgniteClusterResolver, patience: float) -> Link:
    """Makes the tasks of a job the remote devices of this process, through a link; until :func:`disconnect`.

    Raises:
      TaskLostError: A task is lost.
      ClusterError: TensorFlow cannot connect.
    """
    global _link, _users
    with _connecting:
        if _link is not None and _link.leads_to(resolver):
            _users += 1
            return _link
        if _link is not None:
            _leave(_link)
            _link = None
        link = Link(resolver, patience)
        cluster: dict[str, dict[int, str]] = {}
        for kind, index in link.tasks():
            cluster.setdefault(kind, {})[index] = str(link.endpoint((kind, index)))
        _held.enter_context(_functions_held())
        try:
            _add(cluster)
        except tf.errors.OpError as error:
            _held.close()
            reason = explained(error, None, link)
            link.close()
            raise reason from error
        _link, _users = link, 1
        return link


def _add(cluster: Mapping[str, Mapping[int, str]]) -> None:
    """Adds tasks to a cluster of this process alone.

    So TensorFlow gives them the functions that are there already, such as the user's own that were traced before;
    connecting to them at once would give them those only that are traced later.
    """
    from tensorflow.python.eager import context

    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({}), make_master_device_default=False)
    definition = context.get_server_def()
    definition.cluster.MergeFrom(tf.train.ClusterSpec(cluster).as_cluster_def())
    context.update_server_def(definition)


def disconnect(link: Link) -> None:
    """Leaves the tasks when nobody uses them any more, unless this process is connected to others by now."""
    global _link, _users
    with _connecting:
        if _link is not link:
            return
        _users -= 1
        if not _users:
            _link = None
            _leave(link)


def _leave(link: Link) -> None:
    if link.is_over:
        link.cut()  # tasks that do not answer would be waited for
    with contextlib.suppress(tf.errors.OpError):
        tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({}), make_master_device_default=False)
    _held.close()
    link.close()


@contextlib.contextmanager
def _functions_held() -> Iterator[None]:
    """Functions that Python drops meanwhile are dropped afterwards.

    TensorFlow would have every task drop them too, also those that it never gave to the task; the error that this is
    there then ends other calls to that task.
    """
    from tensorflow.python.eager import context

    eager = context.context()
    dropped: list[str] = []
    eager.remove_function = dropped.append
    try:
        yield
    finally:
        del eager.remove_function
        for name in dropped:
            eager.remove_function(name)


@contextlib.contextmanager
def own_executor() -> Iterator[None]:
    """Ops of the block, in this thread, fail for themselves: by default an error of one task's ends those of all."""
    from tensorflow.python.eager import context, executor

    own = executor.new_executor(enable_async=False)
    try:
        with context.executor_scope(own):
            yield
    finally:
        # It raises an error again for whoever waits for it, and the last one waits when it is deleted.
        with contextlib.suppress(tf.errors.OpError):
            own.wait()
        own.clear_error()
