"""Damaged rows of every type: an error of ours or other values, never a crash, a hang or memory for a claim."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import struct
import time

import pytest

from ignite_strategy import _core, errors
from tests import binary
from tests.fuzz.mutations import mutate

ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "500")) * 8

COLOR = binary.type_id("Color")
ENUM = b"\x26" + struct.pack("<ii", COLOR, 1)
UUID = b"\x0a" + bytes(range(16))
SQL_DATE = bytes.fromhex("fe0f000000663aded5409766e803000000000000")
ITEM = binary.binary_object("Item", {"price": binary.f64(1.5), "name": binary.text("abc")})


def typed(code: int, *items: bytes, head: bytes = b"") -> bytes:
    return bytes([code]) + head + struct.pack("<i", len(items)) + b"".join(items)


# Field -> (the code of its column, bytes, options of the column)
FIELDS = {
    "byte": (1, binary.i8(5), {}),
    "int": (3, binary.i32(5), {}),
    "double": (6, binary.f64(0.5), {}),
    "text": (9, binary.text("kitten"), {}),
    "uuid": (10, UUID, {}),
    "date": (11, SQL_DATE, {}),
    "decimal": (30, binary.decimal("-123456789012345678901234567890.5"), {}),
    "money": (30, binary.decimal("12.5"), {"decimal_float64": True}),
    "stamp": (33, binary.timestamp(10**18 + 5), {}),
    "enum": (28, ENUM, {}),
    "named": (28, ENUM, {"enum_name": True}),
    "floats": (16, binary.floats(1, 2), {}),
    "texts": (20, binary.texts("a", None), {"item_mask": True}),
    "uuids": (21, typed(21, UUID, binary.NULL), {}),
    "stamps": (34, typed(34, binary.timestamp(5)), {}),
    "decimals": (31, typed(31, binary.decimal("0.5")), {}),
    "enums": (29, typed(29, ENUM, head=struct.pack("<i", COLOR)), {"enum_name": True}),
    "tags": (9, binary.collection(binary.text("x"), binary.NULL), {"repeated": 2, "item_mask": True}),
    "array": (3, binary.object_array(binary.i32(1), binary.i32(2)), {"repeated": 2}),
}
NESTED = {
    ("items", "price"): (6, {"repeated": 2}),
    ("items", "name"): (9, {"repeated": 2, "item_mask": True}),
    ("map", "keys"): (9, {"repeated": 2, "map": True}),
    ("map", "values", "name"): (9, {"repeated": 2, "map": True}),
    ("one", "price"): (6, {}),
    ("again", "name"): (9, {}),
}
CONTAINERS = {
    "items": binary.collection(ITEM, binary.wrapped(ITEM, b"\x00" * 3), binary.NULL),
    "map": binary.mapping((binary.text("k"), ITEM)),
    "one": ITEM,
    "again": b"\x66" + struct.pack("<i", len(ITEM)),
}
VALUES = {**{name: value for name, (_, value, _) in FIELDS.items()}, **CONTAINERS}
TYPES = {
    binary.type_id("All"): binary.metadata(
        "All", {name: value[0] for name, value in VALUES.items()}, [list(VALUES)]
    ),
    binary.type_id("Item"): binary.metadata("Item", {"price": 6, "name": 9}, [["price", "name"]]),
    COLOR: binary.enum_metadata("Color", {"RED": 0, "GREEN": 1}),
}


def columns(policy: int, layout: int = 2) -> list[tuple]:
    every = [(["key"], 3, -1, 0)]
    for name, (code, _, options) in FIELDS.items():
        every.append((["val", name], code, -1, layout, {"nulls": policy, **options}))
    for path, (code, options) in NESTED.items():
        every.append((["val", *path], code, -1, layout, {"nulls": policy, **options}))
    return every


def row(compact: bool = True, wrap: bool = True) -> bytes:
    value = binary.binary_object("All", VALUES, binary.Footer(compact, 2, b"\x03\x01raw"))
    return binary.i32(7) + (binary.wrapped(value, b"\x00" * 5) if wrap else value)


def damaged(good: bytes, seed: int):
    """Mutations anywhere, and extreme numbers written over four bytes, which keep the offsets after them right."""
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        if chance.random() < 0.3:
            yield mutate(good, chance)
            continue
        data = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(data) - 4)
            extreme = chance.choice(
                (0, 1, -1, 24, 101, 102, 2**31 - 1, -(2**31), 1 << 16, chance.getrandbits(31))
            )
            size = chance.choice((1, 4))
            data[at : at + size] = struct.pack("<i", extreme)[:size]
        yield bytes(data)


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("wrap", [True, False])
def test_the_rows_are_good_before_they_are_damaged(compact, wrap):
    key, *rest = _core.decode_rows(row(compact, wrap) * 2, 2, columns(2), TYPES)
    assert key.tolist() == [7, 7]
    assert len(rest) == len(FIELDS) + len(NESTED)
    (_, _, objects) = _core.describe_rows(row(compact, wrap), 1, TYPES)
    assert set(objects[binary.type_id("All")]["fields"]) == set(VALUES)


@pytest.mark.parametrize("policy", range(4), ids=["error", "default", "mask", "drop"])
@pytest.mark.parametrize("compact", [True, False])
def test_decoding(policy, compact):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes: dict[str, int] = {}
    wanted = columns(policy)
    for case in damaged(row(compact, policy % 2 == 0), seed=policy):
        start = time.monotonic()
        try:
            _core.decode_rows(case, 1, wanted, TYPES)
            outcome = "read"
        except errors.IgniteStrategyError as error:
            outcome = "references" if "references stand for" in str(error) else type(error).__name__
        assert time.monotonic() - start < 5, case.hex()
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    # What is in a row is data that contradicts itself, or of another type: never an error of another kind.
    assert set(outcomes) <= {
        "read",
        "DataLossError",
        "InvalidArgumentError",
        "UnsupportedError",
        "references",
    }
    assert {"DataLossError", "InvalidArgumentError"} <= set(outcomes), outcomes
    assert "read" in outcomes or policy == 0, outcomes  # there is a NULL in the row
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000


@pytest.mark.parametrize("compact", [True, False])
def test_discovery(compact):
    outcomes: dict[str, int] = {}
    for case in damaged(row(compact), seed=9):
        start = time.monotonic()
        try:
            _core.describe_rows(case, 1, TYPES)
            outcome = "read"
        except errors.IgniteStrategyError as error:
            outcome = type(error).__name__
        assert time.monotonic() - start < 5, case.hex()
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert set(outcomes) <= {"read", "DataLossError", "UnsupportedError"}, outcomes
    assert {"read", "DataLossError"} <= set(outcomes)


def test_metadata():
    for type_name in ("All", "Color"):
        good = TYPES[binary.type_id(type_name)]
        chance = random.Random(3)
        for _ in range(ROUNDS // 4):
            types = {**TYPES, binary.type_id(type_name): mutate(good, chance)}
            try:
                _core.decode_rows(row(), 1, columns(1), types)
                _core.describe_rows(row(), 1, types)
            except errors.IgniteStrategyError:
                pass


def test_references_cannot_make_discovery_endless():
    """Each object refers to the one before it twice: 2^30 of them, if they were all followed."""
    inner = binary.binary_object("P", {"a": binary.i32(1)}, binary.Footer(compact=False))
    body = inner
    for _ in range(30):
        reference = b"\x66" + struct.pack("<i", len(body))
        body = binary.binary_object(
            "P", {"a": body, "b": reference}, binary.Footer(compact=False, offset_size=4)
        )
    types = {binary.type_id("P"): binary.metadata("P", {"a": 103, "b": 103}, [])}
    start = time.monotonic()
    with contextlib.suppress(errors.DataLossError):
        _core.describe_rows(binary.i32(1) + body, 1, types)
    assert time.monotonic() - start < 20
