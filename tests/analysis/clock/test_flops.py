"""MFU and HFU without arguments: of the model, the device and the reports in the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from instrumentor_analysis.clock.flops import ModelFacts, sample_flops
from instrumentor_analysis.model import Mfu
from instrumentor_analysis.shared.documents import fitted
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.records import batch, event, run_folder

MODEL = {"event": "model", "pid": 1, "trainable": 1000, "frozen": 5000, "attention": 64}
CHIP = {"arch": "blackhole", "chips": 2}
REPORTED = {"reported_flops": 10**9, "reported_peak": 10**12, "graphs": 2}


def mfu_of(folder: Path, label: str, *events: dict[str, Any], tokens: int | None = 4 * 128) -> Mfu:
    """The MFU of a step of 2 ms with four sequences of 128 tokens."""
    step = event("step_steady_1", 2.0, label=label, **batch(4, 128, tokens=tokens))
    wall = analyse(run_folder(folder / "run", step, *events)).summary.wall_clock
    assert wall.mfu is not None
    return wall.mfu


def test_language_model(tmp_path: Path) -> None:
    mfu = mfu_of(tmp_path, "fwd+bwd", {**MODEL, **CHIP})
    per_token = 6 * 1000 + 4 * 5000 + 12 * 64 * 128
    assert mfu.flops_per_sample == per_token * 128
    assert mfu.tflops == pytest.approx(per_token * 128 * 2000 / 1e12)
    assert mfu.peak_tflops == pytest.approx(2 * 152.064)
    assert mfu.percent == pytest.approx(mfu.tflops / mfu.peak_tflops * 100)  # type: ignore[operator]
    assert mfu.peak_source == "2 x blackhole, 110 cores at HiFi4 (assumed)"
    assert "6 x 1,000 trained + 4 x 5,000 frozen + 12 x 64 x 128 of attention" in mfu.formula
    assert mfu.hfu_percent is None


def test_inference_is_the_forward_alone(tmp_path: Path) -> None:
    mfu = mfu_of(tmp_path, "inference", {**MODEL, **CHIP})
    assert mfu.flops_per_sample == (2 * 6000 + 4 * 64 * 128) * 128


def test_other_models_are_counted(tmp_path: Path) -> None:
    counted = {"counted_flops": 8_000_000, "counted_samples": 4}
    mfu = mfu_of(tmp_path, "fwd+bwd", {**MODEL, "attention": 0, **counted}, tokens=None)
    assert mfu.flops_per_sample == 2_000_000
    assert "counted op by op" in mfu.formula
    assert (mfu.percent, mfu.peak_tflops) == (None, None)
    assert mfu.peak_source == "the run names no architecture"


def test_an_op_without_a_formula_leaves_nothing_to_quote(tmp_path: Path) -> None:
    step = event("step_steady_1", 2.0, label="fwd+bwd", **batch(4, 128, tokens=None))
    counted = {"counted_flops": 8000, "counted_samples": 4, "uncounted": ["aten::a", "mine::b"]}
    counted = {**MODEL, "attention": 0, **counted}
    summary = analyse(run_folder(tmp_path / "run", step, counted)).summary
    assert summary.wall_clock is not None and summary.wall_clock.mfu is None
    (told,) = (each for each in summary.warnings if each.kind == "no-flops")
    assert told.message == (
        "There are no model FLOPs, because aten::a, mine::b have no formula; the other ops make "
        "2.0 kFLOPs a sample. `report --flops N --peak-tflops N` takes yours."
    )


def test_hfu_is_of_what_the_compiler_reported(tmp_path: Path) -> None:
    mfu = mfu_of(tmp_path, "fwd+bwd", {**MODEL, **CHIP, **REPORTED})
    assert mfu.hfu_percent == pytest.approx(10**9 / 0.002 / 10**12 * 100)


@pytest.mark.parametrize(
    ("facts", "label", "tokens"),
    [
        (ModelFacts(), "fwd+bwd", 128.0),
        (ModelFacts(trainable=5, frozen=0, attention=0), "fwd+bwd", 128.0),
        (ModelFacts(trainable=5, frozen=0, attention=8), "fwd+bwd", None),
        (ModelFacts(trainable=5, frozen=0, attention=8), "region", 128.0),
        (ModelFacts(counted_flops=5), "fwd+bwd", None),
        (ModelFacts(counted_flops=5, counted_samples=1, uncounted=("a::b",)), "fwd+bwd", None),
    ],
)
def test_nothing_is_made_up(facts: ModelFacts, label: str, tokens: float | None) -> None:
    assert sample_flops(facts, label, tokens) is None


def test_a_record_of_another_version_is_read_for_what_it_has() -> None:
    told = {"event": "model", "trainable": "many", "frozen": True, "chips": 4, "arch": 7, "new": 1}
    assert fitted(told, ModelFacts) == ModelFacts(chips=4)
