"""Writes ``cluster/jars.lock`` anew: ``python -m ignite_strategy.local.lock > cluster/jars.lock``.

With a version as its argument, the lock of an older one: ``... 2.7.6 > cluster/jars-2.7.6.lock``.
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


def main(version: str = VERSION) -> None:
    """Resolves the roots and prints every jar with its checksum."""
    from jgo.maven import MavenContext

    with tempfile.TemporaryDirectory() as scratch:
        maven = MavenContext(repo_cache=Path(scratch))
        wanted = [maven.create_dependency(f"{root}:{version}") for root in ROOTS]
        inputs, others = maven.resolver.resolve(wanted)
        print(
            f"# The jars of an Apache Ignite {version} node with SQL and XML configuration, and their SHA-256."
        )
        print("# Written by: python -m ignite_strategy.local.lock")
        for line in sorted(_line(found.artifact) for found in [*inputs, *others]):
            print(line)


def _line(artifact: object) -> str:
    path = Path(artifact.resolve())  # type: ignore[attr-defined]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{artifact.groupId}:{artifact.artifactId}:{artifact.version} {digest}"  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(*sys.argv[1:2])
