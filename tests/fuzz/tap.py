"""A tap between a client and a real node: it passes everything on and keeps what the node says."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType

HANDSHAKE = -1
_TIMEOUT = 30.0


class Tap:
    """Listens on ``port`` of 127.0.0.1 while it is entered."""

    def __init__(self, host: str, port: int) -> None:
        self._node = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._answers: list[tuple[int, bytes, bytes]] = []
        self._open: list[socket.socket] = []

    def __enter__(self) -> Tap:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        with self._lock:
            for one in (self._listener, *self._open):
                one.close()

    @property
    def answers(self) -> list[tuple[int, bytes, bytes]]:
        """Of each answer so far, in order: the operation, an int16 or ``HANDSHAKE``; the request; the message.

        The request is what follows its id, the message what follows its length.
        """
        with self._lock:
            return list(self._answers)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                node = socket.create_connection(self._node, timeout=_TIMEOUT)
                with self._lock:
                    self._open += [client, node]
                asked: dict[int, tuple[int, bytes]] = {}
                for serve in (self._forward, self._back):
                    threading.Thread(target=serve, args=(client, node, asked), daemon=True).start()

    def _forward(
        self, client: socket.socket, node: socket.socket, asked: dict[int, tuple[int, bytes]]
    ) -> None:
        with contextlib.suppress(OSError):
            node.sendall(_message(client))  # the handshake
            while True:
                message = _message(client)
                operation, request = struct.unpack_from("<hq", message, 4)
                asked[request] = (operation, message[14:])
                node.sendall(message)

    def _back(self, client: socket.socket, node: socket.socket, asked: dict[int, tuple[int, bytes]]) -> None:
        with contextlib.suppress(OSError):
            self._keep((HANDSHAKE, b""), client, _message(node))
            while True:
                message = _message(node)
                self._keep(asked[struct.unpack_from("<q", message, 4)[0]], client, message)

    def _keep(self, request: tuple[int, bytes], client: socket.socket, message: bytes) -> None:
        with self._lock:
            self._answers.append((*request, message[4:]))
        client.sendall(message)


def _message(peer: socket.socket) -> bytes:
    """The next message with its length; OSError once the peer has closed."""
    head = _exactly(peer, 4)
    return head + _exactly(peer, struct.unpack("<i", head)[0])


def _exactly(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = peer.recv(min(size - len(data), 1 << 16))
        if not piece:
            raise ConnectionResetError("closed")
        data += piece
    return bytes(data)
