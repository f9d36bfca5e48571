"""igfs:// on the endpoint of a real IGFS: what the contract leaves open."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fsspec.tests import abstract

from ignite_strategy.errors import (
    AlreadyExistsError,
    ConnectionFailedError,
    IgniteStrategyError,
    InvalidArgumentError,
    NotFoundError,
    PreconditionError,
)
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.filesystem.fsspec_igfs import IgniteFileSystem
from ignite_strategy.local import LocalCluster
from ignite_strategy.settings import Credentials, Security, Tls, parse_endpoint
from tests.igfs_raw import RawIgfs
from tests.integration.test_igfs_publishing import eventually
from tests.relay import Relay

pytestmark = pytest.mark.integration
_folders = itertools.count()


@pytest.fixture(scope="module")
def igfs() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=1, version="2.8.1", igfs=True, data_mb=1024) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def address(igfs: LocalCluster) -> str:
    return igfs.igfs_addresses[0]


@pytest.fixture
def files(address: str) -> FileSystem:
    return FileSystem(*parse_endpoint(address), backend="endpoint")


@pytest.fixture
def folder(files: FileSystem) -> str:
    path = f"/folder{next(_folders)}"
    files.mkdir(path)
    return path


@pytest.fixture(scope="module")
def raw(address: str) -> Iterator[RawIgfs]:
    with closing(RawIgfs(address)) as other:
        yield other


@pytest.fixture
def relay(address: str) -> Iterator[Relay]:
    running = Relay(parse_endpoint(address))
    yield running
    running.close()


def names(files: FileSystem, folder: str) -> list[str]:
    return [status.name for status in files.list(folder)]


# --- which backend ----------------------------------------------------------------------------------------------------


def test_the_variables_are_those_of_the_original(
    address: str, files: FileSystem, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(f"{folder}/f", b"1")
    host, port = parse_endpoint(address)
    monkeypatch.setenv("IGFS_HOST", host)
    monkeypatch.setenv("IGFS_PORT", str(port))
    monkeypatch.setenv("IGFS_FS_NAME", "default_fs")
    monkeypatch.setenv("IGFS_BACKEND", "endpoint")
    assert FileSystem().read(f"{folder}/f") == b"1"
    assert repr(FileSystem()) == f"FileSystem(default_fs@{address})"


def test_the_port_and_the_variable_say_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IGFS_HOST", "no.such.host.invalid")
    assert repr(FileSystem()) == "FileSystem(default_fs@no.such.host.invalid:10800)"
    monkeypatch.setenv("IGFS_BACKEND", "endpoint")
    assert repr(FileSystem()) == "FileSystem(default_fs@no.such.host.invalid:10500)"
    monkeypatch.setenv("IGFS_BACKEND", "caches")
    FileSystem(port=10500, security=Security(None, Credentials("u", "p")))
    monkeypatch.delenv("IGFS_BACKEND")
    for wrong in (
        lambda: FileSystem("h", 10500, security=Security(None, Credentials("u", "p"))),
        lambda: FileSystem("h", backend="endpoint", security=Security(Tls(verify=False))),
    ):
        with pytest.raises(InvalidArgumentError, match="neither"):
            wrong()
    monkeypatch.setenv("IGNITE_CAFILE", "/ca.pem")
    monkeypatch.setenv("IGNITE_TLS", "1")
    with pytest.raises(InvalidArgumentError, match="neither"):
        FileSystem("h", 10500)
    with pytest.raises(InvalidArgumentError, match="backend=both"):
        FileSystem("h", backend="both")


def test_another_name_than_that_of_the_file_system(address: str) -> None:
    with pytest.raises(PreconditionError, match=r"refuses the file system 'other'.*IGFS_FS_NAME"):
        FileSystem(*parse_endpoint(address), "other", backend="endpoint").exists("/x")


def test_the_wrong_one_of_two_ports(igfs: LocalCluster, address: str) -> None:
    start = time.monotonic()
    thin = FileSystem(*parse_endpoint(igfs.addresses[0]), backend="endpoint")
    with pytest.raises((ConnectionFailedError, PreconditionError), match=r"IGFS_BACKEND=caches"):
        thin.exists("/x")
    with pytest.raises((ConnectionFailedError, PreconditionError), match=address):
        FileSystem(*parse_endpoint(address), backend="caches").exists("/x")
    assert time.monotonic() - start < 15


# --- publishing -------------------------------------------------------------------------------------------------------

_WRITER = """
import os, sys
from ignite_strategy.filesystem import FileSystem
files = FileSystem({host!r}, {port}, backend="endpoint")
out = files.open({path!r}, "wb")
{before}
out.write(b"n" * 5_000_000)
print("written", flush=True)
sys.stdin.read()
"""


def kill_a_writer(address: str, path: str, before: str = "") -> None:
    host, port = parse_endpoint(address)
    code = _WRITER.format(host=host, port=port, path=path, before=before)
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"written\n"
    finally:
        child.kill()
        child.communicate()


def test_a_killed_writer_leaves_what_was_there(
    address: str, files: FileSystem, folder: str, raw: RawIgfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(f"{folder}/f", b"old")
    kill_a_writer(address, f"{folder}/f")
    assert files.read(f"{folder}/f") == b"old"
    assert names(files, folder) == ["f"]
    assert len(raw.names(folder)) == 2
    files.list(folder)
    assert len(raw.names(folder)) == 2  # its writer may be just slow
    monkeypatch.setenv("IGFS_WRITER_LEASE_SECONDS", "1")
    time.sleep(1.2)

    def collected() -> bool:
        FileSystem(*parse_endpoint(address), backend="endpoint").list(folder)
        return raw.names(folder) == ["f"]

    eventually(collected)


@pytest.mark.parametrize("after", [0.02, 0.1, 0.3])
def test_a_writer_that_is_killed_while_it_extends_a_file_damages_nothing(
    address: str, files: FileSystem, folder: str, after: float
) -> None:
    """Half a block would make the server lose what was in the file before."""
    files.write(f"{folder}/f", b"o" * 700_000)
    host, port = parse_endpoint(address)
    code = f"""
