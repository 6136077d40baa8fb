"""MFU and HFU without arguments: of the model, the device and the reports in the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from instrumentor_analysis.clock.flops import ModelFacts, sample_flops
from instrumentor_analysis.model import Iteration, Mfu, Update
from instrumentor_analysis.reports.exports import openmetrics
from instrumentor_analysis.reports.headline import wall_clock_figures_of
from instrumentor_analysis.shared.documents import fitted
from instrumentor_analysis.summary.mfu import NO_PEAK_OF_A_CPU
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.ops_rows import Row, matmul, step, text
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
    assert mfu.formula == (
        "6 x 1,000 trained + 4 x 5,000 frozen + 12 x 64 x 128 (attention), a token"
    )
    whole = mfu_of(tmp_path, "fwd+bwd", {**MODEL, **CHIP, "frozen": 0})
    assert whole.formula == "6 x 1,000 parameters + 12 x 64 x 128 (attention), a token"
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


def test_counted_flops_are_those_of_the_samples_along_the_batch_s_axis(tmp_path: Path) -> None:
    counted = {**MODEL, "attention": 0, "counted_flops": 7_000_000, "counted_samples": 35}
    steps = [event(f"step_{n}", 2.0, **batch(35, 20)) for n in ("compile", "steady_1")]
    for axis, flops in ((0, 200_000), (1, 350_000)):
        folder = run_folder(tmp_path / f"run{axis}", *steps, counted, batch_dim=axis)
        wall = analyse(folder).summary.wall_clock
        assert wall is not None and wall.mfu is not None
        assert wall.mfu.flops_per_sample == flops
        # Whatever the axis, the same work in the same time.
        assert wall.mfu.tflops == pytest.approx(7e6 / 2e-3 / 1e12)


def counted_in_the_first(folder: Path, *steps: dict[str, Any], **facts: Any) -> tuple[Mfu, str]:
    """What 8 MFLOPs come to that were counted in the first of these steps; and as OpenMetrics."""
    counted = {**MODEL, **CHIP, **REPORTED, "counted_flops": 8_000_000, "counted_samples": 4}
    told = {**counted, "attention": 0, **facts}
    folder.mkdir(exist_ok=True)
    summary = analyse(run_folder(folder / "run", *steps, told)).summary
    assert summary.wall_clock is not None and summary.wall_clock.mfu is not None
    return summary.wall_clock.mfu, openmetrics(summary)


def test_a_rate_is_of_steps_that_do_the_work_that_was_counted(tmp_path: Path) -> None:
    alike = [event(f"step_{n}", 2.0, nodes=9, **batch(4, 8)) for n in ("compile", "steady_1")]
    # The last batch of an epoch is smaller: of each sample the work is the same.
    smaller = event("step_steady_2", 2.0, nodes=9, **batch(3, 8))
    mfu, metrics = counted_in_the_first(tmp_path / "alike", *alike, smaller)
    assert mfu.tflops is not None and mfu.percent is not None and mfu.hfu_percent is not None
    assert "mfu_flops_per_sample" in metrics

    shape = {"batch_shape": [4, 5], "batch_samples": 4}
    shorter = event("step_steady_2", 1.0, nodes=12, **shape)
    other = event("step_steady_2", 1.0, nodes=12, **batch(4, 8))
    for name, steps, why in (
        ("shapes", (*alike, shorter), "alone (4x8): batch shapes vary"),
        ("first", (alike[0], shorter), "alone (4x8): batch shapes vary"),
        ("kinds", (*alike, other), "alone (4x8): steps are of several kinds"),
        ("one", (alike[0], other), "alone (4x8): later steps are of another kind"),
    ):
        mfu, metrics = counted_in_the_first(tmp_path / name, *steps)
        assert (mfu.tflops, mfu.percent) == (None, None), name
        # A first backward that had other autograd nodes ran graphs of the same shape: the
        # compiler's FLOPs are those of all, where all later steps are alike.
        assert mfu.hfu_percent == (100.0 if name == "one" else None), name
        assert mfu.flops_per_sample == 2_000_000
        words = "counted op by op in the first sample"
        assert mfu.formula == f"{words} {why}, so that there is no rate"
        assert "mfu" not in metrics.replace("mfu_hfu", ""), name


def test_what_another_label_s_sample_did_gives_no_rate(tmp_path: Path) -> None:
    first = event("step_compile", 2.0, label="inference", nodes=9, **batch(4, 8))
    steps = [event(f"step_steady_{n}", 2.0, nodes=9, **batch(4, 8)) for n in (1, 2)]
    mfu, _ = counted_in_the_first(tmp_path, first, *steps)
    assert mfu.tflops is None


def test_a_formula_of_the_model_holds_for_steps_of_one_kind_of_any_length(tmp_path: Path) -> None:
    steps = [event("step_compile", 2.0, nodes=9, **batch(4, 128, tokens=4 * 128))]
    steps += [event("step_steady_1", 2.0, nodes=9, **batch(4, 64, tokens=4 * 64))]
    mfu, _ = counted_in_the_first(tmp_path / "length", *steps, attention=64)
    assert mfu.tflops is not None and "x 64 (attention)" in mfu.formula
    steps += [event("step_steady_2", 2.0, nodes=12, **batch(4, 64, tokens=4 * 64))]
    mfu, _ = counted_in_the_first(tmp_path / "kinds", *steps, attention=64)
    assert mfu.tflops is None and "several kinds" in mfu.formula


def test_a_cpu_s_rate_asks_for_no_peak(tmp_path: Path) -> None:
    counted = {**MODEL, "attention": 0, "counted_flops": 8_000_000, "counted_samples": 4}
    step = event("step_steady_1", 2.0, device="cpu", **batch(4, 128))
    wall = analyse(run_folder(tmp_path / "run", step, counted)).summary.wall_clock
    assert wall is not None and wall.mfu is not None
    assert wall.mfu.peak_source == NO_PEAK_OF_A_CPU
    (line,) = (x for x in wall_clock_figures_of(wall) if x.name == "model FLOP rate")
    assert line.note == "in fwd+bwd"  # and not in the iteration, of which throughput is
    whole = Iteration(2, 3.0, 3.0, 3.0, update=Update(2, 1, 6.0))
    notes = [x.note for x in wall_clock_figures_of(replace(wall, iteration=whole))]
    assert "in fwd+bwd of a micro-step" in notes


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


def on_n300(cores: tuple[int, int]) -> str:
    """A file made of facts, of no device: what a trace of an n300 says, two chips of one card.

    Its second chip's first two ops take long, which is known of tt-metal; they lie ahead of the
    step. Each chip does half of the work, and the second is 10 % slower.
    """

    def both(first_us: float, second_us: float) -> list[Row]:
        times = enumerate(zip((first_us, second_us), cores, strict=True))
        return [
            matmul(512, 512, 512, us, DEVICE__ID=chip, AVAILABLE__WORKER__CORE__COUNT=count)
            for chip, (us, count) in times
        ]

    ahead = [*both(50.0, 5000.0), *both(50.0, 4000.0)]
    rows = [*step("step_compile", ahead)]
    for name in ("step_steady_1", "step_steady_2"):
        rows += step(name, [*both(100.0, 110.0), *both(100.0, 110.0)])
    return text(rows)


@pytest.mark.parametrize(
    ("cores", "peak", "source"),
    [
        ((64, 64), 128, "2 x wormhole, 64 cores at HiFi4"),
        # One of the chips may have more cores switched off than the other.
        ((64, 56), 120, "2 x wormhole, 64 + 56 cores at HiFi4"),
    ],
)
def test_two_chips_of_one_card_are_a_mesh_with_the_cores_of_both(
    tmp_path: Path, cores: tuple[int, int], peak: int, source: str
) -> None:
    steady = [
        event(f"step_steady_{at}", 2.0, label="fwd+bwd", **batch(4, 128, tokens=4 * 128))
        for at in (1, 2)
    ]
    folder = run_folder(tmp_path / "run", *steady, MODEL, ops=on_n300(cores), profiler="tracy")
    analysis = analyse(folder)
    summary, device = analysis.summary, analysis.device
    wall = summary.wall_clock
    assert wall is not None and wall.mfu is not None and device is not None
    assert wall.mfu.peak_tflops == pytest.approx(74 / 72 * peak)
    assert wall.mfu.peak_source == source
    assert wall.mfu.percent == pytest.approx(wall.mfu.tflops / wall.mfu.peak_tflops * 100)
    # The two long ops belong to the first step, and make the second chip no late one.
    assert summary.devices is not None
    rows = {row.device_id: row.device_time_ms for row in summary.devices.rows}
    assert rows == {0: pytest.approx(0.2), 1: pytest.approx(0.22)}
    assert summary.device_time_ms == pytest.approx(0.22)
    # Shares of the peak are of the chip that the row is of: its bytes in its time.
    bytes_ms = 3 * 512 * 512 * 2 / 110e-6 / 1e9
    assert device.ops["dram_gb_s"].tolist() == pytest.approx([bytes_ms] * 2, rel=0.01)
    assert device.ops["dram_percent"].tolist() == pytest.approx(
        [bytes_ms / 288 * 100] * 2, rel=0.01
    )
