"""Traps of Estimator's distributed training, each an error before training starts."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

from ignite_strategy.errors import (
    ClusterError,
    ConnectionFailedError,
    InvalidArgumentError,
    UnsupportedError,
)

__all__ = [
    "check_config",
    "check_directory",
    "check_environment",
    "check_options",
    "check_size",
    "check_specs",
    "check_tensorflow",
    "check_tf_config",
    "find_python_ops",
    "require_no_python_ops",
]

KINDS = ("collective", "parameter_server", "mirrored")

_INSTALL = "pip install 'ignite-strategy[estimator]' in Python 3.9-3.11 (it brings TensorFlow 2.15)"
_DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos")
_PYTHON_OPS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
_MOST_GRAPH_BYTES = 1 << 30  # protobuf, and with it gRPC, ends at 2 GiB; training adds to it
_OURS = ("train_distribute", "eval_distribute", "experimental_distribute", "protocol")


def check_environment() -> None:
    """Raises if Estimator cannot train from this process; costs next to nothing and does not import TensorFlow.

    Raises:
      UnsupportedError: There is no TensorFlow, or it has no Estimator.
      ClusterError: TF_CONFIG describes another cluster.
    """
    check_tensorflow()
    check_tf_config()


def check_tensorflow() -> None:
    """Raises unless the installed TensorFlow has Estimator.

    Raises:
      UnsupportedError: There is no TensorFlow, or it is 2.16 or newer.
    """
    installed = _tensorflow_version()
    if installed is None:
        raise UnsupportedError(f"tf.estimator needs TensorFlow 2.13-2.15, and there is none here: {_INSTALL}")
    version = tuple(int(part) for part in installed.split(".")[:2])
    if version >= (2, 16):
        raise UnsupportedError(
            f"TensorFlow {installed} has no tf.estimator; the last release with it is 2.15: {_INSTALL}"
        )
    if version < (2, 13):
        raise UnsupportedError(f"TensorFlow {installed} is too old, 2.13-2.15 are supported: {_INSTALL}")


def _tensorflow_version() -> str | None:
    if "tensorflow" not in sys.modules:
        for name in _DISTRIBUTIONS:
            with contextlib.suppress(metadata.PackageNotFoundError):
                return metadata.version(name)
    try:
        return str(importlib.import_module("tensorflow").__version__)
    except ImportError:
        return None


def check_tf_config() -> None:
    """Raises if the environment describes another cluster.

    TensorFlow follows TF_CONFIG rather than its arguments: left over from a platform, it trains in another
    mode than asked for.

    Raises:
      ClusterError: TF_CONFIG has a cluster or a task.
    """
    text = os.environ.get("TF_CONFIG", "").strip()
    if not text:
        return
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ClusterError(
            f"the environment variable TF_CONFIG is not JSON ({error}): unset it in this process"
        ) from error
    if isinstance(found, dict) and (found.get("cluster") or found.get("task")):
        own = os.environ.get("IGNITE_STRATEGY_JOB")
        if own:
            raise ClusterError(
                f"this program is a part of job {own}, and TF_CONFIG describes the tasks of that: a script with a "
                "resolver of its own is started with 'ignite-strategy start --no-tasks'"
            )
        jobs = ", ".join(f"{job}: {tasks}" for job, tasks in dict(found.get("cluster") or {}).items())
        raise ClusterError(
            f"the environment variable TF_CONFIG describes another cluster ({jobs or 'a task only'}), "
            "and TensorFlow would follow it: "
            "this process is the client of the Ignite cluster's tasks and takes them from the resolver. "
            "Unset it (`unset TF_CONFIG`, or os.environ.pop('TF_CONFIG') before run_config)"
        )


def check_options(kind: str, arguments: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises for RunConfig arguments that would not do what they say.

    Raises:
      InvalidArgumentError: With what to write instead.
    """
    for name in _OURS:
        if arguments.get(name) is not None:
            raise InvalidArgumentError(
                f"run_config({name}=...): the resolver sets it; choose with strategy= {_one_of(KINDS)}"
            )
    unknown = sorted(set(arguments) - set(known))
    if unknown:
        raise InvalidArgumentError(
            f"run_config({unknown[0]}=...): RunConfig has no such argument; it has {_one_of(sorted(known))}"
        )
    if arguments.get("save_checkpoints_steps") and arguments.get("save_checkpoints_secs"):
        raise InvalidArgumentError(
            "run_config: give save_checkpoints_steps or save_checkpoints_secs, not both"
        )
    for name in ("save_checkpoints_steps", "save_checkpoints_secs"):
        if name in arguments and arguments[name] is not None and not arguments[name] > 0:
            raise InvalidArgumentError(
                f"run_config({name}={arguments[name]!r}): a positive number, or leave it out"
            )
    if kind == "collective":
        _check_collective(arguments)


