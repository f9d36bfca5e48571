"""The same ``_tensorflow.so`` in the newest TensorFlow: rows, batches, arrays, graph mode, errors."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from ignite_strategy import library
from ignite_strategy.local import LocalCluster
from ignite_strategy.settings import parse_endpoint
from ignite_strategy.topology.caches import connect, put_objects

NEWEST = os.environ.get("IGNITE_STRATEGY_NEWEST_PYTHON", "")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not Path(NEWEST).is_file(),
        reason="IGNITE_STRATEGY_NEWEST_PYTHON names no interpreter with the newest TensorFlow",
    ),
]

PROGRAM = """
import hashlib, json, sys
import tensorflow as tf
from ignite_strategy import library
from ignite_strategy.dataset import IgniteDataset, read
host, port, cache = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dataset = IgniteDataset(cache, host, port)
rows = {int(r["key"]): [int(r["val"]["n"]), r["val"]["name"].numpy().decode(), r["val"]["pix"].numpy().tolist()]
        for r in dataset}
batches = [len(b["key"]) for b in IgniteDataset(cache, host, port, columns=["key"]).batch(16)]
ragged = sum(int(b["val"]["pix"].row_lengths()[0]) for b in IgniteDataset(cache, host, port, batch_size=1))
masked = {int(r["key"]): [[t.decode() for t in r["val"]["tags"].numpy()], r["val"]["tags_mask"].numpy().tolist()]
          for r in IgniteDataset(cache, host, port, columns=["key", "val.tags"], nulls="mask")}
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    following = tf.compat.v1.data.make_one_shot_iterator(IgniteDataset(cache, host, port)).get_next()
    first = session.run(following)
try:
    list(IgniteDataset(cache, host, port, partitions=[2999]))
    error = ""
except tf.errors.OpError as failure:
    error = str(failure)
print(json.dumps({
    "tensorflow": tf.__version__, "rows": rows, "batches": batches, "ragged": ragged, "first": int(first["key"]),
    "error": error, "report": sum(e["rows"] for e in library.reader_report()),
    "masked": masked,
    "numpy": len(read(cache, host, port)["key"]),
    "library": hashlib.sha256(library.path().read_bytes()).hexdigest(),
}))
"""


def test_reads_the_same_with_the_same_binary(
    cluster: LocalCluster, one_node: str, fresh_name: str, tmp_path: Path
) -> None:
    rows = {
        n: {"n": n, "name": f"row {n}", "pix": [0.5] * (n % 3), "tags": ["a"] * (n % 2)} for n in range(40)
    }
    fields = {"n": "int", "name": "string", "pix": "float[]", "tags": "string[]"}
    with closing(connect(cluster.addresses)) as client:
        client.create_cache(fresh_name)
        put_objects(client, fresh_name, rows, fields=fields, type_name=fresh_name)
    host, port = parse_endpoint(one_node)
    done = subprocess.run(
        [NEWEST, "-c", PROGRAM, host, str(port), fresh_name],
        cwd=tmp_path,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["rows"] == {str(n): [row["n"], row["name"], row["pix"]] for n, row in rows.items()}
    assert sum(seen["batches"]) == seen["numpy"] == 40
    assert seen["ragged"] == sum(n % 3 for n in range(40))
    assert seen["masked"] == {str(n): [row["tags"], [True] * (n % 2)] for n, row in rows.items()}
    assert seen["first"] in rows
    assert f"'{fresh_name}' has no partition 2999" in seen["error"]
    assert seen["report"] >= 3 * 40
    assert seen["library"] == hashlib.sha256(library.path().read_bytes()).hexdigest()
    print(f"TensorFlow {seen['tensorflow']} ran _tensorflow.so {seen['library'][:16]}")
