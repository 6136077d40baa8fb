"""What the method that makes the step evaluates and saves behind it, run without and compared."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli
from tests.shapes.catalogue import FOLDER, Shape
from tests.shapes.test_skipped import force, observed, skipped
from tests.shapes.verdict import Promise, same_training

SCRIPT = (FOLDER / "trainer_evaluates_in_its_step.py").read_text()
#: Places of the script.
EVALUATED, BACK = "        self.model.train()\n", "        return shown\n"
CALLED, AHEAD = "                print(epoch, shown)\n", "        self.optimizer.zero_grad()\n"


def with_more(**lines: tuple[str, str]) -> Shape:
    """The script with lines behind a place of it."""
    text = SCRIPT
    for place, more in lines.values():
        assert text.count(place) == 1
        indent = place[: len(place) - len(place.lstrip())]
        text = text.replace(place, more if place == BACK else f"{place}{indent}{more}\n")

    class Written(Shape):
        def files(self) -> dict[str, bytes]:
            return {"train.py": text.encode()}

    return Written("helpers", Promise(steps=9))


#: The evaluation and all that follows it in its branch, without a proof.
FORCED = partial(force, "self.model.train()", draws=("held_out",), with_its_branch=True)


@pytest.mark.parametrize("left", ["pass", "self.model.eval()"])
def test_what_a_step_function_evaluates_and_saves_goes_and_changes_nothing(
    left: str, run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    shape = with_more(left=(EVALUATED, left))
    repo = git_repo(shape.files())
    assert skipped(run_cli, repo)[0] == 1
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert len(seen["backwards"]) == 9
    assert same_training(seen, alone) == []


RESUMES = "self.model.load_state_dict(torch.load('best.pt'))"
#: more in the script, by place
FELT = {
    "returned": {
        "gives": (BACK, "        return shown + len(self.losses)\n"),
        "felt": (CALLED, "self.scale = 1 + shown / 9"),
    },
    "kept": {"felt": (CALLED, "self.scale = 1 + len(self.losses)")},
    "rate": {"felt": (EVALUATED, "self.optimizer.param_groups[0]['lr'] *= 0.5")},
    "consumed": {
        "takes": (EVALUATED, "next(self.rates)"),
        "felt": (CALLED, "self.scale = next(self.rates)"),
    },
    "read back": {"felt": (AHEAD, f"if self.updates in (3, 5): {RESUMES}")},
}


@pytest.mark.parametrize("name", FELT)
def test_what_training_feels_stays_and_would_be_caught(
    name: str, run_cli: RunCli, torch_python: Path, git_repo: RepoFactory, tmp_path: Path
) -> None:
    shape = with_more(**FELT[name])
    repo = git_repo(shape.files())
    seen, alone = observed(shape, run_cli, torch_python, repo, tmp_path / "out")
    assert same_training(seen, alone) == []
    out = tmp_path / "forced" / "out"
    out.parent.mkdir()
    wrong, alone = observed(shape, run_cli, torch_python, repo, out, first=FORCED)
    assert same_training(wrong, alone)
