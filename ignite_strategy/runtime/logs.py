"""Logs on an agent's host, read through the registry: whoever follows a job need not reach that host.

A reader writes what it wants to ``asks/<node>/<reader>`` and finds it at ``answers/<node>/<reader>``; both carry a
count, so that an answer is taken for the question it belongs to. Nothing is sent that nobody asks for.
"""

from __future__ import annotations

import base64
import logging
import time
import uuid
from pathlib import Path
from typing import Any

from ignite_strategy.errors import DeadlineExceededError, IgniteStrategyError
from ignite_strategy.runtime.records import parse_task_name
from ignite_strategy.runtime.registry import Registry, Value
from ignite_strategy.runtime.schema import checked, checked_name
from ignite_strategy.runtime.scripts.output import Excerpt, read_output

__all__ = ["SCRIPT", "LogReader", "LogServer"]

SCRIPT = "script"
_LARGEST = 128 << 10
_MOST_AT_ONCE = 16
_FORGET_SECONDS = 60.0
_ANSWER_SECONDS = 20.0
_POLL_SECONDS = 0.05
_KINDS = {"count": int, "job": str, "name": str, "attempt": int, "offset": int}
_log = logging.getLogger(__name__)


class LogServer:
    """The agent's side.

    Args:
      registry: Where it is asked.
      node: The agent's node.
      folder: The agent's folder.
    """

    def __init__(self, registry: Registry, node: str, folder: Path) -> None:
        self._registry = registry
        self._node = node
        self._folder = folder / "jobs"
        self._seen: dict[str, tuple[int, float]] = {}  # reader -> last count, and when that was

    def poll(self) -> None:
        """Answers what is asked; readers that are gone are forgotten."""
        asked = self._registry.children(f"asks/{self._node}")
        now = time.monotonic()
        for key, value in list(asked.items())[:_MOST_AT_ONCE]:
            reader = key.rpartition("/")[2]
            count = value.get("count")
            seen = self._seen.get(reader)
            if seen is None or seen[0] != count:
                self._seen[reader] = (count if isinstance(count, int) else -1, now)
                self._registry.put(f"answers/{self._node}/{reader}", self._answer(value))
            elif now - seen[1] > _FORGET_SECONDS:
                self._registry.delete(key)
                self._registry.delete(f"answers/{self._node}/{reader}")
        for reader in set(self._seen) - {key.rpartition("/")[2] for key in asked}:
            del self._seen[reader]

    def _answer(self, value: Value) -> dict[str, Any]:
        try:
            body = checked(value, _KINDS, "a question for a log")
            job = checked_name(body["job"], "job id")
            found = self._find(job, body["name"], body["attempt"], body["offset"])
        except IgniteStrategyError as error:
            _log.warning("a question for a log is not answered: %s", error)
            return {"count": value.get("count"), "found": False}
        if found is None:
            return {"count": body["count"], "found": False}
        data = base64.b64encode(found.data).decode()
        return {
            "count": body["count"],
            "found": True,
            "offset": found.offset,
            "data": data,
            "size": found.size,
        }

    def _find(self, job: str, name: str, attempt: int, offset: int) -> Excerpt | None:
        root = self._folder / job
        if name == SCRIPT:
            return read_output(root, SCRIPT, offset, _LARGEST)
        key = parse_task_name(name)
        there = sorted((int(p.name) for p in root.glob("[0-9]*") if p.name.isdigit()), reverse=True)
        for number in [attempt] if attempt else there:
            found = read_output(root / str(number), f"{key.type}-{key.index}", offset, _LARGEST)
            if found is not None:
                return found
        return None


class LogReader:
    """The other side, for one agent.

    Args:
      registry: Where it is met.
      node: Its node.
    """

    def __init__(self, registry: Registry, node: str) -> None:
        self._registry = registry
        self._node = node
        self._name = uuid.uuid4().hex
        self._count = 0

    def read(
        self, job: str, name: str, offset: int, seconds: float = _ANSWER_SECONDS, attempt: int = 0
    ) -> Excerpt | None:
        """Reads a part of a log.

        Args:
          job: Id of the job.
          name: ``script``, or a task: ``worker:0``.
          offset: From where; negative: so many bytes before its end.
          seconds: Limit of the wait.
          attempt: Of which attempt of a task; 0: the last one that has it.

        Returns:
          ``None`` if the agent has no such log.

        Raises:
          DeadlineExceededError: The agent does not answer.
        """
        self._count += 1
        question: Value = {
            "count": self._count,
            "job": job,
            "name": name,
            "attempt": attempt,
            "offset": offset,
        }
        self._registry.put(f"asks/{self._node}/{self._name}", question)
        until = time.monotonic() + seconds
        while True:
            answer = self._registry.get(f"answers/{self._node}/{self._name}")
            if answer is not None and answer.get("count") == self._count:
                break
            if time.monotonic() > until:
                raise DeadlineExceededError(
                    f"the agent of Ignite node {self._node} did not answer within {seconds:.0f} s when asked for the "
                    f"log of {name} of job {job}"
                )
            time.sleep(_POLL_SECONDS)
        if not answer["found"]:
            return None
        return Excerpt(int(answer["offset"]), base64.b64decode(answer["data"]), int(answer["size"]))

    def close(self) -> None:
        """Leaves nothing in the registry."""
        if self._count:
            self._registry.delete(f"asks/{self._node}/{self._name}")
            self._registry.delete(f"answers/{self._node}/{self._name}")
