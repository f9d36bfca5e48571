"""What the doctor says of clusters that a test cannot build; real ones are in tests/distributed/test_overview.py."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from ignite_strategy import __version__
from ignite_strategy.errors import ConnectionFailedError
from ignite_strategy.runtime.account import TaskRecord
from ignite_strategy.runtime.records import AgentRecord, JobRecord
from ignite_strategy.settings import Credentials, Endpoint, Security, Tls
from ignite_strategy.topology.checks import Finding, Level, Patient, agents, client, examination, nodes, ports
from ignite_strategy.topology.nodes import Node
from ignite_strategy.topology.overview import AgentView, JobView, Overview

HERE = [Endpoint("127.0.0.1", 10800)]


def _patient(*tasks: TaskRecord, version: str = __version__, **changes: Any) -> Patient:
    """One node with an agent and a job."""
    agent = AgentView(AgentRecord("a", "h", 1, 1, "m", "i", version), True, True)
    job = JobView(JobRecord("job", 1, ("a",)), True, True, tasks)
    overview = Overview(1, (Node("a", ("127.0.0.1",), 10800),), (), {"a": agent}, (job,) if tasks else ())
    return Patient(HERE, overview=replace(overview, **changes))


def _task(address: str = "127.0.0.1:2222", tensorflow: str = "", index: int = 0) -> TaskRecord:
    return TaskRecord("worker", index, "a", address=address, state="serving", tensorflow=tensorflow)


def _only(findings: Any, level: Level) -> Finding:
    (found,) = [finding for finding in findings if finding.level is level]
    assert bool(found.fix) is (level in (Level.WARNING, Level.WRONG))
    return found


def test_versions() -> None:
    assert "0.0.1" in _only(agents.versions(_patient(version="0.0.1")), Level.WRONG).text
    assert __version__ in _only(agents.versions(_patient()), Level.OK).text
    mixed = _patient(_task(tensorflow="2.13.0"), _task(tensorflow="2.15.1", index=1))
    assert "2.13.0, 2.15.1 in the tasks" in _only(agents.versions(mixed), Level.WARNING).text


def test_an_agent_of_a_node_that_has_left() -> None:
    left = AgentView(AgentRecord("gone", "h9", 9, 1, "m", "i", __version__), True, True)
    seen = _patient().seen
    found = _only(agents.beside_every_node(_patient(agents={**seen.agents, "gone": left})), Level.WARNING)
    assert "gone (h9, pid 9)" in found.text


@pytest.mark.parametrize(
    ("host", "given", "level", "text"),
    [
        ("localhost", None, Level.OK, "plain text, without a user, on this host only"),
        ("10.0.0.1", None, Level.WARNING, "plain text, without a user"),
        ("10.0.0.1", Security(None, Credentials("u", "p")), Level.WARNING, "plain text, with a user"),
        ("10.0.0.1", Security(Tls()), Level.OK, "TLS, without a user"),
        ("10.0.0.1", Security(Tls(check_hostname=False)), Level.WARNING, "not checked"),
    ],
)
def test_how_nodes_are_spoken_to(host: str, given: Security | None, level: Level, text: str) -> None:
    patient = Patient([Endpoint(host, 10800)], security=given)
    assert text in _only(nodes.security(patient), level).text


def test_tasks_that_the_internet_reaches() -> None:
    """The address alone says so: nothing is connected to."""
    assert (
        "worker 0 at 8.8.8.8:2222" in _only(ports.exposed(_patient(_task("8.8.8.8:2222"))), Level.WRONG).text
    )
    assert _only(ports.exposed(_patient()), Level.SKIPPED)
    assert _only(ports.reachable(_patient()), Level.SKIPPED)


def test_no_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.importlib.util, "find_spec", lambda name: None)
    assert "there is no TensorFlow" in _only(client.dataset_ops(_patient()), Level.WARNING).text


def test_ops_that_do_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        client, "_CODE", "import os, sys; print('undefined symbol: X', file=sys.stderr); os._exit(3)"
    )
    assert "do not load: undefined symbol: X" in _only(client.dataset_ops(_patient()), Level.WRONG).text
    monkeypatch.setattr(client, "_CODE", "import time; time.sleep(60)")
    monkeypatch.setattr(client, "_LOAD_SECONDS", 0.5)
    found = _only(client.dataset_ops(_patient()), Level.WRONG)
    assert "not loaded within" in found.text
    assert sys.executable in found.fix


def test_a_check_that_fails_keeps_no_other_from_being_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(patient: Patient) -> list[Finding]:
        patient.overview = _patient().overview
        return []

    def broken(patient: Patient) -> list[Finding]:
        raise ConnectionFailedError("h:1: connection reset")

    monkeypatch.setattr(nodes, "answers", answers)
    monkeypatch.setattr(examination, "_CLUSTER", (("leases", broken), ("versions", agents.versions)))
    monkeypatch.setattr(client, "dataset_ops", lambda patient: [])
    found = list(examination.examine(Patient(HERE)))
    assert [(each.check, each.level) for each in found] == [("leases", Level.WRONG), ("versions", Level.OK)]
    assert "h:1: connection reset" in found[0].text
