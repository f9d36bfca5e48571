"""TensorFlow training inside an Apache Ignite cluster.

``import ignite_strategy as igs`` is cheap: it loads neither TensorFlow nor Dask nor a ZooKeeper client. Public names
are loaded on first use, and ``igfs://`` registers itself as soon as TensorFlow is imported, before or after this
package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ignite_strategy.filesystem.hook import install_hook as _install_hook

if TYPE_CHECKING:
    from ignite_strategy import gradients as gradients
    from ignite_strategy.dataset import IgniteDataset as IgniteDataset
    from ignite_strategy.dataset import accept_data_loss as accept_data_loss
    from ignite_strategy.dataset.read import read as read
    from ignite_strategy.dataset.write import write as write
    from ignite_strategy.estimator import IgniteStrategy as IgniteStrategy
    from ignite_strategy.estimator import train_and_evaluate as train_and_evaluate
    from ignite_strategy.local import LocalCluster as LocalCluster
    from ignite_strategy.topology import IgniteClusterResolver as IgniteClusterResolver

__version__ = "0.1.0"

_EXPORTS = {
    "IgniteClusterResolver": "ignite_strategy.topology",
    "IgniteDataset": "ignite_strategy.dataset",
    "IgniteStrategy": "ignite_strategy.estimator",
    "LocalCluster": "ignite_strategy.local",
    "accept_data_loss": "ignite_strategy.dataset",
    "gradients": "",
    "read": "ignite_strategy.dataset",
    "train_and_evaluate": "ignite_strategy.estimator",
    "write": "ignite_strategy.dataset",
}

__all__ = [
    "IgniteClusterResolver",
    "IgniteDataset",
    "IgniteStrategy",
    "LocalCluster",
    "__version__",
    "accept_data_loss",
    "gradients",
    "read",
    "train_and_evaluate",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _EXPORTS[name]
    value: Any
    value = importlib.import_module(module or f"{__name__}.{name}")  # a package of ours, or
    if module:
        value = getattr(value, name)  # what a module has
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})


_install_hook()
