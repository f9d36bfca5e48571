"""What a program writes, kept on the agent's disk within a limit and read from there by offset."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import NamedTuple

__all__ = ["Excerpt", "OutputLog", "first_file", "read_output"]

LARGEST_FILE = 16 << 20
_FILES = 2


class OutputLog:
    """The output of one program: two files at most, named after the offset of their first byte.

    Args:
      folder: Where they go.
      name: Beginning of their names.
      largest: Bytes of each.
    """

    def __init__(self, folder: Path, name: str, largest: int = LARGEST_FILE) -> None:
        self._folder, self._name, self._largest = folder, name, largest
        self.size = 0
        self._lock = threading.Lock()
        self._begun = 0
        self._file = self._open()

    def _open(self) -> int:
        path = _file(self._folder, self._name, self.size)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, data: bytes) -> None:
        """Adds output; what is too old is dropped. A full disk loses output, it does not end the program."""
        with self._lock:
            with contextlib.suppress(OSError):
                self.size += os.write(self._file, data)
            if self.size - self._begun >= self._largest:
                os.close(self._file)
                self._begun = self.size
                self._file = self._open()
                for path in _files(self._folder, self._name)[:-_FILES]:
                    path.unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def first_file(folder: Path, name: str) -> Path:
    """Where the beginning of an output is."""
    return _file(folder, name, 0)


class Excerpt(NamedTuple):
    """A part of an output.

    Attributes:
      offset: Of its first byte: later than asked for if that is kept no longer, earlier if it is not written yet.
      data: The bytes; none at the end.
      size: Bytes of the whole output so far.
    """

    offset: int
    data: bytes
    size: int


def read_output(folder: Path, name: str, offset: int, count: int) -> Excerpt | None:
    """Reads output that :class:`OutputLog` keeps, or the one file ``<name>.log``.

    Args:
      folder: Where it is.
      name: Its name.
      offset: From where; negative: so many bytes before its end.
      count: How many bytes at most.

    Returns:
      ``None`` if there is no such output.
    """
    files = [(_offset(path), path) for path in _files(folder, name)] or [(0, folder / f"{name}.log")]
    try:
        size = files[-1][0] + files[-1][1].stat().st_size
        wanted = max(size + offset, 0) if offset < 0 else min(offset, size)
        begun, path = next((each for each in reversed(files) if each[0] <= wanted), files[0])
        with open(path, "rb") as file:
            file.seek(max(0, wanted - begun))
            return Excerpt(max(wanted, begun), file.read(count), size)
    except OSError:
        return None


def _file(folder: Path, name: str, offset: int) -> Path:
    return folder / f"{name}-{offset:015}.out"


def _files(folder: Path, name: str) -> list[Path]:
    return sorted(folder.glob(f"{name}-" + "[0-9]" * 15 + ".out"))


def _offset(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])
