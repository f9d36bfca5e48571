"""The registry in a real ZooKeeper keeps the contract; sessions end, connections break, users differ."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from ignite_strategy.errors import AuthenticationError, ConnectionFailedError, InvalidArgumentError
from ignite_strategy.local import LocalZooKeeper, ZooKeeperTls
from ignite_strategy.runtime.registry import Registry, ZooKeeperRegistry
from ignite_strategy.settings import Credentials, Security, Tls
from tests.certificates import STORE_PASSWORD, Authority
from tests.contracts.registry import Open, RegistryContract

pytestmark = pytest.mark.integration
SESSION = 1.5


@pytest.fixture(scope="module")
def server() -> Iterator[LocalZooKeeper]:
    with LocalZooKeeper() as running:
        yield running


@pytest.fixture
def raw(server: LocalZooKeeper) -> Iterator[Any]:
    """kazoo itself."""
    client = KazooClient(server.address)
    client.start(10)
    yield client
    client.stop()
    client.close()


class TestZooKeeperRegistry(RegistryContract):
    ttl = 1.5

    @pytest.fixture
    def open(self, server: LocalZooKeeper) -> Iterator[Open]:
        opened: list[Registry] = []

        def another() -> Registry:
            opened.append(ZooKeeperRegistry(f"{server.address}/contract"))
            return opened[-1]

        yield another
        for registry in opened:
            registry.close()


def test_entries_are_nodes_and_leases_ephemeral_ones(
    server: LocalZooKeeper, raw: Any, fresh_name: str
) -> None:
    base = f"/tests/{fresh_name}"
    with ZooKeeperRegistry(server.address + base) as registry:
        registry.put("a/b", {"n": 1})
        lease = registry.acquire("agents/x", {"who": "me"}, 60)
        assert raw.get(f"{base}/a/b")[0] == b'{"value":{"n":1}}'
        assert raw.get(f"{base}/a/b")[1].ephemeralOwner == 0
        assert raw.get(f"{base}/agents/x")[1].ephemeralOwner != 0
        assert lease.renew()
        # A folder goes with its last entry.
        assert registry.delete("a/b")
        assert raw.exists(f"{base}/a") is None
        lease.release()
        assert raw.exists(f"{base}/agents") is None
    assert raw.exists(base) is not None


@pytest.mark.parametrize("name", [".", "..", "zookeeper", "ä/ö", "a%2Fb", "tab\there", "\u0001", "x" * 300])
def test_every_name(server: LocalZooKeeper, fresh_name: str, name: str) -> None:
    with ZooKeeperRegistry(f"{server.address}/tests/{fresh_name}") as registry:
        registry.put(f"folder/{name}", {"n": 1})
        assert registry.get(f"folder/{name}") == {"n": 1}
        folder = f"folder/{name}".rpartition("/")[0]
        assert registry.children(folder) == {f"folder/{name}": {"n": 1}}
        assert registry.delete(f"folder/{name}")


def test_an_entry_that_is_too_large_is_an_error_at_once(server: LocalZooKeeper, fresh_name: str) -> None:
    with ZooKeeperRegistry(f"{server.address}/tests/{fresh_name}") as registry:
        with pytest.raises(InvalidArgumentError, match=r"'a/b' has 1,000,0\d\d bytes"):
            registry.put("a/b", {"text": "x" * 1_000_000})
        registry.put("a/b", {"text": "x" * 900_000})


_HOLDER = """
import sys, time
from ignite_strategy.runtime.registry import ZooKeeperRegistry
registry = ZooKeeperRegistry(sys.argv[1], session=float(sys.argv[2]))
lease = registry.acquire("agents/x", {}, 60)
print("held", flush=True)
while True:
    time.sleep(0.2)
    lease.renew()
