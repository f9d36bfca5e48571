"""An Apache Ignite cluster of real server nodes on this host."""

from __future__ import annotations

import contextlib
import os
import ssl
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ignite_strategy.errors import (
    AuthenticationError,
    ClusterError,
    ConnectionFailedError,
    InvalidArgumentError,
    UnsupportedError,
)
from ignite_strategy.local.affinity import consistent_ids
from ignite_strategy.local.embedded import Embedded
from ignite_strategy.local.folders import cluster_file
from ignite_strategy.local.jars import ensure_jars, read_lock
from ignite_strategy.local.node import LocalNode, NodePlan, NodePorts, NodeTls
from ignite_strategy.local.probe import probe
from ignite_strategy.local.processes import tail
from ignite_strategy.local.releases import NEWEST_RELEASE, find_release, java_for
from ignite_strategy.local.zookeeper import LocalZooKeeper
from ignite_strategy.settings import PLAIN, Credentials, Security

__all__ = ["LocalCluster"]

_HOST = "127.0.0.1"
_CHANGE_STATE = 5001
_PORT_ATTEMPTS = 3
_PORT_TAKEN = ("Address already in use", "Failed to bind", "port is already in use")


class LocalCluster(Embedded):
    """N Apache Ignite server nodes on this host, started when the object is made and stopped by :meth:`close`.

    They listen on the loopback address only, on free ports, and end with this process however it ends. The first start
    fetches the jars (27 MB) into the download cache; later ones need no network.

    >>> with LocalCluster(nodes=2) as cluster:  # doctest: +SKIP
    ...     resolver = igs.IgniteClusterResolver("DIGITS", addresses=cluster.addresses)

    Args:
      nodes: How many.
      agents: Whether to start an agent beside each node, as a TensorFlow job needs.
      folder: Where logs and work files go. Without it a temporary folder, which is removed at the end.
      port: The thin client port of the first node; the next nodes take the ports after it. Any free ports if not given.
      heap_mb: The heap of each node.
      data_mb: The upper limit of each node's memory for data.
      start_timeout: How long all nodes may take to form the cluster, in seconds.
      progress: Whether to draw a progress bar for the download; by default on a terminal.
      full_speed: Let Java optimise fully, for measurements and long runs; the start takes twice the processor time.
      jvm_options: More options for each node's Java.
      config: Another node configuration than ``cluster/node.xml``, for the same system properties.
      version: Which Apache Ignite: 2.17.0, 2.8.1 or 2.7.6. The old ones need Java 8 to 11, which is fetched if missing.
      igfs: Whether the nodes have IGFS with its own endpoint (the file system ``default_fs``, in memory, up to
        ``data_mb``); with ``version="2.8.1"`` or ``"2.7.6"`` only.
      host: The address of the thin connectors, ``::1`` for instance.
      tls: Makes clients use TLS; then ``security`` must say how this process trusts the nodes.
      authentication: Makes clients give user and password, and keeps the data on disk. At first there is the user
        ``ignite`` with the password ``ignite``.
      security: How this process and the agents speak to the nodes; with ``authentication`` alone, as ``ignite``.
      zookeeper: Whether to start a ZooKeeper server as well, where agents and clients meet: give a resolver
        ``zookeeper=cluster.zookeeper.address``.
      discovery: ``"zookeeper"``: the nodes find each other through a ZooKeeper server, which is started for them; by
        default they do so by themselves.
      scripts: The key file with which agents run users' scripts, or True for a new one in ``folder``; starts agents.

    Attributes:
      nodes: The nodes.
      key_file: The key with which the agents run scripts, if they do.
      zookeeper: The ZooKeeper server, if there is one.

    Raises:
      ClusterError: A node did not start; the message has the end of its log.
      PreconditionError: No usable Java, or jars missing and no ``jgo``.
      ConnectionFailedError: The jars could not be fetched.
      AlreadyExistsError: ``port`` is in use.
      InvalidArgumentError: ``folder`` cannot be used.
    """

    def __init__(
        self,
        nodes: int = 2,
        agents: bool = False,
        folder: str | Path | None = None,
        *,
        port: int | None = None,
        heap_mb: int = 512,
        data_mb: int = 1024,
        start_timeout: float = 120.0,
        progress: bool | None = None,
        full_speed: bool = False,
        jvm_options: Sequence[str] = (),
        config: str | Path | None = None,
        version: str | None = None,
        igfs: bool = False,
        host: str = _HOST,
        tls: NodeTls | None = None,
        authentication: bool = False,
        security: Security | None = None,
        zookeeper: bool = False,
        discovery: str | None = None,
        scripts: str | Path | bool = False,
    ) -> None:
        if nodes < 1:
            raise InvalidArgumentError(f"a cluster needs at least one node, not {nodes}")
        self._release = find_release(version)
        if authentication and not self._release.lists_nodes:
            raise UnsupportedError(
                f"Apache Ignite {self._release.version} cannot be activated by a thin client: "
                "authentication=True needs 2.9 or newer"
            )
        if igfs and not self._release.igfs:
            raise UnsupportedError(
                f"Apache Ignite {self._release.version} has no IGFS: igfs=True needs version='2.8.1' or '2.7.6'"
            )
        if discovery not in (None, "zookeeper"):
            raise InvalidArgumentError(f"discovery={discovery!r}: there is 'zookeeper', and None")
        if discovery and self._release is not NEWEST_RELEASE:
            raise UnsupportedError(f"discovery='zookeeper' needs Apache Ignite {NEWEST_RELEASE.version}")
        self._discovery, self._agents_meet = discovery is not None, zookeeper
        self._igfs = igfs
        self._java = java_for(self._release)
        jars = read_lock(cluster_file(self._release.lock))
        if self._discovery:
            jars += read_lock(cluster_file("zookeeper-discovery.lock"))
        self._jars = ensure_jars(jars, progress=progress)
        self._host, self._tls, self._authentication = host, tls, authentication
        self.security = security or _default_security(tls, authentication)
        self._context, self._user = _client_side(self.security)
        self._heap_mb, self._data_mb = heap_mb, data_mb
        self._full_speed = full_speed
        self._jvm_options = tuple(jvm_options)
        kind = "igfs.xml" if igfs else "zookeeper.xml" if self._discovery else "node.xml"
        self._config = Path(config) if config else cluster_file(kind)
        self._start_timeout = start_timeout
        super().__init__(folder)
        self.key_file = self._key_file(scripts)
        self.nodes: list[LocalNode] = []
        self.zookeeper: LocalZooKeeper | None = None
        if zookeeper or self._discovery:
            own = None if self._temporary else self.folder / "zookeeper"
            self.zookeeper = LocalZooKeeper(own, progress=progress)
        try:
            self._start(nodes, port)
            if agents or self.key_file is not None:
                self._start_agents()
        except BaseException:
            if self.zookeeper is not None:
                self.zookeeper.close()
            raise

    @property
    def addresses(self) -> list[str]:
        """``host:port`` of every node's thin connector."""
        return [node.address for node in self.nodes]

    @property
    def igfs_addresses(self) -> list[str]:
        """``host:port`` of every node's IGFS endpoint; needs ``igfs=True``."""
        return [node.igfs_address for node in self.nodes]

    def partition_owners(self, cache: str) -> list[LocalNode]:
        """The primary node of each partition of a cache, as the nodes themselves tell."""
        from ignite_strategy.topology.caches import connect, partition_map

        with contextlib.closing(connect(self.addresses, security=self.security)) as client:
            by_id = partition_map(client, cache)
        nodes = {node.node_id: node for node in self.nodes}
        owners = {part: nodes[owner] for owner, parts in by_id.items() for part in parts}
        return [owners[part] for part in sorted(owners)]

    def close(self) -> None:
        """Stops all nodes and agents, waits until they are gone, and removes a temporary folder. Idempotent."""
        super().close()
        if self.zookeeper is not None:
            self.zookeeper.close()

    def __repr__(self) -> str:
        return f"<LocalCluster {', '.join(self.addresses)}{' closed' if self._closed else ''}>"

    # What the nodes ask for.

    def running(self, node: LocalNode) -> bool:
        """Whether the process of ``node`` runs."""
        return not self._closed and self._processes.status().get(node.name, 0) is None

    def ended(self) -> dict[str, int]:
        """The exit codes of the nodes and agents that do not run, by name (``node-0``, ``agent-1``)."""
        return {name: code for name, code in self._processes.status().items() if code is not None}

    def end(self, node: LocalNode, kill: bool) -> None:
        """Ends the process of ``node``."""
        if kill:
            self._processes.kill([node.name])
        else:
            self._processes.stop([node.name])

    def restart(self, node: LocalNode) -> None:
        """Starts ``node`` again and waits until every running node sees it."""
        self.end(node, kill=False)
        self._spawn(node)
        self._wait_until_formed([other for other in self.nodes if other.running])

    # Starting.

    def _start(self, count: int, port: int | None) -> None:
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self.nodes = self._prepare(lambda: self._plan(count, port))
            try:
                # The first node of a new cluster makes the user "ignite". One that joins before that copies a list
                # of users with nobody in it, and then lets nobody in.
                alone = 1 if self._authentication else count
                for first in range(0, count, alone):
                    for node in self.nodes[first : first + alone]:
                        self._spawn(node)
                    self._wait_until_formed(self.nodes[: first + alone])
                if self._authentication:
                    self._activate()
                return
            except BaseException as error:
                self._abandon()
                # A port that was free a moment ago: somebody outside our claims took it.
                taken = isinstance(error, ClusterError) and any(text in str(error) for text in _PORT_TAKEN)
                if not taken or port is not None or attempt == _PORT_ATTEMPTS:
                    raise

    def _plan(self, count: int, port: int | None) -> list[LocalNode]:
        ports = []
        for index in range(count):
            thin = self._claims.claim_any() if port is None else self._claims.claim(port + index)
            igfs = self._claims.claim_any() if self._igfs else None
            ports.append(NodePorts(thin, self._claims.claim_any(), self._claims.claim_any(), igfs))
        peers = [f"{_HOST}:{each.discovery}" for each in ports]
        nodes = []
        for index, (name, mine) in enumerate(zip(consistent_ids(count), ports)):
            plan = NodePlan(
                consistent_id=name,
                host=_HOST,
                ports=mine,
                peers=peers,
                folder=self.folder / f"node-{index}",
                java=self._java.path,
                jars=self._jars,
                heap_mb=self._heap_mb,
                data_mb=self._data_mb,
                config=self._config,
                full_speed=self._full_speed,
                jvm_options=self._jvm_options,
                java_version=self._java.version,
                lists_nodes=self._release.lists_nodes,
                thin_host="" if self._host == _HOST else self._host,
                tls=self._tls,
                authentication=self._authentication,
                zookeeper=self.zookeeper.address if self.zookeeper and self._discovery else None,
            )
            nodes.append(LocalNode(self, index, plan, self.folder / f"node-{index}.log"))
        return nodes

    def _spawn(self, node: LocalNode) -> None:
        node.forget()
        node.plan.folder.mkdir(parents=True, exist_ok=True)
        node.pid = self._processes.spawn(
            node.name, node.plan.command(), node.plan.environment(), node.log, node.plan.folder
        )

    def _key_file(self, scripts: str | Path | bool) -> Path | None:
        from ignite_strategy.runtime.scripts.signing import create_key, read_key

        if not scripts:
            return None
        path = self.folder / "scripts.key" if scripts is True else Path(scripts).absolute()
        if scripts is not True or path.exists():
            read_key(path)  # refuses one that the agents would
        else:
            create_key(path)
        return path

    def _start_agents(self) -> None:
        for node in self.nodes:
            name = f"agent-{node.index}"
            argv = [sys.executable, "-m", "ignite_strategy", "agent", "--node", node.address]
            argv += ["--folder", str(self.folder / name)]
            if self._agents_meet and self.zookeeper is not None:
                argv += ["--zookeeper", self.zookeeper.address]
            if self.key_file is not None:
                argv += ["--allow-scripts", "--key-file", str(self.key_file)]
            environment = _agent_environment(self.security)
            self._processes.spawn(name, argv, environment, self.folder / f"{name}.log", self.folder)

    def _wait_until_formed(self, nodes: Sequence[LocalNode]) -> None:
        """Waits until each node answers and sees exactly the others."""
        deadline = time.monotonic() + self._start_timeout
        seen: set[object] = set()
        refusal = ""
        while True:
            self._check_alive(nodes)
            if self._release.lists_nodes:
                views = []
                for node in (each for each in nodes if each.started()):
                    try:
                        node.known_id, view = probe(
                            node.host, node.port, context=self._context, user=self._user
                        )
                    except AuthenticationError:
                        raise  # waiting would not help
                    except ConnectionFailedError as error:
                        refusal = f" The last refusal: {error}."
                        continue
                    views.append(view)
                seen = {node.known_id for node in nodes}
                if len(views) == len(nodes) and all(view == seen for view in views):
                    return
            elif self._all_told(nodes):
                return
            if time.monotonic() > deadline:
                raise ClusterError(self._unformed(nodes, refusal))
            time.sleep(0.1)

    @staticmethod
    def _all_told(nodes: Sequence[LocalNode]) -> bool:
        told = [node.told() if node.started() else None for node in nodes]
        for node, each in zip(nodes, told):
            node.known_id = each[0] if each else None
        return all(each is not None and each[1] == len(nodes) for each in told)

    def _activate(self) -> None:
        """What a new cluster with data on disk waits for."""
        from ignite_strategy import _core

        node = self.nodes[0]
        with _core.Connection(
            node.host, node.port, 10.0, self._start_timeout, security=self.security.native()
        ) as connection:
            connection.call(_CHANGE_STATE, b"\x01", "activating the cluster")

    def _check_alive(self, nodes: Sequence[LocalNode]) -> None:
        codes = self._processes.status()
        for node in nodes:
            code = codes.get(node.name)
            if code is not None:
                raise ClusterError(
                    f"{node.name} did not start (exit code {code}). The end of {node.log}:\n{tail(node.log)}"
                )

    def _unformed(self, nodes: Sequence[LocalNode], refusal: str) -> str:
        late = next((node for node in nodes if not node.started()), nodes[0])
        answering = ", ".join(node.address for node in nodes if node.started()) or "none"
        return (
            f"{len(nodes)} nodes did not form a cluster within {self._start_timeout:.0f} s (started: {answering})."
            f"{refusal} The end of {late.log}:\n{tail(late.log)}"
        )


