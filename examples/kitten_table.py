"""Reads an SQL table as a dataset.

    python examples/kitten_table.py [--address HOST:PORT]

A table made by CREATE TABLE is the cache SQL_PUBLIC_<its name>.
"""

from contextlib import closing

from node import node

from ignite_strategy.topology.caches import connect, sql

with node(__doc__) as address:
    with closing(connect([str(address)])) as client:
        sql(client, "DROP TABLE IF EXISTS KITTEN_CACHE")
        sql(client, "CREATE TABLE KITTEN_CACHE (ID LONG PRIMARY KEY, NAME VARCHAR)")
        sql(
            client,
            "INSERT INTO KITTEN_CACHE VALUES (1, 'WARM KITTY'), (2, 'SOFT KITTY'), (3, 'LITTLE BALL OF FUR')",
        )

    from ignite_strategy import IgniteDataset

    dataset = IgniteDataset(cache_name="SQL_PUBLIC_KITTEN_CACHE", host=address.host, port=address.port)
    for element in dataset.as_numpy_iterator():
        print(element)
