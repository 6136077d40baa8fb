"""What a tuning says: table, words, plot; no figure that was not measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor.tune import judge as j
from instrumentor.tune import report
from instrumentor.tune.chart import throughput
from instrumentor.tune.edits import survey
from instrumentor.tune.judge import Judge
from instrumentor.tune.options import TuneOptions
from instrumentor.tune.outcome import Outcome
from instrumentor.tune.search import Search, Trial
from instrumentor.tune.settings import SETTINGS
from instrumentor.tune.tuning import Tuned
from instrumentor_analysis.reports.drawing import Bar, Label
from instrumentor_analysis.reports.terminal import painter, table_lines
from tests.tune.scripts import TRAIN, target_of
from tests.tune.test_search import ByFormula, axes, times


def tuned(folder: Path, trials: ByFormula | None = None, script: str = TRAIN) -> Tuned:
    """A tuning played through."""
    target = target_of(folder, script)
    names = ("optimization_level", "dtype", "bfp8", "batch_size")
    search = Search(trials or ByFormula(times), axes(*names), Judge())
    search.run("one-at-a-time")
    return Tuned(folder, target, survey(target, SETTINGS), search, TuneOptions(), 61.0)


def test_the_document_is_plain_json(tmp_path: Path) -> None:
    made = report.make_report(tuned(tmp_path))
    back = json.loads(json.dumps(made.document, allow_nan=False))
    assert back["schema"] == "instrument-tune/2"
    assert back["best"] == {"optimization_level": 1, "dtype": "bfloat16", "batch_size": 16}
    assert back["best_against_baseline"]["per"] == "sample"
    assert (back["trials"][-1]["name"], back["drift_percent"]) == ("baseline at the end", 0)
    first, failed = back["trials"][0], back["trials"][-2]
    assert first["step_ms"] == 6.0 * 1.0045
    assert first["samples_per_s"] == 4 / first["step_ms"] * 1000
    assert first["latency_ms_per_sample"] == first["step_ms"] / 4
    assert failed["status"] == "out of memory"
    assert [failed[key] for key in ("step_ms", "compile_ms", "samples_per_s", "loss")] == [None] * 4


def test_a_drift_is_told(tmp_path: Path) -> None:
    trials = ByFormula(times)
    trials.slower = 1.2
    document = report.make_report(tuned(tmp_path, trials)).document
    assert document["drift_percent"] == 20
    assert any("The machine drifted" in note and "20.0 %" in note for note in document["notes"])


def test_tracy_is_named_only_where_a_runtime_trace_was_tried(tmp_path: Path) -> None:
    first, *_ = report.notes(tuned(tmp_path))
    assert "Wall clock only" in first and "Tracy" not in first


def test_everything_is_written_and_the_patch_with_it(tmp_path: Path) -> None:
    done = tuned(tmp_path)
    made = report.make_report(done)
    report.write(done, made)
    assert (tmp_path / "best.diff").read_bytes() == made.patch
    assert (tmp_path / "tune.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "tune.md").read_text()
    for words in ("Best: optimization_level 1, dtype bfloat16, batch_size 16", "changes the loss",
                  "out of memory", "```diff", "Wall clock only"):  # fmt: skip
        assert words in text


def test_nothing_helps_leaves_no_patch_also_of_an_earlier_time(tmp_path: Path) -> None:
    (tmp_path / "best.diff").write_text("old")
    done = tuned(tmp_path, ByFormula(lambda chosen: float(chosen.get("batch_size") or 4)))
    made = report.make_report(done)
    report.write(done, made)
    assert not (tmp_path / "best.diff").exists()
    assert made.document["best_against_baseline"] is None
    assert "keep the script as it is" in (tmp_path / "tune.md").read_text()


def test_nothing_helps_on_a_busy_machine_is_no_conclusion(tmp_path: Path) -> None:
    class Busy(ByFormula):
        def _one(self, trial: Trial) -> Outcome | None:
            made = super()._one(trial)
            return made and replace(made, busy=True)

    same = Busy(lambda chosen: float(chosen.get("batch_size") or 4))
    made = report.make_report(tuned(tmp_path, same))
    said = report.conclusion(made.document)
    assert said.startswith(("No conclusion:", "No recommendation:"))
    assert "keep the script" not in said
    assert not any("did not help" in note for note in made.document["notes"])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["amp"], "the machine was busy, so amp is not proven."),
        (["amp", "compile"], "the machine was busy, so neither amp nor compile is proven."),
        (["a", "b", "c"], "the machine was busy, so none of 3 changes is proven."),
    ],
)
def test_what_is_not_proven_is_named(names: list[str], said: str) -> None:
    trials = [{"name": "baseline", "verdict": j.BASELINE}]
    trials += [{"name": name, "verdict": j.NOT_PROVEN} for name in names]
    document = {"withheld": None, "best": {}, "trials": trials}
    text = f"No conclusion: {said} Measure again when it is quiet."
    assert report.conclusion(document) == text


def test_the_cell_of_what_is_not_proven_is_short_and_the_reason_stands_once(
    tmp_path: Path,
) -> None:
    done = tuned(tmp_path)
    unsure = [
        replace(row, judgement=replace(row.judgement, verdict=j.NOT_PROVEN, text="a long reason"))
        if row.judgement.ratio is not None
        else row
        for row in done.search.rows
    ]
    done.search.rows[:] = unsure
    made = report.make_report(done)
    cells = report.table(made.document).columns[-1].texts
    short = [cell for cell in cells if cell.endswith(", not proven")]
    assert short and all(len(cell) < 20 and cell.startswith("x") for cell in short)
    assert sum("Not proven: the machine was busy" in note for note in made.document["notes"]) == 1


def test_a_budget_used_up_at_once_is_said(tmp_path: Path) -> None:
    done = tuned(tmp_path, ByFormula(times, budget=0))
    made = report.make_report(done)
    report.write(done, made)
    assert made.document["out_of_budget"]
    assert any("--resume" in note for note in made.document["notes"])


def test_the_table_and_the_figure_name_every_trial(tmp_path: Path) -> None:
    done = tuned(tmp_path)
    table = report.table(report.make_report(done).document)
    columns = {column.title: column.texts for column in table.columns}
    assert columns["configuration"][:2] == ["baseline", "baseline again"]
    assert [row for row in range(table.rows) if columns[""][row]] == [2, 3, 4, 6, 7]
    assert columns["step ms"][-2] == ""
    assert "too large" in columns["times as fast (95 %)"][-2]
    drawing = throughput(done.search.rows)
    labels = [shape.text for shape in drawing.shapes if isinstance(shape, Label)]
    assert {row.name for row in done.search.rows} <= set(labels) and "out of memory" in labels
    # A row says what it adds to what it was held against, so that it stays short.
    assert columns["configuration"][2:7:2] == [
        "optimization_level 1",
        "+ dtype bfloat16",
        "+ batch_size 8",
    ]
    lines = table_lines(table, 100, painter(False))
    assert max(map(len, lines)) <= 100
    bars = [shape for shape in drawing.shapes if isinstance(shape, Bar)]
    assert len(bars) == table.rows - 1
    fastest = max(bars, key=lambda bar: bar.width)  # that of bfp8, which changes the loss
    assert fastest.width / bars[0].width == pytest.approx(1 / (0.5 * 0.7 * 0.5), rel=1e-3)
    assert fastest.colour == "tm"


def test_settings_that_cannot_be_applied_are_named_with_line_and_reason(tmp_path: Path) -> None:
    mixed = TRAIN.replace("    for step", "    scaler = torch.GradScaler()\n    for step")
    done = tuned(tmp_path, ByFormula(lambda chosen: 5.0), mixed)
    text = report.markdown(report.make_report(done))
    assert "## Not tried" in text
    assert f"- dtype: {tmp_path / 'train.py'}:15: the script manages mixed precision" in text


def test_eighty_columns_cut_no_interval_and_explain_no_hidden_column(tmp_path: Path) -> None:
    class Sized(ByFormula):
        def _one(self, trial: Trial) -> Outcome | None:
            made = super()._one(trial)
            return made and replace(made, peak_rss_bytes=10**9)

    made = report.make_report(tuned(tmp_path, Sized(times)))
    table = report.table(made.document)
    wide, narrow = (table_lines(table, width, painter(False)) for width in (200, 80))
    assert max(map(len, narrow)) <= 80 and "…" not in "".join(narrow)
    for column in table.columns:
        if column.wraps:  # every word of every cell is there
            assert {word for text in column.texts for word in text.split()} <= set(
                " ".join(narrow).split()
            )
    assert "memory" in wide[0] and "peak resident memory" in " ".join(wide)
    assert "memory" not in narrow[0] and "peak resident memory" not in " ".join(narrow)
    assert not any("resident" in note for note in made.document["notes"])
