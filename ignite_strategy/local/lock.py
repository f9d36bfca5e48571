"""Writes ``cluster/jars.lock`` anew: ``python -m ignite_strategy.local.lock > cluster/jars.lock``.

With a version as its argument, the lock of an older one: ``... 2.7.6 > cluster/jars-2.7.6.lock``; with ``zookeeper``
that of a ZooKeeper server: ``... zookeeper > cluster/zookeeper.lock``; with ``zookeeper-discovery`` what a node needs
besides to find the others through ZooKeeper.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

__all__ = ["main"]

VERSION = "2.17.0"
ROOTS = (
    "org.apache.ignite:ignite-core",
    "org.apache.ignite:ignite-indexing",
    "org.apache.ignite:ignite-spring",
)
ZOOKEEPER_VERSION = "3.9.5"
# Its server needs metrics-core and snappy-java, and says so only when it starts. All log as the nodes do.
OTHERS = {
    "zookeeper": (
        f"The jars of an Apache ZooKeeper {ZOOKEEPER_VERSION} server",
        (
            f"org.apache.zookeeper:zookeeper:{ZOOKEEPER_VERSION}",
            "io.dropwizard.metrics:metrics-core:4.2.40",
            "org.xerial.snappy:snappy-java:1.1.10.12",
            "org.slf4j:slf4j-jdk14:2.0.13",
        ),
    ),
    "zookeeper-discovery": (
        f"The jars with which an Apache Ignite {VERSION} node finds the others through ZooKeeper",
        (f"org.apache.ignite:ignite-zookeeper:{VERSION}", "org.slf4j:slf4j-jdk14:1.7.33"),
    ),
}
# What every node has, another logger, what only ZooKeeper's tests use, and native code for single kinds of machines.
_LEFT_OUT = {
    "annotations",
    "byte-buddy",
    "byte-buddy-agent",
    "cache-api",
    "ignite-core",
    "logback-classic",
    "logback-core",
    "mockito-core",
    "netty-tcnative-boringssl-static",
    "netty-transport-native-epoll",
    "objenesis",
}


def main(what: str = VERSION) -> None:
    """Resolves the roots and prints every jar with its checksum."""
    from jgo.maven import MavenContext

    if what in OTHERS:
        (title, roots), left_out = OTHERS[what], _LEFT_OUT
    else:
        title = f"The jars of an Apache Ignite {what} node with SQL and XML configuration"
        roots, left_out = tuple(f"{root}:{what}" for root in ROOTS), set()
    with tempfile.TemporaryDirectory() as scratch:
        maven = MavenContext(repo_cache=Path(scratch))
        inputs, others = maven.resolver.resolve([maven.create_dependency(root) for root in roots])
        print(f"# {title}, and their SHA-256.")
        print("# Written by: python -m ignite_strategy.local.lock")
        found = [each.artifact for each in [*inputs, *others] if each.artifact.artifactId not in left_out]
        for line in sorted(map(_line, found)):
            print(line)


def _line(artifact: object) -> str:
    path = Path(artifact.resolve())  # type: ignore[attr-defined]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{artifact.groupId}:{artifact.artifactId}:{artifact.version} {digest}"  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(*sys.argv[1:2])
