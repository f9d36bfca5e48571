"""Ctrl-C while TensorFlow waits in native code ends with ``KeyboardInterrupt``, not with an error about errors.

A wait that a SIGINT ends is an error to TensorFlow, which then creates a Python exception. Python has noted the signal
meanwhile, and acts on it in the first Python code that runs: the constructor of that exception. Before Python 3.12 the
result is ``RuntimeError: pybind11::error_already_set: MISMATCH of original and normalized active exception types``. So
the default handler is replaced by one that lets a constructor finish first.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any

__all__ = ["install"]

_MOST_FRAMES = 8  # between a constructor and what it calls


def install() -> None:
    """Replaces Python's own SIGINT handler; does nothing where that is not needed, not wanted or not possible."""
    if (
        sys.version_info < (3, 12)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _on_interrupt)


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    if _creates_an_exception(frame) and sys.getprofile() is None:
        # The profiler's hook is what is called next, deterministically, once the constructor has returned.
        sys.setprofile(_after_the_constructor)
        return
    signal.default_int_handler(number, frame)


def _after_the_constructor(frame: FrameType, event: str, argument: Any) -> None:
    if not _creates_an_exception(frame):
        sys.setprofile(None)
        raise KeyboardInterrupt


def _creates_an_exception(frame: FrameType | None) -> bool:
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), BaseException):
            return True
        frame = frame.f_back
    return False
