"""igfs:// when something is wrong: no node, a silent or old one, connections that break, nonsense in the settings."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import tensorflow as tf

import ignite_strategy  # noqa: F401
from ignite_strategy import settings
from ignite_strategy.errors import (
    ConnectionFailedError,
    DataLossError,
    InvalidArgumentError,
    PreconditionError,
)
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.settings import Endpoint, parse_endpoint
from tests.relay import Relay
from tests.wire.scripted import Peer, ScriptedServer

pytestmark = pytest.mark.integration
gfile = tf.io.gfile
BLOCK = 524_288


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def relay(one_node: str) -> Iterator[Relay]:
    running = Relay(parse_endpoint(one_node))
    yield running
    running.close()


# --- no node, a silent one, an old one --------------------------------------------------------------------------------


def test_no_node_is_unavailable_and_never_not_found() -> None:
    """An evaluator that hears NotFound believes there is no checkpoint (BR-27)."""
    uri = f"igfs://127.0.0.1:{closed_port()}/ckpt"
    for act in (
        lambda: gfile.stat(f"{uri}/checkpoint"),
        lambda: gfile.exists(f"{uri}/checkpoint"),
        lambda: gfile.GFile(f"{uri}/checkpoint").read(),
        lambda: gfile.GFile(f"{uri}/f", "w").write("x"),
        lambda: gfile.makedirs(f"{uri}/d"),
        lambda: gfile.rename(f"{uri}/a", f"{uri}/b"),
        lambda: gfile.remove(f"{uri}/a"),
        lambda: tf.io.read_file(f"{uri}/checkpoint"),
        lambda: gfile.listdir(uri),
        lambda: gfile.glob(f"{uri}/model.ckpt-*.index"),
        lambda: list(gfile.walk(uri)),
        lambda: gfile.rmtree(uri),
    ):
        with pytest.raises(tf.errors.UnavailableError, match=r"127\.0\.0\.1"):
            act()


def silent(peer: Peer) -> None:
    peer.handshake()
    peer.wait_for_close()


@pytest.mark.parametrize("through", ["tensorflow", "python"])
def test_ctrl_c_ends_a_call_to_a_silent_node(through: str) -> None:
    with ScriptedServer(silent) as server:
        act = {
            "tensorflow": f"tf.io.gfile.stat('igfs://{server.host}:{server.port}/x')",
            "python": f"FileSystem({server.host!r}, {server.port}).stat('/x')",
        }[through]
        head = {
            "tensorflow": "import tensorflow as tf, ignite_strategy",
            "python": "from ignite_strategy.filesystem import FileSystem",
        }[through]
        code = f"""{head}
print("ready", flush=True)
try:
    try:
        {act}
    finally:
        pass  # a chance for the interpreter to act on the signal
except BaseException as error:
    # pybind11 in TensorFlow's file_io wraps an interrupt that arrives while it makes its own exception.
    print(type(error).__name__, "KeyboardInterrupt" in repr(error), flush=True)
