"""Which checkpoint the evaluator takes next."""

from __future__ import annotations

import time

import pytest

from ignite_strategy.estimator.evaluation import Evaluation, Pace, print_evaluation, step_of


class Training:
    """A training whose checkpoints appear at given times (in looks, not seconds)."""

    def __init__(self, *looks: list[int]) -> None:
        self.looks = list(looks)
        self.failure: Exception | None = None

    def checkpoints(self) -> list[str]:
        now = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return [f"/m/model.ckpt-{step}" for step in now]

    def check(self) -> None:
        if self.failure:
            raise self.failure

    def wait(self, seconds: float) -> bool:
        time.sleep(min(seconds, 0.01))
        return self.failure is not None

    def training_is_over(self) -> bool:
        return len(self.looks) == 1


def steps(
    training: Training, throttle: float = 0, keep: int = 0, delay: float = 0, first_step: int = -1
) -> list[int]:
    pace = Pace(training, training.checkpoints, throttle, delay, keep, first_step)
    return [step_of(path) for path in iter(pace.next, None)]


def test_every_checkpoint_in_order() -> None:
    assert steps(Training([], [0], [0, 10, 20, 30], [0, 10, 20, 30, 40])) == [0, 10, 20, 30, 40]


def test_a_checkpoint_is_evaluated_once() -> None:
    assert steps(Training([0], [0], [0], [0, 10], [0, 10])) == [0, 10]


def test_a_resumed_run_starts_with_its_latest() -> None:
    training = Training([100, 200, 300], [100, 200, 300, 400])
    assert steps(training, first_step=300) == [300, 400]


def test_a_new_run_starts_with_its_first_however_late_the_first_look() -> None:
    assert steps(Training([0, 20, 40, 60])) == [0, 20, 40, 60]


def test_one_that_tensorflow_would_take_for_the_last_waits_for_the_last() -> None:
    """With parameter servers, a checkpoint named 50 may hold step 60."""
    training = Training([0], [0, 50], [0, 50], [0, 50, 61])
    pace = Pace(training, training.checkpoints, 0, 0, is_last=lambda path: step_of(path) >= 50)
    assert [step_of(path) for path in iter(pace.next, None)] == [0, 61]


def test_the_last_one_always_and_at_once() -> None:
    started = time.monotonic()
    assert steps(Training([0], [0, 10, 20]), throttle=600) == [0, 10, 20]
    assert time.monotonic() - started < 5


def test_a_long_start_delay_ends_with_training() -> None:
    assert steps(Training([0, 10]), delay=600) == [0, 10]


def test_a_throttle_that_holds_back_skips() -> None:
    training = Training([0], [0, 10, 20, 30], [0, 10, 20, 30])
    pace = Pace(training, training.checkpoints, throttle=0.05, start_delay=0)
    assert pace.next() == "/m/model.ckpt-0"
    assert pace.next() == "/m/model.ckpt-30"


def test_the_oldest_kept_one_may_go_at_any_moment() -> None:
    assert steps(Training([0], [10, 20, 30], [10, 20, 30]), keep=3) == [0, 20, 30]


def test_training_that_leaves_no_checkpoint() -> None:
    assert steps(Training([])) == []


def test_a_failed_run_ends_every_wait() -> None:
    training = Training([0], [0], [0])
    pace = Pace(training, training.checkpoints, throttle=600, start_delay=0)
    pace.next()
    training.failure = RuntimeError("task worker:1 is gone")
    with pytest.raises(RuntimeError, match="worker:1"):
        pace.next()


def test_the_line_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_evaluation(
        Evaluation(200, "igfs:///m/model.ckpt-200", {"loss": 0.25, "accuracy": 0.953125, "global_step": 200})
    )
    line = "evaluation at step 200: accuracy = 0.953125, loss = 0.25 (igfs:///m/model.ckpt-200)\n"
    assert capsys.readouterr().err == line


def test_steps_of_odd_names() -> None:
    assert [
        step_of(name) for name in ("model.ckpt-7", "igfs:///a-b/model.ckpt-0", "model.ckpt", "best-x")
    ] == [7, 0, -1, -1]