from ignite_strategy.filesystem import FileSystem
out = FileSystem({host!r}, {port}, backend="endpoint").open({folder + "/f"!r}, "ab")
print("begins", flush=True)
while True:
    out.write(b"n" * 3_000_000)
    out.flush()
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"begins\n"
    time.sleep(after)
    child.kill()
    child.communicate()
    time.sleep(0.3)  # the server closes what it had open
    content = files.read(f"{folder}/f")
    assert content == b"o" * 700_000 + b"n" * (len(content) - 700_000)


@pytest.mark.parametrize("after", [1_000, 300_000])
def test_a_connection_that_breaks_while_a_file_is_extended(
    relay: Relay, files: FileSystem, folder: str, after: int
) -> None:
    files.write(f"{folder}/f", b"o" * 700_000)
    out = FileSystem("127.0.0.1", relay.port, backend="endpoint").open(f"{folder}/f", "ab")
    out.write(b"n" * 3_000_000)
    relay.cut_after(after)
    with pytest.raises(ConnectionFailedError):
        out.close()
    time.sleep(0.3)
    content = files.read(f"{folder}/f")
    assert content == b"o" * 700_000 + b"n" * (len(content) - 700_000)
    assert len(content) < 3_700_000


def test_a_killed_writer_leaves_what_it_had_flushed(address: str, files: FileSystem, folder: str) -> None:
    kill_a_writer(address, f"{folder}/f", before="out.write(b'abc'); out.flush()")
    assert files.read(f"{folder}/f") == b"abc"
    files.remove(f"{folder}/f")
    files.remove(folder)  # it is empty


def test_a_directory_with_an_unfinished_file_goes_once_its_writer_is_gone(
    address: str, files: FileSystem, folder: str, raw: RawIgfs
) -> None:
    kill_a_writer(address, f"{folder}/f")
    with files.open(f"{folder}/g", "wb") as out:
        out.write(b"x" * 5_000_000)
        assert len(raw.names(folder)) == 2

        def only_the_living() -> bool:
            with pytest.raises(PreconditionError, match="not empty: a file in it is being written"):
                files.remove(folder)
            return len(raw.names(folder)) == 1

        eventually(only_the_living)  # once the server has noticed that the other one is gone
    assert names(files, folder) == ["g"]
    files.remove(f"{folder}/g")
    files.remove(folder)
    assert not files.exists(folder)


