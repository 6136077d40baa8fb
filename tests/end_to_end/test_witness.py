"""A run proves its region: every report has the verdict, and a wrong region no figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from instrumentor import RunOptions, run
from instrumentor.plan import Plan, make_plan
from instrumentor.rewrite import prepare
from instrumentor.rewrite.source_map import SourceMap
from instrumentor.run.discovery import Discovery
from instrumentor.run.verification import failure, shown, verification
from instrumentor.shared.edits import Edit, Kind, Statement
from instrumentor.shared.errors import Interrupted, NotVerified
from instrumentor_analysis.model import Summary
from instrumentor_analysis.reports.headline import subtitle
from instrumentor_analysis.shared.errors import NothingMeasured
from instrumentor_analysis.summary.summarise import summarise
from tests.conftest import RepoFactory, git
from tests.end_to_end.conftest import Measure
from tests.end_to_end.small import read

pytest.importorskip("torch", reason="needs torch: make test installs it")

TRAIN = """\
import torch
from torch import nn


def train():
    model, critic = nn.Linear(8, 1), nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *critic.parameters()], lr=0.1)
    for step in range(50):
        x = torch.randn(4, 8)
        optimizer.zero_grad()
        value = critic(x)
        loss = (model(x) - value).square().mean()
        loss.backward()
        optimizer.step()


train()
"""
LATE = "train.py:12-13"


def test_the_verdict_stands_in_every_report(measured: Measure, torch_python: Path) -> None:
    ran = measured(TRAIN, "--python", torch_python, "--region", "train.py:10-14")
    assert ran.code == 0, ran.err
    said = "region verified: forward, backward, optimizer"
    assert said in ran.out
    found = read(ran.folder)["verification"]
    assert (found["status"], found["problems"]) == ("verified", [])
    assert found["parameters"] == {"trainable": 4, "with_gradient": 4}
    for name in ("summary.md", "report.html"):
        assert said in (ran.folder / name).read_text(encoding="utf-8")


def test_figures_without_a_verdict_are_not_verified(tmp_path: Path) -> None:
    """A script can write into its record, and shorten it."""
    lines = SourceMap(tmp_path, tmp_path, {})
    found = verification([{"event": "load"}, {"event": "sample"}], lines)
    assert found is not None and (found["status"], found["verified"]) == ("unverified", [])
    assert failure(found) is None and not shown(found, ["forward"])
    assert verification([{"event": "load"}], lines) is None
    summary = Summary(profiler="wallclock", scope="fwd+bwd", verification=found)
    assert "region not verified: the run's record holds no verdict" in subtitle(summary)


def test_lines_that_were_chosen_say_what_they_leave_out(
    measured: Measure, torch_python: Path
) -> None:
    ran = measured(TRAIN, "--python", torch_python, "--region", LATE)
    assert ran.code == 0, ran.err
    said = " ".join(ran.out.split())
    assert "a forward that feeds the backward runs outside of the timed region" in said


LOOKS = """\
import torch
from torch import nn


def guide(net, x):
    with torch.no_grad():
        return net(x)


def train():
    model, teacher = nn.Linear(8, 1), nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(50):
        x = torch.randn(4, 8)
        optimizer.zero_grad()
        wanted = guide(teacher, x)
        out = model(x)
        seen = guide(model, x)
        loss = (out - wanted).square().mean()
        loss.backward()
        optimizer.step()
        print(seen.shape)


train()
"""


@pytest.mark.parametrize("looks", [True, False], ids=["and a look", "only the teacher"])
def test_a_forward_beside_the_loss_is_named(
    measured: Measure, torch_python: Path, looks: bool
) -> None:
    """A teacher's belongs to the step, though no backward comes to it either."""
    source = LOOKS if looks else LOOKS.replace("seen = guide(model, x)", "seen = out")
    ran = measured(source, "--python", torch_python)
    assert ran.code == 0, ran.err
    found = read(ran.folder)["verification"]
    why = "train.py:7 runs a model in the timed region that nothing connects with the loss"
    assert found["unverified"] == ({"forward": why} if looks else {})
    assert found["verified"] == ["forward", "backward", "optimizer"][looks:]
    assert "undifferentiated" not in found
    assert (f"not verified: forward ({why})" in " ".join(ran.out.split())) is looks


def options(repo: Path, python: Path, **more: Any) -> RunOptions:
    """Of a run without Tracy."""
    return RunOptions(profiler="wallclock", cwd=repo, python=str(python), **more)


