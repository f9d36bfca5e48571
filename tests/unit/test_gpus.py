"""Which GPUs a host has, and which task gets which. There is none here: what they are told by is written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.runtime.environment import task_environment
from ignite_strategy.runtime.gpus import assign_gpus, find_gpus, parse_gpus, taken_gpus
from ignite_strategy.runtime.records import (
    AGENTS,
    JOBS,
    AgentRecord,
    JobRecord,
    Request,
    TaskRequest,
    request_key,
)
from ignite_strategy.runtime.registry import MemoryRegistry
from ignite_strategy.settings import Endpoint
from ignite_strategy.topology.assignment import Assignment, Layout, TaskKey, assign

CHIEF, WORKER, WORKER1 = TaskKey("chief", 0), TaskKey("worker", 0), TaskKey("worker", 1)
NOWHERE = Path("/nowhere")
_FIRST, _SECOND = "GPU-5c1d7e2a-0000-4f6d-9d3f-0f5a6f1f2b3c", "GPU-9b2e7e2a-0000-4f6d-9d3f-0f5a6f1f2b3c"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0,1", ("0", "1")),
        (" 3 ", ("3",)),
        (_FIRST, (_FIRST,)),
        ("MIG-GPU-5c1d/1/0", ("MIG-GPU-5c1d/1/0",)),
        *((text, ()) for text in ("", "none", "-1", "NONE")),
    ],
)
def test_lists(text: str, found: tuple[str, ...]) -> None:
    assert parse_gpus(text) == found
    assert find_gpus(text, {}, NOWHERE) == find_gpus(None, {"CUDA_VISIBLE_DEVICES": text}, NOWHERE) == found


@pytest.mark.parametrize(
    "text", ["0,0", "a", "0,", "0;1", "1-3", "0,\n1x", "--", ",".join(map(str, range(65)))]
)
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_gpus(text)


def test_what_the_operator_says_comes_first(tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\necho {_FIRST}\necho {_SECOND}\n")
    smi.chmod(0o755)
    path = {"PATH": str(tmp_path)}
    assert find_gpus(None, path, NOWHERE) == (_FIRST, _SECOND)
    assert find_gpus(None, {**path, "CUDA_VISIBLE_DEVICES": "1"}, NOWHERE) == ("1",)
    assert find_gpus("0", {**path, "CUDA_VISIBLE_DEVICES": "1"}, NOWHERE) == ("0",)
    assert find_gpus("none", path, NOWHERE) == ()


def test_the_drivers_own_list(tmp_path: Path) -> None:
    for bus, uuid in (("0000:07:00.0", _FIRST), ("0000:0a:00.0", _SECOND)):
        (tmp_path / bus).mkdir()
        text = f"Model: \t\t NVIDIA A100\nIRQ:   \t\t 42\nGPU UUID: \t {uuid}\nDevice Minor: \t 0\n"
        (tmp_path / bus / "information").write_text(text)
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    smi.chmod(0o755)
    assert find_gpus(None, {"PATH": str(tmp_path)}, tmp_path) == (_FIRST, _SECOND)
    assert find_gpus(None, {"PATH": ""}, NOWHERE) == ()


def _agents(machines: dict[str, str], gpus: dict[str, str]) -> dict[str, AgentRecord]:
    return {
        node: AgentRecord(node, "h", 1, 1, machine, "i", "0", parse_gpus(gpus.get(node, "none")))
        for node, machine in machines.items()
    }


def _assignment(primaries: str, **layout: object) -> Assignment:
    return assign(set(primaries), primaries, Layout("partition", **layout))  # type: ignore[arg-type]


def test_the_replicas_of_a_host_get_equally_many() -> None:
    agents = _agents({"a": "x", "b": "y"}, {"a": "0,1,2,3,4", "b": "0"})
    found = assign_gpus(_assignment("aab", ps=1), agents)
    assert found == {CHIEF: ("0", "2"), WORKER: ("1", "3"), WORKER1: ("0",)}


def test_fewer_gpus_than_tasks() -> None:
    assert assign_gpus(_assignment("aaa"), _agents({"a": "x"}, {"a": "7"})) == {CHIEF: ("7",)}
    assert assign_gpus(_assignment("aaa"), _agents({"a": "x"}, {})) == {}


def test_agents_that_share_a_host_share_its_gpus() -> None:
    both = {"a": "x", "b": "x"}
    assert assign_gpus(_assignment("ab"), _agents(both, {"a": "0,1", "b": "0,1"})) == {
        CHIEF: ("0",),
        WORKER: ("1",),
    }
    # Whoever has a choice leaves the only one to the other.
    assert assign_gpus(_assignment("ab"), _agents(both, {"a": "0,1", "b": "0"})) == {
        CHIEF: ("1",),
        WORKER: ("0",),
    }
    apart = {"a": "x", "b": "y"}
    assert assign_gpus(_assignment("ab"), _agents(apart, {"a": "0", "b": "0"})) == {
        CHIEF: ("0",),
        WORKER: ("0",),
    }


def test_what_another_job_has() -> None:
    registry = MemoryRegistry()
    agents = _agents({"a": "x", "b": "y"}, {"a": "0,1", "b": "0"})
    for node, record in agents.items():
        registry.acquire(f"{AGENTS}/{node}", record.to_json(), 60)
    registry.acquire(f"{JOBS}/other", JobRecord("other", 1, ("a",)).to_json(), 60)
    request = Request("other", 1, "a", (TaskRequest(CHIEF, {"C": (0,)}, gpus=("0",)),))
    registry.put(request_key("other", "a"), request.to_json())
    taken = taken_gpus(registry)
    assert taken == {("x", "0")}
    assert assign_gpus(_assignment("ab"), agents, taken) == {CHIEF: ("1",), WORKER: ("0",)}


def test_a_task_sees_its_own_and_no_other(tmp_path: Path) -> None:
    tasks = (TaskRequest(CHIEF, {"C": (0,)}, gpus=("2", "3")), TaskRequest(WORKER, {"C": (1,)}))
    own = {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}

    def environment(request: Request, at: int) -> dict[str, str]:
        return task_environment(request, request.tasks[at], Endpoint("h", 1), tmp_path, own)

    request = Request("j", 1, "n", tasks)
    assert environment(request, 0)["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert environment(request, 1)["CUDA_VISIBLE_DEVICES"] == "-1"
    assert environment(request, 0)["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    chosen = Request("j", 1, "n", tasks, {"CUDA_VISIBLE_DEVICES": "1"})
    assert environment(chosen, 1)["CUDA_VISIBLE_DEVICES"] == "1", "the client has said so"


@pytest.mark.parametrize("gpus", [["../x"], ["0,1"], [0], ["0"] * 65])
def test_gpus_that_are_none_are_refused(gpus: list[object]) -> None:
    data = Request("j", 1, "n", (TaskRequest(CHIEF),)).to_json()
    data["tasks"][0]["gpus"] = gpus
    with pytest.raises(InvalidArgumentError, match="GPUs that are none"):
        Request.from_json(data)
