"""``ignite-strategy doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional

import typer

from ignite_strategy.cli.options import ADDRESS, ZOOKEEPER, chosen_endpoints

if TYPE_CHECKING:
    from ignite_strategy.topology.checks import Finding

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def doctor(
    cache: Optional[List[str]] = typer.Option(
        None,
        "--cache",
        "-c",
        help="Look at the partitions of this cache; may be given again. By default of all.",
    ),
    address: Optional[str] = ADDRESS,
    zookeeper: Optional[str] = ZOOKEEPER,
) -> None:
    """Look for what is wrong with a cluster, from this host, and say how to mend it.

    Nodes, TLS and users, agents, versions, leases, clocks, ports of tasks (reached from here, and open to other
    networks), partitions, copies, igfs:// (a small file is written, read and removed), dataset ops in this TensorFlow.
    Some is seen only while a job runs. Exit code 1 if something is wrong; a warning is not.

    \b
      ignite-strategy doctor
      ignite-strategy doctor --address ignite-0:10800,ignite-1:10800 --cache DIGITS
    """  # noqa: D301
    from ignite_strategy.settings import ZooKeeper
    from ignite_strategy.topology.checks import Level, Patient, examine

    patient = Patient(chosen_endpoints(address), tuple(cache or ()), ZooKeeper.of(zookeeper))
    counts = dict.fromkeys(Level, 0)
    for finding in examine(patient):
        counts[finding.level] += 1
        _print(finding)
    typer.echo(
        f"{counts[Level.OK]} ok, {counts[Level.WARNING]} warnings, {counts[Level.WRONG]} wrong, "
        f"{counts[Level.SKIPPED]} skipped"
    )
    if counts[Level.WRONG]:
        raise typer.Exit(1)


def _print(finding: Finding) -> None:
    from ignite_strategy.topology.checks import Level
    from ignite_strategy.topology.sheets import printable

    colours = {Level.OK: "green", Level.WARNING: "yellow", Level.WRONG: "red", Level.SKIPPED: None}
    level = typer.style(f"{finding.level.value:<8}", fg=colours[finding.level])
    text = "\n".join(map(printable, finding.text.split("\n")))
    typer.echo(f"{level} {finding.check}: {text}")
    if finding.fix:
        typer.echo(f"         fix: {printable(finding.fix)}")