def test_a_replacing_writer_that_dies_between_its_two_renames_loses_nothing(
    files: FileSystem, folder: str, raw: RawIgfs
) -> None:
    for act in (
        lambda: files.write(f"{folder}/f", b"newer"),
        lambda: files.rename(f"{folder}/f", f"{folder}/g"),
        lambda: files.open(f"{folder}/f", "ab").close(),
        lambda: files.remove(f"{folder}/f"),
        lambda: files.remove(folder, recursive=True),
    ):
        files.makedirs(folder)
        files.write(f"{folder}/f", b"old")
        raw.move(f"{folder}/f", f"{folder}/.igs-old-f")
        assert names(files, folder) == ["f"]
        assert files.stat(f"{folder}/f").size == 3
        assert files.read(f"{folder}/f") == b"old"
        with pytest.raises(AlreadyExistsError):
            files.open(f"{folder}/f", "xb")
        act()
        if files.exists(folder):
            assert ".igs-old-f" not in raw.names(folder)
            files.remove(folder, recursive=True)


def test_an_old_version_that_was_left_behind_does_not_come_back(
    files: FileSystem, folder: str, raw: RawIgfs
) -> None:
    for act in (
        lambda: files.remove(f"{folder}/f"),
        lambda: files.rename(f"{folder}/f", f"{folder}/g"),
    ):
        files.write(f"{folder}/f", b"new")
        raw.put(f"{folder}/.igs-old-f", b"old")
        assert files.read(f"{folder}/f") == b"new"
        assert "f" in names(files, folder)
        act()
        assert not files.exists(f"{folder}/f")
    files.write(f"{folder}/f", b"new")
    raw.put(f"{folder}/.igs-old-f", b"old")
    files.write(f"{folder}/f", b"newer")
    assert raw.names(folder) == ["f", "g"]


def test_many_writers_of_one_file(address: str, files: FileSystem, folder: str) -> None:
    """Each reader gets one of the versions, and always gets one."""
    versions = {bytes([65 + i]) * (100_000 + i) for i in range(4)}
    files.write(f"{folder}/f", min(versions))
    stop, wrong, seen = threading.Event(), [], set()

    def replace(content: bytes) -> None:
        mine = FileSystem(*parse_endpoint(address), backend="endpoint")
        for _ in range(15):
            try:
                mine.write(f"{folder}/f", content)
            except IgniteStrategyError as error:
                wrong.append(error)

    def look() -> None:
        mine = FileSystem(*parse_endpoint(address), backend="endpoint")
        while not stop.is_set():
            try:
                content = mine.read(f"{folder}/f")
            except PreconditionError:  # replaced while it was read
                continue
            except IgniteStrategyError as error:
                wrong.append(error)
                continue
            seen.add(content)

    threads = [threading.Thread(target=replace, args=[content]) for content in versions]
    reader = threading.Thread(target=look)
    for thread in (*threads, reader):
        thread.start()
    for thread in threads:
        thread.join(60)
    stop.set()
    reader.join(60)
    assert seen <= versions
    assert seen
    assert not [error for error in wrong if not isinstance(error, NotFoundError)], wrong
    # Between two renames of one writer another one can take the old version away.
    assert len(wrong) < 5, wrong
    assert files.read(f"{folder}/f") in versions
    assert names(files, folder) == ["f"]


def test_two_who_extend_one_file(files: FileSystem, folder: str, raw: RawIgfs) -> None:
    files.write(f"{folder}/f", b"1")
    first, second = files.open(f"{folder}/f", "ab"), files.open(f"{folder}/f", "ab")
    first.write(b"2")
    second.write(b"3")
    first.flush()
    with pytest.raises(IgniteStrategyError, match="changed by another writer"):
        second.close()
    first.write(b"4")
    raw.move(f"{folder}/f", f"{folder}/g")
    with pytest.raises(IgniteStrategyError, match="removed or renamed"):
        first.close()
    assert files.read(f"{folder}/g") == b"12"
    stream = raw.append(f"{folder}/g")
    third = files.open(f"{folder}/g", "ab")
    third.write(b"5")
    start = time.monotonic()
    with pytest.raises(IgniteStrategyError, match="another writer"):
        third.flush()
    assert time.monotonic() - start < 10
    raw.close_stream(stream)
    with files.open(f"{folder}/g", "ab") as out:
        out.write(b"6" * 20_000_000)  # more than is kept here
    assert files.read(f"{folder}/g") == b"12" + b"6" * 20_000_000


