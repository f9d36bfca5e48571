"""What is measured of igfs://: ours, tensorflow-io's, the caches' own puts and gets, local disk."""

from __future__ import annotations

from typing import Any

from tests.benchmarks.measure import Entry, Limit, Target, Work
from tests.benchmarks.works import FILES, Cache, Plan

KIB, MIB = 1 << 10, 1 << 20
# What a copy may take above idle: blocks in flight, and TensorFlow's own buffers.
_MOST_MEMORY = 64 * MIB
_CACHES = Cache("RAW_BLOCKS", "files", 0, 1024)


def _plan(work: Work) -> Plan:
    return Plan(work, _CACHES, FILES)


def writing(mebibytes: int, disk: str) -> Plan:
    """Sequential writing."""
    few = min(mebibytes, 128)
    return _plan(
        Work(
            "igfs-write",
            f"a file of {mebibytes:,} MiB written",
            mebibytes,
            [
                Entry("ours, 4 MiB at a time", "igfs", "write", options={"chunk": 4 * MIB}),
                Entry("ours, 64 KiB at a time", "igfs", "write", options={"chunk": 64 * KIB}),
                Entry("raw puts of 512 KiB", "raw_kv", "write"),
                Entry(
                    "local disk, TensorFlow, 4 MiB", "igfs", "write", options={"chunk": 4 * MIB, "disk": disk}
                ),
                Entry(
                    "tensorflow-io, 4 MiB at a time",
                    "tensorflow_io_igfs",
                    "write",
                    options={"chunk": 4 * MIB, "limit": few},
                ),
                Entry(
                    "tensorflow-io, 64 KiB at a time",
                    "tensorflow_io_igfs",
                    "write",
                    options={"chunk": 64 * KIB, "limit": few},
                ),
            ],
            [
                Target("ours, 4 MiB at a time", "raw puts of 512 KiB", 0.85),
                Target("ours, 64 KiB at a time", "raw puts of 512 KiB", 0.85),
                Target("ours, 4 MiB at a time", "tensorflow-io, 4 MiB at a time", 1.6),
                Target("ours, 64 KiB at a time", "tensorflow-io, 64 KiB at a time", 2),
            ],
            unit="MiB",
        )
    )


def reading(mebibytes: int, disk: str) -> Plan:
    """Sequential reading."""
    few = min(mebibytes, 64)
    return _plan(
        Work(
            "igfs-read",
            f"a file of {mebibytes:,} MiB read",
            mebibytes,
            [
                Entry("ours, 4 MiB at a time", "igfs", "read into", options={"chunk": 4 * MIB}),
                Entry("ours, TensorFlow, 4 MiB", "igfs", "read", options={"chunk": 4 * MIB}),
                Entry("raw gets of 512 KiB", "raw_kv", "read"),
                Entry(
                    "local disk, TensorFlow, 4 MiB", "igfs", "read", options={"chunk": 4 * MIB, "disk": disk}
                ),
                Entry(
                    "tensorflow-io, 4 MiB at a time",
                    "tensorflow_io_igfs",
                    "read",
                    options={"chunk": 4 * MIB, "limit": few},
                ),
            ],
            [
                Target("ours, 4 MiB at a time", "raw gets of 512 KiB", 0.85),
                Target("ours, TensorFlow, 4 MiB", "raw gets of 512 KiB", 0.85),
                Target("ours, TensorFlow, 4 MiB", "tensorflow-io, 4 MiB at a time", 50),
            ],
            unit="MiB",
        )
    )


def pieces(mebibytes: int, disk: str) -> Plan:
    """Reading here and there."""
    file = {"file": mebibytes}
    return _plan(
        Work(
            "igfs-pieces",
            f"400 pieces of 1 MiB read from anywhere in {mebibytes:,} MiB",
            400,
            [
                Entry("ours", "igfs", "pieces into", options=file),
                Entry("ours, TensorFlow", "igfs", "pieces", options=file),
                Entry("raw gets of 512 KiB", "raw_kv", "pieces", options=file),
                Entry("local disk, TensorFlow", "igfs", "pieces", options={**file, "disk": disk}),
            ],
            [
                Target("ours", "raw gets of 512 KiB", 0.6),
                Target("ours, TensorFlow", "raw gets of 512 KiB", 0.6),
            ],
            unit="MiB",
        )
    )


def checkpoint(megabytes: int, disk: str) -> Plan:
    """A checkpoint saved and restored."""
    return _plan(
        Work(
            "igfs-checkpoint",
            f"a checkpoint of {megabytes:,} MB saved and restored by TensorFlow's Saver",
            megabytes,
            [
                Entry("ours", "igfs", "checkpoint"),
                Entry("local disk", "igfs", "checkpoint", options={"disk": disk}),
                Entry("raw puts and gets", "raw_kv", "both"),
            ],
            [Target("ours", "local disk", 1 / 1.5, "raw puts and gets")],
            unit="MB",
        )
    )


def copying(mebibytes: int) -> Plan:
    """A copy within igfs."""
    return _plan(
        Work(
            "igfs-copy",
            f"a file of {mebibytes:,} MiB copied",
            mebibytes,
            [Entry("ours", "igfs", "copy")],
            [],
            [Limit("ours", 0, batch_bytes=_MOST_MEMORY)],
            unit="MiB",
        )
    )


def looking(calls: int) -> Plan:
    """What is there?"""
    return _plan(
        Work(
            "igfs-stat",
            f"{calls:,} times stat of a file five levels down",
            calls,
            [Entry("ours", "igfs", "stat"), Entry("raw gets", "raw_kv", "stat")],
            [Target("ours", "raw gets", 0.5)],
            unit="calls",
        )
    )


def changing(calls: int) -> list[Plan]:
    """Files created, and renamed."""
    create = {"reads": 2, "writes": 1, "removes": 0}
    rename = {"reads": 3, "writes": 1, "removes": 1}
    return [
        _plan(
            Work(
                f"igfs-{name}",
                f"{calls:,} files {done}",
                calls,
                [
                    Entry("ours", "igfs", name),
                    Entry("raw transactions", "raw_kv", "transactions", options=operations),
                ],
                [Target("ours", "raw transactions", 0.5)],
                unit="calls",
            )
        )
        for name, done, operations in (
            ("create", "created and closed", create),
            ("rename", "renamed", rename),
        )
    ]


def plans(options: Any, disk: str) -> list[Plan]:
    """All works on files."""
    return [
        writing(options.mebibytes, disk),
        reading(options.mebibytes, disk),
        pieces(min(options.mebibytes, 512), disk),
        copying(options.mebibytes),
        checkpoint(options.mebibytes // 2, disk),
        looking(options.calls),
        *changing(options.calls),
    ]
