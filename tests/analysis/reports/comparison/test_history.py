"""Runs over time as a table and as a figure."""

from __future__ import annotations

from msgspec.structs import replace

from instrumentor_analysis.reports.comparison.history import console, figure
from instrumentor_analysis.reports.drawing import Dot, Label, Line
from instrumentor_analysis.reports.plots import encode
from instrumentor_analysis.summary.history_entry import Entry, conditions


def run(number: int, median: float | None, profiler: str = "torch", label: str = "a") -> Entry:
    low, high = (None, None) if median is None else (median * 0.9, median * 1.2)
    return Entry(
        *(number, "/project", "train.py", label, "abc123", True, "2026-01-02T03:04:05", profiler),
        *("fwd+bwd", 4, median, low, high, None, None, "/run"),
    )


def test_a_row_per_run_with_a_bar() -> None:
    lines = console([run(1, 10.0), run(2, 5.0), run(3, None)]).splitlines()
    assert len(lines) == 5
    assert lines[2].split()[:7] == [*("1", "a", "fwd+bwd", "10.0", "ms", "abc123+", "2026-01-02")]
    assert lines[2].count("█") == 14 and lines[3].count("█") == 7 and "█" not in lines[4]


def test_a_busy_run_is_marked_in_80_columns_too() -> None:
    lines = console([run(1, 10.0), replace(run(2, 5.0), busy=True, other_cpus=1.4)], width=80)
    (calm, busy) = lines.splitlines()[2:4]
    assert "busy" in busy and "busy" not in calm
    assert "machine" not in console([run(1, 10.0)], width=80)


def with_arguments(number: int, *words: str, batch: int | None = None) -> Entry:
    document = {"run": {"arguments": list(words)}}
    return replace(run(number, 10.0), conditions=conditions(document), batch_size=batch)


def test_runs_of_other_arguments_are_told_apart_by_what_differs() -> None:
    runs = [with_arguments(at, "--epochs", "1", "--batch-size", str(64 * at)) for at in (1, 2)]
    for width in (80, 160):
        head, _, *rows = console(runs, width=width).splitlines()
        assert "arguments" in head and "--epochs" not in " ".join(rows)
        assert ["--batch-size 64 " in rows[0], "--batch-size 128 " in rows[1]] == [True, True]
    assert "arguments" not in console([runs[0], runs[0]])
    plain = console([with_arguments(1), with_arguments(2, "--fast")]).splitlines()
    assert "--fast" in plain[3] and "--fast" not in plain[2]


def test_runs_of_equal_arguments_are_told_apart_by_their_batch() -> None:
    head, _, *rows = console([with_arguments(at, batch=8 * at) for at in (1, 2)]).splitlines()
    assert "batch" in head and [" 8 " in rows[0], " 16 " in rows[1]] == [True, True]
    assert "batch" not in console([with_arguments(1, batch=8), with_arguments(2, batch=8)])


def test_what_no_arguments_can_be_read_from_has_none() -> None:
    for text in (None, "", "[", "{}", "[1]", "7", '["torch", "step", "--fast"]'):
        assert replace(run(1, 10.0), conditions=text).arguments == ()
    assert with_arguments(1, "--lr", "0.1").arguments == ("--lr", "0.1")


def test_a_line_per_way_of_measuring_with_intervals() -> None:
    made = figure([run(1, 10.0), run(2, 5.0, "tracy"), run(3, 8.0)], "train.py")
    assert [key.text for key in made.keys] == ["torch fwd+bwd", "tracy fwd+bwd"]
    names = [shape.text for shape in made.shapes if isinstance(shape, Label) and shape.turned]
    assert names == ["1: abc123+ a", "2: abc123+ a", "3: abc123+ a"]
    dots = [shape for shape in made.shapes if isinstance(shape, Dot)]
    assert dots[0].colour == dots[1].colour != dots[2].colour
    assert dots[0].y < dots[1].y < dots[2].y, "10 over 8 over 5 ms"
    reaches = [s for s in made.shapes if isinstance(s, Line) and s.width == 2]
    assert all(low[1] > dot.y > high[1] for dot, ((low, high)) in zip(
        dots, (reach.points for reach in reaches), strict=True))  # fmt: skip


def test_a_busy_run_does_not_press_the_others_flat() -> None:
    runs = [run(1, 10.0), replace(run(2, 900.0), busy=True), run(3, 8.0)]
    made = figure(runs, "train.py")
    assert made is not None and "machine busy" in [key.text for key in made.keys]
    first, busy, last = (shape for shape in made.shapes if isinstance(shape, Dot))
    assert busy.colour == "muted" and busy.y == 0 and "machine busy" in busy.tip
    assert last.y - first.y > 20  # of 300
    (line,) = (s for s in made.shapes if isinstance(s, Line) and s.width == 1.5)
    assert [x for x, _ in line.points] == [first.x, last.x]


def test_names_are_no_mathematics() -> None:
    made = figure([run(1, 10.0, label="$\\frac{1}{0}$")], "$x$")
    assert made is not None and encode(made, "pdf").startswith(b"%PDF")


def test_without_a_median_there_is_nothing_to_draw() -> None:
    assert figure([run(1, None)], "train.py") is None


def test_in_80_columns_names_and_figures_are_whole_and_what_says_less_is_left_out() -> None:
    update = "update of 4 micro-steps"
    several = [
        replace(run(at, 10.0, profiler), project=project, script=script, busy=True, figure=update,
                figure_ms=10.0)
        for at, (project, script, profiler) in enumerate(
            [("/a/mlp", "train.py", "torch"), ("/a/gan", "train.py", "wallclock"),
             ("/a/gan", "more.py", "torch")]
        )
    ]  # fmt: skip
    narrow, wide = (console(several, width=width) for width in (80, 160))
    for shown in (narrow, wide):
        rows = shown.splitlines()[2:]
        assert shown.split()[0] == "no." and "…" not in shown
        assert all(update in row and "10.0 ms" in row and "busy" in row for row in rows)
        assert "mlp/train.py" in shown and "gan/train.py" in shown and "gan/more" not in shown
    for said in ("torch", "fwd+bwd", "2026-01-02"):
        assert said in wide and said not in narrow
