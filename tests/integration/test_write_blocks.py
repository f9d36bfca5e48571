"""What write() makes of several blocks, copies, forks and other writers."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import ignite_strategy as igs
from ignite_strategy.errors import InvalidArgumentError, WriteError
from ignite_strategy.local import LocalCluster
from ignite_strategy.topology import caches
from tests.integration.test_write import by_key

pandas = pytest.importorskip("pandas")

pytestmark = pytest.mark.integration


def test_arrays_never_become_scalars(cluster: LocalCluster, client: Any, name: str) -> None:
    """A flat view of them would put one row's items into other rows."""
    where: dict[str, Any] = {"addresses": cluster.addresses}
    flat = np.arange(6).reshape(3, 2)
    masked: Any = np.ma.array(flat, mask=flat > 4)
    for column in (flat, masked, flat.astype("datetime64[s]"), flat.astype("float32")):
        for kind in ("long", "int", "double", "timestamp", "string"):
            with pytest.raises(InvalidArgumentError, match=r"column val\.v, row 0: an array is not an? "):
                igs.write(
                    name, {"id": [1, 2, 3], "v": column}, key="id", create=True, types={"v": kind}, **where
                )
    assert name not in caches.cache_names(client)
    igs.write(name, {"key": [1, 2, 3], "val": [4, 5, 6]}, create=True, **where)
    with pytest.raises(WriteError, match="column val, row 0: an array is not a long"):
        igs.write(name, {"key": [1, 2, 3], "val": flat}, **where)
    with pytest.raises(WriteError, match="column key, row 0: an array is not a long"):
        igs.write(name, {"key": flat, "val": [1, 2, 3]}, **where)
    blocks = iter([{"key": [7], "val": [7]}, {"key": [8, 9, 10], "val": flat}])
    with pytest.raises(WriteError, match=r"column val, row 1: an array is not a long\. Rows: 0 acknowledged"):
        igs.write(name, blocks, **where)
    assert by_key(igs.read(name, **where))["val"].tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({"id": [2], "v": [3], "label": [4]}, "column val, row 1: there is no field 'label', only v"),
        ({"id": [2], "w": [3]}, "column val, row 1: there is no field 'w', only v"),
        ([{"id": 2, "v": 3, "V": 4}], "column val, row 1: there is no field 'V', only v"),
        (
            pandas.DataFrame({"id": [2], "v": [3], "w": [4]}),
            "column val, row 1: there is no field 'w', only v",
        ),
    ],
)
def test_later_rows_have_the_fields_of_the_first_ones(
    cluster: LocalCluster, client: Any, name: str, second: Any, why: str
) -> None:
    with pytest.raises(WriteError, match=re.escape(why)):
        igs.write(
            name, iter([{"id": [1], "v": [1]}, second]), addresses=cluster.addresses, key="id", create=True
        )
    with pytest.raises(WriteError, match=r"column val, row 1: its field 'w' is missing"):
        igs.write(
            f"{name}_2",
            iter([{"id": [1], "v": [1], "w": [2]}, {"id": [2], "v": [1]}]),
            addresses=cluster.addresses,
            key="id",
            create=True,
        )
    caches.drop_cache(client, f"{name}_2")


def test_names_of_key_columns_that_are_none(cluster: LocalCluster, client: Any, name: str) -> None:
    where: dict[str, Any] = {"addresses": cluster.addresses, "create": True}
    frame = pandas.DataFrame({"a": [1, 2], "b": [3, 4], "v": [5, 6]})
    with pytest.raises(InvalidArgumentError, match=r"there is no column 'bb', only a, b, v.*numpy\.array"):
        igs.write(name, frame, key=["a", "bb"], **where)
    assert name not in caches.cache_names(client)
    igs.write(name, frame, key=np.array(["a", "bb"]), **where)
    assert sorted(igs.read(name, addresses=cluster.addresses)["key"]) == [b"a", b"bb"]


@pytest.mark.parametrize("key", [None, ["x", "y"]])
def test_levels_of_a_pandas_index_are_the_key(
    cluster: LocalCluster, client: Any, name: str, key: Any
) -> None:
    index = pandas.MultiIndex.from_tuples([(1, "a"), (2, "b")], names=["x", "y"])
    frame = pandas.DataFrame({"v": [5, 6]}, index=index)
    igs.write(name, frame, key=key, addresses=cluster.addresses, create=True)
    read = igs.read(name, addresses=cluster.addresses)
    found = sorted(zip(read["key.x"].tolist(), read["key.y"].tolist(), read["val.v"].tolist()))
    assert found == [(1, b"a", 5), (2, b"b", 6)]


