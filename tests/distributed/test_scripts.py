"""Scripts on real agents, through the command line: run, followed, stopped, and gone with whatever they started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from ignite_strategy.errors import AuthenticationError, InvalidArgumentError, PreconditionError
from ignite_strategy.runtime.records import AGENTS, AgentRecord
from ignite_strategy.runtime.registry import MemoryRegistry
from ignite_strategy.runtime.scripts import carry
from ignite_strategy.runtime.scripts.archive import pack
from ignite_strategy.runtime.scripts.client import Scripts
from ignite_strategy.runtime.scripts.records import (
    ARCHIVES,
    Program,
    ScriptRequest,
    TaskPlan,
    requests_folder,
)
from ignite_strategy.runtime.scripts.signing import create_key, read_key
from ignite_strategy.settings import parse_endpoints
from tests.conftest import without_ours
from tests.distributed.house import CACHE, MARK, SECONDS, House, processes

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(180)]


SCRIPT = """
import json, os, subprocess, sys, time
import helper

what = sys.argv[1]
if what == "look":
    names = ("TF_CONFIG", "TF_CLUSTER", "TF_WORKERS", "TF_CHIEF_SERVER", "IGNITE_DATASET_PORT", "IGFS_PORT", "MINE")
    print(json.dumps({**{name: os.environ.get(name) for name in names}, "folder": os.getcwd(), "helper": helper.NAME}))
    print("to standard error", file=sys.stderr)
    sys.exit(int(sys.argv[2]))
if what == "raise":
    raise ValueError("a script's own error")
if what == "steps":
    step = 0
    while not os.path.exists(sys.argv[2]):
        print("step", step, flush=True)
        step += 1
        time.sleep(0.1)
    print("last", step)
if what == "leave":  # a child, a daemon, and one that hears nothing
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", sys.argv[2]])
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", sys.argv[2]], start_new_session=True)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    subprocess.Popen([sys.executable, "-c", deaf, sys.argv[2]])
    print("started", flush=True)
    time.sleep(float(sys.argv[3]))
"""


@pytest.fixture(scope="module")
def house(scripts_house: House, tmp_path_factory: pytest.TempPathFactory) -> House:
    folder = scripts_house.folder = tmp_path_factory.mktemp("script")
    (folder / "train.py").write_text(SCRIPT)
    (folder / "helper.py").write_text("NAME = 'imported'\n")
    return scripts_house


def test_a_script_and_what_it_is_told(house: House) -> None:
    done = house.start("look", "3", options=("--env", "MINE=1 2"))
    assert done.returncode == 3, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1:] == ["to standard error"]
    told = json.loads(lines[0])
    config = json.loads(told["TF_CONFIG"])
    assert config["task"] == {"type": "chief", "index": 0}
    assert config["cluster"] == json.loads(told["TF_CLUSTER"])
    assert sorted(config["cluster"]) == ["chief", "worker"]
    assert json.loads(told["TF_WORKERS"]) == ["/job:worker/task:0"]
    assert told["TF_CHIEF_SERVER"] == f"grpc://{config['cluster']['chief'][0]}"
    assert (told["helper"], told["MINE"]) == ("imported", "1 2")
    owner = house.agents.cluster.partition_owners(CACHE)[0]
    assert told["IGNITE_DATASET_PORT"] == told["IGFS_PORT"] == str(owner.port), "the chief's node"
    assert not Path(told["folder"]).exists()
    job, error = done.stderr.splitlines()
    assert error == f"error: {job}: its script ended with exit code 3"
    house.nothing_left(job.removeprefix("job "))


def test_a_script_that_raises(house: House) -> None:
    """yahoo/TensorFlowOnSpark #32, apache/ignite's own manager: a failing script was started again for ever."""
    done = house.start("raise")
    assert done.returncode == 1
    assert done.stdout.count("ValueError: a script's own error") == 1
    assert done.stderr.splitlines()[1:] == [
        f"error: {done.stderr.split()[0]} {done.stderr.split()[1]}: its script ended with exit code 1"
    ]


