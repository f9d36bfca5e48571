import json

import pytest

from ignite_strategy import errors
from ignite_strategy._core import (
    dataset_environment,
    filesystem_environment,
    format_partitions,
    parse_partitions,
)

VARIABLES = [
    *("CACHE_NAME", "HOST", "PORT", "LOCAL", "PART", "PAGE_SIZE"),
    *("USERNAME", "PASSWORD", "CERTFILE", "KEYFILE", "CERT_PASSWORD"),
]
ASSIGNMENT = "IGNITE_STRATEGY_PARTITIONS"


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in [*(f"IGNITE_DATASET_{name}" for name in VARIABLES), ASSIGNMENT]:
        monkeypatch.delenv(name, raising=False)
    for name in ("IGFS_HOST", "IGFS_PORT", "IGFS_FS_NAME"):
        monkeypatch.delenv(name, raising=False)


def test_nothing_set_is_nothing():
    assert set(dataset_environment().values()) == {None}
    assert filesystem_environment() == {"host": None, "port": None, "name": None, "backend": None}


@pytest.mark.parametrize(
    ("name", "value", "key", "expected"),
    [
        ("CACHE_NAME", "Übungen", "cache_name", "Übungen"),
        ("HOST", "ignite-0", "host", "ignite-0"),
        ("HOST", "fd00::5", "host", "fd00::5"),
        ("HOST", "[fd00::5]", "host", "fd00::5"),
        ("PORT", "1", "port", 1),
        ("PORT", "65535", "port", 65535),
        *[("LOCAL", text, "local", True) for text in ("1", "true", "True", "TRUE")],
        *[("LOCAL", text, "local", False) for text in ("0", "false", "False", "FALSE")],
        ("PART", "0", "part", [0]),
        ("PART", "3,1", "part", [1, 3]),
        ("PART", "0-3,7", "part", [0, 1, 2, 3, 7]),
        ("PART", "[0, 2]", "part", [0, 2]),
        ("PART", "-1", "part", None),
        ("PAGE_SIZE", "4096", "page_size", 4096),
    ],
)
def test_what_a_variable_means(monkeypatch, name, value, key, expected):
    """tensorflow/io: any value of IGNITE_DATASET_LOCAL, even "false", meant true; apache/ignite #4601."""
    monkeypatch.setenv(f"IGNITE_DATASET_{name}", value)
    assert dataset_environment()[key] == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CACHE_NAME", ""),
        ("HOST", ""),
        ("HOST", "ignite-0:10800"),
        ("HOST", "a b"),
        ("HOST", "http://x"),
        ("HOST", "a,b"),
        ("PORT", "10x"),
        ("PORT", "0"),
        ("PORT", "65536"),
        ("PORT", "-1"),
        ("PORT", " 1"),
        ("PORT", "1.0"),
        ("PORT", "99999999999999999999"),
        ("LOCAL", "yes"),
        ("LOCAL", "2"),
        ("LOCAL", ""),
        ("PART", ""),
        ("PART", "x"),
        ("PART", "-2"),
        ("PART", "3-1"),
        ("PART", "1,,2"),
        ("PART", "65000"),
        ("PART", "[1, 2"),
        ("PART", "[-1]"),
        ("PART", "[1.5]"),
        ("PAGE_SIZE", "0"),
        ("PAGE_SIZE", "2147483648"),
    ],
)
def test_a_value_that_cannot_be_used_names_the_variable_and_the_value(monkeypatch, name, value):
    monkeypatch.setenv(f"IGNITE_DATASET_{name}", value)
    with pytest.raises(errors.InvalidArgumentError, match=f"IGNITE_DATASET_{name}") as caught:
        dataset_environment()
    assert value in str(caught.value)


