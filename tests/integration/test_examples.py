"""The short examples, run as a reader of the documentation runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conftest import without_ours

pytest.importorskip("tensorflow")

EXAMPLES = Path(__file__).parents[2] / "examples"

KITTENS = """\
{'key': 1, 'val': {'NAME': b'WARM KITTY'}}
{'key': 2, 'val': {'NAME': b'SOFT KITTY'}}
{'key': 3, 'val': {'NAME': b'LITTLE BALL OF FUR'}}
"""


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, env=without_ours(os.environ), capture_output=True, text=True, timeout=150)


Runs = dict[str, "Future[subprocess.CompletedProcess[str]]"]


@pytest.fixture(scope="module")
def runs(one_node: str, two_at_a_time: ThreadPoolExecutor) -> Runs:
    """Each example with a node to speak to."""
    names = ("kitten_table.py", "structured_objects.py", "igfs_hello.py", "predict.py")
    return {name: two_at_a_time.submit(run, name, "--address", one_node) for name in names}


def test_a_table(runs: Runs) -> None:
    done = runs["kitten_table.py"].result()
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, sorted(KITTENS.splitlines())), (
        done.stderr
    )


def test_structured_objects(runs: Runs) -> None:
    done = runs["structured_objects.py"].result()
    assert done.returncode == 0, done.stderr
    assert "'metadata': {'file_name': b'kitten.png'" in done.stdout
    assert done.stdout.splitlines()[-1] == "[0 0 0 0 0 0 0 0 0 0 0 0]"


def test_a_file_on_igfs(runs: Runs) -> None:
    done = runs["igfs_hello.py"].result()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "Hello, world!"
    assert "'hello.txt'" in done.stdout


def test_predictions_are_written_back(runs: Runs) -> None:
    pytest.importorskip("sklearn")
    done = runs["predict.py"].result()
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "1797 answers written"
    assert sum(int(line.split()[1]) for line in lines[1:11]) == 1797
    assert float(lines[11].removeprefix("right: ")) > 0.9


def test_without_an_address_a_node_is_started() -> None:
    done = run("kitten_table.py")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 3), done.stderr


def test_a_wrong_address_is_one_line() -> None:
    done = run("kitten_table.py", "--address", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("ConnectionFailedError: 127.0.0.1:1")
    assert len(done.stderr.splitlines()) == 1
