"""Ignite caches as TensorFlow datasets, and as NumPy columns without TensorFlow."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ignite_strategy.dataset.losses import accept_data_loss
from ignite_strategy.dataset.read import read
from ignite_strategy.dataset.write import WriteReport, write

if TYPE_CHECKING:
    from ignite_strategy.dataset.ignite_dataset import IgniteDataset as IgniteDataset

__all__ = ["IgniteDataset", "WriteReport", "accept_data_loss", "read", "write"]


def __getattr__(name: str) -> Any:
    # The class is a tf.data.Dataset, so its module imports TensorFlow; reading columns must not.
    if name != "IgniteDataset":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = importlib.import_module("ignite_strategy.dataset.ignite_dataset").IgniteDataset
    globals()[name] = value
    return value
