"""Copies between igfs, local disk and every other file system that fsspec knows.

What is copied appears whole under its name or not at all, also on local disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fsspec.core import has_magic, url_to_fs
from fsspec.implementations.local import LocalFileSystem

from ignite_strategy.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from ignite_strategy.filesystem.fsspec_igfs import IgniteFileSystem

__all__ = ["Item", "Place", "copy", "expand", "plan", "resolve"]

_PIECE = 4 << 20


@dataclass(frozen=True)
class Place:
    """A path in some file system."""

    files: Any
    path: str

    @property
    def url(self) -> str:
        """The path for people: with its scheme, but for local disk."""
        local = isinstance(self.files, LocalFileSystem)
        return self.path if local else str(self.files.unstrip_protocol(self.path))

    @property
    def name(self) -> str:
        """The last component of the path; empty for a root."""
        return self.path.rstrip("/").rpartition("/")[2]

    def below(self, *parts: str) -> Place:
        """A path below this one."""
        return Place(self.files, "/".join([self.path.rstrip("/"), *parts]))

    def kind(self) -> str:
        """``file``, ``directory``, or nothing."""
        try:
            return str(self.files.info(self.path)["type"])
        except FileNotFoundError:
            return ""


@dataclass(frozen=True)
class Item:
    """One file or directory to copy."""

    source: Place
    target: Place
    is_directory: bool
    size: int


def resolve(url: str) -> Place:
    """Returns the place that a URL or a local path means.

    Raises:
      UnsupportedError: The scheme's own package is not installed.
      InvalidArgumentError: No such scheme.
    """
    try:
        url.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{url!r} is not UTF-8") from None
    # In an igfs:// or local path "::" is nothing special; elsewhere it joins what fsspec chains.
    own = IgniteFileSystem if url.startswith("igfs://") else LocalFileSystem if "://" not in url else None
    try:
        if own is not None:
            return Place(own(**own._get_kwargs_from_urls(url)), own._strip_protocol(url))
        files, path = url_to_fs(url)
    except ImportError as error:
        raise UnsupportedError(f"{url}: {error}") from error
    except ValueError as error:
        raise InvalidArgumentError(f"{url}: {error}") from error
    return Place(files, path)


def expand(url: str) -> list[Place]:
    """Returns the places that a URL with ``*``, ``?`` or ``[...]`` in its path matches, or the one it names.

    Raises:
      NotFoundError: There are none.
    """
    place = resolve(url)
    if place.kind() or not has_magic(place.path):
        found = [place] if place.kind() else []
    else:
        found = [Place(place.files, path) for path in sorted(place.files.glob(place.path))]
    if not found:
        raise NotFoundError(f"{url}: no such file or directory")
    return found


def plan(sources: Sequence[Place], target_url: str, recursive: bool) -> list[Item]:
    """Returns what copying means, directories before what is in them.

    Into ``target_url`` if that is a directory or ends with ``/``, else to that name.

    Raises:
      InvalidArgumentError: A directory without ``recursive``, several sources for one name, a source below itself, or
        a pipe, socket or device.
      OSError: A local folder cannot be read.
    """
    target = resolve(target_url)
    kind = target.kind()
    into = kind == "directory" or target_url.endswith("/")
    if len(sources) > 1 and not into:
        raise InvalidArgumentError(f"{target_url} is not a directory: several files cannot all become it")
    items: list[Item] = []
    for source in sources:
        to = target.below(_checked(source, source.name)) if into and source.name else target
        items.extend(_items(source, to, recursive))
    return items


def _items(source: Place, target: Place, recursive: bool) -> Iterator[Item]:
    info = source.files.info(source.path)
    _need_content(source, info)
    if info["type"] != "directory":
        if _same(source, target):
            raise InvalidArgumentError(f"{source.url} and the target are the same file")
        yield Item(source, target, False, int(info["size"] or 0))
        return
    if not recursive:
        raise InvalidArgumentError(f"{source.url} is a directory: copy it with -r")
    if _is_inside(target, source):
        raise InvalidArgumentError(f"{target.url} is inside {source.url}")
    yield Item(source, target, True, 0)
    stem = source.path.rstrip("/") + "/"
    for path, entry in sorted(_everything_below(source).items()):
        if path.rstrip("/") == source.path.rstrip("/"):
            continue
        parts = [_checked(source, part) for part in path[len(stem) :].split("/")]
        inner = Place(source.files, path)
        _need_content(inner, entry)
        if entry["type"] == "directory" and entry.get("islink"):
            raise InvalidArgumentError(f"{inner.url} is a link to a directory: copy that one itself")
        yield Item(inner, target.below(*parts), entry["type"] == "directory", int(entry.get("size") or 0))


def _everything_below(source: Place) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(source.files, LocalFileSystem):
        # fsspec leaves out a folder that may not be read, and does not follow links.
        for folder, folders, files in os.walk(source.path, onerror=_raise):
            for path in (os.path.join(folder, name) for name in (*folders, *files)):
                found[path] = source.files.info(path)
    else:
        found.update(source.files.find(source.path, withdirs=True, detail=True))
    return found


def _raise(error: OSError) -> None:
    raise error


def _need_content(place: Place, info: Any) -> None:
    """Refuses pipes, sockets and devices, of which nobody knows where they end."""
    if info["type"] == "other":
        raise InvalidArgumentError(f"{place.url} is neither a file nor a directory")


def _same(one: Place, other: Place) -> bool:
    return _real(one) == _real(other) and bool(one.files == other.files)


def _is_inside(place: Place, directory: Place) -> bool:
    real = _real(directory).rstrip("/") + "/"
    return (_real(place) + "/").startswith(real) and bool(place.files == directory.files)


def _real(place: Place) -> str:
    return os.path.realpath(place.path) if isinstance(place.files, LocalFileSystem) else place.path


def _checked(source: Place, name: str) -> str:
    """A name that some file system told us, as a component below the target and nowhere else."""
    if name in ("", ".", "..") or "/" in name or "\0" in name or os.sep in name:
        raise InvalidArgumentError(f"{source.url} has an entry named {name!r}, which would leave the target")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{source.url} has an entry named {name!r}, which is not UTF-8") from None
    return name


def copy(item: Item, moved: Callable[[int], None] = lambda count: None) -> None:
    """Copies one item. ``moved`` is told each number of bytes as it is on its way."""
    target = item.target
    if item.is_directory:
        target.files.makedirs(target.path, exist_ok=True)
    elif item.source.files == target.files and not isinstance(target.files, LocalFileSystem):
        _need_parent(target)
        target.files.cp_file(item.source.path, target.path)
        moved(item.size)
    elif isinstance(target.files, LocalFileSystem):
        _to_local(item, moved)
    else:
        _to_other(item, moved)


def _need_parent(target: Place) -> None:
    parent = Place(target.files, target.files._parent(target.path))
    if isinstance(target.files, IgniteFileSystem) and not parent.kind():
        raise NotFoundError(f"{parent.url}: no such directory; create it with fs mkdir -p")


def _to_local(item: Item, moved: Callable[[int], None]) -> None:
    path = os.path.realpath(item.target.path)  # a link stays, as with cp
    if os.path.islink(item.target.path) and not os.path.exists(path):
        raise InvalidArgumentError(f"{item.target.path} is a link to nothing")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InvalidArgumentError(f"{item.target.path} is there already, and is no file")
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "no such directory", folder)
    partial = os.path.join(folder, f".{secrets.token_hex(8)}.partial")
    try:
        with item.source.files.open(item.source.path, "rb") as source, open(partial, "xb") as out:
            _pump(source, out, moved)
        if os.path.isfile(path):
            shutil.copymode(path, partial)
        os.replace(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)


def _to_other(item: Item, moved: Callable[[int], None]) -> None:
    """Into a file system that may show a file while it is being written."""
    files, path = item.target.files, item.target.path
    _need_parent(item.target)
    was_there = files.exists(path)
    with item.source.files.open(item.source.path, "rb") as source:
        out = files.open(path, "wb", autocommit=False)
        try:
            _pump(source, out, moved)
            out.close()
            if hasattr(out, "commit"):  # some files know nothing of it, and are there when they are closed
                out.commit()
        except BaseException:
            with contextlib.suppress(Exception):
                out.discard() if hasattr(out, "discard") else out.close()
            with contextlib.suppress(Exception):
                if not was_there and files.exists(path):
                    files.rm_file(path)
            raise


def _pump(source: Any, out: Any, moved: Callable[[int], None]) -> None:
    while piece := source.read(_PIECE):
        out.write(piece)
        moved(len(piece))
