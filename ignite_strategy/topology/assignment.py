"""Which task reads which partitions, and on which node it runs (pure).

Every partition is read by exactly one *replica* (a chief or a worker), which runs on the node that is the partition's
primary. Rows stay where they are; only gradients travel.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Union

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
      local: How many of them have their primary on ``node``.
    """

    key: TaskKey
    node: str
    partitions: tuple[int, ...] = ()
    local: int = 0


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
        return 1.0 - sum(task.local for task in self.tasks) / self.partitions

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
    counts = _replica_counts(layout, {node: len(parts) for node, parts in owned.items()}, len(known))
    kept = _previous_slots(previous, counts)
    if layout.balance == "even":
        slots = _deal_evenly(owned, counts, kept)
    else:
        slots = [slot for node in owned for slot in _deal(node, owned[node], counts[node], kept[node])]
    # Replicas in the order of their lowest partition: the natural layout makes replica i read partition i.
    slots.sort(key=lambda slot: min(slot.partitions))
    replicas = [_share(at, slot, layout.chief, primaries) for at, slot in enumerate(slots)]
    servers = _place_servers(layout.ps, list(owned))
    return Assignment((*replicas, *servers), len(primaries))


def _primaries_by_node(nodes: Sequence[str], primaries: Sequence[str | None]) -> dict[str, list[int]]:
    if not primaries:
        raise InvalidArgumentError("the cache has no partitions")
    lost = [p for p, node in enumerate(primaries) if node is None]
    if lost:
        raise DataLossError(
            f"no node is primary for partitions {format_ranges(lost)}: their data is not available"
        )
    owned: dict[str, list[int]] = {}
    known = set(nodes)
    for partition, node in enumerate(primaries):
        if node not in known:
            raise InvalidArgumentError(
                f"partition {partition} is on node {node}, which is not among the nodes that run tasks: {list(nodes)}"
            )
        owned.setdefault(str(node), []).append(partition)
    return owned  # in the order of the nodes' lowest partitions


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


def _previous_slots(
    previous: Assignment | None, counts: Mapping[str, int]
) -> dict[str, list[tuple[int, ...]]]:
    kept: dict[str, list[tuple[int, ...]]] = {node: [] for node in counts}
    for task in previous.replicas if previous else ():
        if task.node in kept and len(kept[task.node]) < counts[task.node]:
            kept[task.node].append(task.partitions)
    return kept


def _deal(node: str, partitions: Sequence[int], count: int, kept: Sequence[tuple[int, ...]]) -> list[_Slot]:
    """Deals a node's partitions to its replicas, counts differing by at most 1, keeping what was."""
    low, extra = divmod(len(partitions), count)
    slots = [_Slot(node) for _ in range(count)]
    mine = set(partitions)
    for slot, before in zip(slots, kept):
        slot.partitions = [p for p in before if p in mine]
    # `extra` of the slots may have one more than `low`: those that have the most already.
    fullest = sorted(range(count), key=lambda at: (-len(slots[at].partitions), at))[:extra]
    _fill(slots, [low + (at in fullest) for at in range(count)], partitions)
    return slots


def _fill(slots: Sequence[_Slot], room: Sequence[int], partitions: Iterable[int]) -> None:
    """Cuts each slot to its room and gives what is left, in order, to those with room."""
    for slot, limit in zip(slots, room):
        del slot.partitions[limit:]
    taken = {p for slot in slots for p in slot.partitions}
    left = iter(p for p in partitions if p not in taken)
    for slot, limit in zip(slots, room):
        while len(slot.partitions) < limit:
            slot.partitions.append(next(left))


def _deal_evenly(
    owned: Mapping[str, list[int]], counts: Mapping[str, int], kept: Mapping[str, list[tuple[int, ...]]]
) -> list[_Slot]:
    """Counts that differ by at most 1 over all replicas; partitions are local as far as that allows."""
    total = sum(len(parts) for parts in owned.values())
    replicas = sum(counts.values())
    low, extra = divmod(total, replicas)
    slots = [slot for node in owned for slot in [_Slot(node) for _ in range(counts[node])]]
    before = {node: iter(kept[node]) for node in owned}
    surplus = {node: max(0, len(owned[node]) - low * counts[node]) for node in owned}
    room = [low] * replicas
    # The larger shares go where there are partitions left over, so that fewer travel.
    for at in sorted(range(replicas), key=lambda i: -surplus[slots[i].node]):
        if extra == 0:
            break
        if surplus[slots[at].node] > 0:
            surplus[slots[at].node] -= 1
            room[at] += 1
            extra -= 1
    for at in range(replicas):
        if extra == 0:
            break
        if room[at] == low:
            room[at] += 1
            extra -= 1
    for slot in slots:
        slot.partitions = list(next(before[slot.node], ()))
    for node, parts in owned.items():
        local = [at for at, slot in enumerate(slots) if slot.node == node]
        _fill_local([slots[at] for at in local], [room[at] for at in local], parts, set(parts))
    _fill(slots, room, range(total))
    return slots


def _fill_local(slots: Sequence[_Slot], room: Sequence[int], parts: Sequence[int], mine: set[int]) -> None:
    """Local partitions first; what was read from elsewhere stays only while there is room."""
    for slot, limit in zip(slots, room):
        slot.partitions = [p for p in slot.partitions if p in mine][:limit]
    taken = {p for slot in slots for p in slot.partitions}
    left = [p for p in parts if p not in taken]
    for slot, limit in zip(slots, room):
        free = limit - len(slot.partitions)
        slot.partitions += left[:free]
        del left[:free]


def _share(at: int, slot: _Slot, chief: bool, primaries: Sequence[str | None]) -> TaskShare:
    key = TaskKey("chief", 0) if chief and at == 0 else TaskKey("worker", at - int(chief))
    local = sum(primaries[p] == slot.node for p in slot.partitions)
    return TaskShare(key, slot.node, tuple(sorted(slot.partitions)), local)


def _place_servers(count: int, nodes: Sequence[str]) -> list[TaskShare]:
    """Parameter servers go round the nodes that have replicas, from the last one on: the chief's node is busiest."""
    return [TaskShare(TaskKey("ps", at), nodes[-1 - at % len(nodes)]) for at in range(count)]
