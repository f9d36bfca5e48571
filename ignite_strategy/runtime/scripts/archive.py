"""A user's folder as one archive, and back: files and folders only, within limits (a gzipped tar).

What comes from the network is checked entry by entry while it is read: nothing is unpacked that is a link, a device or
a name outside the folder, and nothing is read beyond the limits, whatever the archive says of itself.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ignite_strategy.errors import DataLossError, InvalidArgumentError, NotFoundError

__all__ = ["LIMITS", "Limits", "digest_of", "pack", "unpack"]

_LEFT_OUT = frozenset({"__pycache__", ".git"})  # of no use to a script, and often large
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE)
_LONGEST_NAME, _LONGEST_PATH = 255, 1_000
_PIECE = 1 << 16
_HEADERS = 4_096  # bytes of a tar for each entry beside its content, generously


@dataclass(frozen=True)
class Limits:
    """How large an archive may be.

    Attributes:
      packed: Bytes of the archive.
      unpacked: Bytes of all files.
      entries: Files and folders.
    """

    packed: int = 32 << 20
    unpacked: int = 128 << 20
    entries: int = 5_000


LIMITS = Limits()


def digest_of(data: bytes) -> str:
    """SHA-256, as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def pack(source: Path, limits: Limits = LIMITS) -> bytes:
    """Packs a folder, or one file; the same content gives the same bytes.

    ``__pycache__`` and ``.git`` are left out.

    Raises:
      NotFoundError: There is nothing of this name.
      InvalidArgumentError: Something in it is neither a file nor a folder, or it is too large; the error names it.
    """
    if not source.exists():
        raise NotFoundError(f"{source}: there is no such folder")
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped:
        stream: Any = zipped
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            _fill(archive, source, limits)
    data = packed.getvalue()
    if len(data) > limits.packed:
        raise InvalidArgumentError(_too_large(source, limits.packed))
    return data


def _fill(archive: tarfile.TarFile, source: Path, limits: Limits) -> None:
    size = 0
    for count, (path, name) in enumerate(_content(source), 1):
        if count > limits.entries:
            raise InvalidArgumentError(f"{source} has more than {limits.entries:,} files and folders")
        with _opened(path) as descriptor:
            entry = _entry(name, os.fstat(descriptor), path)
            size += entry.size
            if size > limits.unpacked:
                raise InvalidArgumentError(_too_large(source, limits.unpacked))
            if entry.isdir():
                archive.addfile(entry)
            else:
                with open(descriptor, "rb", closefd=False) as file:
                    archive.addfile(entry, file)


def _too_large(source: Path, limit: int) -> str:
    return (
        f"{source} is larger than {limit >> 20} MiB, too much for a job's folder: "
        "keep data in caches or on igfs://, and give the folder of the script alone"
    )


def _content(source: Path) -> Iterator[tuple[Path, str]]:
    if not source.is_dir():
        yield source, source.name
        return
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        for name in sorted([*folders, *files]):
            path = Path(folder, name)
            yield path, path.relative_to(source).as_posix()


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Opens without following a link and without waiting for a pipe's other end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if path.is_symlink():
            raise InvalidArgumentError(f"{path} is a link: put what it points to in its place") from None
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _entry(name: str, status: os.stat_result, path: Path) -> tarfile.TarInfo:
    _check_name(name)
    entry = tarfile.TarInfo(name)
    if stat.S_ISDIR(status.st_mode):
        entry.type, entry.mode = tarfile.DIRTYPE, 0o700
    elif stat.S_ISREG(status.st_mode):
        entry.size, entry.mode = status.st_size, 0o700 if status.st_mode & 0o100 else 0o600
    else:
        raise InvalidArgumentError(f"{path} is neither a file nor a folder")
    return entry


def unpack(data: bytes, digest: str, folder: Path, limits: Limits = LIMITS) -> None:
    """Unpacks an archive into an empty folder.

    Raises:
      DataLossError: The digest is another one, or it is no archive.
      InvalidArgumentError: It has what an archive must not have, or is too large; what was unpacked before stays.
    """
    if len(data) > limits.packed:
        raise InvalidArgumentError(f"the archive is larger than {limits.packed >> 20} MiB")
    if digest_of(data) != digest:
        raise DataLossError("the archive is not the one that was asked for: its SHA-256 is another one")
    try:
        stream: Any = _Bounded(data, limits)
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            _unpack(archive, folder, limits)
    except (tarfile.TarError, OSError, EOFError, zlib.error, UnicodeError) as error:
        raise DataLossError(f"the archive cannot be unpacked: {error}") from error


class _Bounded:
    """What is in a gzip file, up to a limit."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self._file = gzip.GzipFile(fileobj=io.BytesIO(data))
        self._left = limits.unpacked + limits.entries * _HEADERS
        self._limit = limits.unpacked

    def read(self, size: int) -> bytes:
        if size < 0 or size > self._left:
            raise InvalidArgumentError(f"the archive has more than {self._limit >> 20} MiB in it")
        data = self._file.read(size)
        self._left -= len(data)
        return data


def _unpack(archive: tarfile.TarFile, folder: Path, limits: Limits) -> None:
    size = 0
    for count, entry in enumerate(archive, 1):
        size += entry.size
        if count > limits.entries:
            raise InvalidArgumentError(f"the archive has more than {limits.entries:,} entries")
        if size > limits.unpacked:
            raise InvalidArgumentError(f"the archive has more than {limits.unpacked >> 20} MiB in it")
        name = _check_name(entry.name)
        if entry.isdir():
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        elif entry.type in _FILES and not entry.issparse():
            _write(archive, entry, folder / name)
        else:
            raise InvalidArgumentError(
                f"{entry.name!r} in the archive is neither a file nor a folder (tar type {entry.type!r})"
            )


def _check_name(name: str) -> str:
    """A path below the folder, and nothing that could be taken for another one."""
    parts = name.split("/")
    if (
        any(part in ("", ".", "..") or len(os.fsencode(part)) > _LONGEST_NAME for part in parts)
        or "\0" in name
        or "\\" in name
        or len(name) > _LONGEST_PATH
        or PurePosixPath(name).is_absolute()
    ):
        raise InvalidArgumentError(f"{name[:200]!r} is no name for a file in an archive")
    return name


def _write(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = 0o700 if entry.mode & 0o100 else 0o600
    content = archive.extractfile(entry)
    assert content is not None
    # A second entry of the same name would replace what the first one said.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with open(descriptor, "wb") as file:
        while piece := content.read(_PIECE):
            file.write(piece)
