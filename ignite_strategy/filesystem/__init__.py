"""``igfs://``: a file system on the caches of an Ignite cluster, or IGFS itself (Ignite up to 2.8.1).

TensorFlow uses it through :func:`register`, which ``import ignite_strategy`` arranges by itself. Programs without
TensorFlow use :class:`FileSystem`::

    from ignite_strategy.filesystem import FileSystem

    files = FileSystem("ignite-0")
    files.write("/hello.txt", b"Hello, world!")

A URI has the form ``igfs://[FILE_SYSTEM@]host[:port]/path``. What it leaves out comes from ``IGFS_HOST``, ``IGFS_PORT``
and ``IGFS_FS_NAME``, else from the open resolver, else it is the file system ``default_fs`` on ``localhost:10800``.
Port 10500, or ``IGFS_BACKEND=endpoint``, means the endpoint of IGFS itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ignite_strategy.filesystem.files import FileStatus as FileStatus
    from ignite_strategy.filesystem.files import FileSystem as FileSystem
    from ignite_strategy.filesystem.files import Finding as Finding
    from ignite_strategy.filesystem.files import Report as Report
    from ignite_strategy.filesystem.files import Usage as Usage
    from ignite_strategy.filesystem.registration import register as register

_EXPORTS = {
    **dict.fromkeys(("FileStatus", "FileSystem", "Finding", "Report", "Usage"), "files"),
    "register": "registration",
}

__all__ = ["FileStatus", "FileSystem", "Finding", "Report", "Usage", "register"]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
