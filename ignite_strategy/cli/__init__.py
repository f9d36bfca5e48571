"""The ``ignite-strategy`` command.

Each group of commands is a module with a Typer ``app``; it is imported only when one of its commands is called.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Runs the command line; ends the process."""
    try:
        from ignite_strategy.cli.root import run
    except KeyboardInterrupt:  # while it is still being loaded
        raise SystemExit(130) from None
    run()
