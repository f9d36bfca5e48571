"""The smallest thin client: which node answers at an address, and which nodes does it see? Needs no native code."""

from __future__ import annotations

import socket
import ssl
import struct
import uuid

from ignite_strategy.errors import AuthenticationError, ConnectionFailedError, DataLossError

__all__ = ["probe"]

# A handshake of protocol 1.7 with feature bit 3, which allows the second request.
_HELLO = struct.pack("<bhhhb", 1, 1, 7, 0, 2) + struct.pack("<bib", 12, 1, 1 << 3)
# NODES_ENDPOINTS from an unknown topology version to the current one.
_ENDPOINTS = struct.pack("<ihqqq", 26, 5102, 1, -1, -1)
_TOPOLOGY_CHANGED, _ERROR = 2, 1
# A refusal ends with its status.
_BAD_CREDENTIALS = struct.pack("<i", 2000)


def probe(
    host: str,
    port: int,
    timeout: float = 2.0,
    *,
    context: ssl.SSLContext | None = None,
    user: tuple[str, str] | None = None,
) -> tuple[uuid.UUID, set[uuid.UUID]]:
    """Returns the id of the node at ``host:port`` and the ids of all server nodes with a thin connector that it sees.

    Args:
      host: Its address.
      port: Its thin client port.
      timeout: Of each step, in seconds.
      context: How to encrypt; plain text without it.
      user: Name and password.

    Raises:
      ConnectionFailedError: Nobody answers there in time.
      AuthenticationError: Its certificate is not accepted, or it does not accept the user.
      DataLossError: Somebody does, but not an Ignite node of 2.9 or newer.
    """
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.settimeout(timeout)
            if context is not None:
                with context.wrap_socket(connection, server_hostname=host) as encrypted:
                    return _ask(encrypted, host, port, user)
            return _ask(connection, host, port, user)
    except ssl.SSLCertVerificationError as error:
        raise AuthenticationError(
            f"{host}:{port}: the node's certificate is not accepted: {error.verify_message} (thin client handshake)"
        ) from error
    except OSError as error:
        raise ConnectionFailedError(f"{host}:{port}: {error} (thin client handshake)") from error
    except struct.error as error:
        raise DataLossError(f"{host}:{port}: an answer that is too short (thin client handshake)") from error


def _ask(
    connection: socket.socket, host: str, port: int, user: tuple[str, str] | None
) -> tuple[uuid.UUID, set[uuid.UUID]]:
    text = [value.encode() for value in user or ()]
    body = _HELLO + b"".join(struct.pack("<bi", 9, len(value)) + value for value in text)
    hello = _call(connection, struct.pack("<i", len(body)) + body)
    if hello[:1] == b"\x00":  # a node that still starts says "Node in recovery mode."
        kind = AuthenticationError if hello.endswith(_BAD_CREDENTIALS) else ConnectionFailedError
        raise kind(f"{host}:{port}: {_message(hello)} (thin client handshake)")
    if hello[:2] != b"\x01\x0c":
        raise DataLossError(f"{host}:{port}: no Ignite node, or one older than 2.9 (thin client handshake)")
    features = struct.unpack_from("<i", hello, 2)[0]
    return _uuid_le(hello, 7 + features), _nodes(_call(connection, _ENDPOINTS))


def _message(refusal: bytes) -> str:
    return refusal[12 : 12 + struct.unpack_from("<i", refusal, 8)[0]].decode(errors="replace")


def _nodes(answer: bytes) -> set[uuid.UUID]:
    _, flags = struct.unpack_from("<qh", answer)
    at = 10 + (12 if flags & _TOPOLOGY_CHANGED else 0)
    if flags & _ERROR:
        return set()
    _, count = struct.unpack_from("<qi", answer, at)
    at += 12
    found = set()
    for _ in range(count):
        high, low, _, names = struct.unpack_from("<QQii", answer, at)
        found.add(uuid.UUID(int=high << 64 | low))
        at += 24
        for _ in range(names):
            at += 5 + struct.unpack_from("<xi", answer, at)[0]
    return found


def _uuid_le(data: bytes, at: int) -> uuid.UUID:
    """Two little-endian halves, the most significant one first."""
    high, low = struct.unpack_from("<QQ", data, at)
    return uuid.UUID(int=high << 64 | low)


def _call(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    (length,) = struct.unpack("<i", _read(connection, 4))
    if not 0 < length < 1 << 20:
        raise OSError(f"an answer of {length} bytes")
    return _read(connection, length)


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise OSError("connection closed")
        data += piece
    return data
