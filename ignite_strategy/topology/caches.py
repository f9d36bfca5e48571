"""Cache administration through pyignite: create, fill, drop, SQL. Never scans: reading is the native reader's job.

>>> client = connect(["ignite-0:10800"])  # doctest: +SKIP
>>> fields = {"pixels": "float[]", "label": "int"}  # doctest: +SKIP
>>> create_cache(client, "DIGITS", partitions=2, value=fields, type_name="Digit")  # doctest: +SKIP
>>> put_objects(client, "DIGITS", enumerate(rows), fields=fields, type_name="Digit")  # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import ssl
import struct
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from ignite_strategy.errors import (
    AlreadyExistsError,
    AuthenticationError,
    ConnectionFailedError,
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    PreconditionError,
    ServerError,
)
from ignite_strategy.settings import CLUSTER_PREFIXES, Security, format_endpoint, parse_endpoints
from ignite_strategy.topology.clients import open_client
from ignite_strategy.topology.types import (
    Fields,
    check_fields,
    java_name,
    sql_name,
    to_object,
    to_value,
    value_type,
)

__all__ = [
    "SqlResult",
    "cache_names",
    "connect",
    "create_cache",
    "drop_cache",
    "partition_map",
    "put_objects",
    "put_values",
    "sql",
    "template_bean",
]

_MODES = ("partitioned", "replicated")
_ATOMICITIES = ("atomic", "transactional")
_REPLICATED, _PARTITIONED = 1, 2
_FULL_SYNC, _READ_WRITE_SAFE = 0, 2
_PLACEMENT_SECONDS = 5.0


class SqlResult(NamedTuple):
    """The answer to an SQL statement."""

    columns: list[str]
    rows: list[list[Any]]


def connect(
    addresses: str | Sequence[str],
    *,
    connect_timeout: float = 5.0,
    request_timeout: float = 30.0,
    security: Security | None = None,
    prefixes: Sequence[str] = CLUSTER_PREFIXES,
) -> Any:
    """Connects a pyignite client to the nodes that answer.

    Args:
      addresses: ``host:port`` of one or more nodes.
      connect_timeout: Limit on each handshake, in seconds.
      request_timeout: Limit on each request, in seconds.
      security: TLS, user and password; by default those of an open resolver that speaks to one of these nodes. The
        variables ``IGNITE_TLS``, ``IGNITE_CAFILE``, ``IGNITE_USERNAME`` and so on replace them.
      prefixes: The prefixes of those variables.

    Returns:
      A connected ``pyignite.Client``, to be closed: ``with contextlib.closing(connect(...)) as client``.

    Raises:
      ConnectionFailedError: No node answers.
      AuthenticationError: User, password or a certificate was refused.
    """
    endpoints = parse_endpoints(addresses)
    if not endpoints:
        raise InvalidArgumentError("no address of an Ignite node was given: use host:port")
    with _translated(", ".join(format_endpoint(each) for each in endpoints), "connecting"):
        return open_client(
            endpoints,
            connect_timeout=connect_timeout,
            request_timeout=request_timeout,
            security=security,
            prefixes=prefixes,
        )


def cache_names(client: Any) -> list[str]:
    """The names of all caches, sorted."""
    with _translated(_where(client), "listing caches"):
        return sorted(client.get_cache_names())


def create_cache(
    client: Any,
    name: str,
    *,
    partitions: int | None = None,
    backups: int = 0,
    key: str | Fields | None = None,
    value: str | Fields | None = None,
    type_name: str | None = None,
    mode: str = "partitioned",
    atomicity: str = "atomic",
    exist_ok: bool = False,
    key_name: str | None = None,
    key_type_name: str | None = None,
) -> None:
    """Creates a cache whose writes wait for all copies and whose lost partitions are errors, never empty.

    Args:
      client: From :func:`connect`.
      name: Any name; SQL sees the cache as the table of this name once ``value`` is given.
      partitions: How many; the server's default (1024) if not given. A thin client can ask for a count only by a cache
        template of the nodes: ours (``cluster/templates.xml``) have 1 to 16 and many more.
      backups: How many further copies of each partition.
      key: The type of the keys, ``"int"`` for instance, or the fields of a structured object; without it any type, and
        no SQL.
      value: The type of the values: a name such as ``"double"``, or the fields of a structured object.
      type_name: What structured objects are called; ``name`` if not given.
      mode: ``"partitioned"`` or ``"replicated"``.
      atomicity: ``"atomic"`` or ``"transactional"``.
      exist_ok: Accept a cache of this name that is there already, if its number of partitions is right.
      key_name: What SQL calls a key of one column, ``K`` by default.
      key_type_name: What keys that are objects are called; ``type_name`` with ``Key`` behind it if not given.

    Raises:
      AlreadyExistsError: There is one already.
      InvalidArgumentError: A field that SQL cannot show as a column, such as ``a.b`` or ``_KEY``.
      PreconditionError: The nodes have no template for this count; the message has the XML to add.
    """
    _check_arguments(name, partitions, backups, mode, atomicity)
    for fields in (key, value):
        if isinstance(fields, Mapping):
            check_fields(fields, name)
    if value is not None and (key is not None or partitions is not None):
        keys = key if isinstance(key, Mapping) else {key_name or _free_name(value): "object"}
        _check_columns(name, keys, value if isinstance(value, Mapping) else {"v": value})
    objects = _Objects(type_name or name, key_type_name or f"{type_name or name}Key")
    there = name in cache_names(client)
    if there and not exist_ok:
        raise AlreadyExistsError(
            f"{_where(client)}: there is a cache {name} already: drop it first, or pass exist_ok=True"
        )
    if not there:
        doing = f"creating cache {name}" + ("" if partitions is None else f" with {partitions} partitions")
        try:
            with _translated(_where(client), doing):
                if partitions is None:
                    free = key_name or _free_name(value)
                    client.create_cache(_settings(name, backups, mode, atomicity, key, value, objects, free))
                else:
                    text = _statement(name, partitions, backups, atomicity, key, value, objects, key_name)
                    _create_by_template(client, text, partitions)
        except ServerError:
            there = exist_ok and name in cache_names(client)  # somebody else was faster
            if not there:
                raise
    if not there:
        _forget_losses(name)
    if partitions is not None:
        _check_partitions(client, name, partitions)


def drop_cache(client: Any, name: str) -> bool:
    """Drops a cache with all its data.

    Returns:
      Whether there was one.
    """
    from pyignite.exceptions import CacheError

    if name not in cache_names(client):
        return False
    _forget_losses(name)
    with _translated(_where(client), f"dropping cache {name}"):
        cache = client.get_cache(name)
        table = _table(cache.settings)
        if table is None:
            cache.destroy()
            return True
        try:
            cache.destroy()
        except CacheError as error:
            if "destroyCache" not in str(error):
                raise
            client.sql(f"DROP TABLE {table}")  # what CREATE TABLE made, only DROP TABLE removes
    return True


def _forget_losses(name: str) -> None:
    """A cache of this name that lost data before is another one."""
    from ignite_strategy.dataset.losses import accept_data_loss

    accept_data_loss(name)


def put_objects(
    client: Any,
    name: str,
    rows: Mapping[Any, Mapping[str, Any]] | Iterable[tuple[Any, Mapping[str, Any]]],
    *,
    fields: Fields,
    type_name: str | None = None,
    key: str = "int",
    batch: int = 500,
) -> int:
    """Writes structured objects, creating nothing but the rows.

    Args:
      client: From :func:`connect`.
      name: The cache.
      rows: Keys and objects as mappings; NumPy values are fine, a field left out is null.
      fields: The fields in the order in which they are written, with their types; a mapping is a nested object.
      type_name: What the objects are called; ``name`` if not given.
      key: The type of the keys.
      batch: How many rows go into one request.

    Returns:
      The number of rows.
    """
    check_fields(fields, name)
    kind = type_name or name
    return _put(
        client, name, ((k, to_object(kind, fields, row)) for k, row in _pairs(rows)), key, None, batch
    )


def put_values(
    client: Any,
    name: str,
    rows: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
    *,
    key: str = "int",
    value: str = "double",
    batch: int = 500,
) -> int:
    """Writes values of one type, ``"double"`` or ``"float[]"`` for instance. See :func:`put_objects`."""
    return _put(client, name, _pairs(rows), key, value, batch)


def partition_map(client: Any, name: str) -> dict[uuid.UUID, list[int]]:
    """The partitions that each node is primary for.

    Raises:
      NotFoundError: There is no such cache.
      PreconditionError: Its partitions are not placed by the default affinity (a replicated cache, for instance).
    """
    if name not in cache_names(client):
        raise NotFoundError(f"{_where(client)}: there is no cache {name}")
    deadline = time.monotonic() + _PLACEMENT_SECONDS
    while True:
        found = _placement(client, name)
        if found is not None:
            return found
        # A node that has not taken part in the creation of the cache yet says the same as for a replicated one.
        if time.monotonic() > deadline or _mode(client, name) == "replicated":
            raise PreconditionError(
                f"{_where(client)}: cache {name} has no partition map for clients (is it replicated, or has it an "
                "affinity function of its own?)"
            )
        time.sleep(0.05)


def _placement(client: Any, name: str) -> dict[uuid.UUID, list[int]] | None:
    from pyignite.api.affinity import cache_get_node_partitions
    from pyignite.utils import cache_id

    with _translated(_where(client), f"reading the partition map of {name}"):
        answer = cache_get_node_partitions(client.random_node, [cache_id(name)])
        if answer.status != 0:
            raise ServerError(f"{_where(client)}: {answer.message} (reading the partition map of {name})")
        found = answer.value["partition_mapping"].get(cache_id(name), {})
    if not found.get("is_applicable"):
        return None
    return {node: sorted(parts) for node, parts in found["node_mapping"].items()}


def _mode(client: Any, name: str) -> str:
    from pyignite.datatypes import prop_codes

    with _translated(_where(client), f"reading the configuration of {name}"):
        code = client.get_cache(name).settings[prop_codes.PROP_CACHE_MODE]
    return "replicated" if code == _REPLICATED else "partitioned"


def sql(client: Any, text: str, args: Sequence[Any] = (), *, schema: str = "PUBLIC") -> SqlResult:
    """Runs one SQL statement; ``?`` in it stands for an argument. A DATE is a ``datetime.date``.

    Raises:
      InvalidArgumentError: An argument is beyond a BIGINT.
      ServerError: The server refuses the statement.
    """
    for value in args:
        to_value(value, "long", f"the argument {value!r}")
    doing = f"running {text[:60]!r}"
    with _translated(_where(client), doing), _query(client, text, args, schema) as cursor:
        columns: list[Any] = next(cursor, [])
        return SqlResult([str(column) for column in columns], [list(row) for row in cursor])


def _query(client: Any, text: str, args: Sequence[Any], schema: str) -> Any:
    return client.sql(text, query_args=list(args), include_field_names=True, schema=schema)


def template_bean(partitions: int) -> str:
    """The XML of a cache template for ``partitions``, to be added to a node's configuration."""
    return f"""\
<bean class="org.apache.ignite.configuration.CacheConfiguration">
  <property name="name" value="igs-p{partitions}-*"/>
  <property name="writeSynchronizationMode" value="FULL_SYNC"/>
  <property name="partitionLossPolicy" value="READ_WRITE_SAFE"/>
  <property name="affinity">
    <bean class="org.apache.ignite.cache.affinity.rendezvous.RendezvousAffinityFunction">
      <property name="partitions" value="{partitions}"/>
    </bean>
  </property>
</bean>"""


