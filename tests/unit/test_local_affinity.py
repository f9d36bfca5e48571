"""Consistent ids that spread few partitions."""

from __future__ import annotations

import pytest

from ignite_strategy.local.affinity import consistent_ids, owners


@pytest.mark.parametrize("nodes", range(1, 8))
def test_as_many_partitions_as_nodes_are_one_on_each(nodes: int) -> None:
    ids = consistent_ids(nodes)
    assert len(set(ids)) == nodes
    assert owners(ids, nodes) == list(range(nodes))


def test_with_two_nodes_partitions_alternate() -> None:
    assert owners(consistent_ids(2), 12) == [0, 1] * 6


def test_more_nodes_get_ids_too() -> None:
    assert len(set(consistent_ids(20))) == 20
