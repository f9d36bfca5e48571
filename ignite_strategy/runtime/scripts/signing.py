"""Keys and signatures of requests that run a user's script: HMAC-SHA256 over all that the request says.

A key is a file that the operator gives to the agents and to those who may start scripts. It is never shown, never sent
and on no command line; what agents tell of it is a fingerprint.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ignite_strategy.errors import (
    AlreadyExistsError,
    AuthenticationError,
    InvalidArgumentError,
    NotFoundError,
)

__all__ = ["EXPIRY_SECONDS", "Key", "Notary", "create_key", "read_key"]

_BYTES = 32
_LARGEST_FILE = 4_096
# A request that is younger than this is accepted. Clocks of client and agent may differ by as much, less its way.
EXPIRY_SECONDS = 120.0
_LONGEST_EXPIRY = 600.0
_MOST_KNOWN = 10_000


class Key:
    """A secret; shows nothing of itself."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < _BYTES:
            raise InvalidArgumentError(f"a key has {_BYTES} bytes, not {len(secret)}")
        self._secret = secret

    def __repr__(self) -> str:
        return f"<Key {self.fingerprint}>"

    @property
    def fingerprint(self) -> str:
        """Tells keys apart, and nothing about them."""
        return hmac.new(self._secret, b"ignite-strategy key", hashlib.sha256).hexdigest()[:16]

    def sign(self, body: Mapping[str, Any]) -> str:
        """The signature of a JSON object."""
        return hmac.new(self._secret, _canonical(body), hashlib.sha256).hexdigest()

    def check(self, body: Mapping[str, Any], signature: str) -> bool:
        """Whether this key made the signature of this object."""
        return hmac.compare_digest(self.sign(body).encode(), signature.encode("utf-8", "replace"))


def _canonical(body: Mapping[str, Any]) -> bytes:
    # The first line keeps signatures of requests apart from whatever else a key may sign one day.
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return b"ignite-strategy request 1\n" + text.encode()


def create_key(path: Path) -> Key:
    """Writes a new key to a new file, which only its owner may read.

    Raises:
      AlreadyExistsError: There is such a file.
    """
    secret = secrets.token_bytes(_BYTES)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise AlreadyExistsError(f"{path} exists already, and a key is never overwritten") from None
    with open(descriptor, "w", encoding="ascii") as file:
        os.fchmod(descriptor, 0o600)  # whatever the umask
        file.write(secret.hex() + "\n")
        file.flush()
        os.fsync(descriptor)
    return Key(secret)


def read_key(path: str | os.PathLike[str]) -> Key:
    """Reads a key file.

    Raises:
      NotFoundError: There is none.
      InvalidArgumentError: It is no key, or others than its owner may read or write it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise NotFoundError(
            f"there is no key file {os.fspath(path)}: 'ignite-strategy key {os.fspath(path)}' makes one"
        ) from None
    except OSError as error:
        raise InvalidArgumentError(
            f"the key file {os.fspath(path)} cannot be read: {error.strerror}"
        ) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidArgumentError(f"the key file {os.fspath(path)} is no file")
        if status.st_mode & 0o077:
            raise InvalidArgumentError(
                f"others than its owner may use the key file {os.fspath(path)} "
                f"(mode {stat.S_IMODE(status.st_mode):o}): chmod 600 {os.fspath(path)}"
            )
        text = os.read(descriptor, _LARGEST_FILE)
    finally:
        os.close(descriptor)
    secret = b""
    with contextlib.suppress(ValueError):  # the message must not show what is in the file
        secret = bytes.fromhex(text.decode("ascii", "replace").strip())
    if len(secret) < _BYTES:
        raise InvalidArgumentError(
            f"{os.fspath(path)} is no key file: it has one line of {2 * _BYTES} hexadecimal digits; "
            "'ignite-strategy key FILE' makes one"
        )
    return Key(secret)


class Notary:
    """What an agent needs to tell a request that it may serve from all others.

    Args:
      key: The agents' key.
      instance: This run of the agent; requests are for one run only.
      clock: Seconds since 1970.
    """

    def __init__(self, key: Key, instance: str, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._instance = instance
        self._clock = clock
        self._known: dict[str, float] = {}  # signature -> until when it would be accepted again

    def check(self, body: Mapping[str, Any], signature: str, *, node: str) -> None:
        """Accepts a request, once.

        Args:
          body: All of it but its signature; with ``instance``, ``node`` and ``expires``.
          signature: Its signature.
          node: The agent's node.

        Raises:
          AuthenticationError: It is not to be served, and why. Before the signature is known to be good it tells no
            more than that it is not.
        """
        if not self._key.check(body, signature):
            raise AuthenticationError("its signature is not by this agent's key")
        if body["instance"] != self._instance or body["node"] != node:
            raise AuthenticationError("it is for another agent, or for an earlier run of this one")
        now, expires = self._clock(), float(body["expires"])
        if now > expires:
            raise AuthenticationError(
                f"it expired {now - expires:.0f} s ago: it was late, or the clocks of client and agent differ"
            )
        if expires - now > _LONGEST_EXPIRY:
            raise AuthenticationError(
                f"it expires in {expires - now:.0f} s, which is too long: the clocks of client and agent differ"
            )
        self._forget(now)
        if signature in self._known:
            raise AuthenticationError("it was served already: a request is served once")
        if len(self._known) >= _MOST_KNOWN:
            raise AuthenticationError(f"more than {_MOST_KNOWN:,} requests within a few minutes")
        self._known[signature] = expires

    def _forget(self, now: float) -> None:
        for signature in [each for each, expires in self._known.items() if expires < now]:
            del self._known[signature]
