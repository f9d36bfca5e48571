"""Records what real nodes send: the seeds of ``make fuzz``.

    python -m tests.fuzz.record FOLDER [HOST:PORT]

A file is an int32 (what it is of, see ``native/parsers.h``), then parts: an int32 length and so many bytes.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import enum
import shutil
import struct
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ignite_strategy as igs
from ignite_strategy import _core
from ignite_strategy.dataset.columns import Column, Options
from ignite_strategy.dataset.schema import discover, select
from ignite_strategy.dataset.source import RAGGED, UNIFORM, Source, schema_endpoints
from ignite_strategy.dataset.sql import Statement, columns_of_statement, statement
from ignite_strategy.settings import parse_endpoint
from ignite_strategy.topology import caches
from tests import binary
from tests.fuzz.tap import Tap
from tests.raw import RawClient
from tests.values import VALUES
from tests.wire.scripted import accepted, refused, response, typed_string

ROWS, RESPONSE, METADATA, CONFIGURATION, HANDSHAKE, PARTITIONS = range(1, 7)
DISCOVERY, PASS, STATEMENT, OWNERS, DIRECTORY, FILE = range(7, 13)
_PAGE = 12
_MASKED = Options(nulls="mask")


class Color(enum.Enum):
    """An enum of the cluster's."""

    RED = 1
    GREEN = 2


def _everything(count: int) -> list[dict[str, Any]]:
    """Rows with a value of every kind, and NULLs."""
    rows = []
    for i in range(count):
        row = {
            "id": i,
            "flag": i % 2 == 0,
            "text": f"größe {i}",
            "u": uuid.UUID(int=i * 10**20),
            "dec": decimal.Decimal(i) ** 5 / 1000,
            "ts": datetime.datetime(2020, 1, 1, 0, 0, i, i),
            "day": datetime.date(2020, 1, 1 + i),
            "at": datetime.time(0, 0, i),
            "color": Color.GREEN if i % 2 else Color.RED,
            "floats": [0.5] * (i % 4),
            "texts": ["a", None, "é"][: i % 4],
            "times": [datetime.datetime(2020, 1, 1)] * (i % 2),
            "items": [{"p": k, "q": None if k % 2 else f"q{k}"} for k in range(i % 3)],
            "mapping": {k: f"v{k}" for k in range(i % 3)},
            "inner": {"x": i, "deep": {"y": i * 0.5, "z": [i] * (i % 2)}},
        }
        if i % 3 == 0:
            row.update(dict.fromkeys(("text", "u", "dec", "ts", "day", "color", "texts", "inner")))
        rows.append(row)
    return rows


def _raw(address: str, every: str, forms: str) -> None:
    """A cache with every type code, and one with every form of object; no Python client writes most of them."""
    with contextlib.closing(RawClient(address)) as raw:
        raw.put_enum("TypesColor", {"RED": 0, "GREEN": 1})
        fields = {f"f{code}": value for code, (value, _) in VALUES.items()}
        raw.put_object(every, binary.i32(1), every, {**fields, "last": binary.i32(9)})
        raw.put_object(
            every, binary.i32(2), every, {"last": binary.i32(9), **dict.fromkeys(fields, binary.NULL)}
        )
        raw.put_object(every, binary.i32(3), every, {"last": binary.i32(9)})

        item = f"{forms}Item"
        raw.put_type(item, {"price": 6, "name": 9}, [["price", "name"], ["name", "price"]])
        one = binary.binary_object(item, {"price": binary.f64(1.5), "name": binary.text("a")})
        other = binary.binary_object(
            item, {"name": binary.text("b"), "price": binary.NULL}, binary.Footer(raw=b"raw")
        )
        row = {
            "id": binary.i32(1),
            "tags": binary.collection(binary.text("x"), binary.NULL),
            "items": binary.collection(one, binary.wrapped(other, b"before", b"after"), binary.NULL),
            "array": binary.object_array(one, other),
            "map": binary.mapping((binary.text("k"), one)),
            "inner": one,
            "again": b"\x66" + struct.pack("<i", len(one)),
        }
        types = {"id": 3, "tags": 24, "items": 24, "array": 23, "map": 25, "inner": 103, "again": 103}
        raw.put_type(forms, types, [list(row), list(reversed(row)), ["id"]])
        without = {name: value for name, value in row.items() if name != "again"}
        footers = [
            binary.Footer(compact=compact, offset_size=size, raw=section)
            for compact, size, section in (
                (True, 2, b""),
                (False, 4, b"raw"),
                (False, 2, b""),
                (True, 4, b"raw"),
            )
        ]
        objects = [binary.binary_object(forms, row, footer) for footer in footers]
        objects.append(binary.binary_object(forms, dict(reversed(without.items())), binary.Footer(False, 2)))
        objects.append(binary.binary_object(forms, {"id": binary.i32(7)}))
        for key, value in enumerate(objects):
            raw.put(forms, binary.text(f"k{key}"), value)


