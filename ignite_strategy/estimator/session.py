"""Sessions with tasks that can be ended from outside.

Everything is set on instances that belong to one run: the session creator of a worker context, the session
manager it made, the session it returned. Nothing of TensorFlow is patched.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.estimator.guards import check_size, require_no_python_ops

if TYPE_CHECKING:
    from ignite_strategy.estimator.run import Run

__all__ = ["MAY_BE_LOSS", "GuardedCreator", "clear_variables"]

_SECONDS_BETWEEN_LOOKS = 1.0  # at a model that the chief has not initialised yet; TensorFlow waits 30
_SECONDS_TO_CLOSE = 2.0
_SECONDS_TO_CLEAR = 5.0
_MOST_BROKEN_SESSIONS = 8
_MOST_RETRIES = 3
_RUNS_THAT_ARE_PROGRESS = 20
_DELETE = tf.compat.v1.Session.__del__.__code__

# TensorFlow makes a new session after these by itself.
_RETRIED = (tf.errors.AbortedError, tf.errors.UnavailableError)
# What the survivors of a lost task report; each may also be the user's own error.
_SUSPICIOUS = (
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)
MAY_BE_LOSS = (*_RETRIED, *_SUSPICIOUS)


class GuardedCreator(tf.compat.v1.train.SessionCreator):  # type: ignore[misc]
    """Makes sessions through another creator, as long as the run has not failed.

    Args:
      inner: TensorFlow's creator for the task.
      run: The run.
      task: The task's name, for messages.
    """

    def __init__(self, inner: Any, run: Run, task: str) -> None:
        self._inner = inner
        self._run = run
        self._task = task
        self._broken = 0
        self._runs = 0
        self._looked = False
        self._attempt = self._first_attempt = run.attempt
        self._retried = 0

    def create_session(self) -> Any:
        """Returns a session, or raises the reason why the run has failed."""
        self._run.await_task(self._task)
        if self._attempt != self._run.attempt:
            self._attempt, self._broken, self._retried = self._run.attempt, 0, 0
        self._prepare()
        try:
            session = self._inner.create_session()
        except tf.errors.OpError as error:
            self._explain(error)
            raise
        self._run.check()
        return self._guard(session)

    def _prepare(self) -> None:
        self._inner._scaffold.finalize()
        if not self._looked:
            self._look()
            self._looked = True
        manager = self._inner._get_session_manager()
        manager._recovery_wait_secs = _SECONDS_BETWEEN_LOOKS
        if "_model_ready" not in vars(manager):
            plain, check = manager._model_ready, self._run.check

            def model_ready(session: Any) -> Any:
                check()
                return plain(session)

            manager._model_ready = model_ready

    def _look(self) -> None:
        """At the graph, before it is sent."""
        try:
            graph = tf.compat.v1.get_default_graph().as_graph_def()
        except ValueError as error:  # protobuf refuses more than 2 GiB
            raise InvalidArgumentError(
                f"the graph of {self._task} is too large to be sent ({error}): arrays that input_fn or model_fn hand "
                "to TensorFlow become part of it; put them into a cache, and read with IgniteDataset"
            ) from error
        require_no_python_ops(graph, self._task)
        check_size(graph, self._task)

    def _guard(self, session: Any) -> Any:
        kind, weak = type(session), weakref.ref(session)  # weak: a session must not keep itself alive
        self._runs = 0

        def run(*args: Any, **kwargs: Any) -> Any:
            is_step = _is_step(*args, **kwargs)
            if is_step and self._run.is_over_for(self._task):
                # To MonitoredSession, an orderly end.
                raise tf.errors.OutOfRangeError(None, None, "the chief has ended training")
            try:
                result = kind.run(weak(), *args, **kwargs)
            except tf.errors.OutOfRangeError:
                self._run.exhausted(self._task)
                raise
            except tf.errors.OpError as error:
                self._explain(error)
                raise
            self._runs += 1
            if self._runs == _RUNS_THAT_ARE_PROGRESS:
                self._broken = 0
            if is_step:
                self._run.count_step(self._task)
            return result

        def close() -> None:
            # A session is deleted unclosed when an uncaught error's frames hold it to the end of the
            # interpreter, or amid anything by the collector of garbage: no thread can be started there.
            if sys._getframe(1).f_code is _DELETE:
                return
            # Closing a session whose peers have closed theirs can take half a minute. It only frees what
            # ends with the tasks.
            closing = threading.Thread(
                target=_close, args=(weak(),), name="ignite_strategy-close", daemon=True
            )
            self._run.closing.append(closing)
            closing.start()
            closing.join(_SECONDS_TO_CLOSE)

        session.run, session.close = run, close
        return session

    def _explain(self, error: Any) -> None:
        """Raises what has really happened, if that is known or gets known within a few seconds."""
        if isinstance(error, _RETRIED):
            self._broken += 1
            if self._broken >= _MOST_BROKEN_SESSIONS:
                self._run.explain(error, self._task, self._broken, self._attempt)
            elif self._broken > 1:
                self._run.wait(1.0)  # TensorFlow tries again at once, for ever
        elif isinstance(error, _SUSPICIOUS):
            self._run.explain(error, self._task, attempt=self._attempt)
            self._retry_soon_after_a_start(error)

    def _retry_soon_after_a_start(self, error: Any) -> None:
        """What a task reports just after all were started again may be of their start; a model's error returns."""
        if self._attempt == self._first_attempt or self._runs >= _RUNS_THAT_ARE_PROGRESS:
            return
        self._retried += 1
        if self._retried <= _MOST_RETRIES:
            raise tf.errors.AbortedError(
                None, None, f"{self._task} was started again: {error.message}"
            ) from error


def _is_step(fetches: Any, *unused: Any, **kwargs: Any) -> bool:
    """Whether a MonitoredSession runs its caller's step, with what hooks wish, and not a hook something else."""
    return isinstance(fetches, dict) and "caller" in fetches


def clear_variables(address: str) -> None:
    """Makes the tasks of a cluster forget the variables of an earlier run.

    Parameter servers keep them. A worker of the next run would find a model that is ready, with a step that may be
    beyond ``max_steps``, before the chief has initialised its own.

    Args:
      address: Any task of the cluster.
    """

    def clear() -> None:
        with contextlib.suppress(
            tf.errors.OpError
        ):  # a task that does not answer is the resolver's to report
            tf.compat.v1.Session.reset(f"grpc://{address}")

    clearing = threading.Thread(target=clear, name="ignite_strategy-clear", daemon=True)
    clearing.start()
    clearing.join(_SECONDS_TO_CLEAR)


def _close(session: Any) -> None:
    try:
        type(session).close(session)
    except Exception:  # the servers may be gone, and nobody waits for this
        return
