"""The environment of a user's program: from a list, as a task's, and what tells it where the cluster is (pure)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ignite_strategy.runtime.environment import FROM_AGENT
from ignite_strategy.settings import Endpoint
from ignite_strategy.topology.tf_config import ClusterLayout

__all__ = ["cluster_variables", "script_environment"]

_PATH = "/usr/local/bin:/usr/bin:/bin"
_ALSO = ("USER", "LOGNAME", "SHELL", "IGNITE_STRATEGY_ZOOKEEPER")


def script_environment(
    node: Endpoint,
    folder: Path,
    given: Mapping[str, str],
    own: Mapping[str, str],
    inherited: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Builds the environment of a program.

    Args:
      node: The Ignite node beside which it runs.
      folder: Where it runs; modules there can be imported.
      given: The user's variables.
      own: Those that the job sets.
      inherited: The agent's environment.
    """
    agents = os.environ if inherited is None else inherited
    environment = {name: agents[name] for name in (*FROM_AGENT, *_ALSO) if agents.get(name)}
    environment.update(
        {
            "IGFS_HOST": node.host,
            "IGFS_PORT": str(node.port),
            "IGNITE_DATASET_HOST": node.host,
            "IGNITE_DATASET_PORT": str(node.port),
            # "python" is the interpreter that has this package.
            "PATH": _joined(os.path.dirname(sys.executable), agents.get("PATH") or _PATH),
            "PYTHONUNBUFFERED": "1",
            "TF_CPP_MIN_LOG_LEVEL": "1",
        }
    )
    environment.update(given)
    environment["PYTHONPATH"] = _joined(str(folder), environment.get("PYTHONPATH", ""))
    environment.update(own)
    return environment


def _joined(*parts: str) -> str:
    return os.pathsep.join(part for part in parts if part)


def cluster_variables(cluster: Mapping[str, Sequence[str]], is_chief: bool = False) -> dict[str, str]:
    """What tells a script where its tasks are.

    Args:
      cluster: Job name -> addresses.
      is_chief: The script is the chief itself: no task runs there, and its own server may listen there.
    """
    layout = ClusterLayout(cluster)
    first = "chief" if "chief" in layout.jobs else "worker"
    master = "worker" if is_chief else first
    workers = [f"/job:worker/task:{index}" for index in layout.task_indices("worker")]
    variables = {
        "TF_CONFIG": layout.tf_config(first, layout.task_indices(first)[0]),
        "TF_CLUSTER": json.dumps(layout.cluster()),
        "TF_WORKERS": json.dumps(workers),
        "TF_CHIEF_SERVER": f"grpc://{layout.task_address(master, 0)}",
    }
    if is_chief:
        variables["TF_GRPC_REUSE_PORT"] = "true"  # its port is held for it
    return variables
