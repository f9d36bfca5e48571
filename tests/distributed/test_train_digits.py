"""The digits example, as a user runs it: one command, one story, one line for whatever goes wrong."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ignite_strategy.local import LocalCluster
from ignite_strategy.topology.caches import connect, create_cache, drop_cache

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(400)]

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "train_digits.py")


def run(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code and everything printed, in one line: the console may break them anywhere."""
    done = subprocess.run(
        [sys.executable, EXAMPLE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=350,
        env={**os.environ, **(environment or {})},
    )
    return done.returncode, " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def agents() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=2, agents=True) as running:
        yield running


def check_story(code: int, text: str) -> None:
    assert code == 0, text[-3000:]
    assert "Traceback" not in text
    assert re.search(r"first training step after \d+\.\d s", text)
    assert re.search(r"task chief 0: pid \d+ on \S+, serving \S+:\d+", text)
    # Training rows travel over no other connection than the one to the task's own node.
    assert re.search(r"100 % of [\d,]+ training rows were read from the task's own node", text)
    drained = re.search(
        r"drained key by key: (\d+) \(chief 0\) \+ (\d+) \(worker 0\) = 1437, the whole cache", text
    )
    assert drained
    assert min(int(drained[1]), int(drained[2])) > 500
    for file in ("checkpoint", "model.ckpt-", "eval/events.out.tfevents", "saved_model.pb"):
        assert file in text
    assert "evaluation at step 0" in text or "evaluation at step 1" in text
    tasks_gone = text.index("the tasks are gone")
    accuracies = re.findall(r"(checkpoint|exported model) of \S+ accuracy (\d\.\d+)", text[tasks_gone:])
    assert [name for name, _ in accuracies] == ["checkpoint", "exported model"]
    assert all(float(value) >= 0.93 for _, value in accuracies)


def test_collective_on_a_cluster_of_its_own() -> None:
    code, text = run("--nodes", "2", "--strategy", "collective", "--steps", "300")
    check_story(code, text)
    assert "collective, 300 steps" in text
    assert re.findall(r"evaluation at step (\d+)", text) == ["0", "100", "200", "300"]
    events = text[text.index("event files of the evaluator:") :]
    assert re.findall(r"0\.\d+ at step (\d+)", events) == ["0", "100", "200", "300"]


def test_parameter_server_on_a_given_cluster(agents: LocalCluster) -> None:
    code, text = run("--addresses", *agents.addresses, "--strategy", "parameter_server", "--steps", "400")
    check_story(code, text)
    assert re.search(r"ps 0", text)


def test_a_missing_and_an_empty_cache(agents: LocalCluster) -> None:
    with contextlib.closing(connect(agents.addresses)) as client:
        for name in ("DIGITS", "DIGITS_TEST"):
            drop_cache(client, name)
        code, text = run("--addresses", agents.addresses[0], "--no-load")
        assert code == 1
        assert text.startswith("NotFoundError: ")
        assert "DIGITS" in text
        create_cache(client, "DIGITS", partitions=2)
        code, text = run("--addresses", agents.addresses[0], "--no-load")
        drop_cache(client, "DIGITS")
    assert code == 1
    assert text.startswith("PreconditionError: ")
    assert "DIGITS" in text


def test_no_agent() -> None:
    with LocalCluster(nodes=1) as bare:
        code, text = run("--addresses", bare.addresses[0])
    assert code == 1
    assert "Traceback" not in text
    assert re.search(
        r"PreconditionError: no agent runs beside Ignite node .* ignite-strategy agent --node", text
    )


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["--addresses", "127.0.0.1:1"], {}, r"^ConnectionFailedError: 127\.0\.0\.1:1"),
        (["--addresses", "nowhere.invalid:10800"], {}, r"^ConnectionFailedError: .*nowhere\.invalid"),
        (
            [],
            {"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}}'},
            r"^ClusterError: .*TF_CONFIG describes",
        ),
        (["--steps", "0"], {}, r"^InvalidArgumentError: --nodes and --steps are at least 1"),
    ],
)
def test_one_clear_error(arguments: list[str], environment: dict[str, str], message: str) -> None:
    code, text = run(*arguments, environment=environment)
    assert code == 1
    assert re.search(message, text), text
    assert "Traceback" not in text


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_when_it_is_stopped(how: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, EXAMPLE, "--steps", "1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(line)
            if "evaluation at step 0" in line:
                break
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 6, "".join(told)  # nodes, agents, tasks
        process.send_signal(how)
        code = process.wait(30)
        _, alive = psutil.wait_procs(family, timeout=30)
        assert not alive, [one.cmdline()[:4] for one in alive if one.is_running()]
        if how == signal.SIGINT:
            rest = process.stdout.read()
            assert (code, rest.splitlines()[-1]) == (130, "interrupted"), rest
            assert "Traceback" not in rest
    finally:
        process.kill()
        process.wait(10)
