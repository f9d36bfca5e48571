"""Ways to the session's nodes that many of these tests take."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from ignite_strategy.local import LocalCluster
from ignite_strategy.settings import parse_endpoint
from ignite_strategy.topology.caches import connect, drop_cache
from tests.raw import RawClient


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Any]:
    """A client for administration, of all nodes."""
    with closing(connect(cluster.addresses)) as connected:
        yield connected


@pytest.fixture
def name(client: Any, fresh_name: str) -> Iterator[str]:
    """A cache that is gone after the test."""
    yield fresh_name
    drop_cache(client, fresh_name)


@pytest.fixture(scope="module")
def raw(one_node: str) -> Iterator[RawClient]:
    """A client that puts bytes as they are."""
    with closing(RawClient(one_node)) as connected:
        yield connected


@pytest.fixture(scope="module")
def where(one_node: str) -> dict[str, Any]:
    """The arguments of a dataset that name one node."""
    host, port = parse_endpoint(one_node)
    return {"host": host, "port": port}


@pytest.fixture(scope="module")
def two_at_a_time() -> Iterator[ThreadPoolExecutor]:
    """For a module's programs, most of whose time is the start of TensorFlow: they run ahead of their tests."""
    with ThreadPoolExecutor(2) as pool:
        yield pool
        pool.shutdown(cancel_futures=True)
