"""``igfs`` for fsspec, and so for pandas, Dask, pyarrow and whoever else opens URLs; without TensorFlow.

fsspec finds it by the package's entry point::

    import pandas

    frame = pandas.read_parquet("igfs://ignite-0:10800/tables/digits.parquet")
"""

from __future__ import annotations

import contextlib
import errno
import io
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from fsspec import AbstractFileSystem
from fsspec.core import has_magic
from fsspec.utils import stringify_path

from ignite_strategy.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, PreconditionError
from ignite_strategy.filesystem.files import FileStatus, FileSystem

__all__ = ["IgniteFileSystem"]

_PASSWORD = re.compile(r"(//[^/@:]*):[^/@]*@")


@contextlib.contextmanager
def _as_os_error(path: str) -> Iterator[None]:
    """What is wrong with a path, as the exceptions that users of fsspec catch; other errors pass unchanged."""
    try:
        yield
    except NotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, str(error), _of(path, error)) from error
    except AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, str(error), _of(path, error)) from error
    except PreconditionError as error:
        text = str(error)
        kind, number = OSError, errno.EINVAL
        if "is a directory" in text or "is the root" in text:
            kind, number = IsADirectoryError, errno.EISDIR
        elif "not a directory" in text:
            kind, number = NotADirectoryError, errno.ENOTDIR
        elif "not empty" in text:
            number = errno.ENOTEMPTY
        raise kind(number, text, _of(path, error)) from error


def _of(path: str, error: Exception) -> str | None:
    """The path, if it is the one that the error speaks of: an operation may have two."""
    return path if path in str(error) else None


class IgniteFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Files in an Ignite cluster, on its caches or in IGFS itself, as ``igfs://[FS@]host[:port]/path``.

    A file appears, or changes, in one step when it is closed. Listings are never cached: what another process renames
    is seen by the next call. Instances are safe to use from several threads and can be pickled (Dask).

    Args:
      host: A node; by default ``IGFS_HOST``, else the open resolver's nodes, else localhost.
      port: Its thin client port, or 10500 for IGFS itself; by default ``IGFS_PORT``, else 10800.
      name: The file system; by default ``IGFS_FS_NAME``, else ``default_fs``.
      backend: ``"caches"`` or ``"endpoint"`` (IGFS itself, Ignite up to 2.8.1), whatever the port; by default
        ``IGFS_BACKEND``, else what the port says.
      auto_mkdir: Whether writing a file creates the directories above it.
      **storage_options: What fsspec itself knows.
    """

    protocol = "igfs"
    root_marker = "/"
    # What a URL leaves out comes from the environment or an open resolver, and both may change.
    cachable = False

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        name: str | None = None,
        auto_mkdir: bool = False,
        backend: str | None = None,
        **storage_options: Any,
    ) -> None:
        super().__init__(**storage_options)
        self._files = FileSystem(host, port, name, backend=backend)
        self._auto_mkdir = auto_mkdir

    @property
    def caches(self) -> FileSystem:
        """The file system itself, with what fsspec has no words for."""
        return self._files

    @property
    def fsid(self) -> str:
        """The file system and the nodes through which it is reached."""
        return repr(self._files)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        text = stringify_path(path)
        if text.startswith("igfs://"):
            text = "/" + text[len("igfs://") :].partition("/")[2]
        return "/" + text.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        if not path.startswith("igfs://"):
            return {}
        try:
            parts = urlsplit(path)
            if parts.password is not None:
                raise ValueError("a password has no place in a URL: set IGFS_USERNAME and IGFS_PASSWORD")
            found = {"host": parts.hostname, "port": parts.port, "name": parts.username}
        except ValueError as error:
            shown = _PASSWORD.sub(r"\1:***@", path)
            raise InvalidArgumentError(f"{shown!r} is not igfs://[FS@]host[:port]/path: {error}") from None
        return {key: value for key, value in found.items() if value is not None}

    def unstrip_protocol(self, name: str) -> str:
        """The whole URL of a path."""
        options = self.storage_options
        at = f"{options['name']}@" if options.get("name") else ""
        host = options.get("host") or ""
        if ":" in host:
            host = f"[{host}]"
        port = f":{options['port']}" if options.get("port") else ""
        return f"igfs://{at}{host}{port}{self._strip_protocol(name)}"

    # --- looking ------------------------------------------------------------------------------------------------------

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        """The entries of a directory, or a file itself: dicts with name, size, type and mtime, or names."""
        path = self._strip_protocol(path)
        with _as_os_error(path):
            found = [self.info(path)]
            if found[0]["type"] == "directory":
                stem = path.rstrip("/")
                found = [_info(f"{stem}/{status.name}", status) for status in self._files.list(path)]
        return found if detail else [entry["name"] for entry in found]

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Name, size in bytes, type and mtime (seconds since 1970) of a path."""
        path = self._strip_protocol(path)
        with _as_os_error(path):
            return _info(path, self._files.stat(path))

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether there is a file or directory. A cluster that does not answer is an error, not ``False``."""
        return self._files.exists(self._strip_protocol(path))

    def isdir(self, path: str) -> bool:
        """Whether there is a directory; a cluster that does not answer is an error."""
        return self._type(path) == "directory"

    def isfile(self, path: str) -> bool:
        """Whether there is a file; a cluster that does not answer is an error."""
        return self._type(path) == "file"

    def _type(self, path: str) -> str:
        try:
            return str(self.info(path)["type"])
        except FileNotFoundError:
            return ""

    def du(
        self,
        path: str,
        total: bool = True,
        maxdepth: int | None = None,
        withdirs: bool = False,
        **kwargs: Any,
    ) -> Any:
        """The bytes of all files below a path, or of each; from listings, without a look at every file."""
        found = self.find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True, **kwargs)
        sizes = {name: entry["size"] for name, entry in found.items()}
        return sum(sizes.values()) if total else sizes

    def modified(self, path: str) -> datetime:
        """When it was last published."""
        return datetime.fromtimestamp(self.info(path)["mtime"], timezone.utc)

    def created(self, path: str) -> datetime:
        """The time of the last publishing: that of the first one is not kept."""
        return self.modified(path)

    # --- changing -----------------------------------------------------------------------------------------------------

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Creates a directory, by default with those above it."""
        path = self._strip_protocol(path)
        with _as_os_error(path):
            if create_parents:
                self._files.makedirs(self._parent(path))
            self._files.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Creates a directory and those above it."""
        path = self._strip_protocol(path)
        with _as_os_error(path):
            if not exist_ok and self._files.exists(path):
                raise AlreadyExistsError(f"{self.unstrip_protocol(path)} exists already")
            self._files.makedirs(path)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        path = self._strip_protocol(path)
        if not self.isdir(path):
            self.info(path)
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        with _as_os_error(path):
            self._files.remove(path)

    def rm_file(self, path: str) -> None:
        """Removes a file."""
        path = self._strip_protocol(path)
        if self.info(path)["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        with _as_os_error(path):
            self._files.remove(path)

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, and with ``recursive`` directories, each with everything in it in one step."""
        if maxdepth is not None:
            super().rm(path, recursive=recursive, maxdepth=maxdepth)
            return
        paths = [path] if isinstance(path, str) else path
        for one in (each for given in paths for each in self._named(given)):
            self.rm_exactly(one, recursive)

    def _named(self, path: str) -> list[str]:
        """The one that has this very name, also if that is a pattern; else those that match."""
        if not has_magic(path) or self.exists(path):
            return [self._strip_protocol(path)]
        found: list[str] = self.expand_path(path, recursive=False)
        return found

    def rm_exactly(self, path: str, recursive: bool = False) -> None:
        """Removes what has this very name: ``*``, ``?`` and ``[`` in it mean nothing else."""
        if not recursive:
            self.rm_file(path)
            return
        path = self._strip_protocol(path)
        with _as_os_error(path):
            self._files.remove(path, recursive=self.isdir(path))

    def mv(
        self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any
    ) -> None:
        """Renames a file or a directory in one step; an existing directory as target takes it in."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if str(path2).endswith("/") or self.isdir(target):
            target = f"{target.rstrip('/')}/{source.rpartition('/')[2]}"
        with _as_os_error(source):
            self._prepare(target)
            self._files.rename(source, target)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copies a file, which appears whole; of a directory only the directory itself."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        with _as_os_error(source):
            if self.info(source)["type"] == "directory":
                self._files.makedirs(target)
                return
            self._prepare(target)
            self._files.copy(source, target)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Creates an empty file, or empties one; what is there keeps its content with ``truncate=False``."""
        path = self._strip_protocol(path)
        if truncate or not self.exists(path):
            self.pipe_file(path, b"")

    def _prepare(self, path: str) -> None:
        if self._auto_mkdir:
            self._files.makedirs(self._parent(path))

    # --- content ------------------------------------------------------------------------------------------------------

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        path = self._strip_protocol(path)
        with _as_os_error(path):
            if mode == "rb":
                return self._files.open(path)
            self._prepare(path)
            opened = self._files.open(path, mode)
        return opened if autocommit else _Uncommitted(opened)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """The bytes of a file from ``start`` to before ``end``; negative numbers count from its end."""
        path = self._strip_protocol(path)
        with _as_os_error(path), self._files.open(path) as source:
            if start is None and end is None:
                return source.read()
            size = source.seek(0, io.SEEK_END)
            first, last, _ = slice(start, end).indices(size)
            source.seek(first)
            return source.read(max(0, last - first))

    def ukey(self, path: str) -> str:
        """Changes whenever the content does."""
        status = self.info(path)
        return f"{self.fsid}{status['name']}:{status['size']}:{status['mtime']!r}"

    checksum = ukey


class _Uncommitted(io.RawIOBase):
    """A file of an fsspec transaction: its end, not ``close()``, decides whether the file is published."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def commit(self) -> None:
        """Publishes the file."""
        self._file.close()

    def discard(self) -> None:
        """Drops what was written."""
        self._file.__exit__(InterruptedError, None, None)


def _info(path: str, status: FileStatus) -> dict[str, Any]:
    kind = "directory" if status.is_directory else "file"
    return {"name": path, "size": status.size, "type": kind, "mtime": status.mtime}
