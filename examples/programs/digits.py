"""What the programs of this folder share: the digits of scikit-learn in a cache, and each task's part of them."""

from __future__ import annotations

import sys

CACHE = "DIGITS"


def dataset():
    """The rows of this task's own partitions, as (64 pixels, label), for ever."""
    import tensorflow as tf

    import ignite_strategy as igs

    rows = igs.IgniteDataset(CACHE, columns=["val.pixels", "val.label"])
    pairs = rows.map(lambda row: (tf.ensure_shape(row["val"]["pixels"], [64]), row["val"]["label"]))
    return pairs.cache().shuffle(1000, seed=1).repeat()


def load(host: str, port: int) -> None:
    import numpy as np
    from sklearn.datasets import load_digits

    import ignite_strategy as igs

    found = load_digits()
    columns = {
        "id": np.arange(len(found.target)),
        "pixels": found.data.astype(np.float32) / 16,
        "label": found.target.astype(np.int32),
    }
    igs.write(CACHE, columns, host, port, key="id", create=True, partitions=2)


if __name__ == "__main__":  # python digits.py HOST:PORT
    from ignite_strategy.settings import parse_endpoint

    load(*parse_endpoint(sys.argv[1]))
    print(f"{CACHE} is loaded")
