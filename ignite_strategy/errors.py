"""Every error that this package raises, as one tree.

::

    IgniteStrategyError
    ├── ConnectionFailedError      no usable connection: refused, unreachable, closed by the peer
    │   ├── DeadlineExceededError  no answer within the limit
    │   └── AuthenticationError    the server refused the user, or the certificate was refused
    ├── InvalidArgumentError       an argument, option or environment variable cannot be used (also a ValueError)
    ├── NotFoundError              no such cache, file, node or task
    ├── AlreadyExistsError         the name is taken
    ├── PreconditionError          not possible in this state (not empty, wrong server, no agent)
    ├── ExhaustedError             no room for it, here or in the cluster: memory, cursors, transactions
    ├── UnsupportedError           a type or feature that this version does not have; never silently skipped
    ├── DataLossError              data is gone, or what arrived contradicts itself
    ├── ServerError                the Ignite server answered with an error of its own
    ├── WriteError                 not all rows were written; it tells which were
    ├── ClusterError               the TensorFlow cluster could not be formed or has broken
    │   ├── GradientError          a task could not compute its share of a gradient (``task``)
    │   ├── ClusterTimeoutError    some tasks did not register in time (``missing``)
    │   ├── TaskLostError          a task, agent or node that the job needs is gone
    │   └── StalledError           training takes no step any more
    └── CancelledError             somebody no longer wanted the result

Every message says where (host:port, cache, path, task) and what was being done.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "AlreadyExistsError",
    "AuthenticationError",
    "CancelledError",
    "ClusterError",
    "ClusterTimeoutError",
    "ConnectionFailedError",
    "DataLossError",
    "DeadlineExceededError",
    "ExhaustedError",
    "GradientError",
    "IgniteStrategyError",
    "InvalidArgumentError",
    "NotFoundError",
    "PreconditionError",
    "ServerError",
    "StalledError",
    "TaskLostError",
    "UnsupportedError",
    "WriteError",
    "WriteInterrupted",
    "from_native",
]


class IgniteStrategyError(Exception):
    """Root of all errors of this package.

    Attributes:
      server_status: The status of an Ignite error response, 0 if the error is not the server's.
    """

    server_status: int = 0


class ConnectionFailedError(IgniteStrategyError):
    """No usable connection: refused, unreachable, or closed by the peer."""


class DeadlineExceededError(ConnectionFailedError):
    """No answer within the limit."""


class AuthenticationError(ConnectionFailedError):
    """The server refused the user, or a certificate was refused."""


class InvalidArgumentError(IgniteStrategyError, ValueError):
    """An argument, option or environment variable cannot be used."""


class NotFoundError(IgniteStrategyError):
    """No such cache, file, node or task."""


class AlreadyExistsError(IgniteStrategyError):
    """The name is taken."""


class PreconditionError(IgniteStrategyError):
    """Not possible in this state."""


class ExhaustedError(IgniteStrategyError):
    """No room for it, here or in the cluster: memory, cursors, transactions."""


class UnsupportedError(IgniteStrategyError):
    """A type or feature that this version does not have."""


class DataLossError(IgniteStrategyError):
    """Data is gone, or what arrived contradicts itself."""


class ServerError(IgniteStrategyError):
    """The Ignite server answered with an error of its own."""


class CancelledError(IgniteStrategyError):
    """Somebody no longer wanted the result, or Ctrl-C was pressed."""


class _Unfinished(BaseException):
    """What became of the rows of a write that did not finish. Rows are counted from 0 in the order of the data."""

    taken: int
    acknowledged: int
    unknown: list[tuple[int, int]]
    unsent: list[tuple[int, int]]

    def __init__(
        self,
        message: str,
        *,
        taken: int,
        acknowledged: int,
        unknown: Sequence[tuple[int, int]],
        unsent: Sequence[tuple[int, int]],
    ) -> None:
        self.taken, self.acknowledged = taken, acknowledged
        self.unknown, self.unsent = list(unknown), list(unsent)
        super().__init__(
            f"{message}. Rows: {acknowledged} acknowledged; {_ranges(self.unknown)} sent without an acknowledgement, "
            f"so nobody knows; {_ranges(self.unsent)} not sent; nothing from row {taken} on was sent. Writing them "
            f"again does no harm: a row replaces the one with its key"
        )


def _ranges(ranges: Sequence[tuple[int, int]]) -> str:
    total = sum(last - first for first, last in ranges)
    if not total:
        return "0"
    shown = ", ".join(f"{first}-{last - 1}" for first, last in ranges[:4])
    return f"{total} ({shown}{', ...' if len(ranges) > 4 else ''})"


class WriteError(_Unfinished, IgniteStrategyError):
    """Not all rows were written; ``__cause__`` is the error that ended it.

    Attributes:
      taken: Rows that were taken from the data; those from this number on were never sent.
      acknowledged: How many rows the servers have confirmed.
      unknown: Ranges (first, one past the last) of rows that were sent without an acknowledgement: they may be there.
      unsent: Ranges of rows that were taken and not sent: they are not there.
    """


class WriteInterrupted(_Unfinished, KeyboardInterrupt):
    """Ctrl-C while rows were written, with the attributes of :class:`WriteError`."""


class ClusterError(IgniteStrategyError):
    """The TensorFlow cluster could not be formed or has broken."""


class ClusterTimeoutError(ClusterError):
    """Some tasks did not register in time.

    Attributes:
      missing: The tasks that did not, as ``(task type, index)``.
    """

    def __init__(self, message: str, missing: Sequence[tuple[str, int]] = ()) -> None:
        super().__init__(message)
        self.missing = list(missing)


class TaskLostError(ClusterError):
    """A task, agent or node that the job needs is gone.

    Attributes:
      kind: What is gone: ``"task"``, ``"agent"`` or ``"node"``; ``"moved"`` if partitions have other nodes by then.
      task: ``(type, index)`` if it was a task.
      node: Id of the Ignite node where it was.
      host: Where it ran.
      pid: The task's process.
      exit_code: The task's exit code, negative = the signal; ``None`` if nobody knows.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "task",
        task: tuple[str, int] | None = None,
        node: str = "",
        host: str = "",
        pid: int = 0,
        exit_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.task = task
        self.node = node
        self.host = host
        self.pid = pid
        self.exit_code = exit_code