def fill(address: str, stem: str) -> list[str]:
    """Creates some caches; returns their names."""
    host, port = parse_endpoint(address)
    names = [f"{stem}{number}" for number in range(5)]

    def write(name: str, data: Any, **options: Any) -> None:
        igs.write(name, data, host, port, create=True, partitions=1, **options)

    types = {"items": [{"p": "int", "q": "string"}], "mapping": "map<int,string>", "floats": "float[]"}
    write(
        names[0],
        _everything(_PAGE),
        key="id",
        types={**types, "times": "timestamp[]"},
        type_name=f"{stem}All",
    )
    small = {
        "id": range(_PAGE),
        "a": range(_PAGE),
        "b": [i * 0.5 for i in range(_PAGE)],
        "s": ["text"] * _PAGE,
    }
    write(names[1], small, key="id", type_name=f"{stem}Small")
    blobs = [b"\x01\x02" * i for i in range(_PAGE)]
    write(names[2], blobs, key=[f"k{i}" for i in range(_PAGE)], types={"val": "byte[]"})
    # Where offsets have two bytes.
    wide = {"a": ["x" * 300] * _PAGE, **{f"c{i:02}": [i] * _PAGE for i in range(20)}}
    write(names[3], wide, key=["c00", "c01"], type_name=f"{stem}Wide")
    with contextlib.closing(caches.connect([address])) as client:
        table = f"{stem}T"
        caches.sql(
            client, f'CREATE TABLE {table} (A INT PRIMARY KEY, B VARCHAR, D DATE) WITH "TEMPLATE=igs-p1-"'
        )
        caches.sql(client, f"INSERT INTO {table} VALUES (1, 'x', '2020-01-01'), (2, NULL, NULL)")
        caches.sql(client, f"ALTER TABLE {table} ADD COLUMN N DOUBLE")
        caches.sql(client, f"INSERT INTO {table} VALUES (3, 'y', NULL, 1.5), (4, 'z', NULL, NULL)")
        every, forms = f"{stem}Every", f"{stem}Forms"
        for name in (every, forms):
            caches.create_cache(client, name, partitions=1)
    _raw(address, every, forms)
    names[4] = f"SQL_PUBLIC_{table}"
    return [*names, every, forms]


def record(address: str, names: Sequence[str]) -> Iterator[tuple[str, int, list[bytes]]]:
    """Yields name, kind and parts of each recording."""
    host, port = parse_endpoint(address)
    yield "accepted", HANDSHAKE, [accepted()]
    yield "refused", HANDSHAKE, [refused((1, 2, 0))]
    with _core.Connection(host, port) as connection:
        for name in names:
            cache = struct.pack("<iB", _core.java_hash(name), 0)
            page = connection.call(
                2000, cache + b"\x65" + struct.pack("<iib", _PAGE, -1, 0), "recording a page"
            )
            rows = page[12:-1]
            yield f"{name}-response", RESPONSE, [response((1, 7, 0), 1, page, (5, 0))]
            yield (
                f"{name}-configuration",
                CONFIGURATION,
                [connection.call(1055, cache, "recording a configuration")],
            )
            ids = struct.pack("<i", _core.java_hash(name))
            yield (
                f"{name}-partitions",
                PARTITIONS,
                [connection.call(1101, b"\x01\0\0\0" + ids, "recording"), ids],
            )
            types = []
            for type_name in _type_names(host, port, name):
                type_id = struct.pack("<i", _core.java_lower_hash(type_name))
                metadata = connection.call(3002, type_id, "recording a type")
                types += [type_id, metadata]
                yield f"{name}-{type_name}-type", METADATA, [metadata]
            for number, (options, layout) in enumerate(_READINGS):
                yield (
                    f"{name}-rows-{number}",
                    ROWS,
                    [_config(host, port, name, options, layout), rows, *types],
                )


def conversations(address: str, names: Sequence[str], stem: str) -> Iterator[tuple[str, int, list[bytes]]]:
    """The same for whole conversations, of what a client asks for and each answer to it, as they were on the wire."""
    host, port = parse_endpoint(address)
    for name in names:
        with Tap(host, port) as tap:
            _core.discover("127.0.0.1", tap.port, name)
            yield f"{name}-discovery", DISCOVERY, _conversation(_config(host, port, name), tap)
        with Tap(host, port) as tap:
            _core.owners("127.0.0.1", tap.port, name)
            _statement(tap, _REGIONS, 1024)
            yield f"{name}-owners", OWNERS, _conversation(_config(host, port, name), tap)
        with Tap(host, port) as tap, _core.Connection("127.0.0.1", tap.port) as connection:
            cache = struct.pack("<iB", _core.java_hash(name), 0)
            page = connection.call(2000, cache + b"\x65" + struct.pack("<iib", 4, -1, 0), "recording a pass")
            cursor = page[:8]
            while page[-1]:
                page = connection.call(2001, cursor, "recording a pass")
            for type_name in _type_names(host, port, name):
                connection.call(3002, struct.pack("<i", _core.java_lower_hash(type_name)), "recording a type")
            for number, (options, layout) in enumerate(_READINGS):
                config = _config(host, port, name, options, layout)
                yield f"{name}-pass-{number}", PASS, _conversation(config, tap)
    for number, text in enumerate(
        (f"SELECT * FROM PUBLIC.{stem}T", f"SELECT B, D FROM PUBLIC.{stem}T ORDER BY A")
    ):
        with Tap(host, port) as tap:
            _statement(tap, text, 2)
            yield (
                f"{stem}-statement-{number}",
                STATEMENT,
                _conversation(_statement_config(host, port, text), tap),
            )
    yield from _files(host, port, stem)


