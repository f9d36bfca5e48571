"""Whatever a server sends, a client gets an answer or an error of ours: no crash, no hang, no memory for a claim."""

from __future__ import annotations

import os
import resource
import struct
import time

import pytest

from ignite_strategy import errors
from ignite_strategy._core import Connection
from tests.fuzz.mutations import mutations
from tests.wire.scripted import Failure, Peer, ScriptedServer, accepted, frame, refused, response

ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "500"))

HANDSHAKES = {
    "1.7": frame(accepted()),
    "1.4": frame(accepted((1, 4, 0))),
    "refused": frame(refused((1, 2, 0))),
}
RESPONSES = {
    "first": frame(response((1, 7, 0), 1, b"payload", (5, 0))),
    "plain": frame(response((1, 7, 0), 1, b"payload")),
    "error": frame(response((1, 7, 0), 1, Failure(1000, "no cache"), (5, 0))),
    "two": frame(struct.pack("<qhh", 9, 4, 6)) + frame(response((1, 7, 0), 1, b"payload")),
}


class Damaged:
    """Serves one damaged conversation after the other."""

    def __init__(self, before: bytes) -> None:
        self.before = before
        self.data = b""

    def script(self, peer: Peer) -> None:
        peer.read_frame()
        if self.before:
            peer.send(self.before)
            peer.read_frame()
        peer.send(self.data)


def outcomes(damaged: Damaged, original: bytes, limit: float) -> dict[str, int]:
    """How often each kind of outcome came; fails on a slow one."""
    counts: dict[str, int] = {}
    with ScriptedServer(damaged.script) as server:
        for case in mutations(original, ROUNDS, seed=len(original)):
            damaged.data = case
            start = time.monotonic()
            try:
                with Connection(server.host, server.port, 20.0, 20.0) as connection:
                    connection.call(1050, b"", "fuzzing")
                outcome = "answer"
            except errors.IgniteStrategyError as error:
                outcome = type(error).__name__ if str(server.port) in str(error) else f"no port in: {error}"
            assert time.monotonic() - start < limit, case.hex()
            counts[outcome] = counts.get(outcome, 0) + 1
    assert not [outcome for outcome in counts if outcome.startswith("no port")], counts
    return counts


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("kind", HANDSHAKES)
def test_damaged_handshakes(kind):
    before = memory()
    counts = outcomes(Damaged(b""), HANDSHAKES[kind], limit=10)
    assert {"ConnectionFailedError", "PreconditionError"} <= set(counts), counts
    assert "DeadlineExceededError" not in counts, "the server closed: nothing is left to wait for"
    assert memory() - before < 400_000


@pytest.mark.parametrize("kind", RESPONSES)
def test_damaged_responses(kind):
    before = memory()
    counts = outcomes(Damaged(HANDSHAKES["1.7"]), RESPONSES[kind], limit=10)
    assert {"ConnectionFailedError", "DataLossError"} <= set(counts), counts
    assert "answer" in counts or kind == "error", counts
    assert "DeadlineExceededError" not in counts, "the server closed: nothing is left to wait for"
    assert memory() - before < 400_000
