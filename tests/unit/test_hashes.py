import pytest

from ignite_strategy import _core


def java_hash(text: str) -> int:
    """String.hashCode over the UTF-16 units, written again."""
    value = 0
    data = text.encode("utf-16-le")
    for at in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[at : at + 2], "little")) & 0xFFFFFFFF
    return value - (value >> 31 << 32)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SQL_PUBLIC_TEST_CACHE", -919715654),  # from a real server
        ("java.sql.Date", 0x40D5DE3A),
        ("", 0),
        ("a", 97),
        ("Aa", 2112),
        ("BB", 2112),
    ],
)
def test_known_hashes(text, expected):
    assert _core.java_hash(text) == expected


@pytest.mark.parametrize(
    "text", ["é", "Ж", "€uro", "😀", "a😀b", "\ufffd", "\0x", "𐀀", "\U0010ffff", "x" * 1000]
)
def test_characters_count_as_java_counts_them(text):
    """The original hashed bytes in C++ and code points in Python, both wrong beyond ASCII."""
    assert _core.java_hash(text) == java_hash(text)


@pytest.mark.parametrize(
    ("text", "lower"),
    [
        ("FIELD_1", "field_1"),
        ("ÄÖÜß", "äöüß"),
        ("ЖЫ", "жы"),
        ("ΣΑΣ", "\u03c3\u03b1\u03c3"),  # unit by unit: no final sigma
        ("İ", "i"),  # Character.toLowerCase, not String.toLowerCase
        ("Ā\u0178Ⅷ", "ā\u00ffⅷ"),
        ("𐐀", "𐐀"),  # surrogates stay as they are
        ("İI", "ii"),
    ],
)
def test_names_are_lower_cased_unit_by_unit(text, lower):
    assert _core.java_lower_hash(text) == java_hash(lower)


def test_random_bytes_differ():
    assert len({_core.random_bytes(16) for _ in range(100)}) == 100
    assert _core.random_bytes(0) == b""


def test_openssl_is_inside():
    assert _core.openssl_version().startswith("OpenSSL ")
