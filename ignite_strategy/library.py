"""The native library inside a TensorFlow process: its dataset ops, and the counters of what it has read."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ignite_strategy import interrupts, settings
from ignite_strategy.errors import IgniteStrategyError, PreconditionError

__all__ = ["forget_owners", "load", "ops", "path", "reader_report"]

_FILE = "_tensorflow.so"
_loaded = False


def path() -> Path:
    """Where the library is: beside the extension module, which an editable install keeps elsewhere than the sources."""
    spec = importlib.util.find_spec("ignite_strategy._core")
    folder = Path(spec.origin).parent if spec and spec.origin else Path(__file__).parent
    found = folder / _FILE
    if not found.is_file():
        raise PreconditionError(f"{found} is missing: install the package again (pip install .)")
    return found


@functools.lru_cache(maxsize=1)
def ops() -> Any:
    """Registers the dataset ops with TensorFlow (which this imports) and returns the module of their functions.

    Raises:
      PreconditionError: This TensorFlow lacks a function of its C interface that the ops need.
    """
    try:
        import tensorflow as tf
    except ImportError as error:
        raise PreconditionError(
            "TensorFlow is not installed: pip install 'ignite-strategy[estimator]' (or [tensorflow] for the newest)"
        ) from error
    interrupts.install()
    module = tf.load_op_library(str(path()))
    _check_registration(tf.__version__)
    share_secrets()
    if not hasattr(module, "ignite_strategy_open"):
        # TensorFlow makes functions only for ops that are registered while it loads the library itself.
        raise PreconditionError(f"{path()} was loaded before ignite_strategy.library.ops() was called")
    return module


def load(loader: Callable[[Path], None], version: str) -> None:
    """Registers the dataset ops in a process that uses TensorFlow without its Python, as tasks do.

    Args:
      loader: Makes TensorFlow load a library of ops.
      version: TensorFlow's, for the message of an error.

    Raises:
      PreconditionError: This TensorFlow lacks a function of its C interface that the ops need.
    """
    global _loaded
    loader(path())
    _check_registration(version)
    share_secrets()
    _loaded = True


@functools.lru_cache(maxsize=1)
def share_secrets() -> None:
    """Gives the library, which must be loaded, the secrets that this process knows and all that come later."""
    put = ctypes.CDLL(str(path())).ignite_strategy_put_secrets
    put.argtypes = [ctypes.c_char_p] * 4
    put.restype = ctypes.c_bool

    def listener(key: str, *secrets: str | None) -> None:
        values = [None if secret is None else secret.encode() for secret in secrets]
        if not put(key.encode(), *values):
            raise IgniteStrategyError("no memory for a dataset's credentials")

    settings.on_secrets(listener)


def _check_registration(version: str) -> None:
    problem = ctypes.CDLL(str(path())).ignite_strategy_registration_problem
    problem.restype = ctypes.c_char_p
    text = (problem() or b"").decode("utf-8", "replace")
    if text:
        raise PreconditionError(f"the dataset ops cannot be registered with TensorFlow {version}: {text}")


def forget_owners(cache: str) -> None:
    """Lets the datasets of this process take what is in ``cache`` now as whole, whatever was lost."""
    if _loaded or ops.cache_info().currsize:
        ctypes.CDLL(str(path())).ignite_strategy_forget_owners(ctypes.c_char_p(cache.encode()))


def reader_report() -> list[dict[str, Any]]:
    """What the datasets of this process have read.

    Returns:
      One entry per pass and partition, oldest first: ``pass``, ``cache``, ``partition`` (-1 = the whole cache by one
      query), ``node_id`` (of the node that answered), ``endpoint``, ``rows`` (handed out), ``bytes`` (of their pages)
      and ``state`` (waiting, reading, done, failed, dropped). Passes of long ago are summed up per cache, partition and
      node, in entries with ``pass`` 0 and state ``summed``.
    """
    if not _loaded and ops.cache_info().currsize == 0:
        return []  # loading the library here would register its ops behind TensorFlow's back
    report = ctypes.CDLL(str(path())).ignite_strategy_reader_report
    report.restype = ctypes.c_size_t
    report.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    size = 1 << 16
    for _ in range(8):
        buffer = ctypes.create_string_buffer(size)
        need = report(buffer, size)
        if need == 0:
            break
        if need <= size:
            entries: list[dict[str, Any]] = json.loads(buffer.value)
            return entries
        size = need + (need >> 2)  # it may grow meanwhile
    raise IgniteStrategyError("the reader's report could not be had: out of memory")
