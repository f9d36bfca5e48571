"""Nodes that die while and between passes: what a pass promises holds, or it says that not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing

import pytest

from ignite_strategy import _core, accept_data_loss, library
from ignite_strategy.errors import DataLossError
from ignite_strategy.local import LocalCluster
from ignite_strategy.settings import parse_endpoint
from ignite_strategy.topology.caches import connect, create_cache, drop_cache

tf = pytest.importorskip("tensorflow")
from ignite_strategy.dataset import IgniteDataset  # noqa: E402

pytestmark = pytest.mark.integration

ROWS = 2000
DEFAULTS = "DEFAULTS"  # as Ignite makes a cache: 1024 partitions, backups 0, loss policy IGNORE
SAFE, COPIES = "SAFE", "COPIES"
MANY = "MANY"  # so many partitions that one query reads all that a node is primary for
CACHES = (DEFAULTS, SAFE, COPIES, MANY)
CACHES_ON_DISK = {"KEPT": {"partitions": 12}, "KEPT_TWICE": {"partitions": 12, "backups": 1}}


@pytest.fixture(scope="module")
def three():
    """Three nodes of our own: the tests below kill two of them, one after the other."""
    with LocalCluster(nodes=3, heap_mb=384, data_mb=512) as cluster:
        with closing(connect(cluster.addresses)) as client:
            client.get_or_create_cache(DEFAULTS)
            create_cache(client, SAFE, partitions=12)
            create_cache(client, COPIES, partitions=12, backups=1)
            create_cache(client, MANY, backups=1)
            for name in CACHES:
                client.get_cache(name).put_all({n: n for n in range(ROWS)})
        yield cluster


@pytest.fixture(scope="module")
def datasets(three):
    """Made before any node dies, as in a training that has begun."""
    host, port = parse_endpoint(three.addresses[0])
    return {name: IgniteDataset(name, host, port, batch_size=20, page_size=20) for name in CACHES}


def keys(dataset) -> list[int]:
    return [key for batch in dataset for key in batch["key"].numpy().tolist()]


def source(cache: str) -> str:
    """The address that the pass at hand reads from."""
    return [entry for entry in library.reader_report() if entry["cache"] == cache][-1]["endpoint"]


def drain(iterator, got: list[int]) -> Exception | None:
    try:
        for batch in iterator:
            got += batch["key"].numpy().tolist()
    except tf.errors.OpError as error:
        return error
    return None


class TestKilledNode:
    """In the order in which they stand here: each leaves the cluster as the next one needs it."""

    def test_before_a_node_dies_every_row_comes_from_its_own_node(self, three, datasets):
        for name, dataset in datasets.items():
            assert sorted(keys(dataset)) == list(range(ROWS)), name
        endpoints = {
            entry["endpoint"]
            for entry in library.reader_report()
            if entry["cache"] in CACHES and entry["rows"]
        }
        assert endpoints == {node.address for node in three.nodes}

    def test_during_passes(self, three, datasets):
        running, got = {}, {}
        for name in CACHES:
            running[name] = iter(datasets[name])
            got[name] = next(running[name])["key"].numpy().tolist()
        busy = {source(name) for name in CACHES}
        victim = next(node for node in reversed(three.nodes) if node.address not in busy)
        three.victim, three.owners = victim, three.partition_owners(SAFE)
        victim.kill()
        for name in (DEFAULTS, SAFE):
            error = drain(running[name], got[name])
            assert isinstance(error, tf.errors.DataLossError), f"{name}: {error}"
            assert f"'{name}'" in error.message
            assert str(victim.node_id) in error.message
            for _ in range(2):  # and every later next says it again
                assert isinstance(drain(running[name], got[name]), tf.errors.DataLossError)
            assert len(got[name]) == len(set(got[name]))
        # Nothing of the victim's partitions had been handed out: they are read from their new primaries, and not
        # once more with all that the other node has, which by now is some of them.
        for name in (COPIES, MANY):
            assert drain(running[name], got[name]) is None
            assert sorted(got[name]) == list(range(ROWS)), name

    def test_the_next_passes_say_so_too_whatever_the_loss_policy(self, three, datasets):
        host, port = parse_endpoint(next(node.address for node in three.nodes if node.running))
        for name in (DEFAULTS, SAFE):
            new = IgniteDataset(name, host, port, batch_size=50, element_spec=_rows(), parallel_reads=2)
            for dataset in (datasets[name], datasets[name], new):
                with pytest.raises(tf.errors.DataLossError, match=rf"'{name}'.*partitions \d.*backups 0"):
                    keys(dataset)
        assert sorted(keys(datasets[COPIES])) == list(range(ROWS))

    def test_a_process_that_never_knew_the_node(self, three, datasets):
        """Where the loss policy keeps it, the server tells what is lost; with Ignite's defaults nobody knows."""
        alive = next(node.address for node in three.nodes if node.running)
        said = in_a_new_process(alive, SAFE)
        lost = [part for part, owner in enumerate(three.owners) if owner is three.victim]
        assert said.startswith("DataLossError"), said
        assert f"cache '{SAFE}' has lost partitions {_core.format_partitions(lost)};" in said
        assert f"not in the cluster any more: node {three.victim.node_id}" in said

    def test_between_passes_of_another_process(self, three, datasets):
        """What the dataset knew when it was made travels with it: here the memory of this process is cleared."""
        library.forget_owners(DEFAULTS)
        left = keys(datasets[DEFAULTS])  # accepted: this pass takes what is there as whole
        assert 0 < len(left) < ROWS
        assert sorted(keys(datasets[DEFAULTS])) == sorted(left)

    def test_partitions_of_other_nodes_are_still_read(self, three, datasets):
        host, port = parse_endpoint(next(node.address for node in three.nodes if node.running))
        whole = []
        failed = 0
        for partition in range(12):
            try:
                whole += keys(
                    IgniteDataset(SAFE, host, port, part=partition, batch_size=50, element_spec=_rows())
                )
            except tf.errors.DataLossError as error:
                assert f"partitions {partition}" in error.message  # noqa: PT017
                failed += 1
        assert failed > 0
        assert len(whole) == len(set(whole)) > 0

    def test_accepted_loss_and_a_cache_made_anew(self, three, datasets):
        host, port = parse_endpoint(next(node.address for node in three.nodes if node.running))
        with closing(connect([node.address for node in three.nodes if node.running])) as client:
            client.get_cache(DEFAULTS).put_all({n: n for n in range(ROWS)})
            accept_data_loss(DEFAULTS)
            assert sorted(keys(datasets[DEFAULTS])) == list(range(ROWS))
            drop_cache(client, SAFE)
            create_cache(client, SAFE, partitions=12)
            client.get_cache(SAFE).put_all({n: n for n in range(ROWS)})
        assert sorted(keys(IgniteDataset(SAFE, host, port, batch_size=50))) == list(range(ROWS))

    def test_rows_of_the_killed_node_were_handed_out(self, three, datasets):
        """They must not come again: with copies or without, the pass ends with an error and says why."""
        # Copies that the first death took are made again before the second.
        alive = [node for node in three.nodes if node.running]
        _await_copies(alive, COPIES)
        running = iter(IgniteDataset(COPIES, *parse_endpoint(alive[0].address), batch_size=20, page_size=20))
        got = next(running)["key"].numpy().tolist()
        address = source(COPIES)
        next(node for node in alive if node.address == address).kill()
        error = drain(running, got)
        assert isinstance(error, tf.errors.AbortedError), str(error)
        assert "rows of partition" in error.message
        assert "begin the pass again" in error.message
        assert isinstance(drain(running, got), tf.errors.AbortedError)
        assert len(got) == len(set(got)) < ROWS
        # The next pass is whole.
        last = next(node for node in three.nodes if node.running)
        host, port = parse_endpoint(last.address)
        assert sorted(keys(IgniteDataset(COPIES, host, port, batch_size=50))) == list(range(ROWS))

    def test_no_node_left(self, three, datasets):
        """The dataset names one node, which may be gone; it remembers the others from when it was made."""
        running = iter(datasets[COPIES])
        next(running)
        next(node for node in three.nodes if node.running).kill()
        start = time.monotonic()
        error = drain(running, [])
        assert isinstance(error, tf.errors.AbortedError), str(error)
        assert time.monotonic() - start < 15
        with pytest.raises(tf.errors.OpError, match="'COPIES'"):
            keys(datasets[COPIES])


def in_a_new_process(address: str, cache: str, **variables: str) -> str:
    """What a process says that reads the cache and has never seen the cluster before."""
    program = (
        "import sys; from ignite_strategy import read; from ignite_strategy.errors import IgniteStrategyError\n"
        "try: print('rows:', len(read(sys.argv[1], addresses=sys.argv[2])['key']))\n"
        "except IgniteStrategyError as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, cache, address],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def kept():
    """Two nodes that keep their data on disk; the test below kills one."""
    with LocalCluster(nodes=2, authentication=True, heap_mb=384, data_mb=512) as cluster:
        with closing(connect(cluster.addresses, security=cluster.security)) as client:
            for name, options in CACHES_ON_DISK.items():
                create_cache(client, name, **options)
                client.get_cache(name).put_all({n: n for n in range(ROWS)})
        cluster.owners = cluster.partition_owners("KEPT")
        yield cluster


class TestDataOnDisk:
    """A node is killed whose rows are on its disk, with no other copy."""

    USER = {"username": "ignite", "password": "ignite"}  # noqa: RUF012
    VARIABLES = {"IGNITE_USERNAME": "ignite", "IGNITE_PASSWORD": "ignite"}  # noqa: RUF012

    def test_reading_says_which_node_keeps_the_rows(self, kept):
        host, port = parse_endpoint(kept.addresses[0])
        before = IgniteDataset("KEPT", host, port, batch_size=50, **self.USER)
        assert sorted(keys(before)) == list(range(ROWS))
        victim = kept.nodes[1]
        victim.kill()
        lost = [part for part, owner in enumerate(kept.owners) if owner is victim]
        named = f"cache 'KEPT' has no node with partitions {_core.format_partitions(lost)}: they are on the disk of "
        for _ in range(2):
            with pytest.raises(tf.errors.DataLossError) as raised:
                keys(before)
            assert named + f"node {victim.node_id} ({victim.address})" in raised.value.message
        # Made now by a process that knew the node, and by one that did not: its name is in the baseline.
        with pytest.raises(DataLossError) as refused:
            IgniteDataset("KEPT", host, port, **self.USER)
        never_knew = in_a_new_process(kept.addresses[0], "KEPT", **self.VARIABLES)
        assert never_knew.startswith("DataLossError"), never_knew
        for said in (str(refused.value), never_knew):
            assert "lostParts [cacheName=KEPT" in said
            assert "has lost partitions " in said
            assert "control.sh --cache reset_lost_partitions KEPT" in said
            assert f"not in the cluster any more: {victim.plan.consistent_id}" in said
        # Without asking what the rows look like a new process goes straight to the pass.
        library.forget_owners("KEPT")
        new = IgniteDataset("KEPT", host, port, batch_size=50, element_spec=_rows(), **self.USER)
        with pytest.raises(
            tf.errors.DataLossError, match=rf"'KEPT'.*partitions.*{victim.plan.consistent_id}"
        ):
            keys(new)
        # What is there is read: other partitions, and a cache with copies.
        mine = [part for part, owner in enumerate(kept.owners) if owner is kept.nodes[0]]
        some = IgniteDataset(
            "KEPT", host, port, partitions=mine, batch_size=50, element_spec=_rows(), **self.USER
        )
        assert 0 < len(keys(some)) < ROWS
        assert in_a_new_process(kept.addresses[0], "KEPT_TWICE", **self.VARIABLES) == f"rows: {ROWS}\n"


def _rows():
    return {"key": tf.TensorSpec([], tf.int64), "val": tf.TensorSpec([], tf.int64)}


def _await_copies(nodes, cache: str) -> None:
    """Waits until every partition has a copy on each of two nodes."""
    from ignite_strategy.topology.caches import sql

    text = (
        "SELECT COUNT(*) FROM SYS.PARTITION_STATES WHERE STATE = 'OWNING' AND CACHE_GROUP_ID = "
        f"(SELECT CACHE_GROUP_ID FROM SYS.CACHES WHERE CACHE_NAME = '{cache}')"
    )
    deadline = time.monotonic() + 30
    with closing(connect([node.address for node in nodes])) as client:
        while sql(client, text).rows[0][0] < 24:
            assert time.monotonic() < deadline, "the copies were not made"
            time.sleep(0.1)
