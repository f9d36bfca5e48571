"""``ignite-strategy local`` as a person uses it: in processes of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ignite_strategy.local import state
from ignite_strategy.local.ports import PortClaims

_COMMAND = [sys.executable, "-m", "ignite_strategy"]


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """State files of this test only; the downloads stay where they are."""
    from ignite_strategy.local.folders import cache_folder

    own = tmp_path / "cache"
    own.mkdir()
    (own / "jars").symlink_to(cache_folder() / "jars", target_is_directory=True)
    monkeypatch.setenv("IGNITE_STRATEGY_CACHE", str(own))
    return own / "run"


@pytest.fixture
def port() -> int:
    claims = PortClaims()
    found = claims.claim_any()
    claims.release()
    return found


def _call(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_COMMAND, *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )


def _local(*arguments: str) -> str:
    done = _call("local", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _start(port: int, *options: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [*_COMMAND, "local", "up", "--nodes=1", f"--port={port}", "--no-agents", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if "Ctrl-C ends it" in line:
            return process, said
    raise AssertionError(said)


def test_help_teaches_with_examples_and_is_quick() -> None:
    began = time.monotonic()
    done = _call("--help")
    assert time.monotonic() - began < 5
    assert "ignite-strategy local up --nodes 2" in done.stdout
    for group in ("local", "agent"):
        assert re.search(rf"^  {group} ", done.stdout, re.MULTILINE)
    assert (
        "  ignite-strategy local up --nodes 4 --port 11800 --heap 1024\n"
        in _call("local", "up", "--help").stdout
    )
    assert "ignite-strategy local sql" in _call("local", "sql", "--help").stdout
    assert "ignite-strategy agent --node localhost:10800" in _call("agent", "--help").stdout


def test_help_imports_no_command() -> None:
    program = """
import sys
from ignite_strategy.cli import main
sys.argv = ["ignite-strategy", "--help"]
try:
    main()
finally:
    loaded = [name for name in sys.modules if name.startswith(("ignite_strategy.local", "ignite_strategy.runtime"))]
    heavy = {"tensorflow", "pyignite", "dask", "numpy"} & set(sys.modules)
    print("loaded:", loaded, heavy, file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert "loaded: [] set()" in done.stderr


@pytest.mark.parametrize("command", [["local", "status"], ["local", "down"], ["local", "sql", "SELECT 1"]])
def test_without_a_cluster_one_line_says_what_to_do(run_folder: Path, command: list[str]) -> None:
    done = _call(*command)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == "error: no local cluster runs: start one with 'ignite-strategy local up'\n"


def test_wrong_usage_is_exit_code_2() -> None:
    done = _call("lcoal")
    assert done.returncode == 2
    assert "No such command 'lcoal'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.integration
def test_up_status_sql_down(run_folder: Path, port: int) -> None:
    process, said = _start(port)
    try:
        assert f"127.0.0.1:{port}" in said
        assert "Checked: a cache with 1 partitions has one on each node" in said
        assert f'igs.IgniteClusterResolver("NAME", addresses=["127.0.0.1:{port}"])' in said
        _local("sql", 'CREATE TABLE T (id INT PRIMARY KEY, x DOUBLE) WITH "TEMPLATE=igs-p2-,CACHE_NAME=MINE"')
        assert _local("sql", "INSERT INTO T VALUES (?, ?)", "5", "2.5") == "UPDATED\n1\n"
        assert _local("sql", "SELECT id, x FROM T") == "ID\tX\n5\t2.5\n"
        status = _local("status")
        assert re.search(rf"node-0 +127\.0\.0\.1:{port} +[0-9a-f-]{{36}} +sees 1 nodes", status)
        assert re.search(r"MINE +2 +2 +1", status)

        wrong = _call("local", "sql", "SELECT * FROM NOWHERE")
        assert wrong.returncode == 1
        assert re.fullmatch(rf'error: 127.0.0.1:{port}: .*Table "NOWHERE" not found.*\n', wrong.stderr)
        again = _call("local", "up", "--nodes=1", f"--port={port}")
        assert again.returncode == 1
        assert again.stderr.count("\n") == 1
        assert f"'ignite-strategy local down --port {port}'" in again.stderr

        assert _local("down") == f"ended the cluster at port {port} (1 nodes)\n"
        assert process.wait(10) == 0
        assert list(run_folder.glob("local-*.json")) == []
    finally:
        process.kill()
        process.communicate(timeout=10)


@pytest.mark.integration
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_however_up_ends_nothing_is_left(run_folder: Path, port: int, how: signal.Signals) -> None:
    process, _ = _start(port)
    try:
        below = psutil.Process(process.pid).children(recursive=True)
        assert len(below) >= 2
        process.send_signal(how)
        assert process.wait(20) == (-9 if how == signal.SIGKILL else 0)
        psutil.wait_procs(below, timeout=15)
        assert not [child for child in below if child.is_running()]
        assert state.list_running() == []
        assert list(run_folder.glob("local-*.json")) == []
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 1):
            pass
    finally:
        process.kill()
        process.communicate(timeout=10)


@pytest.mark.integration
def test_detached_it_runs_until_down(run_folder: Path, port: int) -> None:
    done = _call("local", "up", "--nodes=1", f"--port={port}", "--no-agents", "--detach", timeout=150)
    try:
        assert done.returncode == 0, done.stderr
        assert f"ignite-strategy local down --port {port}" in done.stdout
        assert _local("sql", "SELECT COUNT(*) AS n FROM SYS.NODES") == "N\n1\n"
        running = state.find(port)
        assert psutil.pid_exists(running.pid)
    finally:
        ended = _call("local", "down", "--port", str(port))
    assert ended.returncode == 0
    assert not psutil.pid_exists(running.pid) or psutil.Process(running.pid).status() == psutil.STATUS_ZOMBIE


def test_a_port_of_somebody_else(run_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = _call("local", "up", f"--port={port}")
    assert done.returncode == 1
    assert done.stderr == (
        f"error: port {port} is in use by another program (an Ignite node?): choose other ports with "
        f"--port {port + 100}\n"
    )


def test_sql_at_an_address_where_nobody_listens(port: int) -> None:
    done = _call("local", "sql", "SELECT 1", "--address", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: 127.0.0.1:{port}: ")
    assert done.stderr.count("\n") == 1


def test_sql_at_an_address_and_at_a_port() -> None:
    done = _call("local", "sql", "SELECT 1", "--address", "127.0.0.1:10800", "--port", "10800")
    assert done.returncode == 1
    assert "leave out --port" in done.stderr


def test_scripts_with_the_key_of_a_local_cluster(run_folder: Path, port: int, tmp_path: Path) -> None:
    """``start`` finds the address and the key by itself."""
    process, _ = _start(port, "--agents", "--allow-scripts")
    try:
        (cluster,) = state.list_running()
        assert cluster.key_file is not None
        assert Path(cluster.key_file).stat().st_mode & 0o777 == 0o600
        _local("sql", 'CREATE TABLE T (ID INT PRIMARY KEY, X INT) WITH "TEMPLATE=igs-p1-,CACHE_NAME=CACHE"')
        (tmp_path / "job").mkdir()
        done = _call("start", "--no-tasks", "CACHE", str(tmp_path / "job"), "sh", "-c", "echo hello; exit 4")
        assert (done.returncode, done.stdout) == (4, "hello\n"), done.stderr
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert not Path(cluster.key_file).exists()
    refused = _call("local", "up", "--no-agents", "--allow-scripts")
    assert (refused.returncode, "leave out --no-agents" in refused.stderr) == (1, True)