class _Objects(NamedTuple):
    """What structured objects are called."""

    value: str
    key: str


def _check_columns(name: str, key: Fields, value: Fields) -> None:
    """Keys and values are columns of one table, and SQL does not tell case apart."""
    from ignite_strategy.dataset.structure import check_columns

    try:
        check_columns([*key, *value])
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"cache {name}: {error}") from None
    shared = {column.lower() for column in key} & {column.lower() for column in value}
    if shared:
        raise InvalidArgumentError(
            f"cache {name}: {', '.join(sorted(shared))} cannot be a column of the key and of the value of a table"
        )


def _check_arguments(name: str, partitions: int | None, backups: int, mode: str, atomicity: str) -> None:
    if not name or any(letter in name for letter in '",=\r\n\0'):
        raise InvalidArgumentError(
            f"a cache cannot be called {name!r}: no quotation marks, commas, equals signs, line ends, NULs"
        )
    if mode not in _MODES:
        raise InvalidArgumentError(f"mode {mode!r} of cache {name}: choose one of {', '.join(_MODES)}")
    if atomicity not in _ATOMICITIES:
        raise InvalidArgumentError(
            f"atomicity {atomicity!r} of cache {name}: choose one of {', '.join(_ATOMICITIES)}"
        )
    if backups < 0:
        raise InvalidArgumentError(f"cache {name} cannot have {backups} backups")
    if partitions is not None and not 0 < partitions <= 65_000:
        raise InvalidArgumentError(f"cache {name} cannot have {partitions} partitions: 1 to 65000")
    if partitions is not None and mode == "replicated":
        raise InvalidArgumentError(
            f"cache {name}: a count of partitions can be asked for partitioned caches only"
        )


