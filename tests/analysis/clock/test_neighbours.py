"""When a machine gives reason to doubt a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor_analysis.clock.neighbours import doubts, is_busy, other_cpus
from instrumentor_analysis.compare.comparing import compare, compare_runs, judge
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.compare.sides import side
from tests.analysis.records import event, run_folder
from tests.warned import texts

QUIET = {"cpus": 8, "other_cpus": 0.3, "load_before": 0.4, "frequency_mhz_before": 3400.0,
         "frequency_mhz_after": 3390.0, "device_holders": 0}  # fmt: skip
BUSY = {**QUIET, "other_cpus": 5.2, "load_before": 9.0}


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (QUIET, ()),
        (
            BUSY,
            ("other processes used 5.2 of 8 CPUs",),
        ),
        ({**BUSY, "ended_early": True}, ("used 5.2 of 8 CPUs, so the run ended early. Do not",)),
        ({**QUIET, "frequency_mhz_after": 2100.0}, ("fell from 3,400 to 2,100 MHz",)),
        ({**QUIET, "device_holders": 1}, ("Another process had the device open",)),
        ({**QUIET, "device_holders": 2}, ("2 other processes had the device open",)),
        ({"cpus": 8, "other_cpus": None}, ()),
        (None, ()),
    ],
)
def test_doubts(machine: object, said: tuple[str, ...]) -> None:
    found = doubts(machine)
    assert len(found) == len(said)
    assert all(part in text for part, text in zip(said, texts(found), strict=True))


@pytest.mark.parametrize(
    ("machine", "busy"),
    [(QUIET, False), (BUSY, True), ({"cpus": 8, "other_cpus": 2.0}, True), ({}, False),
     (None, False), ({"cpus": None, "other_cpus": 9.0}, False)],
)  # fmt: skip
def test_from_which_on_nothing_is_concluded(machine: object, busy: bool) -> None:
    assert is_busy(machine) is busy


def test_how_busy_others_were() -> None:
    assert (other_cpus(BUSY), other_cpus({}), other_cpus("x")) == (5.2, None, None)


def test_a_report_warns_of_it(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", event("step_steady_1", 2.0), machine=BUSY)
    summary = analyse(folder).summary
    assert any(text.startswith("Machine busy") for text in texts(summary.warnings))
    assert summary.run["machine"] == BUSY


def test_a_comparison_says_of_which_run() -> None:
    found = compare(side([1.0] * 5), side([1.0] * 5, "new", run={"machine": BUSY}))
    assert found.timing is not None and "the machine was busy in new" in found.timing.statement
    assert judge(compare(side([1.0] * 5), side([9.0] * 5, "new")), 5).outcome == "regression"
    busy = compare(side([1.0] * 5), side([9.0] * 5, "new", run={"machine": BUSY}))
    assert judge(busy, 5).outcome == "undecided"


def test_a_comparison_of_many_runs_says_it_once() -> None:
    sides = [side([1.0] * 5, name, run={"machine": BUSY}) for name in "abcd"]
    notes = compare_runs(sides[:2], sides[2:]).notes
    assert sum("Machine busy" in note for note in notes) == 1
    assert any(note.startswith("4 of 4 runs, such as a: Machine busy") for note in notes)
