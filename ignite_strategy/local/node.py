"""One node of the embedded cluster: how it is started, and what can be done to it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ignite_strategy.errors import ClusterError
from ignite_strategy.local.folders import cluster_file

if TYPE_CHECKING:
    from ignite_strategy.local.cluster import LocalCluster

__all__ = ["LocalNode", "NodePlan", "NodePorts"]

_MAIN = "org.apache.ignite.startup.cmdline.CommandLineStartup"
_STARTED = b"Node started :"
# The start is bound by the compiler on a small machine: two nodes take 11 s of processor time instead of 24 s.
_QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_KEPT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class NodePorts:
    """What a node listens on."""

    thin: int
    discovery: int
    communication: int


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
        }
        return [
            str(self.java),
            f"@{cluster_file('java.options')}",
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

    def environment(self) -> dict[str, str]:
        """Its environment, from a list: a stray ``IGNITE_*`` or ``JAVA_TOOL_OPTIONS`` changes nothing."""
        kept = {key: os.environ[key] for key in _KEPT if key in os.environ}
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
        self.host = plan.host
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
        return f"{self.host}:{self.port}"

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
                return _STARTED in file.read()
        except FileNotFoundError:
            return False

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
