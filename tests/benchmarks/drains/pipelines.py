"""What is done to rows, in the same words for every contestant that is a tf.data.Dataset."""

import tensorflow as tf

BATCH = 256
SHUFFLE = 10_000


def counted(dataset, rows_of):
    """A function that runs ``dataset`` to its end, in TensorFlow's own code, and returns the number of its rows.

    They are counted once, before: a function that TensorFlow calls for each element costs as much as reading 256 rows.
    """

    @tf.function
    def count(elements):
        return elements.reduce(tf.constant(0, tf.int64), lambda rows, element: rows + rows_of(element))

    rows = int(count(dataset))
    # No element comes out, so that only what makes the elements is measured.
    skipped = dataset.skip((1 << 31) - 1)

    @tf.function
    def drain():
        return skipped.reduce(tf.constant(0, tf.int64), lambda rows, _: rows + 1)

    def run():
        if int(drain()) != 0:
            raise AssertionError("more elements than can be skipped")
        return rows, None

    return run


def one(element):
    return tf.constant(1, tf.int64)


def of_batch(element):
    first = tf.nest.flatten(element)[0]
    return tf.shape(first, tf.int64)[0]


def transform(row):
    """A user's map: two columns of five, one of them computed."""
    return row["val"]["PIX"] * 2.0 + 1.0, row["val"]["A"]


def shuffled(dataset):
    return dataset.map(transform).shuffle(SHUFFLE).batch(BATCH)


def in_order(dataset):
    return dataset.map(transform).batch(BATCH)
