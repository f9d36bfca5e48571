"""Agents and the command line start without TensorFlow."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["ignite_strategy.topology", "ignite_strategy.runtime.agent", "ignite_strategy.runtime.runner"]
)
def test_no_tensorflow(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('tensorflow', 'dask', 'kazoo', 'pyignite') if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.strip() == "[]"
