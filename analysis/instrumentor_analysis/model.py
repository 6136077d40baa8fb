"""What an analysis says: frozen dataclasses, and their JSON form ``instrument-summary/1``.

Units stand in the names: ``_ms`` milliseconds, ``_us`` microseconds, ``_percent`` 0 to 100,
``_gb_s`` 10^9 bytes a second. A figure that was not measured is ``None`` (``null`` in JSON),
never 0: an op that took no time and an op that was never timed are different things.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from instrumentor_analysis.shared.caveats import Caveat, read_caveats
from instrumentor_analysis.shared.documents import converted, plain

SCHEMA = "instrument-summary/1"

#: Host overhead above which a step is called host-bound, percent of the wall clock.
HOST_BOUND_PERCENT = 70.0
#: Op-to-op gap above which the device waited for the host, microseconds.
GAP_THRESHOLD_US = 6.5
#: Gap above which the host did something else (compilation, data, a debugger) than dispatch,
#: microseconds.
PAUSE_US = 10_000.0

LimitName = Literal[
    "host",
    "few cores",
    "NoC",
    "DRAM",
    "reader",
    "compute",
    "compute or writer",
    "writer",
    "unclear",
]
SavingKind = Literal["bound", "grid", "gap"]
#: Each kind of saving, and what it takes.
CONDITIONS: Mapping[SavingKind, str] = {
    "bound": "at its bound",
    "grid": "on all its cores",
    "gap": f"gaps at {GAP_THRESHOLD_US} us",
}
#: Slowest device over the mean of all, from which the work counts as unbalanced.
UNBALANCED = 1.05
#: More of a peak than this is no op's doing, percent; durations and peaks are rounded.
MOST_PERCENT = 105.0
Order = Literal["host-time", "file"]
VerdictName = Literal[
    "input-bound",
    "optimizer-bound",
    "launch-bound",
    "op-bound",
    "host-bound",
    "memory-bound",
    "compute-bound",
    "data-movement-bound",
    "mixed",
]


_Size = Annotated[int, Meta(gt=0)]


class Sample(Struct, frozen=True):
    """One timed step, by the names of the record.

    Attributes:
        ms: wall clock.
        start_s: on the script's own perf_counter.
        cpu_ms: CPU time of the process in it, user and system, of all threads.
        batch_shape: of the first tensor in its (first) batch; the number of samples alone where
            the batch holds them one by one.
        samples, tokens: in all batches of the step: along the axis of the batch, and the elements
            of two-dimensional integer tensors, without a last token that does not enter the
            forward; None where unknown.
        nodes: of autograd that it made; None where unknown. Steps of another kind make others.
        device: type of the device that was waited for.
        layers: calls and milliseconds by metric of torch_xla.
        memory: bytes at its end: ``resident`` of the process; ``held`` of ``room`` on devices.
    """

    name: str
    kind: str
    label: str
    ms: Annotated[float, Meta(ge=0)] = math.nan
    index: int = 0
    start_s: float | None = None
    cpu_ms: Annotated[float, Meta(ge=0)] | None = None
    batch_shape: Annotated[tuple[_Size, ...], Meta(min_length=1)] | None = None
    samples: _Size | None = field(default=None, name="batch_samples")
    tokens: _Size | None = field(default=None, name="batch_tokens")
    nodes: int | None = None
    device: str | None = None
    layers: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)


class Interval(Struct, frozen=True):
    """An interval of a median: bounds in the unit of the figure, confidence 0 to 1."""

    low: float
    high: float
    confidence: float = 0.95


class Outlier(Struct, frozen=True):
    """A sample far above the rest of its label: the usual cause is a recompilation.

    Attributes:
        name: the step's name, as in its signposts.
        ms: its wall clock.
        times_median: how many medians of its label that is.
    """

    name: str
    ms: float
    times_median: float


class Compilation(Struct, frozen=True):
    """A later step than the first that compiled; no steady sample.

    Attributes:
        name: the step's name, as in its signposts.
        ms: its wall clock.
    """

    name: str
    ms: float


class Population(Struct, frozen=True):
    """Steps of one kind among several that take turns.

    Attributes:
        samples: how many of them are of this kind.
        steps: which, as positions among all.
        median_interval_ms: 95 % sure; None of fewer than six independent steps.
        kind: what tells it from the others: ``with update``, ``optimizer 1``, ``99 nodes``; where
            each has a batch shape of its own, ``batch 8x16``.
    """

    samples: int
    median_ms: float
    min_ms: float
    max_ms: float
    median_interval_ms: Interval | None = None
    steps: tuple[int, ...] = ()
    kind: str = ""


class Update(Struct, frozen=True):
    """An update of the weights that takes several iterations, which are its micro-steps.

    Attributes:
        micro_steps: iterations to one update; None where that was not seen.
        count: updates of which each micro-step was measured.
        ms: median of their sums; None without any.
        interval_ms: 95 % sure; None of fewer than six independent updates.
        values_ms: these sums, in order.
    """

    micro_steps: int | None = None
    count: int = 0
    ms: float | None = None
    interval_ms: Interval | None = None
    values_ms: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        """What histories and comparisons call it: only updates of as many are alike."""
        return f"update of {self.micro_steps or 1} micro-steps"


class Part(Struct, frozen=True):
    """A part of the iteration.

    Attributes:
        name: ``data`` (the wait for the data loader), ``next batch`` (without a loader: from the
            last thing seen of an iteration to the loop's next), ``after fwd+bwd`` (the rest of the
            body of a loop that only counts, where no optimizer was seen), ``before forward`` (from
            the entry of the loop's body), the label of the timed region (``fwd+bwd`` of one that
            holds the optimizer's step, which is told apart), ``optimizer``, ``kept validation`` (or
            ``checkpoint``: what is no part of a step and runs in it), ``other``.
        percent: of the iteration.
    """

    name: str
    ms: float
    percent: float


class KeptWork(Struct, frozen=True):
    """What stays of the script between samples and is no part of a step: a validation, a save.

    Attributes:
        names: ``validation``, ``checkpoint``.
        count: steady iterations in which it ran, of `of` that were seen.
        median_ms: what it took in them.
        left_out: these iterations are no part of the figures of the iteration. Else it is a part of
            theirs: hardly any iteration, or none of a kind, is without it.
    """

    names: tuple[str, ...]
    count: int
    of: int
    median_ms: float
    left_out: bool


class Iteration(Struct, frozen=True):
    """What an iteration takes: from the start of a steady step to the start of the next one.

    Attributes:
        count: iterations that were seen whole.
        median_ms: a step that nothing follows (the last one) counts with its own time and the
            median of what lies between the others. Of micro-steps the median of their updates,
            divided by their number; of other kinds that take turns the mean of their medians,
            weighted by how often each comes.
        median_interval_ms: 95 % sure; None of fewer than six independent iterations (of
            micro-steps: updates), and of several kinds.
        parts: in the order in which they come; they add up to the median.
        populations: kinds that take turns, such as micro-steps with and without an update; none
            where all are of one kind.
        samples_per_s, tokens_per_s: what the script trains on a second, data loading and optimizer
            included; None where a step does not say its batch.
        values_ms: of those that were seen whole, in order.
        every_ms: of every steady step, in order, where `median_ms` is the median of these: of one
            that nothing follows as it is counted there.
        update: where iterations are micro-steps; None where each makes an update.
        kept: work that stays between samples and is no part of a step; None where none was seen.
    """

    count: int
    median_ms: float
    min_ms: float
    max_ms: float
    median_interval_ms: Interval | None = None
    parts: tuple[Part, ...] = ()
    populations: tuple[Population, ...] = ()
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    values_ms: tuple[float, ...] = ()
    every_ms: tuple[float, ...] = ()
    update: Update | None = None
    kept: KeptWork | None = None

    @property
    def is_mean(self) -> bool:
        """Whether the figure and its parts are means over iterations of several kinds."""
        return bool(self.populations) or self.update is not None

    @property
    def median_of_ms(self) -> tuple[float, ...]:
        """What the figure is the median of, where it is one."""
        return self.every_ms or self.values_ms

    @property
    def word(self) -> str:
        """What an iteration is to the training."""
        return "iteration" if self.update is None else "micro-step"

    def percent(self, name: str) -> float:
        """The share of a part; 0 where it was not seen."""
        return sum(part.percent for part in self.parts if part.name == name)


class Phase(Struct, frozen=True):
    """A phase of the iteration: the owner of its time.

    Attributes:
        name: ``data`` (waiting for the next batch), ``prepare`` (from the entry of the loop's body
            to the forward: moving the batch, clearing gradients), ``forward``, ``backward``,
            ``optimizer``, ``other`` (the rest of the body: clipping, logging, callbacks).
        percent: of the iteration.
        resident_bytes, allocated_bytes: of the process on the host, and of torch's allocator on the
            device, the most at the end of the phase; None where it is not told.
    """

    name: str
    ms: float
    percent: float
    resident_bytes: int | None = None
    allocated_bytes: int | None = None


class Busy(Struct, frozen=True):
    """Other processes that kept so much of a machine at work that no time of it is to be trusted.

    Attributes:
        other_cpus: how many CPUs they kept at work on average.
    """

    other_cpus: float
    cpus: int


class Phases(Struct, frozen=True):
    """Who owns the time of an iteration, in extra steps with a barrier at each border.

    Attributes:
        count: extra iterations that the figures describe.
        ms: their own wall clock, by `statistic`.
        statistic: median, or mean where their kinds differ (accumulated gradients: whole cycles).
        phases: in the order in which they come; with `unowned_percent` they add up to `ms`.
        unowned_percent: what the recorder itself took between the phases.
        longer_percent: how much longer these iterations took than those without barriers inside;
            None where no such iteration was seen.
        values_ms: of the iterations, in order.
        word: what an iteration is to the training.
        busy: the machine while these iterations ran; None where it was quiet, or is not known.
    """

    count: int
    ms: float
    phases: tuple[Phase, ...]
    unowned_percent: float
    longer_percent: float | None = None
    statistic: str = "median"
    values_ms: tuple[float, ...] = ()
    word: str = "iteration"
    busy: Busy | None = None

    def percent(self, name: str) -> float:
        """The share of a phase; 0 where it was not seen."""
        return sum(phase.percent for phase in self.phases if phase.name == name)


class RankRow(Struct, frozen=True):
    """One of several processes that train together.

    Attributes:
        samples: steady ones.
        median_ms: of these; waiting for other ranks is part of it.
        iteration_ms: median from the start of one to the start of the next; None where not seen.
        waited_ms: for other ranks, in collectives of a step; None where that is not known.
        arrived_last: how often this rank came last to a collective.
        samples_per_s: what it trains on a second; None where a step does not say its batch.
    """

    rank: int
    samples: int
    median_ms: float | None = None
    iteration_ms: float | None = None
    waited_ms: float | None = None
    arrived_last: int | None = None
    samples_per_s: float | None = None


class Ranks(Struct, frozen=True):
    """Processes that train together; all other figures of the clock are those of rank 0.

    Attributes:
        world: how many there are.
        steps, calls: extra steps under torch.profiler from which the waits are, and the collectives
            in them; 0 where the backend's collectives have no times of their own (nccl).
        slowest: the rank that the others wait for most; None where that is not known.
        waited_ms, waited_percent: what each of the others waits in a step, on average.
        samples_per_s: of all ranks together; None unless each tells its own.
    """

    world: int
    rows: tuple[RankRow, ...]
    steps: int = 0
    calls: int = 0
    slowest: int | None = None
    waited_ms: float | None = None
    waited_percent: float | None = None
    samples_per_s: float | None = None


class WhatIf(Struct, frozen=True):
    """A prediction: what an iteration would take after a change.

    Attributes:
        change: in words.
        ms: :mod:`instrumentor_analysis.clock.what_if` says how it is known.
        saving_percent: of the iteration.
        interval_ms: 95 % sure where the rest stays as it is; None of fewer than six iterations,
            and of an upper bound.
        basis: ``measured`` (iterations of this run that were like that), ``model`` (made of
            measured parts), ``at most`` (a bound: the truth lies below).
    """

    change: str
    ms: float
    saving_percent: float
    interval_ms: Interval | None = None
    basis: Literal["measured", "model", "at most"] = "model"


class ModuleTime(Struct, frozen=True):
    """The forward of one module, called from one place.

    Attributes:
        name: within the module that the script calls; of that one its class.
        kind: its class.
        parent: position of the module that calls it, among all; None where the script does.
        calls: in one step.
        ms: of all calls, with what it calls.
        self_ms: without the modules that it calls.
        percent: of all forwards that the script calls.
        flops: of all calls, with what it calls; None where they were not counted.
    """

    name: str
    kind: str
    parent: int | None
    calls: int
    ms: float
    self_ms: float
    percent: float
    flops: int | None = None


class ModuleTree(Struct, frozen=True):
    """What the modules' forwards take, in extra steps with a barrier at each of their borders.

    Attributes:
        steps: that were timed; what a module takes by itself is their median, all else sums of it.
        ms: of all forwards that the script calls.
        modules: callers ahead of what they call.
        uncounted: ops that compute and have no formula: their FLOPs are missing.
        busy: the machine while these steps ran; None where it was quiet, or is not known.
    """

    steps: int
    ms: float
    modules: tuple[ModuleTime, ...]
    uncounted: tuple[str, ...] = ()
    busy: Busy | None = None


class ModuleOps(Struct, frozen=True):
    """The ops of one module, without those of the modules that it calls.

    Attributes:
        name: as in `modules`, of several models behind its class; None: ops of no module, such as
            a loss or the sum of gradients.
        ops: in one step, forward and backward.
        forward_ms: of those that its forward runs.
        backward_ms: of those that autograd runs for them, and what it calls again.
        percent: of the time of all ops.
        kind: its class, with the shape of its first parameter of its own; None: not told.
    """

    name: str | None
    ops: int
    forward_ms: float
    backward_ms: float
    percent: float
    kind: str | None = None


class OpsByModule(Struct, frozen=True):
    """The ops of a step under torch.profiler by the module that they belong to.

    Attributes:
        ms: time of all ops.
        on_device: it is that of their kernels; else their own time on the CPU.
        unknown_percent: of ops that the step which tells modules called another number of times.
        modules: those of most time first.
    """

    ms: float
    on_device: bool
    unknown_percent: float
    modules: tuple[ModuleOps, ...]


class ChipPrograms(Struct, frozen=True):
    """What one chip ran in a step: medians.

    Attributes:
        chip: as ttnn numbers it.
        busy_ms: at least one program ran.
        programs_ms: of all programs, those that overlap counted each.
    """

    chip: str
    programs: int
    busy_ms: float
    programs_ms: float


class KernelTime(Struct, frozen=True):
    """Programs of one compute kernel.

    Attributes:
        name: the kernel's file.
        programs: in a step, on average.
        percent: of the time of all programs.
    """

    name: str
    programs: float
    ms: float
    percent: float


class DevicePrograms(Struct, frozen=True):
    """Device time without Tracy: extra steps whose programs ttnn's real-time profiler told.

    Attributes:
        steps: that the figures describe; medians.
        left_out: steps of which records were lost.
        wall_ms: of the timed region in these steps.
        device_ms: of it the busiest chip ran at least one program.
        rest_ms: the same, behind the region: the optimizer and what else the iteration holds.
        kernels: those of most time first.
    """

    steps: int
    left_out: int
    wall_ms: float
    device_ms: float
    rest_ms: float
    chips: tuple[ChipPrograms, ...] = ()
    kernels: tuple[KernelTime, ...] = ()


class DeviceTelemetry(Struct, frozen=True):
    """A device during the steady steps, as the driver shows it; None where it does not.

    Attributes:
        device: number of its node.
        readings: how many there are.
        clock_mhz: AICLK, median.
        slower_percent: share of the readings with a clock below 95 % of the highest.
        power_w: mean.
        card: type of its card, such as ``n300``, whose second chip has no node; '' where unknown.
    """

    device: str
    readings: int
    clock_mhz: float | None = None
    lowest_clock_mhz: float | None = None
    highest_clock_mhz: float | None = None
    slower_percent: float | None = None
    power_w: float | None = None
    highest_temperature_c: float | None = None
    card: str = ""


class Telemetry(Struct, frozen=True):
    """Clock, power and temperature of the devices in use, during the steady steps.

    Attributes:
        power_w: of all of them; None unless each chip tells it.
        step_energy_j: power x iteration, in joules; x timed region where no iteration was seen.
        sample_energy_j: power / throughput of the iteration.
    """

    devices: tuple[DeviceTelemetry, ...]
    power_w: float | None = None
    step_energy_j: float | None = None
    sample_energy_j: float | None = None


class MemoryAt(Struct, frozen=True):
    """Memory at the end of a sample, bytes.

    Attributes:
        step: its name.
        resident_bytes: of the process on the host.
        device_bytes: allocated on all devices.
        l1_bytes: of ttnn's devices, allocated in L1.
    """

    step: str
    resident_bytes: int | None = None
    device_bytes: int | None = None
    l1_bytes: int | None = None


class Memory(Struct, frozen=True):
    """Memory of the script's process; None where it was not read.

    Attributes:
        allocated_bytes: of the CUDA allocator, its peak.
        resident_bytes: of the process on the host, the peak of its whole life, or up to the first
            profiled step, where the record tells it: torch.profiler keeps what it needs.
        before_profiled: whether it is that one; None without a profiled step.
        device_bytes: allocated on all devices, the most at the end of a sample: what a step needs
            within and frees is not in it. Of ttnn's devices DRAM alone.
        device_room_bytes: that there are on them.
        l1_bytes: of ttnn's devices, allocated in the L1 of all cores, the most at the end of a
            sample.
        l1_room_bytes: that can be allocated there.
        growth_bytes: of the devices from one steady sample to the next, median; None unless it has
            grown with each.
        samples: at the end of each sample.
    """

    allocated_bytes: int | None = None
    resident_bytes: int | None = None
    before_profiled: bool | None = None
    device_bytes: int | None = None
    device_room_bytes: int | None = None
    l1_bytes: int | None = None
    l1_room_bytes: int | None = None
    growth_bytes: int | None = None
    samples: tuple[MemoryAt, ...] = ()


class Barrier(Struct, frozen=True):
    """How the samples waited for their device before the clock was read.

    Attributes:
        device: its type, in torch's word.
        method: what waited.
        left_ms: what reading everything of the step, or waiting again where nothing can be read,
            still had to wait for afterwards, in a check outside of the samples; None where that
            was not possible.
        tensors_read: of that check.
        cost_ms: what the barrier takes when nothing is left; None where it was not checked.
        given_up: methods that left work behind, and the most that each left, ms; the times of
            these samples were taken after the check.
    """

    device: str
    method: str
    left_ms: float | None = None
    tensors_read: int = 0
    cost_ms: float | None = None
    given_up: Mapping[str, float] = field(default_factory=dict)


class Mfu(Struct, frozen=True):
    """Model FLOPs utilisation: the FLOPs that the model needs, over what the chips could do.

    Attributes:
        percent: FLOPs per sample * samples per second / peak; None without a peak, or a rate.
        flops_per_sample: of what the label times.
        tflops: 10^12 of these FLOPs a second; None where they are those of the first sample alone,
            and the steady steps do other work: of another kind, or on batches of other shapes.
        peak_tflops: 10^12 FLOPs a second of all chips together; None where unknown.
        peak_source: where the peak is from, or why there is none, in words.
        formula: where the FLOPs are from.
        hfu_percent: FLOPs that tt-mlir reported of the compiled graphs, over their peak; None
            where it reported none.
    """

    percent: float | None
    flops_per_sample: float
    tflops: float | None
    peak_tflops: float | None
    peak_source: str
    formula: str
    hfu_percent: float | None = None


#: The unit stands in the key ``wall_clock_ms``, hence bare names.
_BARE = {
    **{f"{name}_ms": name for name in ("mean", "median", "min", "max", "stdev", "cpu", "compile")},
    **{f"p{share}_ms": f"p{share}" for share in (50, 90, 95, 99)},
    "warmup_ms": "warmup",
    "median_interval_ms": "median_interval",
    "samples_ms": "values",
}


class WallClock(Struct, frozen=True, kw_only=True, rename=_BARE):
    """Statistics of the steady samples of one label; None where there was no such sample.

    Attributes:
        label: what was timed: ``fwd+bwd``, ``fwd+bwd+optimizer``, ``step``, ``region``...
        samples: number of steady samples; the other figures describe these only.
        mean_ms, median_ms, min_ms, max_ms: the usual ones (an even number of samples has
            the mean of the middle two as its median).
        stdev_ms: sample standard deviation; None below two samples.
        cpu_ms: median CPU time of the process in a sample, user and system, of all threads; None
            unless each sample tells its own. Waiting for a CPU is not in it,
            but threads that wait for each other on busy CPUs spin meanwhile.
        compile_ms: the label's first sample, which compiles.
        warmup_ms: the samples between the first and the steady ones.
        compilations: later steps that compiled, too; not in the other figures.
        median_interval_ms: at least 95 % sure (:mod:`instrumentor_analysis.clock.intervals`);
            None of fewer than six independent samples, and of several kinds. Steps that drift have
            both ends of their line in it.
        outliers: samples far above the rest; they count in the other figures.
        trend_percent: change from the first steady sample to the last along the Theil-Sen line,
            percent of the first, outliers left out; None below four samples.
        drifts: that is more than chance: the steps have not reached steady state.
        samples_ms: the steady samples in order.
        p50_ms, p90_ms, p95_ms, p99_ms: latency percentiles, interpolated linearly; None where
            the samples are too few to tell (:mod:`instrumentor_analysis.clock.throughput`).
        samples_per_s, tokens_per_s: what a steady step works on, on average, over the median; None
            unless each of them says its batch. Of the timed region alone: what the script trains
            a second is ``iteration``'s.
        batch_shape: of the first tensor in a step's batch, when all steady steps share it.
        batch_axis_guessed: its samples are counted along the first axis, and may as well lie along
            the second: the model takes sequences first, and nothing says how long a batch is.
        mfu: model FLOPs utilisation; None where neither the model nor an option tells FLOPs.
        iteration: from the start of a steady sample to that of the next; None where none was seen.
        populations: kinds of samples that take turns, of which no common median says anything; none
            where all are of one kind.
    """

    label: str
    mean_ms: float | None = None
    median_ms: float | None = None
    min_ms: float | None = None
    max_ms: float | None = None
    stdev_ms: float | None = None
    cpu_ms: float | None = None
    samples: int
    compile_ms: float | None = None
    warmup_ms: tuple[float, ...] = ()
    compilations: tuple[Compilation, ...] = ()
    median_interval_ms: Interval | None = None
    outliers: tuple[Outlier, ...] = ()
    trend_percent: float | None = None
    drifts: bool = False
    samples_ms: tuple[float, ...] = ()
    p50_ms: float | None = None
    p90_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    batch_shape: tuple[int, ...] | None = None
    batch_axis_guessed: bool = False
    mfu: Mfu | None = None
    iteration: Iteration | None = None
    populations: tuple[Population, ...] = ()


class Window(Struct, frozen=True):
    """The part of the ops that the figures describe.

    Attributes:
        start, end: the signposts, or None where the window has no such border.
        step: name of the chosen step; None when the window is not one step.
        how: in words, how it was chosen.
        steps: names of all steps pooled into it (one for a single step).
        order: ``host-time``, or ``file`` where host times say nothing about it (replays of a
            trace bear the time of its capture).
    """

    start: str | None
    end: str | None
    step: str | None
    how: str
    steps: tuple[str, ...] = ()
    order: Order = "host-time"


class Step(Struct, frozen=True):
    """One step of the run: what the clock said and what the device said.

    Attributes:
        outlier: far above the rest of its label.
        name: as in its signposts, e.g. ``step_steady_3``.
        kind: ``compile``, ``warmup``, ``steady`` or ``profiled``; None when no record names it.
        label: what its sample timed.
        complete: both signposts were found; None when there is no ops CSV.
        op_count, device_time_ms: device ops between its signposts, and their kernel time;
            None when there is no ops CSV or the step is not complete.
        overhead_percent: (wall - device) / wall of this step.
    """

    name: str
    kind: str | None
    label: str | None
    wall_clock_ms: float | None
    complete: bool | None = None
    op_count: int | None = None
    device_time_ms: float | None = None
    overhead_percent: float | None = None
    outlier: bool = False


class Category(Struct, frozen=True):
    """Device time of one category of ops.

    Attributes:
        percent: of the device time of all ops.
    """

    name: str
    device_time_ms: float
    percent: float | None
    op_count: int


class SlowOp(Struct, frozen=True):
    """All ops of one name together, and what bounds them.

    Attributes:
        op: name, without shapes.
        device_time_ms: of all of them; None where no device was timed.
        category: Compute, CCL, TM, DM, Host or Other.
        op_self_time_ms: under torch only.
        percent: of the device time of all ops (of the op self time under torch on CPU).
        bound: the bound of most of its device time (DRAM, FLOP, BOTH, SLOW, HOST), or None
            when no roofline model covers it.
        limits: what limits most of its device time, such as ``few cores, reader``; None where
            the trace does not tell.
        low_ms, high_ms: of the profiled steps the least and the most, where torch.profiler saw
            several; the times above are their median then.
    """

    op: str
    count: int
    device_time_ms: float | None
    percent: float | None
    bound: str | None
    category: str | None = None
    op_self_time_ms: float | None = None
    limits: str | None = None
    low_ms: float | None = None
    high_ms: float | None = None


class Limit(Struct, frozen=True):
    """What limits some of the ops (:mod:`instrumentor_analysis.ops.limits` says how it is told).

    Attributes:
        name: ``host`` (waited for longer than the op took), ``few cores``, ``NoC``, ``DRAM``,
            ``reader``, ``compute``, ``writer``; ``compute or writer`` where only the reader is
            known not to be it, ``unclear`` where all three end together. An op may have several.
        device_time_ms, percent: of these ops; of the device time of all.
        gap_ms: the gaps before them; of ``host`` only.
        figures: what shows it, by column of the per-op frame, weighted by device time;
            ``reader_percent``, ``compute_percent`` and ``writer_percent`` are of the kernel.
        ops: those of most time, at most three.
        helps: what to try.
    """

    name: LimitName
    device_time_ms: float
    percent: float | None
    op_count: int
    gap_ms: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    ops: tuple[str, ...] = ()
    helps: str = ""


class Gaps(Struct, frozen=True):
    """Distribution of op-to-op gaps, the first op of the window left out.

    Attributes:
        total_us, median_us, p95_us, max_us: of all of them.
        over_threshold_count, over_threshold_us: gaps above ``GAP_THRESHOLD_US`` and their sum.
        histogram: (upper edge in us, or None for the last bin; count) in rising order.
        pause_count, pause_us: of the gaps above the threshold those above ``PAUSE_US``.
    """

    count: int
    total_us: float
    median_us: float | None
    p95_us: float | None
    max_us: float | None
    over_threshold_count: int
    over_threshold_us: float
    histogram: tuple[tuple[float | None, int], ...] = ()
    pause_count: int = 0
    pause_us: float = 0.0


class DeviceTime(Struct, frozen=True):
    """Two durations of the same ops, and how busy the device was in the window.

    Attributes:
        kernel_ms: sum of DEVICE KERNEL DURATION, the figure of tt-perf-report.
        firmware_ms: sum of DEVICE FW DURATION (kernel plus launch), the figure of tt-xla's docs.
        span_ms: first firmware start to last firmware end on the busiest device.
        busy_percent: share of the span in which that device ran firmware (overlaps once).
        devices: number of devices with ops in the window.
    """

    kernel_ms: float | None
    firmware_ms: float | None
    span_ms: float | None
    busy_percent: float | None
    devices: int


class DeviceRow(Struct, frozen=True):
    """One device among several.

    Attributes:
        op_count: ops that it ran.
        device_time_ms: sum of its kernel durations; None where none is known.
        missing_ops: ops that other devices ran and it did not.
        waited_ms: in collectives, for the device that arrived last; None without collectives.
        arrived_last: collectives at which it was the last; None without collectives.
        communication_ms: in collectives, by its own clock, those that overlap counted once; None
            where the trace lacks the cycles of its ops.
        hidden_percent: of it, while other ops ran beside.
    """

    device_id: int
    op_count: int
    device_time_ms: float | None
    missing_ops: int
    waited_ms: float | None
    arrived_last: int | None
    communication_ms: float | None = None
    hidden_percent: float | None = None


class OpSkew(Struct, frozen=True):
    """An op, no collective, that devices take unequally long for.

    Attributes:
        count: calls.
        skew_us: slowest minus fastest device, over all its calls.
        fastest_us, slowest_us: sums over all its calls of the two devices that differ most.
        worst_id: ID of the call with the largest difference.
    """

    op: str
    count: int
    skew_us: float
    fastest_device: int
    fastest_us: float
    slowest_device: int
    slowest_us: float
    worst_id: int


class CollectiveWait(Struct, frozen=True):
    """A collective and who waited in it: durations beyond the shortest one.

    Attributes:
        calls: of all pooled steps together; ``count`` is of one.
        last_device, last_calls: the device that most often arrived last, and how often.
        mean_wait_us: of a device that did not arrive last, per call.
    """

    op: str
    count: int
    calls: int
    last_device: int
    last_calls: int
    mean_wait_us: float
    longest_wait_us: float


class Devices(Struct, frozen=True):
    """Several devices side by side.

    Attributes:
        max_over_mean: device time of the slowest over the mean of all.
        ops: those with the largest skew.
        collectives: who arrived last, and who waited.
    """

    rows: tuple[DeviceRow, ...]
    max_over_mean: float | None
    ops: tuple[OpSkew, ...] = ()
    collectives: tuple[CollectiveWait, ...] = ()

    @property
    def slowest(self) -> DeviceRow | None:
        """The device of most device time."""
        timed = [row for row in self.rows if row.device_time_ms is not None]
        return max(timed, key=lambda row: row.device_time_ms or 0.0, default=None)


class SourceLine(Struct, frozen=True):
    """Device time of the ops that one line of the user's source led to.

    Attributes:
        line: from 1.
        percent: of the device time of all ops.
        const_eval: its ops are evaluated once, not in every step.
        ops: their names.
    """

    file: str
    line: int
    device_time_ms: float
    percent: float | None
    op_count: int
    const_eval: bool = False
    ops: tuple[str, ...] = ()


class Module(Struct, frozen=True):
    """Device time of the ops of one module: ``Net[net].Linear[fc1]``, else the Python file.

    Attributes:
        percent: of the device time of all ops.
        const_eval: no module, but all ops that are evaluated once, not in every step.
    """

    name: str
    device_time_ms: float
    percent: float | None
    op_count: int
    const_eval: bool = False


class Locations(Struct, frozen=True):
    """Device time by source line and by module, most first.

    Attributes:
        lines: one entry per (file, line, const_eval).
        modules: torch modules where the locations name them, else files; last, in one entry, the
            constants.
        unlocated_ms, unlocated_count: device time and number of ops with no usable location.
        note: one sentence when there are no locations, and how to get them.
    """

    lines: tuple[SourceLine, ...] = ()
    unlocated_ms: float | None = None
    note: str | None = None
    modules: tuple[Module, ...] = ()
    unlocated_count: int = 0

    @property
    def unlocated_percent(self) -> float | None:
        """Of the device time of all ops; None without any."""
        unlocated = self.unlocated_ms or 0.0
        total = unlocated + sum(line.device_time_ms for line in self.lines)
        return unlocated / total * 100 if total else None

    def most_modules(self, most: int) -> tuple[Module, ...]:
        """The first so many modules, and the constants."""
        constants = tuple(module for module in self.modules if module.const_eval)
        return (*[module for module in self.modules if not module.const_eval][:most], *constants)


class Saving(Struct, frozen=True):
    """What a change could win at most, in theory.

    Attributes:
        count: ops that it would help.
        now_us, saving_us: what they take now, and could save at most.
        op: op name with its shape (all ops of that name together).
        kind: ``bound`` (every op at its roofline), ``grid`` (beyond that: on all the cores that
            it had) or ``gap`` (every gap at 6.5 us, pauses left out).
        percent: of the window's device time plus gaps, pauses left out.
    """

    op: str
    kind: SavingKind
    count: int
    now_us: float
    saving_us: float
    percent: float | None


class Evidence(Struct, frozen=True):
    """One number a verdict rests on, and the threshold that it was held against."""

    what: str
    value: float
    unit: str
    threshold: float | None = None


class Lever(Struct, frozen=True):
    """One thing to try next, and how."""

    what: str
    how: str


class Verdict(Struct, frozen=True):
    """What bounds the step, why, and what to try next."""

    name: VerdictName
    reason: str
    evidence: tuple[Evidence, ...] = ()
    levers: tuple[Lever, ...] = ()


class Spread(Struct, frozen=True):
    """One op over several steps: mean and standard deviation, microseconds.

    Attributes:
        steps: how many have it.
        position: in its step, from 0.
        id: of the op in the step that is shown; None when that step lacks it.
    """

    position: int
    op: str
    mean_us: float
    stdev_us: float
    steps: int
    id: int | None = None


class HostLayer(Struct, frozen=True):
    """Host time of a step in one layer of the software below the script.

    Attributes:
        name: ``compile``, ``run`` or ``other`` of tt-crank; ``compile``, ``dispatch_host`` or
            ``trace`` of tt-metal; ``tracing``, ``compile``, ``execute``,
            ``to device`` or ``from device`` of torch_xla.
        time_ms: without zones of another layer within it; of torch_xla, whose layers may overlap,
            what its metrics add up.
        count: zones, or calls, in a step.
        zones: their names, or that of the metric.
        of: the software.
    """

    name: str
    time_ms: float
    count: float
    zones: tuple[str, ...] = ()
    of: str = "tt-crank"


class Cause(Struct, frozen=True):
    """What kept a compiler from making one program of a step.

    Attributes:
        kind: ``graph break`` or ``recompiled`` (torch.compile), ``fallback`` (an op that torch_xla
            runs on the host, or that reads a value), ``new graph`` (the op that makes torch_xla
            compile step after step), ``gradients dropped`` (zero_grad() between micro-steps).
        what: the compiler's reason, or the op and what of it changes.
        file, line: in the user's project; None where it came from elsewhere.
        count: how often in the whole run; of a fallback, in the first sample; of a new graph, the
            samples that compiled.
        ms: that compiling took because of it, together.
    """

    kind: str = ""
    what: str = ""
    file: str | None = None
    line: int | None = None
    count: int = 1
    ms: float = 0.0

    @property
    def place(self) -> str:
        """``FILE:LINE``; empty where none is known."""
        return "" if self.file is None else f"{self.file}:{self.line}"


_IN_JSON = {
    "wall_clock": "wall_clock_ms",
    "verdict": "verdict_detail",
    "untraced": "untraced_wall_clock_ms",
}


class Summary(Struct, frozen=True, rename=_IN_JSON):
    """Everything that one run says, independent of how it is shown.

    Attributes:
        profiler: ``tracy``, ``torch`` or ``wallclock``.
        scope: the label of the main wall-clock figures.
        window: the ops described; None without an ops CSV.
        wall_clock: statistics of the main label; None when nothing was timed.
        wall_clock_by_label: the same per label; never pooled.
        barrier: how the device was waited for; None on the CPU, where nothing can be pending.
        memory: peaks of the script's process; None where none was read.
        phases: who owns the time of an iteration; None where no extra steps were taken for it.
        what_if: predictions, each with what it rests on.
        ranks: processes that train together; None of a process alone.
        modules: what each module's forward takes; None where no extra steps were taken for it.
        module_ops: the ops under torch.profiler by module; None where no step told them.
        programs: what ttnn told of its devices; None where it told nothing.
        telemetry: clock, power and temperature of the devices; None where the driver shows none.
        step_wall_clock_ms: wall clock of the very step that ``window`` shows.
        device_time_ms: kernel time of the window's device ops; None where no device was timed.
        device_time_source: which column or trace that is.
        overhead_percent: (wall - device) / wall, both of the window's step.
        dispatch_ms_per_op: (wall - device) / op count of the window's step.
        device_time: both durations, and how busy the device was.
        devices: each of several devices; None of a single one.
        op_count, host_op_count: ops of the window's step, and how many of them are on the host.
        categories: device time by category.
        matmul_flops_percent: FLOPs utilisation of all matmuls, weighted by device time; of several
            chips that of one, in each op the slowest.
        dram_percent: DRAM utilisation of modelled ops over the device time of all ops; of several
            chips that of one, in each op the slowest.
        slow_ops: ops by name, most time first.
        limits: what limits the ops, most time first; they overlap.
        savings: what changes could win at most; they do not add up.
        spread: ops that vary most over the steady steps.
        program_cache_hit_percent: share of ops whose program was in the cache.
        verdict: what bounds the step, with its evidence and levers; None unless wall clock and
            device time of one step are known.
        steps: every step of the run, in order.
        architecture: what the ops were held against.
        loop: where the training loop is: file, line; found_by: reading or running the script.
        environment: versions, machine, commit.
        partial: the run did not come to its end.
        artifacts: files of the run, relative to its folder.
        warnings: what to doubt.
        op_self_time_ms: torch on CPU: sum of the ops' self times, the median of the profiled steps;
            it is no device time and is never set against the wall clock.
        profiled_steps: how many steps torch.profiler saw; of figures of ops it is their median.
        profiled_busy: what others kept at work during these, where the steady steps were not
            disturbed; None where it was little, or is not known.
        host_bound: overhead above 70 %; None without an overhead.
        untraced: the same label, run once without the profiler; None when that was not done.
        profiler_cost_percent: how much longer the median step takes under the profiler.
        script_exit_code: of the measured script; None when unknown.
        host_layers: what the host did below the script, where its runtime tells that (tt-crank,
            torch_xla).
        causes: what kept compilers from making one program of a step.
        verification: whether the run itself showed that the timed region is the step: ``status``
            (verified, partly, unverified, failed), ``verified`` (of forward, backward, optimizer),
            ``unverified`` (check -> why), ``problems``, ``notes``, ``parameters``, ``cost_ms`` (of
            the first sample). A failed one has no figures. None when nothing looked.
        run: facts of the run as recorded (name, label, script, command, times).
    """

    profiler: str
    scope: str | None = None
    window: Window | None = None
    wall_clock: WallClock | None = None
    wall_clock_by_label: Mapping[str, WallClock] = field(default_factory=dict)
    step_wall_clock_ms: float | None = None
    device_time_ms: float | None = None
    device_time_source: str | None = None
    device_time: DeviceTime | None = None
    devices: Devices | None = None
    overhead_percent: float | None = None
    dispatch_ms_per_op: float | None = None
    op_count: int | None = None
    host_op_count: int | None = None
    op_self_time_ms: float | None = None
    categories: tuple[Category, ...] = ()
    matmul_flops_percent: float | None = None
    dram_percent: float | None = None
    profiled_steps: int | None = None
    profiled_busy: Busy | None = None
    slow_ops: tuple[SlowOp, ...] = ()
    gaps: Gaps | None = None
    limits: tuple[Limit, ...] = ()
    savings: tuple[Saving, ...] = ()
    spread: tuple[Spread, ...] = ()
    program_cache_hit_percent: float | None = None
    locations: Locations | None = None
    host_bound: bool | None = None
    verdict: Verdict | None = None
    steps: tuple[Step, ...] = ()
    architecture: str | None = None
    loop: Mapping[str, Any] | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    interrupted: bool = False
    partial: bool = False
    script_exit_code: int | None = None
    artifacts: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[Caveat, ...] = ()
    untraced: WallClock | None = None
    profiler_cost_percent: float | None = None
    barrier: Barrier | None = None
    host_layers: tuple[HostLayer, ...] = ()
    causes: tuple[Cause, ...] = ()
    memory: Memory | None = None
    phases: Phases | None = None
    what_if: tuple[WhatIf, ...] = ()
    ranks: Ranks | None = None
    modules: ModuleTree | None = None
    module_ops: OpsByModule | None = None
    programs: DevicePrograms | None = None
    telemetry: Telemetry | None = None
    verification: Mapping[str, Any] | None = None

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Summary:
        """The summary that a document was made of; what it lacks is as if it was not measured.

        Raises:
            msgspec.ValidationError: a value is not of its type; says which.
        """
        shares = converted(document.get("categories") or {}, dict[str, dict[str, Any]])
        values = {
            "profiler": "wallclock",
            **document,
            "categories": [{"name": name, **share} for name, share in shares.items()],
            "warnings": read_caveats(document.get("warnings")),
        }
        return converted(values, cls)

    def to_json(self) -> dict[str, Any]:
        """The document of summary.json: JSON types only, NaN and infinity as null."""
        wall = self.wall_clock or WallClock(label=self.scope or "", samples=0)
        document: dict[str, Any] = {"schema": SCHEMA}
        for key, value in plain(replace(self, wall_clock=wall)).items():
            if key == "categories":
                value = {each.pop("name"): each for each in value}
            elif key == "verdict_detail":
                document["verdict"] = None if value is None else value["name"]
            document[key] = value
        return document
