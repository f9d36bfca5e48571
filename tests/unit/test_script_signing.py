"""Requests to run scripts: whatever of them is changed, late, repeated or for another agent is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ignite_strategy.errors import (
    AlreadyExistsError,
    AuthenticationError,
    InvalidArgumentError,
    NotFoundError,
)
from ignite_strategy.runtime.scripts.archive import LIMITS
from ignite_strategy.runtime.scripts.records import (
    ArchiveRecord,
    Program,
    ScriptRequest,
    ScriptStatus,
    StopRequest,
    TaskPlan,
    parse_request,
)
from ignite_strategy.runtime.scripts.signing import Key, Notary, create_key, read_key

KEY = Key(b"k" * 32)
NOW = 1_000_000.0
PROGRAM = Program(("python", "train.py"), ArchiveRecord.of("a" * 64, 300_000), {"NAME": "value"})
REQUEST = ScriptRequest(
    "digits-1", 1, "node-a", "instance-1", int(NOW) + 60, PROGRAM, TaskPlan("DIGITS"), True, "me@here"
)
STOP = StopRequest("digits-1", 1, "node-a", "instance-1", int(NOW) + 60)


def served(value: Any, notary: Notary | None = None, node: str = "node-a") -> Any:
    """As the agent does it, after the registry's JSON."""
    request, body, signature = parse_request(json.loads(json.dumps(value)))
    (notary or Notary(KEY, "instance-1", lambda: NOW)).check(body, signature, node=node)
    return request


@pytest.mark.parametrize("request_", [REQUEST, STOP], ids=["start", "stop"])
def test_a_request_as_it_should_be(request_: Any) -> None:
    assert served(request_.signed(KEY)) == request_


