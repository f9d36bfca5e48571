"""The wire core against real nodes."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
import uuid

import psutil
import pytest

from ignite_strategy import errors
from ignite_strategy._core import Connection, java_hash
from ignite_strategy.settings import parse_endpoint

pytestmark = pytest.mark.integration

CACHE_GET_NAMES, CACHE_GET_OR_CREATE, CACHE_GET_SIZE, NODES_ENDPOINTS = 1050, 1052, 1020, 5102
SCAN = 2000


def connect(address: str, **options) -> Connection:
    host, port = parse_endpoint(address)
    return Connection(host, port, **options)


def typed_string(text: str) -> bytes:
    data = text.encode()
    return b"\x09" + struct.pack("<i", len(data)) + data


def names(payload: bytes) -> list[str]:
    (count,) = struct.unpack_from("<i", payload)
    at, found = 4, []
    for _ in range(count):
        assert payload[at] == 9
        (size,) = struct.unpack_from("<i", payload, at + 1)
        found.append(payload[at + 5 : at + 5 + size].decode())
        at += 5 + size
    assert at == len(payload)
    return found


PROTOCOLS = {"2.7.6": "1.2.0", "2.8.1": "1.6.0"}


def test_each_release_is_spoken_to_in_its_own_version(cluster):
    protocol = PROTOCOLS.get(os.environ.get("IGNITE_STRATEGY_TEST_VERSION", ""), "1.7.0")
    with connect(cluster.addresses[0]) as connection:
        assert connection.version == protocol
        assert connection.has_node_endpoints == (protocol == "1.7.0")
        assert (connection.node_id is None) == (protocol == "1.2.0")


@pytest.mark.since("2.8")
def test_the_node_that_answers_is_named(cluster):
    found = set()
    for node in cluster.nodes:
        with connect(f"{node.host}:{node.port}") as connection:
            assert connection.node_id == str(node.node_id)
            found.add(connection.node_id)
    assert len(found) == len(cluster.nodes)


@pytest.mark.since("2.9")
def test_operation_5102_names_the_same_nodes(cluster):
    with connect(cluster.addresses[0]) as connection:
        payload = connection.call(NODES_ENDPOINTS, struct.pack("<qq", -1, -1), "listing the nodes")
    _, added = struct.unpack_from("<qi", payload)
    assert added == len(cluster.nodes)
    most, least = struct.unpack_from("<QQ", payload, 12)
    assert str(uuid.UUID(int=most << 64 | least)) in {str(node.node_id) for node in cluster.nodes}


def test_a_call_returns_the_payload(one_node, fresh_name):
    with connect(one_node) as connection:
        connection.call(CACHE_GET_OR_CREATE, typed_string(fresh_name), f"creating cache {fresh_name}")
        assert fresh_name in names(connection.call(CACHE_GET_NAMES, b"", "listing the caches"))
        payload = struct.pack("<ibi", java_hash(fresh_name), 0, 0)
        assert connection.call(CACHE_GET_SIZE, payload, "counting") == struct.pack("<q", 0)


@pytest.mark.parametrize("stem", ["Кэш_😀", "with space", "ÅÄÖ"])
def test_cache_names_beyond_ascii_are_hashed_as_the_server_does(one_node, fresh_name, stem):
    name = f"{fresh_name}_{stem}"
    with connect(one_node) as connection:
        connection.call(CACHE_GET_OR_CREATE, typed_string(name), f"creating cache {name}")
        payload = struct.pack("<ibi", java_hash(name), 0, 0)
        assert connection.call(CACHE_GET_SIZE, payload, "counting") == struct.pack("<q", 0)


def test_a_missing_cache_is_not_found(one_node):
    scan = struct.pack("<ibbiib", java_hash("NO_SUCH_CACHE"), 0, 101, 10, -1, 0)
    with connect(one_node) as connection:
        with pytest.raises(errors.NotFoundError, match="scanning cache NO_SUCH_CACHE") as caught:
            connection.call(SCAN, scan, "scanning cache NO_SUCH_CACHE")
        assert caught.value.server_status == 1000
        assert one_node in str(caught.value)
        connection.call(CACHE_GET_NAMES, b"", "listing the caches")  # the connection is still good


def test_an_unknown_operation_is_unsupported(one_node):
    with connect(one_node) as connection, pytest.raises(errors.UnsupportedError) as caught:
        connection.call(32000, b"", "asking for what Ignite does not have")
    assert caught.value.server_status == 2


def test_a_malformed_request_is_an_error_not_a_hang(one_node):
    with connect(one_node, request_timeout=10.0) as connection, pytest.raises(errors.IgniteStrategyError):
        connection.call(SCAN, b"\x01", "scanning with a request that is cut")


def test_another_port_of_the_node_is_not_a_client_port(cluster):
    """Discovery and communication listen too; a wrong port is the most common mistake."""
    process = psutil.Process(cluster.nodes[0].pid)
    connections = process.net_connections() if hasattr(process, "net_connections") else process.connections()
    ports = {c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN}
    others = ports - {node.port for node in cluster.nodes}
    assert others
    for port in others:
        start = time.monotonic()
        with pytest.raises((errors.ConnectionFailedError, errors.PreconditionError), match=f":{port}"):
            Connection(cluster.nodes[0].host, port, connect_timeout=1.0)
        assert time.monotonic() - start < 3


def test_idle_connections_are_reused(one_node):
    host, port = parse_endpoint(one_node)
    code = (
        "import psutil\n"
        "from ignite_strategy._core import Connection\n"
        "for _ in range(50):\n"
        f"    with Connection({host!r}, {port}, pooled=True) as connection:\n"
        "        connection.call(1050, b'', 'listing the caches')\n"
        "print(len(psutil.Process().net_connections()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 1
