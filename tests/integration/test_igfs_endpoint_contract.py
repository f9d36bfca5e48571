"""The file system contract on the endpoint of IGFS in a real Ignite 2.7.6 and 2.8.1."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import ClassVar

import pytest

import ignite_strategy  # noqa: F401  (registers igfs:// with TensorFlow)
from ignite_strategy.local import LocalCluster
from tests.contracts.filesystem import FilesystemContract, gfile

pytestmark = pytest.mark.integration
_roots = itertools.count()

_NO_OLD_VERSIONS = (
    "IGFS removes the blocks of a removed or replaced file soon after: its reader gets an error"
)


@pytest.fixture(scope="class")
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    with LocalCluster(nodes=1, version=request.cls.VERSION, igfs=True, data_mb=1024) as cluster:
        yield cluster.igfs_addresses[0]


class _Endpoint(FilesystemContract):
    VERSION: ClassVar[str]
    ENTRIES: ClassVar[int] = 300  # IGFS lists them in one piece, and takes 10 ms to make one
    NOT_KEPT: ClassVar[dict[str, str]] = {
        "test_odd_names": "the server takes 'a:b' for a drive and a backslash for a slash: such names are refused",
    }
    NOT_ALWAYS_KEPT: ClassVar[dict[str, str]] = {
        "test_an_open_reader_keeps_its_version_when_the_file_is_replaced": _NO_OLD_VERSIONS,
        "test_an_open_reader_keeps_its_version_when_another_file_is_renamed_onto_it": _NO_OLD_VERSIONS,
        "test_an_open_reader_keeps_its_version_when_the_file_is_removed": _NO_OLD_VERSIONS,
    }

    @pytest.fixture
    def root(self, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setenv("IGFS_BACKEND", "endpoint")
        path = f"igfs://{endpoint}/{next(_roots)}"
        gfile.makedirs(path)
        return path


class TestIgnite276(_Endpoint):
    VERSION = "2.7.6"


class TestIgnite281(_Endpoint):
    VERSION = "2.8.1"
