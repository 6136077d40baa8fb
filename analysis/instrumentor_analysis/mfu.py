"""Model FLOPs utilisation: how much of the peak the model's own arithmetic takes up.

MFU = FLOPs per sample * samples per second / peak. The FLOPs are the user's: of one sample, and of
what the run's label times (forward alone for inference, forward and backward for ``fwd+bwd``,
which is about three times the forward).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from instrumentor_analysis.errors import BadOption
from instrumentor_analysis.model import Mfu, Summary

if TYPE_CHECKING:
    from instrumentor_analysis.roofline import Architecture
    from instrumentor_analysis.summary import Analysis
    from instrumentor_analysis.table import Table

#: Math fidelity of the peak where no matmul names one.
DEFAULT_FIDELITY = "HiFi4"


def with_mfu(
    analysis: Analysis, flops: float, peak_tflops: float | None = None, arch: str | None = None
) -> Analysis:
    """The analysis with the MFU of its main label.

    Args:
        flops: of one sample, in what the label times.
        peak_tflops: 10^12 FLOPs a second of all devices together; None takes the architecture's:
            ``arch``, else the trace's, at the fidelity of most matmul time, times the devices.

    Raises:
        BadOption: a figure out of range, or there is no peak to hold it against.
    """
    for name, value in (("--flops", flops), ("--peak-tflops", peak_tflops)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise BadOption(f"{name} {value:g}: must be above 0")
    summary = analysis.summary
    peak, source = (peak_tflops, "as given") if peak_tflops else _peak(analysis, arch)
    wall = summary.wall_clock
    if wall is None or wall.samples_per_s is None:
        text = "no MFU: the record does not say how many samples each steady step had"
        warned = tuple(dict.fromkeys((*summary.warnings, text)))
        return replace(analysis, summary=replace(summary, warnings=warned))
    percent = flops * wall.samples_per_s / (peak * 1e12) * 100
    wall = replace(wall, mfu=Mfu(percent, flops, peak, source))
    by_label = {**summary.wall_clock_by_label, wall.label: wall}
    return replace(
        analysis, summary=replace(summary, wall_clock=wall, wall_clock_by_label=by_label)
    )


def _peak(analysis: Analysis, arch: str | None) -> tuple[float, str]:
    from instrumentor_analysis.roofline import architecture

    found: Architecture
    if analysis.device is not None:
        found = analysis.device.architecture
    elif arch is not None:
        found = architecture(arch)
    else:
        raise BadOption(
            "--flops needs a peak: the run names no architecture",
            "Give --peak-tflops N (of all devices together) or --arch NAME.",
        )
    if not found.has_peaks:
        raise BadOption(
            f"--flops needs a peak: none is known for {found.name}",
            "Give --peak-tflops N (of all devices together) or --arch NAME.",
        )
    fidelity = _fidelity(analysis.ops) if analysis.device is not None else None
    if fidelity is None or fidelity not in found.tflops_per_core:
        fidelity = DEFAULT_FIDELITY
    devices = _devices(analysis.summary)
    peak = found.tflops_per_core[fidelity] * found.worker_cores * devices
    times = f"{devices} x " if devices > 1 else ""
    return peak, f"{times}{found.name}, {found.worker_cores} cores at {fidelity}"


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
    times = groups.sums(ops["device_time_us"][rows]).tolist()
    fidelities = first[rows][groups.first].tolist()
    return max(zip(times, fidelities, strict=True), key=lambda each: each[0])[1]  # type: ignore[no-any-return]
