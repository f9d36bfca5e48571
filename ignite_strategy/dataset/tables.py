"""What a user hands over to be written, as blocks of columns: mappings of arrays, DataFrames, datasets, generators."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ignite_strategy.dataset.encode import slice_rows
from ignite_strategy.dataset.kinds import Ragged, is_missing
from ignite_strategy.dataset.masks import Columns
from ignite_strategy.dataset.structure import check_fields
from ignite_strategy.errors import InvalidArgumentError

__all__ = ["Fields", "Table", "count_rows", "stream"]

_HOW = (
    "key='ID' (a column), key=['A', 'B'] (an object of columns), key=array (one key per row), or columns called key "
    "and val.* as read() returns them"
)
# Rows of a dataset that are taken at once.
_BATCH = 4096


@dataclass(frozen=True)
class Table:
    """Some rows.

    Attributes:
      key: A column, or a mapping of the fields of an object.
      val: The same for the value.
      rows: How many.
    """

    key: Any
    val: Any
    rows: int

    def blocks(self, size: int) -> Iterator[Table]:
        """The same rows in pieces."""
        for first in range(0, self.rows, size):
            last = min(first + size, self.rows)
            yield Table(slice_rows(self.key, first, last), slice_rows(self.val, first, last), last - first)


@dataclass(frozen=True)
class Fields:
    """The key of an SQL table.

    Attributes:
      names: Its columns, as SQL spells them.
      single: Whether the one column is the key itself rather than a field of it.
    """

    names: tuple[str, ...]
    single: bool


def stream(data: Any, key: Any, batched: bool) -> tuple[Iterator[Table], int | None]:
    """Turns ``data`` into tables.

    Returns:
      The tables, and the number of rows, ``None`` if nobody knows.

    Raises:
      InvalidArgumentError: The data cannot be told apart into keys and values.
    """
    if _is_dataset(data):
        if not sys.modules["tensorflow"].executing_eagerly():
            raise InvalidArgumentError(
                "a tf.data.Dataset gives its rows only where TensorFlow runs eagerly: call write() outside of tf.Graph "
                "and tf.function"
            )
        rows = None if batched else int(data.cardinality())
        tables: Iterator[Table] = (_table(element, key) for element in _elements(data, batched))
        if not batched:
            tables = map(_with_plain_keys, tables)
        return tables, rows if rows is not None and rows >= 0 else None
    if batched:
        raise InvalidArgumentError("batched= is about the elements of a tf.data.Dataset")
    if isinstance(data, Iterator):
        return (_table(each, key) for each in data), None
    table = _table(data, key)
    return iter([table]), table.rows


def _table(data: Any, key: Any) -> Table:
    if isinstance(data, tuple) and len(data) == 2:
        data = {"key": data[0], "val": data[1]}
    columns = _columns(data, key)
    if columns is None:  # values of one type
        if key is None or isinstance(key, (str, Fields)):
            raise InvalidArgumentError("values without columns need their keys: key=array")
        return _checked(_leaf(key), _leaf(data))
    if key is None or (isinstance(key, Fields) and _is_packed(columns)):
        return _checked(*_packed(columns))
    names = _key_names(key, columns)
    if names is None:
        return _checked(_leaf(key), columns)
    for name in names:
        if name not in columns:
            raise InvalidArgumentError(
                f"key={key!r}: there is no column {name!r}, only {', '.join(columns)}; a list of texts names columns: "
                "keys that are texts themselves are given as an array, key=numpy.array([...])"
            )
    rest = {name: values for name, values in columns.items() if name not in names}
    if not rest:
        raise InvalidArgumentError(f"key={key!r}: there is no other column that could be the value")
    single = isinstance(key, str) or (isinstance(key, Fields) and key.single)
    return _checked(columns[names[0]] if single else {name: columns[name] for name in names}, rest)


def _key_names(key: Any, columns: Mapping[str, Any]) -> list[str] | None:
    """The columns that ``key`` names; ``None`` if it holds the keys themselves."""
    if isinstance(key, str):
        return [key]
    if isinstance(key, Fields):
        check_fields(list(columns), "the columns of an SQL table")
        spelled = {name.lower(): name for name in columns}
        return [spelled.get(name.lower(), name) for name in key.names]
    if isinstance(key, (list, tuple)) and key and all(isinstance(each, str) for each in key):
        return list(key)
    return None


def _columns(data: Any, key: Any) -> dict[str, Any] | None:
    """The columns of ``data`` by name; ``None`` if it has none."""
    if _is_frame(data):
        columns = _by_text((name, _leaf(data.iloc[:, at])) for at, name in enumerate(data.columns))
        if data.index.nlevels > 1:
            return _with_levels(data.index, columns, key)
        index = data.index.name
        if (
            index is not None
            and str(index) not in columns
            and (key is None or isinstance(key, Fields) or key == index)
        ):
            columns["key" if key is None and not _is_packed(columns) else str(index)] = _leaf(
                data.index.to_series()
            )
            if key is None and not _is_packed(columns):
                return {"key": columns.pop("key"), "val": columns}
        return columns
    if isinstance(data, Columns):
        data = data.values_with_nulls()
    if isinstance(data, Mapping):
        return _by_text((name, _leaf(values)) for name, values in data.items())
    if isinstance(data, np.ndarray) and data.dtype.names:
        return {name: data[name] for name in data.dtype.names}
    if isinstance(data, (list, tuple)) and data and all(isinstance(row, Mapping) for row in data):
        names = dict.fromkeys(itertools.chain.from_iterable(data))
        return _by_text((name, [row.get(name) for row in data]) for name in names)
    return None


def _with_levels(index: Any, columns: dict[str, Any], key: Any) -> dict[str, Any]:
    """The columns of a DataFrame with several levels in its index: those are the key, unless something else is."""
    levels = _by_text(
        (name, _leaf(index.get_level_values(at))) for at, name in enumerate(index.names) if name is not None
    )
    if key is None and not _is_packed(columns) and len(levels) == index.nlevels:
        return {"key": levels, "val": columns}
    named = levels if isinstance(key, Fields) else _key_names(key, columns) or ()
    return {**{name: values for name, values in levels.items() if name in named}, **columns}


def _by_text(columns: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Columns by their names as text, each of which is there once."""
    named: dict[str, Any] = {}
    for name, values in columns:
        if str(name) in named:
            raise InvalidArgumentError(
                f"two columns are called {str(name)!r}: one would replace the other; give one of them another name"
            )
        named[str(name)] = values
    return named


