"""Addresses, ranges and the decoding of the topology's responses."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import pytest

from ignite_strategy.errors import (
    ClusterError,
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    ServerError,
    UnsupportedError,
)
from ignite_strategy.topology.address import advertise_address
from ignite_strategy.topology.nodes import Node, discover, list_nodes
from ignite_strategy.topology.payload import PayloadReader
from ignite_strategy.topology.ranges import format_ranges, parse_ranges


@pytest.mark.parametrize(
    ("addresses", "names", "expected"),
    [
        (["127.0.0.1", "172.17.0.1", "10.0.0.5"], ["ip6-localhost"], "10.0.0.5"),
        (["0:0:0:0:0:0:0:1%lo", "127.0.0.1", "192.168.1.7"], [], "192.168.1.7"),
        (["fe80::1%eth0", "fd00::5"], [], "fd00::5"),
        (["fd00::5", "10.0.0.5"], [], "10.0.0.5"),
        (["127.0.0.1", "172.17.0.2"], [], "172.17.0.2"),
        (["172.17.0.1", "127.0.0.1"], [], "172.17.0.1"),
        (["127.0.0.1"], ["host-a"], "127.0.0.1"),
        (["0.0.0.0"], ["localhost", "ignite-0"], "ignite-0"),
        (["ignite-0.ignite"], [], "ignite-0.ignite"),
    ],
)
def test_the_address_that_peers_reach(addresses: list[str], names: list[str], expected: str) -> None:
    """yahoo/TensorFlowOnSpark #33: every task announced a name or address that only its own host knew."""
    assert advertise_address(addresses, names) == expected
    assert advertise_address(addresses, names, configured="10.1.1.1") == "10.1.1.1"


def test_nothing_to_announce() -> None:
    with pytest.raises(InvalidArgumentError, match="--advertise"):
        advertise_address(["0.0.0.0", "fe80::1"])


@pytest.mark.parametrize("numbers", [(), (0,), (0, 1), (1, 3), (0, 1, 2, 9), tuple(range(1024))])
def test_ranges_there_and_back(numbers: tuple[int, ...]) -> None:
    assert parse_ranges(format_ranges(numbers)) == numbers


@pytest.mark.parametrize(
    "text", ["a", "1-", "-1", "2-1", "1,,2", " 1", "65536", "0-99999999", "1.5", "0-9999999999"]
)
def test_strange_ranges_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_ranges(text)


class _Server:
    """Answers as recorded; a real one cannot be made to give the same address twice."""

    node_id: Any = str(uuid.UUID(int=1))
    endpoint = "h:1"
    version = "1.7.0"
    has_node_endpoints = True

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def call(self, op: int, payload: bytes, doing: str) -> bytes:
        answer = self._answers[f"op{op}"]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bytes(answer)

    def close(self) -> None:
        pass


def _string(text: str) -> bytes:
    return struct.pack("<Bi", 9, len(text)) + text.encode()


def _endpoints(*nodes: tuple[int, int, list[str]], version: int = 7) -> bytes:
    body = struct.pack("<qi", version, len(nodes))
    for number, port, names in nodes:
        body += (
            struct.pack("<qqi", 0, number, port)
            + struct.pack("<i", len(names))
            + b"".join(map(_string, names))
        )
    return body + struct.pack("<i", 0)


def _by_address(*nodes: tuple[int, list[str], list[int]]) -> bytes:
    body = struct.pack("<i", len(nodes))
    for port, names, parts in nodes:
        body += struct.pack("<ii", port, len(names)) + b"".join(map(_string, names))
        body += struct.pack(f"<i{len(parts)}i", len(parts), *parts)
    return body


def _not_applicable(version: int) -> bytes:
    return struct.pack("<qiiBii", version, 0, 1, 0, 1, -919715654)


_NOT_APPLICABLE = _not_applicable(7)
_CACHE = "SQL_PUBLIC_TEST_CACHE"


def test_the_join_by_port_and_addresses() -> None:
    nodes = _endpoints((1, 10800, ["10.0.0.1", "127.0.0.1"]), (2, 10800, ["10.0.0.2", "127.0.0.1"]))
    answer = _by_address((10800, ["10.0.0.2", "127.0.0.1"], [0]), (10800, ["10.0.0.1", "127.0.0.1"], [1, 2]))
    topology = discover(_Server(op5102=nodes, op1101=_NOT_APPLICABLE, op1100=answer), _CACHE)
    one, two = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
    assert topology.primaries == (two, one, one)
    assert topology.partitions_of(one) == (1, 2)
    assert topology.node(two) == Node(two, ("10.0.0.2", "127.0.0.1"), 10800)
    with pytest.raises(NotFoundError, match="not in the cluster"):
        topology.node("x")