def begins_late(located: Any, options: Any) -> Plan:
    """The plan of TRAIN begins at the loss: the critic's forward lies ahead of the clock."""
    plan = make_plan(located, options)
    if options.seen is not None:
        return plan
    edits = [
        replace(each, at=Statement(12, 8)) if ".begin(" in each.code else each
        for each in plan.edits
    ]
    return replace(plan, edits=tuple(edits))


def test_a_wrong_region_has_no_figures(
    git_repo: RepoFactory, monkeypatch: pytest.MonkeyPatch, torch_python: Path
) -> None:
    monkeypatch.setattr(prepare, "make_plan", begins_late)
    repo = git_repo({"train.py": TRAIN})
    with pytest.raises(NotVerified) as caught:
        run(repo / "train.py", options=options(repo, torch_python, discover=False))
    error = caught.value
    assert error.exit_code == 8
    assert f"outside of the timed region\n  {repo}/train.py:11" in error.message
    assert "the lines of the step with --region" in error.hint
    assert error.result.summary.wall_clock is None
    folder = error.result.folder
    summary = read(folder)
    assert summary["wall_clock_ms"]["median"] is None
    (problem,) = summary["verification"]["problems"]
    assert problem["check"] == "forward"
    assert problem["places"] == [{"file": str(repo / "train.py"), "line": 11}]
    with pytest.raises(NothingMeasured, match="is not the step"):  # nor later
        summarise(folder)
    assert git(repo, "status", "--porcelain", "--untracked-files=no") == ""


def test_several_processes_are_refused(measured: Measure, torch_python: Path) -> None:
    """As a script that believes to be one of two."""
    pretended = """\
torch.distributed.is_available = torch.distributed.is_initialized = lambda: True
torch.distributed.get_backend = lambda: "gloo"
torch.distributed.get_world_size = lambda: 2
"""
    source = TRAIN.replace("\n\n\ndef", f"\n{pretended}\n\ndef", 1)
    ran = measured(source, "--python", torch_python, "--region", "train.py:13-17")
    assert ran.code == 8
    assert "2 processes train together" in ran.err
    assert read(ran.folder)["wall_clock_ms"]["samples"] == 0


DEEP = """\
import torch
from torch import nn


def train():
    torch.manual_seed(0)
    layers = [nn.Linear(8, 8) for _ in range(8)]
    head = nn.Linear(8, 1)
    parameters = [p for each in (*layers, head) for p in each.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for step in range(50):
        x = torch.randn(4, 8)
        optimizer.zero_grad()
        for layer in layers:
            x = layer(x)
        loss = head(x).square().mean()
        loss.backward()
        optimizer.step()


train()
"""


def without_the_layers(located: Any, options: Any) -> Plan:
    """As activation checkpointing taken for the saving of a checkpoint: 2 of 18 parameters."""
    plan = make_plan(located, options)
    why = "taken for a checkpoint"
    edit = Edit(Kind.DISABLE, Statement(15, 12), reason=why, file=plan.file)
    return replace(plan, edits=(*plan.edits, edit))


@pytest.mark.parametrize(
    ("source", "planned", "figures"),
    [(DEEP, without_the_layers, True), (TRAIN, begins_late, False)],
)
def test_an_interruption_of_the_unmodified_script_ends_the_run(
    git_repo: RepoFactory,
    monkeypatch: pytest.MonkeyPatch,
    torch_python: Path,
    source: str,
    planned: Callable[[Any, Any], Plan],
    figures: bool,
) -> None:
    def interrupted(*_: object) -> None:
        raise Interrupted("interrupted")

    monkeypatch.setattr(prepare, "make_plan", planned)
    monkeypatch.setattr(Discovery, "measure", interrupted)
    repo = git_repo({"train.py": source})
    with pytest.raises(Interrupted) as caught:
        run(repo / "train.py", options=options(repo, torch_python))
    assert (caught.value.result.summary.wall_clock is not None) == figures


def test_a_statement_that_was_taken_out_and_is_needed(
    git_repo: RepoFactory, monkeypatch: pytest.MonkeyPatch, torch_python: Path
) -> None:
    monkeypatch.setattr(prepare, "make_plan", without_the_layers)
    repo = git_repo({"train.py": DEEP})
    with pytest.raises(NotVerified) as caught:
        run(repo / "train.py", options=options(repo, torch_python))
    said = caught.value.message
    assert "2 of 18 parameters get a gradient, 18 in the unmodified script" in said
    assert f"{repo}/train.py:15" in said
    assert caught.value.result.summary.wall_clock is None