def test_without_tasks_and_a_command_that_is_not_there(house: House) -> None:
    done = house.start("look", "0", options=("--no-tasks",))
    assert (done.returncode, json.loads(done.stdout.splitlines()[0])["TF_CONFIG"]) == (0, None), done.stderr
    done = house.run("start", "--no-tasks", CACHE, str(house.folder), "no-such-program", signed=True)
    assert done.returncode == 127
    assert "no-such-program: No such file or directory" in done.stderr


def test_the_script_as_chief(house: House) -> None:
    done = house.start("look", "0", options=("--no-chief", "--strategy", "parameter_server"))
    told = json.loads(done.stdout.splitlines()[0])
    config = json.loads(told["TF_CONFIG"])
    assert {kind: len(addresses) for kind, addresses in config["cluster"].items()} == {
        "chief": 1,
        "worker": 2,
        "ps": 1,
    }
    assert config["task"] == {"type": "chief", "index": 0}
    assert told["TF_CHIEF_SERVER"] == f"grpc://{config['cluster']['worker'][0]}"


def test_detached_looked_at_and_attached_to(house: House, tmp_path: Path) -> None:
    enough = tmp_path / "enough"
    job = house.detach("steps", str(enough))
    house.running(job)
    listed = house.run("ps").stdout
    assert any(line.startswith(f"{job}\trunning\t{CACHE}\t") for line in listed.splitlines()), listed
    described = house.run("describe", job).stdout
    assert f"command  python train.py steps {enough}" in described
    assert [line.split("\t")[:2] for line in described.splitlines()[-2:]] == [
        ["chief:0", "serving"],
        ["worker:0", "serving"],
    ]
    house.until(lambda: "step 5" in house.run("logs", job).stdout, "it has written something")
    assert "worker 0 serves on port" in house.run("logs", job, "worker:0").stdout
    attached = subprocess.Popen(
        house.command("attach", job), env=without_ours(os.environ), stdout=subprocess.PIPE, text=True
    )
    assert attached.stdout is not None
    attached.stdout.readline()  # perhaps a part of one
    first = int(attached.stdout.readline().split()[1])
    assert first > 5, "from where it is"
    enough.touch()
    *steps, last = attached.stdout.read().splitlines()
    assert attached.wait(SECONDS) == 0
    count = int(last.removeprefix("last "))
    assert steps == [f"step {n}" for n in range(first + 1, count)]
    assert house.run("logs", job).stdout.splitlines() == [*(f"step {n}" for n in range(count)), last]
    assert house.run("attach", job).returncode == 0, "when it is over, too"
    house.nothing_left(job)


def test_stopped_with_all_that_it_started(house: House, tmp_path: Path) -> None:
    job = house.detach("leave", MARK + "stopped", "1000")
    house.until(lambda: len(processes(MARK + "stopped")) >= 4, "all run")
    other = tmp_path / "other"
    create_key(other)
    command = [*house.command("stop"), "--key-file", str(other), job]
    refused = subprocess.run(
        command, env=without_ours(os.environ), capture_output=True, text=True, timeout=60
    )
    assert refused.returncode == 1
    assert "has another key" in refused.stderr
    assert "a key is needed" in house.run("stop", job).stderr
    assert house.scripts.status(job).state == "running"
    stopped = house.run("stop", job, signed=True)
    assert (stopped.returncode, stopped.stdout) == (0, f"job {job} has been stopped\n"), stopped.stderr
    assert processes(MARK + "stopped") == []
    house.nothing_left(job)
    attached = house.run("attach", job)
    assert (attached.returncode, attached.stderr) == (
        143,
        f"error: job {job} was stopped: somebody stopped it\n",
    )


def test_what_a_script_leaves_behind_ends_with_it(house: House) -> None:
    done = house.start("leave", MARK + "left", "0")
    assert done.returncode == 0
    assert processes(MARK + "left") == []


def the_job_of(house: House, client: subprocess.Popen[str]) -> str:
    assert client.stdout is not None
    assert client.stdout.readline() == "started\n"
    return next(each.job for each in house.scripts.all() if each.attached and each.state == "running")


