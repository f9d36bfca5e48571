"""Puts, gets and transactions as bytes, several requests in flight: what the protocol gives to any client."""

import os
import random
import struct

import child
from drain_raw import Wire, cache_id

PUT, GET, REMOVE, TX_START, TX_END = 1001, 1000, 1016, 4000, 4001
MIB, BLOCK, DEPTH = 1 << 20, 1 << 19, 4
BLOCKS, TREE = "RAW_BLOCKS", "RAW_TREE"
IN_TRANSACTION = 2


class Pump(Wire):
    """Protocol 1.5, which has transactions, with several requests in flight."""

    version = struct.pack("<hhh", 1, 5, 0)

    def send(self, op, *parts):
        size = 10 + sum(map(len, parts))
        self.socket.sendall(struct.pack("<ihq", size, op, 1) + b"".join(parts[:-1]))
        self.socket.sendall(parts[-1])

    def reply(self):
        body = self.answer()
        (flags,) = struct.unpack_from("<h", body, 8)
        if flags & 1:
            raise RuntimeError(f"an error: {bytes(body[:300])!r}")
        return body

    def pump(self, requests, depth=DEPTH):
        waiting = received = 0
        for request in requests:
            self.send(*request)
            waiting += 1
            if waiting >= depth:
                received, waiting = received + len(self.reply()), waiting - 1
        while waiting:
            received, waiting = received + len(self.reply()), waiting - 1
        return received


def key(number):
    return struct.pack("<bqq", 10, 4711, number)  # a UUID, as the blocks of a file have


def put_blocks(wire, count):
    head, block = struct.pack("<iB", cache_id(BLOCKS), 0), os.urandom(BLOCK)
    size = struct.pack("<bi", 12, BLOCK)
    wire.pump((PUT, head + key(number) + size, block) for number in range(count))


def get_blocks(wire, numbers):
    head = struct.pack("<iB", cache_id(BLOCKS), 0)
    return wire.pump((GET, head, key(number)) for number in numbers)


def write(request):
    wire = Pump(request["host"], request["port"])

    def run():
        put_blocks(wire, request["rows"] * MIB // BLOCK)
        return request["rows"], request["rows"] * MIB

    return run


def read(request):
    wire = Pump(request["host"], request["port"])
    put_blocks(wire, request["rows"] * MIB // BLOCK)

    def run():
        return request["rows"], get_blocks(wire, range(request["rows"] * MIB // BLOCK))

    return run


def pieces(request):
    """As many bytes as the pieces have, in whole blocks from anywhere."""
    wire = Pump(request["host"], request["port"])
    blocks = request["file"] * MIB // BLOCK
    put_blocks(wire, blocks)

    def run():
        some = [random.randrange(blocks) for _ in range(request["rows"] * MIB // BLOCK)]
        return request["rows"], get_blocks(wire, some)

    return run


def put_record(wire, number, transaction=None):
    flags = struct.pack("<iB", cache_id(TREE), 0)
    if transaction is not None:
        flags = struct.pack("<iBi", cache_id(TREE), IN_TRANSACTION, transaction)
    return (PUT, flags + key(number), struct.pack("<bi", 12, 64) + bytes(64))


def stat(request):
    """One small value after the other."""
    wire = Pump(request["host"], request["port"])
    wire.pump([put_record(wire, 1)])
    head = struct.pack("<iB", cache_id(TREE), 0)

    def run():
        wire.pump(((GET, head, key(1)) for _ in range(request["rows"])), depth=1)
        return request["rows"], None

    return run


def transactions(request):
    """Reads some records in a transaction, writes some, commits: OPTIMISTIC SERIALIZABLE, as igfs does."""
    wire = Pump(request["host"], request["port"])
    reads, writes, removes = request["reads"], request["writes"], request["removes"]
    start = struct.pack("<bbqb", 0, 2, 20_000, 101)

    def once(number):
        body = wire_call(wire, TX_START, start)
        (flags,) = struct.unpack_from("<h", body, 8)
        (identity,) = struct.unpack_from("<i", body, 22 if flags & 2 else 10)  # behind a change of topology
        head = struct.pack("<iBi", cache_id(TREE), IN_TRANSACTION, identity)
        wire.pump([(GET, head, key(number * 10 + at)) for at in range(reads)], depth=reads)
        changes = [put_record(wire, number * 10 + at, identity) for at in range(writes)]
        changes += [(REMOVE, head, key(number * 10 + writes + at)) for at in range(removes)]
        wire.pump(changes, depth=len(changes))
        wire_call(wire, TX_END, struct.pack("<ib", identity, 1))

    def run():
        for number in range(request["rows"]):
            once(number)
        return request["rows"], None

    return run


def wire_call(wire, op, payload):
    wire.send(op, b"", payload)
    return wire.reply()


def both(request):
    """Megabytes put and got."""
    wire = Pump(request["host"], request["port"])
    blocks = request["rows"] * 1_000_000 // BLOCK

    def run():
        put_blocks(wire, blocks)
        get_blocks(wire, range(blocks))
        return request["rows"], None

    return run


DRAINS = {
    "write": write,
    "read": read,
    "both": both,
    "pieces": pieces,
    "stat": stat,
    "transactions": transactions,
}

if __name__ == "__main__":
    child.serve(lambda request: DRAINS[request["drain"]](request))
