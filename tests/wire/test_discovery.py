"""Finding out the columns of a cache from servers that break off: an error at once, and never the same server again."""

from __future__ import annotations

import itertools
import struct
import time

import pytest

import ignite_strategy as igs
from ignite_strategy import _core
from ignite_strategy.dataset.schema import discover
from ignite_strategy.errors import ConnectionFailedError
from ignite_strategy.settings import Endpoint
from tests import binary
from tests.wire.scripted import Failure, Peer, ScriptedServer

_names = itertools.count()


# As far as the query entities, of which there are none; no node with partitions.
_NULL = b"\x65"
_CONFIGURATION = bytes(17) + _NULL + bytes(2) + _NULL + bytes(16) + _NULL + bytes(63) + _NULL + bytes(12)
ANSWERS = {1055: _CONFIGURATION, 1100: struct.pack("<i", 0)}


def closing_at(operation: int):
    """Answers what comes before ``operation``, and the first half of the answer to it."""

    def script(peer: Peer) -> None:
        peer.handshake()
        while (request := peer.request()).op != operation:
            peer.answer(request, ANSWERS[request.op])
        peer.send(peer.response(request, bytes(40))[:20])
        peer.close()

    return script


class TestClosedByTheServer:
    """tensorflow/io (legacy), ``TcpClient.read_data``: it spun for ever (BR-01)."""

    @pytest.mark.parametrize("operation", [1055, 1100, 2000])
    def test_names_the_server_and_the_cache_at_once(self, operation):
        with ScriptedServer(closing_at(operation)) as server:
            start = time.monotonic()
            with pytest.raises(ConnectionFailedError, match=str(server.port)) as raised:
                igs.read("C", server.host, server.port)
            assert time.monotonic() - start < 2
            assert "columns of cache 'C'" in str(raised.value)
            assert server.connections <= 3

    def test_right_after_the_handshake(self):
        with ScriptedServer(lambda peer: peer.handshake()) as server:
            start = time.monotonic()
            with pytest.raises(ConnectionFailedError, match=rf"{server.port}.*'C'"):
                igs.read("C", server.host, server.port)
            assert time.monotonic() - start < 2

    def test_another_address_is_asked_and_each_one_once(self):
        """apache/ignite-python-thin-client #20 (IGNITE-14245): the node that had just failed was asked again."""
        with ScriptedServer(closing_at(1055)) as first, ScriptedServer(closing_at(1055)) as second:
            addresses = [first.address, second.address]
            start = time.monotonic()
            with pytest.raises(ConnectionFailedError) as raised:
                igs.read(f"C{next(_names)}", addresses=addresses)
            assert time.monotonic() - start < 2
            for server in (first, second):
                assert str(server.port) in str(raised.value)
                assert server.connections <= 2
        _core.clear_pool()


def test_partitions_are_looked_into_where_the_server_does_not_tell_how_many_there_are():
    """Ignite 2.7 names none for a cache that was made since a node joined; one row tells the type of an array."""
    count, telling = 1500, 1234
    empty = [binary.i32(1) + binary.collection()]
    asked = []

    def scan(request):
        _, _, _, _, partition, _ = struct.unpack_from("<ibbiib", request.payload)
        asked.append(partition)
        if partition >= count:
            return Failure(1, f"Invalid partition number: {partition}")
        rows = [binary.i32(2) + binary.collection(binary.text("x"))] if partition == telling else empty
        return struct.pack("<qi", 1, 1) + rows[0] + b"\x00"

    def script(peer: Peer) -> None:
        peer.handshake()
        peer.serve({**{op: lambda _, answer=answer: answer for op, answer in ANSWERS.items()}, 2000: scan})

    with ScriptedServer(script) as server:
        schema = discover("C", [Endpoint(server.host, server.port)])
    assert [(column.name, column.dtype) for column in schema.columns] == [("key", "int32"), ("val", "string")]
    assert set(asked) >= {-1, *range(count)}
