# ruff: noqa: SIM117 (the server belongs to one block, what is asked of it to another)
"""TLS against a scripted server: every fault has its own error, and every wait an end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ignite_strategy import errors
from ignite_strategy._core import Connection
from ignite_strategy.settings import security_of
from tests.certificates import Authority, Pair
from tests.wire.scripted import ClientGone, Peer, ScriptedServer


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"), "Other CA")


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.pair("server")


def context_of(pair: Pair, **limits: object) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certfile, pair.keyfile)
    for name, value in limits.items():
        setattr(context, name, value)
    return context


def encrypted(context: ssl.SSLContext, script: Callable[[Peer], None]) -> Callable[[Peer], None]:
    def run(peer: Peer) -> None:
        try:
            peer.socket = context.wrap_socket(peer.socket, server_side=True)
        except (OSError, ValueError):  # the client did not like the certificate, or spoke no TLS
            raise ClientGone from None
        script(peer)

    return run


def serving(peer: Peer) -> None:
    peer.handshake()
    peer.serve({1050: lambda request: b"answer" + request.payload})


def connect(server: ScriptedServer, host: str | None = None, **arguments: object) -> Connection:
    limits = {"connect_timeout": arguments.pop("connect_timeout", 5.0), "request_timeout": 5.0}
    security = security_of(**arguments)
    native = security.native() if security else b""
    return Connection(host or server.host, server.port, security=native, **limits)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_speaks_to_a_server_with_a_good_certificate(authority, pair, version, host):
    context = context_of(pair, maximum_version=version)
    with ScriptedServer(encrypted(context, serving)) as server:
        with connect(server, host, cafile=authority.cafile) as connection:
            for size in (0, 1, 16_383, 16_384, 16_385, 1_000_000):  # below, at and above a record
                data = os.urandom(size)
                assert connection.call(1050, data, "testing") == b"answer" + data


def test_the_name_is_told_to_the_server(authority, pair):
    """SNI; never for an address."""
    told = []
    context = context_of(pair)
    context.sni_callback = lambda _socket, name, _context: told.append(name)
    with ScriptedServer(encrypted(context, serving)) as server:
        for host in ("localhost", "127.0.0.1"):
            connect(server, host, cafile=authority.cafile).close()
    assert told == ["localhost", None]


def test_ipv6(authority, pair):
    with ScriptedServer(encrypted(context_of(pair), serving), "::1") as server:
        with connect(server, cafile=authority.cafile) as connection:
            assert connection.call(1050, b"!", "testing") == b"answer!"
            assert connection.endpoint == server.address == f"[::1]:{server.port}"


@pytest.mark.parametrize(
    ("make", "trusted", "text"),
    [
        (lambda a, o: a.pair("expired", days=(-9, -1)), "authority", "has expired on"),
        (lambda a, o: a.pair("future", days=(2, 9)), "authority", "is not valid before"),
        (lambda a, o: a.pair("elsewhere", ["ignite-0.example", "10.1.2.3"]), "authority", "wrong host"),
        (lambda a, o: a.pair("nameless", []), "authority", "wrong host"),
        (lambda a, o: o.pair("stranger"), "authority", "unknown CA"),
        (lambda a, o: a.pair("good"), "other", "unknown CA"),
        (lambda a, o: a.pair("good2"), "system", "unknown CA"),
    ],
)
def test_a_certificate_that_is_refused_says_why(authority, other, make, trusted, text):
    """mymarilyn/clickhouse-driver #378: a chain that is checked without the name is not enough."""
    made = make(authority, other)
    files = {
        "authority": {"cafile": authority.cafile},
        "other": {"cafile": other.cafile},
        "system": {"tls": True},
    }
    with ScriptedServer(encrypted(context_of(made), serving)) as server:
        started = time.monotonic()
        with pytest.raises(errors.AuthenticationError, match=text) as caught:
            connect(server, **files[trusted])
        assert time.monotonic() - started < 3
        assert server.address in str(caught.value)
        if text == "wrong host" and "elsewhere" in made.certfile:
            assert "127.0.0.1" in str(caught.value)
            assert "ignite-0.example, 10.1.2.3" in str(caught.value)
            connect(server, check_hostname=False, **files[trusted]).close()
        connect(server, verify=False, tls=True).close()


