"""Steps out of signposts, the chosen one, and tt-perf-report's own rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor_analysis.errors import EmptyWindow, NoSuchSignpost, NoSuchStep
from instrumentor_analysis.load import load
from instrumentor_analysis.scan import Signpost
from instrumentor_analysis.table import Table
from instrumentor_analysis.window import (
    between,
    choose,
    describe,
    require_ops,
    select,
    signposts_of,
    steps,
)
from tests.analysis.ops_rows import FIXTURES, Row, op, signpost, step, write


def posts(*names: str) -> list[Signpost]:
    """Signposts on every tenth line."""
    return [Signpost(name, 10 * at, -1, -1) for at, name in enumerate(names, 1)]


def frame_of(tmp_path: Path, rows: list[Row]) -> Table:
    path = write(tmp_path / "x.csv", rows)
    return load(path).frame


def test_no_steps_where_nothing_is_paired() -> None:
    assert steps([]) == ()
    assert steps(posts("benchmark_complete", "Performance pass", "a_end")) == ()
    assert describe(()) == "no steps"


def test_steps_in_order_with_the_unfinished_one() -> None:
    marks = steps(
        posts("step_compile_start", "step_compile_end", "step_steady_1_start", "step_steady_1_end",
              "step_steady_2_start", "benchmark_complete")
    )  # fmt: skip
    assert [(m.name, m.complete, m.number) for m in marks] == [
        ("step_compile", True, 0),
        ("step_steady_1", True, 1),
        ("step_steady_2", False, 2),
    ]
    assert describe(marks).endswith("step_steady_2 (not complete)")
    chosen = choose(marks)
    assert chosen.name == "step_steady_1"


def test_repeated_names_are_told_apart() -> None:
    marks = steps(posts("a_start", "a_end", "a_start", "a_start", "a_end"))
    assert [(m.start.line, m.complete) for m in marks] == [(10, True), (30, False), (40, True)]


def test_a_step_may_lie_within_another() -> None:
    marks = steps(posts("step_steady_1_start", "inner_start", "inner_end", "step_steady_1_end"))
    found = [(m.name, m.start.line, m.end.line) for m in marks]
    assert found == [("step_steady_1", 10, 40), ("inner", 20, 30)]


def test_choosing_by_number_or_saying_what_is_there() -> None:
    marks = steps(posts("step_compile_start", "step_compile_end", "step_steady_1_start"))
    compiled = choose(marks, 0)
    assert compiled.name == "step_compile"
    with pytest.raises(NoSuchStep, match="step 1 is not complete; the trace has step_compile"):
        choose(marks, 1)
    with pytest.raises(NoSuchStep, match="there is no step 7"):
        choose(marks, 7)


def test_without_a_steady_step_the_compile_step_is_what_there_is() -> None:
    chosen = choose(steps(posts("step_compile_start", "step_compile_end", "step_steady_1_start")))
    assert (chosen.name, chosen.steady) == ("step_compile", False)
    with pytest.raises(NoSuchStep, match="no step is complete"):
        choose(steps(posts("step_compile_start")))


def test_signposts_of_others_are_no_steps_of_ours() -> None:
    assert choose(steps(posts("integral_image_start", "integral_image_end"))) is None


def test_a_step_holds_its_ops_by_position_in_the_file() -> None:
    frame = load(FIXTURES / "replay.csv").frame
    marks = steps(signposts_of(frame))
    # The replayed ops bear host times of their capture; another op's time lies in the step.
    rows = between(frame, marks[1])
    assert rows["op_code"].tolist() == ["UnaryDeviceOperation", "BinaryNgDeviceOperation"]
    with pytest.raises(NoSuchStep):
        between(frame, steps(posts("a_start"))[0])


@pytest.mark.parametrize(
    ("start", "end", "lines", "said"),
    [
        (None, None, [9, 11], "after the first signpost named 'b'"),
        ("a", None, [3, 5, 7, 9, 11], "after 'a'"),
        (None, "b", [3, 5, 7], "before 'b'"),
        ("a", "b", [3, 5, 7], "after 'a', before 'b'"),
        ("b", "a", [], "after 'b', before 'a'"),
        ("a", "a", [3, 5], "after 'a', before 'a'"),
    ],
)
def test_the_window_of_tt_perf_report(
    tmp_path: Path, start: str | None, end: str | None, lines: list[int], said: str
) -> None:
    names = ("a", "c", "a", "b", "b")
    rows = [row for name in names for row in (signpost(name), op())]
    window, how = select(frame_of(tmp_path, rows), start, end)
    assert window["line"].tolist() == lines
    assert said in how


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        ("c", "c", "no signpost 'c' a second time"),
        ("x", "b", "no signpost 'x'"),
        ("a", "x", "no signpost 'x'"),
        ("x", "y", "no signpost 'x'"),
    ],
)
def test_a_signpost_that_is_not_there_is_no_window(
    tmp_path: Path, start: str, end: str, said: str
) -> None:
    rows = [row for name in ("a", "c", "b") for row in (signpost(name), op())]
    with pytest.raises(NoSuchSignpost, match=said) as caught:
        select(frame_of(tmp_path, rows), start, end)
    assert caught.value.hint == "It has: a, c, b."
    with pytest.raises(NoSuchSignpost) as caught:
        select(frame_of(tmp_path, [op()]), start, end)
    assert "--ignore-signposts" in caught.value.hint


def test_signposts_within_the_window_can_stay(tmp_path: Path) -> None:
    rows = [signpost("a"), op(), signpost("mid"), op(), signpost("b")]
    frame = frame_of(tmp_path, rows)
    window, _ = select(frame, "a", "b", keep_signposts=True)
    assert window["line"].tolist() == [3, 4, 5]
    assert len(select(frame, ignore=True)[0]) == 5


def test_an_empty_window_says_what_was_found_instead(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, [*step("step_steady_1", [op(), op()]), signpost("done")])
    window, how = select(frame)
    with pytest.raises(EmptyWindow) as caught:
        require_ops(window, frame, how)
    assert "2 ops and 3 signposts (step_steady_1_start, step_steady_1_end, done)" in (
        caught.value.message
    )
    assert "--start-signpost" in caught.value.hint
    none = frame_of(tmp_path, [signpost("a")])
    with pytest.raises(EmptyWindow) as caught:
        require_ops(none, none, "all")
    assert "recorded no ops" in caught.value.hint
