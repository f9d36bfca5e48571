"""The file system contract on igfs:// with real nodes."""

from __future__ import annotations

import itertools

import pytest

import ignite_strategy  # noqa: F401  (registers igfs:// with TensorFlow)
from tests.contracts.filesystem import FilesystemContract, gfile

pytestmark = pytest.mark.integration
_roots = itertools.count()


class TestCaches(FilesystemContract):
    @pytest.fixture
    def root(self, one_node: str) -> str:
        path = f"igfs://contract@{one_node}/{next(_roots)}"
        gfile.makedirs(path)
        return path

    def test_the_root(self, one_node: str) -> None:
        """Listing the root was an error (tensorflow #36893; BR-26)."""
        for uri in (f"igfs://theroot@{one_node}/", f"igfs://theroot@{one_node}"):
            assert gfile.isdir(uri)
            assert gfile.listdir(uri) == []
        with gfile.GFile(f"igfs://theroot@{one_node}/hello.txt", "w") as out:
            out.write("Hello, world!")
        for uri in (
            f"igfs://theroot@{one_node}/",
            f"igfs://theroot@{one_node}",
            f"igfs://theroot@{one_node}/..",
        ):
            assert gfile.listdir(uri) == ["hello.txt"]
        assert gfile.glob(f"igfs://theroot@{one_node}/*") == [f"igfs://theroot@{one_node}/hello.txt"]
