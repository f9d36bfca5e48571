"""Rows that change while a pass reads them: what a pass promises holds."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager

import pytest

from ignite_strategy.settings import parse_endpoint
from ignite_strategy.topology.caches import connect, create_cache

tf = pytest.importorskip("tensorflow")
from ignite_strategy.dataset import IgniteDataset  # noqa: E402

pytestmark = pytest.mark.integration


def keys(dataset) -> list[int]:
    return [key for batch in dataset for key in batch["key"].numpy().tolist()]


class TestChangingRows:
    STAY, COME_AND_GO = 1000, 3000

    @contextmanager
    def changes(self, cluster, name):
        """Puts and removes other keys, and overwrites those that stay, until the block ends."""
        stop, rounds = threading.Event(), [0]

        def change():
            with closing(connect(cluster.addresses)) as client:
                cache = client.get_cache(name)
                guests = list(range(self.STAY, self.COME_AND_GO))
                while not stop.is_set():
                    cache.put_all(dict.fromkeys(guests, rounds[0]))
                    cache.put_all(dict.fromkeys(range(0, self.STAY, 3), rounds[0]))
                    cache.remove_keys(guests)
                    rounds[0] += 1

        thread = threading.Thread(target=change, daemon=True)
        thread.start()
        try:
            yield rounds
        finally:
            stop.set()
            thread.join(30)

    @pytest.mark.parametrize("partitions", [4, None])
    def test_keys_that_stay_are_seen_once_and_none_twice(self, cluster, fresh_name, partitions):
        host, port = parse_endpoint(cluster.addresses[0])
        with closing(connect(cluster.addresses)) as client:
            create_cache(client, fresh_name, partitions=partitions)
            client.get_cache(fresh_name).put_all(dict.fromkeys(range(self.STAY), -1))
        passes = [
            IgniteDataset(fresh_name, host, port, batch_size=100, page_size=7, **options)
            for options in ({}, {"parallel_reads": 3, "deterministic": False})
        ]
        with self.changes(cluster, fresh_name) as rounds:
            before = rounds[0]
            count = 0
            while count < 6 or rounds[0] < before + 2:
                got = keys(passes[count % 2])
                assert len(got) == len(set(got))
                assert set(range(self.STAY)) <= set(got)
                count += 1
        assert count >= 6
