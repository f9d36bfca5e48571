"""Scans against a scripted server: what a real node cannot be made to do when a test wants it."""

from __future__ import annotations

import json
import random
import struct
import threading
import time

import numpy as np
import pytest

from ignite_strategy import _core
from ignite_strategy.errors import (
    ConnectionFailedError,
    DataLossError,
    DeadlineExceededError,
    IgniteStrategyError,
    InvalidArgumentError,
    ServerError,
)
from tests import binary
from tests.wire.scripted import CLOSE, NEXT_PAGE, SCAN, Cursors, Failure, ScriptedServer

TYPE_GET = 3002
KEY = [(["key"], 3, -1, 0)]
BOTH = [(["key"], 3, -1, 0), (["val"], 9, -1, 0)]


def row(key: int, value: str = "v") -> bytes:
    return binary.i32(key) + binary.text(value)


def rows(first: int, last: int) -> list[bytes]:
    return [row(key) for key in range(first, last)]


def config(server: ScriptedServer, columns=KEY, **options) -> bytes:
    options = {"page_size": 10, "connect_timeout": 2.0, "request_timeout": 5.0, "env": False, **options}
    return _core.scan_config("C", [(server.host, server.port)], columns, **options)


def serving(handlers):
    def script(peer):
        peer.handshake()
        peer.serve(handlers)

    return script


def drain(scan: _core.Scan) -> list[int]:
    keys: list[int] = []
    while (batch := scan.next()) is not None:
        keys += batch[0].tolist()
    return keys


class TestPages:
    def test_every_row_once_in_order_of_the_pages(self):
        cursors = Cursors({-1: [rows(0, 10), rows(10, 20), rows(20, 23)]})
        with ScriptedServer(cursors.script) as server:
            assert drain(_core.Scan(config(server))) == list(range(23))
        assert cursors.scans == [(_core.java_hash("C"), 10, -1)]
        assert cursors.page_requests == 2

    def test_never_two_requests_outstanding_on_a_cursor(self):
        """A real server answers two concurrently, out of order, and loses rows without an error."""
        cursors = Cursors({-1: [rows(10 * n, 10 * n + 10) for n in range(30)]}, think=0.01)
        with ScriptedServer(cursors.script) as server:  # fails on closing if there ever were two
            assert len(drain(_core.Scan(config(server)))) == 300

    def test_the_next_page_is_asked_for_before_this_one_is_used(self):
        cursors = Cursors({-1: [rows(0, 10), rows(10, 20), rows(20, 30)]}, think=0)
        with ScriptedServer(cursors.script) as server:
            scan = _core.Scan(config(server))
            assert scan.next() is not None
            deadline = time.monotonic() + 2
            while cursors.page_requests == 0 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert cursors.page_requests >= 1
            drain(scan)

    def test_an_empty_page_with_more_to_come_is_not_the_end(self):
        cursors = Cursors({-1: [[], rows(0, 3), [], [], rows(3, 5), []]})
        with ScriptedServer(cursors.script) as server:
            assert drain(_core.Scan(config(server))) == [0, 1, 2, 3, 4]

    def test_batches_go_over_pages_and_partitions(self):
        cursors = Cursors({0: [rows(0, 7), rows(7, 9)], 1: [[]], 2: [rows(9, 15)]})
        with ScriptedServer(cursors.script) as server:
            scan = _core.Scan(config(server, partitions=[0, 1, 2], batch_size=4))
            sizes = []
            while (batch := scan.next()) is not None:
                sizes.append(len(batch[0]))
        assert sizes == [4, 4, 4, 3]

    def test_a_remainder_is_dropped_if_wanted(self):
        cursors = Cursors({-1: [rows(0, 7)]})
        with ScriptedServer(cursors.script) as server:
            scan = _core.Scan(config(server, batch_size=4, drop_remainder=True))
            assert drain(scan) == [0, 1, 2, 3]

    def test_arrays_of_changing_length_end_a_batch(self):
        lengths = [2, 2, 3, 3, 3, 0, 2]
        page = [binary.i32(key) + binary.ints(*range(length)) for key, length in enumerate(lengths)]
        with ScriptedServer(Cursors({-1: [page]}).script) as server:
            scan = _core.Scan(config(server, [(["val"], 14, -1, 0)]))
            shapes = []
            while (batch := scan.next()) is not None:
                shapes.append(batch[0].shape)
        assert shapes == [(2, 2), (3, 3), (1, 0), (1, 2)]

    def test_strings_stay_good_after_their_page_is_gone(self):
        cursors = Cursors({-1: [[row(n, f"value {n}" * 9)] for n in range(40)]}, think=0)
        with ScriptedServer(cursors.script) as server:
            batch = _core.Scan(config(server, BOTH, batch_size=40)).next()
        assert batch[1] == [(f"value {n}" * 9).encode() for n in range(40)]


