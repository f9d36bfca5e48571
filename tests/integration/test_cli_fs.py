"""``ignite-strategy fs`` as a user types it."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import fsspec
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


def test_links_on_local_disk(files: FileSystem, tmp_path: Path) -> None:
    """To a file they are that file, also as a target; to a directory, or to nothing, they are refused."""
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "f").write_bytes(b"x")
    (tmp_path / "d" / "link").symlink_to("f")
    ok("cp", "-r", "d", "igfs:///d", folder=tmp_path)
    assert files.read("/d/link") == b"x"
    (tmp_path / "d" / "folder").symlink_to("e")
    done = fs("cp", "-r", "d", "igfs:///again", folder=tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path}/d/folder is a link to a directory: copy that one itself" in done.stderr
    assert not files.exists("/again")
    files.write("/new", b"new")
    ok("cp", "igfs:///new", "d/link", folder=tmp_path)
    assert (tmp_path / "d" / "link").is_symlink()
    assert (tmp_path / "d" / "f").read_bytes() == b"new"
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    for target, said in (("dangling", "is a link to nothing"), ("pipe", "is there already, and is no file")):
        done = fs("cp", "igfs:///new", target, folder=tmp_path)
        assert (done.returncode, said in done.stderr) == (1, True)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["d", "dangling", "pipe"]


def test_a_directory_is_not_copied_into_itself_by_another_name(files: FileSystem, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "alias").symlink_to("d")
    for target in ("d/../d/e", "alias/e", "d"):
        done = fs("cp", "-r", "d", target + "/", folder=tmp_path)
        assert (done.returncode, "is inside" in done.stderr) == (1, True), target
    assert list((tmp_path / "d").iterdir()) == []


def test_names_as_people_have_them(files: FileSystem, tmp_path: Path) -> None:
    longest = "n" * 255
    for name in (longest, "a::b", "a#b?c", "caf\u00e9"):
        (tmp_path / name).write_text(name)
        ok("cp", name, f"igfs:///{name}", folder=tmp_path)
        assert files.read(f"/{name}").decode() == name
        ok("cp", f"igfs:///{name}", "back", folder=tmp_path)
        assert (tmp_path / "back").read_text() == name
    files.write("/\x1b[2Jgone", b"1")
    assert "\\x1b[2Jgone" in ok("ls", "igfs:///").splitlines()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / os.fsdecode(b"\xff")).write_bytes(b"1")
    for arguments in (("cp", "-r", "d", "igfs:///d"), ("stat", "igfs:///" + os.fsdecode(b"\xff"))):
        done = fs(*arguments, folder=tmp_path)
        assert (done.returncode, "not UTF-8" in done.stderr) == (1, True)
        assert "\\udcff" in done.stderr


def test_many_are_renamed_at_once_also_by_another_address(files: FileSystem, one_node: str) -> None:
    files.mkdir("/d")
    for name in ("a1", "a2", "b"):
        files.write(f"/{name}", name.encode())
    _, port = parse_endpoint(one_node)
    name = os.environ["IGFS_FS_NAME"]
    done = fs("mv", "igfs:///a*", "igfs:///b")
    assert (done.returncode, "is not a directory" in done.stderr) == (1, True)
    ok("mv", "igfs:///a*", f"igfs://{name}@localhost:{port}/d")
    assert [status.name for status in files.list("/d")] == ["a1", "a2"]
    done = fs("mv", "igfs:///b", f"igfs://other@localhost:{port}/b")
    assert (done.returncode, "are on different file systems" in done.stderr) == (1, True)
    assert files.read("/b") == b"b"


@pytest.mark.parametrize("target", ["memory://half", "local"])
def test_a_copy_that_fails_leaves_nothing(
    files: FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    files.write("/f", b"x" * 100)

    def pump(source: io.RawIOBase, out: io.RawIOBase, moved: object) -> None:
        out.write(source.read(50))
        raise OSError("the disk of the source is gone")

    monkeypatch.setattr("ignite_strategy.filesystem.transfer._pump", pump)
    done = fs("cp", "igfs:///f", target, folder=tmp_path)
    assert (done.returncode, "the disk of the source is gone" in done.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []
    if "://" in target:
        assert not fsspec.open(target).fs.exists(target)


def test_a_copy_that_is_terminated_leaves_nothing(files: FileSystem, tmp_path: Path) -> None:
    files.write("/f", b"x" * 200_000_000)
    command = [sys.executable, "-m", "ignite_strategy", "fs", "cp", "igfs:///f", str(tmp_path / "f")]
    copying = subprocess.Popen(command)
    until = time.monotonic() + 60
    while not list(tmp_path.iterdir()):
        assert time.monotonic() < until
        time.sleep(0.001)
    copying.terminate()
    copying.wait(60)
    assert copying.returncode == 143
    assert list(tmp_path.iterdir()) == []


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
        (["stat", "igfs://127.0.0.1:1/"], "127.0.0.1:1"),
        (["ls", "igfs://user:secret@127.0.0.1/"], "igfs://user:***@127.0.0.1/"),
        (["ls", "igfs://a%20b@127.0.0.1/"], "'a%20b': a file system name has"),
        (["cp", "igfs:///d/f", "igfs:///none/f"], "/none: no such directory; create it with fs mkdir -p"),
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
