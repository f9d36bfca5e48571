"""igfs through fsspec: its own abstract suite, and what the suite leaves open."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from pathlib import Path

import fsspec
import pandas
import pytest
from fsspec.tests import abstract

from ignite_strategy.errors import ConnectionFailedError, InvalidArgumentError
from ignite_strategy.filesystem.fsspec_igfs import IgniteFileSystem
from ignite_strategy.settings import parse_endpoint

pytestmark = pytest.mark.integration
_names = itertools.count()


@pytest.fixture
def files(one_node: str) -> IgniteFileSystem:
    host, port = parse_endpoint(one_node)
    return IgniteFileSystem(host=host, port=port, name=f"fsspec{next(_names)}")


class IgfsFixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, one_node: str) -> IgniteFileSystem:
        host, port = parse_endpoint(one_node)
        return IgniteFileSystem(host=host, port=port, name="suite", auto_mkdir=True)

    @pytest.fixture
    def fs_path(self) -> str:
        return "/suite"


class TestCopy(abstract.AbstractCopyTests, IgfsFixtures):
    pass


class TestGet(abstract.AbstractGetTests, IgfsFixtures):
    pass


class TestPut(abstract.AbstractPutTests, IgfsFixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, IgfsFixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, IgfsFixtures):
    pass


def test_urls(one_node: str) -> None:
    url = f"igfs://urls@{one_node}/a/b.txt"
    with fsspec.open(url, "wt", auto_mkdir=True) as out:
        out.write("Hello, world!")
    with fsspec.open(url, "rt") as source:
        assert source.read() == "Hello, world!"
    files, path = fsspec.core.url_to_fs(url)
    assert (path, files.unstrip_protocol(path)) == ("/a/b.txt", url)
    assert files.storage_options["name"] == "urls"
    assert files.glob("/*/*.txt") == [path]
    assert files.find("/") == [path]
    assert pickle.loads(pickle.dumps(files)).cat(path) == b"Hello, world!"


def test_an_address_that_is_none() -> None:
    with pytest.raises(InvalidArgumentError, match="igfs://h:port/x"):
        fsspec.open("igfs://h:port/x").open()


def test_errors_are_those_of_the_operating_system(files: IgniteFileSystem) -> None:
    files.pipe("/f", b"1")
    files.makedirs("/d/e")
    with pytest.raises(FileNotFoundError):
        files.open("/none")
    with pytest.raises(FileNotFoundError):
        files.open("/none/f", "wb")
    with pytest.raises(FileNotFoundError):
        files.ls("/none")
    with pytest.raises(FileNotFoundError):
        files.rm("/none", recursive=True)
    with pytest.raises(FileExistsError):
        files.makedirs("/d")
    with pytest.raises(FileExistsError):
        files.mkdir("/d")
    with pytest.raises(IsADirectoryError):
        files.open("/d")
    with pytest.raises(IsADirectoryError):
        files.rm("/d")
    with pytest.raises(NotADirectoryError):
        files.rmdir("/f")
    with pytest.raises(OSError, match="not empty"):
        files.rmdir("/d")
    assert files.find("/d", withdirs=True) == ["/d", "/d/e"]


def test_no_node_is_not_a_missing_file() -> None:
    files = IgniteFileSystem(host="127.0.0.1", port=1)
    with pytest.raises(ConnectionFailedError):
        files.exists("/f")
    with pytest.raises(ConnectionFailedError):
        files.isdir("/d")


def test_content(files: IgniteFileSystem) -> None:
    files.pipe({"/a": b"0123456789", "/b": b""})
    assert files.cat_file("/a", 2, 5) == b"234"
    assert files.cat_file("/a", -3) == b"789"
    assert files.cat_ranges(["/a", "/a"], [0, 5], [2, 30]) == [b"01", b"56789"]
    assert (files.head("/a", 2), files.tail("/a", 2)) == (b"01", b"89")
    assert (files.du("/"), files.size("/b")) == (10, 0)
    before = files.ukey("/a")
    files.pipe("/a", b"9876543210")
    assert files.ukey("/a") != before
    files.touch("/a", truncate=False)
    assert files.cat("/a") == b"9876543210"
    with files.open("/a", "ab") as out:
        out.write(b"!")
    assert files.cat("/a") == b"9876543210!"
    with files.open("/a") as source:
        source.seek(-2, 2)
        assert source.read() == b"0!"


def test_a_move_is_a_rename(files: IgniteFileSystem) -> None:
    files.makedirs("/d")
    files.pipe("/d/f", b"1")
    files.mv("/d", "/e")
    assert files.find("/") == ["/e/f"]
    files.makedirs("/g")
    files.mv("/e/f", "/g/")
    assert files.find("/") == ["/g/f"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_publishes_all_or_nothing(files: IgniteFileSystem, commit: bool) -> None:
    def write() -> None:
        with files.transaction:
            for name in ("/a", "/b"):
                with files.open(name, "wb") as out:
                    out.write(b"1")
                assert not files.exists(name)
            if not commit:
                raise ZeroDivisionError

    if commit:
        write()
    else:
        with pytest.raises(ZeroDivisionError):
            write()
    assert files.find("/") == (["/a", "/b"] if commit else [])


def test_to_and_from_local_disk(files: IgniteFileSystem, tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "f").write_bytes(b"x" * 3_000_000)
    files.put(str(tmp_path / "in"), "/in", recursive=True)
    files.get("/in", str(tmp_path / "out"), recursive=True)
    assert (tmp_path / "out" / "deep" / "f").read_bytes() == b"x" * 3_000_000


@pytest.mark.parametrize(
    "code",
    [
        "import pandas as pd\n"
        "pd.DataFrame({'a': [1, 2], 'b': ['x', None]}).to_parquet(url + 't.parquet')\n"
        "assert pd.read_parquet(url + 't.parquet', columns=['a'])['a'].tolist() == [1, 2]\n"
        "pd.DataFrame({'a': [1]}).to_csv(url + 't.csv', index=False)\n"
        "assert pd.read_csv(url + 't.csv')['a'].tolist() == [1]\n",
        "import fsspec, pyarrow as pa, pyarrow.dataset as ds, pyarrow.parquet as pq\n"
        "files, root = fsspec.core.url_to_fs(url + 'data')\n"
        "table = pa.table({'k': [0, 0, 1], 'v': [1.0, 2.0, 3.0]})\n"
        "pq.write_to_dataset(table, root + '/parts', partition_cols=['k'], filesystem=files)\n"
        "assert ds.dataset(root + '/parts', filesystem=files).count_rows() == 3\n",
    ],
    ids=["pandas", "pyarrow"],
)
def test_tables_without_tensorflow(one_node: str, code: str) -> None:
    # Arrow's threads may hold a file, of any file system, when Python ends, and abort it: apache/arrow#34314.
    end = "import os, sys\nassert 'tensorflow' not in sys.modules\nos._exit(0)\n"
    url = f"url = 'igfs://tables{next(_names)}@{one_node}/'\n"
    done = subprocess.run(
        [sys.executable, "-c", url + code + end], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("mode", ["wb", "w"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_block_that_fails_publishes_nothing(
    files: IgniteFileSystem, mode: str, compression: str | None
) -> None:
    """fsspec closes the file without telling it why."""
    url = files.unstrip_protocol("/half")
    some = b"x" * 1_000_000 if mode == "wb" else "x" * 1_000_000
    files.pipe("/half", b"whole")

    def fail() -> None:
        with fsspec.open(url, mode, compression=compression) as out:
            out.write(some)
            raise RuntimeError("the rest is lost")

    with pytest.raises(RuntimeError, match="the rest is lost"):
        fail()
    assert files.cat("/half") == b"whole"
    try:
        raise KeyError("handled")
    except KeyError:
        with fsspec.open(url, mode, compression=compression) as out:  # this block does not fail
            out.write(some)
    with fsspec.open(url, mode.replace("w", "r"), compression=compression) as source:
        assert source.read() == some


def test_a_table_that_cannot_be_written_replaces_nothing(files: IgniteFileSystem) -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    url = files.unstrip_protocol("/t.csv")
    pandas.DataFrame({"a": [1, 2]}).to_csv(url, index=False)
    with pytest.raises(RuntimeError, match="no text"):
        pandas.DataFrame({"a": ["x" * 100] * 20_000 + [Unprintable()]}).to_csv(url, index=False)
    assert files.cat("/t.csv") == b"a\n1\n2\n"
