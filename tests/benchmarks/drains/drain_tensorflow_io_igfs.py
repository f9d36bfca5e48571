"""tensorflow-io 0.23.1: the original igfs, in a process of its own. Runs in Python 3.8.

Where the endpoint is comes from the environment, which its library reads once, when it is loaded.
"""

import os

import child
import tensorflow as tf

MIB = 1 << 20


def igfs(request):
    from tensorflow_io.python.ops import core_ops

    os.environ.update(
        IGFS_HOST=request["igfs_host"], IGFS_PORT=str(request["igfs_port"]), IGFS_FS_NAME="default_fs"
    )
    dir(core_ops)  # loads the library, which registers the scheme
    return "igfs:///bench-{}".format(request["limit"])


def write(request):
    path, data = igfs(request), os.urandom(request["chunk"])

    def run():
        with tf.io.gfile.GFile(path, "wb") as out:
            for _ in range(request["limit"] * MIB // len(data)):
                out.write(data)
        return request["limit"], request["limit"] * MIB

    return run


def read(request):
    write(request)()
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


DRAINS = {"write": write, "read": read}

if __name__ == "__main__":
    child.serve(lambda request: DRAINS[request["drain"]](request))
