"""What the servers of this host have in common: claimed ports, processes that end with the program, a folder."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from ignite_strategy.errors import ClusterError
from ignite_strategy.local.folders import usable_folder
from ignite_strategy.local.ports import PortClaims
from ignite_strategy.local.processes import Processes

__all__ = ["Embedded"]

_Self = TypeVar("_Self", bound="Embedded")
_Planned = TypeVar("_Planned")


class Embedded:
    """Servers that end with this process, however it ends.

    Args:
      folder: For their logs and data; without one a temporary folder, which is removed at the end.

    Attributes:
      folder: As given, or the temporary one.
    """

    _claims: PortClaims
    _processes: Processes

    def __init__(self, folder: str | Path | None) -> None:
        self._temporary = folder is None
        self.folder = usable_folder(folder)
        self._closed = False

    def close(self) -> None:
        """Stops everything, waits until it is gone, and removes a temporary folder. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._processes.close()
        self._claims.release()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self, plan: Callable[[], _Planned]) -> _Planned:
        """Returns what ``plan`` does, which claims ports, and makes ready to start processes that listen on them."""
        self._claims = PortClaims()
        try:
            planned = plan()
            self._processes = Processes(
                self._claims.descriptors, remove=self.folder if self._temporary else None
            )
        except BaseException:
            self._claims.release()
            raise
        return planned

    def _abandon(self) -> None:
        """Stops what was started but keeps the folder: the error names the logs in it."""
        with contextlib.suppress(ClusterError):
            self._processes.keep()
        self._processes.close()
        self._claims.release()
