"""Each figure of a summary once: what it is called, its unit, and which way is better.

The terminal, Markdown, the page and comparisons loop over these rows. A new figure is one row;
words beside it that depend on the run are one function in :mod:`..reports.headline`.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from instrumentor_analysis.model import WallClock
from instrumentor_analysis.shared import units

Better = Literal["lower", "higher"]
#: The heading that a figure stands under: a label that was timed, the run as a whole, the run
#: without the profiler, the step that is shown.
Group = Literal["clock", "run", "untraced", "step"]


class Figure(Struct, frozen=True):
    """One figure of a summary.

    Attributes:
        key: its place in summary.json, such as ``gaps.median_us``.
        name: for people; ``{label}`` stands for what was timed.
        unit: of the value in the document (:func:`..shared.units.quantity`), a row of
            :data:`..shared.units.BASE`; empty for a count.
        about: what it is, where the name does not say it.
        better: which way is better; None where neither is.
        grows: with the batch: divided by its size where two runs differ in that.
        compared: taken once in a run; comparisons show it for both sides.
        tile: among the few at the top of a page.
        signed: a change, shown with its sign.
        of_device: a device measured it, which no other program on the host disturbs.
    """

    key: str
    name: str
    unit: str
    group: Group
    about: str = ""
    better: Better | None = "lower"
    grows: bool = False
    compared: bool = False
    tile: bool = False
    signed: bool = False
    of_device: bool = False

    @property
    def disturbed(self) -> bool:
        """Other programs on the machine change it: neither a count, nor memory, nor a device's."""
        return self.unit not in ("", "B") and not self.of_device

    def text(self, value: float | None) -> str:
        """The value as a reader sees it."""
        sign = "+" if self.signed and value is not None and value > 0 else ""
        return f"{sign}{units.quantity(value, self.unit)}"


#: The key under which the clock of the main label stands, and that of the run without profiler.
CLOCK, UNTRACED = "wall_clock_ms.", "untraced_wall_clock_ms."


def _row(group: Group, key: str, name: str, unit: str, about: str = "", **more: Any) -> Figure:
    return Figure(key, name, unit, group, about, **more)


def _clock(key: str, name: str, unit: str, about: str = "", **more: Any) -> Figure:
    return _row("clock", CLOCK + key, name, unit, about, **more)


def _time(key: str, name: str, about: str = "", **more: Any) -> Figure:
    return _clock(key, name, "ms", about, grows=True, **more)


def _rate(key: str, name: str, unit: str, about: str = "", **more: Any) -> Figure:
    return _clock(key, name, unit, about, better="higher", **more)


def _step(key: str, name: str, unit: str, about: str = "", **more: Any) -> Figure:
    return _row("step", key, name, unit, about, **more)


ITERATION = "iteration"
THROUGHPUT = CLOCK + "iteration.samples_per_s"
PEAK_MEMORY = "memory.resident_bytes"

