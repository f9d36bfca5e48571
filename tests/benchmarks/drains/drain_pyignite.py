"""pyignite: its scans, and its put_all."""

import itertools

import child
import rows as made
from pyignite import Client, GenericObjectMeta, datatypes


def scan(request):
    client = Client()
    client.connect(request["host"], request["port"])
    cache = client.get_cache(request["cache"])

    def run():
        with cache.scan(page_size=request["page"]) as rows:
            return sum(1 for _ in itertools.islice(rows, request["limit"])), None

    return run


def put_all(request):
    client = Client()
    client.connect(request["host"], request["port"])
    cache = client.get_cache(request["cache"])
    kind = GenericObjectMeta(
        "Row",
        (),
        {},
        type_name="Row",
        schema={
            "A": datatypes.IntObject,
            "B": datatypes.DoubleObject,
            "NAME": datatypes.String,
            "PIX": datatypes.FloatArrayObject,
        },
    )
    count, size = request["rows"], request["page"]
    columns = made.small(count)
    objects = [
        kind(A=a, B=b, NAME=name, PIX=pix)
        for a, b, name, pix in zip(
            columns["A"].tolist(), columns["B"].tolist(), columns["NAME"], columns["PIX"].tolist()
        )
    ]

    def run():
        for first in range(0, count, size):
            cache.put_all({key: objects[key] for key in range(first, min(first + size, count))})
        return count, None

    return run


if __name__ == "__main__":
    child.serve(lambda request: {"scan": scan, "put_all": put_all}[request["drain"]](request))
