"""What of gradients needs no cluster: the traced loss, the sums of parts, and which task counts as lost."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from ignite_strategy.errors import InvalidArgumentError, UnsupportedError
from ignite_strategy.gradients.link_process import Prober
from ignite_strategy.settings import Endpoint

tf = pytest.importorskip("tensorflow")
import numpy as np  # noqa: E402

from ignite_strategy.gradients.combine import combine  # noqa: E402
from ignite_strategy.gradients.part import Part, pass_over, rows_of  # noqa: E402
from ignite_strategy.gradients.traced import DENSE, SPARSE, TracedLoss  # noqa: E402


def dataset(rows, batch):
    random = np.random.default_rng(3)
    x = random.normal(size=[rows, 2]).astype("float32")
    n = random.integers(0, 5, size=rows)
    return tf.data.Dataset.from_tensor_slices({"x": x, "n": n}).batch(batch)


def model():
    weights = tf.Variable(tf.random.stateless_normal([2, 3], [1, 2]), name="weights")
    table = tf.Variable(tf.random.stateless_normal([5, 3], [3, 4]), name="table")

    def loss(row):
        return tf.reduce_sum((row["x"] @ weights + tf.gather(table, row["n"])) ** 2, axis=1)

    return [weights, table], loss


def part_of(traced, rows):
    values = [variable.value() for variable in traced.replicas]
    return tf.function(
        lambda: pass_over(traced, lambda: rows, values, traced.values).flat(), autograph=False
    )()


@pytest.mark.parametrize("mean", [False, True])
def test_parts_of_unequal_size_make_the_gradient_of_the_whole(mean):
    variables, loss = model()
    whole = dataset(50, 50)
    with tf.GradientTape() as tape:
        wanted = tf.reduce_mean(loss(next(iter(whole))))
    wanted_gradients = [tf.convert_to_tensor(each) for each in tape.gradient(wanted, variables)]
    shares = [dataset(50, 50).unbatch().take(41).batch(8), dataset(50, 50).unbatch().skip(41).batch(4)]
    shares.append(dataset(50, 50).unbatch().take(0).batch(8))

    def mean_loss(row):
        return tf.reduce_mean(loss(row))

    traced = TracedLoss(mean_loss if mean else loss, dataset(1, 1).element_spec, variables)
    assert traced.kinds == (DENSE, SPARSE)
    parts = [Part.packed(part_of(traced, share), traced.kinds) for share in shares]
    assert [int(part.rows) for part in parts] == [41, 9, 0]
    assert all(part.finite.numpy().all() for part in parts)
    found, rows, gradients = combine(parts, traced.kinds, traced.variables)
    assert int(rows) == 50
    assert float(found) == pytest.approx(float(wanted), rel=1e-6)
    slices = gradients[1]
    assert len(set(slices.indices.numpy().tolist())) == len(slices.indices) == 5
    for gradient, other in zip(gradients, wanted_gradients):
        error = tf.norm(tf.convert_to_tensor(gradient) - other) / tf.norm(other)
        assert float(error) < 1e-5


def test_sums_of_many_batches_stay_exact():
    """Float32 sums of a million equal numbers are off by more than 1e-5."""
    weight = tf.Variable(1.0)
    rows = tf.data.Dataset.from_tensors(tf.fill([1000], 0.1)).repeat(1000)
    traced = TracedLoss(lambda x: weight * x, rows.element_spec, [weight])
    part = Part.packed(part_of(traced, rows), traced.kinds)
    assert int(part.rows) == 1_000_000
    assert float(part.sums[0]) == pytest.approx(np.float64(np.float32(0.1)) * 1e6, rel=1e-6)


def test_a_mean_over_no_rows_is_nothing():
    weight = tf.Variable(1.0)
    rows = tf.data.Dataset.from_tensors(tf.zeros([0]))
    traced = TracedLoss(lambda x: tf.reduce_mean(x * weight), tf.TensorSpec([None]), [weight])
    part = Part.packed(part_of(traced, rows), traced.kinds)
    assert (int(part.rows), float(part.total)) == (0, 0.0)
    assert part.finite.numpy().all()


def test_constants_of_the_script_travel():
    weight, scale = tf.Variable(2.0), tf.constant([3.0])
    rows = tf.data.Dataset.range(4).batch(2)
    traced = TracedLoss(lambda n: weight * scale[0] * tf.cast(n, tf.float32), rows.element_spec)
    assert traced.variables == (weight,)
    assert float(Part.packed(part_of(traced, rows), traced.kinds).sums[0]) == 18


def test_what_a_task_cannot_do_is_an_error():
    weight = tf.Variable(1.0)
    spec = tf.TensorSpec([None])
    initializer = tf.lookup.KeyValueTensorInitializer(tf.constant([1]), tf.constant([2.0]))
    table = tf.lookup.StaticHashTable(initializer, 0.0)
    with pytest.raises(UnsupportedError, match=r"table.*map"):
        TracedLoss(lambda x: weight * table.lookup(tf.cast(x, tf.int32)), spec, [weight])
    with pytest.raises(InvalidArgumentError, match="int32"):
        TracedLoss(lambda x: tf.cast(weight * x, tf.int32), spec, [weight])
    with pytest.raises(InvalidArgumentError, match="does not depend on"):
        TracedLoss(lambda x: x, spec, [weight])
    with pytest.raises(InvalidArgumentError, match="nothing to compute"):
        TracedLoss(lambda x: x * weight, spec, [])
    with pytest.raises(InvalidArgumentError, match="no variable"):
        TracedLoss(lambda x: x * weight, spec, [tf.constant(1.0)])
    with pytest.raises(InvalidArgumentError, match="give a function"):
        rows_of(tf.data.Dataset.range(3))
    made_outside = tf.data.Dataset.range(3)
    with pytest.raises(InvalidArgumentError, match="outside it"):
        rows_of(lambda: made_outside)
    with pytest.raises(InvalidArgumentError, match=r"returns 3 and no tf.data.Dataset"):
        rows_of(lambda: 3)


@contextlib.contextmanager
def server(answers: bool):
    """Accepts connections, and says something at once or never does."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        kept = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    kept.append(listener.accept()[0])
                    if answers:
                        kept[-1].sendall(b"\0\0\0\4\0\0\0\0\0")

        threading.Thread(target=serve, daemon=True).start()
        yield Endpoint("127.0.0.1", listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        for each in kept:
            each.close()


def lost(prober, seconds=30):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = prober.round(0.1)
        if found is not None:
            return found
    return None


def test_a_task_that_answers_is_not_lost():
    with server(answers=True) as here:
        prober = Prober({("worker", 0): here}, patience=2)
        assert lost(prober, 3) is None


def test_a_task_that_refuses_connections_is_lost_at_once():
    with server(answers=True) as here, contextlib.closing(socket.create_server(("127.0.0.1", 0))) as gone:
        nowhere = Endpoint("127.0.0.1", gone.getsockname()[1])
        gone.close()
        prober = Prober({("worker", 0): here, ("worker", 1): nowhere}, patience=1000)
        task, reason = lost(prober)
    assert task == ("worker", 1)
    assert f"{nowhere} refuses" in reason


def test_a_task_that_only_accepts_connections_is_lost_when_patience_ends():
    with server(answers=False) as here:
        task, reason = lost(Prober({("chief", 0): here}, patience=1))
    assert task == ("chief", 0)
    assert "has not answered for 1 s" in reason
