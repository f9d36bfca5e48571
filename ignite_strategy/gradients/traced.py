"""The user's loss as a graph function: a batch in, sums and gradients out, its variables wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ignite_strategy.errors import InvalidArgumentError, UnsupportedError

__all__ = ["DENSE", "SPARSE", "Kind", "TracedLoss", "in_graph_of", "name_of"]

Kind = str

DENSE, SPARSE, NONE = "dense", "sparse", "none"

_WRITES = ("Assign", "ResourceScatter", "ResourceApply", "ResourceSparseApply", "DestroyResource")


@dataclass(frozen=True)
class _Capture:
    """What the function takes from outside: a variable, or the value of a tensor."""

    tensor: Any
    variable: Any = None


class TracedLoss:
    """A loss function, traced once.

    Args:
      loss: Takes an element of the dataset, as ``Dataset.map`` hands it over; returns the loss of each row, or
        the mean.
      element_spec: What an element looks like.
      variables: What the gradient is taken of; those that are trainable and used, if not given.

    Raises:
      InvalidArgumentError: It returns something else, or depends on no variable.
      UnsupportedError: It writes to a variable, or uses something that cannot be sent to a task.
    """

    def __init__(
        self, loss: Callable[..., Any], element_spec: Any, variables: Sequence[Any] | None = None
    ) -> None:
        self._loss = loss
        self.name = getattr(loss, "__name__", type(loss).__name__)
        self.variables = () if variables is None else _checked(variables)
        if variables is None:
            self.variables = _checked(self._used(element_spec))
        self.kinds: tuple[Kind, ...] = ()
        self._function = _trace(self._compute, element_spec)
        graph = self._function.graph
        _refuse_writes(graph, self.name)
        self._captures = tuple(_captures(self._function, self.name))
        if not set(self.kinds) - {NONE}:
            raise InvalidArgumentError(f"{self.name}: the loss does not depend on {_names(self.variables)}")

    def _used(self, element_spec: Any) -> Sequence[Any]:
        def forward(*element: Any) -> Any:
            return self._loss(*element)

        function = _trace(forward, element_spec)
        captures = list(
            _captures(function, self.name)
        )  # in the order of their use, as the graph's list is not
        found = [capture.variable for capture in captures if getattr(capture.variable, "trainable", False)]
        if not found:
            raise InvalidArgumentError(
                f"{self.name}: the loss uses no trainable variable; make the variables before the aggregator"
            )
        return found

    @property
    def replicas(self) -> list[Any]:
        """The variables that a task needs copies of, in order."""
        return [capture.variable for capture in self._captures if capture.variable is not None]

    @property
    def values(self) -> list[Any]:
        """Tensors from outside that it uses."""
        return [capture.tensor for capture in self._captures if capture.variable is None]

    def __call__(
        self, element: Any, handles: Sequence[Any], values: Sequence[Any]
    ) -> tuple[Any, Any, list[Any]]:
        """Runs it where it is called.

        Args:
          element: A batch.
          handles: Resources with the values of :attr:`replicas`.
          values: Those of :attr:`values`.

        Returns:
          The sum of the losses of the rows, their number, and for each variable a tensor, ``(values, indices)`` of
          slices, or ``None``; as :attr:`kinds` says.
        """
        given, others = iter(handles), iter(values)
        captures = [next(others) if capture.variable is None else next(given) for capture in self._captures]
        self._function.add_to_graph(tf.compat.v1.get_default_graph())
        results = iter(
            tf.raw_ops.StatefulPartitionedCall(
                args=[*tf.nest.flatten(element, expand_composites=True), *captures],
                Tout=[output.dtype for output in self._function.outputs],
                f=self._function,
            )
        )
        total, rows = next(results), next(results)
        total.set_shape([])
        rows.set_shape([])
        return total, rows, list(self._unpacked(results))

    def _unpacked(self, results: Iterator[Any]) -> Iterator[Any]:
        for kind, variable in zip(self.kinds, self.variables):
            if kind == NONE:
                yield None
            elif kind == SPARSE:
                values, indices = next(results), next(results)
                values.set_shape([None, *variable.shape[1:]])
                indices.set_shape([None])
                yield values, indices
            else:
                dense = next(results)
                dense.set_shape(variable.shape)
                yield dense

    def _compute(self, *element: Any) -> list[Any]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            for variable in self.variables:
                tape.watch(variable)
            loss = tf.convert_to_tensor(self._loss(*element))
            total, rows = self._summed(loss, element)
        gradients = tape.gradient(total, list(self.variables))
        self.kinds = tuple(map(_kind, gradients))
        flat = [tf.cast(total, tf.float64), rows]
        for gradient in gradients:
            if isinstance(gradient, tf.IndexedSlices):
                flat += [gradient.values, tf.cast(gradient.indices, tf.int64)]
            elif gradient is not None:
                flat.append(gradient)
        return flat

    def _summed(self, loss: Any, element: Any) -> tuple[Any, Any]:
        if not loss.dtype.is_floating:
            raise InvalidArgumentError(
                f"{self.name} returns {loss.dtype.name}: a loss is a floating-point number"
            )
        if loss.shape.rank == 1:
            return tf.reduce_sum(loss), tf.size(loss, tf.int64)
        if loss.shape.rank == 0:
            rows = self._rows(element)
            # No rows, no loss: the mean of nothing is not a number.
            total = tf.where(rows > 0, loss * tf.cast(rows, loss.dtype), tf.zeros_like(loss))
            return total, rows
        raise InvalidArgumentError(
            f"{self.name} returns a tensor of shape {loss.shape}: return the loss of each row, [rows], or their "
            "mean, []"
        )

    def _rows(self, element: Any) -> Any:
        parts = tf.nest.flatten(element)
        first = parts[0]
        if isinstance(first, tf.RaggedTensor):
            return tf.cast(first.nrows(), tf.int64)
        if isinstance(first, tf.Tensor):
            return tf.constant(1, tf.int64) if first.shape.rank == 0 else tf.shape(first, tf.int64)[0]
        raise UnsupportedError(
            f"{self.name} returns a mean, and how many rows an element of {type(first).__name__} has cannot be told: "
            "return the loss of each row, [rows]"
        )


def _trace(function: Callable[..., Any], element_spec: Any) -> Any:
    """As ``Dataset.map`` would: a tuple is several arguments."""
    specs = element_spec if type(element_spec) is tuple else (element_spec,)
    return tf.function(function, autograph=False).get_concrete_function(*specs)


def _checked(variables: Sequence[Any]) -> tuple[Any, ...]:
    given = tuple(variables)
    for variable in given:
        handle = getattr(variable, "handle", None)
        if handle is None or handle.dtype != tf.resource:
            raise InvalidArgumentError(
                f"{variable!r} is no variable that a task can have a copy of: use tf.Variable, or "
                "tf.compat.v1.get_variable with use_resource=True"
            )
        if not variable.dtype.is_floating or not variable.shape.is_fully_defined():
            raise UnsupportedError(
                f"variable {name_of(variable)!r} is {variable.dtype.name} of shape {variable.shape}: "
                "gradients are summed for floating-point numbers of a known shape"
            )
    if not given:
        raise InvalidArgumentError("variables=[]: there is nothing to compute a gradient of")
    return given


def _captures(function: Any, name: str) -> Iterator[_Capture]:
    variables = {id(variable.handle): variable for variable in function.graph.variables}
    for tensor in function.captured_inputs:
        variable = variables.get(id(tensor))
        if variable is None and tensor.dtype in (tf.resource, tf.variant):
            raise UnsupportedError(
                f"{name} uses a table or another {tensor.dtype.name} of this process, which a task has not: use it in "
                "the dataset's map(), in a function that makes the dataset"
            )
        yield _Capture(tensor, variable)


def _refuse_writes(graph: Any, name: str) -> None:
    definition = graph.as_graph_def()
    functions = [function.node_def for function in definition.library.function]
    for nodes in (definition.node, *functions):
        for node in nodes:
            if node.op.startswith(_WRITES) and not node.op.startswith("Assert"):
                raise UnsupportedError(
                    f"{name} writes to a variable ({node.op} {node.name!r}): each task has a copy, where that is lost. "
                    "Layers that keep moving averages are to be called with training=False"
                )


def _kind(gradient: Any) -> Kind:
    if gradient is None:
        return NONE
    return SPARSE if isinstance(gradient, tf.IndexedSlices) else DENSE


def name_of(variable: Any) -> str:
    """A variable's name as its user knows it."""
    return str(variable.name).split(":")[0]


def _names(variables: Sequence[Any]) -> str:
    return ", ".join(name_of(variable) for variable in variables)


def in_graph_of(tensor: Any) -> bool:
    """Whether a tensor belongs to the graph that is in force."""
    return getattr(tensor, "graph", None) is tf.compat.v1.get_default_graph()