"""
        child = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            time.sleep(1)
            assert child.poll() is None
            start = time.monotonic()
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() in ("KeyboardInterrupt True\n", "RuntimeError True\n")
            assert time.monotonic() - start < 2
        finally:
            child.kill()
            child.wait(10)


def test_an_ignite_without_transactions_is_refused() -> None:
    """Ignite 2.7 speaks version 1.2 of the protocol."""

    def old(peer: Peer) -> None:
        peer.handshake(newest=(1, 2, 0))
        peer.wait_for_close()

    with ScriptedServer(old) as server, pytest.raises(PreconditionError, match=r"Ignite >= 2\.8"):
        FileSystem(server.host, server.port).stat("/x")


# --- connections that break -------------------------------------------------------------------------------------------


def test_a_connection_that_died_between_calls_is_opened_again(relay: Relay) -> None:
    files = FileSystem("127.0.0.1", relay.port, "faults")
    files.makedirs("/between")
    for act in (
        lambda: files.write("/between/f", b"1"),
        lambda: files.list("/between"),
        lambda: files.read("/between/f"),
        lambda: files.rename("/between/f", "/between/g"),
        lambda: files.mkdir("/between/d"),
        lambda: files.remove("/between/g"),
    ):
        relay.cut()
        act()
    assert relay.connections > 6
    files.remove("/between", recursive=True)


@pytest.mark.parametrize("after", [100, 700, 3_000, BLOCK, 3 * BLOCK, 9 * BLOCK])
def test_a_connection_that_breaks_while_a_file_is_written(relay: Relay, after: int) -> None:
    files = FileSystem("127.0.0.1", relay.port, "faults")
    content = bytes(range(250)) * 25_000
    out = files.open(f"/w{after}", "wb")
    relay.cut_after(after)
    for at in range(0, len(content), 100_000):
        out.write(content[at : at + 100_000])
    out.close()
    assert files.read(f"/w{after}") == content


@pytest.mark.parametrize("after", [10, 300, BLOCK, 5 * BLOCK + 7])
def test_a_connection_that_breaks_while_a_file_is_read(relay: Relay, after: int) -> None:
    files = FileSystem("127.0.0.1", relay.port, "faults")
    content = bytes(range(250)) * 20_000
    files.write(f"/r{after}", content)
    relay.cut_after(after)
    assert files.read(f"/r{after}") == content


def test_a_connection_that_breaks_anywhere_in_a_change_of_the_tree(relay: Relay) -> None:
    """Whether a commit arrived is unknown then: doing it again must neither fail nor do it twice."""
    files = FileSystem("127.0.0.1", relay.port, "faults")
    files.makedirs("/t")
    for after in range(0, 1500, 60):
        for act in (
            lambda: files.write("/t/f", b"1"),
            lambda: files.rename("/t/f", "/t/g"),
            lambda: files.mkdir("/t/d"),
            lambda: files.rename("/t/d", "/t/e"),
            lambda: files.remove("/t/g"),
            lambda: files.remove("/t/e", recursive=True),
        ):
            relay.cut_after(after)
            act()
        relay.budget = None
        assert files.list("/t") == []


def test_a_node_that_comes_back_is_used_again(relay: Relay) -> None:
    files = FileSystem("127.0.0.1", relay.port, "faults")
    files.write("/back", b"1")
    relay.close()
    with pytest.raises(ConnectionFailedError):
        files.read("/back")


# --- addresses --------------------------------------------------------------------------------------------------------


def test_the_first_of_several_addresses_that_answers_is_used(one_node: str, fresh_name: str) -> None:
    endpoints = [Endpoint("127.0.0.1", closed_port()), parse_endpoint(one_node)]
    with settings.use_default_endpoints(endpoints):
        with gfile.GFile(f"igfs://{fresh_name}@/f", "w") as out:
            out.write("1")
        assert FileSystem(name=fresh_name).read("/f") == b"1"
    assert gfile.GFile(f"igfs://{fresh_name}@{one_node}/f").read() == "1"


def test_the_environment_comes_before_an_open_resolver_and_after_the_uri(
    one_node: str, fresh_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    FileSystem(*parse_endpoint(one_node), fresh_name).write("/f", b"1")
    nowhere = Endpoint("127.0.0.1", closed_port())
    host, port = parse_endpoint(one_node)
    monkeypatch.setenv("IGFS_FS_NAME", fresh_name)
    with settings.use_default_endpoints([nowhere]):
        with pytest.raises(tf.errors.UnavailableError):
            gfile.exists("igfs:///f")
        monkeypatch.setenv("IGFS_HOST", host)
        monkeypatch.setenv("IGFS_PORT", str(port))
        assert gfile.GFile("igfs:///f").read() == "1"
        assert FileSystem().read("/f") == b"1"
        monkeypatch.setenv("IGFS_PORT", str(nowhere.port))
        assert gfile.GFile(f"igfs://{host}:{port}/f").read() == "1"
    with pytest.raises(tf.errors.UnavailableError):
        gfile.exists("igfs:///f")


@pytest.mark.parametrize(
    ("variable", "value", "error"),
    [
        ("IGFS_BACKEND", "probe", InvalidArgumentError),
        ("IGFS_PORT", "x", InvalidArgumentError),
        ("IGFS_FS_NAME", "a/b", InvalidArgumentError),
        ("IGFS_BLOCK_SIZE", "1", InvalidArgumentError),
        ("IGFS_BLOCK_SIZE", "many", InvalidArgumentError),
        ("IGFS_BACKUPS", "-1", InvalidArgumentError),
        ("IGFS_GRACE_SECONDS", "1h", InvalidArgumentError),
        ("IGFS_WRITER_LEASE_SECONDS", "0", InvalidArgumentError),
    ],
)
def test_settings_that_cannot_be_used(
    variable: str, value: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(error, match=variable):
        FileSystem()


def test_settings_are_obeyed(one_node: str, fresh_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IGFS_BLOCK_SIZE", "4096")
    files = FileSystem(*parse_endpoint(one_node), fresh_name)
    content = bytes(range(256)) * 100
    files.write("/f", content)
    monkeypatch.setenv("IGFS_BLOCK_SIZE", "8192")
    files = FileSystem(*parse_endpoint(one_node), fresh_name)
    assert files.read("/f") == content
    with files.open("/f", "ab") as out:  # a file keeps its block size
        out.write(b"more")
    assert files.read("/f") == content + b"more"
    assert _count_blocks(one_node, fresh_name) == 7


def _count_blocks(one_node: str, name: str) -> int:
    from tests.integration.test_igfs_publishing import blocks

    return blocks(one_node, name) - 1  # the old, shorter tail


# --- what others wrote ------------------------------------------------------------------------------------------------


def test_foreign_content_is_refused(one_node: str, fresh_name: str) -> None:
    from pyignite import Client

    files = FileSystem(*parse_endpoint(one_node), fresh_name)
    files.makedirs("/d")
    files.write("/d/f", b"12345")
    client = Client()
    host, port = parse_endpoint(one_node)
    with client.connect(host, port):
        blocks = client.get_cache(f"igfs-{fresh_name}-blocks")
        for key, value in list(blocks.scan()):
            blocks.put(key, value[:3])
        with pytest.raises(DataLossError, match=r"/d/f: block 0 .* too short"):
            files.read("/d/f")
        blocks.clear()
        with pytest.raises(DataLossError, match=r"/d/f: block 0 .* is missing"):
            files.read("/d/f")
        partitions = range(1024)  # a small int's partition is its value
        client.get_cache(f"igfs-{fresh_name}-tree").put_all(dict.fromkeys(partitions, "foreign"))
    with pytest.raises(DataLossError, match="holds a key"):
        files.list("/d")
