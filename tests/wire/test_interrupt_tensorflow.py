"""Ctrl-C while TensorFlow waits in our code for a server that does not answer."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import time

import pytest

from tests.wire.scripted import Peer, ScriptedServer

pytest.importorskip("tensorflow")

# Says when the wait was over: the end of the interpreter takes its time, with TensorFlow in it.
SETUP = """
import sys
import time
import tensorflow as tf
import ignite_strategy as igs
host, port = sys.argv[1], int(sys.argv[2])
spec = {"key": tf.TensorSpec([], tf.int32), "val": tf.TensorSpec([], tf.int64)}
def dataset():
    return igs.IgniteDataset("C", host, port, element_spec=spec)
"""
EAGER = "for row in dataset():\n    print(int(row['key']), flush=True)\n"
GRAPH = (
    "with tf.Graph().as_default():\n"
    "    row = tf.compat.v1.data.make_one_shot_iterator(dataset().prefetch(1)).get_next()\n"
    "    with tf.compat.v1.Session() as session:\n"
    "        while True:\n"
    "            print(session.run(row)['key'], flush=True)\n"
)
# The first row passes; then the kernel asks for all rows of a batch before it reports an error.
BATCHES = (
    "rows = dataset().map(lambda row: row['val'])\n"
    "print(next(iter(rows.take(1))).shape.rank + 1, flush=True)\n"
    "for batch in rows.batch(100).prefetch(1):\n"
    "    print(batch)\n"
)
FILES = "print(1, flush=True)\ntf.io.gfile.exists(f'igfs://{host}:{port}/x')\n"
# A handler of the program's own, installed while a pass is on, and others before it. It raises nothing.
REPLACED = (
    "import signal\n"
    "rows = iter(dataset())\n"
    "next(rows)\n"
    "for _ in range(20):\n"
    "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "    iter(dataset())\n"
    "signal.signal(signal.SIGINT, lambda *_: print('handled', flush=True))\n"
    "print(1, flush=True)\n"
    "try:\n"
    "    next(rows)\n"
    "except tf.errors.CancelledError as error:\n"
    "    print('interrupted' in str(error), flush=True)\n"
    "    raise\n"
)


def one_page(peer: Peer) -> None:
    """Answers a scan with one row and the promise of more, then nothing."""
    peer.handshake()
    request = peer.scan_request()
    row = b"\x03" + struct.pack("<i", 1) + b"\x04" + struct.pack("<q", 2)
    peer.answer(request, struct.pack("<qi", 9, 1) + row + b"\x01")
    peer.wait_for_close()


def silent(peer: Peer) -> None:
    peer.handshake()
    peer.wait_for_close()


def interrupted(code: str, script) -> tuple[float, int, list[str], str]:
    """How long the wait went on after the signal; status, output and errors of the program."""
    body = "".join(f"    {line}\n" for line in code.splitlines())
    program = (
        f"{SETUP}\ntry:\n{body}except BaseException:\n    print(time.monotonic(), flush=True)\n    raise\n"
    )
    with ScriptedServer(script) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", program, server.host, str(server.port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "1\n", process.communicate(timeout=30)
            time.sleep(1)
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    *output, end = out.splitlines()
    return float(end) - start, process.returncode, output, err


@pytest.mark.parametrize(
    ("code", "script"),
    [(EAGER, one_page), (BATCHES, one_page), (GRAPH, one_page), (FILES, silent)],
    ids=["eager", "batches", "graph", "files"],
)
def test_ctrl_c_ends_the_program(code, script):
    for _ in range(2):  # a busy machine may hold the program up once
        seconds, status, _, err = interrupted(code, script)
        assert status == -signal.SIGINT, err
        assert err.splitlines()[-1] == "KeyboardInterrupt"
        if seconds < 2:
            return
    assert seconds < 2


def test_a_handler_of_the_program_is_called_and_the_wait_ends():
    seconds, status, output, err = interrupted(REPLACED, one_page)
    assert output == ["handled", "True"], err
    assert status == 1, err
    assert "MISMATCH" not in err
    assert seconds < 2
