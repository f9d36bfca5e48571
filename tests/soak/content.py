"""Contents that tell whether they are whole, and what their writers say that they have published.

A file is a sequence of records, each with a checksum and the text ``path|version|number|all``. A file that is replaced
has ``all`` records of one version; one that is extended has the records from 0 on, and ``all`` is 0.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HEAD = struct.Struct("<32sI")


class BrokenError(Exception):
    """Content that no writer has published."""


@dataclass(frozen=True)
class Content:
    """What a file says of itself.

    Attributes:
      owner: The path under which it was written; it may have been renamed since.
      version: Of a file that is replaced.
      records: How many there are.
      extended: Whether it is one that grows.
    """

    owner: str
    version: int
    records: int
    extended: bool


def record(owner: str, version: int, number: int, whole: int, size: int) -> bytes:
    """One record with ``size`` bytes beside its text."""
    text = f"{owner}|{version}|{number}|{whole}\n".encode()
    noise = random.Random(f"{owner}{version}{number}").randbytes(size)
    payload = text + noise
    return _HEAD.pack(hashlib.sha256(payload).digest(), len(payload)) + payload


def replaced(owner: str, version: int, records: int, size: int) -> Iterator[bytes]:
    """The records of one version."""
    return (record(owner, version, number, records, size) for number in range(records))


def parse(data: bytes, where: str) -> Content:
    """What ``data`` is.

    Raises:
      BrokenError: It is not what a writer has published, but a part or a mixture.
    """
    found: list[tuple[str, int, int, int]] = []
    at = 0
    while at < len(data):
        if len(data) - at < _HEAD.size:
            raise BrokenError(f"{where}: {len(data) - at} bytes of a record's head at {at}")
        digest, size = _HEAD.unpack_from(data, at)
        payload = data[at + _HEAD.size : at + _HEAD.size + size]
        if len(payload) < size:
            raise BrokenError(f"{where}: {len(payload)} of {size} bytes of record {len(found)} at {at}")
        if hashlib.sha256(payload).digest() != digest:
            raise BrokenError(f"{where}: record {len(found)} at {at} has other bytes than were written")
        owner, version, number, whole = payload[: payload.index(b"\n")].decode().split("|")
        found.append((owner, int(version), int(number), int(whole)))
        at += _HEAD.size + size
    if not found:
        return Content("", 0, 0, False)
    owner, version, _, whole = found[0]
    numbers = [each[2] for each in found]
    if numbers != list(range(len(found))):
        raise BrokenError(f"{where}: the records are {numbers[:20]}")
    if {(each[0], each[3]) for each in found} != {(owner, whole)}:
        raise BrokenError(f"{where}: records of several files")
    if whole and ({each[1] for each in found} != {version} or len(found) != whole):
        raise BrokenError(
            f"{where}: {len(found)} of {whole} records, of versions {sorted({e[1] for e in found})}"
        )
    return Content(owner, version, len(found), not whole)


class Journal:
    """What one writer intends and what it has published, on local disk; outlives the writer."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  (ends with the process)

    def say(self, kind: str, owner: str, version: int) -> None:
        """Notes ``intends`` or ``published``: whole lines, whatever kills the process."""
        self._file.write(json.dumps([kind, owner, version]).encode() + b"\n")
        if kind == "published":
            os.fsync(self._file.fileno())


def told(path: Path) -> dict[str, tuple[int, int]]:
    """Per owner the last version that was published, and the last that was intended."""
    found: dict[str, tuple[int, int]] = {}
    for line in path.read_bytes().split(b"\n"):
        if not line.endswith(b"]"):
            continue
        kind, owner, version = json.loads(line)
        published, intended = found.get(owner, (-1, -1))
        found[owner] = (version, max(intended, version)) if kind == "published" else (published, version)
    return found
