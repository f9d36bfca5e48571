"""TLS, client certificates, users and passwords against real nodes, with TensorFlow 2.15 and the newest imported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ignite_strategy import errors, settings
from ignite_strategy.dataset import read
from ignite_strategy.filesystem import FileSystem
from ignite_strategy.local import LocalCluster, NodeTls
from ignite_strategy.local.probe import probe
from ignite_strategy.settings import Credentials, Security, Tls, parse_endpoint
from ignite_strategy.topology import checks, nodes
from ignite_strategy.topology.caches import connect, create_cache, put_objects, sql
from ignite_strategy.topology.clients import tls_context
from tests.certificates import STORE_PASSWORD, Authority, Pair
from tests.conftest import without_ours

pytestmark = pytest.mark.integration

NEWEST = os.environ.get("IGNITE_STRATEGY_NEWEST_PYTHON", "")
ROWS = {n: {"n": n, "name": f"row {n}", "pix": [0.5] * 3} for n in range(300)}
FIELDS = {"n": "int", "name": "string", "pix": "float[]"}
CACHE = "SECURE"
SECRET = "n0t-in-any-l0g"

# Reads with what the arguments say, in a process with TensorFlow; prints what it saw.
PROGRAM = """
import json, sys
import tensorflow as tf
from ignite_strategy import IgniteDataset
arguments = json.loads(sys.argv[1])
seen = {"tensorflow": tf.__version__}
try:
    dataset = IgniteDataset("SECURE", **arguments)
    seen["keys"] = sorted(int(row["key"]) for row in dataset)
    seen["batched"] = sum(len(batch["key"]) for batch in dataset.batch(32))
    with tf.Graph().as_default() as graph:
        tf.compat.v1.data.make_one_shot_iterator(IgniteDataset("SECURE", **arguments)).get_next()
        seen["graph"] = graph.as_graph_def().SerializeToString().decode("latin-1")
    seen["repr"] = repr(dataset)
    path = "igfs:///secret/note.txt"
    tf.io.gfile.makedirs("igfs:///secret")
    with tf.io.gfile.GFile(path, "w") as out:
        out.write("written over TLS")
    seen["file"] = tf.io.gfile.GFile(path).read()
