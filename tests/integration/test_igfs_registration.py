"""igfs:// is there whichever of TensorFlow and this package is imported first, and never in TensorFlow's way."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from ignite_strategy import library
from ignite_strategy.settings import parse_endpoint
from tests.conftest import without_ours

pytestmark = pytest.mark.integration
NEWEST = os.environ.get("IGNITE_STRATEGY_NEWEST_PYTHON", "")

ORDERS = {
    "ours first": "import ignite_strategy\nassert 'tensorflow' not in sys.modules\nimport tensorflow as tf",
    "tensorflow first": "import tensorflow as tf\nimport ignite_strategy\n"
    "ignite_strategy.filesystem.register()\nignite_strategy.filesystem.register()",
    "a submodule of tensorflow first": "import ignite_strategy\nfrom tensorflow.python.lib.io import file_io\n"
    "import tensorflow as tf",
    "in another thread": "import ignite_strategy, threading\n"
    "thread = threading.Thread(target=__import__, args=['tensorflow'])\nthread.start()\nthread.join()\n"
    "import tensorflow as tf",
}
SEED = """
with tf.io.gfile.GFile("igfs:///hello.txt", mode="w") as w:
    w.write("Hello, world!")
with tf.io.gfile.GFile("igfs:///hello.txt", mode="r") as r:
    print(r.read())
"""


def run(code: str, one_node: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    host, port = parse_endpoint(one_node)
    environment = {**without_ours(os.environ), "IGFS_HOST": host, "IGFS_PORT": str(port)}
    return subprocess.run(
        [python, "-c", f"import sys\n{code}"],
        env={**environment, "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )


Runs = dict[str, "Future[subprocess.CompletedProcess[str]]"]


@pytest.fixture(scope="module")
def runs(one_node: str, two_at_a_time: ThreadPoolExecutor, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The programs of the tests below."""
    other = tmp_path_factory.mktemp("other") / "other.so"
    other.write_bytes(library.path().read_bytes())
    programs = {
        order: (code + SEED.replace("hello", f"hello-{number}"),)
        for number, (order, code) in enumerate(ORDERS.items())
    }
    programs |= {
        "broken": (BROKEN,),
        "another": (ANOTHER.replace("OTHER", repr(str(other))),),
        "calls": (CALLS,),
    }
    if Path(NEWEST).is_file():
        programs["newest"] = (NEWEST_CODE.replace("sys.argv[1]", repr(str(library.path()))), NEWEST)
    return {
        name: two_at_a_time.submit(run, code, one_node, *python) for name, (code, *python) in programs.items()
    }


@pytest.mark.parametrize("order", ORDERS)
def test_the_first_seeds_example_runs_in_every_order_of_imports(order: str, runs: Runs) -> None:
    ended = runs[order].result()
    assert ended.stdout == "Hello, world!\n", ended.stderr
    assert ended.returncode == 0
    assert "igfs:// paths cannot be used" not in ended.stderr


BROKEN = """
import ignite_strategy.library
def missing():
    raise OSError("the library is missing: install it again")
ignite_strategy.library.path = missing
import tensorflow as tf
print(int(tf.constant(1) + 1))
try:
    tf.io.gfile.GFile("igfs:///hello.txt").read()
except tf.errors.UnimplementedError as error:
    print("igfs" in str(error))
"""


def test_a_broken_part_of_ours_does_not_break_tensorflow(runs: Runs) -> None:
    ended = runs["broken"].result()
    assert ended.stdout == "2\nTrue\n", ended.stderr
    assert "igfs:// paths cannot be used in this process: the library is missing" in ended.stderr


ANOTHER = """
import tensorflow as tf
tf.experimental.register_filesystem_plugin(OTHER)
import ignite_strategy
from ignite_strategy import filesystem, errors
try:
    filesystem.register()
except errors.AlreadyExistsError as error:
    print(error)
"""


def test_another_packages_igfs_is_left_in_place(runs: Runs) -> None:
    """tensorflow-io brings an igfs:// of its own; here a copy of our library plays its part."""
    ended = runs["another"].result()
    assert "by another package" in ended.stdout, ended.stderr
    assert ended.returncode == 0
    assert "igfs:// paths cannot be used in this process" in ended.stderr


