"""The cache that is written to: whether it is there, what SQL says about its columns, and the types of its objects."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ignite_strategy import _core
from ignite_strategy.dataset import kinds
from ignite_strategy.dataset.columns import type_table
from ignite_strategy.dataset.kinds import Kind
from ignite_strategy.dataset.structure import check_fields
from ignite_strategy.dataset.tables import Fields
from ignite_strategy.errors import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
)
from ignite_strategy.settings import DATASET_PREFIXES, Endpoint, Security, Timeouts

__all__ = ["Target", "declared", "key_columns", "spelled", "type_names"]

_GET_CONFIGURATION, _PUT_TYPE, _BINARY_CONFIGURATION = 1055, 3003, 3004
# How long all nodes may take to know a cache that one of them has just created.
_CREATION_SECONDS = 10.0
# Where a query entity says what the keys and the values are.
_OWN = {"key": "key_type", "val": "value_type"}


class Target:
    """A cache on some nodes.

    Attributes:
      compact: Whether objects have compact footers there.
    """

    def __init__(
        self, cache: str, endpoints: Sequence[Endpoint], timeouts: Timeouts, security: Security
    ) -> None:
        self.cache = cache
        self.compact = True
        self._endpoints, self._timeouts, self._security = endpoints, timeouts, security
        self._missing: NotFoundError | None = None

    def facts(self) -> Mapping[str, Any] | None:
        """What the server knows about the cache; ``None`` if there is none."""
        failures: list[ConnectionFailedError] = []
        for endpoint in self._endpoints:
            try:
                return _core.discover(
                    endpoint.host,
                    endpoint.port,
                    self.cache,
                    connect_timeout=self._timeouts.connect,
                    request_timeout=self._timeouts.request,
                    security=self._security.native(),
                )
            except AuthenticationError:
                raise
            except NotFoundError as error:
                self._missing = error
                return None
            except ConnectionFailedError as error:
                failures.append(error)
        tried = "; ".join(map(str, failures))
        raise type(failures[-1])(
            f"cannot ask for cache {self.cache!r}: {tried}. Check that an Ignite node listens there; the address comes "
            "from addresses=, or host= and port=, then from an open resolver, else it is localhost:10800."
        ) from failures[-1]

    def missing(self) -> NotFoundError:
        """The error for a cache that is not there."""
        return NotFoundError(f"{self._missing}; create=True creates it")

    def create(
        self, key: Kind, val: Kind, *, partitions: int | None, backups: int, sql: bool, key_name: str | None
    ) -> None:
        """Creates the cache and waits until every node knows it.

        Raises:
          PreconditionError: The nodes have no template for this number of partitions.
          UnsupportedError: An SQL table whose key has objects in it.
        """
        from ignite_strategy.topology.caches import create_cache

        options: dict[str, Any] = {}
        if sql:
            if any(kind.code == kinds.OBJECT for _, kind in key.parts):
                raise UnsupportedError(
                    f"cache {self.cache}: sql=True with a key that has objects in it: SQL looks for keys by columns of "
                    "numbers, text, dates and the like; give such columns as the key"
                )
            options = {
                "key": _topology_fields(key),
                "key_name": key_name,
                "key_type_name": key.type_name or None,
                "value": _topology_fields(val),
                "type_name": val.type_name or None,
            }
        with self._client() as client:
            create_cache(client, self.cache, partitions=partitions, backups=backups, exist_ok=True, **options)
        self._await_everywhere()

    def remains(self) -> str:
        """Says that the cache, which this call has created, stays.

        It is not dropped: another process may have found it and be about to fill it.
        """
        return f"cache {self.cache!r}, which was created for them, stays, without rows of this call"

    def _client(self) -> contextlib.closing[Any]:
        from ignite_strategy.topology.caches import connect

        return contextlib.closing(
            connect(
                [str(endpoint) for endpoint in self._endpoints],
                connect_timeout=self._timeouts.connect,
                request_timeout=self._timeouts.request,
                security=self._security,
                prefixes=DATASET_PREFIXES,
            )
        )

    def register(self, written: Sequence[Kind]) -> None:
        """Tells the cluster the types of the objects, so that every client can read them.

        Raises:
          IgniteStrategyError: A type of that name has other fields; the message is the server's.
        """
        metadata = dict(registrations(written))
        with self._connection() as connection:
            # Servers before 2.9 do not say; they have compact footers unless somebody changed that.
            with contextlib.suppress(UnsupportedError):
                answer = connection.call(_BINARY_CONFIGURATION, b"", "asking how objects are laid out")
                self.compact = answer[:1] != b"\x00"
            for name, request in metadata.items():
                connection.call(_PUT_TYPE, request, f"registering type {name!r} for cache {self.cache!r}")

    @contextlib.contextmanager
    def _connection(self) -> Iterator[_core.Connection]:
        failures: list[ConnectionFailedError] = []
        for endpoint in self._endpoints:
            try:
                connection = self._open(endpoint)
            except AuthenticationError:
                raise
            except ConnectionFailedError as error:
                failures.append(error)
                continue
            with connection:
                yield connection
            return
        raise failures[0]

    def _open(self, endpoint: Endpoint) -> _core.Connection:
        return _core.Connection(
            endpoint.host,
            endpoint.port,
            self._timeouts.connect,
            self._timeouts.request,
            pooled=True,
            security=self._security.native(),
            prefixes=list(DATASET_PREFIXES),
        )

    def _await_everywhere(self) -> None:
        prefix = struct.pack("<iB", _core.java_hash(self.cache), 0)
        deadline = time.monotonic() + _CREATION_SECONDS
        for endpoint in self._endpoints:
            while True:
                try:
                    with self._open(endpoint) as each:
                        each.call(_GET_CONFIGURATION, prefix, f"looking for cache {self.cache!r}")
                except ConnectionFailedError:
                    pass  # the writer does without this node
                except NotFoundError:
                    if time.monotonic() < deadline:
                        time.sleep(0.05)
                        continue
                    raise
                break


def registrations(written: Sequence[Kind]) -> Iterator[tuple[str, bytes]]:
    """Name and registration of every type of object and enum, inner ones first."""
    for kind in written:
        yield from registrations([part for _, part in kind.parts])
        if kind.code == kinds.OBJECT:
            fields = [(name, _metadata_code(part)) for name, part in kind.parts]
            yield kind.type_name, _core.type_metadata_request(kind.type_name, fields, [])
        elif kind.code == kinds.ENUM:
            constants = [(name, ordinal) for ordinal, name in enumerate(kind.constants)]
            yield kind.type_name, _core.type_metadata_request(kind.type_name, [], constants)


def _metadata_code(kind: Kind) -> int:
    """The code of a field in its type's metadata: java.sql.Date is just an object there."""
    return kinds.OBJECT if kind.code == kinds.SQL_DATE else kind.code


