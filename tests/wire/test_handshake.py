import http.server
import struct
import threading
import time

import pytest

from ignite_strategy import errors
from ignite_strategy._core import Connection
from tests.wire.scripted import NODE_ID, Peer, ScriptedServer, accepted, frame, refused

VERSIONS = [(1, 7, 0), (1, 6, 0), (1, 5, 0), (1, 4, 0), (1, 3, 0), (1, 2, 0), (1, 1, 0)]


def connect(server, **options):
    return Connection(server.host, server.port, **{"connect_timeout": 5.0, "request_timeout": 5.0, **options})


@pytest.mark.parametrize("newest", VERSIONS, ids=lambda version: ".".join(map(str, version)))
def test_falls_back_to_the_version_that_the_server_offers(newest):
    def script(peer: Peer) -> None:
        peer.handshake(newest)
        peer.serve({1050: lambda request: b"answer" + request.payload})

    with ScriptedServer(script) as server, connect(server) as connection:
        assert connection.version == ".".join(map(str, newest))
        assert connection.node_id == (str(NODE_ID) if newest >= (1, 4, 0) else None)
        assert connection.has_node_endpoints == (newest >= (1, 7, 0))
        assert connection.call(1050, b"!", "testing") == b"answer!"
        assert connection.call(1050, b"?", "testing") == b"answer?"  # no topology any more
        assert server.connections == (1 if newest == (1, 7, 0) else 2)


def test_asks_only_for_the_features_that_it_implements():
    with ScriptedServer(Peer.handshake) as server, connect(server):
        assert server.peers[0].asked_features == bytes([0b1000_1000, 0b0000_0001])


def test_tries_older_versions_when_the_offer_is_unknown():
    """A server that knows only 1.2.0 but offers versions from the future."""
    asked = []

    def script(peer: Peer) -> None:
        version = peer.read_handshake()
        asked.append(version)
        peer.version = version
        peer.send_frame(accepted(version) if version == (1, 2, 0) else refused((3, 5, 0)))

    with ScriptedServer(script) as server, connect(server) as connection:
        assert connection.version == "1.2.0"
    assert asked == VERSIONS[:6]


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (refused((1, 0, 0)), errors.PreconditionError, "1.0.0"),
        (refused((1, 7, 0), "Node in recovery", 11), errors.PreconditionError, "recovery"),
        (refused((1, 7, 0), "no more connections"), errors.PreconditionError, "no more connections"),
        (
            refused((0, 0, 0), "Unauthenticated sessions", 2000),
            errors.AuthenticationError,
            "give username= and password=",
        ),
        (b"\x01", errors.PreconditionError, "not an Ignite client port"),
        (b"\x01\x0c\xff\xff\xff\x7f", errors.PreconditionError, "not an Ignite client port"),
        (b"\x00\x01", errors.PreconditionError, "not an Ignite client port"),
        (b"\x07garbage", errors.PreconditionError, "not an Ignite client port"),
        (b"\x00" + struct.pack("<hhh", 1, 7, 0) + b"\x09\x01\0\0\0", errors.PreconditionError, "not an"),
    ],
)
def test_a_refusal_says_why(answer, error, text):
    def script(peer: Peer) -> None:
        peer.read_handshake()
        peer.send_frame(answer)

    with ScriptedServer(script) as server, pytest.raises(error, match=text) as caught:
        connect(server)
    assert server.address in str(caught.value)


def test_a_server_that_always_refuses_does_not_loop():
    def script(peer: Peer) -> None:
        version = peer.read_handshake()
        peer.send_frame(refused((1, 6, 0) if version == (1, 7, 0) else (1, 7, 0)))

    with ScriptedServer(script) as server:
        with pytest.raises(errors.PreconditionError):
            connect(server)
        assert server.connections <= len(VERSIONS)


@pytest.mark.parametrize("cut", range(len(frame(accepted()))))
def test_a_close_at_any_byte_is_an_error_at_once(cut):
    """tensorflow/io (legacy), ``TcpClient.read_data``: a close inside a message made it spin for ever."""

    def script(peer: Peer) -> None:
        peer.read_handshake()
        peer.send(frame(accepted())[:cut])

    with ScriptedServer(script) as server:
        start = time.monotonic()
        with pytest.raises(errors.ConnectionFailedError, match="handshake") as caught:
            connect(server)
        assert time.monotonic() - start < 3
        assert server.address in str(caught.value)
        assert not isinstance(caught.value, errors.DeadlineExceededError)


def test_an_answer_that_arrives_byte_by_byte_is_understood():
    def script(peer: Peer) -> None:
        peer.version = peer.read_handshake()
        peer.send_slowly(frame(accepted()))
        request = peer.request()
        peer.send_slowly(peer.response(request, b"slow"))
        peer.wait_for_close()

    with ScriptedServer(script) as server, connect(server) as connection:
        assert connection.call(1, b"", "testing") == b"slow"


@pytest.mark.parametrize(
    ("first", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP server"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH server"),
        (bytes.fromhex("15030100020228"), "TLS"),
        (b"220 mail ESMTP\r\n", "220 "),
        (b"\xff\xff\xff\xff", "ff ff ff ff"),
        (b"\x00\x00\x00\x00", "00 00 00 00"),
        (b"\xff\xff\xff\x7f", "ff ff ff 7f"),
    ],
)
def test_another_kind_of_server_is_named(first, text):
    def script(peer: Peer) -> None:
        peer.send(first)
        peer.wait_for_close()

    with ScriptedServer(script) as server:
        start = time.monotonic()
        with pytest.raises(errors.PreconditionError, match=text):
            connect(server)
        assert time.monotonic() - start < 3


def test_a_real_http_server_is_an_error_within_the_limit():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        start = time.monotonic()
        with pytest.raises(errors.DeadlineExceededError, match="port of another service"):
            Connection("127.0.0.1", server.server_address[1], connect_timeout=0.5)
        assert 0.4 < time.monotonic() - start < 3
    finally:
        server.shutdown()
        server.server_close()


def test_a_silent_server_ends_at_the_connect_timeout():
    with ScriptedServer(Peer.wait_for_close) as server:
        start = time.monotonic()
        with pytest.raises(errors.DeadlineExceededError, match="handshake"):
            connect(server, connect_timeout=0.3)
        assert 0.25 < time.monotonic() - start < 3