def _settings(
    name: str,
    backups: int,
    mode: str,
    atomicity: str,
    key: str | Fields | None,
    value: str | Fields | None,
    objects: _Objects,
    key_name: str,
) -> dict[int, Any]:
    from pyignite.datatypes import prop_codes

    settings: dict[int, Any] = {
        prop_codes.PROP_NAME: name,
        prop_codes.PROP_CACHE_MODE: _REPLICATED if mode == "replicated" else _PARTITIONED,
        prop_codes.PROP_CACHE_ATOMICITY_MODE: _ATOMICITIES[::-1].index(atomicity),
        prop_codes.PROP_BACKUPS_NUMBER: backups,
        prop_codes.PROP_WRITE_SYNCHRONIZATION_MODE: _FULL_SYNC,
        prop_codes.PROP_PARTITION_LOSS_POLICY: _READ_WRITE_SAFE,
    }
    if key is not None and value is not None:
        settings[prop_codes.PROP_SQL_SCHEMA] = "PUBLIC"
        settings[prop_codes.PROP_QUERY_ENTITIES] = [_entity(name, key, value, objects, key_name)]
    return settings


def _entity(
    name: str, key: str | Fields, value: str | Fields, objects: _Objects, key_name: str
) -> dict[str, Any]:
    keys = key if isinstance(key, Mapping) else {key_name: key}
    columns = {**keys, **(value if isinstance(value, Mapping) else {"v": value})}
    return {
        "table_name": name,
        "key_type_name": objects.key if isinstance(key, Mapping) else java_name(key, name),
        "value_type_name": objects.value if isinstance(value, Mapping) else java_name(value, name),
        "key_field_name": None if isinstance(key, Mapping) else key_name,
        "value_field_name": None if isinstance(value, Mapping) else "v",
        "query_fields": [
            {"name": column, "type_name": java_name(of, name), "is_key_field": column in keys}
            for column, of in columns.items()
        ],
        "field_name_aliases": [],
        "query_indexes": [],
    }