class TestPartitions:
    def test_one_query_each_in_order(self):
        cursors = Cursors({4: [rows(40, 42)], 1: [rows(10, 11), rows(11, 13)], 7: [[]]})
        with ScriptedServer(cursors.script) as server:
            assert drain(_core.Scan(config(server, partitions=[4, 1, 7]))) == [40, 41, 10, 11, 12]
        assert [partition for _, _, partition in cursors.scans] == [4, 1, 7]

    def test_page_size_follows_the_bytes_per_row(self):
        big = [binary.i32(n) + binary.text("x" * 100_000) for n in range(4)]
        cursors = Cursors({0: [big], 1: [big]})
        with ScriptedServer(cursors.script) as server:
            drain(_core.Scan(config(server, page_size=0, partitions=[0, 1], bytes_per_row=10.0)))
        sizes = [size for _, size, _ in cursors.scans]
        assert sizes[0] == 16384  # a guess from the sample
        assert sizes[1] == 20  # 2 MiB of what came

    def test_rows_of_unknown_size_are_measured_first(self):
        big = [binary.i32(n) + binary.text("x" * 500_000) for n in range(4)]
        cursors = Cursors({-1: [big]})
        with ScriptedServer(cursors.script) as server:
            assert drain(_core.Scan(config(server, page_size=0))) == [0, 1, 2, 3]
        assert [size for _, size, _ in cursors.scans] == [16, 4]

    def test_a_partition_out_of_range_is_the_servers_error(self):
        answer = {SCAN: lambda request: Failure(1, "Invalid partition number: 9")}
        with (
            ScriptedServer(serving(answer)) as server,
            pytest.raises(ServerError, match=r"cache 'C', partition 9.*Invalid partition number: 9"),
        ):
            drain(_core.Scan(config(server, partitions=[9])))


class TestBrokenConnections:
    def test_error_names_cache_partition_and_rows_and_stays(self):
        cursors = Cursors({5: [rows(0, 10), rows(10, 20), rows(20, 30)]}, close_after=2)
        with ScriptedServer(cursors.script) as server:
            scan = _core.Scan(config(server, partitions=[5]))
            for _ in range(2):
                assert scan.next() is not None
            pattern = (
                rf"{server.port}.*cache 'C', partition 5.*20 rows of partition 5 and 20 rows of this pass"
            )
            for _ in range(3):
                with pytest.raises(ConnectionFailedError, match=pattern):
                    scan.next()
            assert server.connections == 1  # rows were handed out: no second attempt

    def test_closing_in_the_middle_of_a_page_is_noticed_at_once(self):
        """tensorflow/io's reader spun for ever when the peer closed inside a message (BR-01)."""

        def script(peer):
            peer.handshake()
            peer.scan_request()
            peer.socket.sendall(struct.pack("<iq", 1000, 1) + b"\x00" * 20)
            peer.close()

        with ScriptedServer(script) as server:
            start = time.monotonic()
            with pytest.raises(ConnectionFailedError, match=rf"{server.port}.*scanning cache 'C'"):
                drain(_core.Scan(config(server)))
            assert time.monotonic() - start < 2

    def test_a_partition_starts_again_if_none_of_its_rows_was_handed_out(self):
        cursors = Cursors({0: [rows(0, 3)], 1: [rows(3, 6)]})
        seen = threading.Event()

        def script(peer):
            if peer.index == 0:  # answers the first partition, then dies with the second query
                peer.handshake()
                request = peer.scan_request()
                peer.answer(request, cursors._answer(request))
                peer.request()
                seen.set()
                return
            cursors.script(peer)

        with ScriptedServer(script) as server:
            assert drain(_core.Scan(config(server, partitions=[0, 1]))) == [0, 1, 2, 3, 4, 5]
            assert seen.is_set()
            assert server.connections == 2

    def test_the_number_of_attempts_is_bounded(self):
        def script(peer):
            peer.handshake()
            peer.scan_request()

        with ScriptedServer(script) as server:
            with pytest.raises(ConnectionFailedError):
                drain(_core.Scan(config(server)))
            assert server.connections == 2

    def test_the_next_address_is_tried(self):
        cursors = Cursors({-1: [rows(0, 3)]})
        with ScriptedServer(cursors.script) as server:
            dead = _core.scan_config(
                "C", [("127.0.0.1", 1), (server.host, server.port)], KEY, env=False, page_size=10
            )
            assert drain(_core.Scan(dead)) == [0, 1, 2]

    def test_a_silent_server_ends_with_a_deadline(self):
        def script(peer):
            peer.handshake()
            peer.scan_request()
            threading.Event().wait(3)

        with ScriptedServer(script) as server:
            scan = _core.Scan(config(server, request_timeout=0.5))
            start = time.monotonic()
            with pytest.raises(DeadlineExceededError, match=r"500 ms.*cache 'C'"):
                scan.next()
            assert time.monotonic() - start < 2


