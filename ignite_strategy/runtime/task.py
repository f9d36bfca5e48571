"""One task: a process with one TensorFlow server, started and watched by the agent of its Ignite node.

It talks to the agent in JSON lines over its standard input and output; what the program itself or TensorFlow writes
there goes to the log file. It ends on SIGTERM within two seconds, and at once when its agent has ended.

It says ``reserved`` (with its port), ``loaded``, ``serving`` and then ``report`` every second; it is told ``serve``.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import queue
import signal
import sys
import threading
from typing import Any, TextIO

from ignite_strategy.errors import ClusterError
from ignite_strategy.runtime.ports import HeldPort
from ignite_strategy.runtime.processes import die_with_parent
from ignite_strategy.runtime.readers import summarize
from ignite_strategy.runtime.records import parse_task_name
from ignite_strategy.runtime.tensorflow_c import TensorFlowLibrary, server_def
from ignite_strategy.topology.assignment import TaskKey

__all__ = ["Channel", "main"]

_REPORT_SECONDS = 1.0
_log = logging.getLogger(__name__)


class Channel:
    """The pipes to the agent, taken away from everything else in this process."""

    def __init__(self) -> None:
        self._out: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
        self._in: TextIO = os.fdopen(os.dup(0), "r", encoding="utf-8")
        os.dup2(2, 1)  # from here on standard output is the log, whoever writes there
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        self.commands: queue.Queue[dict[str, Any]] = queue.Queue()
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, name="agent", daemon=True).start()

    def say(self, event: str, **content: Any) -> None:
        """Tells the agent something; ends the process if there is no agent any more."""
        line = json.dumps({"event": event, **content})
        try:
            with self._lock:
                self._out.write(line + "\n")
                self._out.flush()
        except OSError:
            os._exit(1)

    def _listen(self) -> None:
        for line in self._in:
            self.commands.put(json.loads(line))
        # The agent has ended. Its lease goes, its tasks go: nothing is worth a clean-up here.
        os._exit(1)


def main(arguments: list[str] | None = None) -> None:
    """Runs one task until it is stopped."""
    parser = argparse.ArgumentParser(description="One TensorFlow task; started by `ignite-strategy agent`.")
    parser.add_argument("--job", required=True)
    parser.add_argument("--task", required=True, type=parse_task_name)
    parser.add_argument("--agent", required=True, type=int, help="pid of the agent")
    parser.add_argument("--port", type=int, default=0, help="where to listen; 0: anywhere")
    options = parser.parse_args(arguments)
    die_with_parent(options.agent)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    channel = Channel()
    try:
        _run(channel, options.task, options.port)
    except BaseException as error:
        _log.exception("task %s of job %s failed", options.task, options.job)
        channel.say("failed", error=f"{type(error).__name__}: {error}")
        os._exit(1)


def _run(channel: Channel, task: TaskKey, wanted: int) -> None:
    port = HeldPort(wanted)
    channel.say("reserved", port=port.port)
    # Until TensorFlow is loaded SIGTERM keeps its default action: nothing here could react faster than the kernel.
    tensorflow = _load()
    channel.say("loaded", tensorflow=tensorflow.version)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    while not stop.is_set():
        try:
            command = channel.commands.get(timeout=0.2)
        except queue.Empty:
            continue
        if command.get("command") == "serve":
            _serve(tensorflow, command["cluster"], task, port)
            _log.info("%s serves on port %d", task, port.port)
            channel.say("serving")
            break
    # Nothing that waits in TensorFlow, such as Server.join(), which would keep Python from serving the signal.
    while not stop.wait(_REPORT_SECONDS):
        channel.say("report", readers=_readers())
    channel.say("report", readers=_readers())
    # The server cannot be stopped, only left: its threads would outlive an ordinary exit.
    _log.info("stopped")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _load() -> TensorFlowLibrary:
    """TensorFlow, then everything that graphs of the client may use here."""
    from ignite_strategy import library

    tensorflow = TensorFlowLibrary()
    library.load(tensorflow.load_ops, tensorflow.version)
    tensorflow.register_filesystem(library.path())
    return tensorflow


def _serve(
    tensorflow: TensorFlowLibrary, cluster: dict[str, list[str]], task: TaskKey, port: HeldPort
) -> None:
    leader = "chief" if cluster.get("chief") else "worker"
    bound = tensorflow.start_server(server_def(cluster, task, f"/job:{leader}/replica:0/task:0"))
    if bound != port.port:
        raise ClusterError(f"the server listens on port {bound} instead of {port.port}")
    port.release()


def _readers() -> list[dict[str, Any]]:
    from ignite_strategy import library

    return summarize(library.reader_report())


if __name__ == "__main__":
    main()
