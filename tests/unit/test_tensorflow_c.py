"""A task's server definition is, byte for byte, one that TensorFlow's own protobuf reads; its C interface is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.runtime.tensorflow_c import server_def
from ignite_strategy.topology.assignment import TaskKey

LEADER = "/job:chief/replica:0/task:0"
MANY = {
    "chief": ["h:1"],
    "worker": [f"host-{i}.example.org:{20000 + i}" for i in range(300)],
    "ps": ["[fd00::5]:7"],
}


@pytest.mark.parametrize(
    "task", [TaskKey("chief", 0), TaskKey("worker", 0), TaskKey("worker", 299), TaskKey("ps", 0)]
)
@pytest.mark.parametrize("cluster", [MANY])
def test_tensorflow_reads_the_definition(cluster: dict[str, list[str]], task: TaskKey) -> None:
    tf = pytest.importorskip("tensorflow")
    definition = tf.train.ServerDef.FromString(server_def(cluster, task, LEADER))
    assert tf.train.ClusterSpec(definition.cluster).as_dict() == cluster
    assert (definition.job_name, definition.task_index, definition.protocol) == (
        task.type,
        task.index,
        "grpc",
    )
    assert definition.default_session_config.experimental.collective_group_leader == LEADER
    # Nothing beyond what tf.distribute.Server itself would send.
    expected = tf.train.ServerDef(
        cluster=tf.train.ClusterSpec(cluster).as_cluster_def(),
        job_name=task.type,
        task_index=task.index,
        protocol="grpc",
        default_session_config=tf.compat.v1.ConfigProto(
            experimental=tf.compat.v1.ConfigProto.Experimental(collective_group_leader=LEADER)
        ),
    )
    assert definition == expected


@pytest.mark.parametrize("task", [TaskKey("worker", 1), TaskKey("ps", 0)])
def test_a_task_that_is_not_in_the_cluster(task: TaskKey) -> None:
    with pytest.raises(InvalidArgumentError, match=str(task)):
        server_def({"worker": ["h:1"]}, task, LEADER)


_SERVER = """
import os, sys
os.environ["TF_GRPC_REUSE_PORT"] = "true"
from ignite_strategy.runtime.ports import HeldPort, is_reachable
from ignite_strategy.runtime.task import _load, _serve
from ignite_strategy.settings import Endpoint
from ignite_strategy.topology.assignment import TaskKey
port, here = HeldPort(), "127.0.0.1"
assert "refused" in is_reachable(Endpoint(here, port.port), 1)
_serve(_load(), {"worker": [f"{here}:{port.port}"]}, TaskKey("worker", 0), port)
assert is_reachable(Endpoint(here, port.port), 1) is None
print("tensorflow" in sys.modules)
sys.stdout.flush()
os._exit(0)
"""


def test_a_server_on_a_held_port_without_tensorflows_python() -> None:
    result = subprocess.run([sys.executable, "-c", _SERVER], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout.strip()) == (0, "False"), result.stderr
