"""What becomes of a file whose writer does not learn the end of its publishing, or was inherited by a child process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Iterator

import pytest

from ignite_strategy.errors import NotFoundError
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.local import LocalCluster
from ignite_strategy.settings import Endpoint
from tests.relay import Relay

pytestmark = pytest.mark.integration

END_OF_TRANSACTION = 4001


@pytest.fixture
def relay(cluster: LocalCluster) -> Iterator[Relay]:
    relay = Relay(Endpoint(cluster.nodes[0].host, cluster.nodes[0].port))
    yield relay
    relay.close()


@pytest.fixture
def name() -> str:
    return f"u{uuid.uuid4().hex[:8]}"


@pytest.fixture
def files(cluster: LocalCluster, name: str) -> FileSystem:
    return FileSystem(cluster.nodes[0].host, cluster.nodes[0].port, name=name)


@pytest.mark.parametrize("step", ["close", "flush"])
@pytest.mark.parametrize("before", [None, b"old" * 200_000])
def test_ctrl_c_while_a_commit_is_awaited(
    files: FileSystem, name: str, relay: Relay, step: str, before: bytes | None
) -> None:
    """It has arrived: the new content is there, whole."""
    if before is not None:
        files.write("/f", before)
    content = os.urandom(1_500_000)
    through = FileSystem("127.0.0.1", relay.port, name=name)
    out = through.open("/f", "wb")
    out.write(content)
    relay.hold_answers_from(END_OF_TRANSACTION)
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    threading.Timer(2.0, relay.answering.set).start()
    with pytest.raises(KeyboardInterrupt):
        getattr(out, step)()
    relay.answering.wait(5)
    if step == "flush":
        with pytest.raises(Exception, match="interrupted"):
            out.close()
    assert files.read("/f") == content
    assert files.check(offline=True).sound
    files.write("/f", b"next")
    assert files.read("/f") == b"next"


def test_a_writer_that_was_given_up_leaves_nothing(files: FileSystem) -> None:
    def fail() -> None:
        with files.open("/f", "wb") as out:
            out.write(os.urandom(3_000_000))
            raise KeyError("f")

    with pytest.raises(KeyError):
        fail()
    with pytest.raises(NotFoundError):
        files.read("/f")
    report = files.check(offline=True)
    assert (report.sound, report.usage.stored_blocks) == (True, 0)


CHILD = """
    import os, sys
    from ignite_strategy.errors import PreconditionError
    from ignite_strategy.filesystem import FileSystem

    files = FileSystem(sys.argv[1], int(sys.argv[2]), name=sys.argv[3], **dict(x.split("=") for x in sys.argv[4:]))
    out = files.open("/f", "wb")
    out.write(b"a" * 5_000_000)
    pid = os.fork()
    if pid == 0:
        code = 0
        for step in (lambda: out.write(b"b"), out.flush, out.close):
            try:
                step()
                code = 1
            except PreconditionError as error:
                code = code or int("parent process" not in str(error))
        del out
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    out.write(b"c" * 1_000_000)
    out.close()
    assert files.read("/f") == b"a" * 5_000_000 + b"c" * 1_000_000
    print("whole")
"""


def in_a_child(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


def test_a_child_cannot_write_to_what_its_parent_has_open(
    files: FileSystem, name: str, cluster: LocalCluster
) -> None:
    in_a_child(cluster.nodes[0].host, str(cluster.nodes[0].port), name)
    assert files.check(offline=True).sound


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("out.write(b'x' * 3_000_000)", 0),
        ("out.write(b'x' * 3_000_000); out.itself = out", 0),
        ("out.write(b'x' * 3_000_000); raise SystemExit(3)", 3),
        (
            "threading.Thread(target=lambda: [out.write(b'x' * 300_000) for _ in range(10**6)], daemon=True).start()",
            0,
        ),
    ],
)
def test_a_program_ends_although_a_file_is_open(
    files: FileSystem, cluster: LocalCluster, name: str, program: str, code: int
) -> None:
    """Its finalizer must not wait for the interpreter, which is waiting for it."""
    node = cluster.nodes[0]
    begin = f"""
        import threading, time
        from ignite_strategy.filesystem import FileSystem
        out = FileSystem({node.host!r}, {node.port}, name={name!r}).open("/open", "wb")
        """
    text = textwrap.dedent(begin) + program + "\n"
    done = subprocess.run([sys.executable, "-c", text], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, "")
    assert not files.exists("/open")