def _statement(
    name: str,
    partitions: int,
    backups: int,
    atomicity: str,
    key: str | Fields | None,
    value: str | Fields | None,
    objects: _Objects,
    named_key: str | None = None,
) -> str:
    """The CREATE TABLE for a count of partitions. ``OTHER`` columns take values of any type."""
    options = [f"TEMPLATE=igs-p{partitions}-", f"CACHE_NAME={name}", f"BACKUPS={backups}"]
    options.append(f"ATOMICITY={atomicity.upper()}")
    if isinstance(value, Mapping):
        columns = _definitions(value, name)
        options.append(f"VALUE_TYPE={objects.value}")
    else:
        columns = f"V {'OTHER' if value is None else sql_name(value, name)}"
        options.append("WRAP_VALUE=false")
    if isinstance(key, Mapping):
        options.append(f"KEY_TYPE={objects.key}")
        primary = ", ".join(_quoted(column) for column in key)
        columns = f"{_definitions(key, name)}, {columns}, PRIMARY KEY ({primary})"
        if len(key) == 1:
            options.append("WRAP_KEY=true")
    else:
        key_column = _quoted(_free_name(value) if named_key is None else named_key)
        columns = f"{key_column} {'OTHER' if key is None else sql_name(key, name)} PRIMARY KEY, {columns}"
    return f'CREATE TABLE "{name}" ({columns}) WITH "{",".join(options)}"'


def _free_name(value: str | Fields | None) -> str:
    """What a key of one column is called, if nobody says so: as no column of the value is."""
    taken = {column.lower() for column in value} if isinstance(value, Mapping) else set()
    return next(each for each in ("k", "key_", "key__", "key___") if each not in taken)


def _definitions(fields: Fields, name: str) -> str:
    return ", ".join(f"{_quoted(column)} {sql_name(of, name)}" for column, of in fields.items())


def _quoted(column: str) -> str:
    """In quotes because of names like ORDER; in capitals so that SQL needs no quotes."""
    return f'"{column.upper()}"'


