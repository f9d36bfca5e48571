"""A real ZooKeeper server on this host."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from ignite_strategy.errors import ClusterError
from ignite_strategy.local.embedded import Embedded
from ignite_strategy.local.folders import cluster_file
from ignite_strategy.local.jars import ensure_jars, read_lock
from ignite_strategy.local.processes import kept_environment, tail
from ignite_strategy.local.releases import NEWEST_RELEASE, java_for

__all__ = ["LocalZooKeeper", "ZooKeeperTls"]

_HOST = "127.0.0.1"
_NAME = "zookeeper"
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
# The server looks for ended sessions once a tick, and grants sessions of 2 ticks or more.
_TICK_MILLIS, _LONGEST_SESSION_MILLIS = 500, 60_000


@dataclass(frozen=True)
class ZooKeeperTls:
    """TLS of the server. The stores are PKCS#12 files.

    Attributes:
      keystore: Its key and certificate.
      password: Its password.
      truststore: The CAs whose clients are let in; without one no client needs a certificate.
      truststore_password: Its password.
    """

    keystore: str | Path
    password: str = field(repr=False)
    truststore: str | Path | None = None
    truststore_password: str = field(default="", repr=False)


class LocalZooKeeper(Embedded):
    """One ZooKeeper 3.9.5 server, started when the object is made and stopped by :meth:`close`.

    It listens on the loopback address only and ends with this process however it ends.

    >>> with LocalZooKeeper() as zookeeper:  # doctest: +SKIP
    ...     resolver = igs.IgniteClusterResolver("DIGITS", zookeeper=zookeeper.address)

    Args:
      folder: Where its data and log go. Without it a temporary folder, which is removed at the end.
      port: Where it listens; any free port if not given.
      tls: Makes clients use TLS.
      heap_mb: Its heap.
      start_timeout: How long the start may take, in seconds.
      progress: Whether to draw a progress bar for the download; by default on a terminal.

    Raises:
      ClusterError: It did not start; the message has the end of its log.
      PreconditionError: No usable Java, or jars missing and no ``jgo``.
      ConnectionFailedError: The jars could not be fetched.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        port: int | None = None,
        tls: ZooKeeperTls | None = None,
        heap_mb: int = 128,
        start_timeout: float = 60.0,
        progress: bool | None = None,
    ) -> None:
        self._java = java_for(NEWEST_RELEASE).path
        self._jars = ensure_jars(read_lock(cluster_file("zookeeper.lock")), progress=progress)
        super().__init__(folder)
        self.log = self.folder / "zookeeper.log"
        self._tls, self._heap_mb, self._start_timeout = tls, heap_mb, start_timeout
        self.port = self._prepare(
            lambda: self._claims.claim_any() if port is None else self._claims.claim(port)
        )
        try:
            self._write_configuration()
            self.start()
        except BaseException:
            self._abandon()
            raise

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"{_HOST}:{self.port}"

    def start(self) -> None:
        """Starts the server, with the data that it had, and waits until it answers."""
        self._processes.spawn(_NAME, self._command(), kept_environment(), self.log, self.folder)
        deadline = time.monotonic() + self._start_timeout
        while not self._answers():
            code = self._processes.status().get(_NAME)
            if code is not None or time.monotonic() > deadline:
                why = f"exit code {code}" if code is not None else f"no answer in {self._start_timeout:.0f} s"
                raise ClusterError(
                    f"ZooKeeper did not start ({why}). The end of {self.log}:\n{tail(self.log)}"
                )
            time.sleep(0.1)

    def stop(self) -> None:
        """Stops it in order; it keeps its data."""
        self._processes.stop([_NAME])

    def kill(self) -> None:
        """Sends SIGKILL: what a crash looks like."""
        self._processes.kill([_NAME])

    def __repr__(self) -> str:
        return f"<LocalZooKeeper {self.address}{' closed' if self._closed else ''}>"

    def _write_configuration(self) -> None:
        settings: dict[str, object] = {
            "dataDir": self.folder / "data",
            "tickTime": _TICK_MILLIS,
            "maxSessionTimeout": _LONGEST_SESSION_MILLIS,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok,envi,mntr,srvr",
            "secureClientPort" if self._tls else "clientPort": self.port,
            "secureClientPortAddress" if self._tls else "clientPortAddress": _HOST,
        }
        if self._tls is not None:
            settings.update(_tls_settings(self._tls))
        path = self.folder / "zookeeper.cfg"
        # It has the stores' passwords in it.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in settings.items())

    def _command(self) -> list[str]:
        return [
            str(self._java),
            f"-Xmx{self._heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Djava.util.logging.config.file={cluster_file('logging.properties')}",
            "-Dzookeeper.jmx.log4j.disable=true",
            "-cp",
            os.pathsep.join(map(str, self._jars)),
            _MAIN,
            str(self.folder / "zookeeper.cfg"),
        ]

    def _answers(self) -> bool:
        try:
            with socket.create_connection((_HOST, self.port), 1.0) as probe:
                if self._tls is not None:
                    return True  # only a TLS client could ask
                probe.sendall(b"ruok")
                return probe.recv(16) == b"imok"
        except OSError:
            return False


def _tls_settings(tls: ZooKeeperTls) -> dict[str, object]:
    settings: dict[str, object] = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": Path(tls.keystore).absolute(),
        "ssl.keyStore.password": tls.password,
        "ssl.keyStore.type": "PKCS12",
        "ssl.clientAuth": "need" if tls.truststore else "none",
    }
    if tls.truststore:
        settings["ssl.trustStore.location"] = Path(tls.truststore).absolute()
        settings["ssl.trustStore.password"] = tls.truststore_password
        settings["ssl.trustStore.type"] = "PKCS12"
    return settings
