"""What each slot of the filesystem plugin returns and sets, called without TensorFlow in between."""

from __future__ import annotations

import ctypes
import itertools

import pytest

import ignite_strategy  # noqa: F401
from tests import plugin_table as table
from tests.contracts.filesystem import build, gfile, write
from tests.plugin_table import Plugin, Statistics

pytestmark = pytest.mark.integration
_roots = itertools.count()


@pytest.fixture(scope="module")
def plugin() -> Plugin:
    return Plugin()


@pytest.fixture
def root(one_node: str) -> str:
    path = f"igfs://plugin@{one_node}/{next(_roots)}"
    gfile.makedirs(path)
    return path


def test_the_tables_are_complete(plugin: Plugin) -> None:
    """A missing optional entry point crashed the interpreter (tensorflow/io #1222; BR-25)."""
    assert plugin.ops.scheme == b"igfs"
    for name, names in (("tree", table.TREE), ("reading", table.READING), ("writing", table.WRITING)):
        missing = {slot for slot in names if not plugin.slot(name, names, slot)}
        assert missing == (table.UNUSED if name == "tree" else set())
        assert getattr(plugin.ops, f"{name}_size") >= 8 * len(names)
    assert not plugin.ops.memory_ops


def test_a_short_read_is_out_of_range_with_the_bytes_that_exist(plugin: Plugin, root: str) -> None:
    """A short read that returns OK makes TensorFlow ask for ever (BR-30)."""
    write(f"{root}/f", bytes(range(10)))
    file = plugin.open("new_random_access_file", f"{root}/f")
    assert plugin.code == table.OK
    assert plugin.read(file, 8, 5) == (b"\x08\x09", table.OUT_OF_RANGE)
    assert plugin.read(file, 10, 1) == (b"", table.OUT_OF_RANGE)
    assert plugin.read(file, 1 << 62, 1) == (b"", table.OUT_OF_RANGE)
    assert plugin.read(file, 0, 10) == (bytes(range(10)), table.OK)
    assert plugin.read(file, 3, 0) == (b"", table.OK)
    plugin.on_file("reading", "cleanup", file)


def test_a_file_that_grows_is_checked_again_at_its_end(plugin: Plugin, root: str) -> None:
    out = plugin.open("new_writable_file", f"{root}/f")
    plugin.on_file("writing", "append", out, b"12345", table.N(5))
    plugin.on_file("writing", "flush", out)
    file = plugin.open("new_random_access_file", f"{root}/f")
    assert plugin.read(file, 0, 10) == (b"12345", table.OUT_OF_RANGE)
    plugin.on_file("writing", "append", out, b"6" * 600_000, table.N(600_000))
    assert plugin.read(file, 5, 1) == (b"", table.OUT_OF_RANGE)
    plugin.on_file("writing", "sync", out)
    assert plugin.read(file, 5, 600_001) == (b"6" * 600_000, table.OUT_OF_RANGE)
    plugin.on_file("writing", "close", out)
    plugin.on_file("writing", "cleanup", out)
    write(f"{root}/f", b"7", "ab")  # another writer extends it: still the same file
    assert plugin.read(file, 600_000, 10) == (b"666667", table.OUT_OF_RANGE)
    write(f"{root}/f", b"8" * 700_000)  # replaced: another file
    assert plugin.read(file, 600_000, 10) == (b"666667", table.OUT_OF_RANGE)
    plugin.on_file("reading", "cleanup", file)


def test_a_file_is_closed_twice(plugin: Plugin, root: str) -> None:
    """TensorFlow closes a checkpoint's data file twice, against the interface's own word."""
    out = plugin.open("new_writable_file", f"{root}/f")
    plugin.on_file("writing", "append", out, b"12", table.N(2))
    assert plugin.on_file("writing", "tell", out, restype=ctypes.c_int64) == 2
    for _ in range(2):
        plugin.on_file("writing", "close", out)
        assert plugin.code == table.OK
    plugin.on_file("writing", "append", out, b"3", table.N(1))
    assert plugin.code == table.FAILED_PRECONDITION
    plugin.on_file("writing", "cleanup", out)
    assert plugin.tree("get_file_size", f"{root}/f", restype=ctypes.c_int64) == 2


def test_a_file_that_is_dropped_unclosed_is_published(plugin: Plugin, root: str) -> None:
    """TensorFlow's Dataset.cache never closes its lock file, and removes it later."""
    out = plugin.open("new_appendable_file", f"{root}/f")
    plugin.on_file("writing", "append", out, b"1" * 2_000_000, table.N(2_000_000))
    plugin.on_file("writing", "cleanup", out)
    assert plugin.tree("get_file_size", f"{root}/f", restype=ctypes.c_int64) == 2_000_000