def test_without_the_name_the_chain_is_still_checked(authority, other):
    with ScriptedServer(encrypted(context_of(other.pair("x", ["a.example"])), serving)) as server:
        with pytest.raises(errors.AuthenticationError, match="unknown CA"):
            connect(server, cafile=authority.cafile, check_hostname=False)


def test_the_systems_store_may_be_named_by_openssls_variable(authority, pair, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", authority.cafile)
    with ScriptedServer(encrypted(context_of(pair), serving)) as server:
        arguments = "127.0.0.1", str(server.port)
        code = (
            "import sys; from ignite_strategy import _core, settings\n"
            "security = settings.security_of(tls=True).native()\n"
            "_core.Connection(sys.argv[1], int(sys.argv[2]), security=security).close(); print('ok')"
        )
        run = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
        )
    assert run.stdout == "ok\n", run.stderr


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_certificates(authority, other, pair, version):
    """apache/ignite #7480: also with an encrypted key."""
    context = context_of(pair, maximum_version=version, verify_mode=ssl.CERT_REQUIRED)
    context.load_verify_locations(authority.cafile)
    mine, locked = authority.pair("client"), authority.pair("locked", password="pa ss ☂")
    stranger = other.pair("stranger-client")
    with ScriptedServer(encrypted(context, serving)) as server:

        def with_files(one: Pair, **more: str) -> Connection:
            return connect(
                server, cafile=authority.cafile, certfile=one.certfile, keyfile=one.keyfile, **more
            )

        with_files(mine).close()
        with_files(locked, cert_password="pa ss ☂").close()
        joined = Path(mine.certfile).with_name("joined.pem")
        joined.write_text(Path(mine.certfile).read_text() + Path(mine.keyfile).read_text())
        connect(server, cafile=authority.cafile, certfile=str(joined)).close()
        with pytest.raises(errors.ConnectionFailedError, match="client certificate"):
            connect(server, cafile=authority.cafile)
        with pytest.raises(errors.ConnectionFailedError, match="client certificate"):
            with_files(stranger)
        with pytest.raises(errors.InvalidArgumentError, match=r"locked\.key.*wrong cert_password"):
            with_files(locked, cert_password="wrong")
        with pytest.raises(errors.InvalidArgumentError, match=r"locked\.key.*encrypted.*cert_password"):
            with_files(locked)
        with pytest.raises(errors.InvalidArgumentError, match="is not the one of the certificate"):
            connect(server, cafile=authority.cafile, certfile=mine.certfile, keyfile=stranger.keyfile)


def test_files_that_cannot_be_used_are_named(tmp_path, authority, pair):
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing here\n")
    cases = [
        ({"cafile": str(tmp_path / "absent.pem")}, r"cafile .*absent\.pem cannot be read: No such file"),
        ({"cafile": str(empty)}, r"cafile .*empty\.pem has no certificate in PEM format"),
        ({"certfile": str(tmp_path / "absent.pem")}, r"certfile .*absent\.pem cannot be read"),
        ({"certfile": str(empty)}, r"certfile .*empty\.pem has no usable certificate"),
        ({"certfile": pair.certfile, "keyfile": str(empty)}, r"keyfile .*empty\.pem has no private key"),
        ({"certfile": pair.certfile}, r"server\.pem has no private key"),
    ]
    with ScriptedServer(encrypted(context_of(pair), serving)) as server:
        for arguments, text in cases:
            with pytest.raises(errors.InvalidArgumentError, match=text):
                connect(server, **arguments)


