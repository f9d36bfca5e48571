"""igfs:// on an endpoint that misbehaves: what a real IGFS cannot be made to do."""

from __future__ import annotations

import random
import signal
import struct
import subprocess
import sys
import time

import pytest

from ignite_strategy.errors import (
    ConnectionFailedError,
    DataLossError,
    IgniteStrategyError,
    PreconditionError,
)
from ignite_strategy.filesystem import FileSystem
from tests.igfs_raw import (
    CLOSE,
    INFO,
    LIST_FILES,
    OPEN_CREATE,
    OPEN_READ,
    READ,
    WRITE,
    Asked,
    ScriptedIgfs,
    answer,
    file_info,
    nullable,
    refusal,
)

GIB = 1 << 30


def info(asked: Asked, size: int, directory: bool = False) -> bytes:
    return answer(asked.request, 2, b"\1" + file_info(asked.path, size, {"igs.id": "1"}, directory))


def opened(asked: Asked, size: int) -> bytes:
    return answer(asked.request, 3, b"\1" + struct.pack(">qq", 7, size))


def files_of(server: ScriptedIgfs) -> FileSystem:
    return FileSystem("127.0.0.1", server.port, backend="endpoint")


def test_ipv6() -> None:
    with ScriptedIgfs(lambda asked: info(asked, 5), host="::1") as server:
        assert FileSystem("::1", server.port, backend="endpoint").stat("/f").size == 5


def test_sizes_and_offsets_have_64_bits() -> None:
    size = 9 * GIB + 5

    def script(asked: Asked) -> bytes:
        if asked.command == INFO:
            return info(asked, size)
        if asked.command == OPEN_READ:
            return opened(asked, size)
        if asked.command == READ:
            return answer(asked.request, 8, bytes(asked.length), asked.length)
        return answer(asked.request, 0, b"\1")

    with ScriptedIgfs(script) as server:
        files = files_of(server)
        assert files.stat("/f").size == size
        with files.open("/f") as source:
            assert source.seek(0, 2) == size
            source.seek(8 * GIB + 3)
            assert source.read1(100) == bytes(100)
        native = files._native.open_read("/f")
        assert native.read_at(size - 10, 100) == bytes(10)
    reads = [asked for asked in server.asked if asked.command == READ]
    assert reads[0].position == 8 * GIB + 3
    assert (reads[-1].position, reads[-1].length) == (size - 10, 10)
    assert {asked.stream for asked in reads} == {7}


@pytest.mark.parametrize("size", [0, 10, 24, 30, 40, 60])
def test_an_answer_that_ends_in_the_middle(size: int) -> None:
    with ScriptedIgfs(lambda asked: info(asked, 5)[:size], close_after=True) as server:
        start = time.monotonic()
        with pytest.raises(ConnectionFailedError, match=f"127.0.0.1:{server.port}"):
            files_of(server).stat("/f")
        assert time.monotonic() - start < 5


BAD = {
    "another request": lambda a: answer(a.request + 1, 2, b"\1" + file_info(a.path, 1)),
    "a negative request": lambda a: answer(-1, 2, b"\1" + file_info(a.path, 1)),
    "another command": lambda a: struct.pack(">qiqi", a.request, 3, 0, 0) + bytes(9),
    "another type": lambda a: answer(a.request, 0, b"\1"),
    "an unknown type": lambda a: answer(a.request, 99, b"\1"),
    "a time in the year 2263": lambda a: answer(
        a.request, 2, b"\1" + file_info(a.path, 1, mtime=9_223_372_036_855)
    ),
    "a time long ago": lambda a: answer(a.request, 2, b"\1" + file_info(a.path, 1, mtime=-(1 << 63))),
    "a negative size": lambda a: answer(a.request, 2, b"\1" + file_info(a.path, -1)),
    "too many properties": lambda a: answer(
        a.request, 2, b"\1" + nullable("/f") + struct.pack(">iqqi", 0, 0, 0, 1 << 30)
    ),
    "a long property": lambda a: answer(
        a.request, 2, b"\1" + nullable("/f") + struct.pack(">iqqii", 0, 0, 0, 1, 0x7FFFFFFF)
    ),
    "a property of another length": lambda a: answer(
        a.request, 2, b"\1" + nullable("/f") + struct.pack(">iqqii", 0, 0, 0, 1, 5) + b"\0\0"
    ),
    "a text that is not UTF-8": lambda a: answer(a.request, 2, b"\1\0" + struct.pack(">H", 2) + b"\xff\xff"),
    "a negative block": lambda a: answer(a.request, 8, b"", -5),
    "a thin client's port": lambda a: b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3,
}


@pytest.mark.parametrize("kind", BAD)
def test_nonsense_is_data_loss_and_never_not_found(kind: str) -> None:
    with ScriptedIgfs(BAD[kind]) as server:
        files = files_of(server)
        start = time.monotonic()
        with pytest.raises(DataLossError, match=f"127.0.0.1:{server.port}: not an answer of IGFS"):
            files.exists("/f")
        assert time.monotonic() - start < 3


@pytest.mark.parametrize("count", [-2, 5_000_001, 0x7FFFFFFF])
def test_a_listing_of_an_impossible_length(count: int) -> None:
    with (
        ScriptedIgfs(lambda asked: answer(asked.request, 5, struct.pack(">i", count))) as server,
        pytest.raises(DataLossError, match=str(count)),
    ):
        files_of(server).list("/")


