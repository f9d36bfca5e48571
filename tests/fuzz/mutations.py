"""Seeded damage to byte strings: the same seed always gives the same cases."""

from __future__ import annotations

import random
from collections.abc import Iterator

_INTERESTING = [
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x80",
    b"\xff\xff\xff\x7f",
    b"\x00\x00\x00\x40",
    b"\x01\x00\x00\x00",
    b"\x65",
]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """One to four of: a flipped bit, an extreme value, a cut end, a piece removed, doubled or inserted."""
    result = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        at = chance.randrange(len(result) + 1) if result else 0
        size = chance.choice([1, 1, 4, 8])
        kind = chance.randrange(6)
        if kind == 0 and at < len(result):
            result[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            value = chance.choice(_INTERESTING)
            result[at : at + len(value)] = value
        elif kind == 2:
            del result[at:]
        elif kind == 3:
            del result[at : at + size]
        elif kind == 4:
            result[at:at] = result[at : at + size]
        else:
            result[at:at] = chance.randbytes(size)
    return bytes(result)


def mutations(data: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Every truncation and every flipped bit of ``data``, then ``count`` random mutations."""
    for size in range(len(data)):
        yield data[:size]
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)
    chance = random.Random(seed)
    for _ in range(count):
        yield mutate(data, chance)
