"""Steps that are not alike: judged once, and told alike by a report and a comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor_analysis.compare.comparing import compare
from instrumentor_analysis.compare.side import load_side
from instrumentor_analysis.summary.summarise import summarise
from tests.analysis.records import record, run_folder, steady_events

RISING = [10.0 * 1.03**at for at in range(20)]
PAUSE = [*[10.0] * 12, 90.0, *[10.0] * 7]
SCATTERED = [10.0, 60.0, 12.0, 55.0, 11.0, 70.0, 13.0, 50.0]
BUSY = {"cpus": 2, "other_cpus": 1.5}


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize(
    ("samples", "kind", "code"), [(RISING, "not-steady", "W204"), (PAUSE, "outlier", "W205")]
)
def test_a_report_and_a_comparison_say_the_same(
    tmp_path: Path, samples: list[float], kind: str, code: str, busy: bool
) -> None:
    machine = {"machine": BUSY} if busy else {}
    calm = load_side(run_folder(tmp_path / "calm", *steady_events(*[10.0] * 20)))
    folder = run_folder(tmp_path / "run", *steady_events(*samples), **machine)
    (said,) = (each for each in summarise(folder).warnings if each.kind == kind)
    assert said.code == code
    assert f"run: {said.labelled}" in compare(calm, load_side(folder)).notes
    assert not any(code in note for note in compare(calm, calm).notes)


@pytest.mark.parametrize("samples", [RISING, PAUSE])
def test_on_a_busy_machine_the_cause_is_named_and_no_more_steps_are_asked_for(
    tmp_path: Path, samples: list[float]
) -> None:
    folder = run_folder(tmp_path / "run", *steady_events(*samples), machine=BUSY)
    (said,) = (x for x in summarise(folder).warnings if x.kind in ("not-steady", "outlier"))
    assert said.message.endswith(", while other programs used the CPUs.")
    assert "--steps" not in said.message and "recompilation" not in said.message


@pytest.mark.parametrize("busy", [False, True])
def test_that_steps_scatter_on_a_busy_machine_needs_no_telling(tmp_path: Path, busy: bool) -> None:
    machine = {"machine": BUSY} if busy else {}
    found = summarise(run_folder(tmp_path / "run", *steady_events(*SCATTERED), **machine))
    assert any(each.kind == "scatter" for each in found.warnings) is not busy


def test_the_run_without_tracy_is_judged_too(tmp_path: Path) -> None:
    folder = run_folder(
        tmp_path / "run", *steady_events(*[10.0] * 20), profiler="tracy", untraced={"exit_code": 0}
    )
    record(folder / "untraced.jsonl", *steady_events(*RISING))
    (said,) = (each for each in summarise(folder).warnings if each.kind == "not-steady")
    assert said.message.startswith("Not steady: steps without Tracy got ")
