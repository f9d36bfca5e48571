"""Several addresses, IPv6, nodes that go and come back: against real nodes."""

from __future__ import annotations

import os
import socket
import time
from contextlib import closing

import pytest

from ignite_strategy import errors
from ignite_strategy.dataset import read
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.local import LocalCluster
from ignite_strategy.settings import Timeouts, parse_endpoint
from ignite_strategy.topology.caches import connect, create_cache, put_values, sql

pytestmark = pytest.mark.integration

ROWS = {n: n / 2 for n in range(200)}


def fill(cluster: LocalCluster, name: str) -> None:
    with closing(connect(cluster.addresses)) as client:
        create_cache(client, name, key="int", value="double")
        put_values(client, name, ROWS, key="int", value="double")


def keys(name: str, **where: object) -> list[int]:
    return sorted(read(name, columns=["key"], **where)["key"].tolist())


@pytest.fixture(scope="module")
def numbers(cluster: LocalCluster) -> str:
    fill(cluster, "ADDRESSES")
    return "ADDRESSES"


def test_the_first_address_that_answers_is_used(cluster, numbers):
    """A closed port, a name that does not exist, a host that swallows packets."""
    silent = socket.create_server(("127.0.0.1", 0), backlog=1)  # accepts, and never says a word
    try:
        dead = [f"127.0.0.1:{silent.getsockname()[1]}", "127.0.0.1:1", "no-such-host.invalid:10800"]
        limits = Timeouts(connect=1.5, request=20.0)
        started = time.monotonic()
        assert keys(numbers, addresses=[*dead, cluster.addresses[1]], timeouts=limits) == sorted(ROWS)
        assert time.monotonic() - started < 30
        with pytest.raises(errors.ConnectionFailedError) as caught:
            read(numbers, addresses=dead, timeouts=limits)
        for address in dead:
            assert address in str(caught.value)
    finally:
        silent.close()


def test_addresses_in_one_text_and_no_host_beside_them(cluster, numbers):
    assert keys(numbers, addresses=",".join(cluster.addresses)) == sorted(ROWS)
    with pytest.raises(errors.InvalidArgumentError, match="addresses="):
        read(numbers, "127.0.0.1", addresses=cluster.addresses)
    with pytest.raises(errors.InvalidArgumentError, match="at least one"):
        read(numbers, addresses=[])


def test_a_child_process_reads_after_a_fork(cluster, numbers):
    """The parent's idle connections are in the pool; the child opens its own, and both go on."""
    assert keys(numbers, addresses=cluster.addresses) == sorted(ROWS)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if keys(numbers, addresses=cluster.addresses) == sorted(ROWS) else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert keys(numbers, addresses=cluster.addresses) == sorted(ROWS)


@pytest.fixture(scope="module")
def version_six():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this host has no IPv6 loopback")
    with LocalCluster(nodes=1, host="::1") as cluster:
        yield cluster


def test_ipv6_everywhere(version_six):
    """Datasets, files, caches, the topology: the original knew IPv4 only."""
    from ignite_strategy.topology import nodes

    (address,) = version_six.addresses
    assert address.startswith("[::1]:")
    fill(version_six, "SIX")
    host, port = parse_endpoint(address)
    assert keys("SIX", host=host, port=port) == sorted(ROWS)
    assert keys("SIX", addresses=address) == sorted(ROWS)
    files = FileSystem(host, port)
    files.makedirs("/six")
    assert files.exists("/six")
    with closing(nodes.connect(address)) as connection:
        assert connection.endpoint == connection.peer == address
    with closing(connect(address)) as client:
        assert sql(client, "SELECT 6").rows == [[6]]


def test_a_node_that_comes_back_is_found_again(version_six):
    """What the pool holds is dead by then, and is replaced without a word."""
    host, port = parse_endpoint(version_six.addresses[0])
    FileSystem(host, port).makedirs("/before")
    version_six.nodes[0].restart()
    fill(version_six, "AGAIN")
    assert keys("AGAIN", host=host, port=port) == sorted(ROWS)
