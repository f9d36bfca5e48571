"""Which columns a cache has: from its query entities, its types' metadata and a sample of its rows.

Names come from the objects' own schemas. The order of the metadata's field list, a hash map's, plays no part.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ignite_strategy import _core
from ignite_strategy.errors import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidArgumentError,
    PreconditionError,
    UnsupportedError,
)
from ignite_strategy.settings import PLAIN, Endpoint, Security, Timeouts

__all__ = ["Column", "Schema", "TypeEntry", "columns_of", "discover", "select", "type_table"]

_OBJECT = 103


@dataclass(frozen=True)
class TypeEntry:
    """One line of the table of Ignite's types, which native code owns.

    Attributes:
      name: What the type is called in messages.
      dtype: The dtype of its values, ``"none"`` if it cannot be a column.
      kind: ``scalar``, ``array``, ``sequence``, ``map``, ``object`` or ``unsupported``.
      java: The Java class, as query entities name it.
      item: The code of an array's items, 0 if they have no type of their own.
    """

    name: str
    dtype: str
    kind: str
    java: str
    item: int = 0


@functools.lru_cache(maxsize=1)
def type_table() -> dict[int, TypeEntry]:
    """Ignite's type codes."""
    return {code: TypeEntry(*entry) for code, entry in _core.type_table().items()}


@dataclass(frozen=True)
class Column:
    """One value of every row.

    Attributes:
      path: Where it is: ``("val", "metadata", "label")``.
      code: Ignite's type code.
      length: The declared length of an array, ``None`` = any.
      declared: Whether an ``element_spec`` said so: any type with this dtype and shape will do.
    """

    path: tuple[str, ...]
    code: int
    length: int | None = None
    declared: bool = False

    @property
    def name(self) -> str:
        """The path with dots."""
        return ".".join(self.path)

    @property
    def dtype(self) -> str:
        """The dtype's name: ``"int64"``, ``"string"``."""
        return type_table()[self.code].dtype

    @property
    def options(self) -> dict[str, Any]:
        """What native code needs to know beside path, type and length."""
        return {"declared": self.declared}

    @property
    def is_array(self) -> bool:
        """Whether each row has a vector."""
        return type_table()[self.code].kind == "array"


@dataclass(frozen=True)
class Schema:
    """What :func:`discover` found.

    Attributes:
      cache: The cache.
      columns: Those that can be read, in the order of ``tf.nest.flatten``.
      problems: Column name -> why it cannot be read.
      bytes_per_row: Of the sampled rows on the wire, 0 if there were none.
    """

    cache: str
    columns: tuple[Column, ...]
    problems: Mapping[str, str]
    bytes_per_row: float = 0.0


@dataclass
class _Found:
    columns: list[Column] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


def discover(
    cache: str,
    endpoints: Sequence[Endpoint],
    *,
    local: bool = False,
    timeouts: Timeouts | None = None,
    security: Security = PLAIN,
    env: bool = True,
) -> Schema:
    """Asks the first of ``endpoints`` that answers for the columns of ``cache``.

    Args:
      cache: Its name.
      endpoints: The nodes.
      local: Whether the sample of rows is what the node itself holds.
      timeouts: Limits on waiting.
      security: TLS, user and password.
      env: Whether the variables of this process replace ``security``.

    Raises:
      AuthenticationError: User, password or a certificate was refused; other nodes are not tried.
      ConnectionFailedError: No address answers as an Ignite node.
      NotFoundError: No such cache; the message names those that there are.
      PreconditionError: The cache is empty and nothing tells its types.
    """
    facts = _ask(cache, endpoints, local, timeouts or Timeouts(), security.native(), env)
    return _schema(cache, facts, ", ".join(map(str, endpoints)))


def _ask(
    cache: str, endpoints: Sequence[Endpoint], local: bool, timeouts: Timeouts, security: bytes, env: bool
) -> dict[str, Any]:
    failures = []
    for endpoint in endpoints:
        try:
            return _core.discover(
                endpoint.host,
                endpoint.port,
                cache,
                local=local,
                connect_timeout=timeouts.connect,
                request_timeout=timeouts.request,
                security=security,
                env=env,
            )
        except AuthenticationError:
            raise
        except ConnectionFailedError as error:
            failures.append(error)
    last = failures[-1]
    message = (
        f"cannot ask for the columns of cache {cache!r}: {'; '.join(map(str, failures))}. Check that an Ignite node "
        f"listens there; the address comes from IGNITE_DATASET_HOST and IGNITE_DATASET_PORT, then from host= and "
        f"port=, then from an open resolver, else it is localhost:10800."
    )
    raise type(last)(message) from last


def _schema(cache: str, facts: Mapping[str, Any], where: str) -> Schema:
    found = _Found()
    entity = facts["entities"][0] if len(facts["entities"]) == 1 else None
    for part in ("key", "val"):
        description = facts[part]
        if entity:
            _merge_entity(description, entity, facts["types"], part)
        _walk((part,), description, found)
    if facts["rows"] == 0 and not found.columns and not found.problems:
        raise PreconditionError(
            f"cache {cache!r} on {where} is empty and no SQL table or query entity tells its types: put a row into "
            f"it, or say what its rows will look like, for example "
            f"element_spec={{'key': tf.TensorSpec([], tf.int64), 'val': {{'LABEL': tf.TensorSpec([], tf.int32)}}}}"
        )
    per_row = facts["bytes"] / facts["rows"] if facts["rows"] else 0.0
    return Schema(
        cache, tuple(sorted(found.columns, key=lambda column: column.path)), found.problems, per_row
    )


