"""How much of the peak a step takes up: by the model's FLOPs (MFU), by the compiler's (HFU).

MFU = FLOPs per sample * samples per second / peak, HFU = FLOPs that tt-mlir reports of the graphs
of a sample / its median time / peak of one chip. The model's FLOPs are the user's, else
:mod:`.flops`' of the model itself; both are of what the run's label times. FLOPs of a sample are
divided by the time of steps that do the same work only: else there is no rate.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from instrumentor_analysis.clock.flops import SHAPES, Flops, ModelFacts, sample_flops, work
from instrumentor_analysis.model import Mfu, WallClock
from instrumentor_analysis.ops.roofline import architecture, known
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.shared.documents import listed
from instrumentor_analysis.shared.errors import BadOption
from instrumentor_analysis.shared.units import quantity

if TYPE_CHECKING:
    from instrumentor_analysis.load.table import Table
    from instrumentor_analysis.summary.analysis import Analysis

#: Math fidelity of the peak where neither a matmul nor the configuration names one.
DEFAULT_FIDELITY = "HiFi4"
#: Why a run on a CPU has no peak.
NO_PEAK_OF_A_CPU = "none is known for a CPU"


def with_mfu(
    analysis: Analysis,
    flops: float | None = None,
    peak_tflops: float | None = None,
    arch: str | None = None,
) -> Analysis:
    """The analysis with the MFU of its main label, and the HFU where a compiler reported FLOPs.

    Args:
        flops: of one sample, in what the label times; None takes them from the model itself.
        peak_tflops: 10^12 FLOPs a second of all devices together; None takes the architecture's:
            ``arch``, else the trace's or the device's own, at the fidelity of most matmul time,
            else of the configuration, times the chips.

    Raises:
        BadOption: a figure out of range, or ``flops`` are given and there is no peak for them.
    """
    _require_positive("--flops", flops)
    _require_positive("--peak-tflops", peak_tflops)
    summary, facts = analysis.summary, analysis.timings.model or ModelFacts()
    peak, source = (peak_tflops, "as given") if peak_tflops else _peak(analysis, facts, arch)
    if flops is not None and peak is None:
        hint = "Give --peak-tflops N (of all devices together) or --arch NAME."
        raise BadOption(f"--flops needs a peak: {source}", hint)
    wall, model = summary.wall_clock, None if flops is None else Flops(flops, "as given")
    if wall is None or wall.samples_per_s is None:
        if model is None:
            return analysis
        text = "There is no MFU: the record does not say how many samples each steady step had."
        return _with_warning(analysis, Caveat("no-mfu", text))
    done = work(analysis.timings.samples, wall.label, analysis.folder.batch_dim)
    if model is None:
        tokens = wall.tokens_per_s and wall.tokens_per_s / wall.samples_per_s
        model = sample_flops(facts, wall.label, tokens, done)
    if model is None:
        return _with_warning(analysis, _uncounted(facts)) if facts.uncounted else analysis
    if done.kinds or done.other == SHAPES:  # the compiler's are of the first sample, too
        facts = replace(facts, reported_flops=None)
    wall = replace(wall, mfu=_utilisation(wall, model, peak, source, facts))
    by_label = {**summary.wall_clock_by_label, wall.label: wall}
    summary = replace(summary, wall_clock=wall, wall_clock_by_label=by_label)
    return replace(analysis, summary=summary)


def _with_warning(analysis: Analysis, warning: Caveat) -> Analysis:
    summary = analysis.summary
    warnings = tuple(dict.fromkeys((*summary.warnings, warning)))
    return replace(analysis, summary=replace(summary, warnings=warnings))


def _uncounted(facts: ModelFacts) -> Caveat:
    """Why there are no FLOPs of the model: the ops that no formula tells of."""
    names = listed(facts.uncounted, 3)
    verb = "has" if len(facts.uncounted) == 1 else "have"
    text = f"There are no model FLOPs, because {names} {verb} no formula"
    if facts.counted_flops and facts.counted_samples:
        others = quantity(facts.counted_flops / facts.counted_samples, "FLOPs")
        text += f"; the other ops make {others} a sample"
    text += ". `report --flops N --peak-tflops N` takes yours."
    return Caveat("no-flops", text)


def _require_positive(name: str, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise BadOption(f"{name} {value:g}: must be above 0")


def _utilisation(
    wall: WallClock, model: Flops, peak: float | None, source: str, facts: ModelFacts
) -> Mfu:
    """The figures; without a peak the rate alone, and none of FLOPs of another step."""
    tflops, hfu = None, None
    if not model.of_first:
        tflops = model.per_sample * (wall.samples_per_s or 0.0) / 1e12
    if facts.reported_flops and facts.reported_peak and wall.median_ms:
        hfu = facts.reported_flops / (wall.median_ms / 1000) / facts.reported_peak * 100
    return Mfu(
        percent=None if peak is None or tflops is None else tflops / peak * 100,
        flops_per_sample=model.per_sample,
        tflops=tflops,
        peak_tflops=peak,
        peak_source=source,
        formula=model.formula,
        hfu_percent=hfu,
    )


def _peak(analysis: Analysis, facts: ModelFacts, arch: str | None) -> tuple[float | None, str]:
    """10^12 FLOPs a second of all chips and where that is from; None, and why it is not known."""
    device, fidelity, why, chips = analysis.device, "", "", facts.chips or 1
    name = arch or facts.arch
    if device is not None:
        found = device.architecture
        fidelity = _fidelity(device.ops)
        chips = max(device.devices, chips)
    elif name is None:
        on_cpu = {each.device for each in analysis.timings.samples} == {"cpu"}
        return None, NO_PEAK_OF_A_CPU if on_cpu else "the run names no architecture"
    elif arch is None and name.lower() not in known():
        return None, f"none is known for {name}"
    else:
        found = architecture(name)
    if not found.has_peaks:
        return None, f"none is known for {found.name}"
    if fidelity not in found.tflops_per_core:
        configured = analysis.folder.environment.get("math_fidelity")
        named = configured in found.tflops_per_core
        fidelity, why = (str(configured), "") if named else (DEFAULT_FIDELITY, " (assumed)")
    each = found.chip_cores if len(found.chip_cores) == chips else (found.worker_cores,) * chips
    peak = found.tflops_per_core[fidelity] * sum(each)
    times = f"{chips} x " if chips > 1 else ""
    cores = " + ".join(map(str, each)) if len(set(each)) > 1 else str(found.worker_cores)
    return peak, f"{times}{found.name}, {cores} cores at {fidelity}{why}"


def _fidelity(ops: Table) -> str:
    """The math fidelity in which the matmuls spend most device time; empty without any."""
    from instrumentor_analysis.load.table import Groups
    from instrumentor_analysis.ops.figures import by_time

    names, used = ops["op_code"], ops["math_fidelity"]
    # `HiFi2 BF16 x BFP8 => BF16`: the fidelity stands before the data types.
    first = used.map([(text or "").partition(" ")[0] or None for text in used.values])
    matmul = names.spread(["Matmul" in name for name in names.values], False, bool)
    rows = matmul & first.known()
    if not rows.any():
        return ""
    return by_time(Groups(first[rows]), first[rows], ops["device_time_us"][rows])[0].name
