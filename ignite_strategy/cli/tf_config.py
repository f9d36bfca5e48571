"""``ignite-strategy tf-config``."""

from __future__ import annotations

from typing import Optional

import typer

from ignite_strategy.cli.options import ADDRESS, ZOOKEEPER, chosen_endpoints

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def tf_config(
    cache: str = typer.Argument(..., help="The cache that the job reads."),
    kind: Optional[str] = typer.Option(None, "--type", help="chief, worker, ps or evaluator."),
    index: int = typer.Option(0, "--index", min=0, help="Which one of that type."),
    job: Optional[str] = typer.Option(None, "--job", help="The job, if several read the cache."),
    address: Optional[str] = ADDRESS,
    zookeeper: Optional[str] = ZOOKEEPER,
) -> None:
    """Print the TF_CONFIG of a job that runs, for a program that is one of its tasks; without --type of each task.

    \b
      ignite-strategy tf-config DIGITS
      export TF_CONFIG="$(ignite-strategy tf-config DIGITS --type worker --index 1)"
    """  # noqa: D301
    from ignite_strategy.settings import ZooKeeper
    from ignite_strategy.topology.overview import Observer

    with Observer(chosen_endpoints(address), ZooKeeper.of(zookeeper)) as observer:
        overview = observer.look([cache])
    layout = overview.layout_of(cache, job)
    if kind is not None:
        typer.echo(layout.tf_config(kind, index))
        return
    for each in layout.jobs:
        for at in layout.task_indices(each):
            typer.echo(layout.tf_config(each, at))
