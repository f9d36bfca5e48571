"""Ours, with TensorFlow."""

import child
import numpy as np
import pipelines as p
import rows as made

import ignite_strategy as igs


def dataset(request, **options):
    if request.get("columns"):
        options["columns"] = request["columns"]
    return igs.IgniteDataset(
        request["cache"], request["host"], request["port"], page_size=request["page"], **options
    )


def parallel(request, **options):
    return dataset(request, parallel_reads=request["connections"], deterministic=False, **options)


def numpy(request):
    def run():
        columns = igs.read(request["cache"], request["host"], request["port"], page_size=request["page"])
        return len(columns["key"]), None

    return run


def write(request):
    data = {"key": np.arange(request["rows"], dtype=np.int32), "val": made.small(request["rows"])}

    def run():
        report = igs.write(
            request["cache"],
            data,
            request["host"],
            request["port"],
            type_name="Row",
            batch_rows=request["page"],
            connections=request["connections"],
            progress=False,
        )
        return report.rows, None

    return run


DRAINS = {
    "plain": lambda r: p.counted(dataset(r).batch(p.BATCH), p.of_batch),
    "rows": lambda r: p.counted(dataset(r), p.one),
    "batch_size": lambda r: p.counted(dataset(r, batch_size=p.BATCH), p.of_batch),
    "parallel": lambda r: p.counted(parallel(r, batch_size=p.BATCH), p.of_batch),
    "parallel rows": lambda r: p.counted(parallel(r, batch_size=1), p.of_batch),
    "one": lambda r: p.counted(dataset(r, batch_size=1), p.of_batch),
    "shuffled": lambda r: p.counted(p.shuffled(dataset(r)), p.of_batch),
    "mapped": lambda r: p.counted(p.in_order(dataset(r)), p.of_batch),
    "ragged": lambda r: p.counted(dataset(r, batch_size=p.BATCH), lambda e: p.of_batch(e["key"])),
    "numpy": numpy,
    "write": write,
}

if __name__ == "__main__":
    child.serve(lambda request: DRAINS[request["drain"]](request))
