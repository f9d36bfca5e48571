"""README's table of types is the native one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ignite_strategy import _core

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module")
def rows() -> list[list[str]]:
    lines = README.read_text().splitlines()
    start = lines.index("| Ignite type | Java class | dtype | what it is |") + 2
    end = next(at for at in range(start, len(lines)) if not lines[at].startswith("|"))
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[start:end]]


def test_scalars(rows):
    table = _core.type_table().values()
    native = {(name, java, dtype) for name, dtype, kind, java, _ in table if kind == "scalar"}
    assert {(name, java, dtype) for name, java, dtype, _ in rows} == native


def test_arrays_have_the_dtype_of_their_items():
    table = _core.type_table()
    arrays = [(name, dtype, item) for name, dtype, kind, _, item in table.values() if kind == "array"]
    assert len(arrays) == 15
    for name, dtype, item in arrays:
        assert (name, dtype) == (f"{table[item][0]} array", table[item][1])


def test_forms():
    assert [_core.dtype_of(code, True, True) for code in (30, 31, 28, 29, 38, 3)] == [
        "float64",
        "float64",
        "string",
        "string",
        "string",
        "int32",
    ]