def test_status_codes_of_the_tree(plugin: Plugin, root: str) -> None:
    build(root, {"d/f": b"1"})
    for slot, path, code in [
        ("create_dir", "d", table.ALREADY_EXISTS),
        ("create_dir", "d/f", table.ALREADY_EXISTS),
        ("create_dir", "none/x", table.NOT_FOUND),
        ("recursively_create_dir", "d", table.OK),
        ("recursively_create_dir", "d/f", table.FAILED_PRECONDITION),
        ("delete_file", "d", table.FAILED_PRECONDITION),
        ("delete_file", "none", table.NOT_FOUND),
        ("delete_dir", "d", table.FAILED_PRECONDITION),
        ("delete_dir", "d/f", table.FAILED_PRECONDITION),
        ("delete_dir", "none", table.NOT_FOUND),
        ("delete_dir", "../..", table.FAILED_PRECONDITION),
        ("path_exists", "d", table.OK),
        ("path_exists", "d/", table.OK),
        ("path_exists", "none", table.NOT_FOUND),
        ("path_exists", "d/f/x", table.FAILED_PRECONDITION),
        ("is_directory", "d/f", table.FAILED_PRECONDITION),
        ("get_file_size", "d", table.FAILED_PRECONDITION),
        ("delete_file", "d/f", table.OK),
        ("delete_dir", "d", table.OK),
    ]:
        plugin.tree(slot, f"{root}/{path}")
        assert plugin.code == code, (slot, path, plugin.message)
        assert code == table.OK or "igfs://plugin@" in plugin.message


def test_children_and_status(plugin: Plugin, root: str) -> None:
    build(root, {"d/f": b"123"})
    entries = ctypes.POINTER(ctypes.c_char_p)()
    assert plugin.tree("get_children", root, ctypes.byref(entries), restype=ctypes.c_int) == 1
    assert (entries[0], plugin.code) == (b"d", table.OK)
    assert plugin.tree("get_children", f"{root}/d/f", ctypes.byref(entries), restype=ctypes.c_int) == 0
    assert plugin.code == table.FAILED_PRECONDITION
    assert plugin.tree("get_children", f"{root}/none", ctypes.byref(entries), restype=ctypes.c_int) == 0
    assert plugin.code == table.NOT_FOUND
    statistics = Statistics()
    plugin.tree("stat", f"{root}/d/f", ctypes.byref(statistics))
    assert (statistics.length, statistics.is_directory) == (3, False)
    paths = (ctypes.c_char_p * 2)(f"{root}/d".encode(), f"{root}/none".encode())
    exist = ctypes.CFUNCTYPE(ctypes.c_bool, table.P, table.P, ctypes.c_int, table.P)(
        plugin.slot("tree", table.TREE, "paths_exist")
    )
    assert not exist(plugin.filesystem, ctypes.cast(paths, table.P), 2, None)
    assert exist(plugin.filesystem, ctypes.cast(paths, table.P), 1, None)


def test_names_keep_their_authority(plugin: Plugin) -> None:
    """The default translation drops it: x://a/d and x://b/d would be one path."""

    def translate(uri: str) -> str:
        function = ctypes.CFUNCTYPE(table.S, table.P, table.S)(
            plugin.slot("tree", table.TREE, "translate_name")
        )
        return function(plugin.filesystem, uri.encode()).decode()

    assert translate("igfs://fs@host:1/a//b/./c/") == "igfs://fs@host:1/a/b/c"
    assert translate("igfs:///") == translate("igfs://") == translate("igfs:///../..") == "igfs:///"
    assert translate("igfs://[::1]:9/x/../y") == "igfs://[::1]:9/y"
    assert translate("igfs://host:port/x") == "igfs://host:port/x"  # refused by the call that uses it


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("igfs://host:port/x", "is not a port"),
        ("igfs://host:70000/x", "between 1 and 65535"),
        ("igfs://::1/x", "brackets"),
        ("igfs://[::1/x", "not closed"),
        ("igfs://:10800/x", "host before"),
        ("igfs://a b@host/x", "file system name"),
        ("igfs:///" + "x" * 1025, "longer than"),
        ("igfs:///\udcff".encode("utf-8", "surrogateescape"), "UTF-8"),
    ],
)
def test_malformed_uris(plugin: Plugin, uri: str, reason: str) -> None:
    plugin.tree("path_exists", uri)
    assert plugin.code == table.INVALID_ARGUMENT
    assert reason in plugin.message


def test_the_endpoint_of_igfs_has_neither_tls_nor_users(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin.tree("path_exists", "igfs://no.such.host.invalid:10500/x")
    assert plugin.code == table.UNAVAILABLE
    monkeypatch.setenv("IGFS_TLS", "1")
    plugin.tree("path_exists", "igfs://no.such.host.invalid:10500/x")
    assert plugin.code == table.INVALID_ARGUMENT
    assert "10800" in plugin.message


def test_renaming_between_file_systems_is_refused(plugin: Plugin, root: str, one_node: str) -> None:
    write(f"{root}/f", b"1")
    plugin.tree("rename_file", f"{root}/f", f"igfs://another@{one_node}/f".encode())
    assert plugin.code == table.UNIMPLEMENTED
    assert gfile.exists(f"{root}/f")
    plugin.tree("copy_file", f"{root}/f", f"igfs://another@{one_node}/f".encode())
    assert plugin.code == table.OK
    assert gfile.GFile(f"igfs://another@{one_node}/f", "rb").read() == b"1"
