"""``python -m ignite_strategy`` is the same as ``ignite-strategy``."""

from ignite_strategy.cli import main

main()
