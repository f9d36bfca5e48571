"""One dataset in one graph, read by several tasks: each reads what *its* environment says."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from ignite_strategy.settings import parse_endpoint
from ignite_strategy.topology.caches import connect, create_cache, put_values

tf = pytest.importorskip("tensorflow")
from ignite_strategy.dataset import IgniteDataset  # noqa: E402

pytestmark = [pytest.mark.integration, pytest.mark.distributed]

ROWS = 200


@pytest.fixture
def cache(cluster, fresh_name):
    with closing(connect(cluster.addresses)) as client:
        create_cache(client, fresh_name, partitions=2, key="int", value="double")
        put_values(client, fresh_name, {n: n / 2 for n in range(ROWS)}, key="int", value="double")
    return fresh_name


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.create_server(("127.0.0.1", 0)))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture
def tasks(cluster, cache):
    """Two tasks, each with another node and partition in its environment; the client's target."""
    ports = free_ports(2)
    spec = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    processes = []
    try:
        for index, address in enumerate(cluster.addresses):
            host, port = parse_endpoint(address)
            environment = {
                **os.environ,
                "TF_CPP_MIN_LOG_LEVEL": "2",
                "IGNITE_DATASET_HOST": host,
                "IGNITE_DATASET_PORT": str(port),
                "IGNITE_STRATEGY_PARTITIONS": json.dumps({cache: [index]}),
            }
            command = [sys.executable, str(Path(__file__).with_name("dataset_task.py")), "worker", str(index)]
            processes.append(
                subprocess.Popen(
                    [*command, json.dumps(spec)], env=environment, stdout=subprocess.PIPE, text=True
                )
            )
        for process in processes:
            assert process.stdout.readline() == "serving\n"
        yield f"grpc://{spec['worker'][0]}"
    finally:
        for process in processes:
            process.kill()
            process.wait(10)


def drain(session, following) -> list[int]:
    mine: list[int] = []
    while True:
        try:
            mine += session.run(following).tolist()
        except tf.errors.OutOfRangeError:
            return mine


def test_each_task_reads_its_own_partition(cluster, cache, tasks):
    """The dataset is built once per task inside tf.device, as in the gradient example of the first article."""
    host, port = parse_endpoint(cluster.addresses[0])
    rows = []
    with tf.Graph().as_default():
        nexts, starts = [], []
        for index in range(2):
            with tf.device(f"/job:worker/task:{index}"):
                # The address that the client knows is wrong in the tasks, where the environment replaces it.
                dataset = IgniteDataset(cache, "127.0.0.1", 1, schema_host=host, schema_port=port).batch(16)
                iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
                starts.append(iterator.initializer)
                nexts.append(iterator.get_next()["key"])
        with tf.compat.v1.Session(tasks) as session:
            session.run(starts)
            for following in nexts:
                mine = drain(session, following)
                rows.append(mine)
    assert all(rows)
    assert sorted(rows[0] + rows[1]) == list(range(ROWS))
    assert not set(rows[0]) & set(rows[1])


def test_an_error_in_a_task_reaches_the_client(cluster, cache, tasks):
    host, port = parse_endpoint(cluster.addresses[0])
    with tf.Graph().as_default():
        with tf.device("/job:worker/task:1"):
            dataset = IgniteDataset(cache, schema_host=host, schema_port=port, partitions=[0])
            iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
            following = iterator.get_next()
        with tf.compat.v1.Session(tasks) as session:
            session.run(iterator.initializer)
            with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{cache}.*\(1\) have none in common"):
                session.run(following)
