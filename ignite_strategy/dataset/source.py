"""The arguments of a pass, checked and given their defaults: which cache, where, which partitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ignite_strategy import _core, settings
from ignite_strategy.dataset.arguments import (
    checked_cache,
    checked_count,
    checked_flag,
    checked_host,
    checked_page_size,
    checked_port,
    parse_partitions,
)
from ignite_strategy.dataset.schema import Column
from ignite_strategy.errors import AuthenticationError, ConnectionFailedError, InvalidArgumentError
from ignite_strategy.settings import (
    DEFAULT_PORT,
    PLAIN,
    Endpoint,
    Security,
    Timeouts,
    checked_timeouts,
    parse_endpoints,
    security_for,
)

if TYPE_CHECKING:
    from ignite_strategy.dataset.sql import Statement

__all__ = ["Source", "first_answer", "schema_endpoints"]

Answer = TypeVar("Answer")

# How arrays without a declared length are laid out: see native/binary/columns.h.
UNIFORM, DENSE, RAGGED, PADDED = 0, 1, 2, 3
# More connections than this from one pass are a mistake: a server has a handful of threads for queries.
MAX_PARALLEL_READS = 64


@dataclass(frozen=True)
class Source:
    """A pass, but for its columns' layout.

    Attributes:
      cache: The cache.
      endpoints: Addresses in the order in which they are tried.
      local: Whether only what the node itself holds is read.
      partitions: The partitions, ``None`` = all.
      intersect: Whether ``partitions`` chooses among those that the environment assigns, or is replaced by them.
      env: Whether the environment of the process that reads replaces the arguments.
      page_size: Rows of a page, 0 = follows the bytes per row.
      parallel_reads: Connections that read at the same time.
      deterministic: Whether their pages come in an order of their own, or as they arrive.
      sql: A statement whose rows are read instead of the cache.
      owners: Who owned the partitions when the dataset was made.
      timeouts: Limits on waiting.
      security: TLS, user and password.
      value_type: Which type of values is read: see :class:`ignite_strategy.dataset.schema.Schema`.
    """

    cache: str
    endpoints: tuple[Endpoint, ...]
    local: bool = False
    partitions: tuple[int, ...] | None = None
    intersect: bool = False
    env: bool = True
    page_size: int = 0
    parallel_reads: int = 1
    deterministic: bool = True
    owners: bytes = b""
    sql: Statement | None = None
    timeouts: Timeouts = dataclasses.field(default_factory=Timeouts)
    security: Security = PLAIN
    value_type: tuple[int, int, bool] | None = None

    @staticmethod
    def of(
        cache: str,
        host: str | None,
        port: int | None,
        *,
        local: bool | None,
        part: int | str | Iterable[int] | None,
        partitions: int | str | Iterable[int] | None,
        page_size: int | None,
        env: bool,
        timeouts: Timeouts | None,
        addresses: str | Sequence[str] | None = None,
        security: Security | None = None,
        parallel_reads: int = 1,
        deterministic: bool = True,
        sql: Statement | None = None,
    ) -> Source:
        """Builds it from the arguments as a user gives them; ``None`` = not given.

        Raises:
          InvalidArgumentError: An argument cannot be used.
        """
        checked_cache(cache, empty=sql is not None)
        what = f"from 1 to {MAX_PARALLEL_READS} connections read at the same time"
        checked_count(parallel_reads, "parallel_reads", 1, MAX_PARALLEL_READS, what)
        one, several = parse_partitions(part, "part"), parse_partitions(partitions, "partitions")
        if one is not None and several is not None:
            raise InvalidArgumentError("give part= or partitions=, not both")
        endpoints = endpoints_of(host, port, addresses)
        return Source(
            cache=cache,
            endpoints=endpoints,
            local=checked_flag(local, "local"),
            partitions=one if several is None else several,
            intersect=several is not None,
            env=checked_flag(env, "env"),
            page_size=checked_page_size(page_size),
            parallel_reads=int(parallel_reads),
            deterministic=checked_flag(deterministic, "deterministic"),
            timeouts=checked_timeouts(timeouts),
            security=security_for(endpoints, security),
            sql=sql,
        )

    def effective_cache(self) -> str:
        """The cache's name after the environment of this process."""
        if not self.env:
            return self.cache
        return _core.dataset_environment()["cache_name"] or self.cache

    def config(
        self,
        columns: Sequence[Column],
        layout: int,
        bytes_per_row: float,
        batch_size: int = 0,
        drop_remainder: bool = False,
        grouped: bool = False,
    ) -> bytes:
        """The description that the ops and ``_core.Scan`` take."""
        return _core.scan_config(
            self.cache,
            [(endpoint.host, endpoint.port) for endpoint in self.endpoints],
            [
                (
                    list(column.path),
                    column.code,
                    -1 if column.length is None else column.length,
                    layout,
                    column.options,
                )
                for column in columns
            ],
            local=self.local,
            env=self.env,
            partitions=None if self.partitions is None else list(self.partitions),
            intersect=self.intersect,
            page_size=self.page_size,
            bytes_per_row=bytes_per_row,
            batch_size=batch_size,
            drop_remainder=drop_remainder,
            grouped=grouped,
            parallel_reads=self.parallel_reads,
            deterministic=self.deterministic,
            owners=self.owners,
            connect_timeout=self.timeouts.connect,
            request_timeout=self.timeouts.request,
            security=self.security.native(),
            value_type=self.value_type,
            sql=None if self.sql is None else self.sql.native(),
        )


