"""Arguments of statements on the wire: the golden bytes of Ignite's own writer."""

from __future__ import annotations

import datetime
import decimal
import uuid

import numpy as np
import pytest

from ignite_strategy.dataset.sql import _checked_names, count_placeholders, encode_argument, statement
from ignite_strategy.errors import InvalidArgumentError

DECIMAL = decimal.Decimal


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "65"),
        (True, "0801"),
        (1, "040100000000000000"),
        (np.int32(1), "040100000000000000"),
        (1.5, "06000000000000f83f"),
        ("aé", "090300000061c3a9"),
        (b"\x01\x02", "0c020000000102"),
        (uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"), "0a7766554433221100ffeeddccbbaa9988"),
        (DECIMAL("123.45"), "1e02000000020000003039"),
        (DECIMAL("-123.45"), "1e0200000002000000b039"),
        (DECIMAL("-128"), "1e00000000020000008080"),
        (DECIMAL("0"), "1e000000000100000000"),
        (
            datetime.datetime(1970, 1, 1, 0, 0, 1, 123456),
            "216304000000000000" + (456_000).to_bytes(4, "little").hex(),
        ),
        (np.datetime64(1_000_001, "ns"), "21" + (1).to_bytes(8, "little").hex() + "01000000"),
        (np.datetime64("NaT"), "65"),
        (datetime.datetime(9999, 12, 31), "21" + (253402214400000).to_bytes(8, "little").hex() + "00000000"),
        (np.bool_(True), "0801"),
        (datetime.date(1970, 1, 2), "21" + (86_400_000).to_bytes(8, "little").hex() + "00000000"),
        (
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, datetime.timezone.utc),
            "21" + "ff" * 8 + "00000000",
        ),
    ],
)
def test_bytes(value, expected):
    assert encode_argument(value).hex() == expected


@pytest.mark.parametrize("value", [2**63, object(), DECIMAL("NaN"), [1]])
def test_what_sql_does_not_have(value):
    with pytest.raises(InvalidArgumentError, match="argument"):
        encode_argument(value)


def test_statement():
    made = statement("SELECT ?, ?", (1, "x"), "PUBLIC", False)
    assert (made.count, made.arguments) == (2, encode_argument(1) + encode_argument("x"))
    for query, args in [("", ()), (None, ()), ("SELECT ?", "x"), ("SELECT ?", 5)]:
        with pytest.raises(InvalidArgumentError):
            statement(query, args, "PUBLIC", False)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SELECT 1", 0),
        ("SELECT ?, ?", 2),
        ("SELECT '?', 'it''s ?', \"?\", ? -- ?\n, ? /* ? */ // ?", 2),
        ("SELECT ?1, ?1", None),
        ("SELECT $$?$$", None),
        ("SELECT '?", None),
        ("SELECT /* ?", None),
    ],
)
def test_placeholders(text: str, count: int | None) -> None:
    assert count_placeholders(text) == count


def test_arguments_that_the_server_would_ignore() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"args= has 2 values, and the statement 1 [?] to put them"
    ):
        statement("SELECT ? WHERE '?' = '?'", [1, 2], "PUBLIC", False)
    with pytest.raises(InvalidArgumentError, match=r"args= has 1 values, and the statement no [?]"):
        statement("SELECT 1", [1], "PUBLIC", False)
    assert statement("SELECT ?1, ?1", [1, 2], "PUBLIC", False).count == 2
    with pytest.raises(InvalidArgumentError, match="schema=5"):
        statement("SELECT 1", [], 5, False)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a.b"])
def test_names_that_no_column_can_have(name: str) -> None:
    with pytest.raises(
        InvalidArgumentError, match=rf"column 2 of the statement is called '{name}'.*name it with AS"
    ):
        _checked_names([("x", {4}, 0), (name, {4}, 0)])


def test_what_sql_would_not_see_as_it_is() -> None:
    for value in (np.longdouble(1), np.datetime64(1, "ps"), np.array([1, 2])):
        with pytest.raises(InvalidArgumentError):
            encode_argument(value)
