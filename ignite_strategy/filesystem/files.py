"""Files in an Ignite cluster for programs without TensorFlow."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, cast

from ignite_strategy import _core, settings
from ignite_strategy.errors import InvalidArgumentError, NotFoundError, PreconditionError, UnsupportedError
from ignite_strategy.filesystem.space import NodeSpace, node_ids, node_spaces

__all__ = ["FileStatus", "FileSystem", "Finding", "Report", "Usage"]

# Small reads; whole blocks are kept and asked for ahead by the native reader.
_READ_BUFFER = 1 << 17
_FRAMES_OF_EXIT = 6  # between a file's close() and the __exit__ of whoever wraps it


@dataclass(frozen=True)
class FileStatus:
    """What is known about a file or directory.

    Attributes:
      name: The last component of its path, without slashes; empty for the root.
      is_directory: Whether it is a directory.
      size: Bytes; 0 for a directory.
      mtime: When it was last published or created, in seconds since 1970.
    """

    name: str
    is_directory: bool
    size: int
    mtime: float


@dataclass(frozen=True)
class Usage:
    """What there is in a file system.

    Attributes:
      files: How many.
      directories: How many, without the root.
      bytes: Of all files.
      trash_blocks: Blocks that are kept for a while for those who may have replaced or removed files open.
      writers: Files being written that have unpublished blocks in the cluster; also those of writers that died lately.
      stored_blocks: All blocks, without their copies on other nodes.
    """

    files: int
    directories: int
    bytes: int
    trash_blocks: int
    writers: int
    stored_blocks: int


@dataclass(frozen=True)
class Finding:
    """One thing that should not be.

    Attributes:
      path: Where, as far as that is known.
      what: What is wrong with it.
      repair: What was done about it; empty if nothing.
    """

    path: str
    what: str
    repair: str

    def __str__(self) -> str:
        return f"{self.path} {self.what}" + (f": {self.repair}" if self.repair else "")


@dataclass(frozen=True)
class Report:
    """What :meth:`FileSystem.check` found.

    Attributes:
      usage: What there is.
      findings: The first thousand faults.
      found: How many there are.
      collected_blocks: Blocks that were freed.
    """

    usage: Usage
    findings: tuple[Finding, ...]
    found: int
    collected_blocks: int

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong any more."""
        return self.found == len(self.findings) and all(finding.repair for finding in self.findings)


