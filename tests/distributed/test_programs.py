"""``ignite-strategy run``: a program for each task, its end, and its healing; and the examples for each mode."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from ignite_strategy.errors import AuthenticationError
from ignite_strategy.local import LocalCluster
from ignite_strategy.runtime.records import AGENTS, Request, TaskRequest
from ignite_strategy.runtime.scripts.records import ArchiveRecord, Program, RunRequest
from ignite_strategy.runtime.scripts.signing import Key, Notary
from ignite_strategy.settings import parse_endpoint
from ignite_strategy.topology.assignment import TaskKey
from ignite_strategy.topology.caches import connect, create_cache
from tests.conftest import without_ours
from tests.distributed.house import CACHE, MARK, SECONDS, House, processes

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"
NEWEST = os.environ.get("IGNITE_STRATEGY_NEWEST_PYTHON", "")

PROGRAM = """
import json, os, signal, sys, time

config, (what, *more) = json.loads(os.environ["TF_CONFIG"]), sys.argv[1:]
task = config["task"]["type"]
if what == "look":
    names = ("IGNITE_STRATEGY_PARTITIONS", "IGNITE_DATASET_PORT", "MINE", "PYTHONPATH")
    print(json.dumps({"config": config, **{name: os.environ.get(name) for name in names}}), flush=True)
    if task != "chief":
        time.sleep(1000)  # as a server that never ends
if what == "raise":
    if task == "worker":
        raise ValueError("a program's own error")
    time.sleep(1000)
if what == "die":  # so often, then end well
    print(f"{task} begins", flush=True)
    with open(f"{more[0]}-{task}", "a+") as file:
        file.write("x")
        file.flush()
        begun = file.tell()
    if begun > int(more[1]):
        sys.exit(0)
    if task == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.3)
    sys.exit(1)  # as TensorFlow does when another is gone
if what == "until":
    print(os.environ["IGNITE_STRATEGY_PARTITIONS"], flush=True)
    while not os.path.exists(more[0]):
        time.sleep(0.1)
if what == "wait":
    time.sleep(1000)
