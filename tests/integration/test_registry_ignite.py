"""The registry in an Ignite cache keeps the contract, and survives its node."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyignite
import pytest
from pyignite.datatypes.cache_config import CacheMode, WriteSynchronizationMode
from pyignite.datatypes.prop_codes import PROP_CACHE_MODE, PROP_WRITE_SYNCHRONIZATION_MODE

from ignite_strategy.errors import ConnectionFailedError, InvalidArgumentError
from ignite_strategy.local import LocalCluster
from ignite_strategy.runtime.registry import IgniteRegistry, Registry
from ignite_strategy.runtime.registry.ignite import CACHE_NAME
from ignite_strategy.settings import Endpoint, parse_endpoints
from tests.contracts.registry import Open, RegistryContract

pytestmark = pytest.mark.integration


class TestIgniteRegistry(RegistryContract):
    ttl = 1.5

    @pytest.fixture
    def open(self, cluster: LocalCluster) -> Iterator[Open]:
        opened: list[Registry] = []

        def another() -> Registry:
            # Each through another node: what one writes the other sees at once.
            endpoints = parse_endpoints(cluster.addresses)
            at = len(opened) % 2
            opened.append(IgniteRegistry([*endpoints[at:], *endpoints[:at]]))
            return opened[-1]

        yield another
        for registry in opened:
            registry.close()


def test_entries_are_texts_in_a_replicated_cache(cluster: LocalCluster, fresh_name: str) -> None:
    with IgniteRegistry(parse_endpoints(cluster.addresses)) as registry:
        registry.put(f"{fresh_name}/a", {"n": 1})
    client = pyignite.Client()
    with client.connect([(node.host, node.port) for node in cluster.nodes]):
        cache = client.get_cache(CACHE_NAME)
        assert cache.get(f"{fresh_name}/a") == '{"value":{"n":1}}'
        settings = cache.settings
        assert settings[PROP_CACHE_MODE] == CacheMode.REPLICATED
        assert settings[PROP_WRITE_SYNCHRONIZATION_MODE] == WriteSynchronizationMode.FULL_SYNC


def test_nobody_answers() -> None:
    begun = time.monotonic()
    registry = IgniteRegistry([Endpoint("127.0.0.1", 1)], timeout=1.0)
    with pytest.raises(ConnectionFailedError, match=r"127\.0\.0\.1:1 .*reading registry entry 'a/b'"):
        registry.get("a/b")
    assert time.monotonic() - begun < 3
    registry.close()
    with pytest.raises(ConnectionFailedError, match="closed"):
        registry.get("a/b")


def test_no_address() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one"):
        IgniteRegistry([])


def test_it_moves_on_when_its_node_is_killed() -> None:
    with LocalCluster(nodes=2) as cluster, IgniteRegistry(parse_endpoints(cluster.addresses)) as registry:
        registry.put("a/b", {"n": 1})
        lease = registry.acquire("leases/x", {}, ttl=60)
        cluster.nodes[0].kill()
        assert registry.get("a/b") == {"n": 1}
        assert registry.compare_and_set("a/b", {"n": 1}, {"n": 2})
        assert lease.renew()
        assert registry.children("a") == {"a/b": {"n": 2}}
