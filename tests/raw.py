"""Writes bytes of the binary format into a real cache as they are, for values that no Python client can write."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from ignite_strategy import _core
from ignite_strategy.settings import parse_endpoint
from tests import binary

_PUT, _PUT_TYPE = 1001, 3003


class RawClient:
    """One connection that puts typed bytes."""

    def __init__(self, address: str) -> None:
        self._connection = _core.Connection(*parse_endpoint(address))

    def put(self, cache: str, key: bytes, value: bytes) -> None:
        prefix = struct.pack("<ib", _core.java_hash(cache), 0)
        self._connection.call(_PUT, prefix + key + value, f"putting into {cache}")

    def put_type(self, name: str, fields: Mapping[str, int], schemas: Sequence[Sequence[str]]) -> None:
        """Registers a type with its schemas, as a client does before it writes an object with compact footer."""
        # The request is the response of the operation that asks for it, without its first byte.
        self._connection.call(_PUT_TYPE, binary.metadata(name, fields, schemas)[1:], f"registering {name}")

    def put_enum(self, name: str, values: Mapping[str, int]) -> None:
        self._connection.call(_PUT_TYPE, binary.enum_metadata(name, values)[1:], f"registering {name}")

    def put_object(self, cache: str, key: bytes, name: str, fields: Mapping[str, bytes]) -> None:
        """An object whose type is registered with these fields; ``b""`` = its schema does not have the field."""
        present = {field: value for field, value in fields.items() if value}
        self.put_type(
            name,
            {field: value[0] for field, value in present.items() if value != binary.NULL},
            [list(present)],
        )
        self.put(cache, key, binary.binary_object(name, present, binary.Footer(offset_size=2)))

    def close(self) -> None:
        self._connection.close()
