"""tensorflow-io 0.23.1: the original IgniteDataset. Runs in Python 3.8."""

import child
import pipelines as p
import tensorflow as tf
from tensorflow_io.ignite import IgniteDataset


def dataset(request):
    return IgniteDataset(
        cache_name=request["cache"], host=request["host"], port=request["port"], page_size=request["page"]
    )


def ragged(request):
    batches = dataset(request).apply(tf.data.experimental.dense_to_ragged_batch(p.BATCH))
    return p.counted(batches, lambda element: p.of_batch(element["key"]))


DRAINS = {
    "batch": lambda r: p.counted(dataset(r).batch(p.BATCH), p.of_batch),
    "rows": lambda r: p.counted(dataset(r), p.one),
    "shuffled": lambda r: p.counted(p.shuffled(dataset(r)), p.of_batch),
    "mapped": lambda r: p.counted(p.in_order(dataset(r)), p.of_batch),
    "ragged": ragged,
}

if __name__ == "__main__":
    child.serve(lambda request: DRAINS[request["drain"]](request))
