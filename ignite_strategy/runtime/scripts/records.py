"""What clients and agents tell each other about users' scripts: fixed schemas, JSON, signed (pure).

=================================  ==================  ===========================================================
key                                written by          value
=================================  ==================  ===========================================================
``submitters/<job>``               client (a lease)    it waits for the script, which ends with it
``script-requests/<node>/<id>``    client              :class:`ScriptRequest` or :class:`StopRequest`, signed
``scripts/<job>``                  agent               :class:`ScriptStatus`: how the script is
``archives/<job>``                 client              :class:`ArchiveRecord`: the folder, in how many pieces
``archive-pieces/<job>/<number>``  client              one of them
=================================  ==================  ===========================================================
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ignite_strategy.errors import AuthenticationError, InvalidArgumentError
from ignite_strategy.runtime.records import Request
from ignite_strategy.runtime.schema import checked, checked_name
from ignite_strategy.runtime.scripts.archive import LIMITS
from ignite_strategy.runtime.scripts.signing import Key, Notary

__all__ = [
    "ARCHIVES",
    "ENDED",
    "SCRIPTS",
    "SUBMITTERS",
    "ArchiveRecord",
    "Program",
    "RunRequest",
    "ScriptRequest",
    "ScriptStatus",
    "StopRequest",
    "TaskPlan",
    "parse_request",
    "piece_key",
    "requests_folder",
]

SCRIPTS = "scripts"
SUBMITTERS = "submitters"
ARCHIVES = "archives"
_SCHEMA = 1
_PIECE = 256 << 10
# Command and variables, as JSON: with what an agent adds it fits into a pipe, so that no agent waits for a process to
# read it.
_LARGEST_PROGRAM = 32 << 10
# Those that a job sets itself, and those by which a process is told where its node is.
_OWN = ("TF_CONFIG", "TF_CLUSTER", "TF_WORKERS", "TF_CHIEF_SERVER", "IGNITE_STRATEGY_JOB")

ENDED = ("ended", "stopped", "failed")
_STATES = ("accepted", "starting", "running", *ENDED)


def requests_folder(node: str) -> str:
    """Where the agent of a node looks for requests to run scripts."""
    return f"script-requests/{node}"


def piece_key(job: str, number: int) -> str:
    """Where one piece of a job's archive is."""
    return f"archive-pieces/{job}/{number}"


@dataclass(frozen=True)
class ArchiveRecord:
    """A job's folder, packed.

    Attributes:
      digest: SHA-256.
      size: Bytes.
      pieces: How many entries they are in.
    """

    digest: str
    size: int
    pieces: int

    @staticmethod
    def of(digest: str, size: int) -> ArchiveRecord:
        """The record of an archive of that size."""
        return ArchiveRecord(digest, size, -(-size // _PIECE))

    @property
    def piece_size(self) -> int:
        """Bytes of every piece but the last."""
        return _PIECE

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: Any) -> ArchiveRecord:
        """The inverse; refuses what is larger than an archive may be."""
        body = checked(data, {"digest": str, "size": int, "pieces": int}, "an archive's record")
        found = ArchiveRecord(**body)
        hexadecimal = len(found.digest) == 64 and not found.digest.strip("0123456789abcdef")
        if (
            not hexadecimal
            or not 0 < found.size <= LIMITS.packed
            or found != found.of(found.digest, found.size)
        ):
            raise InvalidArgumentError(f"an archive's record does not make sense: {str(body)[:200]}")
        return found


@dataclass(frozen=True)
class Program:
    """What is run.

    Attributes:
      command: The program and its arguments.
      archive: The folder in which it runs.
      environment: Further variables for it.
    """

    command: tuple[str, ...]
    archive: ArchiveRecord
    environment: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "command": list(self.command),
            "archive": self.archive.to_json(),
            "environment": dict(self.environment),
        }

    @staticmethod
    def from_json(data: Any) -> Program:
        """The inverse.

        Raises:
          InvalidArgumentError: It is too large, or not what it should be.
        """
        body = checked(data, {"command": list, "archive": dict, "environment": dict}, "a program")
        if len(json.dumps(body)) > _LARGEST_PROGRAM:
            raise InvalidArgumentError(
                f"the command and its variables are longer than {_LARGEST_PROGRAM >> 10} KiB: use a file in the folder"
            )
        return Program(
            _checked_command(body["command"]),
            ArchiveRecord.from_json(body["archive"]),
            _checked_environment(body["environment"]),
        )

    def checked(self) -> Program:
        """Itself, refused here rather than by an agent."""
        return Program.from_json(self.to_json())