def test_igfs_variables(monkeypatch):
    monkeypatch.setenv("IGFS_HOST", "ignite-0")
    monkeypatch.setenv("IGFS_PORT", "10500")
    monkeypatch.setenv("IGFS_FS_NAME", "default_fs")
    monkeypatch.setenv("IGFS_BACKEND", "endpoint")
    assert filesystem_environment() == {
        "host": "ignite-0",
        "port": 10500,
        "name": "default_fs",
        "backend": "endpoint",
    }
    monkeypatch.setenv("IGFS_PORT", "x")
    with pytest.raises(errors.InvalidArgumentError, match='IGFS_PORT="x"'):
        filesystem_environment()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", {}),
        (' { "A" : "0-3,7" , "B":[5,"1-2",5] }\n', {"A": [0, 1, 2, 3, 7], "B": [1, 2, 5]}),
        ('{"A": []}', {"A": []}),
        (r'{"\"\\\/\b\f\n\r\t\u0416\ud83d\ude00": "0"}', {'"\\/\b\f\n\r\tЖ😀': [0]}),
        ('{"Ж😀": [64999]}', {"Ж😀": [64999]}),
    ],
)
def test_an_assignment(monkeypatch, tmp_path, text, expected):
    monkeypatch.setenv(ASSIGNMENT, text)
    assert dataset_environment()["assignment"] == expected
    file = tmp_path / "assignment.json"
    file.write_text(text)
    monkeypatch.setenv(ASSIGNMENT, f"@{file}")
    assert dataset_environment()["assignment"] == expected


def test_an_assignment_as_python_writes_it(monkeypatch):
    assignment = {f"Cache Ж {number} \"'\u2028": list(range(number, 3000, 7)) for number in range(20)}
    for ascii_only in (True, False):
        ranges = {cache: format_partitions(partitions) for cache, partitions in assignment.items()}
        for value in (assignment, ranges):
            monkeypatch.setenv(ASSIGNMENT, json.dumps(value, ensure_ascii=ascii_only))
            assert dataset_environment()["assignment"] == assignment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '{"A": 1}',
        '{"A": -1}',
        '{"A": [1,]}',
        '{"A": [01]}',
        '{"A": [1e3]}',
        '{"A": [65000]}',
        '{"A": [[1]]}',
        '{"A": {"B": [1]}}',
        '{"A": ""}',
        '{"A": "x"}',
        '{"A": "0"',
        '{"A": "0"} x',
        '{"A": "0",}',
        '{"A": "0", "A": "1"}',
        "{'A': '0'}",
        '{A: "0"}',
        '{"A"}',
        '{"A\n": "0"}',
        r'{"\x41": "0"}',
        r'{"\u12": "0"}',
        r'{"\ud83d": "0"}',
        r'{"\ude00": "0"}',
        r'{"\ud83d\u0041": "0"}',
        '{"A": [99999999999999999999]}',
        "@",
        "@/nowhere/at/all.json",
    ],
)
def test_an_assignment_that_cannot_be_used(monkeypatch, text):
    monkeypatch.setenv(ASSIGNMENT, text)
    with pytest.raises(errors.InvalidArgumentError, match=ASSIGNMENT):
        dataset_environment()


def test_an_assignment_that_is_not_utf8(monkeypatch, tmp_path):
    file = tmp_path / "assignment.json"
    for name in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80", b"a\0b"):
        file.write_bytes(b'{"' + name + b'": "0"}')
        monkeypatch.setenv(ASSIGNMENT, f"@{file}")
        with pytest.raises(errors.InvalidArgumentError, match=ASSIGNMENT):
            dataset_environment()


def test_an_assignment_file_has_a_limit(monkeypatch, tmp_path):
    file = tmp_path / "assignment.json"
    file.write_bytes(b"{}" + b" " * (16 << 20))
    monkeypatch.setenv(ASSIGNMENT, f"@{file}")
    with pytest.raises(errors.InvalidArgumentError, match="16777216"):
        dataset_environment()
    monkeypatch.setenv(ASSIGNMENT, "@/dev/zero")
    with pytest.raises(errors.InvalidArgumentError, match="16777216"):
        dataset_environment()


@pytest.mark.parametrize(
    ("partitions", "text"),
    [([], "[]"), ([3], "3"), ([0, 1], "0-1"), ([9, 0, 1, 2, 2], "0-2,9"), (list(range(1024)), "0-1023")],
)
def test_partitions_are_written_as_they_are_read(partitions, text):
    assert format_partitions(partitions) == text
    assert parse_partitions(text, "X") == sorted(set(partitions))


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(errors.InvalidArgumentError) as caught:
        parse_partitions("[" + "1," * 10_000, "X")
    assert len(str(caught.value)) < 300
