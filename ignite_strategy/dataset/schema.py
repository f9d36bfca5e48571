"""Which columns a cache has: from its query entities, its types' metadata and a sample of its rows.

Names come from the objects' own schemas. The order of the metadata's field list, a hash map's, plays no part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ignite_strategy import _core
from ignite_strategy.dataset.arguments import checked_columns
from ignite_strategy.dataset.columns import Column, Options, TypeEntry, below, type_table
from ignite_strategy.dataset.describe import Found, decided, describe
from ignite_strategy.errors import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidArgumentError,
    PreconditionError,
    UnsupportedError,
)
from ignite_strategy.settings import PLAIN, Endpoint, Security, Timeouts

__all__ = ["Column", "Schema", "TypeEntry", "columns_of", "declared_type", "discover", "select", "type_table"]


@dataclass(frozen=True)
class Schema:
    """What :func:`discover` found.

    Attributes:
      cache: The cache.
      columns: Those that can be read, in the order of ``tf.nest.flatten``.
      problems: Column name -> why it cannot be read.
      bytes_per_row: Of the sampled rows on the wire, 0 if there were none.
      value_type: For native code: (type code, type id, whether values of other types are skipped); ``None`` = any.
    """

    cache: str
    columns: tuple[Column, ...]
    problems: Mapping[str, str]
    bytes_per_row: float = 0.0
    value_type: tuple[int, int, bool] | None = None


def discover(
    cache: str,
    endpoints: Sequence[Endpoint],
    *,
    local: bool = False,
    timeouts: Timeouts | None = None,
    security: Security = PLAIN,
    env: bool = True,
    options: Options | None = None,
) -> Schema:
    """Asks the first of ``endpoints`` that answers for the columns of ``cache``.

    Looks into every partition unless query entities and metadata tell everything.

    Args:
      cache: Its name.
      endpoints: The nodes.
      local: Whether the sample of rows is what the node itself holds.
      timeouts: Limits on waiting.
      security: TLS, user and password.
      env: Whether the variables of this process replace ``security``.
      options: How values become columns.

    Raises:
      AuthenticationError: User, password or a certificate was refused; other nodes are not tried.
      ConnectionFailedError: No address answers as an Ignite node.
      NotFoundError: No such cache; the message names those that there are.
      PreconditionError: The cache is empty and nothing tells its types.
    """
    options = options or Options()
    limits, secrets = timeouts or Timeouts(), security.native()
    for everywhere in (False, True):
        facts = _ask(cache, endpoints, local, limits, secrets, env, options.type or "", everywhere)
        found = describe(facts, options.type)
        if decided(facts, found):
            break
    if facts["rows"] == 0 and (found.unseen or found.silent()):
        raise _empty_cache(cache, ", ".join(map(str, endpoints)), found, options)
    return Schema(
        cache,
        options.apply(sorted(found.columns, key=lambda column: column.path), cache),
        found.problems,
        facts["bytes"] / facts["rows"] if facts["rows"] else 0.0,
        found.value_type,
    )


def _ask(
    cache: str,
    endpoints: Sequence[Endpoint],
    local: bool,
    timeouts: Timeouts,
    security: bytes,
    env: bool,
    type_name: str,
    everywhere: bool,
) -> dict[str, Any]:
    failures = []
    for endpoint in endpoints:
        try:
            return _core.discover(
                endpoint.host,
                endpoint.port,
                cache,
                local=local,
                type=type_name,
                everywhere=everywhere,
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
        f"listens there; the address comes from IGNITE_DATASET_HOST and IGNITE_DATASET_PORT, then from addresses=, or "
        f"host= and port=, then from an open resolver, else it is localhost:10800."
    )
    raise type(last)(message) from last


def _empty_cache(cache: str, where: str, found: Found, options: Options) -> PreconditionError:
    """Says which ``element_spec`` to pass, with what is known of it."""
    lines: dict[str, list[str]] = {"key": [], "val": []}
    for column in options.apply(found.columns, cache):
        shape = "[None]" if column.is_array else "[]"
        if len(column.path) > 1:
            lines[column.path[0]].append(f"'{column.path[1]}': tf.TensorSpec({shape}, tf.{column.dtype})")
        else:
            lines[column.path[0]] = [f"tf.TensorSpec({shape}, tf.{column.dtype})"]
    key = ", ".join(lines["key"]) or "tf.TensorSpec([], tf.int64)"
    val = ", ".join(lines["val"]) or "'LABEL': tf.TensorSpec([], tf.int32)"
    parts = [text if text.startswith("tf.") else f"{{{text}}}" for text in (key, val)]
    missing = "; ".join(f"{name} {problem}" for name, problem in found.problems.items())
    return PreconditionError(
        f"cache {cache!r} on {where} is empty and no SQL table or query entity tells its types"
        f"{f' ({missing})' if missing else ''}: put a row into it, or say what its rows will look like: "
        f"element_spec={{'key': {parts[0]}, 'val': {parts[1]}}}"
    )


def declared_type(name: str | None) -> tuple[int, int, bool] | None:
    """``value_type`` for native code where only the name of the type is known, and no server was asked."""
    if name is None:
        return None
    for code, entry in type_table().items():
        if entry.kind in ("scalar", "array") and entry.name == name:
            return code, 0, True
    return 103, _core.java_lower_hash(name), True


def select(schema: Schema, wanted: Sequence[str] | None) -> tuple[Column, ...]:
    """Returns the wanted columns: whole ones by their dotted names, or everything below a name.

    Raises:
      InvalidArgumentError: A name matches nothing.
      UnsupportedError: A wanted column cannot be read; the message says how to leave it out.
    """
    names = [column.name for column in schema.columns]
    wanted = checked_columns(wanted)
    if wanted is not None:
        for name in wanted:
            if not any(below(other, name) for other in [*names, *schema.problems]):
                raise InvalidArgumentError(
                    f"cache {schema.cache!r} has no column {name!r}; there are: {', '.join([*names, *schema.problems])}"
                )
    for name, problem in schema.problems.items():
        if wanted is None or any(below(name, want) or below(want, name) for want in wanted):
            raise UnsupportedError(
                f"cache {schema.cache!r}: column {name} {problem}; read the others with columns={names!r}"
            )
    if wanted is None:
        return schema.columns
    return tuple(column for column in schema.columns if any(below(column.name, want) for want in wanted))


def columns_of(
    leaves: Iterator[tuple[tuple[str, ...], str, bool, int | None]],
) -> tuple[Column, ...]:
    """Columns for declared ones: (path, dtype name, whether an array, its declared length).

    Raises:
      UnsupportedError: No type of Ignite becomes such a dtype.
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
                f"type of Ignite becomes; there are: {', '.join(known)}"
            )
        columns.append(Column(path, code, length, declared=True))
    return tuple(sorted(columns, key=lambda column: column.path))
