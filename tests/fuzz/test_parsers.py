"""Everything that reads what servers send, with damaged recordings of real nodes: a short run of ``make fuzz``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ignite_strategy.local import LocalCluster
from ignite_strategy.topology import caches
from tests.fuzz import record

INPUTS = int(os.environ.get("FUZZ_INPUTS", "20000"))
ROOT = Path(__file__).parents[2]

# Without a compiler cache the driver takes minutes to build.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]


def fuzz(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable}
    command = [str(ROOT / ".ci" / "fuzz"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=1180, env=environment, cwd=ROOT)


def test_damaged_recordings_of_real_nodes_do_no_harm(
    cluster: LocalCluster, fresh_name: str, tmp_path: Path
) -> None:
    """Most inputs are refused, some are still readable; the driver itself fails on anything else."""
    seeds = tmp_path / "seeds"
    try:
        assert record.save(seeds, cluster.addresses[0], fresh_name) > 100
    finally:
        client = caches.connect(cluster.addresses)
        for name in caches.cache_names(client):
            if fresh_name.lower() in name.lower():
                caches.drop_cache(client, name)
        client.close()
    done = fuzz(seeds, INPUTS)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"{INPUTS} inputs from" in done.stdout
    found = re.findall(r"(\d+) damaged inputs, (\d+) of them still readable", done.stdout)
    assert len(found) == 12
    for inputs, readable in found:
        assert 0 < int(readable) < int(inputs), done.stdout


@pytest.mark.parametrize(
    ("fault", "report"),
    [
        ("overflow", "AddressSanitizer: heap-buffer-overflow"),
        ("undefined", "runtime error: signed integer overflow"),
        ("allocation", "an allocation of"),
        ("memory", "memory in use"),
        ("busy", "busy for too long"),
        ("leak", "LeakSanitizer"),
    ],
)
def test_what_must_not_happen_is_noticed(fault: str, report: str) -> None:
    done = fuzz("--fault", fault)
    assert done.returncode not in (0, 2)
    assert report in done.stderr


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.seed").write_bytes(b"rubbish")
    done = fuzz(tmp_path, 10)
    assert done.returncode == 2
    assert "ignite_fuzz:" in done.stderr
