"""The library's one-shot: frozen results, typed errors, nothing printed, no process exit."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import instrumentor
from instrumentor import (
    Declined,
    Interrupted,
    NotReady,
    Options,
    RunFailed,
    RunOptions,
    UsageError,
    rewrite,
    run,
)
from instrumentor.run import execution
from instrumentor.run.conditions import chosen
from instrumentor.run.preview import dry_run
from instrumentor.run.training import loaded, run_name
from instrumentor.shared.console import counts_line
from instrumentor_analysis.summary.started import started
from tests.conftest import ROOT, RepoFactory
from tests.end_to_end.small import script, snapshot
from tests.warned import texts

WALLCLOCK = RunOptions(profiler="wallclock")


def options_for(repo: Path, **more: Any) -> RunOptions:
    few = Options(steps=5)
    return dataclasses.replace(WALLCLOCK, **{"cwd": repo, "rewrite": few, **more})


class Listener:
    """Notes what a run tells."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.details: dict[str, str] = {}
        self.records: list[Mapping[str, Any]] = []
        self.lines: list[str] = []
        self.notes: list[str] = []

    def stage(self, name: str, detail: str) -> None:
        self.stages.append(name)
        self.details[name] = detail

    def record(self, record: Mapping[str, Any]) -> None:
        self.records.append(record)

    def line(self, text: str) -> None:
        self.lines.append(text)

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_run_from_python(git_repo: RepoFactory, capfd: pytest.CaptureFixture[str]) -> None:
    repo = git_repo({"train.py": script(before="print('hello', sys.argv[1:])")})
    before = snapshot(repo)
    listener = Listener()
    result = run(repo / "train.py", ["a b", "--x"], options_for(repo), listener)
    assert capfd.readouterr() == ("", "")

    assert result.folder == repo / "instrument-runs/repo-1"
    assert result.summary.wall_clock is not None
    assert result.summary.wall_clock.samples == 4
    assert (result.script_exit_code, result.new_files, result.warnings) == (0, (), ())
    with pytest.raises(AttributeError):
        result.script_exit_code = 1  # type: ignore[misc]
    assert {name: snapshot(repo)[name] for name in before} == before

    assert listener.stages == ["found", "profiler", "copied", "running", "analysing"]
    events = [r["event"] for r in listener.records]
    kinds = [each for each in events if each not in ("iteration", "resident")]
    assert kinds == ["load", "witness", *["sample"] * 5, "complete", "leaving"]
    assert "hello ['a b', '--x']" in listener.lines
    assert listener.notes == []


def test_micro_steps_end_with_an_update_and_the_console_says_so(git_repo: RepoFactory) -> None:
    update = "        optimizer.step()\n"
    every_third = f"        if batch % 3 == 2:\n    {update}"
    repo = git_repo({"train.py": script().replace(update, every_third)})
    listener = Listener()
    options = options_for(repo, untraced=True)
    run(repo / "train.py", (), options, listener)
    said = "5 steps and the rest of their update"
    assert listener.details["running"] == f"{said} with timers alone"
    assert [r["event"] for r in listener.records].count("sample") == 6
    plan = dry_run(repo / "train.py", (), options).prepared.plan
    assert counts_line(plan.counts(), 5, plan.rest_of_update).endswith(f"stop after {said}")
    (note,) = listener.notes  # Tracy alone has something to leave out
    assert note.startswith("--untraced does nothing in this run: without Tracy, ")


def test_a_relative_script_counts_from_the_given_folder(git_repo: RepoFactory) -> None:
    repo = git_repo({"sub/train.py": script()})
    result = run("train.py", options=options_for(repo / "sub"))
    assert result.folder == repo / "sub" / "instrument-runs/sub-1"


def test_a_run_names_the_script_as_it_was_typed(tmp_path: Path) -> None:
    """Of a project in a subfolder the copy alone has the script: it is gone when one reads."""
    (tmp_path / "part").mkdir()
    (tmp_path / "part/train.py").write_text(script())
    found = run("part/train.py", ("--more",), options_for(tmp_path))
    document = json.loads((found.folder / "run.json").read_text())
    assert document["command"][1:] == ["part/train.py", "--more"]
    assert document["command_line"].endswith(" part/train.py --more")
    assert started(document) == ["part/train.py", "--more"]


