"""Which task reads which partitions, and on which node it runs (pure).

Every partition is read by exactly one *replica* (a chief or a worker), which runs on the node that is the partition's
primary. Rows stay where they are; only gradients travel.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Union, cast

from ignite_strategy.errors import DataLossError, InvalidArgumentError
from ignite_strategy.topology.ranges import format_ranges

__all__ = ["Assignment", "Layout", "TaskKey", "TaskShare", "assign"]


class TaskKey(NamedTuple):
    """A task's type and index, as TensorFlow counts them."""

    type: str
    index: int  # type: ignore[assignment]  # hides tuple.index(), which nobody needs

    def __str__(self) -> str:
        return f"{self.type} {self.index}"

    @property
    def name(self) -> str:
        """``worker:0``: the form in registry keys and file names."""
        return f"{self.type}:{self.index}"


@dataclass(frozen=True)
class Layout:
    """How many tasks of which kind.

    Attributes:
      replicas: ``"auto"`` (one per partition if there are at most as many partitions as nodes, else one per node that
        has primaries), ``"partition"``, ``"node"``, or the number of replicas.
      chief: The first replica is the chief; else all are workers.
      ps: Number of parameter servers.
      balance: ``"local"`` keeps every partition on its primary's node; ``"even"`` gives up locality for counts that
        differ by at most 1 over all replicas.
    """

    replicas: Union[str, int] = "auto"  # noqa: UP007 (evaluated at run time by dataclass tools on Python 3.9)
    chief: bool = True
    ps: int = 0
    balance: str = "local"

    def __post_init__(self) -> None:
        if isinstance(self.replicas, bool) or not (
            self.replicas in ("auto", "partition", "node") or isinstance(self.replicas, int)
        ):
            raise InvalidArgumentError(
                f"layout={self.replicas!r}: use 'auto', 'partition', 'node' or a number of replicas"
            )
        if isinstance(self.replicas, int) and self.replicas < 1:
            raise InvalidArgumentError(f"layout={self.replicas}: at least one replica is needed")
        if isinstance(self.ps, bool) or not isinstance(self.ps, int) or self.ps < 0:
            raise InvalidArgumentError(f"ps={self.ps!r}: the number of parameter servers is 0 or more")
        if self.balance not in ("local", "even"):
            raise InvalidArgumentError(f"balance={self.balance!r}: use 'local' or 'even'")


@dataclass(frozen=True)
class TaskShare:
    """A task with the node it runs on and the partitions it reads.

    Attributes:
      key: Type and index.
      node: Id of the Ignite node beside which it runs.
      partitions: Sorted; empty for a parameter server.
      remote: Those of them that have their primary elsewhere; none unless ``balance="even"``.
    """

    key: TaskKey
    node: str
    partitions: tuple[int, ...] = ()
    remote: tuple[int, ...] = ()


