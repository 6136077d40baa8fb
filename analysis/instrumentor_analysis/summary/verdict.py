"""What bounds the step, by which numbers, and which lever comes next.

What takes most of the iteration outside of the timed region comes first: no op is worth a look
while the script waits for its data. Of the region itself, wall clock and device time of the same
step tell what bounds it; on the CPU, where there is no device time, the ops of the profiled step
do. Where the numbers for it are missing there is no verdict, and none of a run on a busy machine.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

from instrumentor_analysis.clock.compiler_breaks import keeps_from_replay
from instrumentor_analysis.clock.iterations import BEFORE, DATA, NEXT, OPTIMIZER, OTHER, region_ms
from instrumentor_analysis.clock.neighbours import is_busy
from instrumentor_analysis.clock.phases import PREPARE
from instrumentor_analysis.clock.telemetry import SLOWER_SHARE, throttled, throttling
from instrumentor_analysis.model import (
    GAP_THRESHOLD_US,
    HOST_BOUND_PERCENT,
    Category,
    Evidence,
    Lever,
    Phases,
    Summary,
    Verdict,
    VerdictName,
    WallClock,
)
from instrumentor_analysis.shared.documents import number
from instrumentor_analysis.summary.started import chosen, started

#: Share of the device time from which one kind of op sets the verdict, percent.
DOMINANT_PERCENT = 50.0
#: Overhead from which a runtime trace is worth naming although the step is not host-bound.
TRACE_HELPS_PERCENT = 30.0
#: Overhead from which waiting, not the ops, is most of the step, percent.
WAITS_MOSTLY_PERCENT = 50.0
#: Share of the iteration from which the data, or the optimizer, bounds it, percent.
INPUT_PERCENT, OPTIMIZER_PERCENT = 40.0, 40.0
#: Parts of the iteration that get a batch ready, in words.
_INPUT_PARTS = {
    DATA: "waiting for data",
    NEXT: "what lies between two iterations",
    BEFORE: "what comes ahead of the forward",
}
#: Share of the ops' self time from which one op bounds a step on the CPU, percent.
ONE_OP_PERCENT = 40.0
#: Share of the step that its ops have to account for, under the profiler, percent.
OPS_PERCENT = 50.0
#: Wall clock per op below which calling it may cost more than what it computes, microseconds.
SHORT_US = 15.0
#: Ops below which that says nothing.
SHORT_OPS = 50
#: Share of the iteration from which the data is worth a try, though it does not bound it, percent.
SOME_DATA_PERCENT = 10.0
#: CPU time beyond what the ops' threads can have used from which they spin: a share of that.
SPINS_SHARE = 0.2
#: Device time beyond the wall clock that is still put down to two clocks, percent.
CLOCKS_DIFFER_PERCENT = 5.0

_TRACE = Lever(
    "runtime trace",
    'set TT_RUNTIME_TRACE_REGION_SIZE (e.g. "10000000") before torch_xla is imported and '
    '"enable_trace": "true" in set_custom_compile_options; measure by wall clock, Tracy\'s '
    "device profiling does not work with it",
)
_LEVEL_2 = Lever(
    "optimization level 2",
    'torch_xla.set_custom_compile_options({"optimization_level": 2}): fuses ops and keeps '
    "tensors in on-chip SRAM instead of DRAM; compiling takes longest",
)
_BFP8 = Lever(
    "bfloat8_b",
    '"enable_bfp8_conversion": "true" in set_custom_compile_options, the model already in '
    "bfloat16: half the bytes of bfloat16 and faster math",
)
_BF16 = Lever("bfloat16", "model.to(dtype=torch.bfloat16), inputs likewise, before compiling")
_BATCH = Lever(
    "batch size or sequence length",
    "double it until throughput drops or memory runs out: each op does more work",
)
_COOLING = Lever(
    "cooling", "cool the card or lower its power, then measure again: it was throttled"
)
_FEWER_OPS = Lever("fewer ops", "optimization level 1 or 2 fuses ops; avoid per-element host logic")
_LEVERS: Mapping[VerdictName, tuple[Lever, ...]] = {
    "host-bound": (_TRACE, _FEWER_OPS, _BATCH),
    "memory-bound": (_BFP8, _LEVEL_2, _BF16),
    "compute-bound": (
        _BFP8,
        _BF16,
        Lever("math fidelity", "HiFi2 or LoFi where the data types allow; see the matmul advice"),
    ),
    "data-movement-bound": (
        _LEVEL_2,
        Lever(
            "layout changes",
            "look at the ops that lead to Transpose, Reshape, Tilize and Untilize: shapes that "
            "are multiples of 32 and one memory layout save most of them",
        ),
    ),
    "mixed": (_LEVEL_2, _BFP8, _BATCH),
}
_COMPILE = Lever("torch.compile", "model = torch.compile(model) fuses ops and calls fewer of them")
_CUDA_LEVERS = (
    Lever("fewer launches", "torch.compile, or CUDA graphs (torch.cuda.make_graphed_callables)"),
    _BATCH,
)
#: Processes that load, where there are as many CPUs: torch warns of more.
_MOST_WORKERS = 4
_IN_PROCESSES = Lever(
    "load in other processes",
    f"DataLoader(..., num_workers={_MOST_WORKERS}, persistent_workers=True): batches are made "
    "while the model trains",
)
_INPUT_LEVERS = (
    _IN_PROCESSES,
    Lever(
        "prefetch and pin",
        "DataLoader(..., pin_memory=True, prefetch_factor=4) and tensor.to(device, "
        "non_blocking=True) on a GPU",
    ),
    Lever(
        "prepare the data once", "decode, tokenize and resize ahead of training, not in each epoch"
    ),
)
_FEWER_UPDATES = Lever(
    "fewer updates", "accumulate gradients over several batches, or use a larger batch"
)
#: Of a run that did not record what the script's optimizer offers.
_FUSED_OR_FOREACH = Lever(
    "a fused optimizer", "torch.optim.AdamW(..., fused=True), or foreach=True"
)
_OF_TTNN = (
    Lever(
        "runtime trace",
        "record the ops of a step once (ttnn.begin_trace_capture, end_trace_capture) and replay "
        "them with ttnn.execute_trace, the device opened with a trace_region_size; measure by wall "
        "clock, Tracy's device profiling does not work with it",
    ),
    Lever(
        "tensors in L1",
        "memory_config=ttnn.L1_MEMORY_CONFIG, or sharded, for what the next op reads: on-chip SRAM "
        "instead of DRAM",
    ),
    Lever(
        "bfloat8_b",
        "dtype=ttnn.bfloat8_b for weights and activations: half the bytes of bfloat16 and faster "
        "math",
    ),
    Lever("bfloat16", "dtype=ttnn.bfloat16 where tensors are float32"),
    Lever(
        "fewer ops",
        "fused ops (ttnn.linear with its bias and activation), the program cache enabled, fewer "
        "transfers between host and device in a step",
    ),
    Lever(
        "math fidelity",
        "compute_kernel_config with math_fidelity HiFi2 or LoFi where the data types allow; see "
        "the matmul advice",
    ),
)
_OF_CRANK = (
    Lever(
        "runtime trace",
        'CompileOption.ENABLE_TRACE in the options of torch.compile(..., backend="tt"); measure by '
        "wall clock, Tracy's device profiling does not work with it",
    ),
    Lever(
        "optimization level 2",
        'CompileOption.OPT_LEVEL: 2 in the options of torch.compile(..., backend="tt"): fuses ops '
        "and keeps tensors in on-chip SRAM instead of DRAM; compiling takes longest",
    ),
    Lever(
        "bfloat8_b",
        "CompileOption.EXPERIMENTAL_WEIGHT_DTYPE: BfpBf8, the model already in bfloat16: half the "
        "bytes of bfloat16 and faster math",
    ),
)
#: By runtime: its own words for a lever of torch_xla, by that one's name.
_BY_RUNTIME: Mapping[str, Mapping[str, Lever]] = {
    "ttnn": {each.what: each for each in _OF_TTNN} | {_LEVEL_2.what: _OF_TTNN[1]},
    "tt": {each.what: each for each in _OF_CRANK},
}
_BY_RUNTIME = {**_BY_RUNTIME, "ttml": _BY_RUNTIME["ttnn"]}


def fitting(levers: Iterable[Lever], summary: Summary) -> tuple[Lever, ...]:
    """Levers with no more processes than the run's machine has CPUs."""
    machine = summary.run.get("machine")
    told = machine.get("cpus") if isinstance(machine, Mapping) else None
    cpus = number(told) or number(summary.environment.get("cpu_count")) or _MOST_WORKERS
    asked, fits = (
        f"num_workers={n}" for n in (_MOST_WORKERS, max(1, min(_MOST_WORKERS, int(cpus))))
    )
    return tuple(Lever(each.what, each.how.replace(asked, fits)) for each in levers)


