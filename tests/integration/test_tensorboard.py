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
from collections.abc import Callable, Iterator, Sequence
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


def ask(url: str) -> str:
    """What TensorBoard answers."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return str(error)


def scalars(url: str, ask: Callable[[str], str] = ask) -> list[int]:
    """The steps that TensorBoard knows."""
    try:
        return [step for _, step, _ in json.loads(ask(f"{url}data/plugin/scalars/scalars?run=.&tag=loss"))]
    except json.JSONDecodeError:
        return []  # no such run yet


def growing_steps(
    url: str, training: subprocess.Popen[bytes], logs: Sequence[Path], ask: Callable[[str], str] = ask
) -> None:
    """Returns when there have been four answers, each with more steps than the one before."""
    seen: list[int] = []
    until = time.monotonic() + 100
    while len(seen) < 4:
        steps = scalars(url, ask)
        if steps and (not seen or steps[-1] > seen[-1]):
            seen.append(steps[-1])
        told = "\n".join(log.read_text()[-3000:] for log in logs)
        assert training.poll() is None, told
        assert time.monotonic() < until, (seen, told)
        time.sleep(0.5)


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
        growing_steps(url, training, [log, other])


def test_from_another_network_namespace(fresh_name: str, tmp_path: Path) -> None:
    """The node, the training, and whoever looks at the charts are on three hosts, as far as the network can tell."""
    from tests.benchmarks import elsewhere

    log, other = tmp_path / "tensorboard.log", tmp_path / "training.log"
    with contextlib.ExitStack() as stack:
        try:
            address = stack.enter_context(elsewhere.node_elsewhere())
        except elsewhere.NotPermittedError as error:
            pytest.skip(str(error))
        folder = f"igfs://{fresh_name}@{address}/run"
        training = stack.enter_context(process(TRAINING, folder, log=other))
        watching = stack.enter_context(
            process(
                TENSORBOARD,
                *("--logdir", folder, f"--host={elsewhere.HERE}", "--port=0", "--reload_interval=1"),
                log=log,
            )
        )
        url = wait_for(rf"(http://{re.escape(elsewhere.HERE)}:\d+/)", log, watching)

        def ask_from_there(url: str) -> str:
            code = "import sys; from tests.integration.test_tensorboard import ask; print(ask(sys.argv[1]))"
            done = subprocess.run(
                ["ip", "netns", "exec", elsewhere.namespace(), sys.executable, "-c", code, url],
                capture_output=True,
                text=True,
                timeout=30,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        growing_steps(url, training, [log, other], ask_from_there)


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
