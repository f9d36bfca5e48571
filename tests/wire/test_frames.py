import contextlib
import socket
import struct
import threading
import time

import pytest

from ignite_strategy import errors
from ignite_strategy._core import Connection
from tests.wire.scripted import Failure, Peer, ScriptedServer, frame

CALL = 1050


def answering(send):
    """A script that answers the first request with what ``send(peer, request)`` sends, then waits."""

    def script(peer: Peer) -> None:
        peer.handshake()
        send(peer, peer.request())
        peer.wait_for_close()

    return script


@contextlib.contextmanager
def connected(script, **options):
    with ScriptedServer(script) as server, connect(server, **options) as connection:
        yield connection


def connect(server, **options):
    return Connection(server.host, server.port, **{"connect_timeout": 5.0, "request_timeout": 5.0, **options})


@pytest.mark.parametrize("cut", range(4 + 8 + 2 + 12 + 5))
def test_a_close_at_any_byte_of_a_response_is_an_error_at_once(cut):
    """tensorflow/io (legacy), ``TcpClient.read_data``: a close inside a message made it spin for ever."""

    def script(peer: Peer) -> None:
        peer.handshake()
        request = peer.request()
        peer.send(peer.response(request, b"12345")[:cut])

    with ScriptedServer(script) as server, connect(server) as connection:
        start = time.monotonic()
        with pytest.raises(errors.ConnectionFailedError, match="while reading X") as caught:
            connection.call(CALL, b"", "reading X")
        assert time.monotonic() - start < 3
        assert server.address in str(caught.value)
        assert f"{cut} bytes of its length" in str(caught.value) or cut == 0 or cut >= 4
        assert cut < 4 or f"{cut - 4} of its 27 bytes" in str(caught.value)
        with pytest.raises(errors.ConnectionFailedError, match="broken"):
            connection.call(CALL, b"", "reading X")


def test_a_reset_is_a_connection_error():
    with (
        connected(answering(lambda peer, request: peer.reset())) as connection,
        pytest.raises(errors.ConnectionFailedError, match="reset by peer while reading X"),
    ):
        connection.call(CALL, b"", "reading X")


@pytest.mark.parametrize("size", [-1, 0, -(2**31), 2**31 - 1, (1 << 30) + 1])
def test_a_length_that_cannot_be_is_refused_before_memory_is_taken(size):
    def send(peer, request):
        peer.send(struct.pack("<i", size) + b"x" * 100)

    with connected(answering(send)) as connection, pytest.raises(errors.DataLossError, match=str(size)):
        connection.call(CALL, b"", "reading X")


def test_a_length_is_only_a_claim():
    """Memory is taken as bytes arrive: a gigabyte that never comes costs a few megabytes."""
    resource = pytest.importorskip("resource")

    def script(peer: Peer) -> None:
        peer.handshake()
        peer.request()
        peer.send(struct.pack("<i", 1 << 30) + b"x" * 100)

    with ScriptedServer(script) as server, connect(server) as connection:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(errors.ConnectionFailedError, match="100 of its 1073741824 bytes"):
            connection.call(CALL, b"", "reading X")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000


@pytest.mark.parametrize(
    "body",
    [
        b"\x00",
        struct.pack("<q", 1),
        struct.pack("<qh", 1, 2) + bytes(11),  # the topology is cut
        struct.pack("<qh", 1, 1) + bytes(3),  # the status is cut
        struct.pack("<qhi", 1, 1, 1000),  # the message is missing
        struct.pack("<qhi", 1, 1, 1000) + b"\x09\xff\xff\xff\x7f",  # the message claims 2 GiB
        struct.pack("<qhi", 1, 1, 1000) + b"\x03\x00\x00\x00\x00",  # the message is no string
    ],
)
def test_a_body_shorter_than_its_header_is_data_loss(body):
    with (
        connected(answering(lambda peer, request: peer.send_frame(body))) as connection,
        pytest.raises(errors.DataLossError, match="while reading X"),
    ):
        connection.call(CALL, b"", "reading X")


def test_an_answer_to_another_request_is_data_loss():
    def send(peer, request):
        peer.send_frame(struct.pack("<qh", request.id + 1, 0))

    with (
        connected(answering(send)) as connection,
        pytest.raises(errors.DataLossError, match="not outstanding"),
    ):
        connection.call(CALL, b"", "reading X")


def test_a_notification_is_skipped():
    def send(peer, request):
        peer.send(frame(struct.pack("<qhh", 77, 4, 6)) + peer.response(request, b"real"))

    with ScriptedServer(answering(send)) as server, connect(server) as connection:
        assert connection.call(CALL, b"", "reading X") == b"real"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (1, errors.ServerError),
        (2, errors.UnsupportedError),
        (10, errors.PreconditionError),
        (100, errors.UnsupportedError),
        (1000, errors.NotFoundError),
        (1001, errors.AlreadyExistsError),
        (1002, errors.InvalidArgumentError),
        (1010, errors.ExhaustedError),
        (1011, errors.ServerError),
        (1012, errors.AuthenticationError),
        (2000, errors.AuthenticationError),
        (987654, errors.ServerError),
    ],
)
@pytest.mark.parametrize("newest", [(1, 7, 0), (1, 2, 0)])
def test_an_error_of_the_server_keeps_its_status_and_text(newest, status, error):
    def script(peer: Peer) -> None:
        peer.handshake(newest)
        peer.serve({CALL: lambda request: Failure(status, "said the сервер"), 1: lambda request: b"fine"})

    with ScriptedServer(script) as server, connect(server) as connection:
        with pytest.raises(error, match="said the сервер") as caught:
            connection.call(CALL, b"", "reading cache X")
        assert type(caught.value) is error
        assert caught.value.server_status == status
        assert "reading cache X" in str(caught.value)
        assert server.address in str(caught.value)
        assert connection.call(1, b"", "testing") == b"fine"  # the connection is still good


