"""Datasets that are built again where an iterator of them is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ignite_strategy.errors import InvalidArgumentError

__all__ = ["PlacedDataset"]


class PlacedDataset(tf.data.Dataset):  # type: ignore[misc]
    """Rows are read by the task whose device is in force when an iterator is made, not when the dataset was.

    TensorFlow's own iterators run where their dataset does. A dataset that was made once, and of which iterators are
    made under one ``tf.device`` after the other, would be read by one and the same task every time.

    Args:
      dataset: It.
      again: Makes its ops anew, for another graph or task.
      name: What error messages call it.
      movable: Whether that may be another graph.
    """

    def __init__(
        self, dataset: tf.data.Dataset, again: Callable[[], tf.data.Dataset], name: str, movable: bool
    ) -> None:
        self._again = again
        self._place(dataset, name, movable)

    def _place(self, dataset: tf.data.Dataset, name: str, movable: bool) -> None:
        self._dataset, self._placed_name, self._movable = dataset, name, movable
        super().__init__(dataset._variant_tensor)

    def _build_again(self) -> tf.data.Dataset:
        return self._again()

    def anew(self) -> tf.data.Dataset:
        """The dataset with ops of its own, in the graph and under the device that are in force.

        Raises:
          InvalidArgumentError: Host, port or partition are tensors of another graph.
        """
        if self._is_of_another_graph() and not self._movable:
            raise InvalidArgumentError(
                f"{self._placed_name}: host, port or part are tensors of another graph than the iterator's; {_FORM}"
            )
        return self._build_again()

    def here(self) -> tf.data.Dataset:
        """The dataset, with ops in the graph and under the device that are in force.

        Raises:
          InvalidArgumentError: Host, port or partition are tensors of another graph.
        """
        if not self._is_of_another_graph() and _task_in_force() in (
            None,
            _task_of(self._variant_tensor.device),
        ):
            return self._dataset
        return self.anew()

    def _is_of_another_graph(self) -> bool:
        if tf.executing_eagerly():
            return False
        variant = self._variant_tensor
        if not hasattr(variant, "numpy"):
            return variant.graph is not tf.compat.v1.get_default_graph()
        # A function that is traced captures what was made eagerly, any other graph cannot.
        return not tf.compat.v1.executing_eagerly_outside_functions()

    @property
    def element_spec(self) -> Any:
        """What an element looks like."""
        return self._dataset.element_spec

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._dataset]

    # What TensorFlow calls to make an iterator.

    def __iter__(self) -> Any:
        dataset = self.here()
        return super().__iter__() if dataset is self._dataset else iter(dataset)

    def _make_one_shot_iterator(self) -> Any:
        return tf.compat.v1.data.make_one_shot_iterator(self.here())

    def _make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        return tf.compat.v1.data.make_initializable_iterator(self.here(), shared_name)

    @property
    def _graph(self) -> Any:
        # Asked for each input of a dataset of which an iterator is made in a graph: the only moment at which it can be
        # noticed that what map() and so on have made of this dataset stays where it is.
        wanted, mine = _task_in_force(), _task_of(self._variant_tensor.device)
        if wanted not in (None, mine):
            raise InvalidArgumentError(
                f"{self._placed_name}: an iterator is made under the device of {_name(wanted)}, but map(), "
                f"shuffle() and the like were applied under that of {_name(mine)}, which would read the rows; {_FORM}"
            )
        return self._graph_attr


_FORM = """make the dataset where its iterator is made:

    def input_fn():
        return IgniteDataset(...).map(...)

    with tf.device("/job:worker/task:0"):
        iterator = tf.compat.v1.data.make_one_shot_iterator(input_fn())"""

Task = tuple[str, int]


def _task_in_force() -> Task | None:
    """The task that ops which are made now are placed on; None if nothing says so."""
    if tf.executing_eagerly():
        with tf.device("CPU:0"):
            return _task_of(tf.constant(0).device)
    return _task_of(tf.no_op().device)


def _task_of(device: str) -> Task | None:
    spec = tf.DeviceSpec.from_string(device or "")
    return None if spec.job is None else (spec.job, spec.task or 0)


def _name(task: Task | None) -> str:
    return "no task" if task is None else f"{task[0]} {task[1]}"
