"""What goes through the registry has a fixed form; everything else is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.runtime.environment import task_environment
from ignite_strategy.runtime.records import (
    AgentRecord,
    ClusterRecord,
    JobRecord,
    Request,
    Status,
    TaskRequest,
    TaskStatus,
    parse_task_name,
)
from ignite_strategy.settings import Endpoint
from ignite_strategy.topology.assignment import TaskKey

REQUEST = Request(
    "digits-1",
    1,
    "node-a",
    (TaskRequest(TaskKey("chief", 0), {"DIGITS": (0, 1, 5)}), TaskRequest(TaskKey("ps", 0), {}, 2, 12345)),
    {"TF_CPP_MIN_LOG_LEVEL": "0"},
)
RECORDS = [
    REQUEST,
    AgentRecord("node-a", "h", 1, 2, "m", "i", "0.1.0"),
    JobRecord("digits-1", 1, ("node-a", "node-b"), False, "h", 3),
    ClusterRecord(1, {"worker": ["h:1"], "ps": ["h:2"]}),
    Status(
        1,
        "i",
        2,
        "h",
        {TaskKey("worker", 0): TaskStatus("exited", 1, 2, -9, "e", "l", "2.15.1", ({"rows": 1},))},
    ),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_there_and_back_through_json(record: Any) -> None:
    text = json.dumps(record.to_json())
    assert type(record).from_json(json.loads(text)) == record


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_unknown_missing_and_foreign(record: Any) -> None:
    data = record.to_json()
    with pytest.raises(InvalidArgumentError, match="unknown fields: command"):
        type(record).from_json({**data, "command": "rm"})
    for name in data:
        less = {key: value for key, value in data.items() if key != name}
        with pytest.raises(InvalidArgumentError, match=name):
            type(record).from_json(less)
        with pytest.raises(InvalidArgumentError):
            type(record).from_json({**data, name: 1.5})
        with pytest.raises(InvalidArgumentError):
            type(record).from_json({**data, name: None})
    with pytest.raises(InvalidArgumentError, match="same version"):
        type(record).from_json({**data, "schema": 2})
    for nonsense in (None, [], "x", 1):
        with pytest.raises(InvalidArgumentError):
            type(record).from_json(nonsense)


def _changed(change: Any) -> Any:
    data = copy.deepcopy(REQUEST.to_json())
    change(data)
    return data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["environment"].update(PATH="/evil"), "may not set PATH"),
        (lambda d: d["environment"].update(LD_PRELOAD="/evil.so"), "may not set LD_PRELOAD"),
        (lambda d: d["environment"].update(PYTHONPATH="/evil"), "may not set PYTHONPATH"),
        (
            lambda d: d["environment"].update(IGNITE_STRATEGY_PARTITIONS="@/etc/passwd"),
            "may not set IGNITE_STRA",
        ),
        (lambda d: d["environment"].update(IGFS_HOST="a\nb"), "IGFS_HOST"),
        (lambda d: d["environment"].update(IGFS_HOST="a" * 2000), "IGFS_HOST"),
        (lambda d: d["environment"].update(IGFS_PORT=1), "IGFS_PORT"),
        (lambda d: d["tasks"][0].update(module="os"), "unknown fields: module"),
        (lambda d: d["tasks"][0].update(task="../../x:0"), "is no task"),
        (lambda d: d["tasks"][0].update(task="evaluator:0"), "is no task"),
        (lambda d: d["tasks"][0].update(task="chief:1"), "is no task"),
        (lambda d: d["tasks"][0]["partitions"].update(DIGITS="@/etc/passwd"), "partition"),
        (lambda d: d["tasks"][0]["partitions"].update(DIGITS=[0]), "partition"),
        (lambda d: d["tasks"][0].update(port=22), "port 22"),
        (lambda d: d["tasks"][0].update(port=70000), "port 70000"),
        (lambda d: d["tasks"][0].update(attempt=0), "attempt 0"),
        (lambda d: d["tasks"].append(d["tasks"][0]), "twice"),
        (lambda d: d.update(tasks=[]), "none"),
        (lambda d: d.update(job="../../etc"), "job id"),
        (lambda d: d.update(job=""), "job id"),
        (lambda d: d.update(job="." + "x"), "job id"),
        (lambda d: d.update(node="a/b"), "node id"),
        (lambda d: d.update(attempt=True), "attempt"),
    ],
)
def test_a_request_that_asks_for_more_is_refused(change: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Request.from_json(_changed(change))


def test_the_cluster_is_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="duplicate"):
        ClusterRecord.from_json({"schema": 1, "attempt": 1, "cluster": {"worker": ["a:1", "a:1"]}})


@pytest.mark.parametrize(
    "name", ["worker", "worker:", "worker:-1", "worker:x", "scorer:0", ":0", "worker:0:0"]
)
def test_names_of_tasks(name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        parse_task_name(name)
    assert parse_task_name("worker:12") == TaskKey("worker", 12)


def _environment(request: Request, task: TaskRequest, folder: Path, **inherited: str) -> dict[str, str]:
    return task_environment(request, task, Endpoint("127.0.0.1", 10800), folder, inherited, cores=4)


def test_the_environment_is_a_list_of_our_own(tmp_path: Path) -> None:
    environment = _environment(
        REQUEST, REQUEST.tasks[0], tmp_path, PATH="/bin", HOME="/home/x", SECRET="s", IGNITE_DATASET_PART="3"
    )
    assert environment["HOME"] == "/home/x"
    assert not {"PATH", "SECRET", "IGNITE_DATASET_PART", "TF_CONFIG"} & set(environment)
    assert environment["IGNITE_DATASET_HOST"] == environment["IGFS_HOST"] == "127.0.0.1"
    assert environment["IGNITE_DATASET_PORT"] == environment["IGFS_PORT"] == "10800"
    assert environment["TF_GRPC_REUSE_PORT"] == "true"
    assert environment["TF_NUM_INTRAOP_THREADS"] == "2"
    assert environment["TF_CPP_MIN_LOG_LEVEL"] == "0"
    assert json.loads(environment["IGNITE_STRATEGY_PARTITIONS"]) == {"DIGITS": "0-1,5"}
    assert list(tmp_path.iterdir()) == []


def test_a_parameter_server_has_no_partitions(tmp_path: Path) -> None:
    """Of the job's caches: a dataset that is placed there by mistake is an error, and not the whole cache."""
    value = _environment(REQUEST, REQUEST.tasks[1], tmp_path)["IGNITE_STRATEGY_PARTITIONS"]
    assert json.loads(value) == {"DIGITS": []}


def test_a_long_list_goes_into_a_file(tmp_path: Path) -> None:
    task = TaskRequest(TaskKey("worker", 3), {"A": tuple(range(0, 20_000, 2))})
    value = _environment(Request("j", 1, "n", (task,)), task, tmp_path)["IGNITE_STRATEGY_PARTITIONS"]
    assert value == f"@{tmp_path}/worker-3.partitions.json"
    native = pytest.importorskip("ignite_strategy._core")
    text = Path(value[1:]).read_text()
    assert native.parse_partitions(json.loads(text)["A"], "A") == list(range(0, 20_000, 2))


def test_tasks_speak_to_ignite_as_their_agent_does(tmp_path: Path) -> None:
    """A request cannot set these: credentials do not travel through the registry."""
    given = {"IGNITE_TLS": "1", "IGNITE_CAFILE": "/ca", "IGNITE_USERNAME": "u", "IGNITE_PASSWORD": "p"}
    environment = _environment(REQUEST, REQUEST.tasks[0], tmp_path, **given)
    assert {name: environment[name] for name in given} == given
    for name in given:
        body = {**REQUEST.to_json(), "environment": {name: "x"}}
        with pytest.raises(InvalidArgumentError, match=name):
            Request.from_json(body)
