"""What every registry backend does. A backend's test class supplies ``open``; time is real unless it says otherwise."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ignite_strategy.errors import AlreadyExistsError, InvalidArgumentError
from ignite_strategy.runtime.registry import Registry

Open = Callable[[], Registry]


class RegistryContract:
    ttl = 0.9

    @pytest.fixture
    def open(self) -> Open:
        """Opens another observer of the same store."""
        raise NotImplementedError

    @pytest.fixture
    def registry(self, open: Open) -> Registry:
        return open()

    @pytest.fixture
    def folder(self) -> str:
        return f"test-{uuid.uuid4().hex}"

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def watch(
        self, registry: Registry, folder: str, seconds: float, renew: Callable[[], Any] = lambda: None
    ) -> None:
        for _ in range(6):
            registry.leases(folder)
            renew()
            self.wait(seconds / 6)

    def test_put_get_delete(self, registry: Registry, folder: str) -> None:
        key, value = f"{folder}/a", {"text": 'ä\u0000\n"', "n": 2**53, "list": [1, None, {"x": 0.5}]}
        assert registry.get(key) is None
        registry.put(key, value)
        assert registry.get(key) == value
        registry.put(key, {"other": True})
        assert registry.get(key) == {"other": True}
        assert registry.delete(key) is True
        assert registry.delete(key) is False
        assert registry.get(key) is None

    def test_get_many_leaves_out_what_is_not_there(self, registry: Registry, folder: str) -> None:
        registry.put(f"{folder}/a", {"n": 1})
        registry.put(f"{folder}/b", {"n": 2})
        assert registry.get_many([f"{folder}/{x}" for x in "abc"]) == {
            f"{folder}/a": {"n": 1},
            f"{folder}/b": {"n": 2},
        }
        assert registry.get_many([]) == {}

    def test_children_shows_one_folder(self, registry: Registry, open: Open, folder: str) -> None:
        assert registry.children(folder) == {}
        registry.put(f"{folder}/x/1", {"n": 1})
        registry.put(f"{folder}/x/2", {"n": 2})
        registry.put(f"{folder}/xy/3", {"n": 3})
        assert open().children(f"{folder}/x") == {f"{folder}/x/1": {"n": 1}, f"{folder}/x/2": {"n": 2}}
        registry.delete(f"{folder}/x/1")
        registry.delete(f"{folder}/x/2")
        assert open().children(f"{folder}/x") == {}

    def test_compare_and_set(self, registry: Registry, open: Open, folder: str) -> None:
        key, other = f"{folder}/a", open()
        assert not registry.compare_and_set(key, {"n": 0}, {"n": 1})
        assert registry.compare_and_set(key, None, {"n": 1, "m": 2})
        assert not other.compare_and_set(key, None, {"n": 3})
        assert other.compare_and_set(key, {"m": 2, "n": 1}, {"n": 2})
        assert not registry.compare_and_set(key, {"n": 1, "m": 2}, {"n": 3})
        assert not registry.compare_and_set(key, {"n": 1}, None)
        assert registry.children(folder) == {key: {"n": 2}}
        assert registry.compare_and_set(key, {"n": 2}, None)
        assert registry.children(folder) == {}

    def test_compare_and_set_counts_right_under_contention(self, open: Open, folder: str) -> None:
        registries, key = [open() for _ in range(4)], f"{folder}/n"
        registries[0].put(key, {"n": 0})

        def add(registry: Registry) -> None:
            for _ in range(10):
                while True:
                    before = registry.get(key)
                    assert before is not None
                    if registry.compare_and_set(key, before, {"n": before["n"] + 1}):
                        break

        _run_together([lambda r=r: add(r) for r in registries])
        assert registries[0].get(key) == {"n": 40}

    def test_no_name_is_lost_when_many_write_and_remove(self, open: Open, folder: str) -> None:
        registries = [open() for _ in range(4)]

        def work(at: int) -> None:
            for n in range(8):
                registries[at].put(f"{folder}/{at}-{n}", {"n": n})
                registries[at].put(f"{folder}/shared", {"by": at})
                registries[at].delete(f"{folder}/shared")
                if n % 2:
                    registries[at].delete(f"{folder}/{at}-{n}")

        _run_together([lambda at=at: work(at) for at in range(4)])
        assert set(registries[0].children(folder)) == {
            f"{folder}/{at}-{n}" for at in range(4) for n in range(0, 8, 2)
        }

    def test_a_renewed_lease_stays(self, registry: Registry, open: Open, folder: str) -> None:
        observer = open()
        lease = registry.acquire(f"{folder}/a", {"who": "me"}, self.ttl)
        (view,) = observer.leases(folder).values()
        assert (view.alive, view.proven, view.value) == (True, False, {"who": "me"})
        self.watch(observer, folder, 2 * self.ttl, renew=lambda: self._must(lease.renew({"who": "me too"})))
        (view,) = observer.leases(folder).values()
        assert (view.alive, view.proven, view.value) == (True, True, {"who": "me too"})
        assert observer.expire(folder) == []
        assert observer.get(f"{folder}/a") == {"who": "me too"}

    def test_a_lease_that_nobody_renews_ends(self, registry: Registry, open: Open, folder: str) -> None:
        observer = open()
        lease = registry.acquire(f"{folder}/a", {}, self.ttl)
        registry.put(f"{folder}/entry", {"no": "lease"})
        self.watch(observer, folder, 1.5 * self.ttl)
        (view,) = observer.leases(folder).values()
        assert not view.alive
        assert observer.expire(folder) == [f"{folder}/a"]
        assert observer.children(folder) == {f"{folder}/entry": {"no": "lease"}}
        assert lease.renew() is False
        lease.release()

    def test_release_ends_at_once(self, registry: Registry, open: Open, folder: str) -> None:
        lease = registry.acquire(f"{folder}/a", {}, 60)
        lease.release()
        lease.release()
        assert open().leases(folder) == {}
        assert lease.renew() is False

    def test_a_held_lease_is_not_given_away(self, registry: Registry, open: Open, folder: str) -> None:
        observer = open()
        registry.acquire(f"{folder}/a", {"who": "first"}, self.ttl)
        with pytest.raises(AlreadyExistsError, match="first"):
            observer.acquire(f"{folder}/a", {"who": "second"}, self.ttl)
        self.watch(observer, folder, 1.5 * self.ttl)
        second = observer.acquire(f"{folder}/a", {"who": "second"}, self.ttl)
        assert second.renew()
        assert registry.get(f"{folder}/a") == {"who": "second"}

    def test_one_long_absence_of_the_observer_ends_no_lease(
        self, registry: Registry, open: Open, folder: str
    ) -> None:
        """The observer slept, or the store was away: that says nothing about the holder."""
        observer = open()
        registry.acquire(f"{folder}/a", {}, self.ttl)
        observer.leases(folder)
        self.wait(1.5 * self.ttl)
        assert observer.leases(folder)[f"{folder}/a"].alive

    @pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "index:a"])
    def test_strange_keys_are_refused(self, registry: Registry, key: str) -> None:
        with pytest.raises(InvalidArgumentError, match="key"):
            registry.put(key, {})

    def test_close_twice(self, open: Open) -> None:
        registry = open()
        registry.get("a/b")
        started = time.monotonic()
        registry.close()
        registry.close()
        assert time.monotonic() - started < 1

    @staticmethod
    def _must(done: bool) -> None:
        assert done


def _run_together(works: list[Callable[[], None]]) -> None:
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures
