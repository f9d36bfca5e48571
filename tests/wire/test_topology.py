"""Partitions that move and nodes that leave, step by step: what a real cluster does too fast to be looked at."""

from __future__ import annotations

import itertools
import uuid
from contextlib import ExitStack, contextmanager

import pytest

from ignite_strategy import _core
from ignite_strategy.errors import ConnectionFailedError, DataLossError
from tests import binary
from tests.wire.scripted import Cluster, Cursors, Failure, ScriptedServer

KEY = [(["key"], 3, -1, 0)]
_names = itertools.count()


def rows(first: int, last: int) -> list[bytes]:
    return [binary.i32(key) + binary.i32(key) for key in range(first, last)]


class Nodes:
    """Scripted nodes that share one description of their cluster."""

    def __init__(self, servers, cursors, cluster, cache):
        self.servers, self.cursors, self.cluster, self.cache = servers, cursors, cluster, cache

    def scan(self, **options):
        options = {"page_size": 10, "connect_timeout": 2.0, "request_timeout": 5.0, "env": False, **options}
        first = self.servers[0]
        return _core.Scan(_core.scan_config(self.cache, [(first.host, first.port)], KEY, **options))

    def change(self, primary, nodes=None):
        """A new topology, which only a response that announces it tells."""
        major, _ = self.cluster.version
        self.cluster.version = (major + 1, 0)
        self.cluster.primary = primary
        if nodes is not None:
            self.cluster.nodes = nodes


@contextmanager
def nodes(primary, pages, **options):
    """Two nodes; ``pages`` are those of the first and of the second one."""
    cache = f"MOVES{next(_names)}"
    ids = [uuid.uuid4(), uuid.uuid4()]
    cluster = Cluster([], primary, _core.java_hash(cache), **options)
    with ExitStack() as stack:
        cursors = [Cursors(own, think=0, node_id=node_id) for own, node_id in zip(pages, ids)]
        servers = [stack.enter_context(ScriptedServer(each.script)) for each in cursors]
        cluster.nodes = [(node_id, each.host, each.port) for node_id, each in zip(ids, servers)]
        for each in cursors:
            each.handlers = cluster.handlers()
        yield Nodes(servers, cursors, cluster, cache)


def drain(scan) -> list[int]:
    keys: list[int] = []
    while (batch := scan.next()) is not None:
        keys += batch[0].tolist()
    return keys


def partitions_of(cursors) -> list[int]:
    return [partition for _, _, partition in cursors.scans]


class TestPlan:
    def test_each_partition_is_asked_of_its_primary(self):
        with nodes(
            [0, 1, 0, 1], [{0: [rows(0, 5)], 2: [rows(20, 25)]}, {1: [rows(10, 15)], 3: [rows(30, 31)]}]
        ) as two:
            for options in ({}, {"parallel_reads": 2}, {"parallel_reads": 3, "deterministic": False}):
                keys = drain(two.scan(**options))
                assert sorted(keys) == [*range(5), *range(10, 15), *range(20, 25), 30]
            assert sorted(partitions_of(two.cursors[0])) == [0, 0, 0, 2, 2, 2]
            assert sorted(partitions_of(two.cursors[1])) == [1, 1, 1, 3, 3, 3]

    def test_many_small_partitions_are_one_query_per_node(self):
        with nodes([0, 1] * 10, [{-1: [rows(0, 9)]}, {-1: [rows(10, 19)]}]) as two:
            assert drain(two.scan()) == [*range(9), *range(10, 19)]
            assert partitions_of(two.cursors[0]) == partitions_of(two.cursors[1]) == [-1]

    def test_large_ones_have_a_query_each(self):
        pages = {part: [rows(part, part + 1)] for part in range(20)}
        with nodes([0, 1] * 10, [pages, pages], rows=10**7) as two:
            assert sorted(drain(two.scan())) == list(range(20))
            assert partitions_of(two.cursors[0]) == list(range(0, 20, 2))

    def test_a_node_out_of_reach_is_read_through_another(self):
        pages = {part: [rows(part, part + 1)] for part in range(4)}
        with nodes([0, 1, 0, 1], [pages, {}]) as two:
            node_id, host, _ = two.cluster.nodes[1]
            two.cluster.nodes[1] = (node_id, host, 1)
            assert sorted(drain(two.scan())) == [0, 1, 2, 3]
            assert sorted(partitions_of(two.cursors[0])) == [0, 1, 2, 3]


class TestMoves:
    def test_while_a_nodes_query_is_on_they_end_the_pass(self):
        """Only a partition's own query keeps it where it is: rows of the others may have gone."""
        with nodes([0] * 20, [{-1: [rows(0, 10), rows(10, 20), rows(20, 30)]}, {}]) as two:

            def before_page(sent, peer):
                if sent == 2:
                    two.change([0] * 19 + [1])
                    peer.announce = two.cluster.version

            two.cursors[0].before_page = before_page
            scan = two.scan()
            assert len(scan.next()[0]) == 10
            with pytest.raises(ConnectionFailedError, match=r"partitions moved.*rows of this pass"):
                drain(scan)
            with pytest.raises(ConnectionFailedError, match="partitions moved"):
                scan.next()

    def test_before_its_first_row_the_node_is_read_partition_by_partition(self):
        pages = {-1: [rows(0, 10)], **{part: [rows(part, part + 1)] for part in range(20)}}
        with nodes([0] * 20, [pages, pages]) as two:

            def before_page(sent, peer):
                if sent == 0:
                    two.change([0] * 19 + [1])
                    peer.announce = two.cluster.version

            two.cursors[0].before_page = before_page
            assert sorted(drain(two.scan())) == list(range(20))
            assert partitions_of(two.cursors[0]) == [-1, *range(19)]
            assert partitions_of(two.cursors[1]) == [19]

    def test_a_partition_that_moves_while_it_is_read_is_whole(self):
        with nodes([0, 0], [{0: [rows(0, 10), rows(10, 20)], 1: [[]]}, {0: [[]], 1: [rows(20, 25)]}]) as two:

            def before_page(sent, peer):
                if sent == 1:
                    two.change([1, 1])
                    peer.announce = two.cluster.version

            two.cursors[0].before_page = before_page
            assert drain(two.scan()) == list(range(25))  # the second one comes from its new primary

    def test_a_partition_that_is_evicted_before_its_first_row_is_read_where_it_is_now(self):
        pages = ({0: [rows(0, 10)], 1: [rows(10, 20)]}, {1: [rows(10, 20)]})
        with nodes([0, 0], pages) as two:

            def before_page(sent, peer):
                if sent == 1:
                    two.change([0, 1])
                    return Failure(1, "Failed to reserve partition: it was evicted [part=1]")
                return None

            two.cursors[0].before_page = before_page
            assert drain(two.scan()) == list(range(20))
            assert partitions_of(two.cursors[1]) == [1]

    def test_a_partition_that_is_evicted_after_its_first_rows_ends_the_pass(self):
        """The rows that were handed out must not come again from its new primary."""
        with nodes([0, 0], ({0: [rows(0, 10), rows(10, 20)]}, {0: [rows(0, 20)]})) as two:

            def before_page(sent, peer):
                if sent == 1:
                    two.change([1, 0])
                    return Failure(1, "Partition was evicted [part=0]")
                return None

            two.cursors[0].before_page = before_page
            scan = two.scan()
            assert len(scan.next()[0]) == 10
            for _ in range(2):
                with pytest.raises(
                    ConnectionFailedError, match=r"partition 0.*evicted.*10 rows of partition 0"
                ):
                    scan.next()
            assert partitions_of(two.cursors[1]) == []

    def test_a_new_cache_elsewhere_changes_nothing(self):
        with nodes([0], [{0: [rows(0, 10), rows(10, 20)]}, {}]) as two:

            def before_page(sent, peer):
                major, minor = two.cluster.version
                two.cluster.version = (major, minor + 1)
                peer.announce = two.cluster.version

            two.cursors[0].before_page = before_page
            assert drain(two.scan()) == list(range(20))


class TestLosses:
    PAGES = ({0: [rows(0, 10), rows(10, 20)], 1: [[]]}, {1: [rows(20, 30)]})

    def leave(self, two):
        two.change([0, 0], two.cluster.nodes[:1])

    def test_between_passes(self):
        with nodes([0, 1], self.PAGES) as two:
            assert drain(two.scan()) == list(range(30))
            gone = two.cluster.nodes[1][0]
            self.leave(two)
            pattern = (
                rf"'{two.cache}' has lost data: partitions 1 were on node {gone}.*backups 0.*accept_data_loss"
            )
            for _ in range(2):
                with pytest.raises(DataLossError, match=pattern):
                    drain(two.scan())
            assert drain(two.scan(partitions=[0])) == list(range(20))
            _core.forget_owners(two.cache)
            assert drain(two.scan()) == list(range(20))
            assert drain(two.scan()) == list(range(20))

    def test_during_a_pass(self):
        with nodes([0, 1], self.PAGES) as two:

            def before_page(sent, peer):
                if sent == 1:
                    self.leave(two)
                    peer.announce = two.cluster.version

            two.cursors[0].before_page = before_page
            scan = two.scan()
            assert len(scan.next()[0]) == 10
            for _ in range(2):
                with pytest.raises(DataLossError, match="partitions 1 were on node"):
                    drain(scan)

    def test_after_the_last_row_but_before_the_end(self):
        with nodes([0, 1], self.PAGES) as two:
            two.cursors[1].before_page = lambda sent, peer: self.leave(two)  # no response tells
            with pytest.raises(DataLossError, match="partitions 1"):
                drain(two.scan())

    def test_what_a_dataset_remembers(self):
        """From when it was made, in the client perhaps: this process looks for the first time."""
        with nodes([0, 1], self.PAGES) as two:
            first = two.servers[0]
            owners = _core.owners(first.host, first.port, two.cache)
            _core.forget_owners(two.cache)
            drain(two.scan(partitions=[0]))  # what is accepted is forgotten with the next look
            self.leave(two)
            with pytest.raises(DataLossError, match="partitions 1"):
                drain(two.scan(owners=owners))

    def test_a_copy_is_left(self):
        with nodes([0, 1], ({0: [rows(0, 10)], 1: [rows(10, 20)]}, {1: [rows(10, 20)]}), backups=1) as two:
            assert drain(two.scan()) == list(range(20))
            self.leave(two)
            assert drain(two.scan()) == list(range(20))

    def test_another_cluster_with_a_cache_of_that_name(self):
        with nodes([0, 1], self.PAGES) as two:
            assert drain(two.scan()) == list(range(30))
            two.cursors[0].node_id = uuid.uuid4()
            two.cluster.nodes = [(two.cursors[0].node_id, *two.cluster.nodes[0][1:])]
            two.change([0, 0])
            _core.clear_pool()
            assert drain(two.scan()) == list(range(20))
