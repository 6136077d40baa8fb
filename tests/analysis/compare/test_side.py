"""Reading one side: folders, summaries alone, damaged and foreign files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor_analysis.compare.comparing import compare, compare_runs
from instrumentor_analysis.compare.side import Side, load_side, side_of
from instrumentor_analysis.model import Summary
from instrumentor_analysis.shared.errors import NotASummary, NothingMeasured
from tests.analysis.compare.sides import summary
from tests.analysis.records import Event, event
from tests.analysis.records import run_folder as folder
from tests.analysis.reports.summaries import ALL, run_folder, torch_folder
from tests.warned import texts


def write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_run_folder_has_its_samples_and_single_ops(tmp_path: Path) -> None:
    found = load_side(run_folder(tmp_path / "mnist_baseline", 4))
    assert found.name == "mnist_baseline"
    assert found.samples_ms("fwd+bwd") == (5.0, 5.0, 5.0)
    assert len(found.ops.sequence) == 7
    matmul = found.ops.kinds[found.ops.sequence[0]]
    assert matmul.op == "Matmul"
    assert matmul.shapes == "1x1x32x1280, 1x1x1280x5120 -> 1x1x32x5120"
    assert matmul.types == "BFLOAT16, BFLOAT16 -> BFLOAT16"
    assert matmul.memory == "DRAM_INTERLEAVED, DRAM_INTERLEAVED -> DRAM_INTERLEAVED"
    assert found.ops.times_us[0] == 187.0


def test_steady_steps_have_device_times_in_a_lone_csv_by_their_names(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "a", 4)
    lone = load_side(folder / "tracy_perf" / "ops_perf_results.csv")
    assert lone.labels() == ()
    for found in (load_side(folder), lone):
        assert found.step_device_ms() == pytest.approx((0.33075,) * 3)


def test_ops_of_torch_have_self_times_and_shapes(tmp_path: Path) -> None:
    found = load_side(torch_folder(tmp_path / "a"))
    assert found.ops.time == "self time"
    assert all(kind.op for kind in found.ops.kinds)
    assert [kind.types for kind in found.ops.kinds] == ["float", "float", ""]


def test_a_summary_alone_has_no_single_ops(tmp_path: Path) -> None:
    document = summary([1.0, 2.0], run={"batch_size": 32}).to_json()
    path = write(tmp_path / "kept" / "summary.json", document)
    for found in (load_side(path), load_side(path.parent)):
        assert (found.name, found.ops, found.batch_size) == ("kept", None, 32)
        assert found.labels() == ("fwd+bwd",)
    given = load_side(path, batch_size=64)
    assert (given.batch_size, given.batch_source) == (64, "as given")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "its schema is not"),
        ('{"schema": "other/1"}', "its schema is not"),
        (
            '{"schema": "instrument-summary/1", "steps": [1]}',
            r"`object`, got `int` - at `\$\.steps",
        ),
        ('{"schema": "instrument-summary/1", "wall_clock_by_label": {"x": {"values": "no"}}}', "x"),
    ],
)
def test_what_is_no_summary_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "summary.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NotASummary, match=r"summary\.json") as error:
        load_side(path)
    assert re.search(said, error.value.message)


def test_a_run_without_its_facts_is_said_to_be_one(tmp_path: Path) -> None:
    base, new = run_folder(tmp_path / "base", 4), run_folder(tmp_path / "new", 4)
    (new / "run.json").write_text("{", encoding="utf-8")
    found = compare(load_side(base), load_side(new)).notes
    said = [note for note in found if "its facts are missing" in note]
    assert len(said) == 1 and said[0].startswith("new: run.json cannot be read (")
    assert said[0].endswith("[W325]")


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured, match="does not exist"):
        load_side(tmp_path / "nothing")


def test_a_summary_of_another_version_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    document = {"schema": "instrument-summary/1", "warnings": ["as a text"], "added": 1}
    found = load_side(write(tmp_path / "summary.json", document))
    assert (found.profiler, found.labels(), found.batch_size) == ("wallclock", (), None)
    assert texts(found.summary.warnings) == ["as a text"]


@pytest.mark.parametrize("name", ALL)
def test_a_document_is_read_as_what_it_was_made_of(name: str) -> None:
    made = ALL[name]()
    assert Summary.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_a_comparison_has_the_iteration_that_the_report_has(tmp_path: Path) -> None:
    """The last step too, which nothing follows, and the middle of an even number."""
    events: list[Event] = [event("step_compile", 100.0)]
    for at, ms in enumerate((10.0, 30.0, 14.0, 50.0), start=1):
        name = f"step_steady_{at}"
        events.append(event(name, ms))
        if at < 4:
            events.append({"event": "iteration", "pid": 1, "name": name, "ms": ms + 2})
    runs = [load_side(folder(tmp_path / name, *events)) for name in "ab"]
    whole = runs[0].summary.wall_clock.iteration
    assert (whole.median_ms, len(whole.values_ms)) == (24.0, 3)
    found = compare(*runs)
    assert found.iteration.base_median_ms == pytest.approx(24.0)
    by_runs = compare_runs(runs[:1], runs[1:], {"iteration": [(20.0, 22.0)]})
    assert by_runs.iteration.between is not None
    assert by_runs.iteration.base_median_ms == pytest.approx(24.0)


def test_a_batch_size_that_the_record_has_as_well_keeps_its_source() -> None:
    made = summary([10.0] * 4, run={"batch_size": 8, "batch_size_source": "config.yaml"})
    assert made.wall_clock is not None

    def with_samples(count: int) -> Side:
        main = replace(made.wall_clock, samples_per_s=count / 0.010)
        return side_of(replace(made, wall_clock=main), "a", "a")

    alike, other = with_samples(8), with_samples(32)
    assert (alike.batch_size, alike.batch_source) == (8, "config.yaml")
    assert (other.batch_size, other.batch_source) == (32, "samples of a step as recorded")