def test_a_directory_that_was_removed_does_not_come_back(files: FileSystem, folder: str) -> None:
    out = files.open(f"{folder}/f", "wb")
    out.write(b"1")
    files.remove(folder)
    with pytest.raises(IgniteStrategyError, match=f"{folder}.*no such file or directory"):
        out.close()
    assert not files.exists(folder)


def test_an_abandoned_file_publishes_nothing_more(files: FileSystem, folder: str, raw: RawIgfs) -> None:
    out = files.open(f"{folder}/f", "wb")
    out.write(b"x" * 5_000_000)
    out.__exit__(ZeroDivisionError, None, None)
    assert raw.names(folder) == []
    out = files.open(f"{folder}/f", "wb")
    out.write(b"1")
    out.flush()
    out.write(b"2" * 3_000_000)
    out.__exit__(ZeroDivisionError, None, None)
    assert files.read(f"{folder}/f") == b"1"


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_reader_gets_what_it_asks_for_and_no_more(relay: Relay, files: FileSystem, folder: str) -> None:
    content = bytes(range(256)) * 40_000
    files.write(f"{folder}/f", content)
    through = FileSystem("127.0.0.1", relay.port, backend="endpoint")
    assert through.stat(f"{folder}/f").size == len(content)
    before = relay.answered
    native = through._native.open_read(f"{folder}/f")
    for offset, size in ((7_000_001, 1_000_000), (3, 5), (5_555_555, 65_537)):
        assert native.read_at(offset, size) == content[offset : offset + size]
    assert relay.answered - before < 1_065_542 + 2_000


def test_a_removed_file_is_an_error_for_its_reader_and_never_other_bytes(
    files: FileSystem, folder: str, raw: RawIgfs
) -> None:
    files.write(f"{folder}/f", b"o" * 9_000_000)
    native = files._native.open_read(f"{folder}/f")
    assert native.read_at(0, 10) == b"o" * 10
    files.remove(f"{folder}/f")
    files.write(f"{folder}/f", b"n" * 9_000_000)
    time.sleep(3)
    with pytest.raises(PreconditionError, match="replaced or removed while it was open"):
        native.read_at(8_000_000, 1_000_000)
    assert files.read(f"{folder}/f") == b"n" * 9_000_000


def test_files_of_another_client(files: FileSystem, folder: str, raw: RawIgfs) -> None:
    raw.put(f"{folder}/f", b"12345")
    native = files._native.open_read(f"{folder}/f")
    assert native.read_at(0, 10) == b"12345"
    stream = raw.append(f"{folder}/f")
    raw.write_block(stream, b"6" * 1000)
    raw.close_stream(stream)
    assert native.read_at(5, 2000) == b"6" * 1000  # it has grown
    with files.open(f"{folder}/f", "ab") as out:
        out.write(b"7")
    assert files.read(f"{folder}/f") == b"12345" + b"6" * 1000 + b"7"
    files.write(f"{folder}/f", b"8")
    assert files.read(f"{folder}/f") == b"8"
    raw.mkdirs(f"{folder}/d/a:b")
    with pytest.raises(ConnectionFailedError, match="cannot read back"):
        files.list(f"{folder}/d")
    raw.delete(f"{folder}/d/a:b")
    assert files.list(f"{folder}/d") == []


@pytest.mark.parametrize("name", ["a\\b", "~", "~a", ":a", "a:b", "é:b", ".igs-new-x", ".igs-old-x"])
def test_a_name_that_the_server_would_lose_is_refused(files: FileSystem, folder: str, name: str) -> None:
    for act in (
        lambda: files.write(f"{folder}/{name}", b""),
        lambda: files.makedirs(f"{folder}/{name}/d"),
        lambda: files.rename(f"{folder}/..{folder}", f"{folder}/{name}"),
        lambda: files.exists(f"{folder}/{name}"),
        lambda: files.list(f"{folder}/{name}"),
    ):
        with pytest.raises(InvalidArgumentError, match="name"):
            act()