class GradientError(ClusterError):
    """A task could not compute its share of a gradient; ``__cause__`` is TensorFlow's error if there is one.

    Attributes:
      task: ``(type, index)``, if it is known which.
    """

    def __init__(self, message: str, task: tuple[str, int] | None = None) -> None:
        super().__init__(message)
        self.task = task


class StalledError(ClusterError):
    """Training has taken no step for longer than it was allowed to."""


# The codes of native/wire/error.h, which are TensorFlow's.
_BY_CODE: dict[int, type[IgniteStrategyError]] = {
    1: CancelledError,
    3: InvalidArgumentError,
    4: DeadlineExceededError,
    5: NotFoundError,
    6: AlreadyExistsError,
    7: AuthenticationError,
    8: ExhaustedError,
    9: PreconditionError,
    10: PreconditionError,
    12: UnsupportedError,
    14: ConnectionFailedError,
    15: DataLossError,
    16: AuthenticationError,
}


def from_native(code: int, message: str, server_status: int = 0) -> IgniteStrategyError:
    """Returns the exception for a native error code.

    Args:
      code: One of TensorFlow's status codes (3 = invalid argument, 14 = unavailable, ...).
      message: The whole message, with where and what.
      server_status: The Ignite server's status, 0 if the error is not the server's.
    """
    kind = _BY_CODE.get(code, ServerError if server_status else IgniteStrategyError)
    error = kind(message)
    error.server_status = server_status
    return error
