"""A TensorFlow 2 strategy takes the resolver itself: a ParameterServerStrategy, with its coordinator in the client."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.distributed.conftest import CACHE, Agents

pytestmark = [pytest.mark.distributed, pytest.mark.integration]
pytest.importorskip("tensorflow")

# In a process of its own: it changes TensorFlow's context for good.
_PROGRAM = """
import json, sys, time
import tensorflow as tf
import ignite_strategy as igs

resolver = igs.IgniteClusterResolver(sys.argv[1], sys.argv[2], strategy="parameter_server", chief=False)
with resolver.start():
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        taken = tf.Variable(0, dtype=tf.int64)
    rows = iter(coordinator.create_per_worker_dataset(lambda: igs.IgniteDataset(sys.argv[1]).repeat().batch(5)))

    @tf.function
    def step(iterator):
        taken.assign_add(tf.size(next(iterator)["key"], out_type=tf.int64))

    def read():
        return [sum(r.local_rows for r in t.readings) for t in resolver.tasks() if t.type == "worker"]

    deadline = time.monotonic() + 60
    while not all(read()) and time.monotonic() < deadline:
        for _ in range(10):
            coordinator.schedule(step, args=(rows,))
        coordinator.join()
        time.sleep(0.5)
    tasks = {
        f"{t.type} {t.index}": [t.node, [r["node"] for r in t.readers], [r["partitions"] for r in t.readers]]
        for t in resolver.tasks()
    }
    print(json.dumps({"device": taken.device, "taken": int(taken.numpy()), "tasks": tasks,
                      "map": {p: str(key) for p, key in resolver.partition_map().items()}}))
"""


def test_parameter_server_strategy(agents: Agents) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, CACHE, ",".join(agents.cluster.addresses)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["device"] == "/job:ps/replica:0/task:0/device:CPU:0"
    assert seen["taken"] > 0
    assert sorted(seen["tasks"]) == ["ps 0", "worker 0", "worker 1"]
    for partition, task in seen["map"].items():
        node, nodes, partitions = seen["tasks"][task]
        assert (nodes, partitions) == ([node], [partition]), "each reads its own partition from its own node"
    assert seen["tasks"]["ps 0"][1:] == [[], []]
