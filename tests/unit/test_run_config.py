"""The strategies' identity, and what run_config makes of a cluster."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile

import pytest

import ignite_strategy as igs
from ignite_strategy.errors import ClusterError, InvalidArgumentError, PreconditionError

tf = pytest.importorskip("tensorflow")
if not hasattr(tf, "estimator"):
    pytest.skip("this TensorFlow has no Estimator", allow_module_level=True)

MODEL_DIR = tempfile.gettempdir()
CLUSTER = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2", "127.0.0.1:3"], "ps": ["127.0.0.1:4"]}


class Resolver:
    """A cluster that is there already; nothing here contacts it."""

    failure = None
    has_evaluator = True
    gpus_per_worker = 0

    def __init__(self) -> None:
        self.started: list[str] = []
        self.closers: list[object] = []
        self.restarts: list[tuple[int, bool]] = []

    def allow_restarts(self, count: int, together: bool) -> None:
        self.restarts.append((count, together))

    def start(self, strategy: str) -> None:
        self.started.append(strategy)

    def tasks(self) -> list[object]:
        return []

    def claim_directory(self, directory: str) -> None:
        assert directory == MODEL_DIR

    def on_close(self, callback: object) -> None:
        self.closers.append(callback)

    def cluster_spec(self) -> object:
        return tf.train.ClusterSpec(CLUSTER)


def run_config(strategy: str = "collective", **arguments: object) -> object:
    from ignite_strategy.estimator import run_config as make

    return make(Resolver(), strategy, MODEL_DIR, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize(
    ("kind", "base"),
    [
        ("collective", tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy),
        ("parameter_server", tf.compat.v1.distribute.experimental.ParameterServerStrategy),
        ("mirrored", tf.compat.v1.distribute.MirroredStrategy),
    ],
)
def test_a_strategy_is_tensorflows_and_ours(kind: str, base: type, eager: bool) -> None:
    with tf.init_scope() if eager else tf.Graph().as_default():
        assert tf.executing_eagerly() is eager
        strategy = igs.IgniteStrategy(kind)
        copied = copy.deepcopy(strategy)
    for one in (strategy, copied):
        assert isinstance(one, igs.IgniteStrategy)
        assert isinstance(one, base)
        assert one.kind == kind
        assert one.extended._container_strategy() is one


def test_the_name_that_estimator_looks_for() -> None:
    assert type(igs.IgniteStrategy("collective")).__name__ == "CollectiveAllReduceStrategyV1"


def test_an_unknown_kind() -> None:
    with pytest.raises(InvalidArgumentError, match="collective, parameter_server, mirrored"):
        igs.IgniteStrategy("horovod")


@pytest.mark.parametrize("kind", ["collective", "parameter_server"])
def test_standalone_client_mode(kind: str) -> None:
    config = run_config(kind)
    assert config._distribute_coordinator_mode == "standalone_client"  # type: ignore[attr-defined]
    assert isinstance(config.train_distribute, igs.IgniteStrategy)  # type: ignore[attr-defined]
    cluster = dict(config.cluster_spec)  # type: ignore[attr-defined]
    # tensorflow/tensorflow #27857: without this entry train_and_evaluate never evaluates.
    assert cluster.pop("evaluator") == ["evaluator.invalid:1"]
    assert cluster == CLUSTER


def test_defaults_and_given_values() -> None:
    config = run_config()
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (500, None)  # type: ignore[attr-defined]
    assert config.save_summary_steps == 100  # type: ignore[attr-defined]
    config = run_config("parameter_server", save_checkpoints_secs=30, tf_random_seed=7, evaluator=False)
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (None, 30)  # type: ignore[attr-defined]
    assert config.tf_random_seed == 7  # type: ignore[attr-defined]
    assert "evaluator" not in config.cluster_spec  # type: ignore[attr-defined]


def test_the_job_starts_for_the_strategy_and_only_after_the_checks() -> None:
    from ignite_strategy.estimator import run_config as make

    resolver = Resolver()
    with pytest.raises(InvalidArgumentError, match="model_dir"):
        make(resolver, "collective")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="strategy='horovod'"):
        make(resolver, "horovod", MODEL_DIR)  # type: ignore[arg-type]
    assert resolver.started == []
    make(resolver, "parameter_server", MODEL_DIR)  # type: ignore[arg-type]
    assert resolver.started == ["parameter_server"]


def test_foreign_tf_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """tensorflow/tensorflow #22321."""
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["a:1"]}}))
    with pytest.raises(ClusterError, match="TF_CONFIG"):
        run_config()


def test_an_estimator_takes_it() -> None:
    def model_fn(features: object, labels: object, mode: str) -> None:
        raise AssertionError("not called")

    estimator = tf.estimator.Estimator(model_fn, config=run_config())
    assert estimator.config.train_distribute._supervisor is estimator.config.train_distribute._supervisor


def test_the_package_stays_light() -> None:
    code = (
        "import sys, ignite_strategy, ignite_strategy.estimator, ignite_strategy.estimator.strategy, "
        "ignite_strategy.estimator.config; assert not {'tensorflow', 'grpc'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_restarts() -> None:
    from ignite_strategy.estimator import run_config as make

    resolver = Resolver()
    make(resolver, "collective", MODEL_DIR)  # type: ignore[arg-type]
    make(resolver, "parameter_server", MODEL_DIR, restarts=0)  # type: ignore[arg-type]
    assert resolver.restarts == [(5, True), (0, False)]
    with pytest.raises(InvalidArgumentError, match="restarts=-1"):
        make(resolver, "collective", MODEL_DIR, restarts=-1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({}, PreconditionError, "config=resolver.run_config"),
        ({"attempts": 0}, InvalidArgumentError, "attempts=0"),
        ({"stall_seconds": 0}, InvalidArgumentError, "stall_seconds=0"),
        ({"stall_seconds": float("nan")}, InvalidArgumentError, "stall_seconds=nan"),
    ],
)
def test_train_and_evaluate_refuses_what_it_cannot_do(
    arguments: dict[str, float], error: type[Exception], text: str
) -> None:
    plain = tf.estimator.Estimator(lambda features: None, model_dir=MODEL_DIR)
    with pytest.raises(error, match=text):
        igs.train_and_evaluate(plain, None, None, **arguments)  # type: ignore[arg-type]
