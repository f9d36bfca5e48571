"""``ignite-strategy fs`` as a user types it."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ignite_strategy.cli import main
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.settings import parse_endpoint

pytestmark = pytest.mark.integration
_names = itertools.count()


@pytest.fixture
def files(one_node: str, monkeypatch: pytest.MonkeyPatch) -> FileSystem:
    """What ``igfs:///`` means in a test, a file system of its own."""
    host, port = parse_endpoint(one_node)
    name = f"shell{next(_names)}"
    for variable, value in (("HOST", host), ("PORT", str(port)), ("FS_NAME", name)):
        monkeypatch.setenv(f"IGFS_{variable}", value)
    return FileSystem(host, port, name)


def fs(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command's exit code and what it printed, in this process: starting one takes longer than all it does."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(sys, "argv", ["ignite-strategy", "fs", *arguments])
        if folder:
            patch.chdir(folder)
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        ended = stack.enter_context(pytest.raises(SystemExit))
        main()
    out.seek(0)
    return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out.read(), err.getvalue())


def ok(*arguments: str, folder: Path | None = None) -> str:
    done = fs(*arguments, folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_folder_there_and_back(files: FileSystem, tmp_path: Path) -> None:
    (tmp_path / "run" / "deep").mkdir(parents=True)
    (tmp_path / "run" / "a.txt").write_bytes(b"1" * 5_000_000)
    (tmp_path / "run" / "deep" / "b.txt").write_bytes(b"")
    (tmp_path / "run" / "void").mkdir()
    ok("cp", "-r", "run", "igfs:///", folder=tmp_path)
    assert ok("ls", "-r", "igfs:///").splitlines() == [
        "run/",
        "run/a.txt",
        "run/deep/",
        "run/deep/b.txt",
        "run/void/",
    ]
    ok("cp", "-r", "igfs:///run", "back", folder=tmp_path)
    assert (tmp_path / "back" / "a.txt").read_bytes() == b"1" * 5_000_000
    assert sorted(entry.name for entry in (tmp_path / "back").iterdir()) == ["a.txt", "deep", "void"]
    assert "5,000,000 bytes        2 files" in ok("du", "igfs:///run")


def test_one_file_at_a_time(files: FileSystem, tmp_path: Path) -> None:
    ok("mkdir", "-p", "igfs:///a/b")
    ok("mkdir", "-p", "igfs:///a/b")
    (tmp_path / "f").write_text("Hello\n")
    ok("cp", "f", "igfs:///a/b/g", folder=tmp_path)
    ok("cp", "igfs:///a/b/g", "igfs:///a/b/h")
    assert ok("cat", "igfs:///a/b/g", "igfs:///a/b/h") == "Hello\nHello\n"
    ok("mv", "igfs:///a", "igfs:///c")
    assert ok("ls", "igfs:///c/b/[gx]") == "g\n"
    listed = ok("ls", "-l", "igfs:///c/b").splitlines()
    assert [(line[0], line.split()[1], line.split()[-1]) for line in listed] == [
        ("-", "6", "g"),
        ("-", "6", "h"),
    ]
    assert "file, 6 bytes" in ok("stat", "igfs:///c/b/h")
    ok("cp", "igfs:///c/b/*", ".", folder=tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"f", "g", "h"}
    ok("rm", "igfs:///c/b/*")
    ok("rm", "-r", "igfs:///c")
    assert files.list("/") == []


def test_what_cannot_be_copied_is_an_error(
    files: FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe has no end, and a folder that may not be read is not an empty one."""
    (tmp_path / "d" / "closed").mkdir(parents=True)
    (tmp_path / "d" / "f").write_bytes(b"x")
    os.mkfifo(tmp_path / "d" / "pipe")
    for source in ("d", "d/pipe"):
        done = fs("cp", "-r", source, "igfs:///d", folder=tmp_path)
        assert done.returncode == 1
        assert f"{tmp_path}/d/pipe is neither a file nor a directory" in done.stderr
    (tmp_path / "d" / "pipe").unlink()
    plain = os.scandir

    def scandir(path: str) -> object:
        if str(path).rstrip("/").endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path)

    monkeypatch.setattr(os, "scandir", scandir)
    done = fs("cp", "-r", "d", "igfs:///d", folder=tmp_path)
    assert done.returncode == 1
    assert "closed" in done.stderr
    assert files.list("/") == []


def test_names_that_look_like_patterns_are_removed_alone(files: FileSystem) -> None:
    """``run[1]`` is the directory of that name, if there is one, and never ``run1``."""

    def names() -> list[str]:
        return [status.name for status in files.list("/")]

    for name in ("b1", "b[1]", "[a]", "a", "what1", "what?", "only[1]"):
        files.write(f"/{name}", b"x")
    for folder in ("run1", "run[1]"):
        files.mkdir(f"/{folder}")
        files.write(f"/{folder}/f", b"x")
    ok("rm", "igfs:///b[1]", "igfs:///[[]*", "igfs:///what?", "igfs:///only[1]")
    assert names() == ["a", "b1", "run1", "run[1]", "what1"]
    ok("rm", "-r", "igfs:///run[1]")
    assert names() == ["a", "b1", "run1", "what1"]
    files.write("/b[1]", b"x")
    ok("rm", "igfs:///b*")
    assert names() == ["a", "run1", "what1"]
    files.write("/a[1]", b"x")
    files.write("/a1", b"x")
    from ignite_strategy.filesystem.fsspec_igfs import IgniteFileSystem

    IgniteFileSystem().rm("/a[1]")
    assert names() == ["a", "a1", "run1", "what1"]
    IgniteFileSystem().rm("/a[1]")  # now it matches another
    assert names() == ["a", "run1", "what1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ls", "igfs:///none"], "igfs:///none: no such file or directory"),
        (["cat", "igfs:///none/*"], "igfs:///none/*: no such file or directory"),
        (["rm", "/etc/passwd"], "'/etc/passwd' is not an igfs:// path: write igfs:///etc/passwd"),
        (["rm", "igfs:///d"], "is a directory: remove it with -r"),
        (["cp", "igfs:///d", "x"], "is a directory: copy it with -r"),
        (["cp", "-r", "igfs:///d", "igfs:///d/e"], "is inside"),
        (["cp", "igfs:///d/f", "igfs:///d/f"], "are the same file"),
        (["cp", "igfs:///d/f", "igfs:///d/f", "igfs:///g"], "is not a directory"),
        (["cp", "igfs:///d/f", "gopher://x/y"], "gopher"),
        (["cp", "igfs:///d/f", "/none/at/all"], "no such directory: /none/at"),
        (["mkdir", "igfs:///d"], "exists already"),
        (["ls", "igfs://127.0.0.1:1/"], "127.0.0.1:1"),
    ],
)
def test_one_clear_error(files: FileSystem, tmp_path: Path, arguments: list[str], said: str) -> None:
    files.mkdir("/d")
    files.write("/d/f", b"1")
    done = fs(*arguments, folder=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_leaves_the_target_is_refused(files: FileSystem, tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("d/../../../escaped", "1")
    done = fs("cp", "-r", f"zip://::file://{tmp_path}/evil.zip", "igfs:///in")
    assert done.returncode == 1
    assert not files.exists("/escaped")
