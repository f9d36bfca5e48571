"""TF_CONFIG: mistakes are named before anything starts, and the evaluator is never a member."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.topology.tf_config import ClusterLayout, foreign_tf_config

CLUSTER = {"chief": ["c:1"], "worker": ["w:1", "w:2"], "ps": ["p:1"], "evaluator": ["e:1"]}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"worker_hosts": ["a:1"]}, "worker_hosts.*did you mean 'worker'"),
        ({"master": ["a:1"]}, "'master' is no job name"),
        ({"chief": ["a:1", "b:1"]}, "only one chief"),
        ({"worker": ["a:1"], "evaluator": ["b:1", "c:1"]}, "only one evaluator"),
        ({"worker": ["a"]}, "worker:0 .*port"),
        ({"worker": ["a:0"]}, "worker:0 .*port"),
        ({"worker": ["a:70000"]}, "worker:0 .*port"),
        ({"worker": ["a:1", "a:b:c"]}, "worker:1 .*address"),
        ({"worker": ["::1"]}, "worker:0 .*brackets"),
        ({"worker": ["a:1", "a:1"]}, "duplicate address 'a:1': worker:0 and worker:1"),
        ({"worker": ["a:1"], "ps": ["a:1"]}, "duplicate address 'a:1': worker:0 and ps:0"),
        ({"worker": "a:1"}, "list"),
        ({"worker": [None]}, "worker:0"),
        ({"worker": {"x": "a:1"}}, "'x' is no task index"),
        ({"worker": {-1: "a:1"}}, "-1 is no task index"),
        ({"ps": ["a:1"]}, "needs a chief or a worker"),
        ({}, "needs a chief or a worker"),
        (["worker"], "mapping"),
    ],
)
def test_mistakes_are_named(bad: Any, message: str) -> None:
    """tensorflow/tensorflow #17854, #24165, kubeflow/trainer #1763: they surfaced far from the mistake."""
    with pytest.raises(ValueError, match=message):
        ClusterLayout(bad)


def test_indices_may_be_strings() -> None:
    """tensorflow/tensorflow #48065: JSON makes strings of the task numbers of a sparse cluster."""
    layout = ClusterLayout({"ps": ["p:1"], "worker": {"1": "w:2"}})
    assert layout.task_address("worker", 1) == "w:2"
    assert layout.cluster() == {"worker": {1: "w:2"}, "ps": ["p:1"]}
    with pytest.raises(InvalidArgumentError, match=r"no task worker:0; there are .*'worker': \[1\]"):
        layout.task_address("worker", 0)


def test_the_evaluator_is_no_member() -> None:
    """tensorflow/tensorflow #30121, #46169; kubeflow/trainer #650, #1139: the others waited for it for ever."""
    layout = ClusterLayout(CLUSTER)
    for kind, index in [("chief", 0), ("worker", 1), ("ps", 0), ("evaluator", 0)]:
        config = json.loads(layout.tf_config(kind, index))
        assert config["cluster"] == {"chief": ["c:1"], "worker": ["w:1", "w:2"], "ps": ["p:1"]}
        assert config["task"] == {"type": kind, "index": index}
        assert "rpc_layer" not in config
    assert json.loads(layout.tf_config("chief", rpc_layer="grpc+verbs"))["rpc_layer"] == "grpc+verbs"


@pytest.mark.parametrize(("kind", "index"), [("worker", 2), ("chief", 1), ("evaluator", 1), ("scorer", 0)])
def test_tasks_that_do_not_exist(kind: str, index: int) -> None:
    with pytest.raises(InvalidArgumentError, match=kind):
        ClusterLayout(CLUSTER).tf_config(kind, index)


def test_the_standalone_client_sees_a_placeholder() -> None:
    """tensorflow/tensorflow #27857: without the entry nothing is evaluated; the address is never contacted."""
    layout = ClusterLayout({"chief": ["c:1"], "worker": ["w:1"]})
    assert layout.remote_cluster() == {"chief": ["c:1"], "worker": ["w:1"]}
    assert layout.remote_cluster(evaluator=True) == {
        "chief": ["c:1"],
        "worker": ["w:1"],
        "evaluator": ["evaluator.invalid:1"],
    }
    ClusterLayout(layout.remote_cluster(evaluator=True))


@pytest.mark.parametrize("value", ["", "{}", '{"task": {"type": "worker", "index": 0}}', '{"cluster": {}}'])
def test_a_harmless_tf_config(value: str) -> None:
    assert foreign_tf_config({"TF_CONFIG": value}) is None
    assert foreign_tf_config({}) is None


@pytest.mark.parametrize("value", ['{"cluster": {"worker": ["x:1"]}}', "{not json"])
def test_a_foreign_tf_config(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """tensorflow/tensorflow #22321, #36550."""
    monkeypatch.setenv("TF_CONFIG", value)
    assert "unset" in str(foreign_tf_config())
    assert os.environ["TF_CONFIG"] == value


def test_run_config_takes_every_tf_config(monkeypatch: pytest.MonkeyPatch) -> None:
    estimator = pytest.importorskip("tensorflow").estimator
    for kind in ("chief", "worker", "ps", "evaluator"):
        monkeypatch.setenv("TF_CONFIG", ClusterLayout(CLUSTER).tf_config(kind, 0))
        config = estimator.RunConfig()
        assert (config.task_type, config.task_id) == (kind, 0)
