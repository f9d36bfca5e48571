"""The resolver keeps TensorFlow's contract for resolvers, tested as TensorFlow tests its own."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ignite_strategy import settings
from ignite_strategy.errors import ConnectionFailedError, InvalidArgumentError, PreconditionError
from ignite_strategy.topology.assignment import Layout, TaskKey, assign

tf = pytest.importorskip("tensorflow")
from ignite_strategy.topology.resolver import IgniteClusterResolver  # noqa: E402

CLUSTER = {"chief": ["c:1"], "worker": ["w:10", "w:2"], "ps": ["p:1"]}


class _Runner:
    """A job that runs; the real one is in tests/distributed."""

    failure = None
    id = "job"

    def __init__(self, cluster: dict[str, list[str]]) -> None:
        self.addresses = cluster
        self.closed = 0
        self.assignment = assign(["a", "b"], ["a", "b", "a"], Layout("partition", ps=1))
        self.gpus = {
            TaskKey("chief", 0): ("0", "1"),
            TaskKey("worker", 0): ("0",),
            TaskKey("worker", 1): ("2",),
        }

    def cluster(self) -> dict[str, list[str]]:
        return self.addresses

    def close(self) -> None:
        self.closed += 1


def _resolver(cluster: dict[str, list[str]] = CLUSTER, **arguments: Any) -> Any:
    resolver = IgniteClusterResolver("C", ["h:1"], **arguments)
    resolver._runner = _Runner(cluster)  # type: ignore[assignment]
    return resolver


@pytest.fixture(params=["graph", "eager"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "eager":
        yield
    else:
        with tf.Graph().as_default():
            yield


@pytest.mark.parametrize("cluster", [CLUSTER, {"worker": ["w:1"]}, {"chief": ["c:1"], "ps": ["p:1", "p:2"]}])
def test_cluster_spec(cluster: dict[str, list[str]]) -> None:
    spec = _resolver(cluster).cluster_spec()
    expected = tf.train.ClusterSpec(cluster).as_cluster_def()
    assert spec.as_cluster_def() == expected
    assert tf.train.ClusterSpec(spec).as_cluster_def() == expected
    assert tf.train.ClusterSpec(spec.as_cluster_def()).as_cluster_def() == expected
    assert tf.train.ClusterSpec(spec.as_dict()).as_cluster_def() == expected


def test_cluster_spec_is_fresh_and_in_order() -> None:
    resolver = _resolver()
    assert resolver.cluster_spec().task_address("worker", 1) == "w:2"  # as given, not as text sorts it
    resolver._runner.addresses = {"worker": ["x:1"]}
    assert resolver.cluster_spec().as_dict() == {"worker": ["x:1"]}


def test_master() -> None:
    resolver = _resolver()
    assert resolver.master() == ""
    assert resolver.master("worker", 1) == "grpc://w:2"
    assert resolver.master("worker", 0) == "grpc://w:10"
    assert resolver.master("worker", 0, "") == "w:10"
    assert resolver.master("ps", 0, rpc_layer="grpc+x") == "grpc+x://p:1"
    with pytest.raises(InvalidArgumentError, match="worker:2"):
        resolver.master("worker", 2)


@pytest.mark.parametrize(
    ("own", "given", "found"),
    [
        ((None, None), (), ""),
        ((None, None), ("worker",), ""),  # which one?
        ((None, None), (None, 0), ""),
        ((None, None), ("worker", 0), "grpc://w:10"),
        ((None, None), ("chief", 0, "rpc"), "rpc://c:1"),
        (("worker", None), (), ""),
        (("worker", None), (None, 1), "grpc://w:2"),
        ((None, 0), ("ps",), "grpc://p:1"),
        (("worker", 1), (), "grpc://w:2"),
        (("worker", 1), ("worker", 0), "grpc://w:10"),
        (("worker", 1), (None, 0), "grpc://w:10"),
        (("worker", 0), ("chief",), "grpc://c:1"),
        (("worker", 1), (None, None, ""), "w:2"),
        (("ps", 0), (None, None, None), "grpc://p:1"),
    ],
)
def test_master_in_all_its_forms(own: tuple[Any, Any], given: tuple[Any, ...], found: str) -> None:
    """What is not given is this process's own; 0 and an empty text are something given."""
    resolver = _resolver(task_type=own[0], task_id=own[1])
    assert resolver.master(*given) == found
    names = dict(zip(("task_type", "task_id", "rpc_layer"), given))
    assert resolver.master(**names) == found


def test_sessions_go_where_master_says() -> None:
    """TensorFlow's own helper makes the same of address and protocol."""
    from tensorflow.python.distribute.cluster_resolver.cluster_resolver import format_master_url

    resolver = _resolver(rpc_layer="grpc+verbs")
    assert resolver.master("worker", 1) == format_master_url("w:2", "grpc+verbs")
    assert resolver.master("worker", 1, "") == format_master_url("w:2", "")
    assert _resolver({"worker": ["w:1"]}).master("worker", 0) == "grpc://w:1"  # one task is a cluster, too


def test_own_task() -> None:
    """Task 0 is as good as any other: upstream's union resolver takes it for none."""
    resolver = _resolver(task_type="worker", task_id=0)
    assert (resolver.task_type, resolver.task_id, resolver.master()) == ("worker", 0, "grpc://w:10")
    resolver.task_id = 1
    assert resolver.master() == "grpc://w:2"
    assert resolver.master(task_id=0) == "grpc://w:10"
    resolver.task_type, resolver.task_id = "chief", 0
    assert resolver.master() == "grpc://c:1"
    resolver.rpc_layer = "rpc"
    assert (resolver.rpc_layer, resolver.master()) == ("rpc", "rpc://c:1")