"""


def test_the_lease_of_a_killed_process_ends_with_its_session(server: LocalZooKeeper, fresh_name: str) -> None:
    hosts = f"{server.address}/tests/{fresh_name}"
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, hosts, str(SESSION)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with ZooKeeperRegistry(hosts) as registry:
            assert registry.leases("agents")["agents/x"].alive
            holder.send_signal(signal.SIGKILL)
            until = time.monotonic() + SESSION + 3
            while registry.leases("agents"):
                assert time.monotonic() < until
                time.sleep(0.1)
            assert registry.acquire("agents/x", {}, 60).renew()
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()


def _expire(server: LocalZooKeeper, registry: ZooKeeperRegistry) -> None:
    """Ends the session of a process that lives: another client takes it over and closes it."""
    session: Any = registry._session
    thief = KazooClient(server.address, client_id=session._client.client_id)
    thief.start(10)
    thief.stop()
    thief.close()


def test_an_expired_session_ends_leases_and_not_the_registry(server: LocalZooKeeper, fresh_name: str) -> None:
    with ZooKeeperRegistry(f"{server.address}/tests/{fresh_name}") as registry:
        lease = registry.acquire("agents/x", {}, 60)
        registry.put("a/b", {"n": 1})
        _expire(server, registry)
        assert not lease.renew()
        assert registry.get("a/b") == {"n": 1}
        assert registry.leases("agents") == {}
        again = registry.acquire("agents/x", {}, 60)
        assert again.renew()
        again.release()


def test_an_ended_lease_is_taken_over_for_good(server: LocalZooKeeper, fresh_name: str) -> None:
    """The new holder's entry must not go when the old holder's session ends."""
    hosts = f"{server.address}/tests/{fresh_name}"
    with ZooKeeperRegistry(hosts) as second:
        with ZooKeeperRegistry(hosts) as first:
            lease = first.acquire("agents/x", {}, 0.3)
            for _ in range(6):
                second.leases("agents")
                time.sleep(0.15)
            taken = second.acquire("agents/x", {"who": "second"}, 60)
            assert not lease.renew()
        time.sleep(0.5)
        assert taken.renew()


def test_it_survives_its_server(server: LocalZooKeeper, fresh_name: str) -> None:
    with ZooKeeperRegistry(f"{server.address}/tests/{fresh_name}", session=20.0) as registry:
        registry.put("a/b", {"n": 1})
        lease = registry.acquire("agents/x", {}, 60)
        server.kill()
        starting = threading.Timer(1.0, server.start)
        starting.start()
        try:
            assert registry.get("a/b") == {"n": 1}  # waits for it
            assert lease.renew()
            assert registry.compare_and_set("a/b", {"n": 1}, {"n": 2})
        finally:
            starting.join()


def test_nobody_answers() -> None:
    threads = threading.active_count()
    begun = time.monotonic()
    registry = ZooKeeperRegistry("127.0.0.1:1", timeout=1.0)
    with pytest.raises(
        ConnectionFailedError, match=r"127\.0\.0\.1:1/ignite-strategy while reading registry entry 'a/b'.*1 s"
    ):
        registry.get("a/b")
    assert time.monotonic() - begun < 3
    begun = time.monotonic()
    registry.close()
    registry.close()
    assert time.monotonic() - begun < 1
    with pytest.raises(ConnectionFailedError, match="closed"):
        registry.get("a/b")
    until = time.monotonic() + 15
    while threading.active_count() > threads:
        assert time.monotonic() < until, threading.enumerate()
        time.sleep(0.1)


def test_a_server_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        registry = ZooKeeperRegistry(f"127.0.0.1:{silent.getsockname()[1]}", timeout=1.0)
        with registry, pytest.raises(ConnectionFailedError, match="no connection"):
            registry.get("a/b")
        assert time.monotonic() - begun < 4


def test_close_ends_a_call_in_another_thread(fresh_name: str) -> None:
    registry = ZooKeeperRegistry("127.0.0.1:1", timeout=30.0)
    seen: list[BaseException] = []

    def ask() -> None:
        try:
            registry.get("a/b")
        except BaseException as error:
            seen.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.5)
    registry.close()
    thread.join(5)
    assert not thread.is_alive()
    assert isinstance(seen[0], ConnectionFailedError)


def test_the_entries_of_a_user_are_theirs_alone(
    server: LocalZooKeeper, raw: Any, fresh_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = f"{server.address}/private-{fresh_name}"
    mine = Security(None, Credentials("me", "secret-1"))
    with ZooKeeperRegistry(hosts, security=mine) as registry:
        registry.put("a/b", {"n": 1})
        lease = registry.acquire("agents/x", {}, 60)
        assert lease.renew()
        for other in (Security(), Security(None, Credentials("me", "secret-2"))):
            with ZooKeeperRegistry(hosts, security=other) as theirs:
                with pytest.raises(AuthenticationError, match=r"another user.*ZOOKEEPER_USERNAME") as caught:
                    theirs.get("a/b")
                assert "secret" not in str(caught.value)
                with pytest.raises(AuthenticationError):
                    theirs.put("a/c", {})
                with pytest.raises(AuthenticationError):
                    theirs.leases("agents")
        monkeypatch.setenv("ZOOKEEPER_USERNAME", "me")
        monkeypatch.setenv("ZOOKEEPER_PASSWORD", "secret-1")
        with ZooKeeperRegistry(hosts) as again:
            assert again.get("a/b") == {"n": 1}
    assert "secret" not in repr(registry)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("zookeeper-tls"))


@pytest.fixture(scope="module")
def encrypted(authority: Authority) -> Iterator[LocalZooKeeper]:
    with LocalZooKeeper(tls=ZooKeeperTls(authority.keystore("server"), STORE_PASSWORD)) as running:
        yield running


class TestTls:
    def test_it_is_used(self, encrypted: LocalZooKeeper, authority: Authority) -> None:
        how = Security(Tls(cafile=authority.cafile))
        with ZooKeeperRegistry(encrypted.address, security=how) as registry:
            registry.put("a/b", {"text": "x" * 500_000})
            assert registry.get("a/b") == {"text": "x" * 500_000}
            assert registry.delete("a/b")

    def test_an_unknown_authority_is_refused(
        self, encrypted: LocalZooKeeper, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        other = Authority(tmp_path_factory.mktemp("zookeeper-other"), "Other CA")
        begun = time.monotonic()
        registry = ZooKeeperRegistry(
            encrypted.address, timeout=20, security=Security(Tls(cafile=other.cafile))
        )
        said = r"TLS failed: .*(issuer|authority|self.signed)"
        with registry, pytest.raises(AuthenticationError, match=said):
            registry.get("a/b")
        assert time.monotonic() - begun < 10

    def test_a_name_that_is_not_in_the_certificate_is_refused(self, authority: Authority) -> None:
        store = authority.keystore("elsewhere", hosts=("elsewhere.example",))
        with LocalZooKeeper(tls=ZooKeeperTls(store, STORE_PASSWORD)) as server:
            checked = ZooKeeperRegistry(server.address, security=Security(Tls(cafile=authority.cafile)))
            with checked, pytest.raises(AuthenticationError, match=r"TLS failed: .*127\.0\.0\.1"):
                checked.get("a/b")
            unchecked = Security(Tls(cafile=authority.cafile, check_hostname=False))
            with ZooKeeperRegistry(server.address, security=unchecked) as registry:
                assert registry.get("a/b") is None

    def test_plain_text_is_not_spoken_there(self, encrypted: LocalZooKeeper) -> None:
        registry = ZooKeeperRegistry(encrypted.address, timeout=2.0)
        with registry, pytest.raises(ConnectionFailedError):
            registry.get("a/b")


def test_its_files_are_private(tmp_path: Path) -> None:
    with LocalZooKeeper(tmp_path / "zk") as server:
        assert os.stat(server.folder / "zookeeper.cfg").st_mode & 0o077 == 0
    assert (tmp_path / "zk" / "zookeeper.log").exists()
