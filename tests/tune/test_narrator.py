"""What `instrument tune` says while trials run."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.tune.edits import Applicable, Survey
from instrumentor.tune.narrator import Narrator
from instrumentor.tune.outcome import Outcome
from instrumentor.tune.search import Trial
from instrumentor.tune.settings import Configuration
from instrumentor.tune.target import NotApplicable

TRACE = Trial(Configuration.of({"trace": True}), "trace")


def test_a_long_trial_is_not_silent(capsys: pytest.CaptureFixture[str]) -> None:
    narrator = Narrator(quiet=False)
    narrator.begins(TRACE, 2, 4, 91.0)
    narrator.beat(narrator.heard + 5)
    narrator.beat(narrator.heard + 12)
    begun, alive = capsys.readouterr().err.splitlines()
    assert begun.endswith("Trial 2 of at most 5, about 91 s left: trace")
    assert alive.endswith(
        "  still running trial 2 of at most 5: trace (12 s, about 79 s left in all)"
    )


def test_what_the_first_trial_will_tell(capsys: pytest.CaptureFixture[str]) -> None:
    narrator = Narrator(quiet=False)
    narrator.begins(TRACE, 1, 7, None)
    narrator.beat(narrator.heard + 12)
    assert "(12 s, how long all will take is known after it)" in capsys.readouterr().err


def test_what_is_tried_and_what_the_script_rules_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    survey: Survey = {
        "num_workers": Applicable(script, 9, "the DataLoader", 0),
        "amp": Applicable(script, 12, "torch.autocast", None),
        "bfp8": NotApplicable(script, 1, "an option of tt-xla, which the script does not use"),
    }
    narrator = Narrator(quiet=False)
    narrator.began(tmp_path, survey)
    narrator.tries(["num_workers"])  # such as those that act on the device
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("Not applicable to this script: bfp8 (tune.md says why)")
    assert second.endswith(f"Will try num_workers: {script}:9 (the DataLoader, now 0)")


def test_a_busy_machine_is_said_before_the_trials(capsys: pytest.CaptureFixture[str]) -> None:
    for goes_on, end in ((False, "recommends nothing"), (True, "may be wrong")):
        Narrator(quiet=False).busy("the machine is busy: x", goes_on=goes_on)
        first, second = capsys.readouterr().err.splitlines()
        assert first.endswith("The machine is busy: x") and end in second


def test_a_result_and_where_it_is_from(capsys: pytest.CaptureFixture[str]) -> None:
    narrator = Narrator(quiet=False)
    narrator.ends(TRACE, Outcome("measured", samples_ms=(2.0,), batch_size=8), known=True)
    narrator.ends(TRACE, Outcome("timeout", "no end within 5 s"), known=False)
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("  (from the journal) trace: 2.0 ms per step, 4,000 samples/s")
    assert second.endswith("  trace: timeout: no end within 5 s")
