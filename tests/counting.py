"""A way to a real node that counts the requests which go along it."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import Counter, defaultdict
from collections.abc import Callable

from ignite_strategy.settings import parse_endpoint


class CountingProxy:
    """Forwards connections to one node.

    Attributes:
      host: Where it listens.
      port: Likewise.
      requests: Operation -> how many requests, without handshakes.
      bodies: Operation -> how they began, from the first byte behind the request's number.
    """

    def __init__(self, address: str) -> None:
        self._target = parse_endpoint(address)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()
        self.requests: Counter[int] = Counter()
        self.bodies: dict[int, list[bytes]] = defaultdict(list)
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def __enter__(self) -> CountingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(5)

    def _start(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                node = socket.create_connection(tuple(self._target), 10)
                node.settimeout(None)
                self._sockets += [client, node]
                self._start(self._requests, client, node)
                self._start(self._answers, node, client)

    def _requests(self, client: socket.socket, node: socket.socket) -> None:
        frames = 0
        with contextlib.suppress(OSError), client.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                body = stream.read(struct.unpack("<i", head)[0])
                if frames > 0:
                    operation = struct.unpack_from("<h", body)[0]
                    self.requests[operation] += 1
                    self.bodies[operation].append(body[10:42])
                frames += 1
                node.sendall(head + body)
            node.shutdown(socket.SHUT_WR)

    def _answers(self, node: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := node.recv(1 << 16):
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)