def test_names_of_every_kind(files: FileSystem, folder: str) -> None:
    kept = [
        "with space",
        "ünï-文件-🚀",
        "%41",
        "model:0",
        "star*[x]?",
        "tab\tnew\nline",
        "x" * 300,
        "2024-01-01T12:00",
        "🚀:x",
    ]
    for name in kept:
        files.write(f"{folder}/{name}", name.encode())
    assert names(files, folder) == sorted(kept, key=str.encode)
    for name in kept:
        files.rename(f"{folder}/{name}", f"{folder}/-{name}")
        assert files.read(f"{folder}/-{name}") == name.encode()


# --- connections that break -------------------------------------------------------------------------------------------


def test_a_connection_that_died_between_calls_is_opened_again(relay: Relay) -> None:
    through = FileSystem("127.0.0.1", relay.port, backend="endpoint")
    through.makedirs("/between")
    for act in (
        lambda: through.write("/between/f", b"1"),
        lambda: through.list("/between"),
        lambda: through.read("/between/f"),
        lambda: through.rename("/between/f", "/between/g"),
        lambda: through.mkdir("/between/d"),
        lambda: through.remove("/between/g"),
    ):
        relay.cut()
        act()
    assert relay.connections > 6
    through.remove("/between", recursive=True)


def test_a_reader_goes_on_after_its_connection_broke(relay: Relay, files: FileSystem, folder: str) -> None:
    content = bytes(range(250)) * 40_000
    files.write(f"{folder}/f", content)
    with FileSystem("127.0.0.1", relay.port, backend="endpoint").open(f"{folder}/f") as source:
        assert source.read(1000) == content[:1000]
        relay.cut_after(1_500_000)
        assert source.read() == content[1000:]
        assert relay.connections > 1
        relay.cut()
        files.write(f"{folder}/f", content[::-1])
        source.seek(0)
        with pytest.raises(PreconditionError, match="replaced"):
            source.read()


@pytest.mark.parametrize("after", [100, 500, 700, 100_000, 3_000_000, 6_000_000])
def test_a_connection_that_breaks_while_a_file_is_written(
    relay: Relay, files: FileSystem, folder: str, raw: RawIgfs, after: int
) -> None:
    """The error comes at the latest with close, and nothing half is visible."""
    files.write(f"{folder}/f", b"old")
    content = bytes(range(250)) * 25_000
    through = FileSystem("127.0.0.1", relay.port, backend="endpoint")
    expected = content
    try:
        with through.open(f"{folder}/f", "wb") as out:
            relay.cut_after(after)
            for at in range(0, len(content), 100_000):
                out.write(content[at : at + 100_000])
    except ConnectionFailedError:
        expected = b"old"
    assert files.read(f"{folder}/f") == expected
    assert names(files, folder) == ["f"]


def test_a_killed_node() -> None:
    """Its own endpoint is unavailable; what was published is there on the other one."""
    with LocalCluster(nodes=2, version="2.7.6", igfs=True) as cluster:
        host, port = parse_endpoint(cluster.igfs_addresses[0])
        files = FileSystem(host, port, backend="endpoint")
        files.write("/f", b"1" * 20_000_000)
        source = files._native.open_read("/f")
        assert source.read_at(0, 1000) == b"1" * 1000
        early, late = files.open("/early", "wb"), files.open("/late", "wb")
        for out in (early, late):
            out.write(b"2" * 10_000_000)
        cluster.nodes[0].kill()
        for wrong in (
            lambda: [early.write(b"3" * 10_000_000) for _ in range(20)],
            early.close,
            late.close,
            lambda: source.read_at(1_000_000, 1000),
            lambda: files.exists("/f"),
            lambda: files.remove("/f"),
            lambda: files.makedirs("/d"),
            lambda: files.rename("/f", "/g"),
            lambda: files.list("/"),
        ):
            with pytest.raises(ConnectionFailedError, match=f"{host}:{port}"):
                wrong()
        other = FileSystem(*parse_endpoint(cluster.igfs_addresses[1]), backend="endpoint")
        assert names(other, "/") == ["f"]
        assert other.read("/f") == b"1" * 20_000_000
        other.write("/f", b"4")
        other.rename("/f", "/g")
        assert other.read("/g") == b"4"


