"""A thin-client server that plays a script: for the faults that a real Ignite node cannot be made to show.

::

    def script(peer):
        peer.handshake()                       # any version, see Peer.handshake
        request = peer.request()
        peer.answer(request, b"payload")
        peer.close()                           # returning closes too

    with ScriptedServer(script) as server:
        ignite_strategy._core.Connection(server.host, server.port)

``serve`` answers by operation code; :class:`Cursors` adds scans and notes a client that has two requests
outstanding on one cursor, which a real server answers with lost rows rather than with an error.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

NODE_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
NEWEST = (1, 7, 0)
NODE_ENDPOINTS, BINARY_CONFIGURATION = 3, 8

SCAN, NEXT_PAGE, CLOSE = 2000, 2001, 0


class ClientGone(Exception):
    """The client closed its end; ends a script quietly."""


class ScriptError(AssertionError):
    """The client did what the script does not allow."""


@dataclass(frozen=True)
class Failure:
    """An answer that is an error of the server."""

    status: int
    message: str = "scripted"


@dataclass(frozen=True)
class Request:
    op: int
    id: int
    payload: bytes


def typed_string(text: str) -> bytes:
    data = text.encode()
    return b"\x09" + struct.pack("<i", len(data)) + data


def typed_uuid(value: uuid.UUID) -> bytes:
    return b"\x0a" + struct.pack("<QQ", value.int >> 64, value.int & (1 << 64) - 1)


def typed_bytes(data: bytes) -> bytes:
    return b"\x0c" + struct.pack("<i", len(data)) + data


def feature_mask(features: Sequence[int]) -> bytes:
    mask = sum(1 << bit for bit in features)
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def frame(body: bytes) -> bytes:
    return struct.pack("<i", len(body)) + body


def accepted(
    version: tuple[int, int, int] = NEWEST,
    node_id: uuid.UUID = NODE_ID,
    features: Sequence[int] = (NODE_ENDPOINTS, BINARY_CONFIGURATION),
) -> bytes:
    """The body of a handshake answer that agrees."""
    body = b"\x01"
    if version >= (1, 7, 0):
        body += typed_bytes(feature_mask(features))
    if version >= (1, 4, 0):
        body += typed_uuid(node_id)
    return body


def refused(offered: tuple[int, int, int], message: str = "Unsupported version.", code: int = 1) -> bytes:
    """The body of a handshake answer that offers another version."""
    return b"\x00" + struct.pack("<hhh", *offered) + typed_string(message) + struct.pack("<i", code)


def response(
    version: tuple[int, int, int],
    request_id: int,
    answer: bytes | Failure,
    topology: tuple[int, int] | None = None,
) -> bytes:
    """The body of a response, in the layout of ``version``."""
    failed = isinstance(answer, Failure)
    if version < (1, 4, 0):
        head = struct.pack("<qi", request_id, answer.status if isinstance(answer, Failure) else 0)
    else:
        head = struct.pack("<qh", request_id, (1 if failed else 0) | (2 if topology else 0))
        if topology:
            head += struct.pack("<qi", *topology)
        if isinstance(answer, Failure):
            head += struct.pack("<i", answer.status)
    return head + (typed_string(answer.message) if isinstance(answer, Failure) else answer)


class Peer:
    """One client's connection, seen from the script."""

    def __init__(self, server: ScriptedServer, connection: socket.socket, index: int) -> None:
        self.server = server
        self.socket = connection
        self.index = index  # 0 for the first connection to this server
        self.version = NEWEST
        self.asked_features = b""
        self.announce: tuple[int, int] | None = (5, 0)  # the topology that the next response tells

    def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except OSError as error:
                raise ClientGone from error
            if not part:
                raise ClientGone
            data += part
        return bytes(data)

    def read_frame(self) -> bytes:
        (size,) = struct.unpack("<i", self.read(4))
        return self.read(size)

    def request(self) -> Request:
        body = self.read_frame()
        op, request_id = struct.unpack_from("<hq", body)
        return Request(op, request_id, body[10:])

    def scan_request(self) -> Request:
        """The first scan; what a pass asks before it is unknown here, as to a server that lacks the operations."""
        while (request := self.request()).op != SCAN:
            self.answer(request, Failure(2, f"operation {request.op}"))
        return request

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise ClientGone from error

    def send_slowly(self, data: bytes, pause: float = 0.001) -> None:
        """Byte by byte."""
        for at in range(len(data)):
            self.send(data[at : at + 1])
            time.sleep(pause)

    def send_frame(self, body: bytes) -> None:
        self.send(frame(body))

    def read_handshake(self) -> tuple[int, int, int]:
        body = self.read_frame()
        kind, major, minor, patch, client = struct.unpack_from("<bhhhb", body)
        if kind != 1 or client != 2:
            raise ScriptError(f"not a thin client's handshake: {body.hex()}")
        if (major, minor) >= (1, 7):
            if body[8] != 12:
                raise ScriptError(f"no feature mask in {body.hex()}")
            self.asked_features = body[13:]
        return major, minor, patch

    def handshake(self, newest: tuple[int, int, int] = NEWEST, node_id: uuid.UUID = NODE_ID) -> None:
        """Agrees to ``newest`` or less, else offers ``newest`` and ends this connection."""
        asked = self.read_handshake()
        if asked > newest:
            self.send_frame(refused(newest))
            raise ClientGone
        self.version = asked
        self.send_frame(accepted(asked, node_id))

    def response(self, request: Request, answer: bytes | Failure) -> bytes:
        """The bytes of a response; the first one of a connection tells the topology, as real servers do."""
        topology = self.announce if self.version >= (1, 4, 0) else None
        self.announce = None
        return frame(response(self.version, request.id, answer, topology))

    def answer(self, request: Request, answer: bytes | Failure) -> None:
        self.send(self.response(request, answer))

    def serve(self, handlers: Mapping[int, Callable[[Request], bytes | Failure]]) -> None:
        """Answers requests until the client closes."""
        while True:
            request = self.request()
            handler = handlers.get(request.op)
            self.answer(request, handler(request) if handler else Failure(2, f"operation {request.op}"))

    def wait_for_close(self) -> None:
        """Sends nothing more and waits until the client is gone."""
        with contextlib.suppress(ClientGone):
            while True:
                self.read(1)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def reset(self) -> None:
        """Closes with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class ScriptedServer:
    """Listens on a free port and runs ``script`` for each connection in a thread.

    What a script raises, other than by the client's leaving, is raised again by ``close``.
    """

    def __init__(self, script: Callable[[Peer], None], host: str = "127.0.0.1", port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family)
        self.host: str = host
        self.port: int = self._listener.getsockname()[1]
        self.peers: list[Peer] = []
        self.errors: list[BaseException] = []
        self._script = script
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def connections(self) -> int:
        return len(self.peers)

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = Peer(self, connection, len(self.peers))
            self.peers.append(peer)
            thread = threading.Thread(target=self._run, args=(peer,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, peer: Peer) -> None:
        try:
            self._script(peer)
        except ClientGone:
            pass
        except BaseException as error:
            self.errors.append(error)
        finally:
            peer.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(5)  # it may be about to start another thread
        for peer in self.peers:
            peer.close()
        for thread in self._threads:
            thread.join(5)
        if self.errors:
            raise self.errors[0]

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            with contextlib.suppress(BaseException):
                self.close()


CONFIGURATION, CACHE_SIZE, PARTITIONS, NODES = 1055, 1020, 1101, 5102


@dataclass
class Cluster:
    """What every node of a scripted cluster says of it; change it and let a response announce that.

    Attributes:
      nodes: Id, host and port of each.
      primary: Per partition an index into ``nodes``.
      cache_id: Of the one cache there is.
      backups: Of that cache.
      rows: Likewise.
      version: The topology version.
    """

    nodes: list[tuple[uuid.UUID, str, int]]
    primary: list[int]
    cache_id: int
    backups: int = 0
    rows: int = 100
    version: tuple[int, int] = (5, 0)

    def handlers(self) -> dict[int, Callable[[Request], bytes | Failure]]:
        return {
            CONFIGURATION: lambda _: self._configuration(),
            CACHE_SIZE: lambda _: struct.pack("<q", self.rows),
            PARTITIONS: lambda _: self._partitions(),
            NODES: lambda _: self._nodes(),
        }

    def _configuration(self) -> bytes:
        ignore, partitioned = 4, 2
        head = struct.pack("<iii?", 1, self.backups, partitioned, True) + typed_string("") + b"\x01\x00"
        body = head + typed_string("") + struct.pack("<qii", 0, 500, 1024) + typed_string("C") + b"\x00"
        body += struct.pack("<i", ignore)
        return struct.pack("<i", len(body)) + body

    def _partitions(self) -> bytes:
        body = struct.pack("<qii?iii", *self.version, 1, True, 1, self.cache_id, 0)
        body += struct.pack("<i", len(self.nodes))
        for index, (node_id, _, _) in enumerate(self.nodes):
            own = [part for part, owner in enumerate(self.primary) if owner == index]
            body += typed_uuid(node_id) + struct.pack(f"<i{len(own)}i", len(own), *own)
        return body

    def _nodes(self) -> bytes:
        body = struct.pack("<qi", self.version[0], len(self.nodes))
        for node_id, host, port in self.nodes:
            body += typed_uuid(node_id)[1:] + struct.pack("<ii", port, 1) + typed_string(host)
        return body + struct.pack("<i", 0)


@dataclass
class Cursors:
    """Answers scans, and fails the client that has two requests outstanding on one cursor.

    Attributes:
      pages: For each partition (-1 = all) the pages, each a list of rows: the bytes of a typed key and value.
      think: How long the server takes for each answer, in seconds: time for a second request to be noticed.
      close_after: Close the connection instead of answering once so many pages were sent.
      node_id: Of the node that this is.
      before_page: Called with the number of pages sent and the client's connection before each page; may return
        a failure to be answered instead.
    """

    pages: Mapping[int, Sequence[Sequence[bytes]]]
    think: float = 0.02
    close_after: int | None = None
    node_id: uuid.UUID = NODE_ID
    before_page: Callable[[int, Peer], Failure | None] = lambda sent, peer: None
    handlers: Mapping[int, Callable[[Request], bytes | Failure]] = field(default_factory=dict)
    open_cursors: dict[int, list[Sequence[bytes]]] = field(default_factory=dict)
    scans: list[tuple[int, int, int]] = field(default_factory=list)  # cache id, page size, partition
    page_requests: int = 0
    sent: int = 0

    def script(self, peer: Peer) -> None:
        peer.handshake(node_id=self.node_id)
        requests: queue.Queue[Request | None] = queue.Queue()
        busy: dict[int, int] = {}
        reading = threading.Thread(target=self._read, args=(peer, requests, busy), daemon=True)
        reading.start()
        while (request := requests.get()) is not None:
            time.sleep(self.think)
            if (
                request.op in (SCAN, NEXT_PAGE)
                and self.close_after is not None
                and self.sent >= self.close_after
            ):
                return
            refusal = self.before_page(self.sent, peer) if request.op in (SCAN, NEXT_PAGE) else None
            answer = refusal or self._answer(request)
            if request.op == NEXT_PAGE:
                (cursor,) = struct.unpack_from("<q", request.payload)
                busy[cursor] -= 1  # before the bytes leave: the client may ask again at once
            peer.answer(request, answer)

    def _read(self, peer: Peer, requests: queue.Queue[Request | None], busy: dict[int, int]) -> None:
        try:
            while True:
                request = peer.request()
                if request.op == NEXT_PAGE:
                    (cursor,) = struct.unpack_from("<q", request.payload)
                    busy[cursor] = busy.get(cursor, 0) + 1
                    if busy[cursor] > 1:
                        peer.server.errors.append(ScriptError(f"two requests outstanding on cursor {cursor}"))
                        peer.close()
                requests.put(request)
        except ClientGone:
            requests.put(None)

    def _answer(self, request: Request) -> bytes | Failure:
        if request.op == SCAN:
            return self._scan(request)
        if request.op == NEXT_PAGE:
            (cursor,) = struct.unpack_from("<q", request.payload)
            self.page_requests += 1
            if cursor not in self.open_cursors:
                return Failure(1011, f"Failed to find resource with id: {cursor}")
            return self._page(cursor)
        if request.op == CLOSE:
            (cursor,) = struct.unpack_from("<q", request.payload)
            found = self.open_cursors.pop(cursor, None) is not None
            return b"" if found else Failure(1011, f"Failed to find resource with id: {cursor}")
        handler = self.handlers.get(request.op)
        return handler(request) if handler else Failure(2, f"operation {request.op}")

    def _scan(self, request: Request) -> bytes:
        cache_id, _, _, page_size, partition, _ = struct.unpack_from("<ibbiib", request.payload)
        self.scans.append((cache_id, page_size, partition))
        cursor = len(self.scans)
        self.open_cursors[cursor] = list(self.pages.get(partition, [[]]))
        return struct.pack("<q", cursor) + self._page(cursor)

    def _page(self, cursor: int) -> bytes:
        rest = self.open_cursors[cursor]
        rows = rest.pop(0)
        if not rest:
            del self.open_cursors[cursor]  # the server releases a cursor with its last page
        self.sent += 1
        return struct.pack("<i", len(rows)) + b"".join(rows) + (b"\x01" if rest else b"\x00")
