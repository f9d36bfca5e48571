"""One node of the embedded cluster: how it is started, and what can be done to it."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ignite_strategy.errors import ClusterError
from ignite_strategy.local.folders import cluster_file
from ignite_strategy.local.processes import kept_environment
from ignite_strategy.settings import format_endpoint

if TYPE_CHECKING:
    from ignite_strategy.local.cluster import LocalCluster

__all__ = ["LocalNode", "NodePlan", "NodePorts", "NodeTls"]

_MAIN = "org.apache.ignite.startup.cmdline.CommandLineStartup"
_STARTED = b"Node started :"
_OLD_STARTED = b">>> Local ports"  # 2.7 and 2.8
# The start is bound by the compiler on a small machine: two nodes take 11 s of processor time instead of 24 s.
_QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class NodePorts:
    """What a node listens on."""

    thin: int
    discovery: int
    communication: int
    igfs: int | None = None


@dataclass(frozen=True)
class NodeTls:
    """TLS of the nodes' client connectors. The stores are PKCS#12 files.

    Attributes:
      keystore: Key and certificate of the nodes; the certificate must be for their address (127.0.0.1 unless told
        otherwise).
      password: Its password.
      truststore: The CAs whose clients are let in; needed with ``client_auth``.
      truststore_password: Its password.
      client_auth: Whether clients must show a certificate.
    """

    keystore: str | Path
    password: str = field(repr=False)
    truststore: str | Path | None = None
    truststore_password: str = field(default="", repr=False)
    client_auth: bool = False


@dataclass(frozen=True)
class NodePlan:
    """Everything that a node's command line is made from."""

    consistent_id: str
    host: str
    ports: NodePorts
    peers: Sequence[str]
    folder: Path
    java: Path
    jars: Sequence[Path]
    heap_mb: int
    data_mb: int
    config: Path
    full_speed: bool
    jvm_options: Sequence[str]
    java_version: int = 17
    lists_nodes: bool = True
    thin_host: str = ""
    tls: NodeTls | None = None
    authentication: bool = False
    zookeeper: str | None = None

    def command(self) -> list[str]:
        """The command line."""
        properties = {
            "java.util.logging.config.file": cluster_file("logging.properties"),
            "IGNITE_QUIET": "false",
            "igs.host": self.host,
            "igs.id": self.consistent_id,
            "igs.thin.port": self.ports.thin,
            "igs.disco.port": self.ports.discovery,
            "igs.comm.port": self.ports.communication,
            "igs.peers": ",".join(self.peers),
            "igs.work": self.folder / "work",
            "igs.data.mb": self.data_mb,
            **self._security(),
        }
        if self.thin_host:
            properties["igs.thin.host"] = self.thin_host
        if self.zookeeper:
            properties["igs.zookeeper"] = self.zookeeper
        if self.ports.igfs is not None:
            properties.update({"igs.igfs.port": self.ports.igfs, "igs.igfs.mb": self.data_mb})
        return [
            str(self.java),
            *self._java_options(),
            f"-Xms{min(128, self.heap_mb)}m",
            f"-Xmx{self.heap_mb}m",
            *(() if self.full_speed else _QUICK_START),
            *self.jvm_options,
            *(f"-D{key}={value}" for key, value in properties.items()),
            "-cp",
            os.pathsep.join(str(jar) for jar in self.jars),
            _MAIN,
            str(self.config),
        ]

    def _security(self) -> dict[str, object]:
        properties: dict[str, object] = {}
        if self.tls is not None:
            properties["igs.tls"] = "true"
            properties["igs.tls.clients"] = str(self.tls.client_auth).lower()
            properties["igs.tls.keystore"] = Path(self.tls.keystore).absolute()
            if self.tls.truststore is not None:
                properties["igs.tls.truststore"] = Path(self.tls.truststore).absolute()
        if self.authentication:
            properties.update({"igs.auth": "true", "igs.persistence": "true"})
        return properties

    def _java_options(self) -> list[str]:
        options = cluster_file("java.options")
        if self.java_version >= 9:
            found = [f"@{options}"]
        else:  # Java 8 reads no such files, and has no modules to open
            found = [line for line in options.read_text().splitlines() if line.startswith("-D")]
        if ":" in (self.thin_host or self.host):
            found.append("-Djava.net.preferIPv4Stack=false")
        return found

    def environment(self) -> dict[str, str]:
        """Its environment.

        Passwords are in it, and not in the command line, which everybody on the host can read.
        """
        kept = kept_environment()
        if self.tls is not None:
            kept["IGS_TLS_KEYSTORE_PASSWORD"] = self.tls.password
            kept["IGS_TLS_TRUSTSTORE_PASSWORD"] = self.tls.truststore_password
        return {**kept, "IGNITE_HOME": str(self.folder)}


