"""Verdicts: never without both numbers, thresholds, levers."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from instrumentor_analysis.model import (
    Barrier,
    Busy,
    Category,
    Cause,
    Compilation,
    Gaps,
    HostLayer,
    Iteration,
    Part,
    Phase,
    Phases,
    SlowOp,
    Summary,
    Verdict,
    WallClock,
)
from instrumentor_analysis.reports import brief
from instrumentor_analysis.reports.summary import console
from instrumentor_analysis.summary.verdict import (
    _INPUT_LEVERS,
    decide,
    fitting,
    no_verdict,
    overhead_percent,
)
from tests.analysis.reports.summaries import torch_cpu


def verdict(
    wall: float,
    device: float,
    bounds: Mapping[str, float] | None = None,
    *,
    cuda: bool = False,
    **facts: object,
) -> Verdict:
    """Of a step with these shares of the device time, by bound."""
    overhead = overhead_percent(wall, device)
    assert overhead is not None
    summary = Summary(
        "tracy", step_wall_clock_ms=wall, device_time_ms=device, overhead_percent=overhead,
        host_bound=overhead > 70, **facts,
    )  # type: ignore[arg-type]  # fmt: skip
    found = decide(summary, bounds, cuda=cuda)
    assert found is not None
    return found


def moving(**shares: float) -> tuple[Category, ...]:
    return tuple(Category(name, share, share, 1) for name, share in shares.items())


@pytest.mark.parametrize(
    ("wall", "device", "percent"),
    [
        *((wall, device, None) for wall, device in
          ((None, 5.0), (5.0, None), (None, None), (0.0, 1.0), (-1.0, 1.0), (100.0, 106.0))),
        (100.0, 25.0, 75.0),
        # Two clocks differ a little.
        (100.0, 104.0, -4.0),
    ],
)  # fmt: skip
def test_overhead_needs_two_numbers_that_do_not_contradict_each_other(
    wall: float | None, device: float | None, percent: float | None
) -> None:
    assert overhead_percent(wall, device) == percent


@pytest.mark.parametrize(
    ("machine", "cpus", "fits"), [(2, 64, 2), (None, 1, 1), (None, None, 4), (16, None, 4)]
)
def test_no_more_processes_load_than_there_are_cpus(
    machine: int | None, cpus: int | None, fits: int
) -> None:
    run = {} if machine is None else {"machine": {"cpus": machine}}
    environment = {} if cpus is None else {"cpu_count": cpus}
    summary = Summary(profiler="wallclock", run=run, environment=environment)
    lever, other = fitting(_INPUT_LEVERS[:2], summary)
    assert f"num_workers={fits}, " in lever.how and other == _INPUT_LEVERS[1]


def test_no_verdict_without_an_overhead() -> None:
    assert decide(Summary("tracy", step_wall_clock_ms=1.0, device_time_ms=2.0), {}) is None


def test_host_bound_is_above_seventy_percent() -> None:
    assert verdict(100.0, 29.9, {}).name == "host-bound"
    assert verdict(100.0, 30.0, {}).name != "host-bound"
    found = verdict(100.0, 10.0, {"DRAM": 90.0})
    assert found.name == "host-bound"
    assert [(e.what, e.value) for e in found.evidence[:3]] == [
        ("wall clock", 100.0), ("device time", 10.0), ("overhead", 90.0),
    ]  # fmt: skip
    assert found.levers[0].what == "runtime trace"


@pytest.mark.parametrize(
    ("bounds", "categories", "name"),
    [
        ({"DRAM": 40.0, "BOTH": 20.0, "SLOW": 30.0}, {"Compute": 90.0}, "memory-bound"),
        ({"FLOP": 60.0}, {"Compute": 90.0}, "compute-bound"),
        ({}, {"TM": 30.0, "DM": 15.0, "CCL": 6.0, "Compute": 49.0}, "data-movement-bound"),
        ({"SLOW": 51.0}, {"TM": 49.0, "Compute": 51.0}, "mixed"),
        ({}, {}, "mixed"),
    ],
)
def test_by_what_holds_half_of_the_device_time(
    bounds: dict[str, float], categories: dict[str, float], name: str
) -> None:
    found = verdict(100.0, 90.0, bounds, categories=moving(**categories))
    assert found.name == name
    assert found.levers
    assert {e.unit for e in found.evidence} >= {"ms", "%", "% of device time"}


@pytest.mark.parametrize(("device", "position"), [(75.0, None), (60.0, -1), (35.0, 0)])
def test_a_trace_is_a_lever_from_thirty_percent_overhead(
    device: float, position: int | None
) -> None:
    levers = [lever.what for lever in verdict(100.0, device, {"DRAM": 80.0}).levers]
    assert levers.count("runtime trace") == (position is not None)
    assert position is None or levers[position] == "runtime trace"


def test_waiting_for_most_of_the_step_is_named_although_it_is_not_host_bound() -> None:
    found = verdict(100.0, 35.0, {"DRAM": 40.0})
    assert found.name == "mixed"
    assert found.reason.startswith("the device waits for 65 % of the step, short of host-bound")
    assert verdict(100.0, 55.0, {}).reason.startswith("no single bound")


def test_evidence_of_dispatch_and_gaps() -> None:
    gaps = Gaps(1, 9.0, 9.0, 9.0, 9.0, 1, 9.0)
    found = verdict(100.0, 20.0, {}, dispatch_ms_per_op=2.0, gaps=gaps)
    evidence = {e.what: (e.value, e.threshold) for e in found.evidence}
    assert evidence["dispatch per op"] == (2.0, None)
    assert evidence["median op-to-op gap"] == (9.0, 6.5)


def test_cuda_has_its_own_levers_and_no_roofline() -> None:
    found = verdict(10.0, 8.0, cuda=True)
    assert found.name == "mixed"
    assert all("TT_RUNTIME" not in lever.how for lever in found.levers)


def clock(median_ms: float = 8.0, **shares: float) -> WallClock:
    """fwd+bwd of an iteration of 100 ms, of which the parts take so many percent."""
    parts = tuple(Part(name.replace("_", " "), share, share) for name, share in shares.items())
    whole = Iteration(30, 100.0, 90.0, 110.0, parts=parts)
    return WallClock(label="fwd+bwd", samples=30, median_ms=median_ms, iteration=whole)


@pytest.mark.parametrize(
    ("shares", "name", "lever"),
    [
        ({"data": 83.0, "optimizer": 5.0}, "input-bound", "load in other processes"),
        ({"next_batch": 60.0}, "input-bound", "load in other processes"),
        ({"before_forward": 55.0}, "input-bound", "load in other processes"),
        ({"data": 10.0, "optimizer": 45.0}, "optimizer-bound", "a fused optimizer"),
    ],
)
def test_what_takes_most_of_the_iteration_comes_first(
    shares: dict[str, float], name: str, lever: str
) -> None:
    # Of the step alone it would be launch-bound.
    found = decide(
        Summary("torch", wall_clock=clock(**shares), step_wall_clock_ms=8.0, device_time_ms=0.8,
                overhead_percent=90.0, host_bound=True), cuda=True,
    )  # fmt: skip
    assert found is not None
    assert (found.name, found.levers[0].what) == (name, lever)
    assert f"{max(shares.values()):.0f} % of each iteration" in found.reason
    assert found.evidence[0].value == 100.0


def test_a_small_share_bounds_nothing() -> None:
    assert decide(Summary("wallclock", wall_clock=clock(data=39.0, optimizer=30.0))) is None


@pytest.mark.parametrize(
    ("median_ms", "ops", "percent", "name"),
    [(8.0, 120, 62.0, "op-bound"), (8.0, 120, 20.0, "mixed"), (1.2, 300, 62.0, "mixed"),
     (0.1, 20, 20.0, "mixed")],
)  # fmt: skip
def test_a_step_on_the_cpu_by_its_ops(
    median_ms: float, ops: int, percent: float, name: str
) -> None:
    top = SlowOp("aten::convolution_backward", 2, None, percent, None, op_self_time_ms=5.0)
    found = decide(
        Summary("torch", wall_clock=clock(median_ms), op_self_time_ms=8.0, op_count=ops,
                slow_ops=(top,))
    )  # fmt: skip
    assert found is not None and found.name == name
    assert found.levers
    # What is mixed is named, and what leads in it.
    leads = (
        "no single op takes 40 % of fwd+bwd; the most: aten::convolution_backward takes 20 % of "
    )
    assert (leads in found.reason) == (name == "mixed" and ops != 300)
    # No time of calling an op is measured on the CPU.
    assert ("was not measured: double the batch" in found.reason) == (ops == 300)


def updating(
    percent: float, offers: str | None = "fused", region: float = 60.0, outside: float = 36.0
) -> Summary:
    """fwd+bwd on the CPU, one op with 45 % of it; by the extra steps an update of so many percent.

    Args:
        region, outside: of fwd+bwd and of the update without barriers, percent.
    """
    parts = (Part("fwd+bwd", region / 10, region), Part("optimizer", outside / 10, outside))
    whole = Iteration(30, 10.0, 9.0, 11.0, parts=parts)
    rest = (100.0 - percent) / 2
    shares = {"forward": rest, "backward": rest, "optimizer": percent}
    owners = tuple(Phase(name, share / 10, share) for name, share in shares.items())
    told = None if offers is None else {"optimizer": {"class": "AdamW", "offers": offers}}
    wall = WallClock(label="fwd+bwd", samples=30, median_ms=region / 10, iteration=whole)
    top = SlowOp("aten::mm", 2, None, 45.0, None, op_self_time_ms=3.0)
    return Summary(
        "torch", wall_clock=wall, phases=Phases(9, 10.0, owners, 0.0), op_self_time_ms=9.6,
        op_count=120, slow_ops=(top,), verification=told,
        run={"command": ["python", "train.py", "--lr", "1"]},
    )  # fmt: skip


def test_the_largest_phase_is_named_before_an_op_of_another_one() -> None:
    """An op of fwd+bwd is told by its share of the iteration, and comes behind a longer update."""
    found = decide(updating(36.0))
    assert found is not None and found.name == "mixed"
    assert found.reason == (
        "the largest part of each iteration is optimizer, 36 %; aten::mm takes 45 % of the time of "
        "fwd+bwd's ops, 27 % of each iteration"
    )
    assert found.levers[0].how == (
        "AdamW(..., fused=True), one kernel an update; to try it: instrument tune --settings "
        "fused_optimizer train.py --lr 1"
    )
    assert found.levers[1].what == "that op first"


def test_an_op_is_first_where_the_update_is_short() -> None:
    found = decide(updating(10.0, region=90.0, outside=10.0))
    assert found is not None and found.name == "op-bound"
    assert found.reason.startswith("the largest part of each iteration is forward, 45 %; aten::mm")
    assert found.reason.endswith(", 40 % of each iteration")
    assert found.levers[0].what == "that op first"


@pytest.mark.parametrize(
    ("offers", "first"),
    [("fused", "a fused optimizer"), ("foreach", "foreach"), ("", "fewer updates"),
     (None, "a fused optimizer")],
)  # fmt: skip
def test_only_what_the_optimizer_offers_is_named(offers: str | None, first: str) -> None:
    found = decide(updating(45.0, offers))
    assert found is not None and (found.name, found.levers[0].what) == ("optimizer-bound", first)
    # No other device is known to have such a kernel where the run did not say so.
    other = decide(replace(updating(45.0, None), barrier=Barrier("xla", "waited")))
    assert other is not None and other.levers[0].what == "fewer updates"


@pytest.mark.parametrize(("has", "named"), [(True, True), (False, False), (None, False)])
def test_bfloat16_is_named_where_the_cpu_multiplies_it(has: bool | None, named: bool) -> None:
    environment = {} if has is None else {"cpu_bfloat16": has}
    found = decide(replace(torch_cpu(), op_count=12, environment=environment))
    assert found is not None and ("bfloat16" in found.levers[0].how) is named


def test_nothing_is_concluded_on_a_busy_machine() -> None:
    run = {"machine": {"cpus": 2, "other_cpus": 1.1}}
    assert decide(Summary("torch", wall_clock=clock(data=90.0), run=run)) is None


def test_no_op_is_named_by_profiled_steps_that_others_disturbed() -> None:
    """The samples before them were not, so that all else is as it was."""
    quiet = replace(torch_cpu(), op_count=12)
    assert (found := decide(quiet)) is not None and found.name == "op-bound"
    disturbed = replace(quiet, profiled_busy=Busy(1.3, 2))
    assert decide(disturbed) is None
    assert (told := no_verdict(disturbed)) is not None
    assert told[1] == (
        "other programs used 1.3 of 2 CPUs during the steps under torch.profiler, so it cannot be "
        "told what fwd+bwd is spent on"
    )
    assert "top ops" in brief.console(quiet) and "top ops" not in brief.console(disturbed)
    text = " ".join(console(disturbed, width=200).split())
    assert "(machine busy)" in text and "Machine busy: other processes used 1.3 of 2" in text


@pytest.mark.parametrize(
    ("device", "words", "not_said"),
    [
        ("xla", "set_custom_compile_options", "ttnn."),
        ("ttnn", "ttnn.execute_trace", "torch_xla"),
        ("ttml", "ttnn.execute_trace", "torch_xla"),
        ("tt", "CompileOption.ENABLE_TRACE", "torch_xla"),
    ],
)
def test_advice_is_that_of_the_runtime_that_ran(device: str, words: str, not_said: str) -> None:
    step = Summary(
        "tracy", step_wall_clock_ms=10.0, device_time_ms=1.0, overhead_percent=90.0,
        host_bound=True, barrier=Barrier(device, "waited"),
    )  # fmt: skip
    found = decide(step, {})
    assert found is not None
    said = " ".join(lever.how for lever in found.levers)
    assert words in said and not_said not in said


@pytest.mark.parametrize(
    ("causes", "compilations", "words"),
    [
        (
            (Cause("fallback", "aten::nonzero", "t.py", 9),),
            (),
            "fallback at t.py:9 (aten::nonzero)",
        ),
        ((), (), "nothing was seen in 30 steady steps that prevents it: set TT_RUNTIME_TRACE"),
        ((), (Compilation("step_steady_9", 3.0),), "set TT_RUNTIME_TRACE_REGION_SIZE"),
    ],
)
def test_the_trace_lever_says_what_keeps_the_step_from_being_replayed(
    causes: tuple[Cause, ...], compilations: tuple[Compilation, ...], words: str
) -> None:
    wall = WallClock(label="fwd+bwd", samples=30, median_ms=10.0, compilations=compilations)
    step = Summary(
        "tracy", step_wall_clock_ms=10.0, device_time_ms=1.0, overhead_percent=90.0,
        host_bound=True, barrier=Barrier("xla", "waited"), causes=causes, wall_clock=wall,
        host_layers=(HostLayer("execute", 1.0, 2.0, ("ExecuteTime",), "torch_xla"),),
    )  # fmt: skip
    found = decide(step, {})
    assert found is not None
    (trace,) = (each.how for each in found.levers if each.what == "runtime trace")
    assert words in trace and trace.endswith("Tracy's device profiling does not work with it")


def no_more(**facts: object) -> tuple[str, str, list[str]] | None:
    """What is said of a run without a verdict: its name, the reason, and what to try."""
    clock: dict[str, object] = facts.pop("clock", {})  # type: ignore[assignment]
    wall = WallClock(label="fwd+bwd", samples=30, median_ms=10.0, **clock)  # type: ignore[arg-type]
    found = no_verdict(Summary("torch", wall_clock=wall, **facts))  # type: ignore[arg-type]
    return None if found is None else (*found[:2], [lever.what for lever in found[2]])


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        (["/env/bin/python3.11", "src/train.py", "--name", "a b"], "src/train.py --name 'a b'"),
        (["torchrun", "train.py"], ""),
        (None, ""),
    ],
)
def test_the_command_that_holds_on_a_busy_machine_can_be_typed(command: object, typed: str) -> None:
    run = {"machine": {"other_cpus": 1.6, "cpus": 2}, "command": command}
    wall = WallClock(label="fwd+bwd", samples=30, median_ms=10.0)
    repository = {"git_commit": "a", "git_dirty": False, "git_parent": True}
    found = no_verdict(Summary("torch", wall_clock=wall, run=run, environment=repository))
    assert found is not None
    command = f": instrument compare --refs HEAD~1..HEAD {typed}"
    assert found[2][-1].how.endswith(command) is bool(typed)
    assert typed or all("instrument compare" not in lever.how for lever in found[2])


@pytest.mark.parametrize(
    ("repository", "said"),
    [
        ({"git_commit": "a", "git_dirty": True, "git_parent": True}, "in turn,.* HEAD.. train.py"),
        ({"git_commit": "a", "git_parent": False}, "after your next change, .*HEAD.. train"),
        ({"git_commit": "a", "git_parent": True}, "in turn, .* --refs HEAD~1..HEAD train.py"),
        ({"git_commit": None, "git_parent": False}, None),
    ],
)
def test_no_commit_is_named_that_the_repository_does_not_hold(
    repository: dict[str, object], said: str | None
) -> None:
    run = {"machine": {"other_cpus": 1.6, "cpus": 2}, "command": ["python3", "train.py"]}
    wall = WallClock(label="fwd+bwd", samples=30, median_ms=10.0)
    found = no_verdict(Summary("torch", wall_clock=wall, run=run, environment=repository))
    assert found is not None
    how = [each.how for each in found[2] if each.what == "compare two versions"]
    assert [bool(re.match(said or "", each)) for each in how] == [True] * bool(said)


def test_the_command_measures_what_the_run_did() -> None:
    busy = {"machine": {"other_cpus": 1.6, "cpus": 2}, "command": ["python", "train.py"]}
    run = {**busy, "chosen": ["--region", "train.py:3-9"]}
    repository = {"git_commit": "a", "git_dirty": True}
    wall = WallClock(label="region", samples=30, median_ms=10.0)
    found = no_verdict(Summary("torch", wall_clock=wall, run=run, environment=repository))
    assert found is not None
    typed = "instrument compare --region train.py:3-9 --refs HEAD.. train.py"
    assert found[2][-1].how.endswith(typed)


def test_a_run_without_a_verdict_says_why_and_what_to_try() -> None:
    busy = {"machine": {"other_cpus": 1.6, "cpus": 2}, "command": ["python", "train.py"]}
    repository = {"git_commit": "a", "git_parent": True}
    threads = {"torch_threads": 2, **repository}
    name, reason, tries = no_more(run=busy, environment=threads)
    assert name == "no conclusion" and reason.startswith("other programs used the CPUs")
    assert tries == ["measure again", "compare two versions"]
    # 10 ms by two threads, of which one had 3 ms of ops to do: 20 ms are more than they needed.
    for cpu_ms, spins in ((20.0, True), (15.0, False)):
        of = {"cpu_ms": cpu_ms}
        _, _, tries = no_more(run=busy, environment=threads, op_self_time_ms=3.0, clock=of)
        assert ("OMP_NUM_THREADS=1" in tries) is spins
    again, data, versions = "measure again", "look at the data", "compare two versions"
    for part, share, name, first in (
        ("data", 45.0, "no conclusion", [again, data]),
        # Half of that time would still be most of the step.
        ("data", 60.0, "no conclusion, but probably input-bound", [data, again]),
        ("next batch", 88.0, "no conclusion, but probably input-bound", [data, again]),
        ("optimizer", 88.0, "no conclusion", [again]),
    ):
        waits = Iteration(9, 60.0, 50.0, 70.0, parts=(Part(part, share * 0.6, share),))
        said, _, tries = no_more(run=busy, clock={"iteration": waits}, environment=repository)
        assert (said, tries) == (name, [*first, versions])
    name, reason, tries = no_more()
    assert (name, tries) == ("no verdict", ["a profiler"])
    assert reason == "timers alone do not tell what fwd+bwd is spent on"
    whole = Iteration(9, 12.0, 11.0, 13.0, parts=(Part("data", 2.0, 17.0),))
    name, reason, tries = no_more(op_self_time_ms=3.0, clock={"iteration": whole})
    assert reason == "the ops take 30 % of fwd+bwd; Python and dispatch take the rest"
    assert tries[0] == "the 17 % of the iteration that wait for data"


def test_a_run_that_ended_early_needs_no_conclusion() -> None:
    assert no_more(partial=True) is no_more(script_exit_code=1) is None
    assert no_more(verdict=Verdict("mixed", "because")) is None
