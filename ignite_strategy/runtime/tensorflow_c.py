"""A TensorFlow server through TensorFlow's C interface (``tensorflow/c/c_api.h``).

A task needs a server, our ops and our file system, and nothing of TensorFlow's Python, whose import costs ten times as
much processor time as all of this. ``tf.distribute.Server`` is a wrapper of the same functions.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path

from ignite_strategy.errors import InvalidArgumentError, PreconditionError, from_native
from ignite_strategy.topology.assignment import TaskKey

__all__ = ["TensorFlowLibrary", "server_def"]

_LIBRARIES = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")


class TensorFlowLibrary:
    """The installed TensorFlow, loaded without its Python.

    Raises:
      PreconditionError: There is no TensorFlow, or none that has what a server needs.
    """

    def __init__(self) -> None:
        folder = _folder()
        try:
            # The framework first and by its full path: what is loaded later finds it by its name.
            *_, self._library = [ctypes.CDLL(str(folder / name)) for name in _LIBRARIES]
            self._declare()
        except (OSError, AttributeError) as error:
            raise PreconditionError(
                f"the TensorFlow in {folder} cannot run a server: {error}; install tensorflow(-cpu) 2.13 or "
                "newer from wheels"
            ) from error
        self._servers: list[
            int
        ] = []  # never deleted: a server that is deleted while it runs ends the process

    def _declare(self) -> None:
        for name, result, *arguments in (
            ("TF_Version", ctypes.c_char_p),
            ("TF_NewStatus", ctypes.c_void_p),
            ("TF_DeleteStatus", None, ctypes.c_void_p),
            ("TF_GetCode", ctypes.c_int, ctypes.c_void_p),
            ("TF_Message", ctypes.c_char_p, ctypes.c_void_p),
            ("TF_LoadLibrary", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
            ("TF_RegisterFilesystemPlugin", None, ctypes.c_char_p, ctypes.c_void_p),
            ("TF_NewServer", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p),
            ("TF_ServerStart", None, ctypes.c_void_p, ctypes.c_void_p),
            ("TF_ServerTarget", ctypes.c_char_p, ctypes.c_void_p),
        ):
            function = getattr(self._library, name)  # also finds what is in the framework library
            function.restype, function.argtypes = result, arguments

    @property
    def version(self) -> str:
        """As ``tf.__version__``."""
        return str(self._library.TF_Version().decode())

    def load_ops(self, path: Path) -> None:
        """Registers the ops of a library."""
        self._call(f"loading {path}", "TF_LoadLibrary", str(path).encode())

    def register_filesystem(self, path: Path) -> None:
        """Registers the file systems of a library."""
        self._call(
            f"registering the file systems of {path}", "TF_RegisterFilesystemPlugin", str(path).encode()
        )

    def start_server(self, definition: bytes) -> int:
        """Starts a server.

        Args:
          definition: A ``ServerDef``, from :func:`server_def`.

        Returns:
          The port where it listens.
        """
        server = self._call("making a server", "TF_NewServer", definition, len(definition))
        self._servers.append(server)
        self._call("starting a server", "TF_ServerStart", server)
        target = str(self._library.TF_ServerTarget(server).decode())
        return int(target.rpartition(":")[2])

    def _call(self, doing: str, name: str, *arguments: object) -> int:
        status = self._library.TF_NewStatus()
        try:
            result = getattr(self._library, name)(*arguments, status)
            code = self._library.TF_GetCode(status)
            if code != 0:
                message = self._library.TF_Message(status).decode("utf-8", "replace")
                raise from_native(code, f"TensorFlow {self.version}: {message} while {doing}")
            return int(result or 0)
        finally:
            self._library.TF_DeleteStatus(status)


def _folder() -> Path:
    spec = importlib.util.find_spec("tensorflow")  # does not import it
    if spec is None or not spec.submodule_search_locations:
        raise PreconditionError(
            "TensorFlow is not installed beside this agent: pip install 'ignite-strategy[estimator]' (or [tensorflow] "
            "for the newest)"
        )
    return Path(spec.submodule_search_locations[0])


def server_def(cluster: Mapping[str, Sequence[str]], task: TaskKey, collective_leader: str) -> bytes:
    """Encodes a ``ServerDef``: a few fields of fixed types, so that no protobuf library is needed.

    Args:
      cluster: Job name -> addresses.
      task: Which of them the server is.
      collective_leader: Name of the task that leads collectives. They run under the server's own configuration, so it
        must be in there and not only in the client's.
    """
    if task.type not in cluster or task.index >= len(cluster[task.type]):
        raise InvalidArgumentError(f"{task} is not in the cluster {dict(cluster)}")
    jobs = b"".join(_message(1, _job_def(job, tasks)) for job, tasks in sorted(cluster.items()))
    experimental = _message(1, collective_leader.encode())
    return b"".join(
        (
            _message(1, jobs),
            _message(2, task.type.encode()),
            (_varint(3 << 3) + _varint(task.index)) if task.index else b"",
            _message(4, _message(16, experimental)),
            _message(5, b"grpc"),
        )
    )


def _job_def(name: str, tasks: Sequence[str]) -> bytes:
    entries = b"".join(
        _message(2, _varint(1 << 3) + _varint(index) + _message(2, address.encode()))
        for index, address in enumerate(tasks)
    )
    return _message(1, name.encode()) + entries


def _message(field: int, content: bytes) -> bytes:
    """A field with a length: text, bytes or a message."""
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
