"""The protocol of IGFS's endpoint, written down a second time: another client of a real node, and a scripted server."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any

HANDSHAKE, INFO, RENAME, DELETE, MKDIRS, LIST_FILES, OPEN_READ, OPEN_APPEND, OPEN_CREATE, CLOSE, READ, WRITE = (
    0, 3, 6, 7, 8, 10, 13, 14, 15, 16, 17, 18,
)  # fmt: skip
RESPONSE = 19


def _utf(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def nullable(text: str | None) -> bytes:
    return b"\1" if text is None else b"\0" + _utf(text)


def file_info(
    path: str,
    size: int,
    properties: Mapping[str, str] | None = None,
    directory: bool = False,
    mtime: int = 1_700_000_000_000,
) -> bytes:
    """As in a listing; ``mtime`` in milliseconds."""
    pairs = properties or {}
    packed = b"".join(struct.pack(">i", len(text)) + _utf(text) for pair in pairs.items() for text in pair)
    head = nullable(path) + struct.pack(">iqqi", 1 << 19, 0, size, len(pairs))
    return head + packed + struct.pack(">qqB", 0, mtime, 1 if directory else 2)


def answer(request: int, kind: int, payload: bytes = b"", length: int = 0) -> bytes:
    return struct.pack(">qiqi", request, RESPONSE, 0, 0) + struct.pack(">iBi", kind, 0, length) + payload


def refusal(request: int, code: int, text: str, stream: int | None = None) -> bytes:
    kind = -1 if stream is None else 9
    tail = b"" if stream is None else struct.pack(">q", stream)
    head = struct.pack(">qiqi", request, RESPONSE, 0, 0) + struct.pack(">iBi", kind, 1, 0)
    return head + _utf(text) + struct.pack(">i", code) + tail


class _End:
    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected

    def take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def unpack(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def text(self) -> str:
        return self.take(self.unpack(">H")[0]).decode()


class RawIgfs(_End):
    """Does what another program could do to the files of a node."""

    def __init__(self, address: str, name: str = "default_fs") -> None:
        host, port = address.rsplit(":", 1)
        super().__init__(socket.create_connection((host, int(port)), 10))
        self._next = 0
        self._ask(HANDSHAKE, nullable(name) + nullable(None))
        self.take(24 + 9 + 1)
        assert self.take(1) == b"\0"
        self.text()
        self.take(9)

    def close(self) -> None:
        self.socket.close()

    def mkdirs(self, path: str) -> None:
        self._path(MKDIRS, path)
        assert self._answer() == 0
        assert self.take(1) == b"\1"

    def move(self, source: str, target: str) -> None:
        self._path(RENAME, source, target)
        assert self._answer() == 0
        assert self.take(1) == b"\1"

    def delete(self, path: str) -> bool:
        self._path(DELETE, path)
        assert self._answer() == 0
        return self.take(1) == b"\1"

    def create(self, path: str) -> int:
        self._path(OPEN_CREATE, path, flag=True, tail=struct.pack(">iq", 0, 0))
        assert self._answer() == 1
        return int(self.unpack(">q")[0])

    def append(self, path: str) -> int:
        self._path(OPEN_APPEND, path)
        assert self._answer() == 1
        return int(self.unpack(">q")[0])

    def write_block(self, stream: int, data: bytes) -> None:
        self._ask(WRITE, data, stream, len(data))

    def close_stream(self, stream: int) -> None:
        self._ask(CLOSE, b"", stream)
        assert self._answer() == 0
        assert self.take(1) == b"\1"

    def put(self, path: str, data: bytes) -> None:
        stream = self.create(path)
        self.write_block(stream, data)
        self.close_stream(stream)

    def names(self, path: str) -> list[str]:
        """Everything, also what this package hides."""
        self._path(LIST_FILES, path)
        assert self._answer() == 5
        found = []
        for _ in range(self.unpack(">i")[0]):
            self.take(1)
            found.append(self.text().rpartition("/")[2])
            self.take(20)
            for _ in range(2 * max(0, self.unpack(">i")[0])):
                self.take(4)
                self.text()
            self.take(17)
        return sorted(found)

    def _path(self, command: int, path: str, to: str = "", flag: bool = False, tail: bytes = b"") -> None:
        paths = b"\1" + nullable(path) + (b"\1" + nullable(to) if to else b"\0")
        self._ask(command, nullable(None) + paths + bytes([flag, 0]) + struct.pack(">i", -1) + tail)

    def _ask(self, command: int, payload: bytes, stream: int = 0, length: int = 0) -> None:
        self.socket.sendall(struct.pack(">qiqi", self._next, command, stream, length) + payload)
        self._next += 1

    def _answer(self) -> int:
        self.take(24)
        kind, failed, _ = self.unpack(">iBi")
        assert not failed, self.text()
        return int(kind)


class Asked:
    """A request as the scripted server read it."""

    def __init__(
        self, request: int, command: int, stream: int, length: int, path: str, position: int
    ) -> None:
        self.request, self.command, self.stream, self.length = request, command, stream, length
        self.path, self.position = path, position


class ScriptedIgfs:
    """Plays IGFS: ``script(asked)`` returns the bytes of the answer, or None to close the connection.

    An answer of ``b""`` is silence. With ``close_after`` every answer is the last one on its connection.
    """

    def __init__(
        self,
        script: Callable[[Asked], bytes | None],
        handshake: bytes | None = None,
        close_after: bool = False,
        host: str = "127.0.0.1",
    ) -> None:
        self._script = script
        self._close_after = close_after
        good = answer(0, 10, b"\1" + nullable("default_fs") + struct.pack(">qB", 0, 0))
        self._handshake = good if handshake is None else handshake
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.port = int(self._listener.getsockname()[1])
        self.asked: list[Asked] = []
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> ScriptedIgfs:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.append(client)
                threading.Thread(target=self._serve, args=[_End(client)], daemon=True).start()

    def _serve(self, end: _End) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                asked = self._read(end)
                reply = self._handshake if asked.command == HANDSHAKE else self._script(asked)
                if asked.command != HANDSHAKE:
                    self.asked.append(asked)
                if reply is None:
                    break
                end.socket.sendall(reply)
                if self._close_after and asked.command != HANDSHAKE:
                    break
        end.socket.close()

    @staticmethod
    def _read(end: _End) -> Asked:
        request, command, stream, length = end.unpack(">qiqi")
        path, position = "", 0
        if command == HANDSHAKE:
            for _ in range(2):
                if end.take(1) == b"\0":
                    end.text()
        elif command in (CLOSE, WRITE):
            end.take(length if command == WRITE else 0)
        elif command == READ:
            (position,) = end.unpack(">q")
        else:
            end.take(2)
            end.take(1)
            path = end.text()
            if end.take(1) == b"\1":
                end.take(1)
                end.text()
            end.take(2)
            for _ in range(2 * max(0, end.unpack(">i")[0])):
                end.take(4)
                end.text()
            end.take(12 if command == OPEN_CREATE else 0)
        return Asked(request, command, stream, length, path, position)