def no_verdict(summary: Summary) -> tuple[str, str, tuple[Lever, ...]] | None:
    """That a run which came to its end has no verdict, why, and what to try; None where it has."""
    wall = summary.wall_clock
    ended = not summary.partial and not summary.script_exit_code
    if summary.verdict is not None or wall is None or wall.median_ms is None or not ended:
        return None
    if _is_busy(summary):
        reason = "other programs used the CPUs, so it cannot be told what bounds the step"
        probable = ", but probably input-bound" if _input_at_any_load(wall) else ""
        return f"no conclusion{probable}", reason, fitting(_when_busy(summary), summary)
    levers = fitting(_some_data(wall), summary)
    total_ms, busy = summary.op_self_time_ms, summary.profiled_busy
    if busy is not None:
        text = (
            f"other programs used {busy.other_cpus:.1f} of {busy.cpus} CPUs during the steps under "
            f"torch.profiler, so it cannot be told what {wall.label} is spent on"
        )
        quiet = Lever("a quiet machine", "measure again once nothing else runs on it")
        return "no verdict", text, (*levers, quiet)
    if total_ms is None:
        text = f"timers alone do not tell what {wall.label} is spent on"
        how = "--profiler torch names the ops, --profiler tracy those of a Tenstorrent device"
        return "no verdict", text, (*levers, Lever("a profiler", how))
    share = total_ms / wall.median_ms * 100
    text = f"the ops take {share:.0f} % of {wall.label}; Python and dispatch take the rest"
    profile = Lever("profile the Python code", "py-spy record -- python SCRIPT shows its functions")
    return "nothing stands out", text, (*levers, _COMPILE, profile)