def _checked_command(words: list[Any]) -> tuple[str, ...]:
    if not words or not words[0] or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise InvalidArgumentError("a command is one or more texts without NUL, the first of them not empty")
    return tuple(words)


def _checked_environment(variables: Mapping[Any, Any]) -> dict[str, str]:
    for name, value in variables.items():
        if not (name.isascii() and name.isidentifier()) or name in _OWN:
            own = ", as the job sets it itself" if name in _OWN else ""
            raise InvalidArgumentError(f"the variable {name[:100]!r} cannot be given{own}")
        if not isinstance(value, str) or "\0" in value:
            raise InvalidArgumentError(f"the value of {name} is no text without NUL")
    return dict(variables)


@dataclass(frozen=True)
class TaskPlan:
    """Which TensorFlow tasks run beside the script: the resolver's arguments of the same names.

    Attributes:
      cache: The cache whose partitions are trained on.
      strategy: ``collective`` or ``parameter_server``: what may be restarted alone.
      layout: ``auto``, ``partition``, ``node``, or a number of replicas.
      chief: Whether the first replica is a chief task; without one the script is the chief.
      ps: Parameter servers.
      balance: ``local`` or ``even``.
      start_timeout: Until every task is reachable, in seconds.
      tasks: Whether there are any; without, the script is alone.
    """

    cache: str
    strategy: str = "collective"
    layout: str | int = "auto"
    chief: bool = True
    ps: int = 0
    balance: str = "local"
    start_timeout: int = 60
    tasks: bool = True

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: Any) -> TaskPlan:
        """The inverse."""
        kinds = {
            "cache": str,
            "strategy": str,
            "layout": (str, int),
            "chief": bool,
            "ps": int,
            "balance": str,
            "start_timeout": int,
            "tasks": bool,
        }
        return TaskPlan(**checked(data, kinds, "the tasks of a script"))


@dataclass(frozen=True)
class _Signed:
    """What every signed request says.

    Attributes:
      job: Id of the job.
      attempt: Counts from 1.
      node: The Ignite node whose agent is meant.
      instance: The run of that agent.
      expires: Until when it may be accepted, in seconds since 1970.
    """

    job: str
    attempt: int
    node: str
    instance: str
    expires: int

    kind = ""

    def body(self) -> dict[str, Any]:
        """All that is signed."""
        return {"schema": _SCHEMA, "kind": self.kind, **{name: getattr(self, name) for name in _SIGNED_KINDS}}

    def signed(self, key: Key) -> dict[str, Any]:
        """As a registry value."""
        return {**self.body(), "signature": key.sign(self.body())}


_SIGNED_KINDS = {"job": str, "attempt": int, "node": str, "instance": str, "expires": int}


@dataclass(frozen=True)
class ScriptRequest(_Signed):
    """Asks an agent to run a script.

    Attributes:
      program: What.
      plan: The tasks beside it.
      attached: It ends with its client's lease.
      client: Who asks, for people.
    """

    program: Program
    plan: TaskPlan
    attached: bool
    client: str

    kind = "start"

    def body(self) -> dict[str, Any]:
        """All that is signed."""
        return {
            **super().body(),
            "program": self.program.to_json(),
            "plan": self.plan.to_json(),
            "attached": self.attached,
            "client": self.client,
        }


@dataclass(frozen=True)
class StopRequest(_Signed):
    """Asks an agent to end a script that it runs."""

    kind = "stop"


