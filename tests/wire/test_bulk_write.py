"""Bulk writing against a scripted server: one failing batch of many, a connection that dies, answers out of order."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ignite_strategy as igs
from ignite_strategy import _core
from ignite_strategy.dataset.encode import native
from ignite_strategy.dataset.kinds import Kind
from ignite_strategy.errors import (
    ConnectionFailedError,
    DeadlineExceededError,
    IgniteStrategyError,
    ServerError,
    WriteError,
    WriteInterrupted,
)
from ignite_strategy.settings import Timeouts
from tests.wire.scripted import Failure, Peer, Request, ScriptedServer

PUT_ALL, PARTITIONS, CONFIGURATION, SAMPLE, PUT_TYPE = 1004, 1100, 1055, 2000, 3003
ROWS = 100
BATCH = 10


def keys_of(request: Request) -> list[int]:
    """The long keys of a batch whose values are longs too."""
    _, _, count = struct.unpack_from("<iBi", request.payload)
    assert len(request.payload) == 9 + 18 * count
    return [struct.unpack_from("<q", request.payload, 9 + 18 * i + 1)[0] for i in range(count)]


def endless(peer: Peer) -> Iterator[Request]:
    while True:
        yield peer.request()


def writer(server: ScriptedServer, **options: Any) -> _core.BulkWriter:
    options = {"connections": 1, "in_flight": 3, "batch_rows": BATCH, "request_timeout": 5.0, **options}
    return _core.BulkWriter("C", [(server.host, server.port)], **options)


def put(target: _core.BulkWriter, rows: int = ROWS, first: int = 0) -> None:
    column = native(Kind(4), np.arange(first, first + rows), "key", rows)
    target.write(column, column, rows)


def finish(server: ScriptedServer, **options: Any) -> tuple[IgniteStrategyError | None, dict[str, Any]]:
    """Writes 100 rows; the error and the report."""
    target = writer(server, **options)
    error = None
    try:
        put(target)
        target.finish()
    except IgniteStrategyError as caught:
        error = caught
        target.stop(2.0)
    report = target.report()
    target.close()
    return error, report


def total(ranges: list[tuple[int, int]]) -> int:
    return sum(last - first for first, last in ranges)


def rows_of(report: dict[str, Any], state: str) -> set[int]:
    return set(itertools.chain.from_iterable(range(first, last) for first, last in report[state]))


def test_all_batches_are_acknowledged_in_whatever_order() -> None:
    """A server answers the requests of one connection concurrently."""
    seen: list[int] = []

    def script(peer: Peer) -> None:
        peer.handshake()
        waiting: list[Request] = []
        for request in endless(peer):
            seen.extend(keys_of(request))
            waiting.append(request)
            if len(waiting) == 2:
                for each in reversed(waiting):
                    peer.answer(each, b"")
                waiting.clear()

    with ScriptedServer(script) as server:
        error, report = finish(server, in_flight=2)
    assert error is None
    assert sorted(seen) == list(range(ROWS))
    assert (report["taken"], report["acknowledged"], report["unknown"], report["unsent"]) == (
        ROWS,
        ROWS,
        [],
        [],
    )


def test_several_are_in_flight_and_never_more_than_allowed() -> None:
    most = [0]

    def script(peer: Peer) -> None:
        peer.handshake()
        waiting: list[Request] = []
        lock = threading.Lock()

        def answer_late() -> None:
            with contextlib.suppress(Exception):
                while True:
                    time.sleep(0.02)
                    with lock:
                        if waiting:
                            peer.answer(waiting.pop(0), b"")

        threading.Thread(target=answer_late, daemon=True).start()
        for request in endless(peer):
            with lock:
                waiting.append(request)
                most[0] = max(most[0], len(waiting))

    with ScriptedServer(script) as server:
        error, report = finish(server, in_flight=3)
    assert (error, report["acknowledged"], most[0]) == (None, ROWS, 3)


def test_an_error_for_one_batch_of_many() -> None:
    """The other batches in flight are still counted; those not sent stay unsent."""
    sent: list[int] = []

    def script(peer: Peer) -> None:
        peer.handshake()
        for request in endless(peer):
            keys = keys_of(request)
            sent.extend(keys)
            peer.answer(request, Failure(1, "Failed to update keys") if 30 in keys else b"")

    with ScriptedServer(script) as server:
        error, report = finish(server)
    assert isinstance(error, ServerError)
    assert "while writing to cache 'C': Failed to update keys" in str(error)
    assert report["unknown"] == [(30, 40)]
    assert report["acknowledged"] == len(sent) - BATCH
    assert rows_of(report, "unsent") == set(range(report["taken"])) - set(sent)
    assert total(report["unsent"]) + total(report["unknown"]) + report["acknowledged"] == report["taken"]


def test_a_connection_that_dies_with_batches_in_flight() -> None:
    """Two batches are answered, three are on their way: those are unknown, and nothing else is."""
    sent: list[int] = []

    def script(peer: Peer) -> None:
        peer.handshake()
        for _ in range(2):
            request = peer.request()
            sent.extend(keys_of(request))
            peer.answer(request, b"")
        for _ in range(3):
            sent.extend(keys_of(peer.request()))
        peer.reset()

    with ScriptedServer(script) as server:
        error, report = finish(server)
    assert isinstance(error, ConnectionFailedError)
    assert report["acknowledged"] == 20
    assert report["unknown"] == [(20, 50)]
    assert sent == list(range(50))
    assert report["unsent"] == [(50, report["taken"])]


def test_one_connection_of_two_dies() -> None:
    """The other one's batches count as acknowledged; it sends nothing more."""
    died = threading.Event()
    acknowledged: list[int] = []
    lost: list[int] = []

    def script(peer: Peer) -> None:
        peer.handshake()
        if peer.index == 1:
            lost.extend(keys_of(peer.request()))
            died.set()
            return
        for request in endless(peer):
            died.wait(5)
            time.sleep(0.05)
            acknowledged.extend(keys_of(request))
            peer.answer(request, b"")

    with ScriptedServer(script) as server:
        error, report = finish(server, connections=2, in_flight=1)
    assert isinstance(error, ConnectionFailedError)
    assert rows_of(report, "unknown") == set(lost)
    assert report["acknowledged"] == len(acknowledged)
    assert rows_of(report, "unsent") == set(range(report["taken"])) - set(lost) - set(acknowledged)