class TestErrorsOfTheServer:
    def test_an_error_on_a_later_page(self):
        class Failing(Cursors):
            def _answer(self, request):
                return (
                    Failure(1, "Index 20 out of bounds")
                    if request.op == NEXT_PAGE
                    else super()._answer(request)
                )

        cursors = Failing({-1: [rows(0, 10), rows(10, 20)]})
        with ScriptedServer(cursors.script) as server:
            scan = _core.Scan(config(server))
            assert len(scan.next()[0]) == 10
            with pytest.raises(ServerError, match=r"Index 20 out of bounds.*10 rows of this pass"):
                scan.next()

    def test_partitions_that_the_server_has_lost(self):
        text = "Failed to execute query because cache partition has been lostParts [cacheName=C, part=1]"
        with (
            ScriptedServer(serving({SCAN: lambda _: Failure(1, text)})) as server,
            pytest.raises(DataLossError, match=r"lostParts.*reset_lost_partitions C"),
        ):
            drain(_core.Scan(config(server, partitions=[1])))

    def test_the_cursor_of_a_failed_pass_is_closed(self):
        page = [row(0), binary.i32(1) + binary.NULL]
        cursors = Cursors({-1: [page, rows(2, 4), rows(4, 6)]}, think=0)
        with ScriptedServer(cursors.script) as server:
            scan = _core.Scan(config(server, BOTH))
            with pytest.raises(
                InvalidArgumentError, match=r"cache 'C', row with key 1, in val: field val is NULL"
            ):
                drain(scan)
            _await(lambda: not cursors.open_cursors)


class TestDropping:
    def test_cursor_closed_and_connection_reused(self):
        """tensorflow/tensorflow #19499: stopping early kept the socket; here it also kept the server's cursor."""
        cursors = Cursors({-1: [rows(10 * n, 10 * n + 10) for n in range(50)]}, think=0.001)
        with ScriptedServer(cursors.script) as server:
            for _ in range(20):
                scan = _core.Scan(config(server))
                assert scan.next() is not None
                scan.close()
                _await(lambda: not cursors.open_cursors)
            assert server.connections <= 2

    def test_dropping_does_not_wait_for_a_silent_server(self):
        def script(peer):
            peer.handshake()
            peer.scan_request()
            threading.Event().wait(3)

        with ScriptedServer(script) as server:
            scan = _core.Scan(config(server))
            start = time.monotonic()
            scan.close()
            assert time.monotonic() - start < 0.2

    def test_a_closed_scan_says_so(self):
        with ScriptedServer(Cursors({-1: [rows(0, 3)]}).script) as server:
            scan = _core.Scan(config(server))
            drain(scan)
            scan.close()
            with pytest.raises(IgniteStrategyError, match="closed"):
                scan.next()


class TestTypes:
    TYPE = "T"

    def test_metadata_is_asked_for_once_and_again_for_a_new_schema(self):
        old, new = {"a": binary.i32(1)}, {"b": binary.i32(5), "a": binary.i32(2)}
        objects = [binary.wrapped(binary.binary_object(self.TYPE, fields)) for fields in (old, new)]
        asked = []

        def type_get(request):
            asked.append(request)
            schemas = [list(old)] if len(asked) == 1 else [list(old), list(new)]
            return binary.metadata(self.TYPE, {"a": 3, "b": 3}, schemas)

        pages = [
            [binary.i32(n) + objects[0] for n in range(5)],
            [binary.i32(n) + objects[1] for n in range(5)],
        ] * 3
        cursors = Cursors({-1: pages}, handlers={TYPE_GET: type_get})
        with ScriptedServer(cursors.script) as server:
            scan = _core.Scan(config(server, [(["val", "a"], 3, -1, 0)]))
            assert drain(scan) == ([1] * 5 + [2] * 5) * 3
        assert len(asked) == 2

    def test_an_error_about_a_type_ends_the_pass(self):
        value = binary.wrapped(binary.binary_object(self.TYPE, {"a": binary.i32(1)}))
        cursors = Cursors(
            {-1: [[binary.i32(1) + value]]}, handlers={TYPE_GET: lambda request: Failure(1, "no")}
        )
        with ScriptedServer(cursors.script) as server:
            scan = _core.Scan(config(server, [(["val", "a"], 3, -1, 0)]))
            with pytest.raises(ServerError, match="fields of type"):
                scan.next()