def test_a_copy_has_the_nulls_of_its_original(cluster: LocalCluster, client: Any, name: str) -> None:
    where: dict[str, Any] = {"addresses": cluster.addresses}
    rows = {
        "id": [0, 1, 2],
        "n": [1, None, 3],
        "t": ["a", None, ""],
        "x": [1.5, None, float("nan")],
        "a": [np.arange(2), None, np.arange(0)],
        "s": [["a", None], ["b"], []],
    }
    igs.write(name, rows, key="id", create=True, **where)
    original = igs.read(name, nulls="mask", **where)
    copy = f"{name}_COPY"
    igs.write(copy, original, create=True, **where)
    copied = by_key(igs.read(copy, nulls="mask", **where))
    assert copied.keys() == original.keys()
    for column, values in by_key(original).items():
        assert str([list(each) if hasattr(each, "__len__") else each for each in values]) == str(
            [list(each) if hasattr(each, "__len__") else each for each in copied[column]]
        ), column
    assert caches.sql(client, "SELECT 1").rows == [[1]]
    frame = igs.read(name, nulls="mask", to="pandas", **where).sort_values("key")
    assert frame["val.s"].tolist() == [[b"a", None], [b"b"], []]
    igs.write(copy, frame, **where)
    again = by_key(igs.read(copy, nulls="mask", **where))
    assert [list(mask) for mask in again["val.s_mask"]] == [[True, False], [True], []]
    assert again["val.n_mask"].tolist() == [True, False, True]
    caches.drop_cache(client, copy)


FORKING = """
import os, signal, sys
import numpy as np
import ignite_strategy as igs
from ignite_strategy.errors import WriteError
signal.alarm(60)
how = sys.argv[3]
def blocks():
    for i in range(6):
        if i == 3:
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                if how == "exit":
                    raise SystemExit(7)
                if how == "raise":
                    raise ValueError("in the child")
                if how == "end":
                    return
            else:
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        yield {"id": np.arange(1000) + i * 1000, "v": np.full(1000, i)}
parent = os.getpid()
try:
    report = igs.write(sys.argv[2], blocks(), addresses=[sys.argv[1]], key="id", create=True, batch_rows=100)
except WriteError as error:
    assert os.getpid() != parent
    print(error, file=sys.stderr)
    sys.exit(9)
print(report.rows)
"""


@pytest.mark.parametrize(("how", "code"), [("exit", 7), ("raise", 9), ("end", 9), ("go on", 9)])
def test_a_fork_within_the_users_iterator(one_node: str, name: str, how: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, one_node, name, how], capture_output=True, text=True, timeout=90
    )
    assert (done.returncode, done.stdout.split()) == (0, [str(code), "6000"]), done.stderr


def test_several_processes_create_the_same_cache(one_node: str, name: str) -> None:
    program = (
        "import sys, time, numpy as np, ignite_strategy as igs\n"
        "first = int(sys.argv[3])\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "data = {'id': np.arange(first, first + 100), 'v': np.zeros(100)}\n"
        "print(igs.write(sys.argv[2], data, addresses=[sys.argv[1]], key='id', create=True, partitions=4).rows)\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program, one_node, name, str(number * 100)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
        for writer in writers:
            said, problem = writer.communicate(timeout=60)
            assert said == "100\n", problem
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    assert sorted(igs.read(name, addresses=[one_node])["key"].tolist()) == list(range(400))


def test_progress_that_cannot_be_drawn_ends_nothing(one_node: str, name: str) -> None:
    program = (
        "import sys, numpy as np, ignite_strategy as igs\n"
        "data = {'id': np.arange(20000), 'v': np.zeros(20000)}\n"
        "print(igs.write(sys.argv[2], data, addresses=[sys.argv[1]], key='id', create=True, progress=True).rows)\n"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program, one_node, name], stdout=subprocess.PIPE, stderr=full, timeout=60
        )
    assert done.stdout == b"20000\n"
