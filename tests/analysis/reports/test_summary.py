"""The document of a summary: exact texts, and what holds for any summary."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from instrumentor.runtime.recorder.sampling import LEAST
from instrumentor_analysis.clock.neighbours import doubts
from instrumentor_analysis.model import (
    Barrier,
    Interval,
    Iteration,
    Locations,
    Module,
    Part,
    Population,
    Saving,
    SlowOp,
    Spread,
    Summary,
    Update,
    WallClock,
)
from instrumentor_analysis.reports import brief, formatting, headline
from instrumentor_analysis.reports.summary import console, html, markdown
from instrumentor_analysis.shared.caveats import Caveat
from instrumentor_analysis.summary.verdict import FEWEST_KNOWN
from tests.analysis.reports.summaries import ALL, HOSTILE, torch_cpu, tracy

GOLDENS = Path(__file__).parent / "goldens"
ESCAPE = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize(
    ("render", "ending"), [(console, "txt"), (markdown, "md"), (brief.console, "brief.txt")]
)
@pytest.mark.parametrize("name", ALL)
def test_text_is_exactly_this(
    name: str, render: Callable[[Summary], str], ending: str, request: pytest.FixtureRequest
) -> None:
    text = render(ALL[name]())
    golden = GOLDENS / f"{name}.{ending}"
    if request.config.getoption("--update-goldens"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("name", ALL)
def test_fits_the_terminal(name: str, width: int) -> None:
    text = console(ALL[name](), width=width)
    # A path is one word: cut, it could not be pasted.
    lines = [line for line in text.splitlines() if "tracy_profile" not in line]
    assert max(map(formatting.width, lines)) <= width


@pytest.mark.parametrize("name", ALL)
def test_colours_change_nothing_but_colours(name: str) -> None:
    plain = console(ALL[name](), width=100)
    assert "\x1b" not in plain
    assert ESCAPE.sub("", console(ALL[name](), width=100, color=True)) == plain


def test_what_was_not_measured_is_never_zero() -> None:
    text = console(torch_cpu())
    assert "device time" not in text  # a CPU has no device
    assert "overhead" not in text  # what follows from it is not said again
    assert re.search(r"time within ops +31\.5 ms", text)
    assert not re.search(r"(?<![\d.,])0(\.0+)? (ms|us|%)", text)


def test_overhead_above_the_threshold_is_red() -> None:
    assert re.search(r"\x1b\[31m +85\.0 % \x1b\[0m", console(tracy(), color=True))


@pytest.mark.parametrize(("percent", "code"), [(12.0, "33"), (95.3, "32"), (198.0, "31")])
def test_more_than_the_peak_is_not_good(percent: float, code: str) -> None:
    text = console(replace(tracy(), matmul_flops_percent=percent), color=True)
    assert re.search(rf"\x1b\[{code}m +{percent} % \x1b\[0m", text)


@pytest.mark.parametrize(
    ("pauses", "said"),
    [
        ((0, 0.0), "317 ms together"),
        ((1, 12_000.0), "317 ms together (1 pause above 10 ms: 12.0 ms)"),
        ((20, 16_400_000.0), "317 ms together (20 pauses above 10 ms: 16.4 s)"),
        # One in several pooled steps.
        ((0, 4_000.0), "317 ms together (pauses above 10 ms: 4.0 ms)"),
    ],
)
def test_pauses_stand_beside_the_gaps(pauses: tuple[int, float], said: str) -> None:
    gaps = tracy().gaps
    assert gaps is not None
    count, us = pauses
    text = console(replace(tracy(), gaps=replace(gaps, pause_count=count, pause_us=us)))
    assert re.search(rf"above 6\.5 us, {re.escape(said)}\n", re.sub(r"\n {20,}", " ", text))


def test_what_has_no_location_is_a_row_only_where_there_is_some() -> None:
    located = replace(tracy().locations or Locations(), unlocated_ms=0.0, unlocated_count=3)
    assert "no location" not in console(replace(tracy(), locations=located))


def test_the_constants_come_after_the_first_modules() -> None:
    constants = Module("(constants, evaluated once)", 9.0, 1.0, 2, const_eval=True)
    many = tuple(Module(f"Net[n{at}]", 1.0, 1.0, 1) for at in range(9))
    shown = replace(tracy(), locations=Locations(modules=(*many, constants)))
    names = [line.split()[0] for line in console(shown).splitlines()
             if line.startswith(("  Net[", "  (const"))]  # fmt: skip
    assert names == [*(f"Net[n{at}]" for at in range(5)), "(constants,"]


def test_shapes_survive_a_narrow_terminal() -> None:
    name = "SparseMatmulDeviceOperation active=6/64 x 32 x 512 x 512"
    shown = replace(tracy(), savings=(Saving(name, "bound", 1234, 1.0, 1.0, 1.0),))
    assert "SparseMatmul active…2x512x512" in console(shown, width=68)
    assert name in console(shown, width=120)


def test_ops_that_vary_from_step_to_step_are_named_everywhere() -> None:
    unsteady = Spread(4, "Wobbly", mean_us=200.0, stdev_us=60.0, steps=4)
    steady = Spread(5, "Constant", mean_us=900.0, stdev_us=30.0, steps=4)
    summary = replace(tracy(), spread=(unsteady, steady))
    for text in (console(summary), markdown(summary), html(summary)):
        section = text.partition("Ops that vary most over the 4 steady steps")[2]
        assert section
        row = section.partition("Wobbly")[2][:120]
        assert "200 us" in row and "60.0 us" in row and "30.0 %" in row
        assert "Constant" not in text
    for text in (console(tracy()), markdown(tracy()), html(tracy())):
        assert "vary most" not in text


def test_hostile_names_are_shown_not_obeyed() -> None:
    ops = tuple(SlowOp(name, 1, 1.0, 10.0, None, "Other") for name in HOSTILE)
    text = console(replace(tracy(), slow_ops=ops), width=80)
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert "\\x1b[31mred" in text
    tables = [line for line in text.splitlines() if "tracy_profile" not in line]
    assert max(map(formatting.width, tables)) <= 80


@pytest.mark.parametrize("name", ALL)
def test_the_report_of_a_run_is_about_twelve_lines(name: str) -> None:
    text = brief.console(ALL[name](), width=80)
    assert len(text.splitlines()) <= 15
    assert max(map(formatting.width, text.splitlines())) <= 80
    assert "Files" not in text and "aten::" not in text


def test_briefly_a_busy_machine_names_no_ops_and_a_partial_run_asks_for_no_steps() -> None:
    summary = ALL["torch_cpu"]()
    assert "top ops" in brief.console(summary)
    busy = {**summary.run, "machine": {"cpus": 2, "other_cpus": 1.6}}
    loaded = replace(summary, run=busy, verdict=None, warnings=doubts(busy["machine"]))
    text = brief.console(loaded)
    assert "top ops" not in text
    assert text.count("Machine busy") == 1 and "next      measure again: when the machine" in text
    assert "look at the data" not in text
    waited = Iteration(9, 60.0, 50.0, 70.0, parts=(Part("data", 36.0, 60.0),))
    slow = replace(loaded, wall_clock=replace(summary.wall_clock, iteration=waited))
    assert "look at the data: waiting for data takes 60 % of" in brief.console(slow, width=100)
    wall = replace(summary.wall_clock, median_interval_ms=None)
    for partial in (False, True):
        text = brief.console(replace(summary, wall_clock=wall, partial=partial), width=100)
        assert "too few steps for an interval" in text
        assert ("--steps 30" in text) is not partial
    short = (*summary.warnings, Caveat("few-samples", "The script ended after 5 samples."))
    text = brief.console(replace(summary, wall_clock=wall, warnings=short))
    assert "too few steps for an interval" in text and "--steps 30" not in text
    full = console(replace(summary, wall_clock=wall, warnings=short))
    assert "too few steps for an interval" in full and "--steps 30" not in full
    text = brief.console(replace(loaded, wall_clock=wall))
    assert "too few steps for an interval" in text and "--steps 30" not in text
    for steps in (17, 60):
        rising = replace(wall, samples=steps, samples_ms=tuple(map(float, range(steps))))
        text = brief.console(replace(summary, wall_clock=rising), width=100)
        assert f"no interval: consecutive steps are correlated, {steps} count as" in text
        assert "--steps 30" not in text and "too few" not in text


def test_briefly_a_busy_machine_has_its_fastest_step() -> None:
    summary = ALL["torch_cpu"]()
    assert summary.wall_clock is not None
    whole = Iteration(9, 60.0, 5.0, 70.0)
    wall = replace(summary.wall_clock, samples=9, min_ms=4.0, iteration=whole, populations=())
    busy = {**summary.run, "machine": {"cpus": 2, "other_cpus": 1.6}}

    def fastest(wall: WallClock, run: dict[str, Any] = busy) -> str:
        text = brief.console(replace(summary, run=run, wall_clock=wall), width=100)
        return "".join(line for line in text.splitlines() if line.startswith("fastest"))

    told = fastest(wall)
    assert re.search(rf"iteration 5(\.0+)? ms, {re.escape(wall.label)} 4(\.0+)? ms", told), told
    assert told.endswith("other programs disturbed these least")
    assert not fastest(wall, {**summary.run}), "on a quiet one the median says it"
    update = Update(4, 3, 20.0, values_ms=(20.0,) * 3)
    micro = replace(wall, iteration=replace(whole, update=update))
    assert re.search(r" 4(\.0+)? ms a micro-step, other", fastest(micro)), fastest(micro)
    assert not fastest(replace(wall, samples=5))
    kinds = (Population(5, 60.0, 4.0, 70.0, kind="a"), Population(4, 9.0, 8.0, 10.0, kind="b"))
    assert not fastest(replace(wall, populations=kinds))


@pytest.mark.parametrize(
    ("steps", "samples", "ignored", "codes", "listed"),
    [
        (None, 20, [], "[W201, W205, W105]", []),
        (None, 19, [], "[W201, W205]", []),
        (40, 20, [], "[W201, W205]", ["few-samples"]),
        (None, 20, ["W205"], "[W201, W105]", []),
        (None, 19, ["W201"], "", ["few-samples", "outlier"]),
    ],
)
def test_what_a_busy_machine_explains_is_said_with_it(
    steps: int | None, samples: int, ignored: list[str], codes: str, listed: list[str]
) -> None:
    summary = ALL["torch_cpu"]()
    assert summary.wall_clock is not None
    summary = replace(summary, wall_clock=replace(summary.wall_clock, samples=samples))
    machine = {"cpus": 2, "other_cpus": 1.6}
    run = {**summary.run, "machine": machine, "steps": steps, "ignored_warnings": ignored}
    found = (*doubts(machine), Caveat("outlier", "1 step."), Caveat("few-samples", "Few."))
    busy = replace(summary, run=run, verdict=None, warnings=found)
    for text in (brief.console(busy, width=200), console(busy, width=200), markdown(busy)):
        assert (codes.replace("[", "").replace("]", "") in text.replace("\\", "")) and (
            ("Machine busy" in text) is bool(codes)
        )
    kinds = [each.kind for each in headline.warnings(busy, notes=False)]
    assert sorted(set(kinds) & {"outlier", "few-samples"}) == listed


def test_a_script_that_ended_too_early_is_not_the_load_s_fault() -> None:
    """It comes first, in its own words: no quiet machine would have known its median."""
    assert FEWEST_KNOWN == LEAST
    summary = ALL["torch_cpu"]()
    assert summary.wall_clock is not None
    machine = {"cpus": 2, "other_cpus": 1.6}
    short = Caveat("few-samples", "The script ended after 3 samples.")
    busy = replace(
        summary,
        run={**summary.run, "machine": machine},
        wall_clock=replace(summary.wall_clock, samples=1),
        verdict=None,
        warnings=(*doubts(machine), short),
    )
    text = " ".join(brief.console(busy, width=200).split())
    assert "no conclusion: The script ended after 3 samples [W105]. Machine busy" in text
    assert "next more steps: give the script more data or epochs" in text
    for report in (console, markdown, html):
        assert report(busy).count("ended after 3 samples") == 1
    quiet = replace(busy, run=summary.run, warnings=(short,))
    muted = 'class="tiles doubtful"'  # figures that nobody should quote
    assert muted in html(busy) and muted not in html(quiet)
    assert "no conclusion" not in brief.console(quiet) and "ended after 3" in brief.console(quiet)


def test_every_report_of_a_busy_machine_has_its_fastest_step() -> None:
    summary = ALL["torch_cpu"]()
    assert summary.wall_clock is not None
    wall = replace(summary.wall_clock, samples=9, min_ms=4.0, populations=())
    run = {**summary.run, "machine": {"cpus": 2, "other_cpus": 1.6}}
    busy = replace(summary, wall_clock=wall, run=run)
    for report in (console, markdown, html):
        assert "disturbed these least" in report(busy)
        assert "disturbed these least" not in report(replace(busy, run=summary.run))


def test_briefly_a_busy_machine_has_the_cpu_time_of_its_steps() -> None:
    summary = ALL["torch_cpu"]()
    assert summary.wall_clock is not None
    busy = {**summary.run, "machine": {"cpus": 2, "other_cpus": 1.6}}
    wall = replace(summary.wall_clock, cpu_ms=2.7)

    def told(wall: WallClock, threads: int | None, run: dict[str, Any] = busy, **more: Any) -> str:
        environment = {} if threads is None else {"torch_threads": threads}
        changed = replace(summary, run=run, wall_clock=wall, environment=environment, **more)
        text = brief.console(changed, width=100)
        return "".join(line for line in text.splitlines() if line.startswith("CPU time"))

    assert re.search(r"2\.70? ms a step, in .+; waiting for a CPU is not in it$", told(wall, 1))
    assert told(wall, 2).endswith("of all 2 threads"), "no ops are known that tell of spinning"
    spins = replace(wall, median_ms=1.5)
    assert told(spins, 2, op_self_time_ms=0.5).endswith("which spin: try OMP_NUM_THREADS=1")
    assert "spin" not in told(spins, 2, op_self_time_ms=1.4), "the ops account for it"
    assert not told(wall, 1, {**summary.run}), "on a quiet machine the median says it"
    assert not told(wall, None), "nothing is known of its threads"
    assert not told(replace(wall, cpu_ms=None), 1)
    waited = Barrier("cuda", "torch.cuda.synchronize")
    assert not told(wall, 1, barrier=waited), "waiting for a device may take CPU time"


def test_of_micro_steps_every_report_quotes_the_region_of_an_update() -> None:
    summary = ALL["torch_cpu"]()
    wall = summary.wall_clock
    assert wall is not None
    update = Update(4, 3, 48.0, values_ms=(48.0,) * 3)
    parts = (Part(wall.label, 10.0, 100 / 1.2), Part("optimizer", 2.0, 100 / 6))
    whole = Iteration(9, 12.0, 5.0, 70.0, parts=parts, update=update)
    shown = replace(summary, wall_clock=replace(wall, iteration=whole), phases=None)
    row = rf"{re.escape(wall.label)} +40(\.0+)? ms[ ,]+an update \(4 x 10(\.0+)? ms\)"
    for text in (console(shown, width=100), brief.console(shown, width=100)):
        assert re.search(row, text), text
    assert "of each micro-step by itself" in console(shown, width=100)
    page = html(shown)
    assert ">Micro-step</h2>" in page and ">Iteration</h2>" not in page


def test_an_interval_has_the_unit_of_its_median() -> None:
    assert headline.between(Interval(405.0, 421.0), 412.0) == "405 to 421"
    assert headline.between(Interval(250.0, 1020.0), 491.0) == "250 to 1,020"


def test_a_page_of_a_busy_machine_has_one_card_that_says_so() -> None:
    machine = {"machine": {"cpus": 2, "other_cpus": 1.6}}
    busy = replace(torch_cpu(), run=machine, verdict=None, warnings=doubts(machine["machine"]))
    page = html(busy)
    assert "Machine busy: other processes used 1.6 of 2 CPUs" in page
    assert page.count("[W201]") == 1 and ">Conclusion<" not in page
    assert "No conclusion" in page or "no conclusion" in page
    assert "measure again" in page


def test_how_a_run_was_measured_is_wrapped_between_words() -> None:
    found = {"verified": ["forward", "backward"], "unverified": {"optimizer": "it " * 30 + "end"}}
    text = console(replace(torch_cpu(), verification=found), width=60)
    head = text.partition("\n\n")[0].splitlines()
    assert len(head) > 3 and all(len(line) <= 60 for line in head)
    assert " ".join(" ".join(head).split()).endswith("it end)")
