"""A node in another network namespace: packets go through the kernel's network stack as between two hosts.

In this process :func:`node_elsewhere` makes the namespace; ``python -m tests.benchmarks.elsewhere ADDRESS`` runs
inside it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE, THERE = "10.203.77.1", "10.203.77.2"


class NotPermittedError(Exception):
    """This process may not make network namespaces; the message says what it lacks."""


def namespace() -> str:
    """What this process calls the namespace that it makes."""
    return f"igs-{os.getpid()}"


@contextlib.contextmanager
def node_elsewhere() -> Iterator[str]:
    """Starts one node in a namespace of its own and yields its address.

    Raises:
      NotPermittedError: The privilege (CAP_NET_ADMIN and CAP_SYS_ADMIN) or the command ``ip`` is missing.
    """
    name = namespace()
    if shutil.which("ip") is None:
        raise NotPermittedError("the command `ip` is missing (apt-get install iproute2)")
    _ip("netns", "add", name)
    try:
        _ip("link", "add", f"igh{os.getpid()}", "type", "veth", "peer", "name", "igt", "netns", name)
        _ip("addr", "add", f"{HERE}/30", "dev", f"igh{os.getpid()}")
        _ip("link", "set", f"igh{os.getpid()}", "up")
        for command in (f"addr add {THERE}/30 dev igt", "link set igt up", "link set lo up"):
            _ip("netns", "exec", name, "ip", *command.split())
        with _node(
            ["ip", "netns", "exec", name, sys.executable, "-m", "tests.benchmarks.elsewhere", THERE]
        ) as address:
            yield address
    finally:
        with contextlib.suppress(NotPermittedError):
            _ip("link", "del", f"igh{os.getpid()}")
        _ip("netns", "del", name)


@contextlib.contextmanager
def _node(command: list[str]) -> Iterator[str]:
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise NotPermittedError(f"no node started in the other namespace (exit code {process.wait(10)})")
        yield address
    finally:
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        process.stdout.close()


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise NotPermittedError(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}; run as root")


if __name__ == "__main__":
    import ignite_strategy as igs

    with igs.LocalCluster(nodes=1, host=sys.argv[1], full_speed=True, heap_mb=1536, data_mb=4096) as cluster:
        print(cluster.addresses[0], flush=True)
        sys.stdin.read()
