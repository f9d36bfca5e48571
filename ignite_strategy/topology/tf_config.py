"""The addresses of a TensorFlow cluster, checked, and TF_CONFIG made of them (pure).

TensorFlow finds a misspelt job or a port that is missing late and far away from the mistake; here both are errors
before anything starts. The evaluator is never a member of the cluster: others would wait for it for ever. Only the
standalone client wants to see an ``evaluator`` entry, because it starts its evaluation thread by it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Union

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.settings import parse_endpoint

__all__ = ["EVALUATOR_PLACEHOLDER", "TASK_TYPES", "ClusterLayout", "foreign_tf_config"]

TASK_TYPES = ("chief", "worker", "ps", "evaluator")
# Never contacted: evaluation runs in the client process (reference: distribute_coordinator).
EVALUATOR_PLACEHOLDER = "evaluator.invalid:1"

Addresses = Union[Sequence[str], Mapping[Any, str]]


class ClusterLayout:
    """The tasks of a cluster and their addresses.

    >>> layout = ClusterLayout({"ps": ["p:1"], "worker": {"1": "w:2"}})
    >>> layout.task_address("worker", 1)
    'w:2'

    Args:
      cluster: Job name -> addresses ``host:port``, as a list or as ``{index: address}`` (indices may be strings, as
        JSON makes them).
      require_trainer: A cluster without chief and worker is refused.

    Raises:
      InvalidArgumentError: Which is a ``ValueError``; the message names the entry.
    """

    def __init__(self, cluster: Mapping[str, Addresses], *, require_trainer: bool = True) -> None:
        if not isinstance(cluster, Mapping):
            raise InvalidArgumentError(f"a cluster is a mapping of job name -> addresses, not {cluster!r}")
        self._jobs: dict[str, dict[int, str]] = {}
        seen: dict[str, str] = {}
        for job, addresses in cluster.items():
            self._jobs[job] = _checked_job(job, addresses)
            for index, address in self._jobs[job].items():
                where = f"{job}:{index}"
                if address in seen:
                    raise InvalidArgumentError(f"duplicate address {address!r}: {seen[address]} and {where}")
                seen[address] = where
        for job in ("chief", "evaluator"):
            if len(self._jobs.get(job, ())) > 1:
                raise InvalidArgumentError(f"there can be only one {job}, not {self._jobs[job]}")
        if require_trainer and not (self._jobs.get("chief") or self._jobs.get("worker")):
            raise InvalidArgumentError(
                f"a cluster needs a chief or a worker; there are only {sorted(self._jobs)}"
            )

    @property
    def jobs(self) -> tuple[str, ...]:
        """Names of the jobs that have a task, in TensorFlow's order, without the evaluator."""
        return tuple(job for job in TASK_TYPES[:3] if self._jobs.get(job))

    def task_indices(self, task_type: str) -> tuple[int, ...]:
        """The indices of one job, sorted."""
        return tuple(sorted(self._jobs.get(task_type, ())))

    def task_address(self, task_type: str, index: int) -> str:
        """The address of one task.

        Raises:
          InvalidArgumentError: There is no such task.
        """
        try:
            return self._jobs[task_type][index]
        except KeyError:
            have = {job: list(self.task_indices(job)) for job in self._jobs}
            raise InvalidArgumentError(f"there is no task {task_type}:{index}; there are {have}") from None

    def cluster(self) -> dict[str, Any]:
        """Job -> addresses without the evaluator: a list, or ``{index: address}`` where indices are missing."""
        result: dict[str, Any] = {}
        for job in self.jobs:
            tasks = self._jobs[job]
            dense = sorted(tasks) == list(range(len(tasks)))
            result[job] = [tasks[at] for at in sorted(tasks)] if dense else dict(sorted(tasks.items()))
        return result

    def remote_cluster(self, evaluator: bool = False) -> dict[str, Any]:
        """What the standalone client's ``remote_cluster`` takes; with a placeholder for the evaluator if wanted."""
        cluster = self.cluster()
        if evaluator:
            cluster["evaluator"] = [EVALUATOR_PLACEHOLDER]
        return cluster

    def tf_config(self, task_type: str, index: int = 0, rpc_layer: str = "grpc") -> str:
        """The value of TF_CONFIG for one task, JSON.

        Args:
          task_type: ``evaluator`` is allowed although it is no member.
          index: Index of the task within its type.
          rpc_layer: Left out when it is TensorFlow's default.

        Raises:
          InvalidArgumentError: There is no such task.
        """
        if task_type not in TASK_TYPES:
            raise InvalidArgumentError(f"{task_type!r} is no task type: {', '.join(TASK_TYPES)}")
        if task_type == "evaluator":
            if index != 0:
                raise InvalidArgumentError(
                    f"there can be only one evaluator, so evaluator:{index} does not exist"
                )
        else:
            self.task_address(task_type, index)
        config: dict[str, Any] = {"cluster": self.cluster(), "task": {"type": task_type, "index": index}}
        if rpc_layer != "grpc":
            config["rpc_layer"] = rpc_layer
        return json.dumps(config)


def _checked_job(job: str, addresses: Addresses) -> dict[int, str]:
    if job not in TASK_TYPES:
        hint = " (did you mean 'worker'?)" if "work" in str(job) else ""
        raise InvalidArgumentError(f"{job!r} is no job name: use {', '.join(TASK_TYPES)}{hint}")
    if isinstance(addresses, (str, bytes)) or not isinstance(addresses, (Sequence, Mapping)):
        raise InvalidArgumentError(
            f"the addresses of {job!r} are a list or an index -> address mapping: {addresses!r}"
        )
    pairs = addresses.items() if isinstance(addresses, Mapping) else enumerate(addresses)
    return {_checked_index(job, index): _checked_address(job, index, address) for index, address in pairs}


def _checked_index(job: str, index: Any) -> int:
    if isinstance(index, int) and not isinstance(index, bool) and index >= 0:
        return index
    if isinstance(index, str) and index.isdigit():
        return int(index)
    raise InvalidArgumentError(f"{index!r} is no task index of {job!r}")


def _checked_address(job: str, index: Any, address: Any) -> str:
    if isinstance(address, str):
        try:
            parse_endpoint(address, default_port=0 if _has_no_port(address) else 1)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{job}:{index} has no usable address host:port: {error}") from None
        return address
    raise InvalidArgumentError(f"{job}:{index} has no usable address host:port: {address!r}")


def _has_no_port(address: str) -> bool:
    return not address.rpartition(":")[2].isdigit() or address.count(":") == 0


def foreign_tf_config(environment: Mapping[str, str] | None = None) -> str | None:
    """Returns why the TF_CONFIG that is set cannot stay in standalone client mode; ``None`` when it can.

    A platform often leaves one behind. TensorFlow then refuses ``remote_cluster``, or follows the variable silently.
    """
    text = (os.environ if environment is None else environment).get("TF_CONFIG", "")
    if not text.strip():
        return None
    try:
        config = json.loads(text)
    except ValueError:
        return f"TF_CONFIG is set but is not JSON: {text[:80]!r}; unset it"
    if isinstance(config, dict) and config.get("cluster"):
        return (
            f"TF_CONFIG names another cluster ({', '.join(map(str, config['cluster']))}), which TensorFlow would use "
            "instead of the Ignite cluster; unset TF_CONFIG in this process"
        )
    return None
