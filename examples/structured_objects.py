"""Reads objects with nested objects and arrays, and transforms them in a tf.data pipeline.

python examples/structured_objects.py [--address HOST:PORT]
"""

from contextlib import closing

from node import node

from ignite_strategy.topology.caches import connect, create_cache, drop_cache, put_objects

FIELDS = {
    "metadata": {"file_name": "string", "label": "string", "width": "int", "height": "int"},
    "pixels": "int[]",
}
KITTEN = {
    "metadata": {"file_name": "kitten.png", "label": "little ball of fur", "width": 4, "height": 3},
    "pixels": [0] * 12,
}

with node(__doc__) as address:
    with closing(connect([str(address)])) as client:
        drop_cache(client, "IMAGES")
        create_cache(client, "IMAGES")
        put_objects(client, "IMAGES", {"kitten.png": KITTEN}, fields=FIELDS, type_name="Image", key="string")

    from ignite_strategy import IgniteDataset

    dataset = IgniteDataset(cache_name="IMAGES", host=address.host, port=address.port)
    for element in dataset.take(1).as_numpy_iterator():
        print(element)

    for pixels in dataset.map(lambda obj: obj["val"]["pixels"]).as_numpy_iterator():
        print(pixels)