def _is_packed(columns: Mapping[str, Any]) -> bool:
    return all(name in ("key", "val") or name.startswith(("key.", "val.")) for name in columns)


def _packed(columns: Mapping[str, Any]) -> tuple[Any, Any]:
    """Keys and values of columns called ``key``, ``val``, ``val.x``, ``val.x.y``."""
    if not _is_packed(columns) or not columns:
        raise InvalidArgumentError(
            f"the columns {', '.join(columns)} do not say what the key is: give {_HOW}"
        )
    nested: dict[str, Any] = {}
    for name, values in columns.items():
        inner = nested
        *path, last = name.split(".")
        for part in path:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise InvalidArgumentError(f"column {name!r}: {part!r} is a column already")
        if last in inner:
            raise InvalidArgumentError(f"column {name!r} is there twice")
        inner[last] = values
    for part in ("key", "val"):
        if part not in nested:
            raise InvalidArgumentError(f"there is no column {part!r}: give {_HOW}")
    return nested["key"], nested["val"]


def _checked(key: Any, val: Any) -> Table:
    rows = count_rows(key, "key")
    other = count_rows(val, "val")
    if rows != other:
        raise InvalidArgumentError(f"{rows} keys and {other} values")
    return Table(key, val, rows)


def count_rows(values: Any, where: str) -> int:
    """The number of rows of a column, or of all columns of an object.

    Raises:
      InvalidArgumentError: They differ.
    """
    if isinstance(values, Mapping):
        counts = {name: count_rows(each, f"{where}.{name}") for name, each in values.items()}
        if not counts:
            raise InvalidArgumentError(f"{where} has no column")
        if len(set(counts.values())) > 1:
            shown = ", ".join(f"{where}.{name}: {count}" for name, count in counts.items())
            raise InvalidArgumentError(f"columns of different length: {shown}")
        return next(iter(counts.values()))
    if isinstance(values, Ragged):
        return len(values.splits) - 1
    return len(values)


