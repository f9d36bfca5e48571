"""Prints the requirements of this project's extras, one a line, to be installed before it is built.

``requirements.py build test`` prints the project's own requirements, the build system's, and those of extra ``test``.
"""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:  # pip brings the parser that the standard library has from 3.11 on
    from pip._vendor import tomli as tomllib

document = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
wanted = list(document["project"]["dependencies"])
for name in sys.argv[1:]:
    if name == "build":
        wanted += document["build-system"]["requires"]
    else:
        wanted += document["project"]["optional-dependencies"][name]
print("\n".join(wanted))