def test_the_rest_of_the_contract() -> None:
    resolver = _resolver(num_accelerators={"GPU": 2})
    assert isinstance(resolver, tf.distribute.cluster_resolver.ClusterResolver)
    assert (resolver.rpc_layer, resolver.environment) == ("grpc", "")
    # "worker 0" is an address that nobody answers at: asking it would hang.
    assert resolver.num_accelerators("worker", 0) == {"GPU": 2}
    assert _resolver(num_accelerators={}).num_accelerators("chief", 0) == {}
    assert _resolver(environment="google").environment == "google"
    assert copy.deepcopy(resolver) is resolver


def test_accelerators_are_those_of_the_task() -> None:
    resolver = _resolver(task_type="worker", task_id=0)
    assert resolver.num_accelerators() == {"GPU": 1}
    assert resolver.num_accelerators("chief", 0) == {"GPU": 2}
    assert resolver.num_accelerators(task_type="ps", task_id=0, config_proto=None) == {}
    assert _resolver().num_accelerators() == {}
    assert resolver.gpus_per_worker == 1
    before = IgniteClusterResolver("C", ["h:1"])
    assert (before.num_accelerators("worker", 0), before.gpus_per_worker) == ({}, 0)


def test_a_union_with_another_cluster() -> None:
    other = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec({"worker": ["x:1"]}))
    union = tf.distribute.cluster_resolver.UnionResolver(_resolver(task_type="worker", task_id=1), other)
    assert union.cluster_spec().as_dict() == {**CLUSTER, "worker": ["w:10", "w:2", "x:1"]}
    assert (union.task_type, union.task_id, union.rpc_layer) == ("worker", 1, "grpc")
    assert union.master() == "grpc://w:2"


def test_tf_config_and_remote_cluster() -> None:
    resolver = _resolver(evaluator=True)
    assert json.loads(resolver.tf_config("worker", 1)) == {
        "cluster": CLUSTER,
        "task": {"type": "worker", "index": 1},
    }
    assert resolver.remote_cluster() == {**CLUSTER, "evaluator": ["evaluator.invalid:1"]}
    assert _resolver().remote_cluster() == CLUSTER
    assert resolver.partition_map() == {0: ("chief", 0), 1: ("worker", 0), 2: ("worker", 1)}


def test_before_the_start_it_says_so() -> None:
    resolver = IgniteClusterResolver("C", ["h:1"])
    for call in (
        resolver.cluster_spec,
        resolver.tasks,
        resolver.remote_cluster,
        lambda: resolver.tf_config("chief"),
    ):
        with pytest.raises(PreconditionError, match=r"'C'.*start\(\)"):
            call()
    assert resolver.master() == ""
    assert resolver.failure is None
    resolver.close()
    resolver.close()


def test_it_is_the_default_cluster_while_it_is_open() -> None:
    assert settings.default_endpoints() == ()
    with IgniteClusterResolver("C", ["a:1", "b"]) as resolver:
        assert settings.default_endpoints() == (("a", 1), ("b", 10800))
        assert IgniteClusterResolver("D").endpoints == (("a", 1), ("b", 10800))
        runner = resolver._runner = _Runner(CLUSTER)  # type: ignore[assignment]
    assert settings.default_endpoints() == ()
    assert runner.closed == 1


def test_a_start_that_fails_leaves_nothing_open() -> None:
    resolver = IgniteClusterResolver("C", ["127.0.0.1:1"])
    with pytest.raises(ConnectionFailedError, match=r"127\.0\.0\.1:1"):
        resolver.start()
    assert settings.default_endpoints() == ()
    with pytest.raises(ConnectionFailedError), resolver:
        resolver.start()
    assert settings.default_endpoints() == ()


def test_several_caches() -> None:
    resolver = IgniteClusterResolver(["FEATURES", "LABELS"], ["h:1"])
    assert (resolver.cache, resolver.caches) == ("FEATURES", ("FEATURES", "LABELS"))
    assert IgniteClusterResolver("C", ["h:1"]).caches == ("C",)


def test_where_the_addresses_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    assert IgniteClusterResolver("C").endpoints == (("localhost", 10800),)
    monkeypatch.setenv("IGNITE_DATASET_HOST", "ignite-0")
    assert IgniteClusterResolver("C").endpoints == (("ignite-0", 10800),)
    assert IgniteClusterResolver("C", "a:1,b:2").endpoints == (("a", 1), ("b", 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cache": ""}, "cache"),
        ({"cache": []}, "cache"),
        ({"cache": ["A", ""]}, "cache"),
        ({"cache": ["A", "A"]}, "named twice"),
        ({"cache": 7}, "cache"),
        ({"addresses": []}, "addresses"),
        ({"addresses": ["a:b:c"]}, "a:b:c"),
        ({"strategy": "horovod"}, "horovod"),
        ({"layout": 0}, "layout=0"),
        ({"balance": "odd"}, "odd"),
        ({"strategy": "parameter_server", "ps": 0}, "ps=1"),
        ({"start_timeout": 0}, "start_timeout"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        IgniteClusterResolver(**{"cache": "C", "addresses": ["h:1"], **arguments})


def test_a_job_without_servers_does_not_suit_parameter_server() -> None:
    resolver = _resolver()
    assert resolver.start() is resolver
    resolver._runner.assignment = assign(["a"], ["a"])
    with pytest.raises(PreconditionError, match="strategy='parameter_server'"):
        resolver.start("parameter_server")
