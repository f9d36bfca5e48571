"""Proves the contract suite on a file system that TensorFlow has had for ever, and names the rules that it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from tests.contracts.filesystem import FilesystemContract


class TestLocalDisk(FilesystemContract):
    NOT_KEPT: ClassVar[dict[str, str]] = {
        "test_opening_for_write_changes_nothing": "POSIX truncates the file when it is opened",
        "test_a_new_file_appears_whole_at_close": "POSIX shows a file from its opening on",
        "test_an_open_reader_keeps_its_version_when_the_file_is_replaced": "POSIX overwrites the bytes in place",
    }

    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        folder = tmp_path / "root"
        folder.mkdir()
        return str(folder)