#: Kind of the warning that the script ended before there were enough samples.
FEW_SAMPLES = "few-samples"
#: Steady samples below which no run knows its median, however quiet the machine.
FEWEST_KNOWN = 20


def ended_too_early(summary: Summary) -> bool:
    """Whether the script ended before any machine would have known the median of its steps."""
    wall, ended = summary.wall_clock, any(x.kind == FEW_SAMPLES for x in summary.warnings)
    return ended and wall is not None and wall.samples < FEWEST_KNOWN


#: The lever that is no wait for a quiet machine, where one is told of a busy one.
THE_DATA = "look at the data"


def _when_busy(summary: Summary) -> Iterator[Lever]:
    data = tuple(_waited(summary.wall_clock))
    sure = _input_at_any_load(summary.wall_clock)
    yield from data if sure else ()
    if ended_too_early(summary):
        how = "give the script more data or epochs; waiting for a quiet machine will not help"
        yield Lever("more steps", how)
    yield Lever("measure again", "when the machine is quiet; `instrument doctor` shows its load")
    yield from () if sure else data
    if threads_spin(summary):
        how = (
            "the ops do not account for the CPU time: threads wait for each other on busy CPUs; "
            "with one thread, such waits are not in it"
        )
        yield Lever("OMP_NUM_THREADS=1", how)
    yield from _in_turn(summary)


def threads_spin(summary: Summary) -> bool:
    """Whether a step took more CPU time than one thread and those of its ops can have used.

    False where the time of its ops is not known, and where a device does the work.
    """
    wall, ops_ms = summary.wall_clock, summary.op_self_time_ms
    threads = summary.environment.get("torch_threads")
    if wall is None or wall.cpu_ms is None or wall.median_ms is None or ops_ms is None:
        return False
    if summary.barrier is not None or not isinstance(threads, int) or threads < 2:
        return False
    used_ms = wall.median_ms + (threads - 1) * min(ops_ms, wall.median_ms)
    return wall.cpu_ms > (1 + SPINS_SHARE) * used_ms


