"""Guards of the Estimator mode: each trap is one clear error, or nothing is said."""

from __future__ import annotations

import json

import pytest

from ignite_strategy.errors import ClusterError, InvalidArgumentError, UnsupportedError
from ignite_strategy.estimator import guards

tf = pytest.importorskip("tensorflow")

FOREIGN = json.dumps({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 0}})
KNOWN = (
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "save_summary_steps",
    "tf_random_seed",
    "train_distribute",
)


def spec(**values: object) -> object:
    return type("Spec", (), values)()


def test_foreign_tf_config_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """tensorflow/tensorflow #22321, #36550: TF_CONFIG, left over from a platform, wins."""
    monkeypatch.setenv("TF_CONFIG", FOREIGN)
    with pytest.raises(
        ClusterError, match=r"TF_CONFIG describes another cluster \(worker: .*a:1.*unset TF_CONFIG"
    ):
        guards.check_tf_config()


def test_the_tf_config_of_the_job_that_the_program_is_a_part_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", FOREIGN)
    monkeypatch.setenv("IGNITE_STRATEGY_JOB", "digits-1")
    with pytest.raises(ClusterError, match=r"job digits-1.*start --no-tasks"):
        guards.check_tf_config()


@pytest.mark.parametrize("text", ["", "{}", '{"rpc_layer": "grpc"}'])
def test_tf_config_without_a_cluster_is_no_trap(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    guards.check_tf_config()


def test_broken_tf_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", "{cluster")
    with pytest.raises(ClusterError, match="not JSON"):
        guards.check_tf_config()


@pytest.mark.parametrize("version", ["2.16.0", "2.21.0", "3.0.0"])
def test_a_tensorflow_without_estimator(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """tensorflow/models #11252: tf.estimator is gone from TF 2.16."""
    monkeypatch.setattr(tf, "__version__", version)
    with pytest.raises(
        UnsupportedError, match=rf"{version} has no tf.estimator.*ignite-strategy\[estimator\].*2\.15"
    ):
        guards.check_tensorflow()


def test_a_tensorflow_with_estimator(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("2.13.1", "2.14.0", "2.15.1"):
        monkeypatch.setattr(tf, "__version__", version)
        guards.check_tensorflow()
    monkeypatch.setattr(tf, "__version__", "2.9.0")
    with pytest.raises(UnsupportedError, match="too old"):
        guards.check_tensorflow()


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("collective", {"save_checkpoints_secs": 60}, "use save_checkpoints_steps"),
        ("collective", {"save_summary_steps": 0}, "no checkpoint at all"),
        ("collective", {"save_summary_steps": None}, "no checkpoint at all"),
        ("parameter_server", {"save_checkpoints_secs": 60, "save_checkpoints_steps": 5}, "not both"),
        ("parameter_server", {"save_checkpoints_steps": 0}, "positive"),
        ("mirrored", {"train_distribute": object()}, "choose with strategy="),
        ("collective", {"save_checkpoint_steps": 5}, "no such argument; it has .*save_checkpoints_steps"),
    ],
)
def test_options_that_would_not_do_what_they_say(
    kind: str, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        guards.check_options(kind, arguments, KNOWN)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("collective", {"save_checkpoints_steps": 60, "save_summary_steps": 10, "tf_random_seed": 0}),
        ("parameter_server", {"save_checkpoints_secs": 60, "save_summary_steps": 0}),
    ],
)
def test_options_that_work(kind: str, arguments: dict[str, object]) -> None:
    guards.check_options(kind, arguments, KNOWN)


def test_max_steps_is_needed() -> None:
    """yahoo/TensorFlowOnSpark #120: with unequal shards the first worker at its end stops the others."""
    with pytest.raises(InvalidArgumentError, match=r"max_steps.*repeat"):
        guards.check_specs(spec(max_steps=None), spec())
    with pytest.raises(InvalidArgumentError, match="saving_listeners"):
        guards.check_specs(spec(max_steps=1, saving_listeners=(object(),)), spec())
    guards.check_specs(spec(max_steps=1, saving_listeners=()), spec())


@pytest.mark.parametrize(
    ("changes", "in_step", "message"),
    [
        (
            {"save_checkpoints_steps": None, "save_checkpoints_secs": None},
            True,
            "without checkpoints nothing is left",
        ),
        (
            {"save_checkpoints_steps": None, "save_checkpoints_secs": None},
            False,
            "without checkpoints nothing is left",
        ),
        ({"save_checkpoints_secs": 60, "save_checkpoints_steps": None}, True, "use save_checkpoints_steps"),
        ({"save_summary_steps": 0}, True, "no checkpoint at all"),
    ],
)
def test_a_config_that_was_changed_afterwards(
    changes: dict[str, object], in_step: bool, message: str
) -> None:
    """TensorFlow wrote no checkpoint, or others than asked for, and said nothing."""
    config = tf.estimator.RunConfig(save_checkpoints_steps=100)
    guards.check_config(config, in_step)
    with pytest.raises(InvalidArgumentError, match=message):
        guards.check_config(config.replace(**changes), in_step)


def test_seconds_between_checkpoints_suit_parameter_servers() -> None:
    config = tf.estimator.RunConfig(save_checkpoints_secs=60)
    guards.check_config(config.replace(save_summary_steps=0), False)


def test_rows_in_the_graph() -> None:
    """A graph beyond 2 GiB is not sent, and the error does not say why."""
    with tf.Graph().as_default() as graph:
        tf.constant([float(value) for value in range(300_000)], name="all_rows")
    guards.check_size(graph.as_graph_def(), "task worker:0")
    with pytest.raises(
        InvalidArgumentError, match=r"task worker:0 has 1 MB, 1 of them in 'all_rows'.*IgniteDataset"
    ):
        guards.check_size(graph.as_graph_def(), "task worker:0", most=1_000_000)


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.data.Dataset.from_generator(lambda: iter([1]), tf.int32),
        lambda: tf.data.Dataset.range(3).map(lambda x: tf.py_function(abs, [x], tf.int64)),
        lambda: tf.data.Dataset.range(3).map(lambda x: tf.numpy_function(abs, [x], tf.int64)),
    ],
)
def test_python_in_a_graph_for_another_process(make: object) -> None:
    """tensorflow/tensorflow #48957, #52959, #27102: generators hang or fail in another process."""
    with tf.Graph().as_default() as graph:
        tf.compat.v1.data.make_one_shot_iterator(make()).get_next()  # type: ignore[operator]
    with pytest.raises(UnsupportedError, match=r"PyFunc.*task worker:1.*IgniteDataset"):
        guards.require_no_python_ops(graph.as_graph_def(), "task worker:1")


def test_native_datasets_pass() -> None:
    with tf.Graph().as_default() as graph:
        dataset = tf.data.Dataset.range(3).map(lambda x: x + 1).batch(2)
        tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
    guards.require_no_python_ops(graph.as_graph_def(), "task worker:1")
