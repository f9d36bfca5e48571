"""Makes ``igfs://`` known to TensorFlow, whichever of TensorFlow and this package is imported first."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ignite_strategy import library, settings
from ignite_strategy.errors import AlreadyExistsError, InvalidArgumentError, PreconditionError

__all__ = ["register"]

_lock = threading.Lock()
_registered = False


def register() -> None:
    """Registers ``igfs://`` with TensorFlow; does nothing if that has happened already.

    ``import ignite_strategy`` does this by itself once TensorFlow is imported. Call it to see the error when a warning
    said that it failed.

    Raises:
      AlreadyExistsError: Another package has registered ``igfs://`` in this process.
      ImportError: TensorFlow is not installed, or the native library cannot be loaded.
    """
    global _registered
    tensorflow = importlib.import_module("tensorflow")
    with _lock:  # TensorFlow would accept the same library twice only with an error
        if _registered:
            return
        path = library.path()
        # TensorFlow makes functions for the ops of a library only while it loads it itself, the first time.
        with contextlib.suppress(PreconditionError):
            library.ops()
        try:
            tensorflow.experimental.register_filesystem_plugin(str(path))
        except tensorflow.errors.AlreadyExistsError as error:
            raise AlreadyExistsError(
                "igfs:// is registered already, by another package (tensorflow-io has an igfs:// of its own): "
                "its file system stays in use in this process"
            ) from error
        library.share_secrets()
        settings.on_default_cluster(_cluster_setter(path))
        _registered = True


def _cluster_setter(path: Path) -> Any:
    function = ctypes.CDLL(str(path)).ignite_strategy_set_default_cluster
    function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    function.restype = ctypes.c_char_p

    def set_cluster(endpoints: Sequence[settings.Endpoint], security: bytes) -> None:
        problem = function(",".join(map(str, endpoints)).encode(), security, len(security))
        if problem:
            raise InvalidArgumentError(problem.decode(errors="replace"))

    return set_cluster
