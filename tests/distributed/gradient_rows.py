"""Rows in three partitions of unequal size, a model with an embedding, and its gradient in one process."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import tensorflow as tf

import ignite_strategy as igs
from ignite_strategy.topology import caches

FIELDS = {"x": "float[]", "y": "float", "n": "int"}
# Key k is in partition k % 3: 150 rows, 3 rows, and none.
KEYS = {0: [3 * n for n in range(150)], 1: [1, 4, 7], 2: []}
ROWS = 153
SHAPES = {"weights": (4, 3), "bias": (3,), "embedding": (20, 3), "unused": (2,)}


def rows() -> dict[int, dict[str, Any]]:
    random = np.random.default_rng(1)
    return {
        key: {
            "x": random.normal(size=4).astype("float32"),
            "y": np.float32(random.normal() * 10),
            "n": key % 7 if key % 3 == 0 else 11,
        }
        for key in [*KEYS[0], *KEYS[1]]
    }


def fill(addresses: list[str], name: str) -> None:
    with closing(caches.connect(addresses)) as client:
        caches.create_cache(client, name, partitions=3, key="int", value=FIELDS, type_name="Row")
        values = [(key, {**row, "y": float(row["y"])}) for key, row in rows().items()]
        caches.put_objects(client, name, values, fields=FIELDS, type_name="Row")


def initial() -> dict[str, Any]:
    random = np.random.default_rng(2)
    return {name: random.normal(size=shape).astype("float32") for name, shape in SHAPES.items()}


def losses(variables: list[Any], row: Any) -> Any:
    """The loss of each row of a batch."""
    weights, bias, embedding = variables[:3]
    x = row["val"]["x"]
    x = x.to_tensor(shape=[None, 4]) if isinstance(x, tf.RaggedTensor) else x
    hidden = tf.tanh(tf.matmul(x, weights) + bias) + tf.nn.embedding_lookup(embedding, row["val"]["n"])
    return (tf.reduce_sum(hidden, axis=1) - row["val"]["y"]) ** 2


def whole() -> dict[str, Any]:
    """All rows as one batch."""
    found = rows()
    columns = {name: np.stack([row[name] for row in found.values()]) for name in FIELDS}
    return {"key": np.array(list(found), "int32"), "val": columns}


def reference(values: list[Any]) -> tuple[float, list[Any]]:
    """Loss and gradients of one process over all rows; call it where execution is eager."""
    variables = [tf.Variable(value) for value in values]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(losses(variables, whole()))
    gradients = tape.gradient(loss, variables)
    return float(loss), [None if each is None else tf.convert_to_tensor(each).numpy() for each in gradients]


def error(found: Any, wanted: Any) -> float:
    """Relative error of a gradient."""
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def resolver(addresses: list[str], name: str) -> Any:
    return igs.IgniteClusterResolver(name, addresses, layout=3, chief=False)
