"""What a file system does for TensorFlow, stated once against ``tf.io.gfile``.

A backend's test class supplies ``root``, the URI of an empty directory, and lists in ``NOT_KEPT`` the rules that it
does not keep, with the reason; such a test must then fail, so that the list stays true. What it breaks only sometimes,
by a race, is in ``NOT_ALWAYS_KEPT``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import tensorflow as tf

gfile = tf.io.gfile
errors = tf.errors


def write(path: str, content: bytes, mode: str = "wb") -> None:
    with gfile.GFile(path, mode) as out:
        out.write(content)


def read(path: str) -> bytes:
    with gfile.GFile(path, "rb") as source:
        return bytes(source.read())


def build(base: str, files: dict[str, bytes]) -> None:
    """Creates files with the directories above them."""
    for name, content in files.items():
        gfile.makedirs(f"{base}/{name}".rpartition("/")[0])
        write(f"{base}/{name}", content)


def tree(base: str) -> dict[str, bytes]:
    """All files below a directory with their contents."""
    found = {}
    for folder, _, names in gfile.walk(base):
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            found[path[len(base) :].lstrip("/")] = read(path)
    return found


class FilesystemContract:
    NOT_KEPT: ClassVar[dict[str, str]] = {}
    NOT_ALWAYS_KEPT: ClassVar[dict[str, str]] = {}
    ENTRIES: ClassVar[int] = 1500  # of a large directory: more than a page of a listing on caches

    @pytest.fixture
    def root(self) -> str:
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _known_exceptions(self, request: pytest.FixtureRequest) -> None:
        reason = self.NOT_KEPT.get(request.node.originalname)
        if reason:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
        reason = self.NOT_ALWAYS_KEPT.get(request.node.originalname)
        if reason:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=False))

    # --- content --------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("size", [0, 1, 4095, 524_288, 524_289, 3_000_001])
    def test_what_was_written_is_read(self, root: str, size: int) -> None:
        content = bytes(range(256)) * (size // 256 + 1)
        write(f"{root}/f", content[:size])
        assert read(f"{root}/f") == content[:size]
        assert gfile.stat(f"{root}/f").length == size

    def test_write_replaces_all_of_the_content(self, root: str) -> None:
        """Opening for write that does not truncate leaves the old tail (the original's ggfs_writable_file.cc)."""
        write(f"{root}/f", b"12345")
        write(f"{root}/f", b"67")
        assert read(f"{root}/f") == b"67"

    def test_append_keeps_and_extends(self, root: str) -> None:
        """Opening for append wiped the event file (the original's igfs.cc; tensorflow/tensorboard #2260, #5759)."""
        write(f"{root}/f", b"67")
        write(f"{root}/f", b"89", "ab")
        assert read(f"{root}/f") == b"6789"

    def test_append_across_blocks(self, root: str) -> None:
        pieces = [bytes([i]) * size for i, size in enumerate([300_000, 300_000, 1, 524_288, 700_000, 0, 5])]
        for piece in pieces:
            write(f"{root}/f", piece, "ab")
        assert read(f"{root}/f") == b"".join(pieces)

    def test_many_appends(self, root: str) -> None:
        for i in range(80):
            write(f"{root}/f", b"%03d" % i, "ab")
        assert read(f"{root}/f") == b"".join(b"%03d" % i for i in range(80))

    def test_append_creates(self, root: str) -> None:
        write(f"{root}/f", b"1", "ab")
        assert read(f"{root}/f") == b"1"

    def test_append_of_nothing_keeps(self, root: str) -> None:
        write(f"{root}/f", b"1")
        write(f"{root}/f", b"", "ab")
        assert read(f"{root}/f") == b"1"

    def test_a_file_closed_unwritten_is_empty(self, root: str) -> None:
        with gfile.GFile(f"{root}/f", "w") as out:
            out.write("")  # TensorFlow opens the file at the first write
        assert gfile.exists(f"{root}/f")
        assert read(f"{root}/f") == b""

    def test_reading_in_pieces(self, root: str) -> None:
        content = bytes(range(251)) * 8000
        write(f"{root}/f", content)
        with gfile.GFile(f"{root}/f", "rb") as source:
            assert source.size() == len(content)
            assert source.read(10) == content[:10]
            source.seek(600_000)
            assert source.read(1_000_000) == content[600_000:1_600_000]
            source.seek(5)
            assert source.read(7) == content[5:12]
            source.seek(len(content) - 3)
            assert source.read(100) == content[-3:]
            assert source.read(1) == b""

    def test_text_lines(self, root: str) -> None:
        with gfile.GFile(f"{root}/f", "w") as out:
            out.write("één\ntwee\n")
            assert out.tell() == len("één\ntwee\n".encode())
        with gfile.GFile(f"{root}/f", "r") as source:
            assert list(source) == ["één\n", "twee\n"]

    def test_copy(self, root: str) -> None:
        write(f"{root}/f", b"x" * 1_500_000)
        gfile.copy(f"{root}/f", f"{root}/g")
        assert read(f"{root}/g") == b"x" * 1_500_000
        with pytest.raises(errors.AlreadyExistsError):
            gfile.copy(f"{root}/f", f"{root}/g")
        write(f"{root}/f", b"y")
        gfile.copy(f"{root}/f", f"{root}/g", overwrite=True)
        assert read(f"{root}/g") == b"y"
        with pytest.raises(errors.NotFoundError):
            gfile.copy(f"{root}/none", f"{root}/h")
        assert not gfile.exists(f"{root}/h")

    def test_copy_to_and_from_local_disk(self, root: str, tmp_path: Any) -> None:
        write(f"{root}/f", b"abc" * 500_000)
        gfile.copy(f"{root}/f", str(tmp_path / "local"))
        assert (tmp_path / "local").read_bytes() == b"abc" * 500_000
        gfile.copy(str(tmp_path / "local"), f"{root}/back")
        assert read(f"{root}/back") == b"abc" * 500_000

    @pytest.mark.parametrize("buffer_size", [7, 1 << 18])
    def test_records(self, root: str, buffer_size: int) -> None:
        """A short read reported as complete makes readers of records fail or loop (BR-30)."""
        records = [b"%d" % i * (i % 50) for i in range(1000)]
        with tf.io.TFRecordWriter(f"{root}/r") as out:
            for record in records:
                out.write(record)
        dataset = tf.data.TFRecordDataset(f"{root}/r", buffer_size=buffer_size)
        assert list(dataset.as_numpy_iterator()) == records

    def test_whole_files_and_lines_through_ops(self, root: str) -> None:
        tf.io.write_file(f"{root}/f", b"a\nbb\n\nc")
        assert tf.io.read_file(f"{root}/f").numpy() == b"a\nbb\n\nc"
        assert list(tf.data.TextLineDataset(f"{root}/f").as_numpy_iterator()) == [b"a", b"bb", b"", b"c"]
        assert [p.numpy().decode() for p in tf.data.Dataset.list_files(f"{root}/*")] == [f"{root}/f"]

    # --- when others see it ---------------------------------------------------------------------------------------

    def test_opening_for_write_changes_nothing(self, root: str) -> None:
        write(f"{root}/f", b"old")
        with gfile.GFile(f"{root}/f", "wb") as out, contextlib.suppress(StopIteration):
            out.write(b"new" * 1_000_000)
            seen = read(f"{root}/f")
        assert seen == b"old"
        assert read(f"{root}/f") == b"new" * 1_000_000

    def test_a_new_file_appears_whole_at_close(self, root: str) -> None:
        with gfile.GFile(f"{root}/f", "wb") as out:
            out.write(b"x" * 2_000_000)
            present, names = gfile.exists(f"{root}/f"), gfile.listdir(root)
        assert (present, names) == (False, [])
        assert len(read(f"{root}/f")) == 2_000_000

    def test_flush_publishes_everything_so_far(self, root: str) -> None:
        """TensorBoard showed nothing until training ended (tensorflow/tensorflow #14084, #33595; BR-28)."""
        write(f"{root}/f", b"old and longer")
        content = b""
        with gfile.GFile(f"{root}/f", "wb") as out:
            for piece in (b"a", b"bc" * 300_000, b"", b"d" * 524_288, b"e"):
                out.write(piece)
                content += piece
                out.flush()
                assert read(f"{root}/f") == content
                assert gfile.stat(f"{root}/f").length == len(content)
            out.write(b"tail")
        assert read(f"{root}/f") == content + b"tail"

    def test_an_open_reader_keeps_its_version_when_the_file_is_replaced(self, root: str) -> None:
        old, new = b"o" * 2_000_000, b"n" * 3_000_000
        write(f"{root}/f", old)
        with gfile.GFile(f"{root}/f", "rb") as source:
            assert source.read(10) == old[:10]
            write(f"{root}/f", new)
            assert source.read(3_000_000) == old[10:]  # without a size, GFile asks for that of the new file
        assert read(f"{root}/f") == new

    def test_an_open_reader_keeps_its_version_when_another_file_is_renamed_onto_it(self, root: str) -> None:
        write(f"{root}/f", b"o" * 2_000_000)
        with gfile.GFile(f"{root}/f", "rb") as source:
            assert source.read(10) == b"o" * 10
            write(f"{root}/g", b"n" * 2_000_000)
            gfile.rename(f"{root}/g", f"{root}/f", overwrite=True)
            assert source.read(2_000_000) == b"o" * 1_999_990

    def test_an_open_reader_keeps_its_version_when_the_file_is_removed(self, root: str) -> None:
        write(f"{root}/f", b"o" * 2_000_000)
        with gfile.GFile(f"{root}/f", "rb") as source:
            assert source.read(10) == b"o" * 10
            gfile.remove(f"{root}/f")
            assert source.read(2_000_000) == b"o" * 1_999_990

    def test_several_readers_at_once(self, root: str) -> None:
        content = bytes(range(250)) * 16_000
        write(f"{root}/f", content)
        starts = list(range(0, 4_000_000, 400_000))
        pieces = tf.data.Dataset.from_tensor_slices(starts).map(
            lambda start: tf.strings.substr(tf.io.read_file(f"{root}/f"), start, 400_000),
            num_parallel_calls=4,
        )
        assert b"".join(pieces.as_numpy_iterator()) == content

    # --- rename ---------------------------------------------------------------------------------------------------

    def test_rename_moves_a_file(self, root: str) -> None:
        build(root, {"a/f": b"x", "b/other": b"y"})
        gfile.rename(f"{root}/a/f", f"{root}/b/g")
        assert tree(root) == {"b/g": b"x", "b/other": b"y"}

    def test_rename_replaces_a_file(self, root: str) -> None:
        build(root, {"f": b"new", "g": b"old"})
        with pytest.raises(errors.AlreadyExistsError):
            gfile.rename(f"{root}/f", f"{root}/g")
        gfile.rename(f"{root}/f", f"{root}/g", overwrite=True)
        assert tree(root) == {"g": b"new"}

    def test_rename_to_itself_changes_nothing(self, root: str) -> None:
        build(root, {"d/f": b"x"})
        gfile.rename(f"{root}/d/f", f"{root}/d/f", overwrite=True)
        gfile.rename(f"{root}/d", f"{root}/d", overwrite=True)
        assert tree(root) == {"d/f": b"x"}

    def test_rename_moves_a_directory_with_everything_below(self, root: str) -> None:
        """Estimator ends every export so (tensorflow #60165, #61364, #45936; io #1816, #834; BR-23)."""
        content = {"saved_model.pb": b"x", "variables/v": b"y", "assets/a/b": b"z"}
        build(f"{root}/temp-1", content)
        gfile.rename(f"{root}/temp-1", f"{root}/1")
        assert tree(f"{root}/1") == content
        assert not gfile.exists(f"{root}/temp-1")
        gfile.makedirs(f"{root}/deep/er")
        gfile.rename(f"{root}/1", f"{root}/deep/er/2")
        assert tree(root) == {f"deep/er/2/{name}": text for name, text in content.items()}

    def test_rename_replaces_an_empty_directory(self, root: str) -> None:
        build(root, {"a/f": b"x"})
        gfile.makedirs(f"{root}/b")
        gfile.rename(f"{root}/a", f"{root}/b", overwrite=True)
        assert tree(root) == {"b/f": b"x"}

    def test_rename_refuses_and_keeps_both(self, root: str) -> None:
        content = {"a/f": b"1", "b/g": b"2", "file": b"3"}
        build(root, content)
        for source, target, error in [
            ("a", "b", errors.FailedPreconditionError),  # not empty
            ("a", "file", errors.FailedPreconditionError),  # a file
            ("file", "b", errors.FailedPreconditionError),  # a directory
            ("a", "a/inside", errors.InvalidArgumentError),  # into itself
            ("a", "a/f/x", (errors.FailedPreconditionError, errors.InvalidArgumentError)),
            ("none", "c", errors.NotFoundError),
            ("file", "none/c", errors.NotFoundError),
            ("file", "file/c", errors.FailedPreconditionError),
        ]:
            with pytest.raises(error):
                gfile.rename(f"{root}/{source}", f"{root}/{target}", overwrite=True)
            assert tree(root) == content, (source, target)
        write(f"{root}/b/still-usable", b"")

    # --- listing --------------------------------------------------------------------------------------------------

    def test_listing_gives_bare_names(self, root: str) -> None:
        """Slashes in names keep exporters from removing old exports (tensorflow #39167, #17239, #47313; BR-26)."""
        build(root, {"a/x": b"", "a/d/y": b"", "a/d/e/z": b""})
        for path in (f"{root}/a", f"{root}/a/", f"{root}//a", f"{root}/./a", f"{root}/a/d/.."):
            assert sorted(gfile.listdir(path)) == ["d", "x"], path
        assert next(iter(gfile.walk(f"{root}/a"))) == (f"{root}/a", ["d"], ["x"])
        assert [folder for folder, _, _ in gfile.walk(f"{root}/a")] == [
            f"{root}/a",
            f"{root}/a/d",
            f"{root}/a/d/e",
        ]

    def test_listing_what_is_no_directory(self, root: str) -> None:
        write(f"{root}/f", b"")
        for path in (f"{root}/none", f"{root}/none/deeper", f"{root}/f"):
            with pytest.raises(errors.NotFoundError):  # TensorFlow's own check comes first
                gfile.listdir(path)
        assert list(gfile.walk(f"{root}/none")) == []

    def test_glob(self, root: str) -> None:
        """A glob that meets an entry named like the separator never returned (tensorflow #42955; BR-26)."""
        build(
            root,
            {
                "a/x": b"",
                "a/d/y": b"",
                "b/d/y": b"",
                "a/model.ckpt-1.index": b"",
                "a/model.ckpt-10.index": b"",
            },
        )
        assert sorted(gfile.glob(f"{root}/a/*")) == [
            f"{root}/a/{name}" for name in ("d", "model.ckpt-1.index", "model.ckpt-10.index", "x")
        ]
        assert sorted(gfile.glob(f"{root}/*/d/y")) == [f"{root}/a/d/y", f"{root}/b/d/y"]
        assert gfile.glob(f"{root}/a/model.ckpt-1.*") == [f"{root}/a/model.ckpt-1.index"]
        assert gfile.glob(f"{root}/a/x") == [f"{root}/a/x"]
        assert sorted(gfile.glob(f"{root}/a/[dx]")) == [f"{root}/a/d", f"{root}/a/x"]
        assert gfile.glob(f"{root}/none/*") == gfile.glob(f"{root}/a/none*") == []

    NAMES: ClassVar[list[str]] = [
        "with space", "ünï-código-文件-🚀", "%41%2F", "a:b@c", "star*[x]?", "back\\slash", "..dots..", ".hidden",
        "'quo\"te'", "tab\tnew\nline", "-dash", "x" * 200, "igfs:", "#hash&=",
    ]  # fmt: skip

    def test_odd_names(self, root: str) -> None:
        for name in self.NAMES:
            write(f"{root}/{name}", name.encode())
            gfile.makedirs(f"{root}/in/{name}")
            write(f"{root}/in/{name}/f", name.encode())
        assert sorted(gfile.listdir(root)) == sorted([*self.NAMES, "in"])
        assert sorted(gfile.listdir(f"{root}/in")) == sorted(self.NAMES)
        for name in self.NAMES:
            assert read(f"{root}/{name}") == read(f"{root}/in/{name}/f") == name.encode()
            gfile.rename(f"{root}/in/{name}", f"{root}/in/other")
            gfile.rename(f"{root}/in/other", f"{root}/in/{name}")
            gfile.rmtree(f"{root}/in/{name}")
            gfile.remove(f"{root}/{name}")
        assert gfile.listdir(root) == ["in"]

    def test_one_path_in_several_spellings(self, root: str) -> None:
        build(root, {"a/b/c": b"1"})
        for path in ("a//b/./c", "/a/b/c", "a/b/../b/c", "./a/b//c"):
            assert read(f"{root}/{path}") == b"1", path
        gfile.rename(f"{root}/a//b/c", f"{root}/a/./d")
        assert tree(root) == {"a/d": b"1"}

    def test_a_large_directory(self, root: str) -> None:
        names = [f"n{i:04d}" for i in range(self.ENTRIES)]
        gfile.makedirs(f"{root}/d")
        for name in names:
            gfile.makedirs(f"{root}/d/{name}") if name.endswith("7") else write(f"{root}/d/{name}", b"")
        assert sorted(gfile.listdir(f"{root}/d")) == names
        gfile.rmtree(f"{root}/d")
        assert gfile.listdir(root) == []

    # --- status, directories, removal -----------------------------------------------------------------------------

    def test_stat(self, root: str) -> None:
        before = time.time() - 2
        build(root, {"d/f": b"12345"})
        status = gfile.stat(f"{root}/d/f")
        assert (status.length, status.is_directory) == (5, False)
        assert before * 1e9 < status.mtime_nsec < (time.time() + 2) * 1e9
        assert gfile.stat(f"{root}/d").is_directory
        assert gfile.isdir(f"{root}/d")
        assert gfile.isdir(f"{root}/d/")
        assert gfile.isdir(root)
        assert not gfile.isdir(f"{root}/d/f")
        assert not gfile.isdir(f"{root}/none")
        assert gfile.exists(f"{root}/d")
        assert gfile.exists(f"{root}/d/")
        assert not gfile.exists(f"{root}/d/none")
        assert not gfile.exists(f"{root}/none/none")

    def test_the_right_error(self, root: str) -> None:
        """Reading a directory gave an empty file (tensorflow #46282, #56774; BR-27)."""
        build(root, {"d/f": b"1"})
        with pytest.raises(errors.NotFoundError):
            read(f"{root}/none")
        with pytest.raises(errors.NotFoundError):
            gfile.stat(f"{root}/none/f")
        with pytest.raises(errors.FailedPreconditionError):
            read(f"{root}/d")
        with pytest.raises(errors.FailedPreconditionError):
            write(f"{root}/d", b"")
        with pytest.raises(errors.FailedPreconditionError):
            read(f"{root}/d/f/x")
        with pytest.raises(errors.NotFoundError):
            write(f"{root}/none/f", b"")
        with pytest.raises(errors.NotFoundError):
            gfile.remove(f"{root}/none")
        with pytest.raises(errors.NotFoundError):
            gfile.rmtree(f"{root}/none")
        with pytest.raises(errors.NotFoundError):
            gfile.mkdir(f"{root}/none/d")
        with pytest.raises((errors.FailedPreconditionError, errors.AlreadyExistsError)):
            gfile.makedirs(f"{root}/d/f")
        with pytest.raises((errors.FailedPreconditionError, errors.AlreadyExistsError)):
            gfile.makedirs(f"{root}/d/f/g")
        assert tree(root) == {"d/f": b"1"}

    def test_removing_a_directory_as_a_file(self, root: str) -> None:
        build(root, {"d/f": b"1"})
        with pytest.raises(errors.FailedPreconditionError):
            gfile.remove(f"{root}/d")
        assert tree(root) == {"d/f": b"1"}

    def test_making_directories(self, root: str) -> None:
        gfile.makedirs(f"{root}/a/b/c")
        gfile.makedirs(f"{root}/a/b/c")
        gfile.makedirs(f"{root}/a/b/d/")
        gfile.mkdir(f"{root}/e")
        with contextlib.suppress(errors.AlreadyExistsError):
            gfile.mkdir(f"{root}/e")
        assert sorted(gfile.listdir(f"{root}/a/b")) == ["c", "d"]

    def test_removing_a_tree(self, root: str) -> None:
        build(root, {"a/x": b"1", "a/b/c/y": b"2", "keep": b"3"})
        gfile.makedirs(f"{root}/a/empty/er")
        gfile.rmtree(f"{root}/a")
        assert tree(root) == {"keep": b"3"}
        assert gfile.listdir(root) == ["keep"]
        build(root, {"a/x": b"4"})
        assert tree(f"{root}/a") == {"x": b"4"}

    # --- TensorFlow's own writers ---------------------------------------------------------------------------------

    def test_checkpoints(self, root: str) -> None:
        variable = tf.Variable(tf.zeros([100_000]))
        manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=variable), f"{root}/ckpt", max_to_keep=2)
        for step in range(1, 5):
            variable.assign(tf.fill([100_000], float(step)))
            manager.save()
        assert tf.train.latest_checkpoint(f"{root}/ckpt") == f"{root}/ckpt/ckpt-4"
        assert sorted(name for name in gfile.listdir(f"{root}/ckpt") if name.endswith(".index")) == [
            "ckpt-3.index",
            "ckpt-4.index",
        ]
        restored = tf.Variable(tf.zeros([100_000]))
        tf.train.Checkpoint(v=restored).restore(f"{root}/ckpt/ckpt-3").assert_consumed()
        assert float(restored[99_999]) == 3.0

    def test_saved_model(self, root: str) -> None:
        module = tf.Module()
        module.w = tf.Variable([[2.0], [3.0]])
        module.f = tf.function(lambda x: x @ module.w, input_signature=[tf.TensorSpec([None, 2])])
        tf.saved_model.save(module, f"{root}/export/1")
        loaded = tf.saved_model.load(f"{root}/export/1")
        assert loaded.f(tf.constant([[1.0, 1.0]])).numpy().tolist() == [[5.0]]

    def test_events_are_visible_while_the_writer_lives(self, root: str) -> None:
        """Also across a pause, and without a second file (tensorflow #14084; BR-28)."""
        writer = tf.summary.create_file_writer(f"{root}/logs")
        for step in (1, 2):
            with writer.as_default():
                tf.summary.scalar("loss", 1.0 / step, step=step)
            writer.flush()
            assert list(_scalars(f"{root}/logs")) == [1.0, 0.5][:step]
        writer.close()


def _scalars(folder: str) -> Iterator[float]:
    (name,) = gfile.listdir(folder)
    for event in tf.compat.v1.train.summary_iterator(f"{folder}/{name}"):
        for value in event.summary.value:
            yield float(tf.make_ndarray(value.tensor))
