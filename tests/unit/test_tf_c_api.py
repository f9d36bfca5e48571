"""Our declarations of TensorFlow's C interface against the headers in the installed TensorFlow, and in the newest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "ignite_strategy"
HEADER = ROOT / "native" / "tensorflow" / "tf_c_api.h"
PROGRAM = """
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"
#include "tensorflow/c/tf_tstring.h"
#define IGNITE_STRATEGY_WITH_TENSORFLOW_HEADERS
#include "native/tensorflow/tf_c_api.h"  // a declaration that differs does not compile
#include "native/binary/types.h"
#include "native/wire/error.h"
#include <cstddef>

using namespace ignite_strategy;
#define SAME(theirs, ours) static_assert(static_cast<int>(theirs) == static_cast<int>(ours), #theirs)
SAME(TF_OK, Code::kOk);
SAME(TF_CANCELLED, Code::kCancelled);
SAME(TF_UNKNOWN, Code::kUnknown);
SAME(TF_INVALID_ARGUMENT, Code::kInvalidArgument);
SAME(TF_DEADLINE_EXCEEDED, Code::kDeadlineExceeded);
SAME(TF_NOT_FOUND, Code::kNotFound);
SAME(TF_ALREADY_EXISTS, Code::kAlreadyExists);
SAME(TF_PERMISSION_DENIED, Code::kPermissionDenied);
SAME(TF_UNAUTHENTICATED, Code::kUnauthenticated);
SAME(TF_RESOURCE_EXHAUSTED, Code::kResourceExhausted);
SAME(TF_FAILED_PRECONDITION, Code::kFailedPrecondition);
SAME(TF_ABORTED, Code::kAborted);
SAME(TF_OUT_OF_RANGE, Code::kOutOfRange);
SAME(TF_OUT_OF_RANGE, 11);
SAME(TF_UNIMPLEMENTED, Code::kUnimplemented);
SAME(TF_INTERNAL, Code::kInternal);
SAME(TF_UNAVAILABLE, Code::kUnavailable);
SAME(TF_DATA_LOSS, Code::kDataLoss);
SAME(TF_FLOAT, DType::kFloat32);
SAME(TF_DOUBLE, DType::kFloat64);
SAME(TF_INT32, DType::kInt32);
SAME(TF_INT32, 3);
SAME(TF_INT16, DType::kInt16);
SAME(TF_INT8, DType::kInt8);
SAME(TF_STRING, DType::kString);
SAME(TF_STRING, 7);
SAME(TF_INT64, DType::kInt64);
SAME(TF_INT64, 9);
SAME(TF_BOOL, DType::kBool);
SAME(TF_BOOL, 10);
SAME(TF_UINT16, DType::kUint16);
SAME(sizeof(TF_Code), 4);
SAME(sizeof(TF_DataType), 4);

SAME(sizeof(TF_TString), sizeof(TensorString));
SAME(offsetof(TF_TString, u.smll.str), offsetof(TensorString, small.bytes));
SAME(TF_TString_SmallCapacity, TensorString::kSmallCapacity);
SAME(offsetof(TF_TString, u.large.size), offsetof(TensorString, large.size));
SAME(offsetof(TF_TString, u.large.cap), offsetof(TensorString, large.capacity));
SAME(offsetof(TF_TString, u.large.ptr), offsetof(TensorString, large.bytes));
SAME(offsetof(TF_TString, u.offset.offset), offsetof(TensorString, offset.offset));
SAME(offsetof(TF_TString, u.view.ptr), offsetof(TensorString, view.bytes));
SAME(TF_TSTR_SMALL, TensorString::kSmall);
SAME(TF_TSTR_LARGE, TensorString::kLarge);
SAME(TF_TSTR_OFFSET, TensorString::kOffset);
SAME(TF_TSTR_VIEW, TensorString::kView);
"""
COMPILER = shutil.which("g++") or shutil.which("clang++") or "g++"


def include(python: str) -> Path:
    command = "import importlib.util as u; print(u.find_spec('tensorflow').submodule_search_locations[0])"
    folder = subprocess.run([python, "-c", command], capture_output=True, text=True, check=True, timeout=60)
    return Path(folder.stdout.strip()) / "include"


def compile_against(headers: Path, program: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    source = tmp_path / "compare.cc"
    source.write_text(program)
    command = [COMPILER, "-std=c++17", "-fsyntax-only", f"-I{headers}", f"-I{ROOT}", str(source)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(params=["installed", "newest"])
def headers(request: pytest.FixtureRequest) -> Path:
    if request.param == "newest":
        python = os.environ.get("IGNITE_STRATEGY_NEWEST_PYTHON")
        if not python:
            pytest.skip(
                "IGNITE_STRATEGY_NEWEST_PYTHON does not name an interpreter with the newest TensorFlow"
            )
        return include(python)
    if find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    return include(sys.executable)


def test_declarations_constants_and_layouts_agree(headers, tmp_path):
    done = compile_against(headers, PROGRAM, tmp_path)
    assert done.returncode == 0, done.stderr[:3000]


@pytest.mark.parametrize(
    ("ours", "wrong"),
    [
        ("int TF_NumDims(const TF_Tensor* tensor);", "long TF_NumDims(const TF_Tensor* tensor);"),
        ("kSmallCapacity = 22", "kSmallCapacity = 21"),
    ],
)
def test_a_difference_is_noticed(tmp_path, ours, wrong):
    if find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    text = HEADER.read_text()
    assert ours in text
    program = PROGRAM.replace('#include "native/tensorflow/tf_c_api.h"', text.replace(ours, wrong) + "\n")
    assert compile_against(include(sys.executable), program, tmp_path).returncode != 0
