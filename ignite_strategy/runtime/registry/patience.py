"""How long a registry in another process is tried: until its limit, with growing pauses, or until it is closed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ignite_strategy.errors import ConnectionFailedError

__all__ = ["PassingError", "try_until"]

_Result = TypeVar("_Result")


class PassingError(Exception):
    """The connection or the session is gone, or time is up: another try is right."""


def try_until(
    seconds: float,
    attempt: Callable[[float], _Result],
    is_closed: Callable[[], bool],
    explain: Callable[[PassingError], str],
) -> _Result:
    """Returns what the first attempt that is not passed over returns.

    Args:
      seconds: The limit of all attempts together.
      attempt: Called with the time until which it may wait, of the monotonic clock.
      is_closed: Whether nobody wants the result any more.
      explain: The message of what is raised when there is no further attempt.

    Raises:
      ConnectionFailedError: Time is up, or the registry was closed.
    """
    until = time.monotonic() + seconds
    pause = 0.05
    while True:
        try:
            return attempt(until)
        except PassingError as error:
            failure = error
        if is_closed() or time.monotonic() + pause > until:
            raise ConnectionFailedError(explain(failure)) from failure
        time.sleep(pause)
        pause = min(pause * 2, 1.0)
