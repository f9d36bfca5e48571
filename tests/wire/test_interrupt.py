import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.wire.scripted import Peer, ScriptedServer

SETUP = """
import sys, threading, time
from ignite_strategy._core import Connection
host, port = sys.argv[1], int(sys.argv[2])
"""
CONNECT = SETUP + "print('ready', flush=True)\nConnection(host, port, 60.0, 60.0)\n"
CALL = SETUP + (
    "connection = Connection(host, port, 60.0, 60.0)\n"
    "print('ready', flush=True)\n"
    "connection.call(1050, b'', 'reading X')\n"
)
WRITE = SETUP + (
    "connection = Connection(host, port, 60.0, 60.0)\n"
    "print('ready', flush=True)\n"
    "connection.call(1050, bytes(64 << 20), 'writing X')\n"
)
# While one thread has the connection, the main thread waits for its turn.
TURN = SETUP + (
    "connection = Connection(host, port, 60.0, 60.0)\n"
    "threading.Thread(target=connection.call, args=(1050, b'', 'reading X'), daemon=True).start()\n"
    "time.sleep(0.2)\n"
    "print('ready', flush=True)\n"
    "connection.call(1050, b'', 'reading X')\n"
)
# A handler of the user's own that raises nothing does not end the wait.
HANDLED = SETUP + (
    "import signal\n"
    "signal.signal(signal.SIGINT, lambda *_: print('handled', flush=True))\n"
    "connection = Connection(host, port, 60.0, 1.0)\n"
    "print('ready', flush=True)\n"
    "connection.call(1050, b'', 'reading X')\n"
)


def silent(peer: Peer) -> None:
    peer.handshake()
    peer.wait_for_close()


def run(code, script) -> tuple[float, int, str, str]:
    stop = threading.Event()

    def deaf(peer: Peer) -> None:
        peer.handshake()
        stop.wait(20)

    with ScriptedServer(script or deaf) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", code, server.host, str(server.port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.4)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        stop.set()
        return time.monotonic() - start, process.returncode, out, err


@pytest.mark.parametrize(
    ("code", "script"),
    [(CONNECT, Peer.wait_for_close), (CALL, silent), (WRITE, None), (TURN, silent)],
    ids=["connect", "call", "write", "turn"],
)
def test_ctrl_c_ends_a_wait_for_a_silent_server(code, script):
    seconds, status, _, err = run(code, script)
    assert seconds < 2
    assert "KeyboardInterrupt" in err
    assert status == -signal.SIGINT


def test_a_handler_that_raises_nothing_does_not_end_the_wait():
    seconds, _, out, err = run(HANDLED, silent)
    assert out == "handled\n"
    assert "DeadlineExceededError" in err
    assert 0.3 < seconds < 3
