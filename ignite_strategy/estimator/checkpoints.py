"""What there is in a model directory."""

from __future__ import annotations

import contextlib

import tensorflow as tf

from ignite_strategy.estimator.evaluation import step_of

__all__ = ["complete_checkpoints", "global_step_in"]


def complete_checkpoints(directory: str, keep: int) -> list[str]:
    """The checkpoints that are complete, oldest first."""
    state = tf.train.get_checkpoint_state(directory)
    if not state:
        return []
    if keep:
        return list(state.all_model_checkpoint_paths)
    # A Saver that deletes nothing notes only its latest one.
    newest = state.model_checkpoint_path
    prefix = newest.rpartition("-")[0]
    found = (name[: -len(".index")] for name in tf.io.gfile.glob(f"{prefix}-*.index"))
    older = [path for path in found if 0 <= step_of(path) < step_of(newest)]
    return [*sorted(older, key=step_of), newest]


def global_step_in(checkpoint: str) -> int:
    """The step inside a checkpoint, -1 if it cannot be read (it may just be deleted)."""
    with contextlib.suppress(tf.errors.OpError, ValueError):
        return int(tf.train.load_variable(checkpoint, "global_step"))
    return -1
