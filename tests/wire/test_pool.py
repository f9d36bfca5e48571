import os
import socket
import time
import traceback
import warnings

import pytest

from ignite_strategy import errors
from ignite_strategy._core import Connection, clear_pool
from tests.wire.scripted import Failure, Peer, ScriptedServer

ECHO = 1


def echo(peer: Peer) -> None:
    peer.handshake()
    peer.serve({ECHO: lambda request: request.payload, 2: lambda request: Failure(1000)})


def pooled(server, **options):
    return Connection(server.host, server.port, pooled=True, **options)


@pytest.fixture(autouse=True)
def empty_pool():
    clear_pool()
    yield
    clear_pool()


def wait_until(condition, limit=30.0):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_idle_connection_is_used_again():
    with ScriptedServer(echo) as server:
        for number in range(5):
            with pooled(server) as connection:
                assert connection.call(ECHO, bytes([number]), "echoing") == bytes([number])
                assert connection.node_id
        assert server.connections == 1
        with pooled(server), pooled(server):
            pass
        assert server.connections == 2


def test_an_error_of_the_server_does_not_cost_the_connection():
    with ScriptedServer(echo) as server:
        for _ in range(3):
            with pooled(server) as connection, pytest.raises(errors.NotFoundError):
                connection.call(2, b"", "asking")
        assert server.connections == 1


def test_a_connection_that_the_peer_closed_is_not_used_again():
    with ScriptedServer(echo) as server:
        with pooled(server):
            pass
        server.peers[0].close()
        time.sleep(0.05)
        with pooled(server) as connection:
            assert connection.call(ECHO, b"x", "echoing") == b"x"
        assert server.connections == 2


def test_a_connection_with_unread_bytes_is_not_used_again():
    with ScriptedServer(echo) as server:
        with pooled(server):
            pass
        server.peers[0].send(b"unasked")
        time.sleep(0.05)
        with pooled(server) as connection:
            assert connection.call(ECHO, b"x", "echoing") == b"x"
        assert server.connections == 2


def test_a_connection_with_a_request_outstanding_is_not_used_again():
    def script(peer: Peer) -> None:
        peer.handshake()
        if peer.index == 0:
            peer.wait_for_close()
        peer.serve({ECHO: lambda request: request.payload})

    with ScriptedServer(script) as server:
        with pooled(server, request_timeout=0.1) as connection, pytest.raises(errors.DeadlineExceededError):
            connection.call(ECHO, b"x", "echoing")
        with pooled(server) as connection:
            assert connection.call(ECHO, b"y", "echoing") == b"y"


def test_the_limits_are_those_of_the_user_not_of_the_opener():
    def script(peer: Peer) -> None:
        peer.handshake()
        peer.wait_for_close()

    with ScriptedServer(script) as server:
        with pooled(server, request_timeout=60.0):
            pass
        with pooled(server, request_timeout=0.1) as connection:
            start = time.monotonic()
            with pytest.raises(errors.DeadlineExceededError):
                connection.call(ECHO, b"x", "echoing")
            assert time.monotonic() - start < 3


def test_idle_connections_are_bounded():
    with ScriptedServer(echo) as server:
        connections = [pooled(server) for _ in range(12)]
        assert server.connections == 12
        for connection in connections:
            connection.close()
        again = [pooled(server) for _ in range(12)]
        assert server.connections == 12 + 4  # eight were kept
        for connection in again:
            connection.close()


def test_a_dropped_connection_closes_its_socket():
    with ScriptedServer(echo) as server:
        before = len(os.listdir("/proc/self/fd"))
        connection = Connection(server.host, server.port)
        wait_until(lambda: server.connections == 1)
        del connection
        wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)


def in_child(work) -> None:
    """Runs ``work`` in a forked child; its assertions fail the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # forking with threads is what is tested
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            os.write(2, traceback.format_exc().encode())  # into what pytest shows of a test that fails
        os._exit(code)
    end = time.monotonic() + 60
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        if time.monotonic() > end:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)


def test_a_child_never_uses_its_parents_connections():
    with ScriptedServer(echo) as server:
        with pooled(server):
            pass
        own = Connection(server.host, server.port)
        assert server.connections == 2

        def work():
            with pytest.raises(errors.ConnectionFailedError, match=r"fork\(\)"):
                own.call(ECHO, b"child", "echoing")
            own.close()
            with pooled(server, connect_timeout=30.0) as connection:
                assert connection.call(ECHO, b"child", "echoing") == b"child"

        in_child(work)
        assert server.connections == 3
        assert own.call(ECHO, b"parent", "echoing") == b"parent"  # the child's close did not touch it
        with pooled(server) as connection:
            assert connection.call(ECHO, b"parent", "echoing") == b"parent"
        assert server.connections == 3


def test_a_child_does_not_keep_its_parents_connections_open():
    """Otherwise the server would keep the cursors of a parent that closed."""
    gone = []

    def script(peer: Peer) -> None:
        peer.handshake()
        peer.wait_for_close()
        gone.append(peer.index)

    with ScriptedServer(script) as server:
        connection = Connection(server.host, server.port)
        reader, writer = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            reader.close()
            writer.send(b"!")
            writer.recv(1)
            os._exit(0)
        writer.close()
        try:
            assert reader.recv(1) == b"!"
            connection.close()
            wait_until(lambda: gone == [0])
        finally:
            reader.close()
            os.waitpid(pid, 0)