def test_a_renewed_file_is_read_again(tmp_path, authority, other):
    cafile = tmp_path / "ca.pem"
    cafile.write_bytes(Path(other.cafile).read_bytes())
    with ScriptedServer(encrypted(context_of(authority.pair("renewed")), serving)) as server:
        with pytest.raises(errors.AuthenticationError, match="unknown CA"):
            connect(server, cafile=str(cafile))
        cafile.write_bytes(Path(authority.cafile).read_bytes() + b"\n")
        connect(server, cafile=str(cafile)).close()


def test_tls_to_a_server_without(authority):
    """A real node reads the first bytes as a message of another protocol and closes."""

    def plain_node(peer: Peer) -> None:
        peer.read(7)

    with ScriptedServer(plain_node) as server:
        with pytest.raises(errors.ConnectionFailedError, match="leave TLS off") as caught:
            connect(server, cafile=authority.cafile)
    assert "sslEnabled" in str(caught.value)
    with ScriptedServer(lambda peer: peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        with pytest.raises(errors.PreconditionError, match="does not speak TLS"):
            connect(server, cafile=authority.cafile)


def test_plain_text_to_a_server_with_tls(pair):
    """Never a hang, never a retry in another form: the error says how to switch TLS on."""
    with ScriptedServer(encrypted(context_of(pair), serving)) as server:
        with pytest.raises(errors.IgniteStrategyError, match="tls=True or cafile="):
            connect(server)


def test_old_versions_of_tls_are_refused(authority, pair):
    # A server that answers the first message with TLS 1.1's version.
    def old(peer: Peer) -> None:
        peer.read(5)
        body = b"\x02\x00\x00\x46\x03\x02" + bytes(32) + b"\x20" + bytes(32) + b"\xc0\x13\x00"
        peer.send(b"\x16\x03\x02" + struct.pack(">H", len(body)) + body)
        peer.wait_for_close()

    with ScriptedServer(old) as server, pytest.raises(errors.PreconditionError, match=r"older than 1\.2"):
        connect(server, cafile=authority.cafile)


@pytest.mark.parametrize("after", [0, 40])
def test_a_handshake_that_stalls_ends_at_the_deadline(authority, after):
    def stall(peer: Peer) -> None:
        peer.read(after or 1)
        peer.wait_for_close()

    with ScriptedServer(stall) as server:
        started = time.monotonic()
        with pytest.raises(errors.DeadlineExceededError, match="TLS handshake"):
            connect(server, cafile=authority.cafile, connect_timeout=0.6)
        assert 0.5 < time.monotonic() - started < 2


def test_a_response_that_stalls_ends_at_the_deadline(authority, pair):
    def stall(peer: Peer) -> None:
        peer.handshake()
        request = peer.request()
        peer.send(peer.response(request, b"x" * 100_000)[:50_000])
        peer.wait_for_close()

    with ScriptedServer(encrypted(context_of(pair), stall)) as server:
        security = security_of(cafile=authority.cafile)
        connection = Connection(server.host, server.port, 5.0, 0.6, security=security.native())
        started = time.monotonic()
        with pytest.raises(errors.DeadlineExceededError, match="bytes had arrived"):
            connection.call(1050, b"", "testing")
        assert time.monotonic() - started < 2
        connection.close()


def test_a_request_that_nobody_reads_ends_at_the_deadline(authority, pair):
    """The socket's buffer is full and the peer takes nothing more."""

    def deaf(peer: Peer) -> None:
        peer.handshake()
        time.sleep(3)

    with ScriptedServer(encrypted(context_of(pair), deaf)) as server:
        security = security_of(cafile=authority.cafile)
        connection = Connection(server.host, server.port, 5.0, 0.7, security=security.native())
        started = time.monotonic()
        with pytest.raises(errors.DeadlineExceededError):
            connection.call(1050, bytes(64 << 20), "testing")
        assert time.monotonic() - started < 3
        connection.close()


def test_ctrl_c_ends_a_handshake_at_once(authority):
    with ScriptedServer(Peer.wait_for_close) as server:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            connect(server, cafile=authority.cafile, connect_timeout=20.0)
        assert time.monotonic() - started < 1.5
        timer.join()


def test_a_server_that_goes_away_is_an_error_and_no_signal(authority, pair):
    def brief(peer: Peer) -> None:
        peer.handshake()
        peer.request()

    with ScriptedServer(encrypted(context_of(pair), brief)) as server:
        connection = connect(server, cafile=authority.cafile)
        with pytest.raises(errors.ConnectionFailedError, match="closed"):
            connection.call(1050, b"", "testing")
        for _ in range(3):  # writing to it is no SIGPIPE
            with pytest.raises(errors.ConnectionFailedError):
                connection.call(1050, bytes(1 << 20), "testing")


def test_damaged_records_are_an_error(authority, pair):
    """Somebody between who changes a byte."""
    with (
        ScriptedServer(encrypted(context_of(pair), serving)) as server,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):

        def pump(source: socket.socket, target: socket.socket, spare: int) -> None:
            seen = 0
            with contextlib.suppress(OSError):
                while data := bytearray(source.recv(65536)):
                    if seen + len(data) > spare:
                        data[-1] ^= 1
                    seen += len(data)
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)

        def between() -> None:
            client, _ = listener.accept()
            node = socket.create_connection((server.host, server.port))
            threading.Thread(target=pump, args=(client, node, 1 << 30), daemon=True).start()
            pump(node, client, 8000)

        thread = threading.Thread(target=between, daemon=True)
        thread.start()
        security = security_of(cafile=authority.cafile)
        connection = Connection("127.0.0.1", listener.getsockname()[1], 5.0, 5.0, security=security.native())
        with pytest.raises(errors.ConnectionFailedError, match="TLS failed"):
            connection.call(1050, bytes(20_000), "testing")
        thread.join(5)