@dataclass(frozen=True)
class RunRequest(_Signed):
    """Asks an agent to run a program once for each of its tasks, in place of TensorFlow servers.

    It is a part of :class:`~ignite_strategy.runtime.records.Request`, all of which it repeats and signs.

    Attributes:
      program: What.
      tasks: The tasks of the request, as JSON.
      variables: The variables of the request.
    """

    program: Program
    tasks: tuple[Any, ...]
    variables: Mapping[str, str]

    kind = "run"

    def body(self) -> dict[str, Any]:
        """All that is signed."""
        return {
            **super().body(),
            "program": self.program.to_json(),
            "tasks": list(self.tasks),
            "variables": dict(self.variables),
        }

    @staticmethod
    def accept(request: Request, notary: Notary) -> Program:
        """The program of a request that may be served.

        Raises:
          AuthenticationError: It may not.
          InvalidArgumentError: It is malformed.
        """
        more = {"program": dict, "tasks": list, "variables": dict}
        kinds = {"schema": int, "kind": str, **_SIGNED_KINDS, **more, "signature": str}
        body = dict(checked(request.program, kinds, "a request to run a program"))
        signature = body.pop("signature")
        if (body["schema"], body["kind"]) != (_SCHEMA, RunRequest.kind):
            raise InvalidArgumentError("a request to run a program is of a kind that is not known here")
        program = Program.from_json(body["program"])
        said = (body["job"], body["attempt"], body["tasks"], body["variables"])
        if said != (request.job, request.attempt, request.tasks_to_json(), request.environment):
            raise AuthenticationError("what is signed is another request")
        notary.check(body, signature, node=request.node)
        return program


def parse_request(data: Any) -> tuple[ScriptRequest | StopRequest, dict[str, Any], str]:
    """Reads a request.

    Returns:
      The request, what its signature is over, and the signature, which is not checked here.

    Raises:
      InvalidArgumentError: It is none.
    """
    is_start = isinstance(data, dict) and data.get("kind") == ScriptRequest.kind
    more = {"program": dict, "plan": dict, "attached": bool, "client": str} if is_start else {}
    kinds = {"schema": int, "kind": str, **_SIGNED_KINDS, **more, "signature": str}
    body = dict(checked(data, kinds, "a request to run a script"))
    signature = body.pop("signature")
    if body["schema"] != _SCHEMA or body["kind"] not in (ScriptRequest.kind, StopRequest.kind):
        raise InvalidArgumentError("a request to run a script is of a kind that this version does not know")
    checked_name(body["job"], "job id")
    common = {name: body[name] for name in _SIGNED_KINDS}
    if not is_start:
        return StopRequest(**common), body, signature
    request = ScriptRequest(
        **common,
        program=Program.from_json(body["program"]),
        plan=TaskPlan.from_json(body["plan"]),
        attached=body["attached"],
        client=body["client"][:200],
    )
    return request, body, signature


@dataclass(frozen=True)
class ScriptStatus:
    """An agent about a script that it runs or ran.

    Attributes:
      job: Id of the job.
      node: The Ignite node beside which it runs.
      host: Where that is.
      instance: The run of the agent.
      state: ``accepted``, ``starting`` (its tasks), ``running``; at the end ``ended`` (by itself), ``stopped`` or
        ``failed`` (the cluster did).
      exit: The script's exit code, negative = a signal; ``None`` if it did not end by itself.
      error: Why it failed or was stopped, in words.
      command: What is run.
      cache: The cache.
      client: Who asked.
      attached: It ends with its client.
      started: When, in seconds since 1970 by the agent's clock; for people.
      ended: The same; 0 while it runs.
      pid: The script's process; 0 before it runs.
    """

    job: str
    node: str
    host: str
    instance: str
    state: str
    exit: int | None = None
    error: str = ""
    command: tuple[str, ...] = ()
    cache: str = ""
    client: str = ""
    attached: bool = False
    started: int = 0
    ended: int = 0
    pid: int = 0

    @property
    def is_over(self) -> bool:
        """Nothing runs any more."""
        return self.state in ENDED

    def to_json(self) -> dict[str, Any]:
        """As a registry value."""
        return {"schema": _SCHEMA, **dataclasses.asdict(self), "command": list(self.command)}

    @staticmethod
    def from_json(data: Any) -> ScriptStatus:
        """The inverse; refuses everything else."""
        kinds = {
            "schema": int,
            "job": str,
            "node": str,
            "host": str,
            "instance": str,
            "state": str,
            "exit": (int, type(None)),
            "error": str,
            "command": list,
            "cache": str,
            "client": str,
            "attached": bool,
            "started": int,
            "ended": int,
            "pid": int,
        }
        body = dict(checked(data, kinds, "the status of a script"))
        if body.pop("schema") != _SCHEMA or body["state"] not in _STATES:
            raise InvalidArgumentError("the status of a script is of a kind that this version does not know")
        return ScriptStatus(**{**body, "command": tuple(map(str, body["command"]))})