def _check_collective(arguments: Mapping[str, Any]) -> None:
    if arguments.get("save_checkpoints_secs"):
        raise InvalidArgumentError(
            "run_config(save_checkpoints_secs=...): in collective training all workers save at the same step, "
            "and TensorFlow would replace this by every 1000 steps: use save_checkpoints_steps"
        )
    if "save_summary_steps" in arguments and not arguments["save_summary_steps"]:
        raise InvalidArgumentError(
            f"run_config(save_summary_steps={arguments['save_summary_steps']!r}): "
            "TensorFlow writes no checkpoint at all in collective training without summaries; "
            "give a number of steps, 100 for example"
        )


def _one_of(names: Iterable[str]) -> str:
    return ", ".join(map(str, names))


def check_directory(model_dir: str) -> None:
    """Creates the model directory.

    Raises:
      InvalidArgumentError: It cannot be created.
      ConnectionFailedError: The cluster that would hold it does not answer.
    """
    import tensorflow as tf

    try:
        tf.io.gfile.makedirs(model_dir)
    except tf.errors.UnavailableError as error:
        raise ConnectionFailedError(f"run_config(model_dir={model_dir!r}): {error.message}") from error
    except tf.errors.OpError as error:
        raise InvalidArgumentError(
            f"run_config(model_dir={model_dir!r}) cannot be created: {error.message}"
        ) from error


def check_config(config: Any, in_step: bool) -> None:
    """Raises for a RunConfig that was changed after ``run_config()`` so that training leaves no checkpoint.

    Raises:
      InvalidArgumentError: With what to write instead.
    """
    if not (config.save_checkpoints_steps or config.save_checkpoints_secs):
        raise InvalidArgumentError(
            "the RunConfig has neither save_checkpoints_steps nor save_checkpoints_secs: without checkpoints nothing "
            "is left of training when a task is lost, nor at its end; give run_config(save_checkpoints_steps=...)"
        )
    if in_step:
        _check_collective(
            {
                "save_checkpoints_secs": config.save_checkpoints_secs,
                "save_summary_steps": config.save_summary_steps,
            }
        )


def check_specs(train_spec: Any, eval_spec: Any) -> None:
    """Raises for specs with which training would not end, or would leave something out silently.

    Raises:
      InvalidArgumentError: With what to write instead.
    """
    if train_spec.max_steps is None:
        raise InvalidArgumentError(
            "TrainSpec(max_steps=None): a distributed run needs max_steps, with a dataset that repeats "
            "(`.repeat()`): tasks have unequal numbers of rows, and the first one at its end would stop "
            "the others or leave them without a last checkpoint"
        )
    if getattr(train_spec, "saving_listeners", None):
        raise InvalidArgumentError(
            "TrainSpec(saving_listeners=...): TensorFlow drops them in distributed training; "
            "return them from model_fn in a CheckpointSaverHook, or write a hook"
        )


def find_python_ops(graph_def: Any) -> list[str]:
    """Returns the names of the nodes of a graph that call back into the Python process which made them."""
    found = [node.name for node in graph_def.node if node.op in _PYTHON_OPS]
    for function in graph_def.library.function:
        found += [
            f"{node.name} (in {function.signature.name})"
            for node in function.node_def
            if node.op in _PYTHON_OPS
        ]
    return found


def check_size(graph_def: Any, task: str, most: int = _MOST_GRAPH_BYTES) -> None:
    """Raises if a graph is too large to be sent to a task: rows were made part of it.

    Raises:
      InvalidArgumentError: Naming its largest node.
    """
    size = graph_def.ByteSize()
    if size <= most:
        return
    nodes = [
        *graph_def.node,
        *(node for function in graph_def.library.function for node in function.node_def),
    ]
    largest = max(nodes, key=lambda node: node.ByteSize())
    raise InvalidArgumentError(
        f"the graph of {task} has {size / 1e6:,.0f} MB, {largest.ByteSize() / 1e6:,.0f} of them in {largest.name!r}: "
        f"it is sent to the task in one message, of {most / 1e6:,.0f} MB at most. Arrays that input_fn or model_fn "
        "hand to TensorFlow (from_tensor_slices, tf.constant) become part of it: put them into a cache, and read with "
        "IgniteDataset"
    )


def require_no_python_ops(graph_def: Any, task: str) -> None:
    """Raises if a graph that goes to another process needs this one's Python.

    Raises:
      UnsupportedError: Naming the nodes.
    """
    found = find_python_ops(graph_def)
    if found:
        raise UnsupportedError(
            "input_fn or model_fn uses tf.py_function, tf.numpy_function or Dataset.from_generator: "
            f"{_one_of(found[:3])}. The graph runs in the process of {task}, which has none of this program's "
            "Python, and would fail or hang there: "
            "read with IgniteDataset and transform with TensorFlow operations"
        )
