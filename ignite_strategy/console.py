"""Where progress is drawn: standard error, which may be a closed pipe or a full disk without any harm to the work."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["progress_console", "shown"]

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class _Lasting:
    """A stream that forgets what cannot be written to it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def progress_console() -> Console:
    """A console for progress bars: drawing one never ends the work that it is about."""
    from rich.console import Console

    stream: Any = _Lasting(sys.stderr)
    return Console(file=stream)


def shown(text: str) -> str:
    """A name that somebody else has chosen, so that it cannot do anything to a terminal or look like another line."""
    return _CONTROL.sub(lambda found: repr(found.group())[1:-1], text)
