"""The environment of a task: a list of our own, not what the agent happened to inherit (pure but for one file)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from ignite_strategy.runtime.records import Request, TaskRequest
from ignite_strategy.settings import Endpoint
from ignite_strategy.topology.ranges import format_ranges

__all__ = ["FROM_AGENT", "PARTITIONS_VARIABLE", "task_environment"]

PARTITIONS_VARIABLE = "IGNITE_STRATEGY_PARTITIONS"
# The kernel limits one variable to 128 KiB; far below that a file is kinder to whoever looks at the process.
_LONGEST_VALUE = 16 * 1024
# How Python and its libraries are found, and where temporary files go: the operator's choice for the agent. PATH is
# not among them: a task starts nothing.
FROM_AGENT = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "TMPDIR",
    "TZ",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    # How its node is spoken to, for the tasks' datasets and igfs:// as for the agent itself.
    "IGNITE_TLS",
    "IGNITE_CAFILE",
    "IGNITE_CERTFILE",
    "IGNITE_KEYFILE",
    "IGNITE_CERT_PASSWORD",
    "IGNITE_VERIFY",
    "IGNITE_CHECK_HOSTNAME",
    "IGNITE_USERNAME",
    "IGNITE_PASSWORD",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)


def task_environment(
    request: Request,
    task: TaskRequest,
    node: Endpoint,
    folder: Path,
    inherited: Mapping[str, str] | None = None,
    cores: int | None = None,
) -> dict[str, str]:
    """Builds the environment of one task.

    Args:
      request: What the client asked for.
      task: The task.
      node: Where the task's own Ignite node listens.
      folder: Where the partition list goes if it is too long for a variable.
      inherited: The agent's environment.
      cores: Cores that the tasks of this request share.
    """
    own = os.environ if inherited is None else inherited
    count = cores or len(os.sched_getaffinity(0))
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # so that a number means the same GPU to every task
    environment |= {name: own[name] for name in FROM_AGENT if own.get(name)}
    environment.update(
        {
            "IGFS_HOST": node.host,
            "IGFS_PORT": str(node.port),
            "IGNITE_DATASET_HOST": node.host,
            "IGNITE_DATASET_PORT": str(node.port),
            # Without a GPU of its own it must not take one of another task: TensorFlow takes all of a GPU's memory.
            "CUDA_VISIBLE_DEVICES": ",".join(task.gpus) or "-1",
            "PYTHONUNBUFFERED": "1",
            "TF_CPP_MIN_LOG_LEVEL": "1",
            # Lets the server bind the port that the task holds for it.
            "TF_GRPC_REUSE_PORT": "true",
            "TF_NUM_INTRAOP_THREADS": str(max(1, count // len(request.tasks))),
            # Kernels that wait for a page of rows occupy one of these for up to a second.
            "TF_NUM_INTEROP_THREADS": str(max(4, count)),
        }
    )
    environment.update(request.environment)
    environment[PARTITIONS_VARIABLE] = _partitions(request, task, folder)
    return environment


def _partitions(request: Request, task: TaskRequest, folder: Path) -> str:
    # A task that is assigned none of a cache of the job, as a parameter server is, must not read all of it: a dataset
    # that was placed there by mistake is an error.
    caches = sorted({cache for other in request.tasks for cache in other.partitions})
    text = json.dumps(
        {
            cache: format_ranges(task.partitions[cache]) if task.partitions.get(cache) else []
            for cache in caches
        }
    )
    if len(text) <= _LONGEST_VALUE:
        return text
    path = folder / f"{task.key.type}-{task.key.index}.partitions.json"
    path.write_text(text, encoding="utf-8")
    return f"@{path}"
