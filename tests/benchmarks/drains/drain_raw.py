"""The pages of a scan as bytes, nothing decoded: what the protocol gives to any client."""

import socket
import struct

import child

SCAN, NEXT_PAGE = 2000, 2001


def cache_id(name):
    value = 0
    data = name.encode("utf-16-le")
    for (unit,) in struct.iter_unpack("<H", data):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


class Wire:
    """One request at a time; the buffer of an answer is used again for the next."""

    version = struct.pack("<hhh", 1, 2, 0)

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(1 << 22)
        self.socket.sendall(struct.pack("<ib", 8, 1) + self.version + b"\2")
        if self.answer()[0] != 1:
            raise ConnectionError("the handshake was refused")

    def exactly(self, size):
        if size > len(self.buffer):
            self.buffer = bytearray(size + (size >> 2))
        view, have = memoryview(self.buffer)[:size], 0
        while have < size:
            got = self.socket.recv_into(view[have:])
            if not got:
                raise EOFError("the server closed the connection")
            have += got
        return view

    def answer(self):
        (size,) = struct.unpack("<i", self.exactly(4))
        return self.exactly(size)

    def call(self, op, payload):
        self.socket.sendall(struct.pack("<ihq", 10 + len(payload), op, 1) + payload)
        body = self.answer()
        (status,) = struct.unpack_from("<i", body, 8)
        if status:
            raise RuntimeError(f"status {status}: {bytes(body[12:400])!r}")
        return body


def drain(wire, cache, page, partition=-1):
    rows = size = 0
    body = wire.call(SCAN, struct.pack("<iBBiiB", cache_id(cache), 0, 101, page, partition, 0))
    cursor, count = struct.unpack_from("<qi", body, 12)
    while True:
        rows, size = rows + count, size + len(body)
        if not body[-1]:
            return rows, size
        body = wire.call(NEXT_PAGE, struct.pack("<q", cursor))
        (count,) = struct.unpack_from("<i", body, 12)


def prepare(request):
    wire = Wire(request["host"], request["port"])
    return lambda: drain(wire, request["cache"], request["page"])


if __name__ == "__main__":
    child.serve(prepare)
