"""Writes and reads a file on igfs://, the file system on the caches of an Ignite cluster.

    python examples/igfs_hello.py [--address HOST:PORT]

`igfs:///hello.txt` names no host: IGFS_HOST and IGFS_PORT do. `igfs://HOST:PORT/hello.txt` is the same file.
"""

import os

from node import node

with node(__doc__) as address:
    os.environ.update(IGFS_HOST=address.host, IGFS_PORT=str(address.port))

    import tensorflow as tf

    with tf.io.gfile.GFile("igfs:///hello.txt", mode="w") as w:
        w.write("Hello, world!")

    with tf.io.gfile.GFile("igfs:///hello.txt", mode="r") as r:
        print(r.read())

    print(tf.io.gfile.listdir(f"igfs://{address}/"))
