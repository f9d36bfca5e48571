"""A program's output on disk: bounded, and read by offset."""

from __future__ import annotations

from pathlib import Path

from ignite_strategy.runtime.scripts.output import OutputLog, read_output


def test_written_and_read(tmp_path: Path) -> None:
    log = OutputLog(tmp_path, "script")
    assert read_output(tmp_path, "script", 0, 100) == (0, b"", 0)
    log.write(b"hello ")
    log.write(b"world")
    assert read_output(tmp_path, "script", 0, 100) == (0, b"hello world", 11)
    assert read_output(tmp_path, "script", 6, 3) == (6, b"wor", 11)
    assert read_output(tmp_path, "script", 11, 3) == (11, b"", 11)
    assert read_output(tmp_path, "script", 1 << 62, 3) == (11, b"", 11), "from now on"
    assert read_output(tmp_path, "script", -5, 100) == (6, b"world", 11)
    assert read_output(tmp_path, "script", -500, 5) == (0, b"hello", 11)
    log.close()


def test_old_output_is_dropped(tmp_path: Path) -> None:
    log = OutputLog(tmp_path, "script", largest=100)
    everything = b"".join(b"%09d\n" % n for n in range(100))
    for at in range(0, 1000, 10):
        log.write(everything[at : at + 10])
        kept = sum(path.stat().st_size for path in tmp_path.iterdir())
        assert kept <= 200
    seen, offset = b"", 0
    while (found := read_output(tmp_path, "script", offset, 33)) and found.data:
        assert found.data == everything[found.offset : found.offset + len(found.data)]
        seen, offset = seen + found.data, found.offset + len(found.data)
    assert offset == 1000
    assert everything.endswith(seen)
    assert len(seen) >= 100
    log.close()


def test_a_plain_log_and_none(tmp_path: Path) -> None:
    assert read_output(tmp_path, "worker-0", 0, 10) is None
    (tmp_path / "worker-0.log").write_bytes(b"abc")
    assert read_output(tmp_path, "worker-0", 1, 10) == (1, b"bc", 3)