# What is asked for when a node has left; see scan/losses.cc.
_REGIONS = "SELECT NAME, VALUE FROM SYS.CONFIGURATION WHERE NAME LIKE 'DataStorageConfiguration.%'"


def _conversation(config: bytes, tap: Tap) -> list[bytes]:
    parts = [config]
    for operation, request, message in tap.answers:
        # One type's answer is no good for another one, nor is one key's.
        parts += [struct.pack("<i", operation) + (request if operation in (1000, 3002) else b""), message]
    return parts


def _statement(tap: Tap, text: str, page: int) -> None:
    request = (
        struct.pack("<iB", 0, 0) + typed_string("PUBLIC") + struct.pack("<ii", page, -1) + typed_string(text)
    )
    request += (
        struct.pack("<iB", 0, 1) + bytes(5) + b"\x01" + struct.pack("<qB", 0, 1) + struct.pack("<ii", -1, 1)
    )
    with _core.Connection("127.0.0.1", tap.port) as connection:
        answer = connection.call(2004, request, "recording a statement")
        cursor = answer[:8]
        while answer[-1]:
            answer = connection.call(2005, cursor, "recording a statement")


def _statement_config(host: str, port: int, text: str) -> bytes:
    wanted = statement(text, (), "PUBLIC", every_task=True)
    source = replace(_source("", host, port, sql=wanted), value_type=(0, 0, False))
    names, columns, size = columns_of_statement(source, wanted, Options(nulls="mask"))
    return replace(source, sql=replace(wanted, columns=names)).config(columns, RAGGED, size)


def _files(host: str, port: int, stem: str) -> Iterator[tuple[str, int, list[bytes]]]:
    name = f"{stem.lower()}fs"
    files = _core.FileSystem(host, port, name)
    files.mkdir("/folder")
    for path, data in (("/file", b"0123456789abcdef" * 4096), ("/folder/empty", b""), ("/file-2", b"x")):
        writer = files.open_write(path, "w")
        writer.write(data)
        writer.close()
    config = _source(name, host, port).config([Column(("key",), 4)], UNIFORM, 0.0)
    with Tap(host, port) as tap:
        tapped = _core.FileSystem("127.0.0.1", tap.port, name)
        assert len(tapped.list("/")) == 3
        yield f"{name}-directory", DIRECTORY, _conversation(config, tap)
    with Tap(host, port) as tap:
        tapped = _core.FileSystem("127.0.0.1", tap.port, name)
        assert len(tapped.open_read("/file").read_at(0, 1 << 16)) == 1 << 16
        yield f"{name}-file", FILE, _conversation(config, tap)


_READINGS = [
    (_MASKED, RAGGED),
    (Options(nulls="default", decimal="float64", enum="name", timestamp="ms"), RAGGED),
    (Options(nulls="drop"), UNIFORM),
    (Options(nulls="default"), UNIFORM),
]


def _type_names(host: str, port: int, name: str) -> list[str]:
    facts = _core.discover(host, port, name)
    found: set[str] = set()

    def walk(description: Any) -> None:
        if isinstance(description, dict):
            found.update(each for each in description.get("types", ()) if isinstance(each, str))
            for inner in description.values():
                walk(inner)
        elif isinstance(description, (list, tuple)):
            for inner in description:
                walk(inner)

    walk({key: value for key, value in facts.items() if key != "types"})
    return sorted({*found, *facts["types"], Color.__name__, "TypesColor", f"{name}Item"})


def _source(name: str, host: str, port: int, sql: Statement | None = None) -> Source:
    return Source.of(
        name,
        host,
        port,
        local=False,
        part=None,
        partitions=None,
        page_size=_PAGE,
        env=False,
        timeouts=None,
        sql=sql,
    )


def _config(host: str, port: int, name: str, options: Options = _MASKED, layout: int = RAGGED) -> bytes:
    source = _source(name, host, port)
    schema = discover(name, schema_endpoints(source, None, None), options=options, env=False)
    source = replace(source, value_type=schema.value_type)
    return source.config(select(schema, None), layout, schema.bytes_per_row)


def save(folder: Path, address: str, stem: str) -> int:
    """Records into an empty ``folder``; returns how many recordings there are."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    count = 0
    names = fill(address, stem)
    for name, kind, parts in (*record(address, names), *conversations(address, names, stem)):
        body = b"".join(struct.pack("<i", len(part)) + part for part in parts)
        (folder / f"{name}.seed").write_bytes(struct.pack("<i", kind) + body)
        count += 1
    return count


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if len(sys.argv) > 2:
        recorded = save(target, sys.argv[2], "FUZZ")
    else:
        with igs.LocalCluster(nodes=2) as cluster:
            recorded = save(target, cluster.addresses[0], "FUZZ")
    print(f"{recorded} recordings in {target}")