def _topology_fields(kind: Kind) -> str | dict[str, str]:
    """The same of an object: one for each field."""
    if kind.code == kinds.OBJECT:
        return {name: _topology_name(part) for name, part in kind.parts}
    return _topology_name(kind)


def _topology_name(kind: Kind) -> str:
    """What ``topology.types`` calls a kind."""
    names = {code: name for name, code in kinds.SCALARS.items()}
    if kind.code in names:
        return names[kind.code]
    item = type_table()[kind.code].item
    return f"{names[item]}[]" if item in names and item < kinds.UUID else "object"


def _entity(facts: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The one query entity of a cache, if it says anything about types."""
    if facts is None or len(facts["entities"]) != 1:
        return None
    entity: Mapping[str, Any] = facts["entities"][0]
    return entity


def key_columns(facts: Mapping[str, Any] | None) -> Fields | None:
    """The columns of an SQL table that are its key."""
    entity = _entity(facts)
    if entity is None:
        return None
    if entity["key_field"]:
        return Fields((entity["key_field"],), single=True)
    names = tuple(name for name, _, is_key in entity["fields"] if is_key)
    return Fields(names, single=False) if names else None


def type_names(facts: Mapping[str, Any] | None, cache: str) -> dict[str, str | None]:
    """What the objects of a cache are called."""
    names: dict[str, str | None] = {"key": None, "val": cache}
    entity = _entity(facts)
    for part, field in _OWN.items():
        if entity is not None and not _is_java(entity[field]):
            names[part] = entity[field]
        elif facts is not None and len(facts[part]["types"]) == 1:
            (names[part],) = facts[part]["types"]
    return names


def _is_java(name: str) -> bool:
    return name.startswith(("java.", "["))


def declared(facts: Mapping[str, Any] | None, part: str, values: Any) -> dict[str, Kind]:
    """The kinds of columns that an SQL table declares, and of the keys and values which a plain cache has already.

    An int and a long are two keys, even if their numbers are equal, and a cache with both is one that cannot be read.

    Raises:
      InvalidArgumentError: ``values`` has a column that the table does not have.
    """
    entity = _entity(facts)
    codes = {entry.java: code for code, entry in type_table().items() if entry.java}
    found: dict[str, Kind] = {}
    if facts is not None and len(facts[part]["codes"]) == 1:
        (code,) = facts[part]["codes"]
        if code in codes.values():
            found[part] = _kind_of(code)
    if entity is None:
        return found
    own = entity[_OWN[part]]
    if own in codes:
        found[part] = _kind_of(codes[own])
    if not isinstance(values, Mapping) or _is_java(own):
        return found
    columns = {name.lower(): java for name, java, _ in entity["fields"]}
    keys = key_columns(facts) if part == "val" else None
    hidden = {name.lower() for name in keys.names} if keys else set()
    for name in values:
        if name.lower() in hidden:
            raise InvalidArgumentError(
                f"column {part}.{name}: {name!r} is a column of the SQL table's key, which would hide the value's: "
                "leave it out, or write it as the key"
            )
        java = columns.get(name.lower())
        if java is None:
            known = ", ".join(each for each, _, _ in entity["fields"])
            raise InvalidArgumentError(f"the SQL table has no column {name!r}, only {known}")
        if java in codes:
            found[f"{part}.{name}"] = _kind_of(codes[java])
    return found


def spelled(facts: Mapping[str, Any] | None, part: str, values: Any) -> Any:
    """The columns of an object under the names that the SQL table has for them; case does not matter to SQL."""
    entity = _entity(facts)
    if entity is None or not isinstance(values, Mapping) or _is_java(entity[_OWN[part]]):
        return values
    check_fields(list(values), "the columns of an SQL table")
    names = {name.lower(): name for name, _, _ in entity["fields"]}
    return {names.get(name.lower(), name): each for name, each in values.items()}


def _kind_of(code: int) -> Kind:
    item = type_table()[code].item
    return Kind(code, (("item", Kind(item)),)) if item else Kind(code)
