"""Where ZooKeeper is: the text of users, checked before anything starts."""

from __future__ import annotations

import pytest

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.runtime.registry.zookeeper import parse_hosts
from ignite_strategy.settings import Credentials, Security, ZooKeeper


@pytest.mark.parametrize(
    ("text", "hosts", "path"),
    [
        ("zk", "zk:2181", "/ignite-strategy"),
        ("zk:1/", "zk:1", "/ignite-strategy"),
        ("a,b:2182, c/x", "a:2181,b:2182,c:2181", "/x"),
        ("[::1]:2181/x/y/", "[::1]:2181", "/x/y"),
        ("a/größe", "a:2181", "/gr%C3%B6%C3%9Fe"),
    ],
)
def test_hosts_and_path(text: str, hosts: str, path: str) -> None:
    assert parse_hosts(text) == (hosts, path)


@pytest.mark.parametrize(
    "text", ["", " ", "/x", "a,,b", "a:b", "::1", "a/../b", "a/./b", "a/zookeeper/x", "a b"]
)
def test_what_cannot_be(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_hosts(text)


def test_arguments_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IGNITE_STRATEGY_ZOOKEEPER", raising=False)
    assert ZooKeeper.of(None) is None
    secured = ZooKeeper("a", Security(None, Credentials("me", "secret")))
    assert ZooKeeper.of(secured) is secured
    assert "secret" not in repr(secured)
    monkeypatch.setenv("IGNITE_STRATEGY_ZOOKEEPER", "zk:2181/x")
    assert ZooKeeper.of(None) == ZooKeeper("zk:2181/x")
    assert ZooKeeper.of("other") == ZooKeeper("other")
    with pytest.raises(InvalidArgumentError, match="zookeeper=7"):
        ZooKeeper.of(7)  # type: ignore[arg-type]