def damage(chance: random.Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(data))
        kind = chance.randrange(4)
        if kind == 0:
            data[at] = chance.randrange(256)
        elif kind == 1:
            data[at : at + 4] = chance.choice([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0\1\0\0", bytes(4)])
        elif kind == 2:
            del data[at : at + chance.randrange(1, 9)]
        else:
            data[at:at] = data[at : at + chance.randrange(1, 9)]
        if not data:
            return b"\0"
    return bytes(data)


def test_damaged_answers_are_errors_or_values() -> None:
    """Also under the sanitizers (``make fuzz``): no crash, no hang, no memory for what was only announced."""
    chance = random.Random(7)
    content = bytes(range(256)) * 8

    def script(asked: Asked) -> bytes:
        files = [file_info(f"/f/{name}", 5, {"igs.id": "1", "é": "ü" * 100}) for name in ("a", "ж", "c")]
        whole = {
            INFO: lambda: info(asked, len(content)),
            LIST_FILES: lambda: answer(asked.request, 5, struct.pack(">i", len(files)) + b"".join(files)),
            OPEN_READ: lambda: opened(asked, len(content)),
            READ: lambda: answer(
                asked.request, 8, content[asked.position : asked.position + asked.length], asked.length
            ),
        }.get(asked.command, lambda: answer(asked.request, 0, b"\1"))()
        return damage(chance, whole) if chance.random() < 0.5 else whole

    ended = set()
    with ScriptedIgfs(script, close_after=True) as server:
        # One answer for each connection: what is cut off or announces more than there is ends at its close.
        files = files_of(server)
        for act in [lambda: files.stat("/f"), lambda: files.list("/f")] * 400:
            try:
                act()
                ended.add("value")
            except IgniteStrategyError as error:
                ended.add(type(error).__name__)
    assert {"value", "DataLossError", "ConnectionFailedError"} <= ended


def test_names_that_must_not_be_are_left_out_of_a_listing() -> None:
    """One of them would lead a copy out of its target folder."""
    paths = ["/d/ok", "/d/..", "/d/.", "/d/a/b", "/d/", "/e/x", "x", "/d/.igs-new-1", "/d/also"]

    def script(asked: Asked) -> bytes:
        if asked.command != LIST_FILES:
            return answer(asked.request, 2, b"\0")
        listed = b"".join(file_info(path, 1) for path in paths)
        return answer(asked.request, 5, struct.pack(">i", len(paths)) + listed)

    with ScriptedIgfs(script) as server:
        assert [status.name for status in files_of(server).list("/d")] == ["also", "ok"]


@pytest.mark.parametrize(
    "handshake",
    [
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        answer(0, 0, b"\1"),
        answer(0, 10, b"\0"),
        struct.pack("<i", 50) + bytes(50),
    ],
)
def test_something_else_answers(handshake: bytes) -> None:
    with (
        ScriptedIgfs(lambda asked: None, handshake) as server,
        pytest.raises(PreconditionError, match=r"is .* the endpoint of IGFS in an Ignite"),
    ):
        files_of(server).exists("/f")


@pytest.mark.parametrize("moment", ["before the next write", "at close"])
def test_a_block_that_could_not_be_written_is_an_error_of_the_writer(moment: str) -> None:
    """The original took the error for the answer to its CLOSE."""

    def script(asked: Asked) -> bytes:
        if asked.command == INFO:
            return info(asked, 0, directory=True) if asked.path == "/d" else answer(asked.request, 2, b"\0")
        if asked.command == OPEN_CREATE:
            return answer(asked.request, 1, struct.pack(">q", 3))
        if asked.command == WRITE:
            return refusal(asked.request, 0, "no space left", stream=3)
        if asked.command == CLOSE:
            return answer(asked.request, 0, b"\1")
        return answer(asked.request, 0, b"\0")

    with ScriptedIgfs(script) as server:
        out = files_of(server).open("/d/f", "wb")
        out.write(bytes(2 << 20))
        if moment == "before the next write":
            time.sleep(0.3)
            with pytest.raises(IgniteStrategyError, match=r"/d/f.*no space left"):
                out.write(bytes(2 << 20))
        with pytest.raises(IgniteStrategyError, match=r"/d/f.*no space left"):
            out.close()
        commands = [asked.command for asked in server.asked]
        assert 6 not in commands  # nothing was renamed into place
        assert 7 in commands  # what there was of it is removed


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (0, ConnectionFailedError),
        (1, ConnectionFailedError),
        (6, ConnectionFailedError),
        (7, DataLossError),
        (99, ConnectionFailedError),
    ],
)
def test_the_servers_own_trouble_is_not_a_missing_file(code: int, error: type[Exception]) -> None:
    with (
        ScriptedIgfs(lambda asked: refusal(asked.request, code, "grid is stopping")) as server,
        pytest.raises(error, match=f"127.0.0.1:{server.port}: looking at /f: grid is stopping"),
    ):
        files_of(server).exists("/f")


def test_ctrl_c_ends_a_call_to_a_silent_endpoint() -> None:
    with ScriptedIgfs(lambda asked: b"") as server:
        code = f"""
from ignite_strategy.filesystem import FileSystem
print("ready", flush=True)
try:
    FileSystem("127.0.0.1", {server.port}, backend="endpoint").stat("/x")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            time.sleep(0.5)
            start = time.monotonic()
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
            assert time.monotonic() - start < 2
        finally:
            child.kill()
            child.wait(10)