#: In the order in which a person asks for them.
FIGURES: tuple[Figure, ...] = (
    # Micro-steps of it may differ in number on two sides, so that no batch divides it.
    _clock("iteration.update.ms", "update", "ms", tile=True, compared=True),
    _time("iteration.median_ms", ITERATION, tile=True, compared=True),
    _rate("iteration.samples_per_s", "throughput", "samples/s", tile=True, compared=True),
    _rate("iteration.tokens_per_s", "tokens", "tokens/s", "any padding included", tile=True),
    _time("median", "median", tile=True),
    _time("mean", "mean"),
    _time("p90", "latency p90"),
    _time("p95", "latency p95"),
    _time("p99", "latency p99"),
    _time("min", "min"),
    _time("max", "max"),
    _time("cpu", "CPU time", "of the process in a step: user and system, all threads",
          compared=True),
    _rate("samples_per_s", "{label} only", "samples/s"),
    _rate("tokens_per_s", "{label} tokens", "tokens/s", "any padding included"),
    _clock("mfu.flops_per_sample", "model FLOPs", "FLOPs", better=None),
    _rate("mfu.tflops", "model FLOP rate", "TFLOP/s"),
    _rate("mfu.percent", "MFU", "%", tile=True),
    _rate("mfu.hfu_percent", "HFU", "%", "by the FLOPs and the peak that tt-mlir reports"),
    # What compiling takes belongs to the graph, not to the batch.
    _clock("compile", "first step", "ms", "not in the figures above", compared=True),
    _clock("trend_percent", "trend", "%", better=None, signed=True),
    _row("run", "memory.allocated_bytes", "peak on the GPU", "B", "as torch allocated it",
         compared=True, tile=True),
    _row("run", PEAK_MEMORY, "peak memory", "B", compared=True, tile=True),
    _row("run", "memory.device_bytes", "device memory", "B", "the most at the end of a step",
         compared=True, tile=True),
    _row("run", "memory.device_room_bytes", "total device memory", "B", better=None),
    _row("run", "memory.l1_bytes", "L1", "B", "the most at the end of a step", compared=True),
    _row("run", "memory.l1_room_bytes", "total L1", "B", "that can be allocated", better=None),
    _row("run", "telemetry.power_w", "power", "W", "of all devices in use, steady steps"),
    _row("run", "telemetry.step_energy_j", "energy", "J", "per iteration", grows=True,
         compared=True),
    _row("run", "telemetry.sample_energy_j", "energy per sample", "J", compared=True),
    _row("untraced", f"{UNTRACED}median", "median", "ms", grows=True),
    _row("untraced", f"{UNTRACED}mean", "mean", "ms", grows=True),
    _row("untraced", f"{UNTRACED}min", "min", "ms", grows=True),
    _row("untraced", f"{UNTRACED}max", "max", "ms", grows=True),
    _row("untraced", "profiler_cost_percent", "profiler's cost", "%",
         "added to the median step in the figures above", signed=True),
    _step("step_wall_clock_ms", "wall clock", "ms", grows=True, tile=True),
    _step("device_time_ms", "device time", "ms", grows=True, compared=True, tile=True,
          of_device=True),
    _step("device_time.firmware_ms", "by firmware", "ms", "the same ops, launch included",
          grows=True, compared=True, of_device=True),
    _step("op_self_time_ms", "time within ops", "ms", "elapsed, all threads, under torch.profiler",
          grows=True, compared=True, tile=True),
    _step("overhead_percent", "overhead", "%", compared=True, tile=True),
    _step("dispatch_ms_per_op", "dispatch per op", "ms", "(wall - device) / ops", compared=True,
          tile=True),
    _step("op_count", "ops", "", compared=True, tile=True),
    _step("host_op_count", "ops on the host", "", compared=True),
    _step("device_time.busy_percent", "device busy", "%", better="higher"),
    _step("matmul_flops_percent", "matmul FLOPs", "%",
          "of the peak of the cores used, weighted by device time", better="higher",
          compared=True, tile=True, of_device=True),
    _step("dram_percent", "DRAM", "%", "of the peak, over the whole device time", better="higher",
          compared=True, of_device=True),
    _step("program_cache_hit_percent", "program cache", "%", "of the ops hit it", better="higher",
          compared=True, of_device=True),
    _step("gaps.median_us", "op-to-op gap", "us", "median", compared=True),
)  # fmt: skip


def of_group(group: Group) -> tuple[Figure, ...]:
    """The figures under one heading."""
    return tuple(figure for figure in FIGURES if figure.group == group)


def called(figure: Figure, *walls: WallClock | None) -> str:
    """Its name; an iteration that is a micro-step on all sides is called so."""
    words = {each.iteration.word for each in walls if each is not None and each.iteration}
    return words.pop() if figure.name == ITERATION and len(words) == 1 else figure.name


def value_at(of: Struct, key: str) -> float | None:
    """The value at a key of an object's document; None where it was not measured."""
    value: Any = of
    for name in key.split("."):
        if value is not None:
            # The JSON names differ from the attributes: `wall_clock_ms` is `wall_clock`.
            at = value.__struct_encode_fields__.index(name)
            value = getattr(value, value.__struct_fields__[at])
    return None if value is None else float(value)
