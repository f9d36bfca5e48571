"""Ignite's binary format written by hand, for tests that read it: values, objects with all footers, metadata."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ignite_strategy import _core

NULL = b"\x65"
_HAS_SCHEMA, _HAS_RAW, _OFFSET_1, _OFFSET_2, _COMPACT, _USER = 0x02, 0x04, 0x08, 0x10, 0x20, 0x01


def i8(value: int) -> bytes:
    return struct.pack("<Bb", 1, value)


def i32(value: int) -> bytes:
    return struct.pack("<Bi", 3, value)


def i64(value: int) -> bytes:
    return struct.pack("<Bq", 4, value)


def f64(value: float) -> bytes:
    return struct.pack("<Bd", 6, value)


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Bi", 9, len(data)) + data


def floats(*values: float) -> bytes:
    return struct.pack(f"<Bi{len(values)}f", 16, len(values), *values)


def ints(*values: int) -> bytes:
    return struct.pack(f"<Bi{len(values)}i", 14, len(values), *values)


def decimal(digits: str) -> bytes:
    """As Java writes it: scale, then the magnitude with the sign in its first bit."""
    sign, figures, exponent = Decimal(digits).as_tuple()
    value = int("".join(map(str, figures)))
    magnitude = bytearray(value.to_bytes(value.bit_length() // 8 + 1, "big"))
    magnitude[0] |= 0x80 if sign and value else 0
    return b"\x1e" + struct.pack("<ii", -int(exponent), len(magnitude)) + bytes(magnitude)


def timestamp(nanos: int) -> bytes:
    return b"\x21" + struct.pack("<qi", *divmod(nanos, 1_000_000))


def collection(*values: bytes, kind: int = 1) -> bytes:
    return b"\x18" + struct.pack("<ib", len(values), kind) + b"".join(values)


def object_array(*values: bytes) -> bytes:
    return b"\x17" + struct.pack("<ii", -1, len(values)) + b"".join(values)


def mapping(*pairs: tuple[bytes, bytes]) -> bytes:
    return b"\x19" + struct.pack("<ib", len(pairs), 1) + b"".join(key + value for key, value in pairs)


def texts(*values: str | None) -> bytes:
    items = (NULL if value is None else text(value) for value in values)
    return b"\x14" + struct.pack("<i", len(values)) + b"".join(items)


def field_id(name: str) -> int:
    return _core.java_lower_hash(name)


def type_id(name: str) -> int:
    return _core.java_lower_hash(name)


def schema_id(names: Sequence[str]) -> int:
    """FNV over the field ids, as Ignite computes it."""
    value = 0x811C9DC5
    for name in names:
        for byte in struct.pack("<i", field_id(name)):
            value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@dataclass(frozen=True)
class Footer:
    """How an object says where its fields are."""

    compact: bool = True
    offset_size: int = 1
    raw: bytes = b""
    registered: bool = True


def object_hash(body: bytes) -> int:
    """Of everything between an object's header and its footer."""
    code = 1
    for byte in body:
        code = (31 * code + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
    return code


def binary_object(type_name: str, fields: Mapping[str, bytes], footer: Footer = Footer()) -> bytes:
    """One object (type code 103), its fields in the order of ``fields``."""
    body, offsets = b"", []
    start = 24
    if not footer.registered:
        body += text(type_name)
    for value in fields.values():
        offsets.append(start + len(body))
        body += value
    raw_offset = start + len(body)
    body += footer.raw
    schema_offset = start + len(body)
    flags = _USER | _HAS_SCHEMA | (_COMPACT if footer.compact else 0) | (_HAS_RAW if footer.raw else 0)
    flags |= {1: _OFFSET_1, 2: _OFFSET_2, 4: 0}[footer.offset_size]
    form = {1: "<B", 2: "<H", 4: "<I"}[footer.offset_size]
    hash_code = object_hash(body)
    for name, offset in zip(fields, offsets):
        body += b"" if footer.compact else struct.pack("<i", field_id(name))
        body += struct.pack(form, offset)
    if footer.raw:
        body += struct.pack("<i", raw_offset)
    identity = type_id(type_name) if footer.registered else 0
    head = struct.pack(
        "<BBHiIiii",
        103,
        1,
        flags,
        identity,
        hash_code,
        24 + len(body),
        schema_id(list(fields)),
        schema_offset,
    )
    return head + body


def wrapped(value: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    """The object as scans send it: type code 27, with other bytes around it if wanted."""
    data = before + value + after
    return struct.pack("<Bi", 27, len(data)) + data + struct.pack("<i", len(before))


def metadata(type_name: str, fields: Mapping[str, int], schemas: Sequence[Sequence[str]]) -> bytes:
    """The response of operation 3002."""
    data = b"\x01" + struct.pack("<i", type_id(type_name)) + text(type_name) + NULL
    data += struct.pack("<i", len(fields))
    for name, code in fields.items():
        data += text(name) + struct.pack("<ii", code, field_id(name))
    data += b"\x00" + struct.pack("<i", len(schemas))
    for names in schemas:
        data += struct.pack("<ii", schema_id(names), len(names))
        data += b"".join(struct.pack("<i", field_id(name)) for name in names)
    return data


def enum_metadata(type_name: str, values: Mapping[str, int]) -> bytes:
    """The response of operation 3002 for an enum."""
    data = b"\x01" + struct.pack("<i", type_id(type_name)) + text(type_name) + NULL + struct.pack("<i", 0)
    data += b"\x01" + struct.pack("<i", len(values))
    for name, ordinal in values.items():
        data += text(name) + struct.pack("<i", ordinal)
    return data + struct.pack("<i", 0)


def types(*responses: tuple[str, bytes]) -> dict[int, bytes]:
    return {type_id(name): response for name, response in responses}
