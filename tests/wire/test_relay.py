"""The relay between the client and its tasks: real sockets and, for the end, a real gRPC client."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ignite_strategy.errors import ClusterError
from ignite_strategy.estimator.relay import Relay
from ignite_strategy.settings import Endpoint

TASK = ("worker", 0)


class Echo:
    """A server that answers with what it got, after its name."""

    def __init__(self, name: bytes = b"", answering: bool = True) -> None:
        self.name, self.answering = name, answering
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = Endpoint(*self.listener.getsockname()[:2])
        self.open: list[socket.socket] = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self.listener.accept()
                self.open.append(accepted)
                threading.Thread(target=self.answer, args=(accepted,), daemon=True).start()

    def answer(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while self.answering:
                data = accepted.recv(1 << 16)
                if not data:
                    accepted.close()
                    return
                accepted.sendall(self.name + data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(
                socket.SHUT_RDWR
            )  # else the port stays open while a thread waits in accept
        for one in (self.listener, *self.open):
            one.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo(b"one:")
    yield server
    server.close()


@pytest.fixture
def relay(echo: Echo) -> Iterator[Relay]:
    relay = Relay({TASK: echo.endpoint})
    yield relay
    relay.close()


def connect(relay: Relay) -> socket.socket:
    return socket.create_connection(relay.endpoint(TASK), timeout=5)


def ask(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return connection.recv(100)


def test_bytes_pass_both_ways(relay: Relay) -> None:
    with connect(relay) as first, connect(relay) as second:
        assert ask(first, b"a") == b"one:a"
        assert ask(second, b"b") == b"one:b"
        assert ask(first, b"c") == b"one:c"


def test_much_data_and_a_slow_reader(relay: Relay, echo: Echo) -> None:
    echo.name = b""
    sent = bytes(range(256)) * (64 * 1024)  # 16 MiB: more than all buffers on the way
    with connect(relay) as connection:
        sender = threading.Thread(target=connection.sendall, args=(sent,), daemon=True)
        sender.start()
        time.sleep(0.3)
        got = bytearray()
        while len(got) < len(sent):
            got += connection.recv(1 << 20)
        assert bytes(got) == sent


def test_the_end_of_one_side_is_the_end_of_the_other(relay: Relay, echo: Echo) -> None:
    with connect(relay) as connection:
        assert ask(connection, b"a") == b"one:a"
        echo.open[0].shutdown(socket.SHUT_RDWR)
        assert connection.recv(100) == b""


def test_a_pause(relay: Relay, echo: Echo) -> None:
    """What was connected is closed; who comes meanwhile is led to where the tasks are afterwards."""
    other = Echo(b"two:")
    with connect(relay) as before:
        assert ask(before, b"a") == b"one:a"
        relay.pause([TASK])
        assert before.recv(100) == b""
    with connect(relay) as first, connect(relay) as second:
        first.settimeout(0.5)
        first.sendall(b"b")
        with pytest.raises(TimeoutError):
            first.recv(100)
        second.close()
        relay.retarget({TASK: other.endpoint})
        first.settimeout(5)
        assert first.recv(100) == b"two:b"
    other.close()
    with contextlib.ExitStack() as many:
        relay.pause([TASK])
        crowd = [many.enter_context(connect(relay)) for _ in range(100)]
        deadline = time.monotonic() + 5
        for one in crowd:
            one.setblocking(False)
        while True:  # the relay keeps some, and not as many as somebody likes
            closed = 0
            for one in crowd:
                with contextlib.suppress(BlockingIOError):
                    closed += one.recv(1) == b""
            if closed >= 30:
                break
            assert time.monotonic() < deadline, closed
            time.sleep(0.05)


def test_a_server_that_is_not_there(relay: Relay, echo: Echo) -> None:
    echo.close()
    with connect(relay) as connection, contextlib.suppress(ConnectionResetError):
        assert connection.recv(100) == b""


def test_another_address(relay: Relay) -> None:
    other = Echo(b"two:")
    with connect(relay) as connection:
        assert ask(connection, b"a") == b"one:a"
        relay.retarget({TASK: other.endpoint})
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b""
    with connect(relay) as connection:
        assert ask(connection, b"a") == b"two:a"
    other.close()


def test_a_host_that_nobody_knows() -> None:
    with pytest.raises(ClusterError, match=r"nowhere\.invalid:1: .* looking up .*worker"):
        Relay({TASK: Endpoint("nowhere.invalid", 1)})


def test_only_this_host_can_connect(relay: Relay) -> None:
    assert relay.endpoint(TASK).host == "127.0.0.1"


@pytest.mark.parametrize("answering", [True, False])
def test_cut_answers_calls_that_wait(answering: bool) -> None:
    """tensorflow/tensorflow #12745: a client of a hung server waits for ever; here it gets ABORTED."""
    grpc = pytest.importorskip("grpc")
    server = Echo(answering=answering)  # speaks no gRPC: as silent as a stopped process
    relay = Relay({TASK: server.endpoint})
    channel = grpc.insecure_channel(str(relay.endpoint(TASK)))
    call = channel.unary_unary("/tensorflow.MasterService/RunStep").future(
        b"", timeout=20, wait_for_ready=True
    )
    time.sleep(0.5)
    assert not call.done()
    relay.cut()
    started = time.monotonic()
    assert call.exception(timeout=15).code() in (grpc.StatusCode.ABORTED, grpc.StatusCode.UNAVAILABLE)
    again = channel.unary_unary("/tensorflow.MasterService/CreateSession").future(
        b"", timeout=15, wait_for_ready=True
    )
    assert again.exception(timeout=15).code() is grpc.StatusCode.ABORTED
    assert time.monotonic() - started < 5
    channel.close()
    relay.close()
    server.close()


def test_close_leaves_no_thread_and_no_port(echo: Echo) -> None:
    relay = Relay({TASK: echo.endpoint})
    endpoint = relay.endpoint(TASK)
    with connect(relay) as connection:
        relay.close()
        relay.close()
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b""
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(endpoint, timeout=2)
    assert "ignite_strategy-relay" not in [thread.name for thread in threading.enumerate()]
