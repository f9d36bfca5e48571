"""tensorflow-io 0.23.1: the original IgniteDataset. Runs in Python 3.8."""

import os

import child
import pipelines as p
import tensorflow as tf
from tensorflow_io.ignite import IgniteDataset

MIB = 1 << 20


def dataset(request):
    return IgniteDataset(
        cache_name=request["cache"], host=request["host"], port=request["port"], page_size=request["page"]
    )


def ragged(request):
    batches = dataset(request).apply(tf.data.experimental.dense_to_ragged_batch(p.BATCH))
    return p.counted(batches, lambda element: p.of_batch(element["key"]))


def igfs(request):
    """Where the endpoint is comes from the environment."""
    from tensorflow_io.python.ops import core_ops

    os.environ.update(
        IGFS_HOST=request["igfs_host"], IGFS_PORT=str(request["igfs_port"]), IGFS_FS_NAME="default_fs"
    )
    dir(core_ops)  # loads the library, which registers the scheme
    return "igfs:///bench-{}".format(request["limit"])


def igfs_write(request):
    path, data = igfs(request), os.urandom(request["chunk"])

    def run():
        with tf.io.gfile.GFile(path, "wb") as out:
            for _ in range(request["limit"] * MIB // len(data)):
                out.write(data)
        return request["limit"], request["limit"] * MIB

    return run


def igfs_read(request):
    igfs_write(request)()
    path = igfs(request)

    def run():
        size = 0
        with tf.io.gfile.GFile(path, "rb") as source:
            data = source.read(request["chunk"])
            while data:
                size += len(data)
                data = source.read(request["chunk"])
        return size // MIB, size

    return run


DRAINS = {
    "igfs write": igfs_write,
    "igfs read": igfs_read,
    "batch": lambda r: p.counted(dataset(r).batch(p.BATCH), p.of_batch),
    "rows": lambda r: p.counted(dataset(r), p.one),
    "shuffled": lambda r: p.counted(p.shuffled(dataset(r)), p.of_batch),
    "mapped": lambda r: p.counted(p.in_order(dataset(r)), p.of_batch),
    "ragged": ragged,
}

if __name__ == "__main__":
    child.serve(lambda request: DRAINS[request["drain"]](request))
