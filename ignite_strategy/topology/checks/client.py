"""This host as a client: do the dataset ops load, can ``igfs://`` be read and written?"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable

from ignite_strategy.errors import IgniteStrategyError
from ignite_strategy.topology.checks.base import Finding, Patient, ok, skipped, some, warning, wrong

__all__ = ["dataset_ops", "igfs"]

_PREFIX, _SUFFIX = "igfs-", "-tree"
_MOST_SYSTEMS = 8
_LOAD_SECONDS = 120.0
_CODE = """
from ignite_strategy import library
library.ops()
import tensorflow
print("loaded", tensorflow.__version__)
"""


def dataset_ops(patient: Patient) -> Iterable[Finding]:
    """In a process of their own: a library that does not suit may take its process with it."""
    if importlib.util.find_spec("tensorflow") is None:
        yield warning(
            "dataset ops",
            f"there is no TensorFlow in {sys.prefix}: agents and clients need it",
            "pip install 'ignite-strategy[estimator]' (TensorFlow 2.13-2.15), or [tensorflow] for the newest",
        )
        return
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CODE],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            capture_output=True,
            text=True,
            timeout=_LOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        yield wrong(
            "dataset ops",
            f"TensorFlow was not loaded within {_LOAD_SECONDS:.0f} s",
            f"try it by hand: {sys.executable} -c 'import tensorflow'",
        )
        return
    said = done.stdout.strip().rpartition("\n")[2]
    if done.returncode == 0 and said.startswith("loaded "):
        yield ok("dataset ops", f"load in TensorFlow {said.partition(' ')[2]}")
        return
    last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    yield wrong(
        "dataset ops",
        f"do not load: {last}",
        "install the package again in this environment, with the TensorFlow that is to be used",
    )


def igfs(patient: Patient) -> Iterable[Finding]:
    """Writes, reads and removes a small file on each file system that is there. None is created."""
    systems = [
        name[len(_PREFIX) : -len(_SUFFIX)]
        for name in patient.names
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX)
    ][:_MOST_SYSTEMS]
    if not systems:
        yield skipped("igfs", "no file system yet: the first write creates it")
        return
    works = []
    for system in systems:
        try:
            works.append(f"{system} in {_try(patient, system) * 1e3:.0f} ms")
        except IgniteStrategyError as error:
            yield wrong(
                "igfs",
                f"file system {system!r}: {error}",
                "look at `ignite-strategy fs df` (memory) and `ignite-strategy fs fsck` (blocks that a lost node took)",
            )
    if len(works) == len(systems):
        yield ok("igfs", f"written and read: {some(works)}")


def _try(patient: Patient, system: str) -> float:
    from ignite_strategy.errors import DataLossError
    from ignite_strategy.filesystem import FileSystem

    endpoint = patient.endpoints[0]
    files = FileSystem(endpoint.host, endpoint.port, system, security=patient.security, backend="caches")
    path, content = f"/.doctor-{uuid.uuid4().hex}", os.urandom(4096)
    begun = time.monotonic()
    files.write(path, content)
    try:
        if files.read(path) != content:
            raise DataLossError(f"igfs://{endpoint}{path}: other bytes than were written")
    finally:
        files.remove(path)
    return time.monotonic() - begun
