"""Archives in the registry: written piece by piece by a client, read by agents, removed with their job."""

from __future__ import annotations

import base64
import binascii

from ignite_strategy.errors import DataLossError, NotFoundError
from ignite_strategy.runtime.registry import Registry
from ignite_strategy.runtime.scripts.archive import digest_of
from ignite_strategy.runtime.scripts.records import ARCHIVES, ArchiveRecord, piece_key

__all__ = ["fetch", "remove", "upload"]


def upload(registry: Registry, job: str, data: bytes) -> ArchiveRecord:
    """Writes an archive."""
    record = ArchiveRecord.of(digest_of(data), len(data))
    # First what the pieces are found by: a client that ends in between leaves nothing that cannot be removed.
    registry.put(f"{ARCHIVES}/{job}", record.to_json())
    for number in range(record.pieces):
        piece = data[number * record.piece_size : (number + 1) * record.piece_size]
        registry.put(piece_key(job, number), {"data": base64.b64encode(piece).decode()})
    return record


def fetch(registry: Registry, job: str, record: ArchiveRecord) -> bytes:
    """Reads an archive that a signed request describes; its digest is the reader's to check.

    Raises:
      NotFoundError: It is not there any more.
      DataLossError: It is another one.
    """
    data = bytearray()
    for number in range(record.pieces):
        value = registry.get(piece_key(job, number))
        if value is None:
            raise NotFoundError(f"piece {number} of {record.pieces} of the folder of job {job} is gone")
        try:
            data += base64.b64decode(str(value["data"]), validate=True)
        except (KeyError, binascii.Error) as error:
            raise DataLossError(f"piece {number} of the folder of job {job} cannot be read") from error
        if len(data) > record.size:
            break
    if len(data) != record.size:
        raise DataLossError(
            f"the folder of job {job} has {len(data)} bytes in the registry, not {record.size}"
        )
    return bytes(data)


def remove(registry: Registry, job: str) -> None:
    """Removes an archive; does nothing if there is none."""
    value = registry.get(f"{ARCHIVES}/{job}")
    if value is None:
        return
    for number in range(ArchiveRecord.from_json(value).pieces):
        registry.delete(piece_key(job, number))
    registry.delete(f"{ARCHIVES}/{job}")
