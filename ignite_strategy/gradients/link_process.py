"""The process between a client and its tasks; started by :class:`ignite_strategy.gradients.link.Link`.

It passes bytes on through a :class:`~ignite_strategy.estimator.relay.Relay`, tries every task each second, and cuts the
relay when one is lost: the client's calls, which TensorFlow would let wait for ever, then get an answer.

It is a process of its own because TensorFlow holds Python's lock while it connects eagerly to tasks, or gives them a
function: no thread of the client could pass on a byte of that, or notice that a task is gone.

It is told one JSON line, ``{"targets": [[type, index, host, port], ...], "patience": seconds}``, and then lines with
``{"command": "cut"}``. It says ``{"ports": [...]}``, and ``{"lost": [type, index], "reason": "..."}`` once. It ends
when its standard input does, that is with the client.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from ignite_strategy.estimator.relay import Relay
from ignite_strategy.settings import Endpoint

__all__ = ["Prober", "main"]

Task = tuple[str, int]

_ROUND_SECONDS = 1.0
_REFUSED_SECONDS = 0.5  # a task that refuses a connection now and so long after is gone
# HTTP/2: the client's preface and an empty SETTINGS frame. A gRPC server that lives answers with its own at once,
# however much it computes; a process that is stopped only accepts the connection.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"


class Prober:
    """Finds out which task does not answer any more.

    Args:
      targets: Where they listen.
      patience: Seconds without an answer until a task that does not refuse connections counts as lost.
    """

    def __init__(self, targets: Mapping[Task, Endpoint], patience: float) -> None:
        self._targets = dict(targets)
        self._patience = patience
        now = time.monotonic()
        self._answered = dict.fromkeys(targets, now)
        self._refused: dict[Task, float] = {}

    def round(self, seconds: float = _ROUND_SECONDS) -> tuple[Task, str] | None:
        """Tries every task once; takes about ``seconds``.

        Returns:
          A task that is lost, and why, if there is one.
        """
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            for task in self._targets:
                self._begin(selector, task)
            while selector.get_map() and (left := until - time.monotonic()) > 0:
                for key, events in selector.select(left):
                    self._go_on(selector, key, events)
            for key in list(selector.get_map().values()):
                self._end(selector, key.fileobj)
        time.sleep(max(0.0, until - time.monotonic()))
        return self._lost(time.monotonic())

    def _begin(self, selector: selectors.BaseSelector, task: Task) -> None:
        endpoint = self._targets[task]
        try:
            found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)[0]
            probe = socket.socket(found[0], socket.SOCK_STREAM)
        except OSError:
            return  # out of descriptors, or a name server is away: says nothing of the task
        probe.setblocking(False)
        probe.connect_ex(found[4])
        selector.register(probe, selectors.EVENT_WRITE, task)

    def _go_on(self, selector: selectors.BaseSelector, key: selectors.SelectorKey, events: int) -> None:
        probe, task = key.fileobj, key.data
        assert isinstance(probe, socket.socket)
        try:
            if events & selectors.EVENT_WRITE:
                error = probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    raise OSError(error, os.strerror(error))
                probe.send(_HELLO)
                selector.modify(probe, selectors.EVENT_READ, task)
                return
            if probe.recv(64):
                self._answered[task] = time.monotonic()
                self._refused.pop(task, None)
        except ConnectionRefusedError:
            self._refused.setdefault(task, time.monotonic())
        except OSError:
            pass  # unreachable, for now: patience decides
        self._end(selector, probe)

    @staticmethod
    def _end(selector: selectors.BaseSelector, probe: Any) -> None:
        selector.unregister(probe)
        probe.close()

    def _lost(self, now: float) -> tuple[Task, str] | None:
        for task, endpoint in self._targets.items():
            refused = self._refused.get(task)
            if refused is not None and now - refused >= _REFUSED_SECONDS:
                return task, f"{endpoint} refuses connections: its process has ended"
            silent = now - self._answered[task]
            if silent >= self._patience:
                return task, f"{endpoint} has not answered for {silent:.0f} s: it hangs, or its host is away"
        return None


def main() -> None:
    """Runs until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the client's
    order = json.loads(sys.stdin.readline())
    targets = {(kind, index): Endpoint(host, port) for kind, index, host, port in order["targets"]}
    relay = Relay(targets)
    _say(ports=[relay.endpoint(task).port for task in targets])
    threading.Thread(target=_watch, args=(relay, Prober(targets, order["patience"])), daemon=True).start()
    for line in sys.stdin:
        if json.loads(line)["command"] == "cut":
            relay.cut()
            _say(cut=True)
    os._exit(0)


def _watch(relay: Relay, prober: Prober) -> None:
    while (lost := prober.round()) is None:
        pass
    task, reason = lost
    relay.cut()
    _say(lost=list(task), reason=reason)


def _say(**content: object) -> None:
    try:
        os.write(1, (json.dumps(content) + "\n").encode())
    except OSError:
        os._exit(0)


if __name__ == "__main__":
    main()
