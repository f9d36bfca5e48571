"""Predicts with a SavedModel over a cache and writes the answers back to another one, where SQL sees them.

python examples/predict.py [--address HOST:PORT]

The digits of scikit-learn are written to a cache; a small model is trained on some of them and saved on igfs://. What
follows is what you would run: the model is loaded, the cache is read in batches as they come from the pages, and the
answers are written while the rows are still being read.
"""

from contextlib import closing

import numpy as np
from node import node
from sklearn.datasets import load_digits

import ignite_strategy as igs
from ignite_strategy.topology.caches import connect, drop_cache, sql

PIXELS, ANSWERS = "PIXELS", "ANSWERS"

with node(__doc__) as address:
    import tensorflow as tf

    with closing(connect([str(address)])) as client:
        drop_cache(client, PIXELS)
        drop_cache(client, ANSWERS)

    # The rows.
    digits = load_digits()
    pixels = digits.data.astype(np.float32) / 16
    ids = np.arange(len(pixels))
    igs.write(PIXELS, {"id": ids, "pixels": pixels}, address.host, address.port, key="id", create=True)

    # The model, somewhere that every node can read it from.
    class Classifier(tf.Module):
        def __init__(self) -> None:
            first = pixels[:1000]
            inputs = np.concatenate([first, np.ones((len(first), 1), np.float32)], 1)
            wanted = np.eye(10, dtype=np.float32)[digits.target[:1000]]
            self.weights = tf.Variable(np.linalg.lstsq(inputs, wanted, rcond=None)[0])

        @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32)])
        def serve(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
            scores = images @ self.weights[:-1] + self.weights[-1]
            return {
                "digit": tf.argmax(scores, 1, tf.int32),
                "score": tf.reduce_max(scores, 1),
            }

    model = f"igfs://{address}/models/digits"
    classifier = Classifier()
    tf.saved_model.save(classifier, model, signatures=classifier.serve)

    # The prediction.
    loaded = tf.saved_model.load(model)  # keeps the variables
    serve = loaded.signatures["serving_default"]
    rows = igs.IgniteDataset(
        PIXELS,
        address.host,
        address.port,
        batch_size=256,
        element_spec={"key": tf.TensorSpec([], tf.int64), "val": {"pixels": tf.TensorSpec([64], tf.float32)}},
    )
    answers = rows.map(lambda batch: {"id": batch["key"], **serve(images=batch["val"]["pixels"])})
    report = igs.write(
        ANSWERS, answers, address.host, address.port, key="id", batched=True, create=True, sql=True
    )
    print(f"{report.rows} answers written")

    with closing(connect([str(address)])) as client:
        for digit, count in sql(
            client, "SELECT digit, COUNT(*) FROM ANSWERS GROUP BY digit ORDER BY digit"
        ).rows:
            print(f"{digit}: {count} times")
    written = igs.read(ANSWERS, address.host, address.port)
    right = np.mean(digits.target[written["key"]] == written["val.digit"])
    print(f"right: {right:.3f}")
