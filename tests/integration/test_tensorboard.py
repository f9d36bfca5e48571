"""TensorBoard, as it is installed, shows a run on igfs:// while it goes on."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("tensorboard")
pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

TRAINING = """
import sys, time
import tensorflow as tf
import ignite_strategy
writer = tf.summary.create_file_writer(sys.argv[1])
with writer.as_default():
    for step in range(1000):
        tf.summary.scalar("loss", 1.0 / (step + 1), step=step)
        writer.flush()
        time.sleep(0.5)
"""
TENSORBOARD = "import sys; from tensorboard.main import run_main; sys.exit(run_main())"


@contextlib.contextmanager
def process(code: str, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with open(log, "wb") as out:
        running = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=out, stderr=out)
    try:
        yield running
    finally:
        running.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(10)
        running.kill()
        running.wait()


def wait_for(what: str, log: Path, running: subprocess.Popen[bytes], seconds: float = 90) -> str:
    until = time.monotonic() + seconds
    while True:
        found = re.search(what, log.read_text(errors="replace"))
        if found:
            return found.group(1)
        assert running.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < until, log.read_text()[-3000:]
        time.sleep(0.3)


def scalars(url: str) -> list[int]:
    """The steps that TensorBoard knows."""
    try:
        with urllib.request.urlopen(f"{url}data/plugin/scalars/scalars?run=.&tag=loss", timeout=10) as answer:
            return [step for _, step, _ in json.load(answer)]
    except (urllib.error.HTTPError, json.JSONDecodeError):
        return []  # no such run yet


@pytest.mark.parametrize("first", ["tensorboard", "training"])
def test_a_run_grows_while_it_is_watched(one_node: str, fresh_name: str, tmp_path: Path, first: str) -> None:
    folder = f"igfs://{fresh_name}@{one_node}/run"
    log, other = tmp_path / "tensorboard.log", tmp_path / "training.log"
    board = lambda: process(  # noqa: E731
        TENSORBOARD, "--logdir", folder, "--host=127.0.0.1", "--port=0", "--reload_interval=1", log=log
    )
    with contextlib.ExitStack() as stack:
        if first == "training":
            training = stack.enter_context(process(TRAINING, folder, log=other))
            time.sleep(5)
        watching = stack.enter_context(board())
        url = wait_for(r"(http://127\.0\.0\.1:\d+/)", log, watching)
        if first == "tensorboard":
            assert scalars(url) == []
            training = stack.enter_context(process(TRAINING, folder, log=other))
        seen: list[int] = []
        until = time.monotonic() + 100
        while len(seen) < 4:
            steps = scalars(url)
            if steps and (not seen or steps[-1] > seen[-1]):
                seen.append(steps[-1])
            assert training.poll() is None, other.read_text()[-3000:]
            assert time.monotonic() < until, (seen, log.read_text()[-3000:])
            time.sleep(0.5)


def test_a_broken_part_of_ours_does_not_keep_tensorboard_from_starting(tmp_path: Path) -> None:
    broken = (
        "import pathlib, ignite_strategy.library as library\n"
        "library.path = lambda: pathlib.Path('/none/_tensorflow.so')\n"
    )
    log = tmp_path / "log"
    with process(
        broken + TENSORBOARD, "--logdir", str(tmp_path), "--host=127.0.0.1", "--port=0", log=log
    ) as running:
        url = wait_for(r"(http://127\.0\.0\.1:\d+/)", log, running)
        with urllib.request.urlopen(f"{url}data/plugins_listing", timeout=20) as answer:
            assert "scalars" in json.load(answer)
    assert "igfs:// paths cannot be used in this process" in log.read_text()
