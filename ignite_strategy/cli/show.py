"""What ``ps``, ``describe`` and ``logs`` print."""

from __future__ import annotations

import shlex
import sys
import time

from ignite_strategy.cli.tables import print_rows
from ignite_strategy.errors import IgniteStrategyError, NotFoundError
from ignite_strategy.runtime.logs import SCRIPT, LogReader
from ignite_strategy.runtime.readers import readings
from ignite_strategy.runtime.records import (
    AGENTS,
    JOBS,
    JobRecord,
    Request,
    Status,
    parse_task_name,
    request_key,
    status_key,
)
from ignite_strategy.runtime.registry import Registry
from ignite_strategy.runtime.scripts.records import SCRIPTS, ScriptStatus
from ignite_strategy.topology.caches import SqlResult
from ignite_strategy.topology.ranges import format_ranges

__all__ = ["job", "jobs", "log"]


def jobs(registry: Registry) -> None:
    """Prints a row for each job."""
    found = [ScriptStatus.from_json(value) for value in registry.children(SCRIPTS).values()]
    rows = [
        [each.job, _state(each), each.cache, each.host, each.client, _since(each.started), _command(each)]
        for each in sorted(found, key=lambda each: (each.started, each.job))
    ]
    known = {each.job for each in found}
    for view in registry.leases(JOBS).values():
        record = JobRecord.from_json(view.value)
        if record.job not in known:
            rows.append(
                [record.job, "running", "", record.host, "", "", f"(process {record.pid} on {record.host})"]
            )
    print_rows(SqlResult(["job", "state", "cache", "host", "client", "started", "command"], rows))


def _state(status: ScriptStatus) -> str:
    return f"{status.state} {status.exit}" if status.exit is not None else status.state


def _since(started: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started))


def _command(status: ScriptStatus) -> str:
    return shlex.join(status.command)


def job(registry: Registry, name: str) -> None:
    """Prints a job and its tasks."""
    value = registry.get(f"{SCRIPTS}/{name}")
    view = registry.leases(JOBS).get(f"{JOBS}/{name}")
    if value is None and view is None:
        raise NotFoundError(f"there is no job {name}: 'ignite-strategy ps' lists those that there are")
    if value is not None:
        status = ScriptStatus.from_json(value)
        facts = {
            "job": status.job,
            "state": _state(status),
            "error": status.error,
            "command": _command(status),
            "cache": status.cache,
            "beside": f"Ignite node {status.node} on {status.host}"
            + (f", pid {status.pid}" if status.pid else ""),
            "client": f"{status.client}{', attached' if status.attached else ''}",
            "started": _since(status.started),
            "ended": _since(status.ended) if status.ended else "",
        }
        for fact, text in facts.items():
            if text:
                print(f"{fact:8} {text}")
    if view is not None:
        record = JobRecord.from_json(view.value)
        if value is None:
            print(f"{'job':8} {name}\n{'client':8} process {record.pid} on {record.host}")
        print(f"{'attempt':8} {record.attempt}")
        print_rows(
            SqlResult(
                ["task", "state", "host", "port", "pid", "partitions", "rows"], _tasks(registry, record)
            )
        )


def _tasks(registry: Registry, record: JobRecord) -> list[list[object]]:
    rows: list[list[object]] = []
    for node in record.nodes:
        request, status = (
            registry.get(request_key(record.job, node)),
            registry.get(status_key(record.job, node)),
        )
        if request is None:
            continue
        report = Status.from_json(status) if status is not None else None
        for task in Request.from_json(request).tasks:
            partitions = "; ".join(f"{cache} {format_ranges(p)}" for cache, p in task.partitions.items())
            now = report.tasks.get(task.key) if report else None
            if report is None or now is None:
                rows.append([task.key.name, "requested", "", "", "", partitions, ""])
                continue
            read = sum(each.local_rows + each.remote_rows for each in readings(now.readers, node))
            rows.append([task.key.name, now.state, report.host, now.port, now.pid, partitions, read])
    return sorted(rows, key=lambda row: str(row[0]))


def log(registry: Registry, name: str, task: str) -> None:
    """Prints a log, from the agent that has it."""
    if task != SCRIPT:
        task = parse_task_name(task if ":" in task else task.replace(" ", ":")).name
    value = registry.get(f"{SCRIPTS}/{name}") if task == SCRIPT else None
    agents = [key.rpartition("/")[2] for key, view in registry.leases(AGENTS).items() if view.alive]
    nodes = agents if value is None else [ScriptStatus.from_json(value).node]
    problem: IgniteStrategyError | None = None
    for node in nodes:
        reader = LogReader(registry, node)
        try:
            if _copy(reader, name, task):
                return
        except IgniteStrategyError as error:
            problem = error
        finally:
            reader.close()
    raise problem or NotFoundError(
        f"no agent has a log of {task} of job {name}; each keeps those of its last 20 jobs"
    )


def _copy(reader: LogReader, name: str, task: str) -> bool:
    """Copies what there is now; what is written meanwhile would keep this from ending."""
    found = reader.read(name, task, 0)
    if found is None:
        return False
    size = found.size
    while found is not None and found.data:
        sys.stdout.buffer.write(found.data[: max(0, size - found.offset)])
        offset = found.offset + len(found.data)
        found = reader.read(name, task, offset) if offset < size else None
    sys.stdout.buffer.flush()
    return True