# --- TensorFlow, fsspec, the shell ------------------------------------------------------------------------------------


def run(code: str, address: str, *arguments: str, after: Callable[[], None] | None = None) -> str:
    host, port = parse_endpoint(address)
    environment = {"IGFS_HOST": host, "IGFS_PORT": str(port), "IGFS_BACKEND": "endpoint"}
    head = "import os, sys\nos.environ.update(" + repr(environment) + ")\n"
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_tensorflow_in_a_process_of_its_own(address: str, files: FileSystem, folder: str) -> None:
    """It ends without a crash, with files open (tensorflow-io crashed at exit)."""
    out = run(
        """
        import tensorflow as tf
        import ignite_strategy
        base = "igfs:///" + sys.argv[1].strip("/")
        with tf.io.TFRecordWriter(base + "/records") as writer:
            for i in range(1000):
                writer.write(b"%d" % i)
        assert sum(1 for _ in tf.data.TFRecordDataset(base + "/records")) == 1000
        step = tf.Variable(7)
        tf.train.Checkpoint(step=step).save(base + "/ckpt/m")
        print(tf.train.latest_checkpoint(base + "/ckpt"))
        tf.io.gfile.rename(base + "/ckpt", base + "/moved")
        print(sorted(tf.io.gfile.listdir(base + "/moved")))
        reader = tf.io.gfile.GFile(base + "/records", "rb")
        reader.read(10)
        writer = tf.io.gfile.GFile(base + "/open", "w")
        writer.write("published when Python drops it")
        """,
        address,
        folder,
    )
    assert out.splitlines() == [
        f"igfs://{folder}/ckpt/m-1",
        "['checkpoint', 'm-1.data-00000-of-00001', 'm-1.index']",
    ]
    assert set(names(files, folder)) >= {"moved", "records"}


def test_pandas_and_the_shell(address: str, folder: str, tmp_path: Path) -> None:
    host, port = parse_endpoint(address)
    # Arrow's threads may hold a file, of any file system, when Python ends, and abort it: apache/arrow#34314.
    out = run(
        """
        import pandas
        del os.environ["IGFS_BACKEND"]
        url, folder = sys.argv[1:3]
        options = {"backend": "endpoint"}
        frame = pandas.DataFrame({"a": [1, 2], "b": ["x", None]})
        frame.to_parquet(f"{url}{folder}/t.parquet", storage_options=options)
        frame = pandas.read_parquet(f"{url}{folder}/t.parquet", storage_options=options)
        print(frame["a"].tolist(), flush=True)
        assert "tensorflow" not in sys.modules
        os._exit(0)
        """,
        address,
        f"igfs://{host}:{port}",
        folder,
    )
    assert out == "[1, 2]\n"
    run(
        """
        import subprocess
        fs = [sys.executable, "-m", "ignite_strategy", "fs"]
        folder, local = sys.argv[1:3]
        url = "igfs:///" + folder.strip("/")
        subprocess.run([*fs, "cp", url + "/t.parquet", local], check=True)
        subprocess.run([*fs, "cp", local, url + "/back"], check=True)
        subprocess.run([*fs, "mv", url + "/back", url + "/moved"], check=True)
        listed = subprocess.run([*fs, "ls", url], check=True, capture_output=True, text=True).stdout
        assert "moved" in listed and "t.parquet" in listed, listed
        """,
        address,
        folder,
        str(tmp_path / "t.parquet"),
    )
    assert (tmp_path / "t.parquet").stat().st_size > 100


class EndpointFixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, address: str) -> IgniteFileSystem:
        host, port = parse_endpoint(address)
        return IgniteFileSystem(host=host, port=port, backend="endpoint", auto_mkdir=True)

    @pytest.fixture
    def fs_path(self) -> str:
        return "/suite"


class TestCopy(abstract.AbstractCopyTests, EndpointFixtures):
    pass


class TestGet(abstract.AbstractGetTests, EndpointFixtures):
    pass


class TestPut(abstract.AbstractPutTests, EndpointFixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, EndpointFixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, EndpointFixtures):
    pass
