"""``IgniteDataset``: a cache as a ``tf.data.Dataset``."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from ignite_strategy.dataset import elements
from ignite_strategy.dataset.arguments import checked_columns, checked_count, checked_flag
from ignite_strategy.dataset.columns import Column, Options
from ignite_strategy.dataset.count import count_rows
from ignite_strategy.dataset.losses import owners
from ignite_strategy.dataset.pages import Layout
from ignite_strategy.dataset.placed import PlacedDataset
from ignite_strategy.dataset.schema import declared_type, discover, select
from ignite_strategy.dataset.source import Source, schema_endpoints
from ignite_strategy.dataset.sql import check_declared, columns_of_statement, names_of_statement, statement
from ignite_strategy.errors import InvalidArgumentError
from ignite_strategy.settings import Timeouts, security_of

__all__ = ["IgniteDataset"]

MAX_BATCH_ROWS = 2**31 - 1


class IgniteDataset(PlacedDataset):
    """The rows of an Apache Ignite cache, read by the process that runs the op, from the node beside it.

    Each element is ``{'key': ..., 'val': ...}``; objects are nested dicts, arrays vectors, strings ``tf.string``:

    >>> for row in IgniteDataset("SQL_PUBLIC_KITTEN_CACHE"):  # doctest: +SKIP
    ...     print(row["key"].numpy(), row["val"]["NAME"].numpy())
    1 b'WARM KITTY'

    In the process where the rows are read, environment variables replace the arguments, so that one ``input_fn`` reads
    other partitions on every task: ``IGNITE_DATASET_CACHE_NAME``, ``_HOST``, ``_PORT``, ``_LOCAL``, ``_PART``,
    ``_PAGE_SIZE``, and ``IGNITE_STRATEGY_PARTITIONS``, the assignment (JSON of cache name -> partitions). A cache that
    the assignment does not name is read whole. Where neither says anything, the dataset reads the addresses of the open
    :class:`ignite_strategy.IgniteClusterResolver`, else all partitions of ``localhost:10800``.

    Collections, object arrays and maps of scalars are vectors, those of objects a dict of vectors; a map is
    ``{'keys': ..., 'values': ...}``. What cannot be a tensor (collections of collections, classes, ...) is an error
    that names the field before anything is read; ``columns=`` leaves it out. Iterators of this dataset cannot be
    checkpointed, and it cannot be sent to a tf.data service. Auto-sharding is off: partitions are the shards.
    """

    def __init__(
        self,
        cache_name: str,
        host: str | tf.Tensor | None = None,
        port: int | tf.Tensor | None = None,
        local: bool | None = None,
        part: int | tf.Tensor | None = None,
        page_size: int | None = None,
        username: str | None = None,
        password: str | None = None,
        certfile: str | None = None,
        keyfile: str | None = None,
        cert_password: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        partitions: int | str | Iterable[int] | None = None,
        element_spec: Any = None,
        schema_host: str | None = None,
        schema_port: int | None = None,
        env: bool = True,
        timeouts: Timeouts | None = None,
        addresses: str | Sequence[str] | None = None,
        cafile: str | None = None,
        tls: bool | None = None,
        check_hostname: bool = True,
        verify: bool = True,
        nulls: str | Mapping[str, str] = "error",
        type: str | None = None,
        decimal: str = "string",
        enum: str = "ordinal",
        timestamp: str = "ns",
        parallel_reads: int = 1,
        deterministic: bool = True,
        assert_rows: bool = False,
    ) -> None:
        """Finds out what the rows look like; nothing is read before the dataset is iterated over.

        Args:
          cache_name: The cache; a table T made by ``CREATE TABLE`` is the cache ``SQL_PUBLIC_T``.
          host: The node that is asked for the rows; may be a tensor, then give ``element_spec`` or ``schema_host``.
          port: Its client port, 10800 by default; may be a tensor.
          local: Read only what the node itself holds.
          part: The partition to read, -1 = all; may be a tensor. An assignment in the environment replaces it.
          page_size: Rows that travel together; by default about 2 MiB of them.
          username: User of a cluster with ``authenticationEnabled``. It stays in this process, as the password does: a
            task takes ``IGNITE_DATASET_USERNAME`` and ``IGNITE_DATASET_PASSWORD`` from its own environment.
          password: The user's password.
          certfile: PEM file of this client's certificate, for servers with ``sslClientAuth``; switches TLS on.
          keyfile: PEM file of its key; by default the key is in ``certfile``.
          cert_password: Password of an encrypted key.
          columns: The columns to read, by their dotted names: ``["key", "val.metadata.label"]``, or a whole object:
            ``["val.metadata"]``. Others are not decoded.
          batch_size: Makes the elements batches of so many rows, without a detour over single rows. Arrays whose
            length ``element_spec`` does not declare become ``tf.RaggedTensor``.
          partitions: The partitions to read: ``[0, 2]`` or ``"0-7,9"``. If the environment assigns partitions to this
            task, those that both name are read; an empty intersection is an error.
          element_spec: What a row looks like, for an empty cache or to declare the length of arrays: nested dicts of
            ``tf.TensorSpec``. The server is then not asked.
          schema_host: Where to ask what the rows look like, if not at ``host``.
          schema_port: Its client port.
          env: False = ignore the environment variables.
          timeouts: Limits on waiting.
          addresses: Several nodes instead of ``host`` and ``port``, tried in order: ``["a:10800", "b:10800"]``.
          cafile: PEM file of the CAs that servers' certificates come from; switches TLS on.
          tls: True = TLS, with the system's CAs unless ``cafile`` is given; by default TLS is on if ``cafile`` or
            ``certfile`` is given.
          check_hostname: False = the certificate need not be for the name or address that is connected to.
          verify: False = any certificate will do.
          nulls: What becomes of a NULL, for all columns or as a dict of column -> policy (a name stands for everything
            below it): ``"error"`` names key and field; ``"default"`` reads 0, False, "" or an empty array;
            ``"mask"`` does too and adds a column ``x_mask`` beside ``x``, True where there is a value (for arrays
            whose items can be NULL it has an entry for each item); ``"drop"`` leaves the row out.
          type: Which type of values is read if the cache holds several: a class or type name, or ``"int"``,
            ``"string"`` and so on. Other rows are left out.
          decimal: ``"string"``, the exact digits, or ``"float64"``, rounded.
          enum: ``"ordinal"``, int32, or ``"name"``, string.
          timestamp: ``"ns"``, nanoseconds since 1970 for the years 1677 to 2262 (others are an error), or ``"ms"``,
            milliseconds for any year.
          parallel_reads: How many connections read at the same time, each from the node that has the rows.
          deterministic: Whether the rows of several connections come in the same order in every pass over the same
            data, or as they arrive, which is faster.
          assert_rows: Counts the rows now (:meth:`num_rows`; in a task those of its own partitions) and tells tf.data
            how many elements there are, so that Keras shows progress; a pass with another number is an error. In a
            ``tf.Graph``, which another process with partitions of its own may run, nothing is asserted.

        Raises:
          ConnectionFailedError: No Ignite node answers at that address.
          AuthenticationError: User, password or a certificate was refused.
          NotFoundError: There is no such cache.
          PreconditionError: The cache is empty and nothing tells its types.
          UnsupportedError: A wanted column has a type that this version does not read, or an argument that it does not
            have.
          InvalidArgumentError: An argument cannot be used.
        """
        security = security_of(
            tls=tls,
            cafile=cafile,
            certfile=certfile,
            keyfile=keyfile,
            cert_password=cert_password,
            check_hostname=check_hostname,
            verify=verify,
            username=username,
            password=password,
        )
        _check_batch_size(batch_size)
        columns = checked_columns(columns)
        self._assert_rows = checked_flag(assert_rows, "assert_rows")
        tensors = {
            name: value
            for name, value in (("host", host), ("port", port), ("part", part))
            if tf.is_tensor(value)
        }
        self._source = Source.of(
            cache_name,
            None if "host" in tensors else host,
            None if "port" in tensors else port,
            local=local,
            part=None if "part" in tensors else part,
            partitions=partitions,
            page_size=page_size,
            env=env,
            timeouts=timeouts,
            addresses=addresses,
            security=security,
            parallel_reads=parallel_reads,
            deterministic=deterministic,
        )
        self._tensors = tensors
        self._reading = Options(nulls=nulls, type=type, decimal=decimal, enum=enum, timestamp=timestamp)
        self._columns, self._bytes_per_row = self._find_columns(
            columns, element_spec, schema_host, schema_port
        )
        self._batch_size = batch_size
        layout = Layout(rows=1 if batch_size is None else batch_size, batched=batch_size is not None)
        self._init_from(layout)

    @classmethod
    def from_sql(
        cls,
        query: str,
        args: Sequence[Any] = (),
        *,
        schema: str = "PUBLIC",
        cache_name: str | None = None,
        every_task: bool = False,
        host: str | None = None,
        port: int | None = None,
        addresses: str | Sequence[str] | None = None,
        element_spec: Any = None,
        batch_size: int | None = None,
        page_size: int | None = None,
        partitions: int | str | Iterable[int] | None = None,
        nulls: str | Mapping[str, str] = "error",
        decimal: str = "string",
        enum: str = "ordinal",
        timestamp: str = "ns",
        env: bool = True,
        timeouts: Timeouts | None = None,
        assert_rows: bool = False,
        username: str | None = None,
        password: str | None = None,
        certfile: str | None = None,
        keyfile: str | None = None,
        cert_password: str | None = None,
        cafile: str | None = None,
        tls: bool | None = None,
        check_hostname: bool = True,
        verify: bool = True,
    ) -> IgniteDataset:
        """The rows of a SELECT; each element is a dict of its columns.

        >>> IgniteDataset.from_sql("SELECT NAME, AGE FROM KITTEN WHERE AGE > ?", [2])  # doctest: +SKIP

        The statement runs as far as its first page now, to find out the columns, and once per pass. In a task, which is
        assigned some partitions of ``cache_name``, it runs over these alone: a plain or collocated query then gives
        each row to one task, and an aggregate is one of the task's own rows. Rows come as the server sends them, over
        one connection.

        Args:
          query: The statement.
          args: A value for each ``?`` of it. Times without a zone are UTC.
          schema: The SQL schema that its names are looked up in.
          cache_name: The cache whose partitions a task reads, and whose lost nodes are noticed: ``SQL_PUBLIC_KITTEN``.
          every_task: True = each task runs the whole statement.
          host: The node that runs it.
          port: Its client port.
          addresses: Several nodes instead, tried in order.
          element_spec: What a row looks like if its first rows do not tell: a dict of ``tf.TensorSpec``.
          batch_size: As of the class.
          page_size: Likewise.
          partitions: Likewise, of ``cache_name``.
          nulls: Likewise; a dict names the columns as ``"val.NAME"``.
          decimal: Likewise.
          enum: Likewise.
          timestamp: Likewise.
          env: Likewise.
          timeouts: Likewise.
          assert_rows: Likewise.
          username: Likewise.
          password: Likewise.
          certfile: Likewise.
          keyfile: Likewise.
          cert_password: Likewise.
          cafile: Likewise.
          tls: Likewise.
          check_hostname: Likewise.
          verify: Likewise.

        Raises:
          ServerError: The server refuses the statement.
          PreconditionError: No row tells the type of a column.
          UnsupportedError: A column's values cannot be a tensor.
          InvalidArgumentError: An argument cannot be used.
        """
        _check_batch_size(batch_size)
        asserted = checked_flag(assert_rows, "assert_rows")
        wanted = statement(query, args, schema, checked_flag(every_task, "every_task"))
        security = security_of(
            tls=tls,
            cafile=cafile,
            certfile=certfile,
            keyfile=keyfile,
            cert_password=cert_password,
            check_hostname=check_hostname,
            verify=verify,
            username=username,
            password=password,
        )
        dataset: IgniteDataset = cls.__new__(cls)
        dataset._reading = Options(nulls=nulls, decimal=decimal, enum=enum, timestamp=timestamp)
        source = Source.of(
            cache_name or "",
            host,
            port,
            local=False,
            part=None,
            partitions=partitions,
            page_size=page_size,
            env=env,
            timeouts=timeouts,
            addresses=addresses,
            security=security,
            sql=wanted,
        )
        dataset._tensors = {}
        if element_spec is not None:
            if not isinstance(element_spec, Mapping) or not element_spec:
                raise InvalidArgumentError(f"element_spec={element_spec!r}: give a dict of tf.TensorSpec")
            columns = elements.columns_of_spec({"val": element_spec}, None, "SQL", dataset._reading)
            names, per_row = names_of_statement(source, wanted)
            check_declared(columns, names)
        else:
            names, columns, per_row = columns_of_statement(source, wanted, dataset._reading)
        dataset._source = replace(source, sql=replace(wanted, columns=names))
        dataset._columns, dataset._bytes_per_row = columns, per_row
        dataset._batch_size, dataset._assert_rows = batch_size, asserted
        layout = Layout(rows=batch_size or 1, batched=batch_size is not None)
        dataset._init_from(layout)
        return dataset

    def _init_from(self, layout: Layout) -> None:
        what = f"statement {self._source.sql.text!r}" if self._source.sql else f"cache {self._source.cache!r}"
        self._layout = layout
        self._place(self._build(layout), what, movable=not self._tensors)

    def _build_again(self) -> tf.data.Dataset:
        return self._build(self._layout, here=False)

    def _find_columns(
        self,
        columns: Sequence[str] | None,
        element_spec: Any,
        schema_host: str | None,
        schema_port: int | None,
    ) -> tuple[tuple[Column, ...], float]:
        if element_spec is not None:
            self._source = replace(self._source, value_type=declared_type(self._reading.type))
            return elements.columns_of_spec(element_spec, columns, self._source.cache, self._reading), 0.0
        if self._tensors.keys() & {"host", "port"} and schema_host is None:
            raise InvalidArgumentError(
                "host and port are tensors, whose values are not known yet: give element_spec= or schema_host="
            )
        cache = self._source.effective_cache()
        endpoints = schema_endpoints(self._source, schema_host, schema_port)
        schema = discover(
            cache,
            endpoints,
            local=self._source.local,
            timeouts=self._source.timeouts,
            security=self._source.security,
            env=self._source.env,
            options=self._reading,
        )
        self._source = replace(
            self._source,
            value_type=schema.value_type,
            owners=owners(cache, endpoints[0], self._source),
        )
        return select(schema, columns), schema.bytes_per_row

    def _build(self, layout: Layout, here: bool = True) -> tf.data.Dataset:
        dataset = elements.dataset_of(self._source, self._tensors, self._columns, layout, self._bytes_per_row)
        options = tf.data.Options()
        # Each task reads its own partitions already: sharding them again would lose rows.
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        # Another process has partitions of its own.
        if here and self._assert_rows and tf.compat.v1.executing_eagerly_outside_functions():
            count = self.num_rows()
            if layout.batched:
                count = count // layout.rows if layout.drop_remainder else -(-count // layout.rows)
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(count))
        return dataset.with_options(options)

    def _batched(self, layout: Layout) -> tf.data.Dataset:
        again = functools.partial(self._build, layout, here=False)
        return PlacedDataset(self._build(layout), again, self._placed_name, self._movable)

    def num_rows(self) -> int:
        """How many rows a pass in this process has now.

        The server counts a whole cache at once. Some partitions, a statement's rows, and those that ``nulls="drop"`` or
        ``type=`` leave over are counted by a pass of their own.

        Raises:
          InvalidArgumentError: host, port or partition is a tensor.
        """
        if self._tensors:
            raise InvalidArgumentError(
                "num_rows(): host, port and part are known only where the rows are read"
            )
        return count_rows(self._source, self._columns)

    def batch(
        self,
        batch_size: int | tf.Tensor,
        drop_remainder: bool | tf.Tensor = False,
        *args: Any,
        **kwargs: Any,
    ) -> tf.data.Dataset:
        """As :meth:`tf.data.Dataset.batch`; directly on this dataset the rows are batched while they are decoded."""
        plain = isinstance(batch_size, int) and isinstance(drop_remainder, bool)
        if self._batch_size is not None or not plain or args or kwargs or batch_size < 1:
            return super().batch(batch_size, drop_remainder, *args, **kwargs)
        return self._batched(Layout(rows=batch_size, batched=True, drop_remainder=drop_remainder, dense=True))

    def ragged_batch(
        self,
        batch_size: int | tf.Tensor,
        drop_remainder: bool | tf.Tensor = False,
        row_splits_dtype: tf.DType = tf.int64,
        *args: Any,
        **kwargs: Any,
    ) -> tf.data.Dataset:
        """As :meth:`tf.data.Dataset.ragged_batch`; directly on this dataset the rows are batched while decoded."""
        plain = isinstance(batch_size, int) and isinstance(drop_remainder, bool)
        other = args or kwargs or tf.as_dtype(row_splits_dtype) != tf.int64
        if self._batch_size is not None or not plain or other or batch_size < 1:
            return super().ragged_batch(batch_size, drop_remainder, row_splits_dtype, *args, **kwargs)
        return self._batched(Layout(rows=batch_size, batched=True, drop_remainder=drop_remainder))

    def padded_batch(
        self,
        batch_size: int | tf.Tensor,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool | tf.Tensor = False,
        *args: Any,
        **kwargs: Any,
    ) -> tf.data.Dataset:
        """As :meth:`tf.data.Dataset.padded_batch`; directly on this dataset the rows are batched while decoded.

        That is if shorter arrays are to be padded with zeros or empty strings to the longest one of the batch.
        """
        plain = isinstance(batch_size, int) and isinstance(drop_remainder, bool)
        other = args or kwargs or padded_shapes is not None or padding_values is not None
        if self._batch_size is not None or not plain or other or batch_size < 1:
            return super().padded_batch(
                batch_size, padded_shapes, padding_values, drop_remainder, *args, **kwargs
            )
        return self._batched(
            Layout(rows=batch_size, batched=True, drop_remainder=drop_remainder, padded=True)
        )

    def __repr__(self) -> str:
        what = (
            f"cache={self._source.cache!r}" if self._source.sql is None else f"sql={self._source.sql.text!r}"
        )
        return f"<IgniteDataset {what} element_spec={self.element_spec}>"


def _check_batch_size(batch_size: int | None) -> None:
    if batch_size is not None:
        checked_count(batch_size, "batch_size", 1, MAX_BATCH_ROWS, "the rows of a batch")