def changes(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every leaf."""
    if isinstance(value, dict):
        return [each for name in value for each in changes(value[name], (*path, name))]
    if isinstance(value, list):
        return [each for at in range(len(value)) for each in changes(value[at], (*path, at))]
    return [path]


OTHER = {str: lambda text: text + "x", int: lambda number: number + 1, bool: lambda truth: not truth}


@pytest.mark.parametrize("path", changes(REQUEST.signed(KEY)), ids=lambda path: ".".join(map(str, path)))
def test_each_field_is_signed(path: tuple[Any, ...]) -> None:
    value = copy.deepcopy(REQUEST.signed(KEY))
    place = value
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = OTHER[type(place[path[-1]])](place[path[-1]])
    with pytest.raises((AuthenticationError, InvalidArgumentError)):
        served(value)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("command", {"command": ["python", "train.py", "--more"]}),
        ("environment", {"environment": {"NAME": "value", "MORE": "1"}}),
        ("archive", {"archive": ArchiveRecord.of("b" * 64, 300_000).to_json()}),
    ],
)
def test_content_that_was_exchanged(name: str, more: dict[str, Any]) -> None:
    value = REQUEST.signed(KEY)
    value["program"] = {**value["program"], **more}
    with pytest.raises(AuthenticationError, match="signature"):
        served(value)


def test_a_signature_of_another_request_and_of_another_key() -> None:
    value = STOP.signed(KEY)
    with pytest.raises(AuthenticationError, match="signature"):
        served({**REQUEST.signed(KEY), "signature": value["signature"]})
    with pytest.raises(AuthenticationError, match="not by this agent's key"):
        served(REQUEST.signed(Key(b"o" * 32)))
    for nonsense in ("", "é", "0" * 64):
        with pytest.raises(AuthenticationError, match="signature"):
            served({**value, "signature": nonsense})


def test_for_another_agent_or_an_earlier_run_of_this_one() -> None:
    with pytest.raises(AuthenticationError, match="another agent"):
        served(REQUEST.signed(KEY), node="node-b")
    with pytest.raises(AuthenticationError, match="earlier run"):
        served(REQUEST.signed(KEY), Notary(KEY, "instance-2", lambda: NOW))


def test_late_requests_and_clocks_that_differ() -> None:
    with pytest.raises(AuthenticationError, match=r"expired 5 s ago.*clocks"):
        served(REQUEST.signed(KEY), Notary(KEY, "instance-1", lambda: NOW + 65))
    with pytest.raises(AuthenticationError, match=r"too long.*clocks"):
        served(REQUEST.signed(KEY), Notary(KEY, "instance-1", lambda: NOW - 3600))


def test_a_request_is_served_once() -> None:
    now = [NOW]
    notary = Notary(KEY, "instance-1", lambda: now[0])
    served(REQUEST.signed(KEY), notary)
    with pytest.raises(AuthenticationError, match="served already"):
        served(REQUEST.signed(KEY), notary)
    now[0] += 61  # what is forgotten has expired
    with pytest.raises(AuthenticationError, match="expired"):
        served(REQUEST.signed(KEY), notary)


def test_the_memory_of_requests_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ignite_strategy.runtime.scripts.signing._MOST_KNOWN", 3)
    notary = Notary(KEY, "instance-1", lambda: NOW)
    for number in range(3):
        served(StopRequest(f"job-{number}", 1, "node-a", "instance-1", int(NOW) + 60).signed(KEY), notary)
    with pytest.raises(AuthenticationError, match="more than 3"):
        served(STOP.signed(KEY), notary)


@pytest.mark.parametrize(
    "program",
    [
        {"command": []},
        {"command": [""]},
        {"command": ["a\0b"]},
        {"command": ["python", 1]},
        {"command": ["x"] * 10_000},
        {"command": ["x" * 70_000]},
        {"environment": {"TF_CONFIG": "{}"}},
        {"environment": {"IGNITE_STRATEGY_JOB": "x"}},
        {"environment": {"A=B": "x"}},
        {"environment": {"": "x"}},
        {"environment": {"A": 1}},
        {"environment": {"A": "x\0"}},
        {"environment": {"A": "x" * 40_000}},
        {"environment": {f"A{n}": "x" for n in range(5_000)}},
        {"archive": {"digest": "a" * 64, "size": 0, "pieces": 0}},
        {"archive": {"digest": "a" * 64, "size": LIMITS.packed + 1, "pieces": 129}},
        {"archive": {"digest": "a" * 64, "size": 300_000, "pieces": 1_000_000}},
        {"archive": {"digest": "../../etc/passwd", "size": 1, "pieces": 1}},
        {"archive": {"digest": "a" * 64, "size": 1, "pieces": 1, "path": "/etc"}},
        {"shell": True},
    ],
    ids=lambda program: str(program)[:50],
)
def test_programs_that_are_refused_whoever_signs_them(program: dict[str, Any]) -> None:
    value = REQUEST.body()
    value["program"] = {**value["program"], **program}
    with pytest.raises(InvalidArgumentError):
        served({**value, "signature": KEY.sign(value)})


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"kind": "run"},
        {"job": "../x"},
        {"job": "a/b"},
        {"user": "root"},
        {"attempt": "1"},
        {"plan": 1},
    ],
    ids=str,
)
def test_requests_that_are_none(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        served({**REQUEST.signed(KEY), **change})
    for nonsense in (None, [], "x", {"kind": []}):
        with pytest.raises(InvalidArgumentError):
            served(nonsense)


def test_a_status_there_and_back() -> None:
    status = ScriptStatus(
        "digits-1", "node-a", "h", "i", "ended", 3, "", ("python", "x"), "DIGITS", "me", True, 1, 2, 3
    )
    assert ScriptStatus.from_json(json.loads(json.dumps(status.to_json()))) == status
    for change in ({"state": "gone"}, {"schema": 2}, {"exit": "0"}, {"more": 1}):
        with pytest.raises(InvalidArgumentError):
            ScriptStatus.from_json({**status.to_json(), **change})


def test_a_key_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    made = create_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key(path).fingerprint == made.fingerprint
    secret = path.read_text().strip()
    assert len(secret) == 64
    assert secret not in repr(made) + made.fingerprint + repr(vars(type(made)))
    assert create_key(tmp_path / "other").fingerprint != made.fingerprint
    with pytest.raises(AlreadyExistsError, match="never overwritten"):
        create_key(path)
    assert path.read_text().strip() == secret


def test_key_files_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="ignite-strategy key"):
        read_key(tmp_path / "nothing")
    path = tmp_path / "key"
    create_key(path)
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(InvalidArgumentError, match="chmod 600"):
            read_key(path)
    path.chmod(0o600)
    for content in ("", "short", "zz" * 32, "secret-that-is-no-key\n", "ab" * 31):
        path.write_text(content)
        with pytest.raises(InvalidArgumentError, match="no key file") as raised:
            read_key(path)
        assert not content or content.strip() not in str(raised.value)
        assert raised.value.__context__ is None or content not in repr(raised.value.__context__)
    with pytest.raises(InvalidArgumentError, match="is no file"):
        read_key(tmp_path)
