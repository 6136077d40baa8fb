"""A script on disk to everything that is known before it runs: `prepare` and `explain`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from instrumentor import Declined, Options, UsageError, explain
from instrumentor.rewrite.line_format import strip
from instrumentor.rewrite.prepare import config_of, module_path, plan, prepare, script_path
from instrumentor.runtime.bundle import module_text
from instrumentor.shared.edits import Edit, Kind, Statement
from instrumentor.shared.errors import ProofFailed
from instrumentor.shared.variant import Variant
from tests.conftest import RepoFactory
from tests.end_to_end.small import script, snapshot

LORA = "blacksmith/experiments/torch/tiny_llama_lora/train.py"


def test_a_loop_in_another_module_is_found_through_the_script(experiments_repo: Path) -> None:
    prepared = prepare(experiments_repo / LORA, Options())
    trainer = experiments_repo / "blacksmith/tools/trainer/trainer.py"
    assert prepared.plan.file == trainer
    assert list(prepared.replacements) == [trainer]
    assert prepared.originals[trainer] == trainer.read_bytes()
    assert prepared.project.root == experiments_repo
    assert prepared.diff.startswith("--- a/blacksmith/tools/trainer/trainer.py\n")


def test_each_hunk_says_why_and_git_applies_the_patch(own_experiments_repo: Path) -> None:
    repo = own_experiments_repo
    prepared = prepare(repo / LORA, Options())
    headers = [line for line in prepared.diff.splitlines() if line.startswith("@@ ")]
    assert len(headers) > 1
    assert all(header.count("@@") == 2 and not header.endswith("@@") for header in headers)
    assert any("early stop" in header for header in headers)
    assert headers[0].endswith("@@ recorder")
    subprocess.run(["git", "apply", "-"], cwd=repo, input=prepared.whole_patch, check=True)
    for path, new in prepared.replacements.items():
        assert path.read_bytes() == new
    assert (repo / "_instrument_recorder.py").read_text() == module_text(prepared.plan.options)


def test_a_reason_stands_at_the_end_of_the_statement_that_it_follows(git_repo: RepoFactory) -> None:
    long = "loss.backward(\n" + "\n" * 20 + "        )"
    text = script()
    assert text.count("loss.backward()") == 1
    repo = git_repo({"train.py": text.replace("loss.backward()", long)})
    headers = [h for h in prepare(repo / "train.py", Options()).diff.splitlines() if "@@" in h]
    (ends,) = [h for h in headers if "early stop" in h]
    assert len(headers) > 2 and "next batch" not in ends


AGENT = """\
import torch

class Agent:
    def __init__(self, tuned):
        self.critic, self.policy, self.tuned = torch.nn.Linear(4, 1), torch.nn.Linear(4, 4), tuned
        self.critic_optim = torch.optim.SGD(self.critic.parameters())
        self.policy_optim = torch.optim.SGD(self.policy.parameters())

    def update(self, x):
        critic_loss = self.critic(x).mean()
        self.critic_optim.zero_grad()
        critic_loss.backward()
        self.critic_optim.step()
        if self.tuned:
            loss = self.critic(self.policy(x)).mean()
            self.policy_optim.zero_grad()
            loss.backward()
            self.policy_optim.step()
        return critic_loss.item()
"""


@pytest.mark.parametrize("line", range(14, 20))
def test_the_stop_stays_in_the_loops_file_where_the_step_is_in_another(
    git_repo: RepoFactory, line: int
) -> None:
    ahead = "import torch\nfrom agent import Agent\nagent = Agent(True)\n"
    loop = "for n in range(9):\n    agent.update(torch.zeros(2, 4))\n    print(n)\n"
    repo = git_repo(
        {"train.py": ahead + "\n" * (line - 5) + loop, "agent.py": AGENT, "pyproject.toml": ""}
    )
    replaced = prepare(repo / "train.py", Options()).replacements
    assert b"finished()" in replaced[repo / "train.py"]
    assert b"begin(" in replaced[repo / "agent.py"]


LIBRARY = """\
import torch

def build():
    model = torch.nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)

def update(tuned):
    tuned.step()

def train(model, tuned):
    for x in range(9):
        model.zero_grad()
        model(torch.zeros(2, 4)).mean().backward()
        tuned.step()
"""
LOOP = """\
import torch
from library import build, update
model, tuned = build()
for x in range(9):
    model.zero_grad()
    model(torch.zeros(2, 4)).mean().backward()
    update(tuned)
