"""All that ``import ignite_strategy`` runs of this package: it waits for TensorFlow, and costs next to nothing."""

from __future__ import annotations

from typing import Any

__all__ = ["install_hook"]


def install_hook() -> None:
    """Registers ``igfs://`` as soon as TensorFlow is imported; now, if it is."""
    try:
        import wrapt
    except ImportError as error:  # TensorBoard imports us for its users, who may not have asked for us
        _warn(error)
    else:
        wrapt.register_post_import_hook(_on_tensorflow, "tensorflow")


def _on_tensorflow(_module: Any) -> None:
    try:
        from ignite_strategy.filesystem.registration import register

        register()
    except Exception as error:  # whatever is wrong with us, TensorFlow's import succeeds
        _warn(error)


def _warn(error: Exception) -> None:
    import logging

    logging.getLogger(__name__).warning("igfs:// paths cannot be used in this process: %s", error)
