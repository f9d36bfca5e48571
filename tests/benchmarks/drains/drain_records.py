"""The same rows as TFRecords on local disk, and in memory: what a user has without a database."""

import os

import child
import pipelines as p
import rows as made
import tensorflow as tf


def _feature(value):
    if isinstance(value, (bytes, str)):
        data = value.encode() if isinstance(value, str) else value
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[data]))
    values = value if isinstance(value, list) else [value]
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def write(path, count):
    columns = made.small(count)
    names = list(columns)
    lists = [column if isinstance(column, list) else column.tolist() for column in columns.values()]
    with tf.io.TFRecordWriter(path + ".part") as out:
        for key, values in enumerate(zip(*lists)):
            features = {"key": _feature(key), **{name: _feature(value) for name, value in zip(names, values)}}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            out.write(example.SerializeToString())
    os.rename(path + ".part", path)


PARSE = {
    "key": tf.io.FixedLenFeature([], tf.int64),
    "A": tf.io.FixedLenFeature([], tf.int64),
    "B": tf.io.FixedLenFeature([], tf.float32),
    "NAME": tf.io.FixedLenFeature([], tf.string),
    "PIX": tf.io.FixedLenFeature([made.PIXELS], tf.float32),
}


def parse(batch):
    return tf.io.parse_example(batch, PARSE)


def records(request, parallel):
    path = request["folder"] + f"/small-{request['rows']}.tfrecord"
    if not os.path.exists(path):
        write(path, request["rows"])
    dataset = tf.data.TFRecordDataset(path)
    if not parallel:
        return p.counted(dataset.batch(p.BATCH).map(parse), p.of_batch)
    auto = tf.data.AUTOTUNE
    dataset = dataset.batch(p.BATCH, num_parallel_calls=auto).map(parse, num_parallel_calls=auto)
    return p.counted(dataset.prefetch(auto), p.of_batch)


def memory(request):
    columns = made.small(request["rows"])
    columns["NAME"] = tf.constant(columns["NAME"])
    key = tf.range(request["rows"], dtype=tf.int32)
    return tf.data.Dataset.from_tensor_slices({"key": key, "val": columns})


DRAINS = {
    "plain": lambda r: records(r, parallel=False),
    "parallel": lambda r: records(r, parallel=True),
    "memory shuffled": lambda r: p.counted(p.shuffled(memory(r)), p.of_batch),
    "memory mapped": lambda r: p.counted(p.in_order(memory(r)), p.of_batch),
}

if __name__ == "__main__":
    child.serve(lambda request: DRAINS[request["drain"]](request))
