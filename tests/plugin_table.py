"""Calls the slots of the filesystem plugin as TensorFlow does: what a call returns and sets, with nothing between."""

from __future__ import annotations

import ctypes
from typing import Any

import tensorflow as tf  # noqa: F401  (loads the framework library, which has the functions for statuses)

from ignite_strategy import library

OK, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED = 0, 5, 6, 9, 11, 12
INVALID_ARGUMENT, ABORTED, UNAVAILABLE = 3, 10, 14

P, S, N = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
READING = ["cleanup", "read"]
WRITING = ["cleanup", "append", "tell", "flush", "sync", "close"]
TREE = [
    "init", "cleanup", "new_random_access_file", "new_writable_file", "new_appendable_file",
    "new_read_only_memory_region_from_file", "create_dir", "recursively_create_dir", "delete_file", "delete_dir",
    "delete_recursively", "rename_file", "copy_file", "path_exists", "paths_exist", "stat", "is_directory",
    "get_file_size", "translate_name", "get_children", "get_matching_paths", "flush_caches",
]  # fmt: skip
UNUSED = {"new_read_only_memory_region_from_file", "flush_caches"}


class _PluginOps(ctypes.Structure):
    _fields_ = [("scheme", S)] + [
        (f"{table}_{member}", kind)
        for table in ("tree", "reading", "writing", "memory")
        for member, kind in (
            ("abi", ctypes.c_int),
            ("api", ctypes.c_int),
            ("size", N),
            ("ops", ctypes.POINTER(P)),
        )
    ]


class _PluginInfo(ctypes.Structure):
    _fields_ = [("num_schemes", N), ("ops", ctypes.POINTER(_PluginOps)), ("allocate", P), ("free", P)]


class Statistics(ctypes.Structure):
    _fields_ = [("length", ctypes.c_int64), ("mtime_nsec", ctypes.c_int64), ("is_directory", ctypes.c_bool)]


class Plugin:
    """``plugin.tree("stat", ...)`` calls a slot and returns what it returned; ``plugin.code`` is the status it set."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(library.path()))
        self.framework = ctypes.CDLL("libtensorflow_framework.so.2")
        self.framework.TF_NewStatus.restype = P
        self.framework.TF_Message.restype = S
        self.framework.TF_Message.argtypes = self.framework.TF_GetCode.argtypes = [P]
        self.status = P(self.framework.TF_NewStatus())
        info = _PluginInfo()
        self.library.TF_InitPlugin(ctypes.byref(info))
        self.ops = info.ops[0]
        self.filesystem = ctypes.byref(P())

    @property
    def code(self) -> int:
        return int(self.framework.TF_GetCode(self.status))

    @property
    def message(self) -> str:
        return (self.framework.TF_Message(self.status) or b"").decode()

    def slot(self, table: str, names: list[str], name: str) -> int | None:
        return getattr(self.ops, f"{table}_ops")[names.index(name)]

    def tree(self, name: str, *arguments: Any, restype: Any = None) -> Any:
        encoded = [a.encode() if isinstance(a, str) else a for a in arguments]
        address = self.slot("tree", TREE, name)
        return ctypes.CFUNCTYPE(restype, P, *map(_kind, encoded), P)(address)(
            self.filesystem, *encoded, self.status
        )

    def on_file(self, table: str, name: str, file: Any, *arguments: Any, restype: Any = None) -> Any:
        names = READING if table == "reading" else WRITING
        function = ctypes.CFUNCTYPE(restype, P, *map(_kind, arguments), P)(self.slot(table, names, name))
        return function(ctypes.byref(file), *arguments, self.status)

    def open(self, slot: str, uri: str) -> Any:
        file = P()
        self.tree(slot, uri, ctypes.byref(file))
        return file

    def read(self, file: Any, offset: int, size: int) -> tuple[bytes, int]:
        buffer = ctypes.create_string_buffer(max(size, 1))
        got = self.on_file(
            "reading", "read", file, ctypes.c_uint64(offset), N(size), buffer, restype=ctypes.c_int64
        )
        return buffer.raw[:got], self.code


def _kind(argument: Any) -> Any:
    if isinstance(argument, bytes):
        return S
    return type(argument) if isinstance(argument, ctypes._SimpleCData) else P