def test_the_environment_of_the_script_can_be_given(git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": script(before="print('word', os.environ.get('WORD'))")})
    listener = Listener()
    run(repo / "train.py", (), options_for(repo, env={"PATH": os.environ["PATH"], "WORD": "own"}),
        listener)  # fmt: skip
    assert "word own" in listener.lines


def test_a_failing_script_is_a_typed_error_with_the_partial_result(git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": script(loop="if batch == 3:\n    sys.exit(5)")})
    with pytest.raises(RunFailed, match="ended with code 5") as failed:
        run(repo / "train.py", (), options_for(repo))
    result = failed.value.result  # type: ignore[attr-defined]
    assert result.script_exit_code == 5
    assert result.summary.wall_clock.samples == 3
    assert (result.folder / "summary.json").is_file()


@pytest.mark.parametrize(
    ("source", "options", "error"),
    [
        ("print(1)\n", {}, Declined),
        (script(), {"rewrite": Options(only=("nothing",))}, UsageError),
        (script(), {"python": "no-python-here"}, UsageError),
        (script(), {"profiler": "tracy"}, NotReady),
    ],
)
def test_what_is_wrong_beforehand_leaves_nothing(
    git_repo: RepoFactory, source: str, options: dict[str, Any], error: type[Exception]
) -> None:
    repo = git_repo({"train.py": source})
    with pytest.raises(error):
        run(repo / "train.py", (), options_for(repo, **options))
    assert [p.name for p in repo.iterdir() if p.name != ".git"] == ["train.py"]


def test_a_repository_that_git_cannot_read_leaves_nothing(git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": script()})
    (repo / ".git" / "index").write_bytes(b"")
    with pytest.raises(NotReady, match="index file smaller than expected"):
        run(repo / "train.py", (), options_for(repo))
    assert [p.name for p in repo.iterdir() if p.name != ".git"] == ["train.py"]


@pytest.mark.parametrize("values", [{"label": "a/b"}, {"timeout_s": 0.0}])
def test_options_out_of_range(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        RunOptions(**values)


def test_a_run_in_another_thread(git_repo: RepoFactory) -> None:
    """Signals can only be taken in the main thread; a run does not need them."""
    repo = git_repo({"train.py": script()})
    results: list[object] = []
    thread = threading.Thread(
        target=lambda: results.append(run(repo / "train.py", (), options_for(repo)))
    )
    thread.start()
    thread.join(120)
    assert len(results) == 1


def test_a_thread_that_the_early_stop_left_running_is_ended(
    git_repo: RepoFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "SETTLE_S", 0.5)
    imports = "import threading\n\nquit = threading.Event()\n"
    started = "    threading.Thread(target=quit.wait).start()\n    optimizer = Optimizer()\n"
    source = script(imports=imports).replace("    optimizer = Optimizer()\n", started)
    stopped = source.replace("\n\n\ndef main", "\n    quit.set()\n\n\ndef main")
    repo = git_repo({"train.py": stopped})
    listener = Listener()
    result = run(repo / "train.py", (), options_for(repo), listener)
    assert result.summary.wall_clock is not None
    assert result.summary.wall_clock.samples == 4
    assert result.script_exit_code == 0
    (told,) = (text for text in listener.notes if "a thread or process running" in text)
    assert "2 threads" in told and "the measurement is complete" in told
    assert any("The measurement is complete, but a thread" in w for w in texts(result.warnings))
    facts = json.loads((result.folder / "run.json").read_text())
    assert (facts["interrupted"], facts["partial"]) == (False, False)


def test_a_dry_run_shows_tracys_command_where_there_is_no_tracy(git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": script()})
    found = dry_run(repo / "train.py", ["--x"], options_for(repo, profiler="tracy"))
    assert found.profiler == "tracy"
    assert "it cannot run here: tracy is not installed" in found.reason
    assert found.command[1:4] == ("-m", "tracy", "-p")
    assert found.environment["INSTRUMENT_PROFILER"] == "tracy"


@pytest.mark.parametrize(
    ("path", "name"),
    [("/x/mnist/train.py", "mnist"), ("/x/mnist/finetune.py", "finetune"), ("/x/a/main.py", "a"),
     ("/x/a/run.py", "a"), ("/x/pkg/__main__.py", "pkg"), ("/train.py", "train")],
)  # fmt: skip
def test_the_name_of_a_run(path: str, name: str) -> None:
    assert run_name(Path(path)) == name


@pytest.mark.parametrize(
    ("name", "found"), [("test_loop.py", True), ("loop_test.py", True), ("loop.py", False)]
)
def test_a_loop_in_a_test_that_nothing_calls_is_measured_through_pytest(
    git_repo: RepoFactory, name: str, found: bool
) -> None:
    text = script().split('if __name__ == "__main__":')[0].replace("train(", "test_it(")
    repo = git_repo({name: text})
    with pytest.raises(RunFailed) as failed:
        run(repo / name, [], options_for(repo))
    assert "without running the loop" in failed.value.message
    command = f"test_it, which pytest calls, not the script: instrument run -m pytest {name}"
    assert (command in failed.value.hint) is found
    assert any(each.code == "W039" for each in failed.value.result.warnings) is found


def test_rewrite_takes_text_and_bytes(capfd: pytest.CaptureFixture[str]) -> None:
    source = script()
    result = rewrite(source, filename="train.py")
    assert rewrite(source.encode(), filename="train.py") == result
    assert isinstance(result.code, bytes)
    assert result.diff.startswith("--- a/train.py\n+++ b/train.py\n")
    assert result.plan.explanation["loop"]["line"] == 34
    compile(result.code, "train.py", "exec")
    with pytest.raises(AttributeError):
        result.code = b""  # type: ignore[misc]
    with pytest.raises(Declined, match="no"):
        rewrite("print(1)\n")
    with pytest.raises(UsageError, match="already instrumented"):
        rewrite(result.code)
    assert capfd.readouterr() == ("", "")


def test_errors_are_one_family() -> None:
    for error in (Declined, Interrupted, NotReady, RunFailed, UsageError):
        assert issubclass(error, instrumentor.InstrumentError)
        assert isinstance(error.exit_code, int)


def test_every_public_name_can_be_imported() -> None:
    for name in instrumentor.__all__:
        assert getattr(instrumentor, name).__name__ == name
        assert getattr(instrumentor, name).__doc__
    with pytest.raises(AttributeError):
        _ = instrumentor.nothing_of_that_name


def test_importing_the_library_is_cheap() -> None:
    code = "import sys, instrumentor; print(*sorted(m for m in sys.modules if '.' not in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"libcst", "typer", "pandas", "git", "psutil"} & set(done.stdout.split())


def test_a_plain_dry_run_imports_nothing_heavy(git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": script()})
    code = (
        "import sys\nfrom instrumentor.cli.main import call\n"
        "assert call(['--dry-run', 'train.py']) == 0\n"
        "print(*(m for m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repo, capture_output=True, text=True,
                          check=True)  # fmt: skip
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "libcst" in loaded
    assert not {"libcst.matchers", "typer", "pandas", "git", "psutil", "yaml"} & loaded


def test_the_python_of_the_documentation_works(
    git_repo: RepoFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.S)
    assert len(ast.parse(example).body) <= 5
    repo = git_repo({"train.py": script(), "x.yaml": "lr: 1\n"})
    monkeypatch.chdir(repo)
    exec(example, {})
    median, folder = capsys.readouterr().out.splitlines()
    assert float(median) >= 2
    assert folder == str(repo / "instrument-runs/repo-1")


@pytest.mark.parametrize(
    ("options", "typed"),
    [
        (Options(), []),
        (
            Options(region=("a b.py", 3, 9), mode="train"),
            ["--region", "a b.py:3-9", "--mode", "train"],
        ),
        (Options(loop=("", 7), scope="step"), ["--loop", "7", "--scope", "step"]),
        (Options(keep_validation=True), ["--keep-validation"]),
    ],
)
def test_a_run_notes_the_options_that_chose_what_it_measures(
    options: Options, typed: list[str]
) -> None:
    assert chosen(options) == typed


def test_others_that_ended_a_run_are_those_beside_its_samples() -> None:
    facts = {"cpus": 2, "other_cpus": 0.3}
    assert loaded(facts, [{"event": "complete", "why": "precise"}]) is facts
    end = {"event": "complete", "why": "busy", "other_cpus": 1.234}
    ended = [{"event": "sample", "other_cpus": 9.0}, end]
    assert loaded(facts, ended) == {"cpus": 2, "other_cpus": 1.23, "ended_early": True}
    assert loaded({"other_cpus": 1.5}, ended)["other_cpus"] == 1.5
    spent = [{**end, "why": "budget"}]
    assert loaded(facts, spent) == {"cpus": 2, "other_cpus": 1.23}


@pytest.mark.parametrize(("most", "told"), [(150, False), (2, True)])
def test_a_count_that_ends_the_loop_is_told_of_where_it_did(
    git_repo: RepoFactory, most: int, told: bool
) -> None:
    repo = git_repo({"train.py": script(loop=f"if batch > {most}:\n    break")})
    text = (repo / "train.py").read_bytes()
    planned = rewrite(text, filename="train.py").plan.warnings
    assert "own-limit" in [each.kind for each in planned]
    result = run(repo / "train.py", [], options_for(repo))
    assert ("own-limit" in [each.kind for each in result.warnings]) is told