def _in_turn(summary: Summary) -> Iterator[Lever]:
    """The last commit against what came before or after it, as far as the repository holds it."""
    script, environment = shlex.join(started(summary.run)), summary.environment
    if not script or environment.get("git_commit") is None:
        return
    changed = bool(environment.get("git_dirty"))
    refs = "HEAD~1..HEAD" if environment.get("git_parent") and not changed else "HEAD.."
    later = "" if changed or refs != "HEAD.." else "after your next change, "
    options = "".join(f"{word} " for word in map(shlex.quote, chosen(summary.run)))
    command = f"instrument compare {options}--refs {refs} {script}"
    how = f"{later}in turn, so that other programs meet both alike: {command}"
    yield Lever("compare two versions", how)


def _input(wall: WallClock | None) -> tuple[str, float, str] | None:
    """The part of the iteration that gets a batch ready: in words, its share, and of what."""
    whole = None if wall is None else wall.iteration
    if whole is None:
        return None
    part = max(_INPUT_PARTS, key=whole.percent)
    return _INPUT_PARTS[part], whole.percent(part), whole.word


def _input_at_any_load(wall: WallClock | None) -> bool:
    """Whether getting a batch ready is most of a step although others may have doubled it.

    Who shares a CPU with one other program gets half of it; the rest of the step is left as it is.
    """
    found = _input(wall)
    return found is not None and found[1] / (200.0 - found[1]) * 100 >= INPUT_PERCENT


def _waited(wall: WallClock | None) -> Iterator[Lever]:
    """The data, where getting it took most of a run on a busy machine: a hint, no verdict."""
    found = _input(wall)
    if found is not None and found[1] >= INPUT_PERCENT:
        what, share, word = found
        told = f"{what} takes {share:.0f} % of each {word}, to which other programs may add"
        yield Lever(THE_DATA, f"{told}: {_IN_PROCESSES.how}")


def _some_data(wall: WallClock) -> Iterator[Lever]:
    """The data, where waiting for it is a share worth trying."""
    whole = wall.iteration
    if whole is not None and whole.percent(DATA) >= SOME_DATA_PERCENT:
        share = f"the {whole.percent(DATA):.0f} % of the {whole.word}"
        yield Lever(f"{share} that wait for data", _IN_PROCESSES.how)


def overhead_percent(wall_ms: float | None, device_ms: float | None) -> float | None:
    """(wall - device) / wall of one step, percent.

    None unless both are known and do not contradict each other: the device may seem to work
    longer than the step took only by as much as clocks differ.
    """
    if wall_ms is None or device_ms is None or wall_ms <= 0:
        return None
    overhead = (wall_ms - device_ms) / wall_ms * 100
    return overhead if overhead >= -CLOCKS_DIFFER_PERCENT else None


def decide(
    summary: Summary, bounds: Mapping[str, float] | None = None, *, cuda: bool = False
) -> Verdict | None:
    """The verdict on the step of a summary; None where its overhead is not known.

    Args:
        bounds: share of the device time by bound, percent (``BOTH`` stands for DRAM and FLOP);
            None where ops were not modelled.
        cuda: the device is a GPU: other levers.
    """
    if _is_busy(summary):
        return None
    found = _decided(summary, bounds, cuda=cuda)
    if found is not None:
        levers = fitting((*_of_the_update(found, summary), *found.levers), summary)
        reason = _with_largest(found, summary)
        found = Verdict(found.name, reason, found.evidence, levers)
    slow = throttled(summary.telemetry)
    if found is None or not slow:
        return found
    clocks = tuple(
        Evidence(f"lowest clock of device {each.device}", each.lowest_clock_mhz or 0.0, "MHz",
                 SLOWER_SHARE * (each.highest_clock_mhz or 0.0))
        for each in slow
    )  # fmt: skip
    told = (f"device {each.device} {throttling(each)}" for each in slow)
    reason = "; ".join([found.reason, *told])
    return Verdict(found.name, reason, (*found.evidence, *clocks), (_COOLING, *found.levers))