@dataclass(frozen=True)
class Assignment:
    """All tasks of a job: the chief first, then workers, then parameter servers.

    Attributes:
      tasks: The tasks.
      partitions: Number of partitions of the cache.
    """

    tasks: tuple[TaskShare, ...]
    partitions: int
    _by_key: Mapping[TaskKey, TaskShare] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_key", {task.key: task for task in self.tasks})

    def __getitem__(self, key: TaskKey) -> TaskShare:
        return self._by_key[key]

    @property
    def replicas(self) -> tuple[TaskShare, ...]:
        """The tasks that read: chief and workers, in TensorFlow's pipeline order."""
        return tuple(task for task in self.tasks if task.key.type != "ps")

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that have a task, sorted."""
        return tuple(sorted({task.node for task in self.tasks}))

    @property
    def remote_share(self) -> float:
        """The part of the partitions that are read from another node; 0.0 unless ``balance="even"``."""
        return sum(len(task.remote) for task in self.tasks) / self.partitions

    def on_type(self, task_type: str) -> tuple[TaskShare, ...]:
        """The tasks of one type."""
        return tuple(task for task in self.tasks if task.key.type == task_type)

    def on_node(self, node: str) -> tuple[TaskShare, ...]:
        """The tasks that run beside ``node``."""
        return tuple(task for task in self.tasks if task.node == node)

    def partition_map(self) -> dict[int, TaskKey]:
        """Partition -> the task that reads it."""
        return {p: task.key for task in self.replicas for p in task.partitions}


@dataclass
class _Slot:
    """A replica in the making."""

    node: str
    partitions: list[int] = field(default_factory=list)
    was: int | None = None  # which replica of the previous assignment it goes on from
    remote: frozenset[int] = frozenset()  # what that one read from elsewhere


def assign(
    nodes: Iterable[str],
    primaries: Sequence[str | None],
    layout: Layout | None = None,
    previous: Assignment | None = None,
) -> Assignment:
    """Distributes the partitions over tasks.

    The result depends on nothing but the arguments, and not on the order of ``nodes``.

    Args:
      nodes: Ids of the nodes that can run tasks.
      primaries: Per partition, the id of its primary node.
      layout: How many tasks.
      previous: An earlier assignment: a partition stays with a replica of the same node and rank where the rules
        allow, so that a small change of the topology moves little.

    Raises:
      DataLossError: A partition has no primary.
      InvalidArgumentError: The layout is impossible: more replicas than partitions, fewer than nodes with primaries,
        or a primary that is none of ``nodes``.
    """
    layout = layout or Layout()
    known = sorted(set(nodes))
    owned = _primaries_by_node(known, primaries)
    sizes = {node: len(parts) for node, parts in owned.items()}
    counts = _replica_counts(layout, sizes, len(known))
    if isinstance(layout.replicas, int):
        counts = _settle(counts, sizes, previous)
    kept = _previous_slots(previous, counts)
    if layout.balance == "even":
        slots = _deal_evenly(owned, counts, kept)
    else:
        slots = [slot for node in owned for slot in _deal(node, owned[node], counts[node], kept[node])]
    _put_in_order(slots)
    replicas = [_share(at, slot, layout.chief, primaries) for at, slot in enumerate(slots)]
    servers = _place_servers(layout.ps, list(owned))
    return Assignment((*replicas, *servers), len(primaries))


def _put_in_order(slots: list[_Slot]) -> None:
    """By lowest partition, so that in the natural layout replica i reads partition i; or as they were."""
    if all(slot.was is not None for slot in slots):
        slots.sort(key=lambda slot: cast(int, slot.was))
    else:
        slots.sort(key=lambda slot: min(slot.partitions))


def _primaries_by_node(nodes: Sequence[str], primaries: Sequence[str | None]) -> dict[str, list[int]]:
    if not primaries:
        raise InvalidArgumentError("the cache has no partitions")
    owned: dict[str | None, list[int]] = {}
    for partition, node in enumerate(primaries):
        parts = owned.get(node)
        if parts is None:
            owned[node] = [partition]
        else:
            parts.append(partition)
    if None in owned:
        lost = format_ranges(owned[None])
        raise DataLossError(f"no node is primary for partitions {lost}: their data is not available")
    for node in owned.keys() - set(nodes):
        raise InvalidArgumentError(
            f"partitions {format_ranges(owned[node])} are on node {node}, which is not among the nodes that run tasks: "
            f"{list(nodes)}"
        )
    return cast("dict[str, list[int]]", owned)  # in the order of the nodes' lowest partitions


def _replica_counts(layout: Layout, sizes: Mapping[str, int], nodes: int) -> dict[str, int]:
    """Replicas per node that has primaries: at least one, at most one per partition."""
    partitions = sum(sizes.values())
    wanted = layout.replicas
    if wanted == "auto":
        wanted = "partition" if partitions <= nodes else "node"
    if wanted == "partition":
        return dict(sizes)
    if wanted == "node":
        return dict.fromkeys(sizes, 1)
    count = int(wanted)
    if count > partitions:
        raise InvalidArgumentError(
            f"{count} replicas (chief and workers) cannot each have one of {partitions} partitions: "
            f"ask for at most {partitions}, or create the cache with more partitions"
        )
    if count < len(sizes):
        if layout.balance != "even":
            raise InvalidArgumentError(
                f"{count} replicas cannot cover {len(sizes)} nodes that hold primaries, as each partition is read on "
                f"its primary's node: ask for at least {len(sizes)}, or balance='even'"
            )
        largest = sorted(sizes, key=lambda node: (-sizes[node], list(sizes).index(node)))[:count]
        return {node: int(node in largest) for node in sizes}
    return _apportion(count, sizes)


def _apportion(count: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Splits ``count`` in proportion to ``sizes``, at least 1 and at most ``size`` each (highest averages)."""
    counts = dict.fromkeys(sizes, 1)
    # The next replica goes to the node whose replicas have the most partitions each; ties to the lowest partition.
    heap = [(-size / 1.0, at, node) for at, (node, size) in enumerate(sizes.items()) if size > 1]
    heapq.heapify(heap)
    for _ in range(count - len(sizes)):
        _, at, node = heapq.heappop(heap)
        counts[node] += 1
        if counts[node] < sizes[node]:
            heapq.heappush(heap, (-sizes[node] / counts[node], at, node))
    return counts


def _settle(counts: dict[str, int], sizes: Mapping[str, int], previous: Assignment | None) -> dict[str, int]:
    """Keeps the replicas per node of an earlier assignment unless others make the fullest one clearly smaller.

    A replica that changes its node takes all its partitions to others: not worth it for a few of them.
    """
    if previous is None:
        return counts
    before = Counter(task.node for task in previous.replicas)
    if before.keys() != counts.keys() or sum(before.values()) != sum(counts.values()):
        return counts
    if any(before[node] > size for node, size in sizes.items()):
        return counts
    fullest = max(size / before[node] for node, size in sizes.items())
    better = max(size / counts[node] for node, size in sizes.items())
    return {node: before[node] for node in counts} if fullest <= 1.1 * better else counts