def test_pooled_connections_with_other_settings_are_kept_apart(authority, pair):
    with ScriptedServer(encrypted(context_of(pair), serving)) as server:
        checked = security_of(cafile=authority.cafile).native()
        unchecked = security_of(tls=True, verify=False).native()
        for _ in range(2):
            for security in (checked, unchecked):
                connection = Connection(server.host, server.port, 5.0, 5.0, True, security=security)
                assert connection.call(1050, b"!", "testing") == b"answer!"
                connection.close()
        assert server.connections == 2
        with pytest.raises(errors.IgniteStrategyError):
            Connection(server.host, server.port, 2.0, 2.0, True)  # plain text takes none of them


def test_a_child_process_does_not_use_its_parents_session(authority, pair):
    with ScriptedServer(encrypted(context_of(pair), serving)) as server:
        connection = connect(server, cafile=authority.cafile)
        assert connection.call(1050, b"1", "testing") == b"answer1"
        child = os.fork()
        if child == 0:
            try:
                connection.call(1050, b"2", "testing")
            except errors.ConnectionFailedError as error:
                os._exit(0 if "parent process" in str(error) else 2)
            except BaseException:
                os._exit(3)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert connection.call(1050, b"3", "testing") == b"answer3"
        connection.close()


def test_user_and_password_are_in_the_handshake_and_nowhere_else():
    seen = []

    def script(peer: Peer) -> None:
        seen.append(peer.read_frame())
        from tests.wire.scripted import refused

        peer.send_frame(refused((0, 0, 0), "The user name or password is incorrect [userName=böb]", 2000))

    with ScriptedServer(script) as server:
        with pytest.raises(errors.AuthenticationError, match="check the user name") as caught:
            connect(server, username="böb", password="s3cret ☂")
        assert server.connections == 1  # no second try
    assert seen[0].endswith(b"\x09\x04\x00\x00\x00b\xc3\xb6b\x09\x0a\x00\x00\x00s3cret \xe2\x98\x82")
    assert "böb" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