class TestHostileAnswers:
    @pytest.mark.parametrize(
        "payload",
        [
            b"",
            struct.pack("<q", 1),
            struct.pack("<qi", 1, 5),
            struct.pack("<qi", 1, -1) + b"\x00",
            struct.pack("<qi", 1, 2**31 - 1) + b"\x00",
            struct.pack("<qi", 1, 1) + row(1)[:-1],
            struct.pack("<qi", 1, 1) + row(1) + b"more" + b"\x00",
            struct.pack("<qi", 1, 2) + row(1) + b"\x00\x00",
        ],
        ids=range(8),
    )
    def test_pages_that_contradict_themselves(self, payload):
        with (
            ScriptedServer(serving({SCAN: lambda _: payload, CLOSE: lambda _: b""})) as server,
            pytest.raises(DataLossError, match="cache 'C'"),
        ):
            drain(_core.Scan(config(server, BOTH)))

    def test_mutated_pages_never_crash(self):
        value = binary.binary_object(
            "T", {"a": binary.i32(1), "s": binary.text("abc"), "f": binary.floats(1, 2)}
        )
        page = b"".join(binary.i32(n) + binary.wrapped(value) for n in range(5))
        good = struct.pack("<qi", 1, 5) + page + b"\x00"
        about = binary.metadata("T", {"a": 3, "s": 9, "f": 16}, [["a", "s", "f"]])
        choice = random.Random(7)

        def scan(_):
            data = bytearray(good)
            for _ in range(choice.randint(1, 4)):
                data[choice.randrange(len(data))] = choice.randrange(256)
            return bytes(data)

        def type_get(_):
            data = bytearray(about)
            if choice.random() < 0.5:
                data[choice.randrange(len(data))] = choice.randrange(256)
            return bytes(data)

        columns = [(["val", "a"], 3, -1, 0), (["val", "f"], 16, -1, 2), (["val", "s"], 9, -1, 0)]
        handlers = {SCAN: scan, TYPE_GET: type_get, CLOSE: lambda _: b"", NEXT_PAGE: lambda _: Failure(1011)}
        outcomes = set()
        with ScriptedServer(serving(handlers)) as server:
            for _ in range(300):
                scan_ = _core.Scan(config(server, columns))
                try:
                    while scan_.next() is not None:
                        pass
                    outcomes.add("read")
                except IgniteStrategyError:
                    outcomes.add("error")
        assert outcomes == {"read", "error"}


class TestReport:
    def test_rows_and_bytes_per_partition_with_the_node_of_the_handshake(self):
        cursors = Cursors({0: [rows(0, 7), rows(7, 9)], 1: [rows(9, 15)]})
        with ScriptedServer(cursors.script) as server:
            drain(_core.Scan(config(server, partitions=[0, 1], batch_size=4)))
            mine = [
                entry
                for entry in json.loads(_core.reader_report())
                if str(server.port) in str(entry["endpoint"])
            ]
        assert [(entry["partition"], entry["rows"], entry["state"]) for entry in mine] == [
            (0, 9, "done"),
            (1, 6, "done"),
        ]
        assert {entry["node_id"] for entry in mine} == {"00112233-4455-6677-8899-aabbccddeeff"}
        assert all(entry["bytes"] > 6 * len(row(0)) for entry in mine)

    def test_stays_small_however_many_passes_there_are(self):
        cursors = Cursors({0: [rows(0, 2)]}, think=0)
        before = len(json.loads(_core.reader_report()))
        with ScriptedServer(cursors.script) as server:
            for _ in range(100):
                drain(_core.Scan(config(server, partitions=[0])))
            report = json.loads(_core.reader_report())
            mine = [entry for entry in report if str(server.port) in str(entry["endpoint"])]
        assert len(report) < before + 80
        assert sum(entry["rows"] for entry in mine) == 200


def test_configurations_of_another_version_are_refused():
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        _core.Scan(b"rubbish")
    with ScriptedServer(Cursors({}).script) as server:
        good = config(server)
    for cut in range(0, len(good), 7):
        with pytest.raises(InvalidArgumentError):
            _core.Scan(good[:cut])


def test_ints_survive_as_numpy():
    with ScriptedServer(Cursors({-1: [rows(0, 3)]}).script) as server:
        (column,) = _core.Scan(config(server)).next()
    assert column.dtype == np.int32
    assert column.flags.owndata is False


def _await(condition, seconds: float = 3.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.01)