def _previous_slots(previous: Assignment | None, counts: Mapping[str, int]) -> dict[str, list[_Slot]]:
    kept: dict[str, list[_Slot]] = {node: [] for node in counts}
    for at, task in enumerate(previous.replicas if previous else ()):
        if task.node in kept and len(kept[task.node]) < counts[task.node]:
            kept[task.node].append(_Slot(task.node, list(task.partitions), at, frozenset(task.remote)))
    return kept


def _deal(node: str, partitions: Sequence[int], count: int, kept: Sequence[_Slot]) -> list[_Slot]:
    """Deals a node's partitions to its replicas, counts differing by at most 1, keeping what was."""
    low, extra = divmod(len(partitions), count)
    slots = _resumed(node, count, kept)
    mine = set(partitions)
    for slot in slots:
        slot.partitions = [p for p in slot.partitions if p in mine]
    # `extra` of the slots may have one more than `low`: those that have the most already.
    fullest = sorted(range(count), key=lambda at: (-len(slots[at].partitions), at))[:extra]
    _fill(slots, [low + (at in fullest) for at in range(count)], partitions)
    return slots


def _fill(slots: Sequence[_Slot], room: Sequence[int], partitions: Iterable[int]) -> None:
    """Cuts each slot to its room and gives what is left, in order, to those with room."""
    for slot, limit in zip(slots, room):
        del slot.partitions[limit:]
    taken = {p for slot in slots for p in slot.partitions}
    left = [p for p in partitions if p not in taken] if taken else list(partitions)
    at = 0
    for slot, limit in zip(slots, room):
        more = limit - len(slot.partitions)
        slot.partitions += left[at : at + more]
        at += more


def _deal_evenly(
    owned: Mapping[str, list[int]], counts: Mapping[str, int], kept: Mapping[str, list[_Slot]]
) -> list[_Slot]:
    """Counts that differ by at most 1 over all replicas; partitions are local as far as that allows."""
    by_node = {node: _resumed(node, counts[node], kept[node]) for node in owned}
    slots = [slot for here in by_node.values() for slot in here]
    room = _even_room(slots, owned, counts)
    # What moved to another primary moves to its reader too; what was read from elsewhere before stays: a moving
    # partition costs more than it gains where the counts are even anyway.
    for node, here in by_node.items():
        mine = set(owned[node])
        for slot in here:
            local = [p for p in slot.partitions if p in mine]
            remote = [p for p in slot.partitions if p in slot.remote and p not in mine]
            slot.partitions = (local + remote)[: room[id(slot)]]
    taken = {p for slot in slots for p in slot.partitions}
    for node, here in by_node.items():
        left = [p for p in owned[node] if p not in taken]
        for slot in here:
            free = room[id(slot)] - len(slot.partitions)
            slot.partitions += left[:free]
            del left[:free]
    _fill(slots, [room[id(slot)] for slot in slots], range(sum(map(len, owned.values()))))
    return slots


def _resumed(node: str, count: int, kept: Sequence[_Slot]) -> list[_Slot]:
    return [*kept, *(_Slot(node) for _ in range(count - len(kept)))]


def _even_room(
    slots: Sequence[_Slot], owned: Mapping[str, list[int]], counts: Mapping[str, int]
) -> dict[int, int]:
    """How many partitions each replica (by ``id``) gets: the larger shares where partitions would be left over."""
    low, extra = divmod(sum(map(len, owned.values())), len(slots))
    surplus = {node: len(owned[node]) - low * counts[node] for node in owned}
    room = dict.fromkeys(map(id, slots), low)
    order = sorted(slots, key=lambda slot: (-surplus[slot.node], -len(slot.partitions)))
    for only_surplus in (True, False):
        for slot in order:
            if extra and room[id(slot)] == low and (surplus[slot.node] > 0 or not only_surplus):
                surplus[slot.node] -= 1
                room[id(slot)] += 1
                extra -= 1
    return room


def _share(at: int, slot: _Slot, chief: bool, primaries: Sequence[str | None]) -> TaskShare:
    key = TaskKey("chief", 0) if chief and at == 0 else TaskKey("worker", at - int(chief))
    remote = tuple(sorted(p for p in slot.partitions if primaries[p] != slot.node))
    return TaskShare(key, slot.node, tuple(sorted(slot.partitions)), remote)


def _place_servers(count: int, nodes: Sequence[str]) -> list[TaskShare]:
    """Parameter servers go round the nodes that have replicas, from the last one on: the chief's node is busiest."""
    return [TaskShare(TaskKey("ps", at), nodes[-1 - at % len(nodes)]) for at in range(count)]