def _agent_environment(security: Security) -> dict[str, str]:
    """This program's, less what would tell the agent's tasks where to read, and how the nodes are spoken to."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("IGNITE_", "IGFS_", "TF_CONFIG"))
    }
    tls, credentials = security.tls, security.credentials
    if tls is not None:
        files = {"CAFILE": tls.cafile, "CERTFILE": tls.certfile, "KEYFILE": tls.keyfile}
        environment["IGNITE_TLS"] = "1"
        environment["IGNITE_VERIFY"] = str(int(tls.verify))
        environment["IGNITE_CHECK_HOSTNAME"] = str(int(tls.check_hostname))
        environment.update(
            {f"IGNITE_{name}": str(Path(path).absolute()) for name, path in files.items() if path}
        )
        if tls.cert_password is not None:
            environment["IGNITE_CERT_PASSWORD"] = tls.cert_password
    if credentials is not None:
        environment["IGNITE_USERNAME"] = credentials.username
        environment["IGNITE_PASSWORD"] = credentials.password
    return environment


def _default_security(tls: NodeTls | None, authentication: bool) -> Security:
    if tls is not None:
        raise InvalidArgumentError(
            "tls= needs security=Security(Tls(cafile=...)): how this process trusts the nodes"
        )
    return Security(None, Credentials("ignite", "ignite")) if authentication else PLAIN


def _client_side(security: Security) -> tuple[ssl.SSLContext | None, tuple[str, str] | None]:
    """The same for the probe, which is pure Python."""
    from ignite_strategy.topology.clients import tls_context

    context = None if security.tls is None else tls_context(security.tls)
    user = security.credentials
    return context, None if user is None else (user.username, user.password)