def test_the_client_is_interrupted(house: House) -> None:
    client = house.begin("leave", MARK + "interrupt", "1000")
    job = the_job_of(house, client)
    client.send_signal(signal.SIGINT)
    _, errors = client.communicate(timeout=SECONDS)
    assert client.returncode == 130, errors
    assert processes(MARK + "interrupt") == []
    house.nothing_left(job)
    assert house.scripts.status(job).error == "its client has gone"


def test_the_client_of_one_and_what_runs_another_are_killed(house: House) -> None:
    """At once, because both are noticed by the end of a lease."""
    client = house.begin("leave", MARK + "client", "1000")
    attached = the_job_of(house, client)
    detached = house.detach("leave", MARK + "driver", "1000")
    house.until(lambda: len(processes(MARK + "driver")) >= 4, "all run")
    holder = psutil.Process(house.running(detached).pid).parent()
    assert holder is not None
    driver = holder.parent()
    assert driver is not None
    assert "scripts.driver" in " ".join(driver.cmdline())
    client.kill()
    driver.kill()
    house.until(lambda: not processes(MARK + "driver"), "what the driver ran is gone")
    house.nothing_left(attached, MARK + "client")
    house.nothing_left(detached, MARK + "driver")
    client.communicate(timeout=SECONDS)
    assert house.scripts.status(attached).error == "its client has gone"
    status = house.scripts.status(detached)
    assert (status.state, "SIGKILL" in status.error) == ("failed", True)
    assert house.run("attach", detached).returncode == 1


def test_what_holds_it_is_killed(house: House) -> None:
    client = house.begin("leave", MARK + "holder", "1000")
    job = the_job_of(house, client)
    holder = psutil.Process(house.running(job).pid).parent()
    assert holder is not None
    assert "holder" in " ".join(holder.cmdline())
    holder.kill()
    _, errors = client.communicate(timeout=SECONDS)
    assert client.returncode == 1
    assert "what held it was killed" in errors
    assert processes(MARK + "holder") == []
    house.nothing_left(job)


def test_the_agent_is_killed(house: House) -> None:
    job = house.detach("leave", MARK + "agent", "1000")
    house.until(lambda: len(processes(MARK + "agent")) >= 4, "all run")
    at = next(
        n
        for n, node in enumerate(house.agents.cluster.nodes)
        if str(node.node_id) == house.scripts.status(job).node
    )
    house.agents.processes[at].kill()
    house.agents.processes[at].wait()
    house.until(lambda: not processes(MARK + "agent"), "its processes are gone")
    attached = house.run("attach", job)
    assert attached.returncode == 1
    assert "has gone, and the script" in attached.stderr
    house.agents.start(at)
    house.agents.wait([at])
    house.until(lambda: house.scripts.status(job).state == "failed", "the next run of the agent says so")
    assert "the agent" in house.scripts.status(job).error
    assert house.start("look", "0").returncode == 0


# Refusals.


def request(house: House, **changes: Any) -> tuple[str, ScriptRequest]:
    """A request as the client makes it, for an archive that is there."""
    owner = house.agents.cluster.partition_owners(CACHE)[0]
    node = str(owner.node_id)
    agent = AgentRecord.from_json(house.registry.leases(AGENTS)[f"{AGENTS}/{node}"].value)
    job = f"refusal-{time.monotonic_ns()}"
    archive = carry.upload(house.registry, job, pack(house.folder))
    program = Program(("python", "train.py", "look", "0"), archive)
    plan = TaskPlan(CACHE, tasks=False)
    made = ScriptRequest(job, 1, node, agent.instance, int(time.time() + 60), program, plan, False, "test")
    return node, replace(made, **changes)


def send(house: House, node: str, value: dict[str, Any]) -> str | None:
    """Puts a request where the agent looks; why it was refused."""
    key = f"{requests_folder(node)}/{time.monotonic_ns()}"
    house.registry.put(key, value)

    def answered() -> Any:
        answer = house.registry.get(key)
        return (answer is None and {"refused": None}) or ("refused" in answer and answer)

    answer = house.until(answered, "the agent answers")
    house.registry.delete(key)
    return answer["refused"]  # type: ignore[no-any-return]


