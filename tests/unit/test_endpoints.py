import pytest

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.settings import (
    Endpoint,
    default_endpoints,
    format_endpoint,
    parse_endpoint,
    parse_endpoints,
    use_default_endpoints,
)


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("ignite-0", ("ignite-0", 10800)),
        ("ignite-0.ignite.svc.cluster.local:1", ("ignite-0.ignite.svc.cluster.local", 1)),
        (" 10.0.0.5:65535 ", ("10.0.0.5", 65535)),
        ("[::1]", ("::1", 10800)),
        ("[fd00::5]:2222", ("fd00::5", 2222)),
        ("[fe80::1%eth0]:2222", ("fe80::1%eth0", 2222)),
    ],
)
def test_addresses_are_understood_and_written_back(text, endpoint):
    parsed = parse_endpoint(text)
    assert parsed == endpoint
    assert parse_endpoint(format_endpoint(parsed)) == parsed
    assert str(parsed) == format_endpoint(parsed)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "a:",
        ":1",
        "a:b",
        "a:0",
        "a:65536",
        "a:1:2",
        "::1",
        "[::1",
        "[::1]1",
        "http://a:1",
        "a b",
        "u@a",
    ],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(InvalidArgumentError):
        parse_endpoint(text)


def test_an_ipv6_address_without_brackets_gets_a_hint():
    with pytest.raises(ValueError, match="brackets"):
        parse_endpoint("::1:10800")


def test_lists():
    assert parse_endpoints(None) == parse_endpoints([]) == parse_endpoints("") == []
    assert parse_endpoints("a, b:2,") == parse_endpoints(["a", "b:2"]) == [("a", 10800), ("b", 2)]


def test_the_innermost_open_default_wins_and_ends_with_its_block():
    assert default_endpoints() == ()
    with use_default_endpoints([Endpoint("a", 1)]):
        with use_default_endpoints([Endpoint("b", 2), Endpoint("c", 3)]):
            assert default_endpoints() == (("b", 2), ("c", 3))
        assert default_endpoints() == (("a", 1),)
    assert default_endpoints() == ()


def test_defaults_that_end_out_of_order():
    first, second = use_default_endpoints([Endpoint("a", 1)]), use_default_endpoints([Endpoint("b", 2)])
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert default_endpoints() == (("b", 2),)
    second.__exit__(None, None, None)
    assert default_endpoints() == ()