def _decided(summary: Summary, bounds: Mapping[str, float] | None, *, cuda: bool) -> Verdict | None:
    """As :func:`decide`, of devices at their full clock."""
    outside = _of_phases(summary) or _of_iteration(summary)
    if outside is not None:
        return outside
    if summary.profiled_busy is not None:
        return None  # the times of these steps tell which op was interrupted
    overhead = summary.overhead_percent
    if overhead is None or summary.step_wall_clock_ms is None or summary.device_time_ms is None:
        return _of_cpu_ops(summary)
    evidence = [
        Evidence("wall clock", summary.step_wall_clock_ms, "ms"),
        Evidence("device time", summary.device_time_ms, "ms"),
        Evidence("overhead", overhead, "%", HOST_BOUND_PERCENT),
    ]
    if summary.dispatch_ms_per_op is not None:
        evidence.append(Evidence("dispatch per op", summary.dispatch_ms_per_op, "ms"))
    gap_us = None if summary.gaps is None else summary.gaps.median_us
    if gap_us is not None:
        evidence.append(Evidence("median op-to-op gap", gap_us, "us", GAP_THRESHOLD_US))
    name: VerdictName = "mixed"
    if summary.host_bound:
        name = "launch-bound" if cuda else "host-bound"
        reason = f"the device works for {100 - overhead:.0f} % of the step and waits for the rest"
    elif bounds is None:
        reason = "ops were not modelled: only the host's share is known"
    else:
        name, reason, more = _by_device(summary.categories, bounds)
        evidence += more
    levers = _CUDA_LEVERS if cuda else _LEVERS[name]
    if overhead > WAITS_MOSTLY_PERCENT and not summary.host_bound:
        reason = (
            f"the device waits for {overhead:.0f} % of the step, short of host-bound "
            f"({HOST_BOUND_PERCENT:.0f} %); {reason}"
        )
    if not cuda and TRACE_HELPS_PERCENT < overhead <= HOST_BOUND_PERCENT:
        levers = (_TRACE, *levers) if overhead > WAITS_MOSTLY_PERCENT else (*levers, _TRACE)
    own = _BY_RUNTIME.get(summary.barrier.device if summary.barrier else "", {})
    levers = tuple(own.get(each.what, each) for each in levers)
    levers = tuple(_checked(each, summary) if each.what == _TRACE.what else each for each in levers)
    return Verdict(name, reason, tuple(evidence), levers)


def _checked(trace: Lever, summary: Summary) -> Lever:
    """A runtime trace, with what keeps this step from being replayed as one."""
    obstacle = keeps_from_replay(summary.causes)
    wall = summary.wall_clock
    # torch_xla counts what it compiles, and its metrics tell of the host.
    counted = any(each.of == "torch_xla" for each in summary.host_layers)
    if obstacle:
        return Lever(trace.what, f"first remove what prevents it: {obstacle}; then {trace.how}")
    if counted and wall is not None and wall.samples and not wall.compilations:
        seen = f"nothing was seen in {wall.samples} steady steps that prevents it: {trace.how}"
        return Lever(trace.what, seen)
    return trace


def _is_busy(summary: Summary) -> bool:
    return is_busy(summary.run.get("machine"))


def largest(summary: Summary) -> tuple[str, str, float] | None:
    """The largest phase of the iteration: its name, of what it is one, and its share, percent.

    By the extra steps, which tell forward from backward; by the parts of the iteration where
    others disturbed these. What has no name of its own (`other`) is none.
    """
    timed, wall = summary.phases, summary.wall_clock
    whole = None if wall is None else wall.iteration
    of = whole if timed is None or timed.busy is not None else timed
    if of is None:
        return None
    parts = of.phases if isinstance(of, Phases) else of.parts
    named = [each for each in parts if each.name != OTHER]
    most = max(named, key=lambda each: each.percent, default=None)
    return None if most is None else (most.name, of.word, most.percent)