except Exception as error:
    seen["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(seen))
"""

INTERPRETERS = [
    pytest.param(sys.executable, id="tf-2.15"),
    pytest.param(
        NEWEST,
        id="tf-newest",
        marks=pytest.mark.skipif(
            not Path(NEWEST).is_file(),
            reason="IGNITE_STRATEGY_NEWEST_PYTHON names no interpreter with the newest TensorFlow",
        ),
    ),
]


def run(python: str, arguments: dict[str, object], **variables: str) -> dict[str, object]:
    done = subprocess.run(
        [python, "-c", PROGRAM, json.dumps(arguments)],
        cwd="/",  # not in this tree: another interpreter has its own copy of the native libraries
        env={**without_ours(os.environ), "TF_CPP_MIN_LOG_LEVEL": "2", **variables},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    assert SECRET not in done.stderr + done.stdout
    return seen


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def client(authority: Authority) -> Pair:
    """The key is encrypted."""
    return authority.pair("client", password=SECRET)


@pytest.fixture(scope="module")
def encrypted(authority: Authority) -> Iterator[LocalCluster]:
    """sslEnabled."""
    # The certificate does not have the addresses that the nodes announce.
    tls = NodeTls(authority.keystore("node", ["localhost", "node-0.example"]), STORE_PASSWORD)
    security = Security(Tls(cafile=authority.cafile))
    with LocalCluster(nodes=1, tls=tls, security=security, host="localhost") as cluster:
        fill(cluster)
        yield cluster


@pytest.fixture(scope="module")
def guarded(authority: Authority, client: Pair) -> Iterator[LocalCluster]:
    """sslClientAuth, authenticationEnabled with persistence."""
    tls = NodeTls(
        authority.keystore("guarded-node"),
        STORE_PASSWORD,
        truststore=authority.truststore(),
        truststore_password=STORE_PASSWORD,
        client_auth=True,
    )
    mine = Tls(
        cafile=authority.cafile, certfile=client.certfile, keyfile=client.keyfile, cert_password=SECRET
    )
    first = Security(mine, Credentials("ignite", "ignite"))
    with LocalCluster(nodes=1, tls=tls, authentication=True, security=first, agents=True) as cluster:
        fill(cluster)
        with closing(connect(cluster.addresses, security=first)) as admin:
            sql(admin, f"CREATE USER \"reader\" WITH PASSWORD '{SECRET}'")
        yield cluster


def fill(cluster: LocalCluster) -> None:
    with closing(connect(cluster.addresses, security=cluster.security)) as admin:
        create_cache(admin, CACHE)
        put_objects(admin, CACHE, ROWS, fields=FIELDS, type_name="Secure")


def where(cluster: LocalCluster) -> dict[str, object]:
    host, port = parse_endpoint(cluster.addresses[0])
    return {"host": host, "port": port}


def igfs(cluster: LocalCluster, **more: str) -> dict[str, str]:
    host, port = parse_endpoint(cluster.addresses[0])
    return {"IGFS_HOST": host, "IGFS_PORT": str(port), **more}


Runs = dict[tuple[str, str], "Future[dict[str, object]]"]


def pythons() -> list[str]:
    return [sys.executable, *([NEWEST] if Path(NEWEST).is_file() else [])]


@pytest.fixture(scope="module")
def tls_runs(encrypted: LocalCluster, authority: Authority, two_at_a_time: ThreadPoolExecutor) -> Runs:
    """What each interpreter sees if the arguments say how, and if the environment alone does."""
    host, port = parse_endpoint(encrypted.addresses[0])
    elsewhere = {"IGNITE_DATASET_HOST": host, "IGNITE_DATASET_PORT": str(port)}
    ways = {
        "arguments": (
            {**where(encrypted), "cafile": authority.cafile},
            igfs(encrypted, IGFS_CAFILE=authority.cafile),
        ),
        "environment": ({}, igfs(encrypted, IGNITE_CAFILE=authority.cafile, **elsewhere)),
    }
    return {
        (way, python): two_at_a_time.submit(run, python, arguments, **variables)
        for way, (arguments, variables) in ways.items()
        for python in pythons()
    }


class TestTls:
    @pytest.mark.parametrize("python", INTERPRETERS)
    def test_rows_and_files(self, tls_runs, python):
        seen = tls_runs["arguments", python].result()
        assert seen.get("error") is None
        assert seen["keys"] == sorted(ROWS)
        assert seen["batched"] == len(ROWS)
        assert seen["file"] == "written over TLS"

    @pytest.mark.parametrize("python", INTERPRETERS)
    def test_the_environment_alone_is_enough(self, tls_runs, python):
        seen = tls_runs["environment", python].result()
        assert seen.get("error") is None
        assert (seen["keys"], seen["file"]) == (sorted(ROWS), "written over TLS")

    def test_errors_are_distinct(self, encrypted, authority, tmp_path):
        """Wrong CA, wrong name, no TLS: never a row, never a hang.

        pyignite 0.6.1 and tensorflow/io (legacy) accepted any certificate (BR-14).
        """
        place = where(encrypted)
        other = Authority(tmp_path, "Other CA")
        with pytest.raises(errors.AuthenticationError, match=r"unknown CA.*cafile="):
            read(CACHE, **place, security=Security(Tls(cafile=other.cafile)))
        with pytest.raises(errors.AuthenticationError, match="unknown CA"):
            read(CACHE, **place, security=Security(Tls()))
        with pytest.raises(errors.IgniteStrategyError, match="tls=True or cafile="):
            read(CACHE, **place)
        assert len(read(CACHE, **place, security=Security(Tls(verify=False)))["key"]) == len(ROWS)

    def test_a_name_that_the_certificate_does_not_have(self, encrypted, authority):
        _, port = parse_endpoint(encrypted.addresses[0])
        with pytest.raises(
            errors.AuthenticationError, match=r"not for 127\.0\.0\.1 but for localhost, node-0"
        ):
            read(CACHE, "127.0.0.1", port, security=Security(Tls(cafile=authority.cafile)))

    def test_a_plain_node_that_is_asked_for_tls(self, cluster, authority):
        host, port = parse_endpoint(cluster.addresses[0])
        with pytest.raises(errors.ConnectionFailedError, match="leave TLS off"):
            read("X", host, port, security=Security(Tls(cafile=authority.cafile)))

    def test_caches_registry_and_topology_use_it_too(self, encrypted, authority):
        from ignite_strategy.runtime.registry import IgniteRegistry

        security = Security(Tls(cafile=authority.cafile))
        with IgniteRegistry([parse_endpoint(encrypted.addresses[0])], security=security) as registry:
            registry.put("agents/x", {"a": 1})
            assert registry.get("agents/x") == {"a": 1}
        with closing(nodes.connect(encrypted.addresses, security=security)) as connection:
            assert len(nodes.discover(connection, CACHE).primaries) == 1024
        with pytest.raises(errors.AuthenticationError, match="certificate"):
            connect(encrypted.addresses, security=Security(Tls()))
        _, port = parse_endpoint(encrypted.addresses[0])
        with pytest.raises(errors.AuthenticationError, match="certificate"):
            connect([f"127.0.0.1:{port}"], security=security)  # the name is compared
        with pytest.raises(errors.ConnectionFailedError):
            connect(encrypted.addresses)

    def test_the_doctor_tells_tls_from_a_missing_node(self, encrypted, authority, tmp_path):
        command = [sys.executable, "-m", "ignite_strategy", "doctor"]
        place = parse_endpoint(encrypted.addresses[0])
        FileSystem(*place, security=Security(Tls(cafile=authority.cafile))).makedirs("/looked-at")

        def doctor(**variables: str) -> tuple[int, str]:
            done = subprocess.run(
                [*command, "--cache", CACHE, "--address", encrypted.addresses[0]],
                env={**without_ours(os.environ), **variables},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            return done.returncode, done.stdout

        code, said = doctor(IGNITE_CAFILE=authority.cafile)
        assert "security: TLS, without a user" in said
        assert re.search(r"ok +igfs: written and read", said)
        assert re.search(r"ok +partitions: all of 1 caches", said)
        assert re.search(r"ok +nodes: 1 answer", said)
        assert code == 1, "no agent runs"
        code, said = doctor(IGNITE_CAFILE=Authority(tmp_path, "Other CA").cafile)
        assert re.search(r"WRONG +security: .*unknown CA[^\n]*\n +fix: set IGNITE_CAFILE", said)
        assert code == 1
        (finding,) = checks.nodes.security(checks.Patient([place], security=Security(Tls(verify=False))))
        assert (finding.level.value, "not checked" in finding.text) == ("warning", True)

    def test_an_open_resolvers_settings_reach_datasets_and_files(self, encrypted, authority):
        endpoints = [parse_endpoint(encrypted.addresses[0])]
        with settings.use_default_endpoints(endpoints, Security(Tls(cafile=authority.cafile))):
            assert len(read(CACHE)["key"]) == len(ROWS)
            FileSystem().makedirs("/resolver")
            assert FileSystem(*endpoints[0]).exists("/resolver")
        with pytest.raises(errors.IgniteStrategyError):
            FileSystem(*endpoints[0]).exists("/resolver")


@pytest.fixture(scope="module")
def arguments(guarded: LocalCluster, authority: Authority, client: Pair) -> dict[str, object]:
    return {
        **where(guarded),
        "cafile": authority.cafile,
        "certfile": client.certfile,
        "keyfile": client.keyfile,
        "cert_password": SECRET,
        "username": "reader",
        "password": SECRET,
    }


@pytest.fixture(scope="module")
def guarded_runs(
    guarded: LocalCluster,
    authority: Authority,
    client: Pair,
    arguments: dict[str, object],
    two_at_a_time: ThreadPoolExecutor,
) -> dict[str, Future[dict[str, object]]]:
    """What each interpreter sees."""
    variables = igfs(
        guarded,
        IGFS_CAFILE=authority.cafile,
        IGFS_CERTFILE=client.certfile,
        IGFS_KEYFILE=client.keyfile,
        IGFS_CERT_PASSWORD=SECRET,
        IGFS_USERNAME="reader",
        IGFS_PASSWORD=SECRET,
    )
    return {each: two_at_a_time.submit(run, each, arguments, **variables) for each in pythons()}


class TestUsersAndClientCertificates:
    @pytest.mark.parametrize("python", INTERPRETERS)
    def test_rows_and_files(self, guarded_runs, python):
        seen = guarded_runs[python].result()
        assert seen.get("error") is None
        assert (seen["keys"], seen["file"]) == (sorted(ROWS), "written over TLS")
        assert "SECURE" in str(seen["graph"])
        assert "reader" not in str(seen["graph"]) + str(seen["repr"])

    def test_the_variables_win(self, arguments, monkeypatch):
        pytest.importorskip("tensorflow")
        from ignite_strategy.dataset import IgniteDataset

        monkeypatch.setenv("IGNITE_DATASET_USERNAME", "reader")
        monkeypatch.setenv("IGNITE_DATASET_PASSWORD", SECRET)
        dataset = IgniteDataset(CACHE, **{**arguments, "password": "wrong"})
        assert sorted(int(row["key"]) for row in dataset) == sorted(ROWS)

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"password": "wrong"}, "AuthenticationError.*check the user name"),
            ({"username": "nobody"}, "AuthenticationError.*check the user name"),
            ({"username": None, "password": None}, "AuthenticationError.*give username= and password="),
            ({"certfile": None, "keyfile": None, "cert_password": None}, "give certfile= and"),
            ({"cert_password": "wrong"}, "InvalidArgumentError.*wrong cert_password"),
        ],
    )
    def test_each_fault_has_its_own_error(self, arguments, authority, change, text):
        wanted = {name: value for name, value in {**arguments, **change}.items() if value is not None}
        host, port = wanted.pop("host"), wanted.pop("port")
        with pytest.raises(errors.IgniteStrategyError) as caught:
            read(CACHE, host, port, security=settings.security_of(**wanted))
        shown = f"{type(caught.value).__name__}: {caught.value}"
        assert re.search(text, shown), shown
        assert SECRET not in shown

    def test_an_embedded_node_that_refuses_the_user_is_not_waited_for(self, guarded, client, authority):
        mine = Tls(
            cafile=authority.cafile, certfile=client.certfile, keyfile=client.keyfile, cert_password=SECRET
        )
        host, port = parse_endpoint(guarded.addresses[0])
        context = tls_context(mine)
        assert probe(host, port, context=context, user=("reader", SECRET))[0] == guarded.nodes[0].node_id
        for user in (("reader", "wrong"), ("nobody", SECRET)):
            with pytest.raises(errors.AuthenticationError, match="user name or password is incorrect"):
                probe(host, port, context=context, user=user)

    def test_every_way_in(self, guarded, arguments):
        """Rows by query, their number, writing, several connections at a time, single partitions."""
        pytest.importorskip("tensorflow")
        import ignite_strategy as igs

        given = {name: value for name, value in arguments.items() if name not in ("host", "port")}
        security, address = settings.security_of(**given), guarded.addresses
        dataset = igs.IgniteDataset(CACHE, addresses=address, parallel_reads=2, columns=["key"], **given)
        assert dataset.num_rows() == len(ROWS)
        assert sorted(int(row["key"]) for row in dataset) == sorted(ROWS)
        parts = [
            igs.IgniteDataset(CACHE, **arguments, columns=["key"], partitions=[n, n + 1]) for n in (0, 2)
        ]
        assert sum(len(list(part)) for part in parts) < len(ROWS)
        report = igs.write("WRITTEN", {"id": [1, 2], "x": [0.5, 1.5]}, key="id", create=True, sql=True,
                           addresses=address, security=security)  # fmt: skip
        assert report.rows == 2
        found = igs.IgniteDataset.from_sql('SELECT SUM("X") AS S FROM WRITTEN', addresses=address, **given)
        assert [float(row["S"]) for row in found] == [2.0]

    def test_a_wrong_password_ends_a_pass_at_once(self, arguments):
        """Not found out by the schema, which is given, but by the op."""
        tf = pytest.importorskip("tensorflow")
        from ignite_strategy.dataset import IgniteDataset

        spec = {"key": tf.TensorSpec([], tf.int32), "val": {"n": tf.TensorSpec([], tf.int32)}}
        dataset = IgniteDataset(CACHE, **{**arguments, "password": "wrong"}, element_spec=spec)
        with pytest.raises(tf.errors.UnauthenticatedError, match="check the user name") as caught:
            next(iter(dataset))
        assert SECRET not in str(caught.value)
        assert "reader" not in str(caught.value)

    def test_administration_and_files_without_tensorflow(self, guarded, arguments):
        given = {name: value for name, value in arguments.items() if name not in ("host", "port")}
        security = settings.security_of(**given)
        with closing(connect(guarded.addresses, security=security)) as admin:
            assert sql(admin, "SELECT 1").rows == [[1]]
        with pytest.raises(errors.AuthenticationError):
            connect(guarded.addresses, security=Security(security.tls, Credentials("reader", "wrong")))
        files = FileSystem(*parse_endpoint(guarded.addresses[0]), security=security)
        files.makedirs("/a/b")
        assert files.exists("/a/b")

    def test_the_password_is_on_no_command_line_and_in_no_log(self, guarded):
        node = guarded.nodes[0]
        command = Path(f"/proc/{node.pid}/cmdline").read_text()
        assert "igs.tls.keystore" in command
        for text in (command, node.log.read_text(errors="replace")):
            assert STORE_PASSWORD not in text
            assert SECRET not in text

    def test_no_password_is_an_attribute_of_a_node(self, guarded):
        """Every client may read those; Ignite makes them of the environment."""
        with closing(connect(guarded.addresses, security=guarded.security)) as admin:
            found = sql(admin, "SELECT NAME, VALUE FROM SYS.NODE_ATTRIBUTES").rows
        assert len(found) > 10
        assert [name for name, value in found if STORE_PASSWORD in str(value) or "IGS" in name] == []

    def test_a_resolver_and_its_tasks(self, guarded, authority, client):
        """The tasks take TLS, user and password from their agent: none of it is in the graph."""
        tf = pytest.importorskip("tensorflow")
        from ignite_strategy.dataset import IgniteDataset
        from ignite_strategy.topology import IgniteClusterResolver

        tls, credentials = guarded.security.tls, guarded.security.credentials
        with IgniteClusterResolver(
            CACHE, guarded.addresses, tls=tls, credentials=credentials, layout="node"
        ) as resolver:
            resolver.start()
            with tf.Graph().as_default() as graph:
                with tf.device("/job:chief/task:0"):
                    dataset = IgniteDataset(CACHE, columns=["key"]).batch(50)
                    iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
                    following = iterator.get_next()["key"]
                    # igfs:// in the task, too
                    written = tf.io.write_file("igfs:///from-a-task.txt", "secured")
                assert SECRET not in graph.as_graph_def().SerializeToString().decode("latin-1")
                found: list[int] = []
                with tf.compat.v1.Session(resolver.master("chief", 0)) as session:
                    session.run([iterator.initializer, written])
                    for _ in range(len(ROWS) // 50):
                        found += session.run(following).tolist()
            assert sorted(found) == sorted(ROWS)
            assert FileSystem().read("/from-a-task.txt") == b"secured"
        with pytest.raises(errors.IgniteStrategyError):
            IgniteClusterResolver(CACHE, guarded.addresses).topology()

    def test_data_and_users_survive_a_restart(self, guarded, arguments):
        guarded.nodes[0].restart()
        given = {name: value for name, value in arguments.items() if name not in ("host", "port")}
        host, port = parse_endpoint(guarded.addresses[0])
        found = read(CACHE, host, port, security=settings.security_of(**given), columns=["key"])
        assert sorted(np.asarray(found["key"]).tolist()) == sorted(ROWS)
