"""Our own declaration of TensorFlow's filesystem interface says the same as the headers inside TensorFlow.

A filesystem plugin is called through tables of function pointers: a slot out of place is a crash, not an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEWEST = os.environ.get("IGNITE_STRATEGY_NEWEST_PYTHON", "")
TABLES = {
    "RandomAccessFileOps": ["cleanup", "read"],
    "WritableFileOps": ["cleanup", "append", "tell", "flush", "sync", "close"],
    "FilesystemOps": [
        "init", "cleanup", "new_random_access_file", "new_writable_file", "new_appendable_file", "create_dir",
        "recursively_create_dir", "delete_file", "delete_dir", "delete_recursively", "rename_file", "copy_file",
        "path_exists", "paths_exist", "stat", "is_directory", "get_file_size", "translate_name", "get_children",
        "get_matching_paths",
    ],
}  # fmt: skip
UNUSED = [
    "new_read_only_memory_region_from_file", "flush_caches", "start_transaction",
    "end_transaction", "add_to_transaction", "get_transaction_for_path", "get_or_start_transaction_for_path",
    "decode_transaction_token", "get_filesystem_configuration", "set_filesystem_configuration",
    "get_filesystem_configuration_option", "set_filesystem_configuration_option", "get_filesystem_configuration_keys",
]  # fmt: skip
PLUGIN = [
    f"{table}_ops{suffix}"
    for table in ("filesystem", "random_access_file", "writable_file", "read_only_memory_region")
    for suffix in ("_abi", "_api", "_size", "")
]

PREAMBLE = """
#define IGNITE_STRATEGY_WITH_TENSORFLOW_HEADERS
#include <type_traits>
#include "tensorflow/c/experimental/filesystem/filesystem_interface.h"
#include "native/tensorflow/tf_filesystem_api.h"
namespace ours = ignite_strategy::tf_filesystem;
// A type of TensorFlow's header as this library names it.
template <typename T> struct Named { using type = T; };
template <> struct Named<TF_Filesystem> { using type = ours::Filesystem; };
template <> struct Named<TF_RandomAccessFile> { using type = ours::RandomAccessFile; };
template <> struct Named<TF_WritableFile> { using type = ours::WritableFile; };
template <> struct Named<TF_FileStatistics> { using type = ours::FileStatistics; };
template <typename T> struct Named<const T> { using type = const typename Named<T>::type; };
template <typename T> struct Named<T*> { using type = typename Named<T>::type*; };
template <typename R, typename... A> struct Named<R (*)(A...)> {
  using type = typename Named<R>::type (*)(typename Named<A>::type...);
};
#define SAME_PLACE(theirs, mine, name) \\
  static_assert(offsetof(theirs, name) == offsetof(ours::mine, name), #mine "." #name)
#define SAME_TYPE(theirs, mine, name) \\
  static_assert(std::is_same<Named<decltype(theirs::name)>::type, decltype(ours::mine::name)>::value, #mine "." #name)
#define SAME_SIZE(theirs, mine) static_assert(sizeof(theirs) == sizeof(ours::mine), #mine)
static_assert(TF_FILESYSTEM_OPS_ABI == 0 && TF_RANDOM_ACCESS_FILE_OPS_ABI == 0 && TF_WRITABLE_FILE_OPS_ABI == 0, "ABI");
static_assert(TF_OK == 0 && TF_OUT_OF_RANGE == 11 && TF_UNAVAILABLE == 14, "codes");
"""


def program() -> str:
    lines = [PREAMBLE]
    for table, slots in TABLES.items():
        lines.append(f"SAME_SIZE(TF_{table}, {table});")
        for slot in slots:
            lines += [f"SAME_PLACE(TF_{table}, {table}, {slot});", f"SAME_TYPE(TF_{table}, {table}, {slot});"]
    lines += [f"SAME_PLACE(TF_FilesystemOps, FilesystemOps, {slot});" for slot in UNUSED]
    lines += [f"SAME_PLACE(TF_FilesystemPluginOps, PluginOps, {member});" for member in ["scheme", *PLUGIN]]
    for member in ("num_schemes", "ops", "plugin_memory_allocate", "plugin_memory_free"):
        lines.append(f"SAME_PLACE(TF_FilesystemPluginInfo, PluginInfo, {member});")
    for member in ("length", "mtime_nsec", "is_directory"):
        lines.append(f"SAME_PLACE(TF_FileStatistics, FileStatistics, {member});")
    for theirs, mine in (
        ("TF_FilesystemPluginOps", "PluginOps"),
        ("TF_FilesystemPluginInfo", "PluginInfo"),
        ("TF_FileStatistics", "FileStatistics"),
        ("TF_Filesystem", "Filesystem"),
    ):
        lines.append(f"SAME_SIZE({theirs}, {mine});")
    return "\n".join(lines)


def include_folder(python: str) -> Path:
    code = "import importlib.util as u; print(u.find_spec('tensorflow').submodule_search_locations[0])"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return Path(found.stdout.strip()) / "include"


def compile_against(python: str, text: str) -> subprocess.CompletedProcess[str]:
    compiler = shutil.which("c++") or shutil.which("g++")
    assert compiler, "a C++ compiler is needed, as for building"
    command = [compiler, "-std=c++17", "-fsyntax-only", "-Wno-invalid-offsetof", "-x", "c++", "-"]
    folders = [f"-I{ROOT / 'ignite_strategy'}", f"-isystem{include_folder(python)}"]
    return subprocess.run(
        [*command, *folders], input=text, capture_output=True, text=True, check=False, timeout=120
    )


def test_agrees_with_the_installed_tensorflow() -> None:
    compiled = compile_against(sys.executable, program())
    assert compiled.returncode == 0, compiled.stderr


def test_the_comparison_can_fail() -> None:
    wrong = "SAME_TYPE(TF_FilesystemOps, FilesystemOps, stat);"
    text = program().replace(
        wrong, wrong.replace("stat", "get_file_size").replace("TF_FilesystemOps", "Other")
    )
    text = text.replace(PREAMBLE, PREAMBLE + "struct Other { int get_file_size; };")
    assert "FilesystemOps.get_file_size" in compile_against(sys.executable, text).stderr


@pytest.mark.skipif(
    not Path(NEWEST).is_file(),
    reason="IGNITE_STRATEGY_NEWEST_PYTHON names no interpreter with the newest TensorFlow",
)
def test_agrees_with_the_newest_tensorflow() -> None:
    compiled = compile_against(NEWEST, program())
    assert compiled.returncode == 0, compiled.stderr
