"""What ``ignite-strategy local up`` does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from ignite_strategy.cli.tables import node_table
from ignite_strategy.errors import AlreadyExistsError, ClusterError, IgniteStrategyError
from ignite_strategy.local import LocalCluster, state
from ignite_strategy.local.folders import run_folder
from ignite_strategy.local.ports import is_free

__all__ = ["UpOptions", "run_detached", "run_here"]

_LOOK_EVERY = 1.0
_DETACH_LIMIT = 300.0


class UpOptions(NamedTuple):
    """The options of ``local up``."""

    nodes: int
    port: int
    agents: bool
    folder: Path | None
    heap: int
    data: int
    full_speed: bool
    allow_scripts: bool

    def arguments(self) -> list[str]:
        """The same as command line arguments."""
        found = [f"--nodes={self.nodes}", f"--port={self.port}", f"--heap={self.heap}", f"--data={self.data}"]
        found.append("--agents" if self.agents else "--no-agents")
        if self.full_speed:
            found.append("--full-speed")
        if self.allow_scripts:
            found.append("--allow-scripts")
        return [*found, f"--folder={self.folder}"] if self.folder else found


def run_here(options: UpOptions) -> None:
    """Runs the cluster in this process, until a signal."""
    console = Console()
    _check_ports(options)
    with _ended_by_signals():
        try:
            began = time.monotonic()
            with contextlib.ExitStack() as stack:
                with console.status(f"Starting {options.nodes} Ignite nodes ..."):
                    cluster = stack.enter_context(_start(options))
                stack.enter_context(state.publish(_describe(cluster, options)))
                _welcome(console, cluster, options, time.monotonic() - began)
                _watch(console, cluster)
        except KeyboardInterrupt:
            console.print("Ended.")


def run_detached(options: UpOptions) -> None:
    """Starts ``local up`` in a process of its own and returns once its nodes answer."""
    _check_ports(options)
    said = run_folder() / f"local-{options.port}.log"
    command = [sys.executable, "-m", "ignite_strategy", "local", "up", *options.arguments()]
    with said.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    deadline = time.monotonic() + _DETACH_LIMIT
    try:
        while not any(each.pid == process.pid for each in state.list_running()):
            if process.poll() is not None or time.monotonic() > deadline:
                process.terminate()
                raise ClusterError(
                    said.read_text().strip().replace("error: ", "", 1) or f"it ended: see {said}"
                )
            time.sleep(0.1)
    except BaseException:
        process.terminate()
        raise
    time.sleep(0.2)  # for the last lines of what it prints
    print(said.read_text(), end="")
    print(
        f"It runs in the background (pid {process.pid}). End it with: ignite-strategy local down --port {options.port}"
    )


def _check_ports(options: UpOptions) -> None:
    for port in range(options.port, options.port + options.nodes):
        if is_free(port):
            continue
        mine = [
            each
            for each in state.list_running()
            if str(port) in {a.rpartition(":")[2] for a in each.addresses}
        ]
        if mine:
            raise AlreadyExistsError(
                f"a local cluster already uses port {port}: end it with 'ignite-strategy local down --port "
                f"{mine[0].port}', or choose other ports with --port {options.port + 100}"
            )
        raise AlreadyExistsError(
            f"port {port} is in use by another program (an Ignite node?): choose other ports with "
            f"--port {options.port + 100}"
        )


def _start(options: UpOptions) -> LocalCluster:
    return LocalCluster(
        nodes=options.nodes,
        agents=options.agents,
        folder=options.folder,
        port=options.port,
        heap_mb=options.heap,
        data_mb=options.data,
        full_speed=options.full_speed,
        scripts=options.allow_scripts,
    )


def _describe(cluster: LocalCluster, options: UpOptions) -> state.RunningCluster:
    return state.RunningCluster(
        port=options.port,
        pid=os.getpid(),
        addresses=cluster.addresses,
        logs=[str(node.log) for node in cluster.nodes],
        folder=str(cluster.folder),
        agents=options.agents,
        key_file=str(cluster.key_file) if cluster.key_file else None,
    )


def _welcome(console: Console, cluster: LocalCluster, options: UpOptions, seconds: float) -> None:
    beside = ", an agent beside each" if options.agents else ""
    console.print(f"{options.nodes} Apache Ignite nodes run on this host{beside} ({seconds:.1f} s).")
    rows = [(node.name, node.address, str(node.node_id), str(node.pid), "runs") for node in cluster.nodes]
    console.print(node_table(rows))
    console.print(f"Logs: {cluster.folder}", soft_wrap=True)
    console.print(_spread(cluster))
    console.print(_next_steps(cluster, options), markup=False, highlight=False, soft_wrap=True)


def _spread(cluster: LocalCluster) -> str:
    """Asks the nodes themselves who owns what of a cache with a partition for each."""
    from ignite_strategy.topology import caches

    count = len(cluster.nodes)
    name = f"igs-p{count}-look"  # found by the template's prefix
    try:
        with contextlib.closing(caches.connect(cluster.addresses)) as client:
            caches.create_cache(client, name, partitions=count)
            try:
                owners = [node.name for node in cluster.partition_owners(name)]
            finally:
                caches.drop_cache(client, name)
    except IgniteStrategyError as error:
        return f"Placement not checked: {error}"
    if len(set(owners)) == count:
        placed = ", ".join(f"{part} on {owner}" for part, owner in enumerate(owners))
        return f"Checked: a cache with {count} partitions has one on each node ({placed})."
    return (
        f"Note: a cache with {count} partitions has none on some nodes ({', '.join(owners)}): give it more."
    )


def _next_steps(cluster: LocalCluster, options: UpOptions) -> str:
    addresses = ", ".join(f'"{address}"' for address in cluster.addresses)
    return f"""
In Python:

  import tensorflow as tf, ignite_strategy as igs

  tf.io.gfile.listdir("igfs://{cluster.addresses[0]}/")
  igs.IgniteDataset("NAME", host="127.0.0.1", port={options.port})       # rows of a cache or an SQL table
  with igs.IgniteClusterResolver("NAME", addresses=[{addresses}]) as resolver:
      config = resolver.run_config(model_dir="igfs:///run1")        # for tf.estimator

In another terminal:

  ignite-strategy local sql "CREATE TABLE T (id INT PRIMARY KEY, x DOUBLE) WITH \\"TEMPLATE=igs-p2-,CACHE_NAME=NAME\\""
  ignite-strategy local status

Ctrl-C ends it.
"""


def _watch(console: Console, cluster: LocalCluster) -> None:
    """Waits for ever, and says so when a process ends that should not."""
    said: dict[str, int] = {}
    while True:
        time.sleep(_LOOK_EVERY)
        for name, code in cluster.ended().items():
            if said.get(name) != code:
                said[name] = code
                console.print(
                    f"{name} has ended (exit code {code}): see {cluster.folder}/{name}.log. {_hint(name, cluster)}",
                    soft_wrap=True,
                )


def _hint(name: str, cluster: LocalCluster) -> str:
    kind, _, index = name.partition("-")
    if kind == "agent":
        return f"Start another: ignite-strategy agent --node {cluster.addresses[int(index)]}"
    return "Caches without a backup have lost the rows it held: start the cluster again and load them anew."


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP do what Ctrl-C does."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)
