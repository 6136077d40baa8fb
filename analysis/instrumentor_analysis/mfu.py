"""How much of the peak a step takes up: by the model's FLOPs (MFU), by the compiler's (HFU).

MFU = FLOPs per sample * samples per second / peak, HFU = FLOPs that tt-mlir reports of the graphs
of a sample / its median time / peak of one chip. The model's FLOPs are the user's, else
:mod:`.flops`' of the model itself; both are of what the run's label times.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from instrumentor_analysis.caveats import Caveat
from instrumentor_analysis.errors import BadOption
from instrumentor_analysis.flops import Flops, ModelFacts, sample_flops
from instrumentor_analysis.model import Mfu, Summary, WallClock
from instrumentor_analysis.roofline import Architecture, architecture
from instrumentor_analysis.roofline import known as known_names

if TYPE_CHECKING:
    from instrumentor_analysis.analysis import Analysis
    from instrumentor_analysis.table import Table

#: Math fidelity of the peak where neither a matmul nor the configuration names one.
DEFAULT_FIDELITY = "HiFi4"


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
    wall = summary.wall_clock
    peak = (peak_tflops, "as given") if peak_tflops else _peak(analysis, facts, arch)
    if flops is not None and isinstance(peak, str):
        hint = "Give --peak-tflops N (of all devices together) or --arch NAME."
        raise BadOption(f"--flops needs a peak: {peak}", hint)
    known = None if flops is None else Flops(flops, "as given")
    if wall is None or wall.samples_per_s is None:
        return analysis if known is None else _warned(analysis)
    if known is None:
        tokens = wall.tokens_per_s and wall.tokens_per_s / wall.samples_per_s
        known = sample_flops(facts, wall.label, tokens)
    if known is None:
        return analysis
    return _with(analysis, replace(wall, mfu=_utilisation(wall, known, peak, facts)))


def _require_positive(name: str, value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise BadOption(f"{name} {value:g}: must be above 0")


def _warned(analysis: Analysis) -> Analysis:
    text = "no MFU: the record does not say how many samples each steady step had"
    caveat = Caveat("no-mfu", text)
    summary = analysis.summary
    warned = tuple(dict.fromkeys((*summary.warnings, caveat)))
    return replace(analysis, summary=replace(summary, warnings=warned))


def _with(analysis: Analysis, wall: WallClock) -> Analysis:
    by_label = {**analysis.summary.wall_clock_by_label, wall.label: wall}
    summary = replace(analysis.summary, wall_clock=wall, wall_clock_by_label=by_label)
    return replace(analysis, summary=summary)


def _utilisation(
    wall: WallClock, flops: Flops, peak: tuple[float, str] | str, facts: ModelFacts
) -> Mfu:
    """The figures; without a peak the rate alone."""
    tflops = flops.per_sample * (wall.samples_per_s or 0.0) / 1e12
    top, source = (None, peak) if isinstance(peak, str) else peak
    hfu = None
    if facts.reported_flops and facts.reported_peak and wall.median_ms:
        a_second = facts.reported_flops / (wall.median_ms / 1000)
        hfu = a_second / facts.reported_peak * 100
    return Mfu(
        percent=None if top is None else tflops / top * 100,
        flops_per_sample=flops.per_sample,
        tflops=tflops,
        peak_tflops=top,
        peak_source=source,
        formula=flops.formula,
        hfu_percent=hfu,
    )


def _peak(analysis: Analysis, facts: ModelFacts, arch: str | None) -> tuple[float, str] | str:
    """10^12 FLOPs a second of all chips and where that is from; or why it is not known."""
    found: Architecture
    if analysis.device is not None:
        found = analysis.device.architecture
    else:
        name = arch or facts.arch
        if name is None:
            return "the run names no architecture"
        if arch is None and name.lower() not in known_names():
            return f"none is known for {name}"
        found = architecture(name)
    if not found.has_peaks:
        return f"none is known for {found.name}"
    fidelity, why = _fidelity(analysis.ops) if analysis.device is not None else None, ""
    if fidelity is None or fidelity not in found.tflops_per_core:
        configured = analysis.folder.environment.get("math_fidelity")
        named = configured in found.tflops_per_core
        fidelity = str(configured) if named else DEFAULT_FIDELITY
        why = "" if named else " (assumed)"
    chips = max(_devices(analysis.summary), facts.chips or 1)
    peak = found.tflops_per_core[fidelity] * found.worker_cores * chips
    times = f"{chips} x " if chips > 1 else ""
    return peak, f"{times}{found.name}, {found.worker_cores} cores at {fidelity}{why}"


def _devices(summary: Summary) -> int:
    return 1 if summary.device_time is None else max(summary.device_time.devices, 1)


def _fidelity(ops: Table | None) -> str | None:
    """The math fidelity in which the matmuls spend most device time."""
    if ops is None:
        return None
    from instrumentor_analysis.table import Groups

    names, used = ops["op_code"], ops["math_fidelity"]
    matmul = names.spread(["Matmul" in name for name in names.values], False, bool)
    first = used.map([(text or "").partition(" ")[0] or None for text in used.values])
    rows = matmul & first.known()
    if not rows.any():
        return None
    groups = Groups(first[rows])
    times = groups.sums(ops["device_time_us"][rows])
    return str(first[rows][groups.first].tolist()[int(times.argmax())])