def test_replays_and_changes_are_refused(house: House) -> None:
    key = read_key(house.key_file)
    node, made = request(house)
    value = made.signed(key)
    changed = {**value, "program": {**value["program"], "command": ["python", "train.py", "look", "1"]}}
    assert "signature" in str(send(house, node, changed))
    assert "earlier run" in str(send(house, node, replace(made, instance="another").signed(key)))
    assert "expired" in str(send(house, node, replace(made, expires=int(time.time()) - 5).signed(key)))
    assert "unknown fields" in str(send(house, node, {**value, "user": "root"}))
    assert house.registry.get(f"scripts/{made.job}") is None, "nothing of this was run"
    assert send(house, node, value) is None, "and this was"
    assert "served already" in str(send(house, node, value))
    again = replace(made, expires=made.expires + 1).signed(key)  # signed anew, of a job that there is
    assert "there is a job" in str(send(house, node, again))
    assert house.scripts.wait(made.job).exit == 0
    log = house.agent_log()
    assert house.key_file.read_text().strip() not in log
    for process in psutil.process_iter(["cmdline"]):
        assert house.key_file.read_text().strip() not in " ".join(process.info["cmdline"] or [])


def test_an_archive_that_was_exchanged(house: House) -> None:
    node, made = request(house)
    other = house.folder.parent / "evil.py"
    other.write_text("print('evil')\n" + "#" * 5000)
    carry.upload(house.registry, made.job, pack(other))
    assert send(house, node, made.signed(read_key(house.key_file))) is None
    status = house.scripts.wait(made.job)
    assert status.state == "failed"
    assert status.exit is None
    assert "registry, not" in status.error or "SHA-256" in status.error
    carry.remove(house.registry, made.job)


def test_agents_that_run_no_scripts(house: House) -> None:
    """One that was started without --allow-scripts, as its record tells; it would not even look at a request."""
    node, _ = request(house)
    key = f"{AGENTS}/{node}"
    shared = MemoryRegistry()
    record = replace(AgentRecord.from_json(house.registry.leases(AGENTS)[key].value), scripts="")
    lease = shared.acquire(key, record.to_json(), 60)
    scripts = Scripts(shared, parse_endpoints(house.addresses), read_key(house.key_file))
    message = "runs no scripts: start it with --allow-scripts --key-file"
    with pytest.raises(PreconditionError, match=message), scripts.start(TaskPlan(CACHE), house.folder, ["x"]):
        raise AssertionError("it began")
    lease.release()


def test_what_is_refused_before_anything_is_sent(house: House) -> None:
    plan, before = TaskPlan(CACHE), house.registry.children(ARCHIVES)
    for error, arguments in (
        (InvalidArgumentError, {"command": [""]}),
        (InvalidArgumentError, {"command": ["x"], "environment": {"TF_CONFIG": "{}"}}),
    ):
        with pytest.raises(error), house.scripts.start(plan, house.folder, **arguments):  # type: ignore[arg-type]
            raise AssertionError("it began")
    without_key = Scripts(house.registry, parse_endpoints(house.addresses))
    with (
        pytest.raises(PreconditionError, match="IGNITE_STRATEGY_KEY_FILE"),
        without_key.start(plan, house.folder, ["x"]),
    ):
        raise AssertionError("it began")
    key = create_key(house.key_file.with_name("other"))
    other = Scripts(house.registry, parse_endpoints(house.addresses), key)
    with pytest.raises(AuthenticationError, match="another key"), other.start(plan, house.folder, ["x"]):
        raise AssertionError("it began")
    assert house.registry.children(ARCHIVES) == before
    done = house.run("start", CACHE, str(house.folder), "--detach", "python", "train.py", signed=True)
    assert (done.returncode, done.stderr) == (1, "error: --detach is no command: options go before CACHE\n")