"""


@pytest.fixture(scope="module")
def house(scripts_house: House, tmp_path_factory: pytest.TempPathFactory) -> House:
    folder = scripts_house.folder = tmp_path_factory.mktemp("program")
    (folder / "member.py").write_text(PROGRAM)
    return scripts_house


def run(house: House, *program: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return house.run("run", *options, CACHE, str(house.folder), "python", "member.py", *program, signed=True)


def lines(done: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    """What each program has written."""
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, _, text = line.removeprefix("[").partition("] ")
        found.setdefault(name, []).append(text)
    return found


def test_a_program_for_each_task(house: House) -> None:
    options = ("--strategy", "coordinator", "--env", "MINE=1 2")
    done = run(house, "look", options=options)
    assert done.returncode == 0, done.stderr
    job = done.stderr.split()[1].rstrip(":")
    said = {name: json.loads(text[0]) for name, text in lines(done).items()}
    assert sorted(said) == ["chief:0", "ps:0", "worker:0", "worker:1"]
    cluster = said["chief:0"]["config"]["cluster"]
    assert {kind: len(each) for kind, each in cluster.items()} == {"chief": 1, "worker": 2, "ps": 1}
    owners = house.agents.cluster.partition_owners(CACHE)
    for name, told in said.items():
        kind, _, index = name.partition(":")
        assert told["config"] == {"cluster": cluster, "task": {"type": kind, "index": int(index)}}
        assert told["MINE"] == "1 2"
        reads = json.loads(told["IGNITE_STRATEGY_PARTITIONS"])[CACHE]
        if kind == "worker":
            assert told["IGNITE_DATASET_PORT"] == str(owners[int(reads)].port), "its partition's own node"
        else:
            assert reads == [], "neither the chief nor a server reads"
    assert {json.loads(said[f"worker:{n}"]["IGNITE_STRATEGY_PARTITIONS"])[CACHE] for n in (0, 1)} == {
        "0",
        "1",
    }
    house.until(lambda: not processes(job), "nothing runs")
    assert list(house.agents.folder.glob(f"agent-*/scripts/{job}*")) == []
    assert house.registry.get_many([f"archives/{job}", f"archive-pieces/{job}/0", f"jobs/{job}"]) == {}


def test_a_program_that_raises(house: House) -> None:
    done = run(house, "raise")
    assert done.returncode == 1
    assert sum("ValueError: a program's own error" in line for line in lines(done)["worker:0"]) == 1
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "worker 0" in errors[0]
    assert "ended with exit code 1" in errors[0]
    assert "started again" not in done.stderr


def test_a_program_that_is_killed_and_others_that_fail_with_it(house: House, tmp_path: Path) -> None:
    """The errors of the others are a consequence: all are started again, together."""
    done = run(house, "die", str(tmp_path / "twice"), "2")
    assert done.returncode == 0, done.stderr
    assert lines(done) == {"chief:0": ["chief begins"] * 3, "worker:0": ["worker begins"] * 3}
    assert done.stderr.count("was killed by SIGKILL") == 2
    assert "Attempt 3: all tasks are started again" in done.stderr


def test_a_program_that_always_dies(house: House, tmp_path: Path) -> None:
    done = run(house, "die", str(tmp_path / "always"), "1000", options=("--restarts", "1"))
    assert done.returncode == 1
    assert (tmp_path / "always-worker").read_text() == "xx"
    assert done.stderr.splitlines()[-1].startswith("error: ") or "SIGKILL" in done.stderr


def test_the_client_is_interrupted_and_an_agent_killed(house: House) -> None:
    mark = MARK + "waiting"
    command = house.command("run", CACHE, str(house.folder), "python", "member.py", "wait", mark, signed=True)
    client = subprocess.Popen(command, env=without_ours(os.environ), stderr=subprocess.PIPE, text=True)
    try:
        before = house.until(
            lambda: len(found := processes(mark)) == 3 and found, "the client and both programs run"
        )
        agent = house.agents.processes[1]
        agent.kill()
        agent.wait()
        house.agents.start(1)  # as its supervisor would
        house.until(
            lambda: len(now := processes(mark)) == 3 and set(now) & set(before) == {client.pid},
            "both run anew",
        )
        client.send_signal(signal.SIGINT)
        _, errors = client.communicate(timeout=SECONDS)
    finally:
        client.kill()
    assert client.returncode == 130, errors
    assert "agent" in errors
    house.until(lambda: not processes(mark), "nothing runs")


def test_a_lost_node(house: House) -> None:
    """Its partitions are others' then, and so is the work; also if it is the node that was named."""
    with LocalCluster(nodes=2, agents=True, scripts=house.key_file) as own:
        with contextlib.closing(connect(own.addresses)) as client:
            create_cache(client, CACHE, partitions=2, backups=1)
        flag = house.folder.parent / f"{MARK}-go"
        command = [sys.executable, "-m", "ignite_strategy", "run", "--address", own.addresses[0]]
        command += [
            "--key-file",
            str(house.key_file),
            CACHE,
            str(house.folder),
            "python",
            "member.py",
            "until",
            str(flag),
        ]
        client = subprocess.Popen(
            command, env=without_ours(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert client.stdout is not None
            first = sorted(client.stdout.readline() for _ in range(2))
            own.nodes[0].kill()
            line = client.stdout.readline()
            flag.touch()
            _, errors = client.communicate(timeout=SECONDS)
        finally:
            client.kill()
        assert client.returncode == 0, errors
        assert [each.split()[0] for each in first] == ["[chief:0]", "[worker:0]"]
        assert line == '[chief:0] {"SCRIPTS": "0-1"}\n', "one program is left, and reads all"
        assert "has left the cluster" in errors or "is gone" in errors


# Refusals.

KEY = Key(b"k" * 32)


def signed(**changes: Any) -> Request:
    tasks = (TaskRequest(TaskKey("worker", 0), {CACHE: (0,)}),)
    request = Request("job-1", 1, "node-a", tasks, {"TF_CPP_MIN_LOG_LEVEL": "1"})
    program = Program(("python", "x.py"), ArchiveRecord.of("a" * 64, 10))
    body = RunRequest(
        "job-1",
        1,
        "node-a",
        "i",
        int(time.time()) + 60,
        program,
        tuple(request.tasks_to_json()),
        request.environment,
    ).signed(KEY)
    return Request.from_json({**request.to_json(), "program": body, **changes})


def test_a_request_is_signed_as_a_whole() -> None:
    notary = Notary(KEY, "i")
    assert RunRequest.accept(signed(), notary).command == ("python", "x.py")
    with pytest.raises(AuthenticationError, match="served already"):
        RunRequest.accept(signed(), notary)
    task = {"task": "worker:0", "partitions": {CACHE: "0"}, "attempt": 1, "port": 0}
    for change in (
        {"job": "job-2"},
        {"attempt": 2},
        {"tasks": [{**task, "partitions": {CACHE: "0-1"}}]},
        {"tasks": [task, {**task, "task": "worker:1"}]},
        {"environment": {}},
    ):
        with pytest.raises(AuthenticationError, match="another request"):
            RunRequest.accept(signed(**change), Notary(KEY, "i"))
    with pytest.raises(AuthenticationError, match="another agent"):
        RunRequest.accept(signed(node="node-b"), Notary(KEY, "i"))
    with pytest.raises(AuthenticationError, match="signature"):
        RunRequest.accept(signed(), Notary(Key(b"o" * 32), "i"))


def test_an_agent_refuses_what_is_not_signed(house: House) -> None:
    """Sent as a client would, past the checks of this package's own."""
    node = next(key.rpartition("/")[2] for key in house.registry.leases(AGENTS))
    request = signed()
    body = {**request.to_json(), "job": "forged-1", "node": node}
    body["program"] = {**body["program"], "job": "forged-1", "node": node}
    house.registry.put(f"request/forged-1/{node}", body)
    record = {
        "schema": 1,
        "job": "forged-1",
        "attempt": 1,
        "nodes": [node],
        "closing": False,
        "host": "",
        "pid": 0,
    }
    lease = house.registry.acquire("jobs/forged-1", record, 15)
    try:
        status = house.until(lambda: house.registry.get(f"status/forged-1/{node}"), "the agent answers")
    finally:
        lease.release()
        house.registry.delete(f"request/forged-1/{node}")
    assert "signature is not by this agent's key" in status["refused"]
    assert status["tasks"] == {}


# The examples, with TensorFlow.


@pytest.fixture(scope="module")
def digits(scripts_house: House) -> House:
    pytest.importorskip("tensorflow")
    pytest.importorskip("sklearn")
    scripts_house.folder = EXAMPLES
    import runpy

    runpy.run_path(str(EXAMPLES / "digits.py"))["load"](*parse_endpoint(scripts_house.addresses[0]))
    return scripts_house


def example(house: House, command: str, *program: str, options: tuple[str, ...] = ()) -> Any:
    arguments = (*options, "--start-timeout", "120", "DIGITS", str(EXAMPLES), *program)
    return subprocess.run(
        house.command(command, *arguments, signed=True),
        env=without_ours(os.environ),
        capture_output=True,
        text=True,
        timeout=280,
    )


def test_a_script_whose_tasks_count_their_rows(digits: House) -> None:
    done = example(digits, "start", "python", "rows.py")
    assert done.returncode == 0, done.stdout + done.stderr
    *counts, together = done.stdout.splitlines()[-3:]
    assert together == "together: 1797"
    assert [int(line.split()[1]) > 700 for line in counts] == [True, True]


def test_keras_and_a_worker_that_is_killed(digits: House) -> None:
    command = digits.command(
        "run", "DIGITS", str(EXAMPLES), "python", "keras_workers.py", "igfs:///keras", signed=True
    )
    client = subprocess.Popen(
        command, env=without_ours(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert client.stdout is not None
    seen = []
    for line in client.stdout:
        seen.append(line.rstrip("\n"))
        if line.startswith("[chief:0] epoch 1 "):
            break
    victim = next(
        process
        for process in psutil.process_iter(["cmdline", "cwd"])
        if "keras_workers.py" in (process.info["cmdline"] or []) and "worker-0" in (process.info["cwd"] or "")
    )
    victim.kill()
    rest, errors = client.communicate(timeout=250)
    story = "\n".join([*seen, rest, errors])
    assert client.returncode == 0, story
    assert "worker 0" in errors
    assert "was killed by SIGKILL" in errors
    again = [line for line in rest.splitlines() if "begins with epoch" in line]
    assert {line.rpartition(" ")[2] for line in again} <= {"1", "2", "3", "4", "5"}, story
    assert len(again) == 2, "both are started again, and go on where the checkpoint is"
    assert sum("done after epoch 5" in line for line in rest.splitlines()) == 2, story


def test_estimator_between_graphs(digits: House) -> None:
    options = ("--strategy", "parameter_server", "--evaluator")
    done = example(digits, "run", "python", "estimator.py", "igfs:///between", options=options)
    assert done.returncode == 0, done.stdout + done.stderr
    found = next(line for line in done.stdout.splitlines() if line.startswith("[evaluator:0] step "))
    assert float(found.rpartition(" ")[2]) > 0.85
    assert "[worker:0] worker 0 done" in done.stdout


def test_a_coordinator(digits: House) -> None:
    """With the newest TensorFlow where there is one; the agents have another."""
    python = NEWEST if Path(NEWEST).is_file() else "python"
    done = example(digits, "run", python, "coordinator.py", options=("--strategy", "coordinator"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = next(
        line for line in done.stdout.splitlines() if line.startswith("[chief:0] done with 2 workers")
    )
    assert float(found.rpartition(" ")[2]) > 0.85
