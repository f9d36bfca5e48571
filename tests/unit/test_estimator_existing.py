"""Evaluation of checkpoints that training deletes meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")
if not hasattr(tf, "estimator"):
    pytest.skip("this TensorFlow has no Estimator", allow_module_level=True)

from ignite_strategy.estimator.existing import Evaluations  # noqa: E402


class Exporter:
    name = "mine"

    def __init__(self) -> None:
        self.told: list[str] = []

    def export(self, estimator: Any, export_path: str, checkpoint_path: str, **rest: Any) -> str:
        self.told.append(checkpoint_path)
        return "exported"


def evaluate(input_fn: Any, checkpoint_path: str) -> dict[str, str]:
    if not Path(checkpoint_path + ".index").exists():
        raise ValueError(f"The passed save_path is not a valid checkpoint: {checkpoint_path}")
    if "broken" in checkpoint_path:
        raise ValueError("the model is wrong")
    return {"evaluated": checkpoint_path}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Any:
    def make(name: str) -> str:
        (tmp_path / f"{name}.index").touch()
        return str(tmp_path / name)

    return make


def test_the_next_one_takes_the_place_of_one_that_is_gone(checkpoint: Any) -> None:
    third = checkpoint("ckpt-3")
    following = iter(["/gone/ckpt-2", third])
    evaluations = Evaluations(evaluate, lambda: next(following), keep=2)
    assert evaluations.evaluate(None, checkpoint_path="/gone/ckpt-1") == {"evaluated": third}
    mine = Exporter()
    exporter = evaluations.exporter(mine)
    assert exporter.name == "mine"
    result = {"estimator": None, "export_path": "", "eval_result": {}, "is_the_final_export": False}
    assert exporter.export(checkpoint_path="/gone/ckpt-1", **result) == "exported"
    assert exporter.export(checkpoint_path=third, **result) == "exported"
    assert mine.told == [third, third]


def test_another_error_is_the_users(checkpoint: Any) -> None:
    evaluations = Evaluations(evaluate, lambda: pytest.fail("asked for another one"), keep=2)
    with pytest.raises(ValueError, match="the model is wrong"):
        evaluations.evaluate(None, checkpoint_path=checkpoint("broken-1"))
