"""Reading the few thin-protocol responses that the topology needs, with every length checked."""

from __future__ import annotations

import struct
import uuid

from ignite_strategy.errors import DataLossError

__all__ = ["PayloadReader"]

_NULL = 101
_STRING = 9
_UUID = 10


class PayloadReader:
    """Takes little-endian values off a response payload.

    Args:
      data: The payload.
      what: What it is, for the message of an error.
    """

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._at = 0
        self._what = what

    def _take(self, form: str) -> int:
        size = struct.calcsize(form)
        if self._at + size > len(self._data):
            raise DataLossError(
                f"the response to {self._what} ends at byte {len(self._data)} in the middle of a value"
            )
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += size
        return int(value)

    def u8(self) -> int:
        """An unsigned byte."""
        return self._take("<B")

    def i32(self) -> int:
        """A signed 32-bit integer."""
        return self._take("<i")

    def i64(self) -> int:
        """A signed 64-bit integer."""
        return self._take("<q")

    def count(self, item_bytes: int) -> int:
        """The length of a list whose items take at least ``item_bytes`` each."""
        value = self.i32()
        if value < 0 or value * item_bytes > len(self._data) - self._at:
            raise DataLossError(
                f"the response to {self._what} announces {value} items, more than it has bytes for"
            )
        return value

    def string(self) -> str | None:
        """A string with its type code; ``None`` for null."""
        code = self.u8()
        if code == _NULL:
            return None
        if code != _STRING:
            raise DataLossError(f"the response to {self._what} has type code {code} where a string belongs")
        size = self.count(1)
        text = self._data[self._at : self._at + size].decode("utf-8", "replace")
        self._at += size
        return text

    def raw_uuid(self) -> str:
        """A UUID without its type code."""
        high, low = self.i64(), self.i64()
        mask = (1 << 64) - 1
        return str(uuid.UUID(int=(high & mask) << 64 | low & mask))

    def typed_uuid(self) -> str:
        """A UUID with its type code."""
        code = self.u8()
        if code != _UUID:
            raise DataLossError(f"the response to {self._what} has type code {code} where a node id belongs")
        return self.raw_uuid()