"""


def test_a_package_of_pythonpath_is_read_and_never_edited(
    git_repo: RepoFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells what the objects of the script's loop are; a loop of its own is declined."""
    theirs = "import library\nmodel, tuned = library.build()\nlibrary.train(model, tuned)\n"
    repo = git_repo({"train.py": LOOP, "theirs.py": theirs})
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "library.py").write_text(LIBRARY)
    assert not explain(repo / "train.py").eligible
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    assert list(prepare(repo / "train.py", Options()).replacements) == [repo / "train.py"]
    assert [reason.kind for reason in explain(repo / "theirs.py").reasons] == ["no-loop"]


def test_the_plan_of_a_script_is_that_of_its_explanation(git_repo: RepoFactory) -> None:
    path = git_repo({"train.py": script()}) / "train.py"
    assert plan(path) == explain(path).plan == prepare(path, Options()).plan


def test_nothing_is_written(git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": script()})
    before = snapshot(repo)
    prepare(repo / "train.py", Options())
    explain(repo / "train.py")
    assert snapshot(repo) == before


def test_a_relative_path(git_repo: RepoFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = git_repo({"train.py": script()})
    monkeypatch.chdir(repo)
    assert prepare(Path("train.py"), Options()).script == repo / "train.py"


def test_the_diff_can_be_read_whatever_the_encoding(git_repo: RepoFactory) -> None:
    source = script().replace("import time\n", "import time  # caf\xe9\n").encode("latin-1")
    repo = git_repo({"train.py": b"# -*- coding: latin-1 -*-\n" + source})
    prepared = prepare(repo / "train.py", Options())
    assert b"caf\xe9" in prepared.patch
    assert "caf\\xe9" in prepared.diff


def test_a_module_that_is_given_as_a_script_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").touch()
    for name, hint in (
        ("pkg.train", "-m pkg.train"),
        ("pkg.other", "Give the path"),
        ("...", "Give"),
        ("pkg/trian.py", "Did you mean pkg/train.py?"),
    ):
        with pytest.raises(UsageError) as caught:
            prepare(Path(name), Options())
        assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.py", "no such file"),
        ("folder", "a folder, not a script"),
        ("/dev/null", "/dev/null: not a file"),
        ("done.py", "already instrumented"),
    ],
)
def test_wrong_paths(git_repo: RepoFactory, name: str, message: str) -> None:
    repo = git_repo({"folder/x": "", "done.py": "x = 1  # [instrument]\n"})
    for function in (lambda p: prepare(p, Options()), explain):
        with pytest.raises(UsageError, match=message):
            function(repo / name)