def _create_by_template(client: Any, text: str, partitions: int) -> None:
    from pyignite.exceptions import SQLError

    try:
        client.sql(text)
    except SQLError as error:
        if f"igs-p{partitions}-" not in str(error):
            raise
        raise PreconditionError(
            f"{_where(client)}: the nodes have no cache template for {partitions} partitions. Choose another count, or "
            f"add this to cacheConfiguration in every node's configuration and restart the nodes:\n"
            f"{template_bean(partitions)}"
        ) from error


def _check_partitions(client: Any, name: str, expected: int) -> None:
    if tuple(client.protocol_context.version) >= (1, 4, 0):
        found = sum(len(parts) for parts in partition_map(client, name).values())
        right = found == expected
        said = f"{found} partitions"
    else:
        right = _has_partition(client, name, expected - 1) and not _has_partition(client, name, expected)
        said = "another number of partitions"
    if not right:
        raise PreconditionError(
            f"{_where(client)}: cache {name} has {said} and not {expected}: drop it and create it again, "
            "or look at the templates in the nodes' configuration"
        )


def _has_partition(client: Any, name: str, partition: int) -> bool:
    """Whether a scan of this partition is possible: Ignite 2.7 has no operation that tells how many there are."""
    from ignite_strategy import _core

    node = client.random_node
    # cache, flags, no filter, a row a page, partition, not only local ones
    query = struct.pack("<iBBiiB", _core.java_hash(name), 0, 101, 1, partition, 0)
    with _core.Connection(
        node.host, node.port, security=client.security.native(), prefixes=client.prefixes
    ) as connection:
        try:
            connection.call(2000, query, f"looking for partition {partition} of {name}")
        except ServerError as error:
            if "Invalid partition number" not in str(error):
                raise
            return False
    return True


def _pairs(rows: Any) -> Iterable[tuple[Any, Any]]:
    return rows.items() if isinstance(rows, Mapping) else rows


def _put(
    client: Any, name: str, rows: Iterable[tuple[Any, Any]], key: str, value: str | None, batch: int
) -> int:
    key_type = value_type(key, f"the key of {name}")
    kind = None if value is None else value_type(value, f"the value of {name}")
    if name not in cache_names(client):
        raise NotFoundError(f"{_where(client)}: there is no cache {name}: create it first")
    with _translated(_where(client), f"writing to cache {name}"):
        cache = client.get_cache(name)
        written, remaining = 0, iter(rows)
        while True:
            chunk = {
                (to_value(k, key, f"a key of {name}"), key_type): v
                if kind is None
                else (to_value(v, value, f"a value of {name}"), kind)
                for k, v in islice(remaining, batch)
            }
            if not chunk:
                return written
            cache.put_all(chunk)
            written += len(chunk)


def _table(settings: Mapping[int, Any]) -> str | None:
    """The quoted, qualified name of the table that a cache backs."""
    from pyignite.datatypes import prop_codes

    entities = settings.get(prop_codes.PROP_QUERY_ENTITIES) or []
    if not entities:
        return None
    schema = (settings.get(prop_codes.PROP_SQL_SCHEMA) or settings[prop_codes.PROP_NAME]).strip('"')
    return f'"{schema}"."{entities[0]["table_name"]}"'


def _where(client: Any) -> str:
    return ", ".join(f"{node.host}:{node.port}" for node in client._nodes) or "Ignite"


@contextlib.contextmanager
def _translated(where: str, doing: str) -> Iterator[None]:
    """Turns pyignite's errors into ours."""
    from pyignite import exceptions

    try:
        yield
    except exceptions.AuthenticationError as error:
        raise AuthenticationError(f"{where}: {error.message} while {doing}") from error
    except ssl.SSLCertVerificationError as error:
        raise AuthenticationError(
            f"{where}: the server's certificate is not accepted: {error.verify_message} while {doing} (its CA is named "
            "with cafile=, IGNITE_CAFILE; it must be for the name that is connected to)"
        ) from error
    except (exceptions.ReconnectError, OSError) as error:
        raise ConnectionFailedError(
            f"{where}: {error or type(error).__name__} while {doing}: is an Ignite node running there?"
        ) from error
    except exceptions.ParseError as error:
        raise DataLossError(f"{where}: {error} while {doing}") from error
    except (exceptions.SQLError, exceptions.CacheError) as error:
        raise ServerError(f"{where}: {str(error).splitlines()[0]} while {doing}") from error