def _with_largest(found: Verdict, summary: Summary) -> str:
    """The reason of a verdict on the timed region, the largest phase of the iteration first."""
    most = largest(summary)
    if most is None or found.name in ("input-bound", "optimizer-bound"):
        return found.reason
    name, word, share = most
    return f"the largest part of each {word} is {name}, {share:.0f} %; {found.reason}"


def _of_the_update(found: Verdict, summary: Summary) -> tuple[Lever, ...]:
    """What makes the update faster, ahead of all else where it is the largest phase."""
    most = largest(summary)
    if most is None or most[0] != OPTIMIZER or found.name in ("input-bound", "optimizer-bound"):
        return ()
    return _faster_update(summary)


def _faster_update(summary: Summary) -> tuple[Lever, ...]:
    """The way of its update that the script's optimizer offers and does not use."""
    told = (summary.verification or {}).get("optimizer")
    if not isinstance(told, Mapping):
        known = summary.barrier is None or summary.barrier.device == "cuda"
        return (_FUSED_OR_FOREACH,) if known else ()
    name, way = told.get("class"), told.get("offers")
    if way == "foreach":
        return (Lever("foreach", f"{name}(..., foreach=True) updates all parameters together"),)
    if way != "fused":
        return ()
    script = shlex.join(started(summary.run))
    tried = f"; to try it: instrument tune --settings fused_optimizer {script}" if script else ""
    return (Lever("a fused optimizer", f"{name}(..., fused=True), one kernel an update{tried}"),)


def _of_phases(summary: Summary) -> Verdict | None:
    """What takes most of the iteration beside forward and backward, by the extra steps.

    None of those that other programs disturbed, though the samples before them were not.
    """
    found, update = summary.phases, (*_faster_update(summary), _FEWER_UPDATES)
    if found is None or found.busy is not None:
        return None
    parts: tuple[tuple[VerdictName, tuple[str, ...], str, float, tuple[Lever, ...]], ...] = (
        ("input-bound", (DATA,), "waiting for data", INPUT_PERCENT, _INPUT_LEVERS),
        ("input-bound", (PREPARE,), "preparing the batch", INPUT_PERCENT, _INPUT_LEVERS),
        ("input-bound", (DATA, PREPARE), "getting a batch ready", INPUT_PERCENT, _INPUT_LEVERS),
        ("optimizer-bound", (OPTIMIZER,), "the optimizer", OPTIMIZER_PERCENT, update),
    )
    for name, owners, what, threshold, levers in parts:
        share = sum(map(found.percent, owners))
        if share >= threshold:
            evidence = (
                Evidence(found.word, found.ms, "ms"),
                *(Evidence(each.name, each.ms, "ms") for each in found.phases),
                Evidence(what, share, f"% of the {found.word}", threshold),
            )
            reason = f"{what} takes {share:.0f} % of each {found.word}"
            return Verdict(name, reason, evidence, levers)
    return None


def _of_iteration(summary: Summary) -> Verdict | None:
    """What takes most of the iteration beside the timed region; None where that is not so."""
    wall, update = summary.wall_clock, (*_faster_update(summary), _FEWER_UPDATES)
    whole = None if wall is None else wall.iteration
    if whole is None:
        return None
    parts: list[tuple[VerdictName, str, str, float, tuple[Lever, ...]]] = [
        *(
            ("input-bound", part, what, INPUT_PERCENT, _INPUT_LEVERS)
            for part, what in _INPUT_PARTS.items()
        ),
        ("optimizer-bound", OPTIMIZER, "the optimizer", OPTIMIZER_PERCENT, update),
    ]
    name, part, what, threshold, levers = max(parts, key=lambda each: whole.percent(each[1]))
    share = whole.percent(part)
    if share < threshold:
        return None
    evidence = (
        Evidence(whole.word, whole.median_ms, "ms"),
        *(Evidence(each.name, each.ms, "ms") for each in whole.parts),
        Evidence(what, share, f"% of the {whole.word}", threshold),
    )
    return Verdict(name, f"{what} takes {share:.0f} % of each {whole.word}", evidence, levers)