def test_a_server_that_never_answers_is_an_error_in_time() -> None:
    def script(peer: Peer) -> None:
        peer.handshake()
        peer.wait_for_close()

    start = time.monotonic()
    with ScriptedServer(script) as server:
        error, report = finish(server, request_timeout=0.5)
    assert isinstance(error, DeadlineExceededError)
    assert time.monotonic() - start < 5
    assert report["acknowledged"] == 0
    assert report["unknown"] == [(0, 30)]


def test_memory_is_bounded_while_the_server_is_slow() -> None:
    """A writer takes no more rows than fit into its batches."""
    answered = threading.Event()

    def script(peer: Peer) -> None:
        peer.handshake()
        for request in endless(peer):
            answered.wait(10)
            peer.answer(request, b"")

    with ScriptedServer(script) as server:
        target = writer(server, in_flight=2)
        writing = threading.Thread(target=put, args=(target, 10_000), daemon=True)
        writing.start()
        time.sleep(0.5)
        taken = target.report()["taken"]
        answered.set()
        writing.join(20)
        target.finish()
        assert target.acknowledged == 10_000
        target.close()
    # Two in flight, one in the queue, one being filled.
    assert taken <= 4 * BATCH


def test_a_further_connection_that_is_refused_is_no_failure() -> None:
    def script(peer: Peer) -> None:
        if peer.index > 0:
            return  # closes
        peer.handshake()
        for request in endless(peer):
            peer.answer(request, b"")

    with ScriptedServer(script) as server:
        error, report = finish(server, connections=3)
    assert (error, report["acknowledged"]) == (None, ROWS)


def serving(puts: Callable[[Peer, Request], None]) -> Callable[[Peer], None]:
    """An empty cache whose batches ``puts`` answers."""
    nobody, null = struct.pack("<i", 0), b"\x65"
    # As far as the query entities, of which there are none; see ParseQueryEntities.
    configuration = bytes(17) + null + bytes(2) + null + bytes(16) + null + bytes(63) + null + bytes(12)

    def script(peer: Peer) -> None:
        peer.handshake()
        for request in endless(peer):
            if request.op == PUT_ALL:
                puts(peer, request)
            elif request.op == CONFIGURATION:
                peer.answer(request, configuration)
            elif request.op == PARTITIONS:
                peer.answer(request, nobody)
            elif request.op == SAMPLE:
                peer.answer(request, struct.pack("<qi?", 1, 0, False))
            else:
                peer.answer(request, b"" if request.op == PUT_TYPE else Failure(2, "not here"))

    return script


def test_write_tells_what_became_of_the_rows() -> None:
    def puts(peer: Peer, request: Request) -> None:
        if 20 in keys_of(request):
            peer.answer(request, Failure(1, "no room"))
        else:
            peer.answer(request, b"")

    data = {"key": np.arange(ROWS), "val": np.arange(ROWS)}
    with ScriptedServer(serving(puts)) as server, pytest.raises(WriteError, match="no room") as caught:
        igs.write("C", data, server.host, server.port, batch_rows=BATCH, connections=1, in_flight=1)
    error = caught.value
    assert isinstance(error.__cause__, ServerError)
    assert (error.acknowledged, error.unknown) == (20, [(20, 30)])
    assert "20 acknowledged; 10 (20-29) sent without an acknowledgement" in str(error)
    assert error.unsent == [(30, error.taken)]


def test_ctrl_c_ends_a_write_and_tells() -> None:
    asked = threading.Event()

    def puts(peer: Peer, request: Request) -> None:
        if 20 in keys_of(request):
            asked.set()
            return
        peer.answer(request, b"")

    def interrupt() -> None:
        asked.wait(10)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    data = {"key": np.arange(100_000), "val": np.arange(100_000)}
    with ScriptedServer(serving(puts)) as server:
        threading.Thread(target=interrupt, daemon=True).start()
        start = time.monotonic()
        with pytest.raises(WriteInterrupted) as caught:
            igs.write(
                "C",
                data,
                server.host,
                server.port,
                batch_rows=BATCH,
                connections=1,
                in_flight=1,
                timeouts=Timeouts(request=30.0),
            )
    assert time.monotonic() - start < 8
    assert isinstance(caught.value, KeyboardInterrupt)
    assert (caught.value.acknowledged, caught.value.unknown) == (20, [(20, 30)])


def test_a_row_that_cannot_be_written_ends_the_write_with_its_number() -> None:
    data = {"key": np.arange(50), "val": ["x"] * 42 + [b"\xff"] + ["y"] * 7}

    def puts(peer: Peer, request: Request) -> None:
        peer.answer(request, b"")

    with ScriptedServer(serving(puts)) as server, pytest.raises(WriteError, match="row 42") as caught:
        igs.write("C", data, server.host, server.port, batch_rows=BATCH)
    assert caught.value.taken == 0