def _merge_entity(
    description: dict[str, Any], entity: Mapping[str, Any], types: Mapping[str, Mapping[str, int]], part: str
) -> None:
    """Adds what SQL and the type's metadata know and no sampled row showed."""
    type_name = entity["key_type" if part == "key" else "value_type"]
    codes = {entry.java: code for code, entry in type_table().items() if entry.java}
    if type_name == "java.lang.Object":
        return  # anything: tells nothing
    if type_name in codes:
        description["declared"] = codes[type_name]
        return
    if description["codes"] - {_OBJECT}:
        return
    description["declared"] = _OBJECT
    fields = description["fields"]
    for name, code in types.get(type_name, {}).items():
        fields.setdefault(name, _unseen(code))
    own = {name.lower() for name in fields}
    for name, java, is_key in entity["fields"]:
        mine = is_key == (part == "key") and name not in (entity["key_field"], entity["value_field"])
        # A name with dots reaches into a nested object, whose own metadata tells more.
        if mine and "." not in name and name.lower() not in own:
            fields[name] = _unseen(codes.get(java, _OBJECT))


def _unseen(declared: int) -> dict[str, Any]:
    return {"codes": set(), "nulls": 0, "values": 0, "declared": declared, "types": set(), "fields": {}}


def _walk(path: tuple[str, ...], description: Mapping[str, Any], found: _Found) -> None:
    codes = set(description["codes"]) or ({description["declared"]} - {0})
    if not codes:
        return
    name = ".".join(path)
    table = type_table()
    if len(codes) > 1:
        kinds = " and ".join(sorted(table[code].name for code in codes))
        found.problems[name] = f"holds values of several types: {kinds}"
        return
    (code,) = codes
    entry = table.get(code)
    if entry is None:
        found.problems[name] = f"has the unknown type code {code}"
    elif entry.kind in ("scalar", "array"):
        found.columns.append(Column(path, code))
    elif entry.kind == "object":
        _walk_object(path, description, found)
    elif not description["codes"] and description["declared"]:
        found.problems[name] = f"is declared as {_a(entry.name)} and no sampled row has a value there"
    else:
        found.problems[name] = f"is {_a(entry.name)}, which this version does not read"


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeio' else 'a'} {name}"


def _walk_object(path: tuple[str, ...], description: Mapping[str, Any], found: _Found) -> None:
    name = ".".join(path)
    if description.get("unnamed_fields"):
        kind = ", ".join(sorted(description["types"]))
        found.problems[name] = f"is an object of {kind}, whose field names the server does not know"
        return
    if not description["fields"]:
        found.problems[name] = (
            "is an object without named fields"
            if description["codes"]
            else "is an object that no sampled row has a value of"
        )
    for inner, inner_description in description["fields"].items():
        _walk((*path, inner), inner_description, found)


def select(schema: Schema, wanted: Sequence[str] | None) -> tuple[Column, ...]:
    """Returns the wanted columns: whole ones by their dotted names, or everything below a name.

    Raises:
      InvalidArgumentError: A name matches nothing.
      UnsupportedError: A wanted column cannot be read; the message says how to leave it out.
    """
    names = [column.name for column in schema.columns]
    if wanted is not None:
        for name in wanted:
            if not any(_below(other, name) for other in [*names, *schema.problems]):
                raise InvalidArgumentError(
                    f"cache {schema.cache!r} has no column {name!r}; there are: {', '.join([*names, *schema.problems])}"
                )
    for name, problem in schema.problems.items():
        if wanted is None or any(_below(name, want) for want in wanted):
            raise UnsupportedError(
                f"cache {schema.cache!r}: column {name} {problem}; read the others with columns={names!r}"
            )
    if wanted is None:
        return schema.columns
    return tuple(column for column in schema.columns if any(_below(column.name, want) for want in wanted))


def _below(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def columns_of(leaves: Iterator[tuple[tuple[str, ...], str, bool, int | None]]) -> tuple[Column, ...]:
    """Columns for declared ones: (path, dtype name, whether an array, its declared length).

    Raises:
      UnsupportedError: No type of Ignite that this version reads has such a dtype.
    """
    codes: dict[tuple[str, str], int] = {}
    for code_, entry in type_table().items():
        if entry.kind in ("scalar", "array"):
            codes.setdefault((entry.dtype, entry.kind), code_)
    columns = []
    for path, dtype, is_array, length in leaves:
        code = codes.get((dtype, "array" if is_array else "scalar"))
        known = sorted({name for name, _ in codes})
        if code is None:
            raise UnsupportedError(
                f"element_spec: {'.'.join(path)} is {'an array of ' if is_array else ''}{dtype}, which no "
                f"type of Ignite that this version reads becomes; there are: {', '.join(known)}"
            )
        columns.append(Column(path, code, length, declared=True))
    return tuple(sorted(columns, key=lambda column: column.path))