# Each with the exceptions that are right for it, on any file system.
CALLS = """
import tensorflow as tf, ignite_strategy
from tensorflow.python.lib.io import file_io
g, e, root = tf.io.gfile, tf.errors, "igfs://every@/probe"
def attempt(name, call, *allowed):
    print(name, end=" ", flush=True)
    try:
        call()
        print("ok", flush=True)
    except allowed as error:
        print(type(error).__name__, flush=True)
def write(path, mode="w"):
    with g.GFile(path, mode) as out:
        out.write("x")
attempt("makedirs", lambda: g.makedirs(root + "/d"))
attempt("mkdir", lambda: g.mkdir(root + "/e"))
attempt("mkdir again", lambda: g.mkdir(root + "/e"), e.AlreadyExistsError)
attempt("write", lambda: write(root + "/f"))
attempt("append", lambda: write(root + "/f", "a"))
attempt("read and write", lambda: write(root + "/f", "r+"))
attempt("read", lambda: g.GFile(root + "/f").read())
attempt("stat", lambda: g.stat(root + "/f"))
attempt("exists", lambda: g.exists(root + "/f"))
attempt("isdir", lambda: g.isdir(root))
attempt("listdir", lambda: g.listdir(root))
attempt("walk", lambda: list(g.walk(root)))
attempt("glob", lambda: g.glob(root + "/*"))
attempt("copy", lambda: g.copy(root + "/f", root + "/g"))
attempt("rename", lambda: g.rename(root + "/g", root + "/h"))
attempt("remove", lambda: g.remove(root + "/h"))
attempt("rename to local disk", lambda: g.rename(root + "/f", "/tmp/never"), e.UnimplementedError)
attempt("join", lambda: g.join(root, "f"))
attempt("registered", lambda: g.get_registered_schemes().index("igfs"))
attempt("read_file", lambda: tf.io.read_file(root + "/f"))
attempt("write_file", lambda: tf.io.write_file(root + "/new/dir/f", "x"), e.NotFoundError)
attempt("matching_files", lambda: tf.io.matching_files(root + "/*"))
attempt("list_files", lambda: list(tf.data.Dataset.list_files(root + "/*")))
attempt("v1", lambda: tf.compat.v1.gfile.FastGFile(root + "/f").read())
attempt("v1 listing", lambda: tf.compat.v1.gfile.ListDirectory(root))
attempt("crc", lambda: file_io.file_crc32(root + "/f"))
attempt("atomic move", lambda: file_io.has_atomic_move(root))
attempt("memory region", lambda: tf.raw_ops.ImmutableConst(
    dtype=tf.float32, shape=[1], memory_region_name=root + "/f"), e.UnimplementedError)
attempt("saved model", lambda: tf.saved_model.save(tf.Module(), root + "/model"))
attempt("loading", lambda: tf.saved_model.load(root + "/model"))
attempt("data set saved", lambda: tf.data.Dataset.range(9).save(root + "/data"))
attempt("data set loaded", lambda: list(tf.data.Dataset.load(root + "/data")))
attempt("snapshot", lambda: list(tf.data.Dataset.range(9).snapshot(root + "/snapshot")))
attempt("cache", lambda: list(tf.data.Dataset.range(9).cache(root + "/cache")))
attempt("keras", lambda: tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))]).save(root + "/m.keras"))
attempt("rmtree", lambda: g.rmtree(root))
print("end")
"""


def test_every_call_ends_normally(runs: Runs) -> None:
    """A missing optional entry point kills the interpreter (tensorflow/io #1222; BR-25)."""
    ended = runs["calls"].result()
    assert ended.returncode == 0, (ended.stdout[-500:], ended.stderr[-2000:])
    assert ended.stdout.endswith("end\n")
    assert "memory region UnimplementedError" in ended.stdout
    assert "mkdir again" in ended.stdout


NEWEST_CODE = """
import sys, tensorflow as tf
tf.experimental.register_filesystem_plugin(sys.argv[1])
root = "igfs:///newest"
tf.io.gfile.makedirs(root)
with tf.io.gfile.GFile(root + "/f", "wb") as out:
    out.write(b"x" * 3_000_000)
assert tf.io.gfile.GFile(root + "/f", "rb").read() == b"x" * 3_000_000
tf.io.gfile.makedirs(root + "/a/b")
tf.io.gfile.rename(root + "/f", root + "/a/b/g")
tf.io.gfile.rename(root + "/a", root + "/c")
assert list(tf.io.gfile.walk(root)) == [(root, ["c"], []), (root + "/c", ["b"], []), (root + "/c/b", [], ["g"])]
assert tf.io.gfile.glob(root + "/*/*/g") == [root + "/c/b/g"]
with tf.io.TFRecordWriter(root + "/r") as out:
    for i in range(100):
        out.write(b"%d" % i)
assert [int(r) for r in tf.data.TFRecordDataset(root + "/r", buffer_size=7).as_numpy_iterator()] == list(range(100))
variable = tf.Variable(tf.ones([1000]))
manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=variable), root + "/ckpt", max_to_keep=2)
for _ in range(3):
    manager.save()
assert tf.train.latest_checkpoint(root + "/ckpt") == root + "/ckpt/ckpt-3"
tf.train.Checkpoint(v=tf.Variable(tf.zeros([1000]))).restore(root + "/ckpt/ckpt-3").assert_consumed()
module = tf.Module()
module.w = tf.Variable(2.0)
module.f = tf.function(lambda x: x * module.w, input_signature=[tf.TensorSpec([])])
tf.saved_model.save(module, root + "/model")
loaded = tf.saved_model.load(root + "/model")
assert float(loaded.f(tf.constant(3.0))) == 6.0
try:
    tf.io.gfile.stat(root + "/none")
except tf.errors.NotFoundError:
    print(tf.__version__)
tf.io.gfile.rmtree(root)
"""


@pytest.mark.skipif(
    not Path(NEWEST).is_file(),
    reason="IGNITE_STRATEGY_NEWEST_PYTHON names no interpreter with the newest TensorFlow",
)
def test_the_same_library_serves_the_newest_tensorflow(runs: Runs) -> None:
    ended = runs["newest"].result()
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout.split(".")[0] == "2"
