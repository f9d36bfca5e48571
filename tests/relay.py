"""A way to a real node that can be broken."""

from __future__ import annotations

import contextlib
import socket
import threading

from ignite_strategy.settings import Endpoint


class Relay:
    """Passes bytes to a node and back; ``cut`` breaks all connections, ``cut_after`` does so in the middle of one.

    While ``passing`` is cleared nothing is passed on, while ``answering`` is cleared no answer is.

    Attributes:
      port: Where it listens, on 127.0.0.1.
      connections: How many there were.
      answered: How many bytes came from the node.
    """

    def __init__(self, target: Endpoint) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port = int(self._listener.getsockname()[1])
        self.connections = 0
        self.answered = 0
        self.budget: int | None = None
        self.passing = threading.Event()
        self.answering = threading.Event()
        self.passing.set()
        self.answering.set()
        self._silent_from: int | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        ends, self._open = self._open, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut_after(self, size: int) -> None:
        """Breaks all connections when clients have sent this many bytes, or nodes answered them."""
        self.budget = size

    def hold_answers_from(self, operation: int) -> None:
        """Passes this request of the thin protocol on, and no answer from then on."""
        self._silent_from = operation

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends the accept that a thread waits in
        self._listener.close()
        self.passing.set()
        self.answering.set()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                node = socket.create_connection(self._target)
                self._open += [client, node]
                for source, sink in ((client, node), (node, client)):
                    threading.Thread(
                        target=self._pump, args=[source, sink, sink is client], daemon=True
                    ).start()

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.passing.wait()
                if answers:
                    self.answering.wait()
                elif self._silent_from is not None and data[4:6] == self._silent_from.to_bytes(2, "little"):
                    self.answering.clear()
                sink.sendall(data)
                self.answered += len(data) * answers
                if self.budget is not None:
                    self.budget -= len(data)
                    if self.budget < 0:
                        self.budget = None
                        self.cut()
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
