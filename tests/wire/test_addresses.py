import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ignite_strategy import errors
from ignite_strategy._core import Connection
from tests.wire.scripted import Peer, ScriptedServer


def echo(peer: Peer) -> None:
    peer.handshake()
    peer.serve({1: lambda request: request.payload})


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this host has no IPv6 loopback")


@needs_ipv6
def test_an_ipv6_address():
    with ScriptedServer(echo, host="::1") as server, Connection("::1", server.port) as connection:
        assert connection.endpoint == connection.peer == f"[::1]:{server.port}"
        assert connection.call(1, b"six", "testing") == b"six"


def test_a_host_name():
    with ScriptedServer(echo) as server, Connection("localhost", server.port) as connection:
        assert connection.endpoint == f"localhost:{server.port}"
        assert connection.peer == f"127.0.0.1:{server.port}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def test_a_port_where_nobody_listens_is_an_error_at_once():
    port = free_port()
    start = time.monotonic()
    with pytest.raises(errors.ConnectionFailedError, match=f"127.0.0.1:{port}: cannot connect: .*refused"):
        Connection("127.0.0.1", port)
    assert time.monotonic() - start < 3


def test_a_name_that_does_not_exist():
    with pytest.raises(errors.ConnectionFailedError, match=r"nowhere\.invalid:10800: .* cannot be resolved"):
        Connection("nowhere.invalid", 10800, connect_timeout=5.0)


def test_a_port_never_connects_to_itself():
    """Trying a loopback port of the ephemeral range long enough meets the kernel's own choice of port."""
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    port = next(port for port in range(high, low, -1) if port_is_free(port))
    end = time.monotonic() + 2
    while time.monotonic() < end:
        with pytest.raises(errors.ConnectionFailedError, match="cannot connect"):
            Connection("127.0.0.1", port, connect_timeout=0.2)


def port_is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


@contextlib.contextmanager
def swallowing(host: str, port: int):
    """An address where a connection attempt gets no answer: its queue of new connections is full."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(0)
    waiting = []
    for _ in range(4):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex((host, port))
        waiting.append(client)
    time.sleep(0.1)
    try:
        yield
    finally:
        for client in waiting:
            client.close()
        listener.close()


def test_an_address_that_does_not_answer_ends_at_the_connect_timeout():
    port = free_port()
    with swallowing("127.0.0.2", port):
        start = time.monotonic()
        with pytest.raises(errors.DeadlineExceededError, match=f"127.0.0.2:{port}: cannot connect"):
            Connection("127.0.0.2", port, connect_timeout=0.4)
        assert 0.3 < time.monotonic() - start < 3


@pytest.fixture(scope="module")
def lookup(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "building the package needs a C compiler, and so does this test"
    library = tmp_path_factory.mktemp("lookup") / "lookup.so"
    source = Path(__file__).with_name("lookup.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=60)
    return library


def child(lookup: Path, host: str, port: int, addresses: str = "", timeout: float = 5.0):
    code = (
        "import sys, time\n"
        "from ignite_strategy._core import Connection\n"
        "print('ready', flush=True)\n"
        "start = time.monotonic()\n"
        "try:\n"
        f"    print(Connection({host!r}, {port}, connect_timeout={timeout}).peer)\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
        "print(time.monotonic() - start)\n"
    )
    environment = {**os.environ, "LD_PRELOAD": str(lookup), "TEST_ADDRESSES": addresses}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process) -> tuple[str, float]:
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    _, text, seconds = out.splitlines()
    return text, float(seconds)


@pytest.mark.parametrize("first", ["127.0.0.3", "127.0.0.3,127.0.0.4", pytest.param("::1", marks=needs_ipv6)])
def test_each_address_of_a_host_is_tried(lookup, first):
    with ScriptedServer(echo) as server:
        text, seconds = result(child(lookup, "several.test", server.port, f"{first},127.0.0.1"))
        assert text == f"127.0.0.1:{server.port}"
        assert seconds < 3


def test_an_address_that_does_not_answer_leaves_time_for_the_next(lookup):
    with ScriptedServer(echo) as server, swallowing("127.0.0.2", server.port):
        text, seconds = result(child(lookup, "several.test", server.port, "127.0.0.2,127.0.0.1", timeout=2.0))
        assert text == f"127.0.0.1:{server.port}"
        assert 0.8 < seconds < 1.8


def test_the_error_names_every_address(lookup):
    port = free_port()
    text, _ = result(child(lookup, "several.test", port, "127.0.0.3,127.0.0.1"))
    assert text.startswith(f"ConnectionFailedError several.test:{port}: cannot connect: ")
    assert f"127.0.0.3:{port}: Connection refused" in text
    assert f"127.0.0.1:{port}: Connection refused" in text


def test_a_slow_name_lookup_ends_at_the_connect_timeout(lookup):
    text, seconds = result(child(lookup, "slow.test", 10800, timeout=0.5))
    assert text.startswith("DeadlineExceededError slow.test:10800: no answer in time while resolving")
    assert 0.4 < seconds < 3


def test_a_slow_name_lookup_does_not_block_ctrl_c(lookup):
    process = child(lookup, "slow.test", 10800, timeout=60.0)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert time.monotonic() - start < 2
    assert "KeyboardInterrupt" in err
