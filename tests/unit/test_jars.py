"""The jar lock and the download cache, with a Maven mirror on the loopback address."""

from __future__ import annotations

import hashlib
import http.server
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ignite_strategy.errors import ConnectionFailedError, DataLossError, PreconditionError
from ignite_strategy.local import jars
from ignite_strategy.local.jars import Jar, ensure_jars, read_lock


def _content(name: str) -> bytes:
    return name.encode() * 20_000


def _jar(name: str, digest: str | None = None) -> Jar:
    return Jar("org.example", name, "1.0", digest or hashlib.sha256(_content(name)).hexdigest())


class _Mirror:
    """Serves jars named after their content, and counts what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status = 200
        mirror = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not self.path.endswith(".jar"):
                    self.send_error(404)
                    return
                mirror.asked.append(self.path)
                body = _content(self.path.split("/")[-3])
                self.send_response(mirror.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Mirror]:
    pytest.importorskip("jgo")
    running = _Mirror()
    settings = tmp_path / "home" / ".config" / "jgo.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[repositories]\ncentral = {running.url}\n")
    monkeypatch.setenv("JGO_CONFIG_FILE", str(settings))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    yield running
    running.close()


def test_the_lock_names_every_jar_of_a_node_with_its_checksum() -> None:
    locked = read_lock()
    names = {jar.artifact for jar in locked}
    assert names >= {"ignite-core", "ignite-indexing", "ignite-spring", "h2", "cache-api", "spring-context"}
    assert {jar.version for jar in locked if jar.artifact.startswith("ignite-")} == {"2.17.0"}
    assert all(len(jar.sha256) == 64 for jar in locked)
    assert len(names) == len(locked)


@pytest.mark.parametrize("line", ["org.x:a:1", "org.x:a 0123", "a" * 70, f"a:b {'0' * 64}"])
def test_a_damaged_lock_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text(f"# comment\n{line}\n")
    with pytest.raises(DataLossError, match=r"jars.lock:2: expected 'group:artifact:version sha256'"):
        read_lock(lock)


def test_each_jar_is_fetched_once(tmp_path: Path, mirror: _Mirror) -> None:
    wanted = [_jar("a"), _jar("b")]
    paths = ensure_jars(wanted, tmp_path / "jars")
    assert [path.read_bytes() for path in paths] == [_content("a"), _content("b")]
    ensure_jars(wanted, tmp_path / "jars")
    assert len(mirror.asked) == 2
    assert sorted(path.name for path in (tmp_path / "jars").iterdir()) == [".lock", "a-1.0.jar", "b-1.0.jar"]


def test_another_file_than_the_locked_one_is_refused(tmp_path: Path, mirror: _Mirror) -> None:
    with pytest.raises(DataLossError, match=r"org.example:a:1.0 was fetched, but its SHA-256 is .* not used"):
        ensure_jars([_jar("a", "0" * 64)], tmp_path)
    assert not (tmp_path / "a-1.0.jar").exists()


def test_a_damaged_jar_in_the_cache_is_fetched_again(tmp_path: Path, mirror: _Mirror) -> None:
    (tmp_path / "a-1.0.jar").write_bytes(_content("a")[:-1])
    ensure_jars([_jar("a")], tmp_path)
    assert (tmp_path / "a-1.0.jar").read_bytes() == _content("a")


def test_a_mirror_that_fails(tmp_path: Path, mirror: _Mirror) -> None:
    mirror.status = 503
    with pytest.raises(ConnectionFailedError, match=r"cannot fetch org.example:a:1.0: .* needs the network"):
        ensure_jars([_jar("a")], tmp_path)


def _in_process(folder: str) -> None:
    ensure_jars([_jar(name) for name in "abcdef"], Path(folder))


def test_two_processes_at_once_fetch_each_jar_once(tmp_path: Path, mirror: _Mirror) -> None:
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_in_process, args=(str(tmp_path / "jars"),)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    assert len(mirror.asked) == 6
    assert ensure_jars([_jar(name) for name in "abcdef"], tmp_path / "jars")
    assert len(mirror.asked) == 6


def test_a_complete_cache_needs_neither_jgo_nor_a_network(tmp_path: Path) -> None:
    (tmp_path / "a-1.0.jar").write_bytes(_content("a"))
    program = """
import socket, sys
from pathlib import Path
sys.modules["jgo"] = None
def refuse(*_): raise AssertionError("a socket was opened")
socket.socket.__init__ = refuse
from ignite_strategy.local.jars import Jar, ensure_jars
print(*ensure_jars([Jar("org.example", "a", "1.0", sys.argv[2])], Path(sys.argv[1])))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), _jar("a").sha256],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.strip() == str(tmp_path / "a-1.0.jar")


def test_without_jgo_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jgo", None)
    monkeypatch.setitem(sys.modules, "jgo.maven", None)
    with pytest.raises(PreconditionError, match=r"pip install 'ignite-strategy\[local\]'"):
        ensure_jars([_jar("a")], tmp_path)


def test_a_progress_bar_only_when_asked_or_on_a_terminal(
    tmp_path: Path, mirror: _Mirror, capfd: pytest.CaptureFixture[str]
) -> None:
    ensure_jars([_jar("a")], tmp_path)
    assert capfd.readouterr() == ("", "")
    ensure_jars([_jar("b")], tmp_path, progress=True)
    assert "1 jars" in capfd.readouterr().err


def test_a_fetch_that_is_stuck_elsewhere_ends_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "_LOCK_WAIT", 0.2)
    with (
        jars._exclusive(tmp_path / ".lock"),
        pytest.raises(Exception, match="another process has been fetching"),
    ):
        ensure_jars([_jar("a")], tmp_path)
