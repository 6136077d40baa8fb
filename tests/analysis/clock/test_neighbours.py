"""When a machine gives reason to doubt a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor_analysis.clock.neighbours import (
    Beside,
    busy_beside,
    doubts,
    is_busy,
    other_cpus,
)
from instrumentor_analysis.compare.comparing import compare, compare_runs, judge
from instrumentor_analysis.model import Busy
from instrumentor_analysis.reports import owners
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.compare.sides import side
from tests.analysis.records import event, run_folder, steady_events
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
        ({**QUIET, "frequency_mhz_after": 3060.0}, ("fell from 3,400 to 3,060 MHz",)),
        ({**QUIET, "frequency_mhz_after": None}, ()),
        ({**QUIET, "frequency_mhz_before": None}, ()),
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
    found = compare_runs(sides[:2], sides[2:])
    assert found.timing is not None
    assert "because the machine was busy in 4 of 4 runs [W201]" in found.timing.statement
    assert not any("Machine busy" in note for note in found.notes)
    calm = compare_runs(sides[:2], [side([9.0] * 5, "e"), side([9.1] * 5, "f")])
    assert calm.timing is not None and calm.timing.real  # what they did, the runs themselves tell
    assert sum(note.startswith("a: Machine busy") for note in calm.notes) == 1
    assert all("[W201]" in note for note in calm.notes if "Machine busy" in note)


@pytest.mark.parametrize(
    ("seconds", "others_s", "found"),
    [
        (1.3, 1.6, Busy(1.6 / 1.3, 2)),
        (1.3, 0.5, None),
        (0.05, 0.06, None),  # within what the system's ticks may be off
        (0.0, 0.0, None),
    ],
)
def test_extra_steps_are_busy_by_the_same_share(
    seconds: float, others_s: float, found: Busy | None
) -> None:
    beside = Beside("phases", seconds, others_s, 2)
    assert busy_beside([beside, Beside("modules", 1.0, 0.0, 2)], "phases") == found
    assert busy_beside([beside], "modules") is None


def test_of_a_quiet_run_the_extra_steps_that_were_not_are_told(tmp_path: Path) -> None:
    """They would blame the barriers, and find the run input-bound, for what others took."""
    extra = {"event": "phases", "ms": 65.9, "parts": {"data": 35.0, "forward": 30.9}, "stepped": 1}
    beside = [
        {"event": "beside", "of": of, "seconds": 1.3, "others_s": 1.6, "cpus": 2}
        for of in ("phases", "modules")
    ]
    called = {"event": "modules", "what": "time", "rows": [[-1, "Net", "Net", 1, 5.08, 0]]}
    every = [*steady_events(*[13.7] * 8), *[extra] * 6, called]
    calm = analyse(run_folder(tmp_path / "calm", *every, machine=QUIET)).summary
    assert calm.verdict is not None and calm.verdict.name == "input-bound"
    found = analyse(run_folder(tmp_path / "run", *every, *beside, machine=QUIET))
    summary = found.summary
    assert summary.verdict is None and not summary.what_if
    assert summary.phases is not None and summary.modules is not None
    assert summary.phases.busy == summary.modules.busy == Busy(1.6 / 1.3, 2)
    section = owners.section(summary.phases)
    assert section.title == "Where the iteration goes (machine busy)"
    note = section.tables[0].note
    assert note.startswith("Machine busy: other processes used 1.2 of 2 CPUs. Do not trust")
    assert "than in the samples" not in note
    told = (
        "Other processes used 1.2 of 2 CPUs while the extra steps for the phases and modules ran."
    )
    assert [each.split(". ")[0] + "." for each in texts(summary.warnings)] == [told]
    assert "busy-extra-steps" not in {each.kind for each in calm.warnings}
    busy = analyse(run_folder(tmp_path / "busy", *every, *beside, machine=BUSY)).summary
    assert "busy-extra-steps" not in {each.kind for each in busy.warnings}