class LocalNode:
    """A server node of a :class:`~ignite_strategy.local.LocalCluster`.

    Attributes:
      index: Its position in ``cluster.nodes``.
      consistent_id: Its identity for the placement of partitions; survives :meth:`restart`.
      host: The address it listens on.
      port: Its thin client port.
      pid: Its process id.
      log: Its log file.
    """

    def __init__(self, cluster: LocalCluster, index: int, plan: NodePlan, log: Path) -> None:
        self._cluster = cluster
        self.index = index
        self.plan = plan
        self.log = log
        self.consistent_id = plan.consistent_id
        self.host = plan.thin_host or plan.host
        self.port = plan.ports.thin
        self.pid = 0
        self.known_id: uuid.UUID | None = None
        self._log_start = 0

    @property
    def name(self) -> str:
        """What its log and its process are called."""
        return f"node-{self.index}"

    @property
    def address(self) -> str:
        """``host:port`` of its thin connector."""
        return format_endpoint((self.host, self.port))

    @property
    def igfs_address(self) -> str:
        """``host:port`` of its IGFS endpoint.

        Raises:
          ClusterError: It has none.
        """
        if self.plan.ports.igfs is None:
            raise ClusterError(f"{self.name} has no IGFS endpoint: LocalCluster(version='2.8.1', igfs=True)")
        return format_endpoint((self.plan.host, self.plan.ports.igfs))

    @property
    def node_id(self) -> uuid.UUID:
        """The id that it told in a thin client handshake; another one after each restart."""
        if self.known_id is None:
            raise ClusterError(f"{self.name} ({self.address}) has not answered yet: see {self.log}")
        return self.known_id

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self._cluster.running(self)

    def forget(self) -> None:
        """Notes that a new process is about to begin: another id, and a new part of the log."""
        self.known_id = None
        self._log_start = self.log.stat().st_size if self.log.exists() else 0

    def started(self) -> bool:
        """Whether the node says that its start is complete.

        Its thin connector answers before that, and a cache created in between makes the start fail.
        """
        try:
            with self.log.open("rb") as file:
                file.seek(self._log_start)
                return (_STARTED if self.plan.lists_nodes else _OLD_STARTED) in file.read()
        except FileNotFoundError:
            return False

    def told(self) -> tuple[uuid.UUID, int] | None:
        """Its id and the number of servers that it sees, from its log; for releases that cannot be asked."""
        try:
            with self.log.open("rb") as file:
                file.seek(self._log_start)
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return None
        ids = re.findall(r"Local node \[ID=([0-9A-Fa-f-]{36})", text)
        snapshots = re.findall(r"Topology snapshot \[ver=(\d+)[^]]*servers=(\d+)", text)
        if not ids or not snapshots:
            return None
        # Two threads write them, not always in order.
        _, servers = max((int(version), int(servers)) for version, servers in snapshots)
        return uuid.UUID(ids[-1]), servers

    def kill(self) -> None:
        """Sends SIGKILL: what a crash looks like. The process is gone on return."""
        self._cluster.end(self, kill=True)

    def stop(self) -> None:
        """Stops it in order; the process is gone on return."""
        self._cluster.end(self, kill=False)

    def restart(self) -> None:
        """Starts it again, stopping it first if it runs; it answers at the same address on return."""
        self._cluster.restart(self)

    def __repr__(self) -> str:
        return f"<LocalNode {self.index} {self.address} {self.consistent_id} pid={self.pid}>"