def test_a_message_that_is_not_text_is_still_an_error():
    def send(peer, request):
        peer.send_frame(struct.pack("<qhi", request.id, 1, 1) + b"\x09\x02\x00\x00\x00\xff\xfe")

    with connected(answering(send)) as connection, pytest.raises(errors.ServerError, match="\ufffd"):
        connection.call(CALL, b"", "reading X")


def test_a_silent_server_ends_at_the_request_timeout():
    with connected(answering(lambda *_: None), request_timeout=0.3) as connection:
        start = time.monotonic()
        with pytest.raises(errors.DeadlineExceededError, match="no response within 300 ms while reading X"):
            connection.call(CALL, b"", "reading X")
        assert 0.25 < time.monotonic() - start < 3


def test_a_dripping_server_ends_at_the_request_timeout():
    """Progress does not extend the limit for ever."""

    def send(peer, request):
        peer.send_slowly(peer.response(request, bytes(1000)), 0.05)

    with ScriptedServer(answering(send)) as server, connect(server, request_timeout=0.3) as connection:
        start = time.monotonic()
        with pytest.raises(errors.DeadlineExceededError, match="of its 1022 bytes"):
            connection.call(CALL, b"", "reading X")
        assert time.monotonic() - start < 3


def test_a_server_that_does_not_read_ends_the_write():
    def script(peer: Peer) -> None:
        peer.handshake()
        time.sleep(1.5)

    with ScriptedServer(script) as server, connect(server, request_timeout=0.3) as connection:
        start = time.monotonic()
        with pytest.raises(errors.DeadlineExceededError, match="writing X"):
            connection.call(CALL, bytes(64 << 20), "writing X")
        assert time.monotonic() - start < 3


def test_large_requests_and_responses_arrive_whole():
    def script(peer: Peer) -> None:
        peer.handshake()
        peer.serve({CALL: lambda request: request.payload})

    data = bytes(range(256)) * (40 << 12)  # 40 MiB: several steps of memory
    with ScriptedServer(script) as server, connect(server, request_timeout=30.0) as connection:
        assert connection.call(CALL, data, "echoing") == data
        assert connection.call(CALL, b"", "echoing") == b""


def test_threads_take_turns():
    def script(peer: Peer) -> None:
        peer.handshake()
        peer.serve({CALL: lambda request: request.payload})

    wrong = []

    def work(connection, name):
        for number in range(200):
            text = f"{name}-{number}".encode()
            if connection.call(CALL, text, "echoing") != text:
                wrong.append(text)

    with ScriptedServer(script) as server, connect(server) as connection:
        threads = [threading.Thread(target=work, args=(connection, name)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_close_ends_a_call_that_waits():
    caught = []

    def work(connection):
        try:
            connection.call(CALL, b"", "reading X")
        except errors.IgniteStrategyError as error:
            caught.append(error)

    with ScriptedServer(answering(lambda *_: None)) as server:
        connection = connect(server)
        thread = threading.Thread(target=work, args=(connection,))
        thread.start()
        time.sleep(0.2)
        connection.close()
        connection.close()
        thread.join(2)
        assert not thread.is_alive()
        assert [type(error) for error in caught] == [errors.CancelledError]
        with pytest.raises(errors.ConnectionFailedError, match="closed"):
            connection.call(CALL, b"", "reading X")


@pytest.mark.parametrize(
    "arguments",
    [("127.0.0.1", 0), ("127.0.0.1", 65536), ("", 1), ("a b", 1), ("x" * 300, 1), ("127.0.0.1", 1, 0.0)],
)
def test_arguments_that_cannot_be_used(arguments):
    with pytest.raises(errors.InvalidArgumentError):
        Connection(*arguments)


def test_an_operation_must_fit_its_field():
    with (
        connected(answering(lambda *_: None)) as connection,
        pytest.raises(errors.InvalidArgumentError, match="40000"),
    ):
        connection.call(40000, b"", "reading X")


def test_a_request_leaves_in_one_piece():
    """The legacy client sent a packet per integer."""
    pieces = []

    def script(peer: Peer) -> None:
        peer.handshake()
        pieces.append(peer.socket.recv(1 << 20))
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)

    with connected(script) as connection, pytest.raises(errors.ConnectionFailedError):
        connection.call(CALL, b"payload", "reading X")
    assert len(pieces[0]) == 4 + 2 + 8 + len(b"payload")
