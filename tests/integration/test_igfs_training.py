"""What a training run keeps on igfs://: checkpoints, events, exports of an Estimator, read back by new objects."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

import ignite_strategy  # noqa: F401
from tests.contracts.filesystem import gfile

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]
_roots = itertools.count()


@pytest.fixture
def root(one_node: str) -> str:
    return f"igfs://training@{one_node}/{next(_roots)}/not/yet/there"


def input_fn() -> tf.data.Dataset:
    x = np.arange(64, dtype=np.float32).reshape(64, 1) / 64
    return tf.data.Dataset.from_tensor_slices(({"x": x}, 3 * x + 1)).repeat().batch(16)


def estimator(model_dir: str) -> tf.estimator.Estimator:
    column = tf.feature_column.numeric_column("x")
    config = tf.estimator.RunConfig(
        model_dir=model_dir, save_checkpoints_steps=20, keep_checkpoint_max=2, save_summary_steps=10
    )
    return tf.estimator.LinearRegressor([column], config=config)


def serving_fn() -> tf.estimator.export.ServingInputReceiver:
    x = tf.compat.v1.placeholder(tf.float32, [None, 1])
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


def test_an_estimator_lives_on_igfs(root: str) -> None:
    """The export ends with a directory rename (tensorflow #60165, #61364; BR-23); checkpoints with four per save."""
    estimator(root).train(input_fn, max_steps=50)
    assert sorted(name for name in gfile.listdir(root) if name.endswith(".index")) == [
        "model.ckpt-40.index",
        "model.ckpt-50.index",
    ]
    assert tf.train.latest_checkpoint(root) == f"{root}/model.ckpt-50"

    again = estimator(root)
    again.train(input_fn, max_steps=60)  # goes on from the checkpoint
    metrics = again.evaluate(input_fn, steps=2)
    assert metrics["global_step"] == 60
    # TensorFlow reads the step beside the update that raises it: an event may have the step before or after.
    tens = {
        round(event.step / 10)
        for path in gfile.glob(f"{root}/events*")
        for event in tf.compat.v1.train.summary_iterator(path)
        if event.summary.value
    }
    assert {0, 1, 2, 3, 4, 5} <= tens
    assert gfile.glob(f"{root}/eval/events*")

    exporter = tf.estimator.BestExporter(serving_input_receiver_fn=serving_fn, exports_to_keep=1)
    tf.estimator.train_and_evaluate(
        again,
        tf.estimator.TrainSpec(input_fn, max_steps=100),
        tf.estimator.EvalSpec(input_fn, steps=2, exporters=[exporter], throttle_secs=0, start_delay_secs=0),
    )
    (version,) = gfile.listdir(f"{root}/export/best_exporter")
    assert version.isdigit()

    exported = again.export_saved_model(f"{root}/export/manual", serving_fn).decode()
    assert exported.startswith(f"{root}/export/manual/")
    assert sorted(gfile.listdir(exported)) == ["saved_model.pb", "variables"]
    loaded = tf.saved_model.load(exported)
    predicted = loaded.signatures["predict"](x=tf.constant([[0.5]]))
    assert np.isfinite(predicted["predictions"].numpy()).all()