def test_declined_is_an_answer_of_explain_and_an_error_of_prepare(git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": "print('hello')\n"})
    explanation = explain(repo / "train.py")
    assert (explanation.eligible, explanation.plan) == (False, None)
    with pytest.raises(Declined):
        plan(repo / "train.py")
    assert explanation.reasons[0].remedy
    assert explanation.to_json()["eligible"] is False
    with pytest.raises(Declined) as declined:
        prepare(repo / "train.py", Options())
    assert declined.value.reasons == explanation.reasons
    assert declined.value.exit_code == 3


def test_the_arguments_of_the_script_are_looked_at(experiments_repo: Path) -> None:
    folder = experiments_repo / "blacksmith/experiments/torch/mnist"
    config = str(folder / "quietbox" / "mnist_tp.yaml")
    assert explain(folder / "train.py").eligible
    assert not explain(folder / "train.py", arguments=["--config", config]).eligible


def test_the_path_of_a_script_is_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "repo" / "deep"
    deep.mkdir(parents=True)
    script = tmp_path / "repo" / "train.py"
    script.touch()
    monkeypatch.chdir(deep)
    assert script_path(Path("../train.py")) == script
    assert script_path(Path("./.././train.py")) == script
    (tmp_path / "linked.py").symlink_to(script)
    assert script_path(tmp_path / "linked.py") == tmp_path / "linked.py"


def test_two_points_behind_a_link_lead_where_the_system_goes(tmp_path: Path) -> None:
    (tmp_path / "repo" / "deep").mkdir(parents=True)
    script = tmp_path / "repo" / "train.py"
    script.touch()
    (tmp_path / "link").symlink_to(tmp_path / "repo" / "deep")
    assert script_path(tmp_path / "link" / ".." / "train.py") == script


def test_a_file_that_python_reads_and_libcst_does_not_is_named_with_a_remedy(
    git_repo: RepoFactory,
) -> None:
    source = script() + "\nif True:\n  if True:\n\t  x = 1\n"
    repo = git_repo({"train.py": source})
    with pytest.raises(ProofFailed, match=r"train\.py: the file cannot be rewritten") as caught:
        prepare(repo / "train.py", Options())
    assert "tabnanny" in caught.value.hint


def test_a_module_is_found_as_python_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the working folder, then along PYTHONPATH, whose entries may count from there."""
    for file in ("here/pkg/main.py", "here/src/pkg/main.py", "here/src/other/__main__.py"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    here = tmp_path / "here"
    monkeypatch.chdir(here)
    with pytest.raises(UsageError, match="-m other: no such module"):
        module_path("other", here)
    monkeypatch.setenv("PYTHONPATH", "src")
    assert module_path("other", here) == here / "src/other/__main__.py"
    assert module_path("pkg.main", here) == here / "pkg/main.py"


def test_a_notebook_is_refused_with_the_command_that_makes_a_script(tmp_path: Path) -> None:
    notebook = tmp_path / "train.ipynb"
    notebook.touch()
    with pytest.raises(UsageError, match=r"train\.ipynb: a notebook, not a script$") as caught:
        prepare(notebook, Options())
    assert caught.value.hint == f"jupyter nbconvert --to script {notebook} writes one."


def test_what_else_a_trial_changes_goes_in_with_the_measuring(git_repo: RepoFactory) -> None:
    """Modules that the training does not import, and files that are no Python."""
    data = "- rate: 0.1\n"
    repo = git_repo({"train.py": script(), "settings.py": "RATE = 1\n", "config.yaml": data})
    settings, train, config = (repo / n for n in ("settings.py", "train.py", "config.yaml"))
    edits = (
        (settings, Edit(Kind.DISABLE, Statement(1, 0), "RATE = 2", reason="twice the rate")),
        (settings, Edit(Kind.PRELUDE, None, "import os as _os", reason="on top")),
        (train, Edit(Kind.INSERT_BEFORE, Statement(1, 0), "import os as _os", reason="ahead")),
    )
    new = b"- rate: 0.2\n"
    made = prepare(train, Options(variant=Variant(edits, ((config, new),), ("_os",))))
    assert made.replacements[config] == new
    assert {path: strip(made.replacements[path]) for path in (settings, train)} == {
        settings: b"RATE = 1\n",
        train: script().encode(),
    }
    imported = b"import recorder as _instrument\n"
    assert imported in made.replacements[settings]
    assert made.replacements[train].count(imported) == 1
    headers = [line for line in made.diff.splitlines() if line.startswith("@@ -1 ")]
    said = [set(header.rpartition("@@")[2].strip().split(", ")) for header in headers]
    assert {"twice the rate", "on top", "recorder"} in said
    subprocess.run(["git", "apply", "-"], cwd=repo, input=made.patch, check=True)
    assert {path: path.read_bytes() for path in made.replacements} == made.replacements


def test_a_file_of_a_trial_that_is_not_there_is_named(git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": script()})
    lost = Variant(files=((repo / "lost.yaml", b""),))
    with pytest.raises(UsageError, match=r"lost\.yaml: cannot be read: No such file"):
        prepare(repo / "train.py", Options(variant=lost))


def test_a_trials_edit_inside_of_a_statement_that_is_timed_stays(git_repo: RepoFactory) -> None:
    """Only what the plan switches off takes the edits inside of it along."""
    text = script().replace(
        "        loss = model(batch)\n", "        if batch >= 0:\n            loss = model(batch)\n"
    )
    repo = git_repo({"train.py": text})
    path = repo / "train.py"
    line = text[: text.index("loss = model")].count("\n") + 1
    assert Statement(line - 1, 8) in {edit.at for edit in prepare(path, Options()).plan.edits}
    edit = Edit(Kind.INSERT_BEFORE, Statement(line, 12), "print(batch)")
    made = prepare(path, Options(variant=Variant(((path, edit),))))
    assert b"            print(batch)  # [instrument]\n" in made.replacements[path]


def test_what_is_moved_is_told_where_it_was_and_below_what_it_follows(
    git_repo: RepoFactory,
) -> None:
    text = "RATE = 1\n" + "\n" * 9 + "ALL = [\n" + "    0,\n" * 9 + "]\n"
    repo = git_repo({"train.py": script(), "settings.py": text})
    edit = Edit(Kind.MOVE_AFTER, Statement(1, 0), to=Statement(11, 0), reason="moved below")
    made = prepare(repo / "train.py", Options(variant=Variant(((repo / "settings.py", edit),))))
    headers = [line for line in made.diff.splitlines() if line.startswith("@@ ")]
    assert sum("moved below" in header for header in headers) == 2


def test_a_script_without_a_configuration_has_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    for text in (script(), "x = (\n"):
        path.write_text(text)
        assert config_of(path, ["--steps", "3"], tmp_path) == {}