def _of_cpu_ops(summary: Summary) -> Verdict | None:
    """What bounds a step on the CPU, by the ops of the profiled step; None without them."""
    wall, total_ms, count = summary.wall_clock, summary.op_self_time_ms, summary.op_count
    if wall is None or not wall.median_ms or not total_ms or not count or not summary.slow_ops:
        return None
    if total_ms < OPS_PERCENT / 100 * wall.median_ms:
        return None  # what the rest of the step is spent on, the ops do not tell
    per_op_us = wall.median_ms * 1000 / count
    top = summary.slow_ops[0]
    evidence = (
        Evidence(f"self time of {top.op}", top.percent or 0.0, "% of all ops", ONE_OP_PERCENT),
        Evidence("ops of a step", count, "ops"),
        Evidence("wall clock per op", per_op_us, "us"),
    )
    if per_op_us < SHORT_US and count >= SHORT_OPS:
        reason = (
            f"{wall.label} is {count:,} short ops of {per_op_us:.1f} us each, dispatch included; "
            "how much of that is dispatch was not measured: double the batch, dispatch does not "
            "grow with it"
        )
        return Verdict("mixed", reason, evidence, (*_some_data(wall), _BATCH, _COMPILE))
    share, of_ops, whole = _of_whole(summary), top.percent or 0.0, wall.iteration
    takes = f"{top.op} takes {of_ops:.0f} % of the time of {wall.label}'s ops"
    if share is not None and whole is not None:
        takes += f", {share:.0f} % of each {whole.word}"
    if of_ops >= ONE_OP_PERCENT:
        most = largest(summary)
        behind = most is not None and most[0] == OPTIMIZER and (share or most[2]) < most[2]
        of_op = (_one_op(top.op, summary), _COMPILE)
        return Verdict("mixed" if behind else "op-bound", takes, evidence, of_op)
    levers = (*_some_data(wall), _COMPILE, _BATCH)
    reason = f"no single op takes {ONE_OP_PERCENT:.0f} % of {wall.label}; the most: {takes}"
    return Verdict("mixed", reason, evidence, levers)


def _of_whole(summary: Summary) -> float | None:
    """The share of the iteration that the op of the most time takes, percent; None: not known.

    At most that of the timed region: under a profiler the ops take longer than it does without.
    """
    wall, total_ms = summary.wall_clock, summary.op_self_time_ms
    whole = None if wall is None else wall.iteration
    if wall is None or whole is None or not wall.median_ms or not total_ms:
        return None
    timed_ms = region_ms(whole, wall.label)
    if timed_ms is None or whole.median_ms <= 0:
        return None
    spent = min(1.0, total_ms / wall.median_ms) * timed_ms / whole.median_ms
    return (summary.slow_ops[0].percent or 0.0) * spent


def _one_op(name: str, summary: Summary) -> Lever:
    """What to do about the op that takes most of a step."""
    how = f"look at the calls that lead to {name}: their shapes, data types and memory formats"
    # A processor that converts each operand makes such a step many times as long.
    if summary.environment.get("cpu_bfloat16") is True:
        how += "; bfloat16 under torch.autocast, which this CPU multiplies itself"
    return Lever("that op first", how)


def _by_device(
    categories: Iterable[Category], bounds: Mapping[str, float]
) -> tuple[VerdictName, str, list[Evidence]]:
    moving = sum(each.percent or 0.0 for each in categories if each.name in ("TM", "DM", "CCL"))
    dram, flop, both = (bounds.get(bound, 0.0) for bound in ("DRAM", "FLOP", "BOTH"))
    figures: dict[VerdictName, tuple[str, float]] = {
        "memory-bound": ("ops at the DRAM bound", dram + both),
        "compute-bound": ("ops at the FLOPs bound", flop + both),
        "data-movement-bound": ("data movement (TM, DM, CCL)", moving),
    }
    evidence = [
        Evidence(what, value, "% of device time", DOMINANT_PERCENT)
        for what, value in figures.values()
    ]
    slow = bounds.get("SLOW", 0.0)
    evidence.append(Evidence("modelled ops below both bounds", slow, "% of device time"))
    name, (what, value) = max(figures.items(), key=lambda each: each[1][1])
    if value < DOMINANT_PERCENT:
        return "mixed", "no single bound holds half of the device time", evidence
    return name, f"{what} take {value:.0f} % of the device time", evidence
