"""A job's folder, packed and unpacked: what an archive must not have is refused, whatever it says of itself."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ignite_strategy.errors import DataLossError, InvalidArgumentError, NotFoundError
from ignite_strategy.runtime.scripts.archive import Limits, digest_of, pack, unpack

SMALL = Limits(packed=1 << 20, unpacked=1 << 20, entries=10)


def job(folder: Path) -> Path:
    (folder / "pkg").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "train.py").write_text("print(1)\n")
    (folder / "pkg" / "data.bin").write_bytes(bytes(range(256)) * 1000)
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_bytes(b"x")
    return folder


def made(*entries: Any) -> bytes:
    """A gzipped tar of (name, type or content, link) as its author likes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content, *link in entries:
            entry = tarfile.TarInfo(name)
            if isinstance(content, bytes) and link == []:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
            else:
                entry.type, entry.linkname = content, link[0]
                archive.addfile(entry)
    return out.getvalue()


def unpacked(data: bytes, folder: Path, limits: Limits = SMALL) -> list[str]:
    unpack(data, digest_of(data), folder, limits)
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_there_and_back(tmp_path: Path) -> None:
    data = pack(job(tmp_path / "job"))
    target = tmp_path / "target"
    target.mkdir()
    assert unpacked(data, target) == ["empty", "pkg", "pkg/data.bin", "run.sh", "train.py"]
    assert (target / "pkg" / "data.bin").read_bytes() == bytes(range(256)) * 1000
    assert os.access(target / "run.sh", os.X_OK)
    assert [(target / name).stat().st_mode & 0o777 for name in ("train.py", "run.sh", "pkg")] == [
        0o600,
        0o700,
        0o700,
    ]


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = job(tmp_path / "one"), job(tmp_path / "two")
    os.utime(second / "train.py", (1, 1))
    assert pack(first) == pack(second)


def test_a_single_file(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("1")
    target = tmp_path / "target"
    target.mkdir()
    assert unpacked(pack(tmp_path / "train.py"), target) == ["train.py"]


def test_what_cannot_be_packed_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nothing"):
        pack(tmp_path / "nothing")
    folder = job(tmp_path / "job")
    (folder / "link").symlink_to("/etc/passwd")
    with pytest.raises(InvalidArgumentError, match="job/link is a link"):
        pack(folder)
    (folder / "link").unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(InvalidArgumentError, match="job/pipe is neither"):
        pack(folder)
    (folder / "pipe").unlink()
    with pytest.raises(InvalidArgumentError, match="larger than"):
        pack(folder, Limits(unpacked=1000))
    with pytest.raises(InvalidArgumentError, match="more than 3"):
        pack(folder, Limits(entries=3))
    (folder / "noise").write_bytes(os.urandom(100_000))
    with pytest.raises(InvalidArgumentError, match="igfs"):
        pack(folder, Limits(packed=50_000))


@pytest.mark.parametrize(
    "entry",
    [
        ("/etc/cron.d/x", b"1"),
        ("../x", b"1"),
        ("a/../../x", b"1"),
        ("a/./x", b"1"),
        ("a//x", b"1"),
        ("..", b"1"),
        ("a\\..\\x", b"1"),
        ("n" * 256, b"1"),
        ("/".join(["d" * 100] * 11), b"1"),
        ("link", tarfile.SYMTYPE, "/etc/passwd"),
        ("link", tarfile.SYMTYPE, "train.py"),
        ("link", tarfile.LNKTYPE, "/etc/passwd"),
        ("device", tarfile.CHRTYPE, ""),
        ("device", tarfile.BLKTYPE, ""),
        ("pipe", tarfile.FIFOTYPE, ""),
        ("strange", b"9", ""),
        ("sparse", tarfile.GNUTYPE_SPARSE, ""),
        ("contiguous", tarfile.CONTTYPE, ""),
    ],
    ids=lambda entry: str(entry[:2])[:40],
)
def test_entries_that_are_refused(entry: Any, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"
    target.mkdir(parents=True)
    outside = set(tmp_path.parent.rglob("*"))
    with pytest.raises((InvalidArgumentError, DataLossError)):
        unpacked(made(("fine", b"1"), entry), target)
    assert set(tmp_path.parent.rglob("*")) - outside <= {target / "fine", target / "a"}
    assert not any(path.is_symlink() for path in target.rglob("*"))


def test_a_link_that_is_written_through(tmp_path: Path) -> None:
    """The classic: a link to somewhere, then a file below it."""
    elsewhere, target = tmp_path / "elsewhere", tmp_path / "target"
    elsewhere.mkdir()
    target.mkdir()
    with pytest.raises(InvalidArgumentError, match="neither a file nor a folder"):
        unpacked(made(("d", tarfile.SYMTYPE, str(elsewhere)), ("d/x", b"1")), target)
    assert list(elsewhere.iterdir()) == []


def test_a_name_twice(tmp_path: Path) -> None:
    with pytest.raises(DataLossError, match="exists"):
        unpacked(made(("x", b"1"), ("x", b"2")), tmp_path)
    assert (tmp_path / "x").read_bytes() == b"1"


def test_a_file_as_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataLossError):
        unpacked(made(("x", b"1"), ("x/y", b"2")), tmp_path)


def test_too_many_entries(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="more than 10 entries"):
        unpacked(made(*((f"f{n}", b"") for n in range(11))), tmp_path)


def test_bombs(tmp_path: Path) -> None:
    honest = made(("zeros", bytes(2 << 20)))
    assert len(honest) < 10_000
    with pytest.raises(InvalidArgumentError, match="more than 1 MiB"):
        unpacked(honest, tmp_path)
    assert unpacked(gzip.compress(bytes(64 << 20)), tmp_path / "none") == [], (
        "what follows the end is not read"
    )
    # A header of 2 MiB, which tarfile would read at once.
    entry = tarfile.TarInfo("x")
    entry.pax_headers = {"comment": "c" * (2 << 20)}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(entry)
    with pytest.raises(InvalidArgumentError, match="more than 1 MiB"):
        unpacked(out.getvalue(), tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) == 0


def test_a_size_that_lies(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("x")
    entry.size = 1 << 40
    data = gzip.compress(entry.tobuf() + b"short")
    with pytest.raises((InvalidArgumentError, DataLossError)):
        unpacked(data, tmp_path)


def test_damage_and_other_digests(tmp_path: Path) -> None:
    data = pack(job(tmp_path / "job"))
    target = tmp_path / "target"
    with pytest.raises(DataLossError, match="SHA-256"):
        unpack(data, digest_of(data + b"1"), target)
    with pytest.raises(InvalidArgumentError, match="larger"):
        unpack(data, digest_of(data), target, Limits(packed=10))
    assert not target.exists()
    target.mkdir()
    for cut in (10, len(data) // 2, len(data) - 20):
        with pytest.raises(DataLossError):
            unpacked(data[:cut], target / str(cut))
    with pytest.raises(DataLossError):
        unpacked(b"no archive", target)