def endpoints_of(
    host: str | None, port: int | None, addresses: str | Sequence[str] | None = None
) -> tuple[Endpoint, ...]:
    """Explicit arguments, else the addresses of an open resolver, else localhost:10800."""
    if addresses is not None:
        if host is not None or port is not None:
            raise InvalidArgumentError("give addresses=, or host= and port=, not both")
        several = tuple(dict.fromkeys(parse_endpoints(addresses)))
        if not several:
            raise InvalidArgumentError("addresses is empty: give at least one Ignite node, host:port")
        return several
    host, port = checked_host(host), checked_port(port)
    if host is not None:
        return (Endpoint(host, port or DEFAULT_PORT),)
    defaults = settings.default_endpoints()
    if defaults and port is None:
        return tuple(defaults)
    return (Endpoint("localhost", port or DEFAULT_PORT),)


def schema_endpoints(source: Source, host: str | None, port: int | None) -> tuple[Endpoint, ...]:
    """Where the schema is read: at ``schema_host`` if given, else where the data would be read in this process."""
    host, port = checked_host(host, "schema_host"), checked_port(port, "schema_port")
    if host is not None or port is not None:
        first = source.endpoints[0]
        return (Endpoint(host or first.host, port or first.port),)
    if not source.env:
        return source.endpoints
    environment = _core.dataset_environment()
    other_host, other_port = environment["host"], environment["port"]
    if other_host is not None:
        return (Endpoint(other_host, other_port or source.endpoints[0].port),)
    if other_port is not None:
        return tuple(Endpoint(endpoint.host, other_port) for endpoint in source.endpoints)
    return source.endpoints


def first_answer(source: Source, ask: Callable[[Endpoint], Answer]) -> Answer:
    """Asks the nodes where the schema is read, one after the other, until one answers.

    Raises:
      AuthenticationError: A node refuses the user or a certificate; the others would too.
      ConnectionFailedError: None answers; the first one's reason.
    """
    failure: ConnectionFailedError | None = None
    for endpoint in schema_endpoints(source, None, None):
        try:
            return ask(endpoint)
        except AuthenticationError:
            raise
        except ConnectionFailedError as error:
            failure = failure or error
    assert failure is not None
    raise type(failure)(
        f"{failure}. Check that an Ignite node listens there; the address comes from IGNITE_DATASET_HOST and "
        "IGNITE_DATASET_PORT, then from addresses=, or host= and port=, then from an open resolver, else it is "
        "localhost:10800."
    ) from failure
