"""The watch over one call of ``tf.estimator.train_and_evaluate``.

When a task dies, TensorFlow's client notices nothing: its threads wait in C++ for a server that does not
come back, and the interpreter waits for the threads. A :class:`Run` stands between: sessions reach their
tasks through a :class:`Relay`. When tasks are started again, the relay leads every session to them, and TensorFlow
goes on from the last checkpoint. When the resolver reports a loss that does not heal, or a thread fails, or the call is
left by Ctrl-C, the relay is cut, every thread gets an answer and ends, and the call raises what has happened.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ignite_strategy.errors import (
    CancelledError,
    ClusterError,
    IgniteStrategyError,
    InvalidArgumentError,
    PreconditionError,
    StalledError,
    TaskLostError,
)
from ignite_strategy.estimator import call as calls
from ignite_strategy.estimator.checkpoints import complete_checkpoints, global_step_in
from ignite_strategy.estimator.evaluation import Evaluation, Pace, step_of
from ignite_strategy.estimator.existing import Evaluations
from ignite_strategy.estimator.hooks import for_chief
from ignite_strategy.estimator.relay import Relay
from ignite_strategy.estimator.report import Check, Report
from ignite_strategy.estimator.session import MAY_BE_LOSS, GuardedCreator
from ignite_strategy.estimator.training import Account
from ignite_strategy.settings import Endpoint, parse_endpoint

if TYPE_CHECKING:
    from ignite_strategy.topology import IgniteClusterResolver

__all__ = ["Run"]

_log = logging.getLogger(__name__)

_POLL = 0.1
_SECONDS_TO_EXPLAIN = 6.0  # a lost task is known later than its consequences: a lease must run out
_SECONDS_OUT_OF_TOUCH = 25.0  # with the cluster; who watches the job gives up before
_SECONDS_TO_OBEY = 3.0
_STEPS_THAT_ARE_PROGRESS = 20
_SECONDS_TO_FOLLOW = 15.0  # the others may be writing a checkpoint before their last step

Task = tuple[str, int]


class Run:
    """One call, from just before its first thread starts until it is left.

    Args:
      call: The call.
      resolver: Whose tasks train; it has been started.
      attempt: Which attempt of its job.
      cluster: The addresses of its tasks, job name -> list of ``host:port``.
      report: Called with each :class:`Evaluation`.
      in_step: Whether all tasks take each step together.
      account: Of the training that this call is one attempt of, if it may take several.
    """

    def __init__(
        self,
        call: calls.TrainingCall,
        resolver: IgniteClusterResolver,
        attempt: int,
        cluster: Mapping[str, list[str]],
        report: Callable[[Evaluation], None] | None = None,
        in_step: bool = False,
        account: Account | None = None,
    ) -> None:
        self._account = account or Account()
        self._can_begin_again = account is not None
        self._compared = attempt
        self._stepped = time.monotonic()
        self._resolver = resolver
        self.attempt = attempt
        self._attempts = resolver.task_attempts()
        self._away: set[Task] = set()  # tasks that are being started again
        self._chief_is_done = False
        self._report = report
        self._in_step = in_step
        self._exhausted: dict[str, float] = {}
        self._steps: dict[str, int] = {}
        self._stop_after: int | None = None
        self._failure: BaseException | None = None
        self._obeyed_by = 0.0
        self._ended = threading.Event()
        self._left = threading.Event()
        self._trainers: list[threading.Thread] = []
        self._evaluator: threading.Thread | None = None
        self.closing: list[threading.Thread] = []
        self._coordinator: Any = None
        self._caller = threading.get_ident()
        self._call: calls.TrainingCall | None = call
        targets = _training_targets(cluster)
        self._chief = _name(next(iter(targets)))
        self._trainers_expected = len(targets)
        self._relay = Relay(dict(targets))
        self._accompany(call)
        self._watch = threading.Thread(target=self._watch_over, name="ignite_strategy-run", daemon=True)
        self._watch.start()

    # What the threads of the call use.

    def check(self) -> None:
        """Raises the reason when the run has failed.

        Raises:
          IgniteStrategyError: The reason.
        """
        if self._ended.is_set():
            raise _again(self._failure)

    def wait(self, seconds: float) -> bool:
        """Waits; True as soon as the run has failed."""
        return self._ended.wait(seconds)

    def await_task(self, task: str) -> None:
        """Waits while a task is being started again; called before a session with it is made.

        Raises:
          IgniteStrategyError: The run has failed.
          OutOfRangeError: Training is over, which is how TensorFlow's loops end in good order.
        """
        while task in map(_name, tuple(self._away)) and not self.wait(_POLL):
            pass
        self.check()
        if self._chief_is_done:
            raise tf.errors.OutOfRangeError(None, None, "the chief has ended training")

    def training_is_over(self) -> bool:
        """Tells whether every training task's thread has ended."""
        return len(self._trainers) >= self._trainers_expected and not any(
            map(self._is_training, self._trainers)
        )

    def _is_training(self, thread: threading.Thread) -> bool:
        if thread.ident == self._caller:
            return calls.is_training(self._caller)
        return thread.is_alive()

    def enter(self, in_graph: bool) -> None:
        """Notes the thread that trains a task, or all of them; called in that thread."""
        if in_graph:
            self._trainers_expected = 1
        self._trainers.append(threading.current_thread())
        self._coordinator = calls.own_coordinator()

    def adopt(self, context: Any) -> None:
        """Leads a worker context's sessions through the relay; called in the thread that trains the task."""
        if "session_creator" in vars(context):
            return
        task = _task_of(context, self._relay.tasks())
        context._master_target = f"grpc://{self._relay.endpoint(task)}"
        plain = context.session_creator
        context.session_creator = lambda *args, **kwargs: GuardedCreator(
            plain(*args, **kwargs), self, _name(task)
        )

    def exhausted(self, task: str) -> None:
        """Notes that a task has come to the end of its rows.

        Raises:
          InvalidArgumentError: No task had any.
        """
        if task not in self._exhausted:
            _log.warning(
                "the rows of %s have ended before max_steps: let the dataset in input_fn repeat (`.repeat()`), for no "
                "checkpoint follows the end of the chief's rows, and collective training needs equal numbers",
                task,
            )
        self._exhausted.setdefault(task, time.monotonic())
        if len(self._exhausted) >= self._trainers_expected and not self._steps:
            self.end(
                InvalidArgumentError(
                    "TrainSpec's input_fn gave no task a row, or no whole batch: nothing was trained. Look at what it "
                    "returns (len(list(input_fn().take(1))) with eager execution), and at filters in it"
                )
            )
            self.check()

    def count_step(self, task: str) -> None:
        """Counts a training step that a task has taken."""
        self._steps[task] = taken = self._steps.get(task, 0) + 1
        self._stepped = time.monotonic()
        if taken == _STEPS_THAT_ARE_PROGRESS:
            self._account.has_trained = True
            self._resolver.note_progress(self.attempt)

    def is_over_for(self, task: str) -> bool:
        """Tells whether a task shall take no further step, because the chief has ended training."""
        taken = self._steps.get(task, 0)
        return self._stop_after is not None and taken >= self._stop_after and task != self._chief

    def stop_training(self) -> bool:
        """Ends training after this step of the chief; False if the chief itself must take one more, with all others."""
        together = self._in_step and self._trainers_expected > 1
        self._stop_after = self._steps.get(self._chief, 0) + 1 if together else 0
        return not together

    @property
    def failure(self) -> BaseException | None:
        """Why the run has failed, if it has."""
        return self._failure

    def chief_is_done(self) -> None:
        """Notes that the chief has ended training in good order."""
        self._chief_is_done = True
        if self._in_step:
            self._exhausted.setdefault(self._chief, time.monotonic())
        elif self._stop_after is None and self._chief not in self._exhausted:
            self._stop_after = 0

    def explain(self, error: Any, task: str, give_up: int = 0, attempt: int | None = None) -> None:
        """Raises what lies behind an error of a session, if it is known soon; else returns.

        Args:
          error: The error.
          task: The task whose session reported it.
          give_up: How many sessions in a row broke, if that is enough of them.
          attempt: The attempt of the job that the session was with, if another session may take its place.

        Raises:
          IgniteStrategyError: The reason.
          AbortedError: The tasks are being started again: TensorFlow makes another session.
        """
        deadline = time.monotonic() + _SECONDS_TO_EXPLAIN
        latest = time.monotonic() + _SECONDS_OUT_OF_TOUCH
        while not self._ended.is_set():
            lost = self._resolver.failure
            if lost is not None:
                self.end(lost)
            elif attempt is not None and attempt != self._resolver.attempt:
                raise tf.errors.AbortedError(None, None, "the tasks are started again") from error
            elif time.monotonic() > (latest if self._resolver.is_out_of_touch else deadline):
                break
            self._ended.wait(_POLL)
        if self._ended.is_set():
            raise _again(self._failure) from error
        if give_up:
            raise ClusterError(
                f"{task}: {give_up} sessions in a row broke in training, the last one with: {error.message}"
            ) from error

    def end(self, failure: BaseException) -> None:
        """Ends the run: every thread of the call raises, and so does the call. The first reason counts."""
        if self._ended.is_set():
            return
        self._failure = failure
        self._obeyed_by = time.monotonic() + _SECONDS_TO_OBEY
        self._tell_coordinator(failure)
        self._ended.set()
        self._relay.cut()

    def _tell_coordinator(self, failure: BaseException) -> None:
        # Before any thread does, so that the call raises this and not a thread's own view of it.
        coordinator = self._coordinator
        if coordinator is None or coordinator.joined:
            return
        with contextlib.suppress(Exception):  # it raises if the call has just stopped listening
            try:
                raise failure
            except BaseException as raised:
                coordinator.request_stop((type(raised), raised, raised.__traceback__))

    def close(self, seconds: float = 10.0) -> None:
        """Waits until the call has been left and its threads have ended."""
        self._left.wait(seconds)

    def is_on(self) -> bool:
        """Tells whether the call has not been left."""
        return self._call is not None and calls.is_running(self._caller, self._call.frame)

    # Evaluation.

    def _accompany(self, call: calls.TrainingCall) -> None:
        call.replace_hooks(for_chief(call.train_spec.hooks, self))
        directory = call.estimator.model_dir
        keep = call.estimator.config.keep_checkpoint_max or 0
        spec = call.eval_spec
        begun_at = max((step_of(path) for path in complete_checkpoints(directory, keep)), default=-1)
        pace = Pace(
            self,
            lambda: complete_checkpoints(directory, keep),
            spec.throttle_secs,
            spec.start_delay_secs,
            keep,
            begun_at,
            lambda path: global_step_in(path) >= call.train_spec.max_steps,
            self._account.evaluated,
        )

        def latest_checkpoint() -> str:
            self._evaluator = threading.current_thread()
            self._coordinator = calls.own_coordinator() or self._coordinator
            path = pace.next()
            if path is None:
                # TensorFlow's evaluator goes on for ever if training ended before max_steps; to it, this is
                # an orderly end.
                raise tf.errors.OutOfRangeError(None, None, "training is over")
            return path

        def evaluate(*args: Any, **kwargs: Any) -> Any:
            try:
                return call.estimator.evaluate(*args, **kwargs)
            except (*MAY_BE_LOSS, RuntimeError) as error:  # the latter: of writers of event files
                self.explain(error, "the evaluator")
                raise

        evaluations = Evaluations(evaluate, latest_checkpoint, keep, self._account.add_export)
        call.replace_evaluation(evaluations, (Check(self),), (Report(self._evaluated),))

    def _evaluated(self, evaluation: Evaluation, metrics: dict[str, Any]) -> None:
        self._account.add_evaluation(evaluation, metrics)
        if self._report is not None:
            self._report(evaluation)

    # The watch.

    def _watch_over(self) -> None:
        while self.is_on():
            if self._ended.is_set():
                self._press()
            elif (lost := self._resolver.failure) is not None:
                self.end(lost)
            elif self._resolver.attempt != self.attempt:
                self._follow()
            elif self._is_stuck():
                self.end(self._stuck())
            elif self._is_stalled():
                self.end(StalledError(f"no task has taken a step for {self._account.stall_seconds:.0f} s"))
            elif self._coordinator is not None and self._coordinator.should_stop():
                self.end(CancelledError("another task of this run has failed"))
            self._left.wait(_POLL)
        if any(
            thread.is_alive() for thread in self._threads()
        ):  # Ctrl-C, or a thread that did not obey in time
            self.end(CancelledError("tf.estimator.train_and_evaluate was left"))
            self._wait_for_threads()
        if any(thread.is_alive() for thread in self.closing):
            self._relay.cut()
        self._relay.close()
        self._call = None  # it holds the frame, and with it whatever the caller had
        # Else the event writers' threads stay, two to four for each call. They may have lost the cluster.
        with contextlib.suppress(Exception):
            tf.compat.v1.summary.FileWriterCache.clear()
        self._left.set()

    def _follow(self) -> None:
        """Leads sessions to tasks that were started again, once all can be reached."""
        attempt = self._resolver.attempt
        if attempt != self._compared:
            self._compared = attempt
            if self._would_read_elsewhere():
                self.end(
                    TaskLostError(
                        "tasks are to be started again, and partitions have moved since they were started",
                        kind="moved",
                    )
                )
                return
        try:
            attempts = self._resolver.task_attempts()
            again = {task for task in self._relay.tasks() if attempts[task] != self._attempts[task]}
            if again - self._away:
                self._relay.pause(again - self._away)
                self._away |= again
            if self._resolver.is_healing:
                return
            targets = _training_targets(self._resolver.cluster_spec().as_dict())
            self._relay.retarget({task: targets[task] for task in self._away})
        except PreconditionError:
            return  # yet another attempt is being made, or the job is being closed
        except ClusterError as error:
            self.end(error)
            return
        if self._resolver.attempt != attempt:
            return
        if self._stop_after is not None and self._in_step:
            self._stop_after = 1  # all sessions are new, and the chief's takes one more step
        self._steps.clear()
        self._stepped = time.monotonic()
        self.attempt, self._attempts = attempt, attempts
        self._away.clear()

    def _would_read_elsewhere(self) -> bool:
        """Whether all tasks are started again anyway, and a new job would place them where the rows are now."""
        if not (self._in_step and self._can_begin_again):
            return False
        try:
            return self._resolver.has_moved()
        except IgniteStrategyError:
            return False  # whatever it is, it is not a reason to end what is being healed

    def _is_stuck(self) -> bool:
        """Whether some tasks have ended in good order and the others wait for them in a reduction, for ever."""
        if not self._in_step or not 0 < len(self._exhausted) < self._trainers_expected:
            return False
        last = max(list(self._exhausted.values()))
        return time.monotonic() - last > _SECONDS_TO_FOLLOW and any(map(self._is_training, self._trainers))

    def _is_stalled(self) -> bool:
        limit = self._account.stall_seconds
        if limit is None or time.monotonic() - self._stepped < limit:
            return False
        return any(map(self._is_training, self._trainers))

    def _stuck(self) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"training of {', '.join(self._exhausted)} has ended, and the other tasks wait for it at their next "
            "step: tasks have unequal numbers of rows, or a hook of model_fn ended one of them. Let the dataset in "
            "input_fn repeat (`.repeat()`); TrainSpec(max_steps=...), and its hooks, end training"
        )

    def _threads(self) -> list[threading.Thread]:
        threads = [*self._trainers, *([self._evaluator] if self._evaluator else [])]
        return [thread for thread in threads if thread.ident != self._caller]

    def _wait_for_threads(self) -> None:
        deadline = time.monotonic() + _SECONDS_TO_OBEY
        for thread in self._threads():
            thread.join(max(0.0, deadline - time.monotonic()))
        self._interrupt_threads()

    def _press(self) -> None:
        # TensorFlow makes a session again and again for a cluster that cannot be reached, and the call waits two
        # minutes for a thread that does so.
        if time.monotonic() > self._obeyed_by:
            self._obeyed_by = time.monotonic() + _SECONDS_TO_OBEY
            self._interrupt_threads()

    def _interrupt_threads(self) -> None:
        for thread in self._threads():
            if thread.is_alive():
                _interrupt(thread)


def _training_targets(cluster: Mapping[str, list[str]]) -> dict[Task, Endpoint]:
    targets = {
        (job, index): parse_endpoint(address)
        for job in ("chief", "worker")
        for index, address in enumerate(cluster.get(job, ()))
    }
    if not targets:
        raise ClusterError("the cluster has neither a chief nor a worker")
    return targets


def _task_of(context: Any, tasks: list[Task]) -> Task:
    if context.task_type:
        return (context.task_type, context.task_id)
    return ("chief", 0) if ("chief", 0) in tasks else ("worker", 0)  # in-graph: one master for all


def _name(task: Task) -> str:
    return f"task {task[0]}:{task[1]}"


def _again(failure: BaseException | None) -> BaseException:
    """An exception for one more thread: each raise of one object would add to the others' traceback."""
    if failure is None:
        return CancelledError("the run has ended")
    with contextlib.suppress(Exception):
        copy = type(failure)(*failure.args)
        copy.__cause__ = failure.__cause__
        return copy
    return failure


def _interrupt(thread: threading.Thread) -> None:
    """Raises in a thread that is busy in somebody else's Python, an exporter's for example."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(CancelledError)
        )