class FileSystem:
    """One file system of an Ignite cluster: on its caches (Ignite 2.8 or newer), or IGFS itself (up to 2.8.1).

    Safe to use from several threads. A file changes for others only when it is flushed or closed, in one step; who has
    a file open goes on reading the version that was there when it was opened (IGFS itself keeps no old versions: there
    it is an error).

    Args:
      host: A node; by default ``IGFS_HOST``, else the open resolver's nodes, else localhost.
      port: Its thin client port, or that of IGFS's own endpoint; by default ``IGFS_PORT``, else 10800, with
        ``backend="endpoint"`` 10500.
      name: The file system; by default ``IGFS_FS_NAME``, else ``default_fs``. On caches it is created by the first
        write; IGFS has those of its nodes' configuration.
      security: TLS, user and password; by default an open resolver's for its own nodes. ``IGFS_TLS``, ``IGFS_CAFILE``,
        ``IGFS_USERNAME`` and so on (or ``IGNITE_...``) replace it. The endpoint has neither: an error.
      backend: ``"caches"`` or ``"endpoint"``, whatever the port; by default ``IGFS_BACKEND``, else the endpoint for
        port 10500 and caches for every other.

    Raises:
      InvalidArgumentError: An argument or variable is malformed, or TLS or a user is asked of the endpoint.

    Example::

        files = FileSystem("ignite-0")
        with files.open("/runs/1/notes.txt", "wb") as out:
            out.write(b"...")
    """

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        name: str | None = None,
        *,
        security: settings.Security | None = None,
        backend: str | None = None,
    ) -> None:
        if port is not None and not isinstance(port, int):
            raise InvalidArgumentError(f"port={port!r} is not a number")
        native = None if security is None else security.native()
        self._native = _core.FileSystem(host, port, name, native, backend)
        self._security = security

    def __repr__(self) -> str:
        return f"FileSystem({self._native.target})"

    def stat(self, path: str) -> FileStatus:
        """Returns what is known about a path; raises :class:`NotFoundError` if there is nothing."""
        return _status(path.rstrip("/").rpartition("/")[2], self._native.stat(path))

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory. A cluster that does not answer is an error, not ``False``."""
        try:
            self._native.stat(path)
        except NotFoundError:
            return False
        except PreconditionError as error:
            if "not a directory" not in str(error):
                raise
            return False  # below a file there is nothing
        return True

    def list(self, path: str) -> list[FileStatus]:
        """Returns what is in a directory, sorted by name."""
        return [_status(name, status) for name, status in self._native.list(path)]

    def read(self, path: str) -> bytes:
        """Returns the content of a file."""
        with self.open(path) as source:
            return source.read()

    def write(self, path: str, data: bytes) -> None:
        """Replaces a file, or creates it; its directory must exist."""
        with self.open(path, "wb") as out:
            out.write(data)

    def open(self, path: str, mode: str = "rb") -> BinaryIO:
        """Opens a file.

        Args:
          path: Its path.
          mode: ``rb``, ``wb`` (replace), ``ab`` (keep and extend) or ``xb`` (must not exist).

        Returns:
          A binary file object. One for writing publishes on ``flush()`` and ``close()``; when a ``with`` block ends
          with an exception, nothing more is published, also if the block is that of an object around this one.
        """
        if mode in ("r", "rb"):
            raw = cast(Any, _RawReader(self._native.open_read(path)))
            return io.BufferedReader(raw, _READ_BUFFER)
        if mode.replace("b", "", 1) not in ("w", "a", "x"):
            raise InvalidArgumentError(f"mode {mode!r} is none of rb, wb, ab and xb")
        return cast(BinaryIO, _WriteFile(self._native.open_write(path, mode[0])))

    def mkdir(self, path: str) -> None:
        """Creates a directory; its parent must exist and the name must be free."""
        self._native.mkdir(path)

    def makedirs(self, path: str) -> None:
        """Creates a directory and those above it, as far as they are missing."""
        self._native.makedirs(path)

    def rename(self, source: str, target: str) -> None:
        """Renames a file or directory in one step; replaces a file, or an empty directory by a directory."""
        self._native.rename(source, target)

    def copy(self, source: str, target: str) -> None:
        """Copies a file; the copy appears whole."""
        self._native.copy(source, target)

    def remove(self, path: str, recursive: bool = False) -> None:
        """Removes a file or an empty directory; with ``recursive``, a directory and everything in it in one step."""
        if recursive:
            self._native.rmtree(path)
        elif self._native.stat(path)["is_directory"]:
            self._native.rmdir(path)
        else:
            self._native.remove(path)

    def is_same(self, other: FileSystem) -> bool:
        """Whether both are one file system, perhaps reached through different nodes."""
        mine, its = self._native.target, other._native.target
        if mine == its or self._native.backend != "caches" or other._native.backend != "caches":
            return mine == its and self._native.backend == other._native.backend
        (name, _, addresses), (other_name, _, others) = mine.rpartition("@"), its.rpartition("@")
        return name == other_name and not node_ids(
            settings.parse_endpoints(addresses.split(",")), self._security
        ).isdisjoint(node_ids(settings.parse_endpoints(others.split(",")), other._security))

    def usage(self) -> Usage:
        """Counts files, bytes and blocks; reads the whole tree, but no block. On caches only, as :meth:`check`."""
        return Usage(**self._native.usage())

    def spaces(self) -> Sequence[NodeSpace]:
        """The memory of each node of the cluster, and how much of it is used; see :func:`.space.node_spaces`."""
        if self._native.backend != "caches":
            raise UnsupportedError(
                f"{self._native.target}: IGFS does not tell how much memory its nodes have"
            )
        name, _, addresses = self._native.target.rpartition("@")
        return node_spaces(
            settings.parse_endpoints(addresses.split(",")), f"igfs-{name}-blocks", self._security
        )

    def check(
        self,
        repair: bool = False,
        offline: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Report:
        """Looks for what should not be: files whose blocks are gone, lost directories, blocks of no file.

        Args:
          repair: Sets right what can be. A file that is not whole goes to ``/lost+found`` as far as it is there; lost
            directories and entries with impossible names go there too; removals that were interrupted are finished.
          offline: You know that nobody else uses the file system: whoever was writing counts as dead, and what is kept
            for readers is freed. Only so are blocks of no file found one by one, for which all blocks are read.
          progress: Called with a step's name, how much of it is done, and how much of how much (0 = not known).
        """
        found = self._native.check(repair, offline, progress)
        return Report(
            Usage(**found["usage"]),
            tuple(Finding(*each) for each in found["findings"]),
            found["found"],
            found["collected_blocks"],
        )

    def tend(self) -> None:
        """Frees what is due of replaced and removed content and of dead writers, for a second or two.

        Due is what this process saw unchanged for as long as the rules say (``IGFS_GRACE_SECONDS``,
        ``IGFS_WRITER_LEASE_SECONDS``): whoever lives long enough may call it now and then. Agents do.
        """
        self._native.tend()


class _RawReader(io.RawIOBase):
    def __init__(self, native: _core.FileReader) -> None:
        self._native = native
        self._at = 0
        self._lock = threading.Lock()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._native.size}[whence]
        if base + offset < 0:
            raise InvalidArgumentError(f"position {base + offset} is before the start of the file")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        with self._lock:
            size = self._native.read_into(self._at, buffer)
            self._at += size
        return size

    def readall(self) -> bytes:
        with self._lock:
            pieces = []
            # More than once only if the file grows meanwhile.
            while piece := self._native.read_at(self._at, max(_READ_BUFFER, self._native.size - self._at)):
                pieces.append(piece)
                self._at += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class _WriteFile(io.RawIOBase):
    """Not a BufferedWriter: the native writer buffers, and an abandoned buffer must not publish itself."""

    def __init__(self, native: _core.FileWriter) -> None:
        self._native = native

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._native.tell()

    def write(self, data: Any) -> int:
        return self._native.write(data)

    def flush(self) -> None:
        if not self.closed and not _a_block_has_failed():  # fsspec flushes before it closes
            self._native.flush()

    def close(self) -> None:
        if not self.closed:
            try:
                if _a_block_has_failed():
                    self._native.abandon()
                else:
                    self._native.close()
            finally:
                self._mark_closed()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        elif not self.closed:
            self._native.abandon()
            self._mark_closed()

    def __del__(self) -> None:
        if not self.closed:
            self._native.abandon()
            self._mark_closed()

    def _mark_closed(self) -> None:
        self.flush = lambda: None  # type: ignore[method-assign]  # RawIOBase.close() flushes
        super().close()


def _a_block_has_failed() -> bool:
    """Whether a ``with`` block of somebody else's file object ends with an exception, of which we are told nothing."""
    if sys.exc_info()[0] is None:
        return False
    frame = sys._getframe(1).f_back
    for _ in range(_FRAMES_OF_EXIT):
        if frame is None:
            return False
        if frame.f_code.co_name == "__exit__":
            given = (each if isinstance(each, tuple) else (each,) for each in frame.f_locals.values())
            return any(isinstance(one, BaseException) for each in given for one in each)
        frame = frame.f_back
    return False


def _status(name: str, status: _core.FileSystemStatus) -> FileStatus:
    return FileStatus(name, status["is_directory"], status["size"], status["mtime"])


def _set_default_cluster(endpoints: Sequence[settings.Endpoint], security: bytes) -> None:
    _core.set_default_cluster(",".join(map(str, endpoints)), security)


settings.on_default_cluster(_set_default_cluster)
