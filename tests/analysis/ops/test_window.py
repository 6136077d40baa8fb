"""Steps out of signposts, the chosen one, and tt-perf-report's own rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor_analysis.load.ops_csv import load
from instrumentor_analysis.load.scan import Header, Region, Scan, Signpost
from instrumentor_analysis.ops.steps import read_steps
from instrumentor_analysis.ops.window import (
    Named,
    StepChoice,
    StepMarks,
    between,
    choose,
    describe,
    signposts_of,
    steps,
)
from instrumentor_analysis.shared.errors import EmptyWindow, NoSuchSignpost, NoSuchStep
from tests.analysis.ops_rows import FIXTURES, frame_of, op, signpost, step, write


def marks_of(*names: str) -> tuple[StepMarks, ...]:
    """The steps of signposts on every tenth line."""
    return steps([Signpost(name, 10 * at, -1, -1) for at, name in enumerate(names, 1)])


COMPILED = ("step_compile_start", "step_compile_end")
STEADY = ("step_steady_1_start", "step_steady_1_end")
CUT = ("step_steady_2_start", "benchmark_complete")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), []),
        (("benchmark_complete", "Performance pass", "a_end"), []),
        (
            (*COMPILED, *STEADY, *CUT),
            [("step_compile", 10, 20), ("step_steady_1", 30, 40), ("step_steady_2", 50, None)],
        ),
        # A start that is followed by another one was never finished.
        (("a_start", "a_end", "a_start", "a_start", "a_end"),
         [("a", 10, 20), ("a", 30, None), ("a", 40, 50)]),
        (("step_steady_1_start", "inner_start", "inner_end", "step_steady_1_end"),
         [("step_steady_1", 10, 40), ("inner", 20, 30)]),
    ],
)  # fmt: skip
def test_signposts_are_paired(
    names: tuple[str, ...], expected: list[tuple[str, int, int | None]]
) -> None:
    found = marks_of(*names)
    assert [(m.name, m.start.line, m.end and m.end.line) for m in found] == expected


def test_steps_in_words() -> None:
    assert describe(()) == "no steps"
    assert describe(marks_of(*COMPILED, *CUT)) == "step_compile, step_steady_2 (not complete)"


@pytest.mark.parametrize(
    ("names", "asked", "chosen"),
    [
        ((*COMPILED, *STEADY, *CUT), None, ["step_steady_1"]),
        ((*COMPILED, *STEADY, *CUT), 0, ["step_compile"]),
        ((*COMPILED, *CUT), None, ["step_compile"]),
        ((*COMPILED, *STEADY, "step_steady_2_start", "step_steady_2_end"), "all",
         ["step_steady_1", "step_steady_2"]),
        (("integral_image_start", "integral_image_end"), None, []),
    ],
)  # fmt: skip
def test_the_steps_that_are_meant(
    names: tuple[str, ...], asked: StepChoice, chosen: list[str]
) -> None:
    marks = marks_of(*names)
    assert [marks[at].name for at in choose(marks, asked)] == chosen


@pytest.mark.parametrize(
    ("names", "asked", "said", "hint"),
    [
        ((*COMPILED, *CUT), 2, "step 2 is not complete; the trace has step_compile", "--step 0"),
        ((*COMPILED, *CUT), 7, "there is no step 7", "--step 0"),
        ((*COMPILED, *CUT), "all", "no steady step is complete", "--step 0"),
        (CUT, None, "no step is complete", ""),
    ],
)
def test_a_step_that_is_not_there(
    names: tuple[str, ...], asked: StepChoice, said: str, hint: str
) -> None:
    with pytest.raises(NoSuchStep, match=said) as caught:
        choose(marks_of(*names), asked)
    assert hint in caught.value.hint


def test_a_step_holds_its_ops_by_position_in_the_file() -> None:
    frame = load(FIXTURES / "replay.csv").frame
    marks = steps(signposts_of(frame))
    # The replayed ops bear host times of their capture; another op's time lies in the step.
    rows = between(frame, marks[1])
    assert rows["op_code"].tolist() == ["UnaryDeviceOperation", "BinaryNgDeviceOperation"]
    with pytest.raises(NoSuchStep):
        between(frame, marks_of("a_start")[0])


@pytest.mark.parametrize(
    ("named", "lines", "said"),
    [
        (Named(), [9, 10, 11], "after the first signpost named 'b'"),
        (Named("a"), [3, 4, 5, 6, 7, 8, 9, 10, 11], "after 'a'"),
        (Named(end="b"), [2, 3, 4, 5, 6, 7], "before 'b'"),
        (Named("a", "b"), [3, 4, 5, 6, 7], "after 'a', before 'b'"),
        (Named("a", "a"), [3, 4, 5], "after 'a', before 'a'"),
        (Named(ignore=True), [*range(2, 12)], "the whole file"),
    ],
)
def test_the_window_of_tt_perf_report(named: Named, lines: list[int], said: str) -> None:
    names = ("a", "c", "a", "b", "b")
    rows = [row for name in names for row in (signpost(name), op())]
    window, how = named.select(frame_of(*rows))
    assert window["line"].tolist() == lines
    assert said in how


@pytest.mark.parametrize(
    ("named", "times", "region"),
    [
        (Named("a", "b"), (1, 2), Region(9, 20, 3)),
        (Named("a", "b", ignore=True), (1, 2), None),
        (Named("b", "a"), (1, 2), None),
        (Named("a", "a"), (1, 2), None),
        (Named("a"), (1, 2), None),
        (Named("a", "x"), (1, 2), None),
        # By host time other rows may lie between them.
        (Named("a", "b"), (2, 1), None),
    ],
)
def test_what_can_be_cut_out_of_a_file(
    named: Named, times: tuple[int, int], region: Region | None
) -> None:
    first = Signpost("a", 2, 0, 9, times[0])
    last = Signpost("b", 7, 20, 29, times[1])
    assert named.region(Scan(Header((), b""), (first, last), quoted=False)) == region


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("c", "c", "no signpost 'c' a second time"),
        ("x", "b", "no signpost 'x'"),
        ("a", "x", "no signpost 'x'"),
        ("x", "y", "no signpost 'x'"),
    ],
)
def test_a_signpost_that_is_not_there_is_no_window(start: str, end: str, said: str) -> None:
    rows = [row for name in ("a", "c", "b") for row in (signpost(name), op())]
    with pytest.raises(NoSuchSignpost, match=said) as caught:
        Named(start, end).select(frame_of(*rows))
    assert caught.value.hint == "It has: a, c, b."
    with pytest.raises(NoSuchSignpost) as caught:
        Named(start, end).select(frame_of(op()))
    assert "--ignore-signposts" in caught.value.hint


def test_an_empty_window_says_what_was_found_instead() -> None:
    frame = frame_of(*step("step_steady_1", [op(), op()]), signpost("done"))
    with pytest.raises(EmptyWindow) as caught:
        Named().select(frame)
    said = "2 ops and 3 signposts (step_steady_1_start, step_steady_1_end, done)"
    assert said in caught.value.message and "--start-signpost" in caught.value.hint
    with pytest.raises(EmptyWindow) as caught:
        Named(ignore=True).select(frame_of(signpost("a")))
    assert "recorded no ops" in caught.value.hint


def test_a_step_has_no_more_values_than_a_few_times_its_rows() -> None:
    rows = [each for at in range(300) for each in step(f"s_{at}", [op(f"Op{at}"), op(f"Op{at}")])]
    frame = frame_of(*rows)
    for at, mark in enumerate(steps(signposts_of(frame))):
        part = between(frame, mark)
        assert part["op_code"].tolist() == [f"Op{at}"] * 2
        assert len(part["op_code"].values) < 100


def test_steps_that_lie_in_each_other(tmp_path: Path) -> None:
    def file(deep: int) -> Path:
        names = [f"step_steady_{at}" for at in range(deep)]
        ends = [signpost(f"{name}_end") for name in names]
        rows = [op()] * 100
        starts = [signpost(f"{name}_start") for name in names]
        return write(tmp_path / f"{deep}.csv", [*starts, *rows, *ends])

    assert set(read_steps(file(10)).op_counts.values()) == {100}
    with pytest.raises(NoSuchStep, match="the 100 steps of the file lie in each other"):
        read_steps(file(100))
    named = Named(start="step_steady_99_start", end="step_steady_0_end")
    assert len(read_steps(file(100), named=named).ops) == 100
