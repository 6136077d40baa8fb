"""The tool that switches abilities off: each is there, and what it changes is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ablation import ABILITIES, Ability, ablate, scripts_of, table

BY_HAND = """\
import torch

model = torch.nn.Linear(4, 4)
for x in loader:
    loss = model(x).sum()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
            p.grad = None
"""


@pytest.mark.parametrize("ability", ABILITIES, ids=lambda each: each.name)
def test_an_ability_stands_where_the_table_says(ability: Ability) -> None:
    *_, found = ability.place()
    assert found is not None
    assert len([each for each in ABILITIES if each.name == ability.name]) == 1


def test_what_an_ability_changes_is_seen_and_nothing_stays_switched_off(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BY_HAND)
    (tmp_path / "plain.py").write_text("print(1)\n")
    (script,) = scripts_of(tmp_path)
    before = [ability.place()[2] for ability in ABILITIES]
    outcome = ablate(script)
    assert outcome.failure == ""
    assert "updates written by hand" in outcome.declines
    assert "rule: closure" not in outcome.spoke
    assert [ability.place()[2] for ability in ABILITIES] == before
    assert ablate(script) == outcome
    shown = table([outcome]).splitlines()
    assert "updates written by hand                       1      1        1" in shown
    assert shown[-1] == "1 scripts, 0 more could not be compared"


def test_a_script_that_fails_ends_no_other(tmp_path: Path) -> None:
    outcome = ablate(tmp_path / "gone.py")
    assert outcome.failure.startswith("UsageError")
    assert "gone.py: UsageError" in table([outcome])
