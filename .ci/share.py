"""Gives one environment the package of another: the very same native libraries, and links to the Python sources.

``share.py FROM_VENV TO_VENV``; both are environments of the same Python version.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

source, target = (next(Path(folder).glob("lib/python3.*/site-packages")) for folder in sys.argv[1:3])
package = Path(__file__).resolve().parent.parent / "ignite_strategy"
there = target / "ignite_strategy"
shutil.rmtree(there, ignore_errors=True)
there.mkdir()
for entry in package.iterdir():
    if entry.name not in {"native", "__pycache__"}:
        (there / entry.name).symlink_to(entry)
for entry in (source / "ignite_strategy").iterdir():
    if entry.suffix == ".so":
        shutil.copy2(entry, there / entry.name)
    elif entry.name == "cluster":
        (there / entry.name).symlink_to(entry)
