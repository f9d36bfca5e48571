"""GPUs: which ones a host has, and which task gets which.

An agent registers those of its host; the client gives each of them to one task at most; the agent tells the task with
``CUDA_VISIBLE_DEVICES``. A task that gets none sees none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.runtime.records import (
    AGENTS,
    GPU_NAME,
    JOBS,
    AgentRecord,
    JobRecord,
    Request,
    request_key,
)
from ignite_strategy.runtime.registry import Registry
from ignite_strategy.topology.assignment import Assignment, TaskKey

__all__ = ["assign_gpus", "find_gpus", "parse_gpus", "taken_gpus"]

_PROC = Path("/proc/driver/nvidia/gpus")
_SMI = ("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")
_SMI_SECONDS = 15.0
_MOST = 64


def parse_gpus(text: str) -> tuple[str, ...]:
    """``0,1`` or ``GPU-…,GPU-…``; ``none`` for none.

    Raises:
      InvalidArgumentError: It is neither, or names one twice.
    """
    if text.strip().lower() in ("", "none", "-1"):
        return ()
    found = tuple(part.strip() for part in text.split(","))
    for each in found:
        if not GPU_NAME.fullmatch(each):
            raise InvalidArgumentError(
                f"{each!r} in {text!r} is no GPU: give numbers as nvidia-smi counts, GPU-... or MIG-..., or 'none'"
            )
    if len(set(found)) != len(found) or len(found) > _MOST:
        raise InvalidArgumentError(f"GPUs {text!r}: each once, at most {_MOST}")
    return found


def find_gpus(
    given: str | None = None, environment: Mapping[str, str] | None = None, proc: Path = _PROC
) -> tuple[str, ...]:
    """The GPUs that tasks of this host may use.

    Args:
      given: What the operator says.
      environment: Where ``CUDA_VISIBLE_DEVICES``, if it is set, says it; by default this process's.
      proc: Where NVIDIA's driver lists its devices.

    Raises:
      InvalidArgumentError: ``given`` or the variable is no list of GPUs.
    """
    own = os.environ if environment is None else environment
    if given is not None:
        return parse_gpus(given)
    if "CUDA_VISIBLE_DEVICES" in own:
        return parse_gpus(own["CUDA_VISIBLE_DEVICES"])
    return _ask_smi(own) or _read_proc(proc)


def _ask_smi(environment: Mapping[str, str]) -> tuple[str, ...]:
    program = shutil.which(_SMI[0], path=environment.get("PATH"))
    if program is None:
        return ()
    try:
        done = subprocess.run(
            [program, *_SMI[1:]], capture_output=True, text=True, timeout=_SMI_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()  # no driver, or one that hangs: a task could do nothing with it
    return _known(done.stdout.splitlines())


def _read_proc(folder: Path) -> tuple[str, ...]:
    found = []
    for file in sorted(folder.glob("*/information")):
        try:
            text = file.read_text(errors="replace")
        except OSError:
            continue
        found += [line.partition(":")[2] for line in text.splitlines() if line.startswith("GPU UUID:")]
    return _known(found)


def _known(lines: Collection[str]) -> tuple[str, ...]:
    ids = (line.strip() for line in lines)
    return tuple(dict.fromkeys(each for each in ids if GPU_NAME.fullmatch(each)))[:_MOST]


def taken_gpus(registry: Registry) -> set[tuple[str, str]]:
    """Pairs of a host's name and a GPU that jobs have. Two jobs that start in the same moment do not see each other."""
    machines = {
        view.key.rpartition("/")[2]: AgentRecord.from_json(view.value).machine
        for view in registry.leases(AGENTS).values()
    }
    taken = set()
    for view in registry.leases(JOBS).values():
        if not view.alive:
            continue
        job = JobRecord.from_json(view.value)
        for value in registry.get_many(request_key(job.job, node) for node in job.nodes).values():
            request = Request.from_json(value)
            machine = machines.get(request.node, "")
            taken |= {(machine, gpu) for task in request.tasks for gpu in task.gpus}
    return taken


def assign_gpus(
    assignment: Assignment,
    agents: Mapping[str, AgentRecord],
    taken: Collection[tuple[str, str]] = (),
) -> dict[TaskKey, tuple[str, ...]]:
    """Gives each GPU to one task at most (pure).

    The replicas of a host get equally many; if there are fewer GPUs than replicas, the first ones get one each. A
    parameter server gets none. Agents on one host may register the same GPUs: they are told apart by the host's name.

    Args:
      assignment: The tasks.
      agents: By id of their node.
      taken: Pairs of a host's name and a GPU that other jobs have.

    Returns:
      The GPUs of those tasks that get one.
    """
    by_machine: dict[str, list[tuple[TaskKey, str]]] = {}
    for share in assignment.replicas:
        by_machine.setdefault(agents[share.node].machine, []).append((share.key, share.node))
    result: dict[TaskKey, list[str]] = {}
    for machine, tasks in by_machine.items():
        used = {gpu for host, gpu in taken if host == machine}
        nodes = dict.fromkeys(node for _, node in tasks)
        sharing = Counter(gpu for node in nodes for gpu in agents[node].gpus)
        while round_ := _deal_once(tasks, agents, used, sharing):
            if len(round_) < len(tasks) and result.keys() & {key for key, _ in tasks}:
                break  # not one for each: they would be unequal
            for key, gpu in round_.items():
                result.setdefault(key, []).append(gpu)
                used.add(gpu)
            if len(round_) < len(tasks):
                break
    return {key: tuple(gpus) for key, gpus in result.items()}


def _deal_once(
    tasks: Collection[tuple[TaskKey, str]],
    agents: Mapping[str, AgentRecord],
    used: Collection[str],
    sharing: Mapping[str, int],
) -> dict[TaskKey, str]:
    """One more for each task, as far as they go: first those that fewer agents may use."""
    dealt: dict[TaskKey, str] = {}
    for key, node in tasks:
        free = [gpu for gpu in agents[node].gpus if gpu not in used and gpu not in dealt.values()]
        if free:
            dealt[key] = min(free, key=lambda gpu: sharing[gpu])
    return dealt