def _leaf(values: Any) -> Any:
    """One column as a NumPy array, a list or a :class:`Ragged`; mappings of them stay mappings."""
    if isinstance(values, Mapping):
        return _by_text((name, _leaf(each)) for name, each in values.items())
    if isinstance(values, Ragged):
        return values
    if hasattr(values, "row_splits"):  # tf.RaggedTensor and its value
        if getattr(values, "ragged_rank", 1) != 1:
            raise InvalidArgumentError(
                "a tf.RaggedTensor with more than one ragged dimension has no type in Ignite"
            )
        splits = np.asarray(values.row_splits, np.int64)
        return Ragged(np.asarray(values.values), splits)
    if _is_series(values):
        return _series(values)
    if isinstance(values, (np.ndarray, list)):
        return _array(values) if isinstance(values, np.ndarray) else values
    if hasattr(values, "numpy"):
        return _array(values.numpy())
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidArgumentError(f"{values!r} is not a column of values")
    if isinstance(values, range):
        return np.arange(values.start, values.stop, values.step)
    return list(values)


def _array(values: np.ndarray[Any, Any]) -> Any:
    if values.ndim == 0:
        raise InvalidArgumentError(f"{values!r} is one value and not a column of them")
    return values


def _is_dataset(data: Any) -> bool:
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(data, tensorflow.data.Dataset)


def _is_frame(data: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame)


def _is_series(data: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, (pandas.Series, pandas.Index))


def _series(series: Any) -> Any:
    """A pandas column; what it counts as missing becomes NULL, but for NaN in a column of floats."""
    dtype = series.dtype
    if hasattr(dtype, "fill_value") and hasattr(series, "sparse"):
        return _series(series.sparse.to_dense())
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return series.to_numpy()
    if getattr(dtype, "tz", None) is not None:
        return series.to_numpy(dtype=f"datetime64[{dtype.unit}]")  # of UTC
    kind, numpy = getattr(dtype, "kind", "O"), getattr(dtype, "numpy_dtype", None)
    if kind in "iufb" and isinstance(numpy, np.dtype) and numpy.kind in "iufb":
        mask = series.isna().to_numpy()
        masked: Any = np.ma.array
        return masked(series.to_numpy(dtype=numpy, na_value=numpy.type(0)), mask=mask)
    return [None if is_missing(value) else value for value in series.astype(object).tolist()]


def _with_plain_keys(table: Table) -> Table:
    if isinstance(table.key, Ragged) or (isinstance(table.key, np.ndarray) and table.key.ndim > 1):
        raise InvalidArgumentError(
            "the key of a row is an array: an element of the dataset is taken for one row; if it is a batch of rows, "
            "give batched=True"
        )
    return table


def _elements(dataset: Any, batched: bool) -> Iterator[Any]:
    """The elements as batches; rows whose shape nobody knows become ragged."""
    if not batched:
        specs = _flatten(dataset.element_spec)
        unknown = any(None in (spec.shape or ()) or not hasattr(spec, "is_compatible_with") for spec in specs)
        ragged = any(type(spec).__name__ == "RaggedTensorSpec" for spec in specs)
        dataset = dataset.ragged_batch(_BATCH) if unknown or ragged else dataset.batch(_BATCH)
    yield from dataset.prefetch(1)


def _flatten(spec: Any) -> Sequence[Any]:
    if isinstance(spec, Mapping):
        return [each for value in spec.values() for each in _flatten(value)]
    if isinstance(spec, tuple):
        return [each for value in spec for each in _flatten(value)]
    return [spec]
