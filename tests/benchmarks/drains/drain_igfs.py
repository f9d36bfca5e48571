"""Files through TensorFlow: ours on igfs://, or local disk, by the folder that is asked for."""

import os
import random

import child

# What is replaced need not stay: the node has not room for many gigabytes.
os.environ["IGFS_GRACE_SECONDS"] = "0"

import tensorflow as tf

import ignite_strategy  # noqa: F401  (registers igfs://)
from ignite_strategy.filesystem import FileSystem

gfile = tf.io.gfile
MIB = 1 << 20


def folder(request):
    if "disk" in request:
        return request["disk"]
    return f"igfs://bench@{request['host']}:{request['port']}/bench"


def file_system(request):
    return FileSystem(request["host"], request["port"], "bench")


def tidy(request):
    """Frees what was replaced or removed."""
    if "disk" in request:
        return
    files = file_system(request)
    while files.usage().trash_blocks:
        files.tend()


def write_file(path, size, chunk):
    data = os.urandom(chunk)
    with gfile.GFile(path, "wb") as out:
        for _ in range(size // chunk):
            out.write(data)


def prepared(request, name):
    path = f"{folder(request)}/{name}"
    gfile.makedirs(folder(request))
    return path


def filled(request, mebibytes):
    """A file to read, which is written once."""
    path = prepared(request, f"read-{mebibytes}")
    if not gfile.exists(path):
        write_file(path, mebibytes * MIB, 4 * MIB)
    return path


def write(request):
    path = prepared(request, "written")

    def run():
        write_file(path, request["rows"] * MIB, request["chunk"])
        return request["rows"], request["rows"] * MIB

    def after():
        gfile.remove(path)
        tidy(request)

    return run, after


def read(request):
    path = filled(request, request["rows"])

    def run():
        size = 0
        with gfile.GFile(path, "rb") as source:
            while data := source.read(request["chunk"]):
                size += len(data)
        return size // MIB, size

    return run


def python_file(path, request):
    return file_system(request).open("/" + path.split("/", 3)[3])


def read_into(request):
    """The same without TensorFlow's copies, into memory that is there."""
    path, chunk = filled(request, request["rows"]), memoryview(bytearray(request["chunk"]))

    def run():
        size = 0
        with python_file(path, request) as source:
            while got := source.readinto(chunk):
                size += got
        return size // MIB, size

    return run


def copy(request):
    source = filled(request, request["rows"])

    def run():
        gfile.copy(source, source + "-copy", overwrite=True)
        return request["rows"], request["rows"] * MIB

    def after():
        gfile.remove(source + "-copy")
        tidy(request)

    return run, after


def pieces(request):
    """1 MiB from anywhere."""
    path = filled(request, request["file"])

    def run():
        size = 0
        with gfile.GFile(path, "rb") as source:
            for _ in range(request["rows"]):
                source.seek(random.randrange((request["file"] - 1) * MIB) | 1)
                size += len(source.read(MIB))
        return request["rows"], size

    return run


def pieces_into(request):
    path, piece = filled(request, request["file"]), memoryview(bytearray(MIB))

    def run():
        size = 0
        with python_file(path, request) as source:
            for _ in range(request["rows"]):
                source.seek(random.randrange((request["file"] - 1) * MIB) | 1)
                size += source.readinto(piece)
        return request["rows"], size

    return run


def stat(request):
    path = prepared(request, "a/b/c/d/file")
    gfile.makedirs(os.path.dirname(path))
    write_file(path, 1024, 1024)

    def run():
        for _ in range(request["rows"]):
            gfile.stat(path)
        return request["rows"], None

    return run


def create(request):
    at = prepared(request, "created")

    def run():
        gfile.makedirs(at)
        for number in range(request["rows"]):
            with gfile.GFile(f"{at}/{number}", "w") as out:
                out.write("")
        return request["rows"], None

    def after():
        gfile.rmtree(at)
        tidy(request)

    return run, after


def rename(request):
    path = prepared(request, "named-0")
    write_file(path, 1024, 1024)

    def run():
        names = [f"{folder(request)}/named-{number}" for number in (0, 1)]
        for number in range(request["rows"]):
            gfile.rename(names[number % 2], names[1 - number % 2])
        return request["rows"], None

    return run


def checkpoint(request):
    """Saved and restored, as an Estimator does it."""
    prefix = prepared(request, "checkpoint/model.ckpt")
    gfile.makedirs(os.path.dirname(prefix))
    count = 10
    each = request["rows"] * 1_000_000 // 4 // count
    graph = tf.Graph()
    with graph.as_default():
        for number in range(count):
            tf.compat.v1.get_variable(
                f"v{number}", [each], tf.float32, tf.compat.v1.random_uniform_initializer(0, 1)
            )
        saver = tf.compat.v1.train.Saver()
        session = tf.compat.v1.Session(graph=graph)
        session.run(tf.compat.v1.global_variables_initializer())

    def run():
        with graph.as_default():
            saver.restore(session, saver.save(session, prefix, write_meta_graph=False))
        return request["rows"], None

    return run, lambda: tidy(request)


DRAINS = {
    "write": write,
    "read": read,
    "read into": read_into,
    "copy": copy,
    "pieces": pieces,
    "pieces into": pieces_into,
    "stat": stat,
    "create": create,
    "rename": rename,
    "checkpoint": checkpoint,
}

if __name__ == "__main__":
    child.serve(lambda request: DRAINS[request["drain"]](request))