def test_two_candidates_are_an_error() -> None:
    """Two hosts whose nodes announce 127.0.0.1 only cannot be told apart by address."""
    nodes = _endpoints((1, 10800, ["127.0.0.1"]), (2, 10800, ["127.0.0.1"]))
    answer = _by_address((10800, ["127.0.0.1"], [0]))
    with pytest.raises(ClusterError, match="2 nodes announce port 10800"):
        discover(_Server(op5102=nodes, op1101=_NOT_APPLICABLE, op1100=answer), _CACHE)


def test_no_candidate_is_an_error() -> None:
    nodes = _endpoints((1, 10800, ["10.0.0.1"]))
    answer = _by_address((10801, ["10.0.0.1"], [0]))
    with pytest.raises(ClusterError, match="0 nodes announce port 10801"):
        discover(_Server(op5102=nodes, op1101=_NOT_APPLICABLE, op1100=answer), _CACHE)


def test_a_topology_that_changes_in_between_is_asked_again() -> None:
    one = (1, 10800, ["10.0.0.1"])
    nodes = [_endpoints(one, version=v) for v in (7, 8, 8, 8)]
    answers = [_by_address((10800, ["10.0.0.1"], parts)) for parts in ([0], [0, 1])]
    server = _Server(op5102=nodes, op1101=[_not_applicable(v) for v in (7, 8)], op1100=answers)
    assert len(discover(server, _CACHE).primaries) == 2


def test_partitions_of_an_older_topology_are_asked_again() -> None:
    """After a node has left, its partitions are still told to be there until the nodes agree on others."""
    one = (1, 10800, ["10.0.0.1"])
    left, now = _by_address((10801, ["10.0.0.1"], [0])), _by_address((10800, ["10.0.0.1"], [0]))
    versions = [_not_applicable(v) for v in (7, 7, 8)]
    server = _Server(op5102=_endpoints(one, version=8), op1101=versions, op1100=[left, left, now])
    assert discover(server, _CACHE).primaries == (str(uuid.UUID(int=1)),)


def test_a_topology_that_never_rests_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ignite_strategy.topology.nodes._SECONDS_TO_AGREE", 0.1)
    nodes = [_endpoints((1, 1, ["h"]), version=v) for v in range(1000)]
    server = _Server(op5102=nodes, op1101=_NOT_APPLICABLE, op1100=_by_address((1, ["h"], [0])))
    with pytest.raises(ClusterError, match="kept changing"):
        discover(server, _CACHE)


def test_a_missing_cache_is_named() -> None:
    error = ServerError("h:1: Cache does not exist [cacheId= 5]")
    error.server_status = 1000
    names = struct.pack("<i", 2) + _string("OTHER") + _string("x" * 300)
    with pytest.raises(
        NotFoundError, match=f"cache '{_CACHE}' does not exist; there are: 'OTHER', 'x{{80}}' "
    ):
        discover(_Server(op5102=_endpoints((1, 1, ["h"])), op1101=error, op1050=names), _CACHE)


def test_a_cluster_that_is_not_active() -> None:
    server = _Server(op5102=_endpoints((1, 1, ["h"])), op1101=_NOT_APPLICABLE, op1100=_by_address())
    with pytest.raises(ClusterError, match="active"):
        discover(server, _CACHE)


def test_an_old_server_cannot_list_its_nodes() -> None:
    server = _Server()
    server.has_node_endpoints = False
    with pytest.raises(UnsupportedError, match=r"2\.9"):
        list_nodes(server)


def test_a_response_that_lies_about_its_length() -> None:
    for end in range(len(_endpoints((1, 1, ["h"]))) - 5):
        with pytest.raises(DataLossError, match="listing the nodes"):
            list_nodes(_Server(op5102=_endpoints((1, 1, ["h"]))[:end]))
    with pytest.raises(DataLossError, match="2147483647 items"):
        list_nodes(_Server(op5102=struct.pack("<qi", 1, 2**31 - 1)))
    with pytest.raises(DataLossError, match="type code 3"):
        PayloadReader(b"\x03aaaa", "x").string()
    assert PayloadReader(b"\x65", "x").string() is None
