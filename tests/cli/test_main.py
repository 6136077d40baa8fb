"""The command line: every option from three places, the dry run, explain, apply, usage errors."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from instrumentor.cli import main as cli
from instrumentor.cli.verbs.run import run as run_verb
from instrumentor.plan.passes import PASSES
from instrumentor.rewrite.engine import strip
from instrumentor.rewrite.prepare import prepare
from instrumentor.run.options import RunOptions
from instrumentor.shared.errors import EXIT_CODES, UsageError
from instrumentor.shared.option_fields import PANELS
from instrumentor.shared.options import Options
from instrumentor_analysis.model import Summary
from tests import options_table
from tests.conftest import ROOT, RepoFactory, RunCli, first_line
from tests.end_to_end.small import script, snapshot
from tests.options_table import commands, options_of

DOCS = ROOT / "docs"
OPTIONS_PAGE = DOCS / "options.md"
COMMANDS = commands()


# option: what is typed ("" for a flag), and what the run gets.
RUN_OPTIONS: dict[str, tuple[str, object]] = {
    "--profiler": ("torch", "torch"),
    "--steps": ("9", 9),
    "--warmup": ("3", 3),
    "--time-budget": ("60", 60.0),
    "--phases": ("3", 3),
    "--scope": ("step", "step"),
    "--output": ("a b", Path("a b")),
    "--label": ("bf16", "bf16"),
    "--loop": ("t.py:3", ("t.py", 3)),
    "--mode": ("inference", "inference"),
    "--region": ("1-2", ("", 1, 2)),
    "--keep-validation": ("", True),
    "--skip-validation": ("", True),
    "--skip-saving": ("", True),
    "--multi-chip": ("", True),
    "--host-reads": ("as-written", "as-written"),
    "--ignore-warnings": ("W205,w206", ("W205", "W206")),
    "--python": ("py", "py"),
    "--tt-xla": ("data", Path("data")),
    "--tracy-tools-folder": ("data", Path("data")),
    "--timeout": ("2.5", 2.5),
    "--link": ("data", (Path("data"),)),
    "--no-link": ("data", (Path("data"),)),
    "--keep": ("", True),
    "--only": ("region,sync", ("region", "sync")),
    "--port": ("24680", 24680),
    "--op-support-count": ("4000", 4000),
    "--counters": ("waits,fpu", ("waits", "fpu")),
    "--noc-trace": ("", True),
    "--batch-dim": ("1", 1),
    "--untraced": ("", True),
    "--no-discover": ("", False),
    "--no-keep-copy": ("", False),
    "--in-place": ("", True),
    "--reset": ("", True),
    "--yes": ("", True),
    "--skip": ("validation", ("validation",)),
}
# These choose what is printed or remembered, or whether anything runs: shown elsewhere.
SHOWN_ELSEWHERE = {
    "--dry-run",
    "--full",
    "--json",
    "--quiet",
    "--verbose",
    "--history",
    "--no-history",
    "--repeat",
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[RunOptions]]:
    """What the runner is asked for, nothing being run; the working folder holds `data`."""
    seen: list[RunOptions] = []

    def run(_script: Path, _arguments: list[str], options: RunOptions, _progress: object) -> None:
        seen.append(options)
        raise UsageError("far enough")

    monkeypatch.setattr(import_module("instrumentor.run.training"), "run", run)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    yield seen


def test_every_option_of_run_is_tried_here() -> None:
    assert set(RUN_OPTIONS) | SHOWN_ELSEWHERE | {"-m"} == set(options_of(COMMANDS["run"]))


@pytest.mark.parametrize("option", sorted(RUN_OPTIONS))
def test_an_option_from_the_command_line_a_variable_and_pyproject(
    option: str, asked: list[RunOptions], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    typed, expected = RUN_OPTIONS[option]
    name = option.removeprefix("--")
    field = run_verb.declared[name.replace("-", "_")].field.name

    def got(*words: str) -> object:
        cli.call(["run", *words, "train.py"])
        options = asked.pop()
        return getattr(options if hasattr(options, field) else options.rewrite, field)

    assert got(option, *([typed] if typed else [])) == expected
    assert got() != expected

    monkeypatch.setenv("INSTRUMENT_" + name.upper().replace("-", "_"), typed or "1")
    assert got() == expected
    monkeypatch.delenv("INSTRUMENT_" + name.upper().replace("-", "_"))

    number = expected if type(expected) in (int, float) else None
    value = number or ([typed] if name.endswith("link") else typed or True)
    table = f"[tool.instrument]\n{name} = {json.dumps(value)}\n"
    (tmp_path / "pyproject.toml").write_text(table)
    if name in ("yes", "reset"):  # for the user to ask, not for a repository
        assert cli.call(["run", "train.py"]) == 2 and asked == []
    else:
        assert got() == expected


def test_nearer_words_win(
    asked: list[RunOptions], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.instrument]\nsteps = 7\n")
    monkeypatch.setenv("INSTRUMENT_STEPS", "8")
    cli.call(["run", "train.py"])
    cli.call(["run", "--steps", "9", "train.py"])
    assert [options.rewrite.steps for options in asked] == [8, 9]


def test_an_unknown_key_in_pyproject_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.instrument]\nstep = 7\n")
    monkeypatch.chdir(tmp_path)
    assert cli.call(["run", "train.py"]) == 2
    assert "pyproject.toml: [tool.instrument] has no option 'step'" in capsys.readouterr().err
    assert cli.call(["--help"]) == 0


@pytest.mark.parametrize("line", ['steps = "many"', "keep = 3.5", "profiler = []"])
def test_a_wrong_value_in_pyproject_is_an_error(
    line: str, asked: list[RunOptions], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.instrument]\n{line}\n")
    assert cli.call(["run", "train.py"]) == 2
    assert line.split()[0] in capsys.readouterr().err


@pytest.mark.parametrize("broken", ["steps = 'many'", "[", "unknown = 1"])
@pytest.mark.parametrize("verb", ["restore", "skill"])
def test_a_broken_configuration_keeps_nobody_from_restoring(
    verb: str, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.instrument]\n{broken}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSTRUMENT_STEPS", "abc")
    assert cli.call([verb]) == 0
    assert cli.call(["history", "train.py"]) == 2
    monkeypatch.delenv("INSTRUMENT_STEPS")
    assert cli.call(["history", "train.py"]) == 2


@pytest.mark.parametrize("words", ["restore", "doctor", "--dry-run train.py", "run train.py"])
def test_a_working_directory_that_is_gone(run_cli: RunCli, tmp_path: Path, words: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    leave = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, sys.argv[1:])"
    tool = [sys.executable, "-m", "instrumentor", *words.split()]
    done = subprocess.run([sys.executable, "-c", leave, *tool], cwd=gone, capture_output=True,
                          text=True)  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: the working directory no longer exists\nhint: cd to one that does.\n"
    )


OF_MEMORY = "error: not enough memory\nhint: Free some, or raise the limit (ulimit -v).\n"


@pytest.mark.parametrize("module", ["instrumentor.shared.console", "instrumentor.cli.app", "typer"])
@pytest.mark.parametrize(
    ("error", "code", "said"),
    [("KeyboardInterrupt", 130, "interrupted\n"), ("MemoryError", 4, OF_MEMORY)],
)
def test_what_ends_it_in_the_first_moment(module: str, error: str, code: int, said: str) -> None:
    program = f"""
import sys
class Ending:
    def find_spec(self, name, *_):
        if name == {module!r}:
            raise {error}
sys.meta_path.insert(0, Ending())
from instrumentor.cli.main import main
main(["skill"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


@pytest.mark.parametrize(
    ("arguments", "env", "table"),
    [
        ((), {"INSTRUMENT_STEPS": "8"}, ""),
        (("--steps", "8"), {}, ""),
        ((), {}, "[tool.instrument]\nsteps = 8\n"),
    ],
)
def test_a_dry_run_takes_options_from_three_places(
    git_repo: RepoFactory, run_cli: RunCli, arguments: tuple[str, ...], env: dict[str, str],
    table: str,
) -> None:  # fmt: skip
    repo = git_repo({"train.py": script(), "pyproject.toml": table})
    done = run_cli("--dry-run", *arguments, "train.py", cwd=repo, env=env)
    assert "stop after 8 steps" in done.stderr


@pytest.mark.parametrize("verb", ["--dry-run", "explain"])
@pytest.mark.parametrize("device", ["", "TT"])
def test_what_holds_on_xla_alone_is_told_where_it_is(
    run_cli: RunCli, tmp_path: Path, verb: str, device: str
) -> None:
    script = ROOT / "fixtures/experiments/blacksmith/experiments/torch/mnist/train.py"
    env = {"PJRT_DEVICE": device, "INSTRUMENT_DEVICE_ROOT": str(tmp_path / "none")}
    done = run_cli(verb, script, cwd=tmp_path, env=env)
    assert done.returncode == 0 and ("W011" in done.stderr) is bool(device)


# -- dry run, apply, explain -------------------------------------------------------------------

SOURCES = {
    "plain": script().encode(),
    "crlf": script().replace("\n", "\r\n").encode(),
    "no final newline": script().rstrip("\n").encode(),
    "latin-1": b"# -*- coding: latin-1 -*-\nWORD = '\xe9'\n" + script().encode(),
    "byte order mark": b"\xef\xbb\xbf" + script().encode(),
    "form feed": script().replace("\ndef train", "\n\x0cdef train").encode(),
    "line separator": script(imports="WORD = 'a\u2028b\x85c'\n").encode(),
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [*((kind, "train.py") for kind in SOURCES), ("plain", "my experiment/tr\u00e9n.py")],
)
def test_a_dry_run_is_a_patch_that_gives_the_instrumented_file(
    git_repo: RepoFactory, tmp_path: Path, kind: str, name: str
) -> None:
    repo = git_repo({name: SOURCES[kind]})
    before = snapshot(repo)
    done = subprocess.run(
        [sys.executable, "-m", "instrumentor", "--dry-run", name], cwd=repo, capture_output=True,
        check=True,
    )  # fmt: skip
    assert snapshot(repo) == before
    said = done.stderr.decode()
    assert f"Found the training loop at {name}:" in said
    assert "Would insert at 5 places: signposts" in said
    assert said.rstrip().endswith(f"Next: instrument run {shlex.quote(name)}")

    (expected,) = prepare(repo / name, Options()).replacements.values()
    subprocess.run(["git", "apply", "-"], cwd=repo, input=done.stdout, check=True)
    assert (repo / name).read_bytes() == expected
    assert strip(expected) == SOURCES[kind]


def test_the_diff_is_one_import_and_the_edits(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"train.py": script(batches=3)})
    short, full = (
        run_cli("--dry-run", *more, "train.py", cwd=repo).stdout for more in ((), ("--full",))
    )
    added = [line[1:] for line in short.splitlines() if line.startswith("+") and line[1:2] != "+"]
    assert "from _instrument_recorder import recorder as _instrument" in added
    assert len(added) == 8
    assert full.startswith(short) and "+++ b/_instrument_recorder.py\n" in full
    subprocess.run(["git", "apply", "-"], cwd=repo, input=full, text=True, check=True)
    ran = subprocess.run(
        [sys.executable, "train.py"], cwd=repo, capture_output=True, text=True, check=True
    )
    assert "[TIMER] Step 2: fwd+bwd = " in ran.stdout


@pytest.mark.parametrize("experiment", ["mnist", "tiny_llama", "tiny_llama_lora"])
def test_the_experiments_can_be_shown(
    experiments_repo: Path, run_cli: RunCli, experiment: str
) -> None:
    path = f"blacksmith/experiments/torch/{experiment}/train.py"
    shown = run_cli("--dry-run", path, cwd=experiments_repo)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("--- a/blacksmith/")
    subprocess.run(["git", "apply", "--check", "-"], cwd=experiments_repo, input=shown.stdout,
                   text=True, check=True)  # fmt: skip
    explained = run_cli("explain", path, cwd=experiments_repo)
    assert explained.returncode == 0, explained.stderr
    assert f"Next: instrument --dry-run {path}" in explained.stdout


def test_a_declined_dry_run_says_why_and_prints_nothing(
    git_repo: RepoFactory, run_cli: RunCli
) -> None:
    repo = git_repo({"train.py": "print('hello')\n"})
    done = run_cli("--dry-run", "train.py", cwd=repo)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("declined: ")
    assert "train.py:1" in done.stderr
    assert "hint: " in done.stderr


def test_a_file_that_starts_nothing_is_not_sent_to_run(
    git_repo: RepoFactory, run_cli: RunCli
) -> None:
    text = "import torch\n\n\ndef step(model, x):\n    model(x).sum().backward()\n"
    repo = git_repo({"steps.py": text, "train.py": "import importlib\n" + script()})
    for verb in ("run", "explain"):
        done = run_cli(verb, "steps.py", cwd=repo)
        assert done.returncode == 3, done.stderr
        said = done.stdout + done.stderr
        assert "steps.py only defines functions and classes: nothing in it is" in said
        assert "step(), which runs a backward at steps.py:5, waits for a caller" in said
        assert "instrument run" not in said
        assert "Give the script that imports it and trains." in said


def test_a_dry_run_stands_alone(git_repo: RepoFactory, run_cli: RunCli) -> None:
    done = run_cli("--dry-run", "train.py", "run", "train.py", cwd=git_repo({"train.py": script()}))
    assert done.returncode == 2
    assert "instrument run --dry-run train.py" in done.stderr


def test_a_reader_that_stops_early_is_no_error(git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": script(before="\n".join("pass" for _ in range(3000)))})
    line, said = first_line("--dry-run", "train.py", cwd=repo)
    assert line == "--- a/train.py\n"
    assert "Traceback" not in said
    assert "BrokenPipe" not in said


def test_each_part_of_the_step_is_explained(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"train.py": GAN})
    said = run_cli("explain", "train.py", cwd=repo).stdout
    lines = list(enumerate(GAN.split("\n"), 1))

    def told(part: str, *texts: str) -> str:
        found = ", ".join(str(n) for n, line in lines if any(text in line for text in texts))
        return f"  {part:<14} train.py:{found}, known by its "

    assert told("forward", "made(x)", "judged(fake") in said
    assert told("backward", "backward") in said
    assert told("step", ".step()") in said


GAN = """\
import torch

made, judged = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
one, other = (torch.optim.SGD(each.parameters(), lr=0.1) for each in (made, judged))
for x in torch.ones(9, 2, 4):
    one.zero_grad()
    fake = made(x)
    (-judged(fake)).sum().backward()
    one.step()
    other.zero_grad()
    (judged(fake.detach()) - judged(x)).sum().backward()
    other.step()
"""


EXPLAINED = """\
import torch, torch_xla


def train(model, loader, optimizer, logger):
    step = 0
    for batch in loader:
        step += 1
        loss = model(
            batch
        )
        loss.backward()
        logger.log(
            loss.item(),
        )
        torch_xla.sync()
        optimizer.step()
        if step % 5 == 0:
            torch.save(
                model, "model.pt",
            )
"""


BRANCHED = """\
import torch

first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (first, second)]
one, other = optimizers
for number, x in enumerate(torch.ones(9, 2, 4)):
    first(x).sum().backward()
    one.step()
    if number % 2 == 0:
        second(x).sum().backward()
        other.step()

        print(number)
"""


def test_a_margin_ends_with_the_clock_in_its_branch(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"train.py": BRANCHED})
    done = run_cli("explain", "train.py", cwd=repo)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^ {2}(.{5}) ([| ]) +(\d+)  ", done.stdout, re.M)
    assert [(int(n), mark.strip()) for mark, bar, n in rows if bar == "|"] == [
        (7, "begin"), (8, ""), (9, ""), (10, ""), (11, "wait"),
    ]  # fmt: skip


ACCUMULATED = """\
import torch

model = torch.nn.Linear(4, 1)
batches = iter([torch.ones(2, 4)] * 40)
for step in range(10):
    for micro in range(4):
        loss = model(next(batches)).mean()
        loss.backward()
    print(step)
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    if step % 5 == 0:
        torch.save(model.state_dict(), "model.pt")
"""


def test_explain_lists_to_the_stop_and_what_is_left_out(
    git_repo: RepoFactory, run_cli: RunCli
) -> None:
    done = run_cli("explain", "train.py", cwd=git_repo({"train.py": ACCUMULATED}))
    assert done.returncode == 0, done.stderr
    assert "train.py:6: training loop, lines 6-8\n" in done.stdout
    rows = re.findall(r"^ {2}(.{5}) [| ] +(\d+)  ", done.stdout, re.M)
    marks = {int(line): mark.strip() for mark, line in rows}
    # Of a statement of several lines the end, in the margin and below.
    assert marks[12] == "stop" and "stop           after line 12, by " in done.stdout
    assert marks[14] == "skip" and "left out       saving, line 14" in done.stdout


def test_explain_shows_the_loop_with_a_margin(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"train.py": EXPLAINED})
    done = run_cli("explain", "train.py", cwd=repo)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^ {2}(.{5}) ([| ]) +(\d+)  ", done.stdout, re.M)
    marks = {int(line): (mark.strip(), bar) for mark, bar, line in rows}
    assert marks[8] == ("begin", "|")
    assert [marks[n][0] for n in (12, 13, 14)] == ["move"] * 3
    assert marks[15] == ("wait", "|")
    assert marks[16] == ("stop", " ")
    assert [marks[n][0] for n in (18, 19, 20)] == ["skip"] * 3
    assert marks[6] == ("", " ")
    assert "the script's own torch_xla.sync at line 15 is kept" in done.stdout
    assert "counter        step at line 7, counted before the step" in done.stdout
    legend = next(line for line in done.stdout.splitlines() if "|: timed" in line)
    margin = {line.split("|")[0].strip() for line in done.stdout.splitlines() if " | " in line}
    words = margin & {"begin", "wait", "stop", "skip", "move"}
    assert "begin" in words and all(f"{word}: " in legend for word in words)


HELPER = """\
def train_step(model, batch):
    loss = model(batch).mean()
    loss.backward()
"""
LOOP = """\
import torch
from helper import train_step

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.ones(9, 2, 4):
    train_step(model, batch)
    optimizer.step()
"""


def test_a_step_in_another_file_is_shown_there(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"part/train.py": LOOP, "part/helper.py": HELPER})
    said = run_cli("explain", "part/train.py", cwd=repo).stdout
    rows = re.findall(r"^ {2}(?:(\S+\.py)|(.{5}) ([| ]) +(\d+)  .*)$", said, re.M)
    assert [(file or int(n), mark.strip(), bar) for file, mark, bar, n in rows] == [
        ("part/train.py", "", ""),
        (6, "", " "),
        (7, "", " "),
        (8, "stop", " "),
        ("part/helper.py", "", ""),
        (2, "begin", "|"),
        (3, "wait", "|"),
    ]
    assert said.count("; stop: ends the run\n") == 1  # the clock is read elsewhere
    dry = run_cli("--dry-run", "part/train.py", cwd=repo).stderr
    parts = "(forward part/helper.py:2, backward part/helper.py:3)"
    assert f"Found the training loop at part/train.py:6 {parts}\n" in dry


def test_the_legend_says_what_stands_there(git_repo: RepoFactory, run_cli: RunCli) -> None:
    said = run_cli("explain", "train.py", cwd=git_repo({"train.py": GAN})).stdout
    last = "stop: waits for the device, reads the clock, ends the run"
    assert f"  begin: starts the clock; |: timed; {last}\n" in said


VALIDATED = """\
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def validate():
    model.eval()
    with torch.no_grad():
        model(torch.ones(1, 4))
    model.train()


for step, batch in enumerate(torch.ones(9, 2, 4)):
    model(batch).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 0:
        validate()
    if step > 7:
        break
"""


def test_a_file_has_one_name_and_what_replaces_a_validation_is_told(
    git_repo: RepoFactory, run_cli: RunCli
) -> None:
    repo = git_repo({"part/train.py": VALIDATED})
    done = run_cli("explain", "part/train.py", cwd=repo)
    assert "in-loop validation is skipped; in its place: model.train()\n" in done.stdout
    for said in (done.stdout + done.stderr, run_cli("--dry-run", "part/train.py", cwd=repo).stderr):
        assert "warning: part/train.py:" in said
        assert not re.search(r"(?<!part/)train\.py:\d", said)


@pytest.mark.parametrize("words", [("explain",), ("--dry-run",), ("run",)])
def test_a_decline_has_one_word(
    git_repo: RepoFactory, run_cli: RunCli, words: tuple[str, ...]
) -> None:
    repo = git_repo({"train.py": "def broken(:\n"})
    done = run_cli(*words, "train.py", cwd=repo)
    assert done.returncode == 3
    assert (done.stdout or done.stderr).startswith("declined: train.py:1: the file does not parse")


def test_explain_as_json(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"train.py": EXPLAINED, "other.py": "print(1)\n"})
    done = run_cli("explain", "--json", "train.py", cwd=repo)
    document = json.loads(done.stdout)
    assert (document["schema"], document["eligible"]) == ("instrument-plan/1", True)
    assert document["loop"]["line"] == 6
    assert {edit["kind"] for edit in document["edits"]} >= {"prelude", "disable", "move-after"}
    declined = run_cli("explain", "--json", "other.py", cwd=repo)
    assert declined.returncode == 3
    answer = json.loads(declined.stdout)
    assert answer["eligible"] is False
    assert answer["reasons"][0]["remedy"]
    assert set(document) - {"edits"} == set(answer) - {"edits"}


def test_explain_looks_at_the_scripts_own_configuration(
    experiments_repo: Path, run_cli: RunCli
) -> None:
    folder = "blacksmith/experiments/torch/mnist"
    done = run_cli("explain", f"{folder}/train.py", "--", "--config",
                   f"{folder}/quietbox/mnist_tp.yaml", cwd=experiments_repo)  # fmt: skip
    assert done.returncode == 3
    assert "mesh_shape" in done.stdout


def test_explain_tallies_a_folder(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"a/train.py": script(), "a/other.py": "print(1)\n"})
    done = run_cli("explain", "--summary", "a", cwd=repo)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 files in ")
    assert re.search(r"instrumented +1\n", done.stdout)
    assert re.search(r"no-backward +1\n", done.stdout)


class TestApply:
    """`instrument apply` writes one new file and nothing else."""

    def test_the_copy_runs_by_itself(
        self, git_repo: RepoFactory, run_cli: RunCli, tmp_path: Path
    ) -> None:
        repo = git_repo({"train.py": script(batches=3)})
        copy = tmp_path / "train.bench.py"
        done = run_cli("apply", "train.py", "-o", copy, cwd=repo, fresh=True)
        assert done.returncode == 0, done.stderr
        assert f"Wrote {copy} (your file was not touched)" in done.stderr
        ran = subprocess.run([sys.executable, "-I", str(copy)], capture_output=True, text=True,
                             check=True)  # fmt: skip
        assert "[TIMER] Step 2: fwd+bwd = " in ran.stdout
        assert strip(copy.read_bytes()) == (repo / "train.py").read_bytes()

    @pytest.mark.parametrize(
        ("reads", "line", "told"),
        [
            ("NAME = open(__file__).name\n", 1, "looks in its own folder (__file__)"),
            ("import math\n\nfrom names import NAME\n", 3, "imports names from its own folder"),
            ("import names.more\n", 1, "imports names from its own folder"),
        ],
    )
    def test_a_copy_elsewhere_of_what_reads_beside_itself_is_no_next_command(
        self, git_repo: RepoFactory, run_cli: RunCli, tmp_path: Path, reads: str, line: int,
        told: str,
    ) -> None:  # fmt: skip
        beside = {"names.py": "NAME = 1\n"} if "more" not in reads else {
            "names/__init__.py": "", "names/more.py": ""}  # fmt: skip
        repo = git_repo({"train.py": reads + script(batches=3), **beside})
        elsewhere = ("apply", "--warmup", "2", "train.py", "-o", tmp_path / "copy.py")
        done = run_cli(*elsewhere, "--force", cwd=repo)
        assert done.returncode == 0, done.stderr
        assert f"warning: train.py:{line}: the script {told}; the copy, in ano" in done.stderr
        (following,) = re.findall(r"^Next: instrument (.+)$", done.stderr, re.M)
        assert following == "apply --warmup 2 train.py -o copy.py"
        done = run_cli(*following.split(), cwd=repo)
        assert done.returncode == 0, done.stderr
        assert f"Next: {sys.executable} copy.py\n" in done.stderr  # python3 on PATH is another one
        assert "looks there" not in done.stderr
        (following,) = re.findall(r"^Next: instrument (.+)$", run_cli(
            *elsewhere, "--force", cwd=repo).stderr, re.M)  # fmt: skip
        assert following == "apply --warmup 2 train.py -o train_instrumented.py"

    def test_the_copy_of_a_module_is_started_as_one(
        self, git_repo: RepoFactory, run_cli: RunCli, tmp_path: Path
    ) -> None:
        train = "from . import names\n" + script(batches=3)
        repo = git_repo({"pkg/__init__.py": "", "pkg/names.py": "", "pkg/train.py": train})
        done = run_cli("apply", "pkg/train.py", "-o", "pkg/copy.py", cwd=repo)
        assert done.returncode == 0, done.stderr
        assert f"Next: {sys.executable} -m pkg.copy\n" in done.stderr
        done = run_cli("apply", "pkg/train.py", "-o", tmp_path / "copy.py", cwd=repo)
        assert "train.py:1: the script imports from its own package; the copy" in done.stderr
        assert "Next: instrument apply pkg/train.py -o pkg/train_instrumented.py" in done.stderr

    def test_nothing_is_overwritten_without_force(
        self, git_repo: RepoFactory, run_cli: RunCli
    ) -> None:
        repo = git_repo({"train.py": script(), "mine.py": "mine\n"})
        refused = run_cli("apply", "train.py", "-o", "mine.py", cwd=repo)
        assert refused.returncode == 2
        assert "mine.py exists" in refused.stderr
        assert (repo / "mine.py").read_text() == "mine\n"
        forced = run_cli("apply", "train.py", "-o", "mine.py", "--force", cwd=repo)
        assert forced.returncode == 0
        assert (repo / "mine.py").read_text() != "mine\n"
        assert sorted(p.name for p in repo.iterdir()) == [".git", "mine.py", "train.py"]

    @pytest.mark.parametrize(
        ("name", "said"),
        [(name, "is the original") for name in ("train.py", "link.py", "sub/../train.py")]
        + [("nowhere/copy.py", "nowhere/copy.py: cannot be written")],
    )
    def test_where_nothing_is_written(
        self, git_repo: RepoFactory, run_cli: RunCli, name: str, said: str
    ) -> None:
        repo = git_repo({"train.py": script(), "sub/x": ""})
        (repo / "link.py").symlink_to("train.py")
        before = snapshot(repo)
        done = run_cli("apply", "train.py", "--force", "-o", name, cwd=repo)
        assert done.returncode == 2
        assert said in done.stderr
        assert snapshot(repo) == before

    def test_another_name_of_the_original_is_replaced_alone(
        self, git_repo: RepoFactory, run_cli: RunCli
    ) -> None:
        repo = git_repo({"train.py": script()})
        os.link(repo / "train.py", repo / "hard.py")
        run_cli("apply", "train.py", "--force", "-o", "hard.py", cwd=repo)
        assert (repo / "train.py").read_text() == script()

    def test_a_refused_script_leaves_no_file(self, git_repo: RepoFactory, run_cli: RunCli) -> None:
        repo = git_repo({"train.py": "print(1)\n"})
        assert run_cli("apply", "train.py", "-o", "copy.py", cwd=repo).returncode == 3

    def test_a_loop_and_a_step_in_two_files_are_no_one_copy(
        self, git_repo: RepoFactory, run_cli: RunCli
    ) -> None:
        step = "def step(x):\n    if x.sum() < 0:\n        return\n    model(x).mean().backward()\n"
        files = {
            "train.py": "from steps import step\n\nfor x in loader:\n    step(x)\n",
            "steps.py": f"import torch\n\nmodel = torch.nn.Linear(4, 4)\n{step}    opt.step()\n",
        }
        repo = git_repo({**files, "pyproject.toml": ""})
        refused = run_cli("apply", "train.py", "-o", "copy.py", cwd=repo)
        assert refused.returncode == 2
        assert "stand in steps.py and train.py: one copy cannot hold both" in refused.stderr
        assert "hint: Measure it with `instrument run`" in refused.stderr
        assert not (repo / "copy.py").exists()

    def test_what_another_file_evaluates_first_is_named_and_stays(
        self, git_repo: RepoFactory, run_cli: RunCli
    ) -> None:
        train = (
            "import torch\n\nmodel = torch.nn.Linear(4, 1)\n"
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n\n"
            "def train(loader):\n    for x in loader:\n        model(x).mean().backward()\n"
            "        optimizer.step()\n"
        )
        evaluates = (
            "import torch\nfrom train import model, train\n\nloader = [torch.ones(2, 4)] * 9\n"
            "with torch.no_grad():\n    for x in loader:\n        print(model(x))\ntrain(loader)\n"
        )
        repo = git_repo({"train.py": train, "main.py": evaluates})
        done = run_cli("apply", "main.py", "-o", "copy.py", cwd=repo)
        assert done.returncode == 0, done.stderr
        assert "warning: main.py:5: This statement stays, because the copy is" in done.stderr
        assert strip((repo / "copy.py").read_bytes()) == (repo / "train.py").read_bytes()


# -- what people type -----------------------------------------------------------------------------


class TestTyped:
    def test_a_script_alone_runs(self, git_repo: RepoFactory, run_cli: RunCli) -> None:
        repo = git_repo({"train.py": script()})
        done = run_cli("train.py", cwd=repo, env={"INSTRUMENT_PROFILER": "wallclock"})
        assert done.returncode == 0, done.stderr
        assert "Wrote instrument-runs/repo-1/" in done.stderr

    @pytest.mark.parametrize("words", [("run", "--steps", "3", "-m"), ("-m",)])
    def test_a_module_runs_with_its_relative_imports(
        self, git_repo: RepoFactory, run_cli: RunCli, words: tuple[str, ...]
    ) -> None:
        entry = "from .names import NAME\n" + script() + "\nimport sys\nprint(NAME, sys.argv[1:])\n"
        files = {"pkg/__init__.py": "", "pkg/names.py": "NAME = 'mine'\n", "pkg/train.py": entry}
        repo = git_repo(files)
        env = {"INSTRUMENT_PROFILER": "wallclock"}
        done = run_cli(*words, "pkg.train", "--epochs", "3", "--json", cwd=repo, env=env)
        assert done.returncode == 0, done.stderr
        log = (repo / "instrument-runs/pkg-1" / "run.log").read_text()
        assert "mine ['--epochs', '3', '--json']" in log

    def test_a_region_that_ends_within_a_line_says_where(
        self, tmp_path: Path, run_cli: RunCli
    ) -> None:
        lines = (
            "import torch",
            "model = torch.nn.Linear(4, 2)",
            "optimizer = torch.optim.SGD(model.parameters(), 0.1)",
            "for x, y in [(torch.ones(8, 4), torch.zeros(8, 2))] * 40:",
            "    loss = torch.nn.functional.mse_loss(model(x), y)",
            "    optimizer.zero_grad(); loss.backward(); optimizer.step()",
        )
        (tmp_path / "train.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
        told = run_cli("explain", "train.py", cwd=tmp_path)
        assert "timed region   lines 5-6, up to loss.backward() (fwd+bwd)" in told.stdout

    def test_where_a_warning_can_be_ignored_is_said(self, tmp_path: Path, run_cli: RunCli) -> None:
        told = run_cli("explain-warning", "W201", cwd=tmp_path).stdout
        assert "  ignore  --ignore-warnings W201 (of run, tune and explain), or in " in told

    def test_options_behind_the_script_are_told_by_compare_too(
        self, git_repo: RepoFactory, run_cli: RunCli
    ) -> None:
        repo = git_repo({"train.py": script()})
        told = run_cli("compare", "--refs", "HEAD..", "train.py", "--pairs", "10", cwd=repo)
        assert told.returncode == 2 and "there is nothing to compare" in told.stderr
        passed = "Passed to train.py: --pairs (options of instrument go before the script)"
        assert passed in told.stdout + told.stderr

    def test_warnings_are_listed_and_one_that_there_is_not_has_its_neighbours(
        self, tmp_path: Path, run_cli: RunCli
    ) -> None:
        listed = run_cli("explain-warning", cwd=tmp_path)
        assert listed.returncode == 0
        assert "W201  The machine was busy (busy-machine)\n" in listed.stdout
        for word, hint in (("busy", "Did you mean W201 (busy-machine), W226 (busy-extra-steps)?"),
                           ("W999", "Which there are: instrument explain-warning")):  # fmt: skip
            refused = run_cli("explain-warning", word, cwd=tmp_path)
            assert refused.returncode == 2
            assert refused.stderr == f"error: {word} is no warning\nhint: {hint}\n"

    @pytest.mark.parametrize("verb", ["explain", "--dry-run", "run --dry-run"])
    def test_a_scripts_own_m_is_no_module(
        self, git_repo: RepoFactory, run_cli: RunCli, verb: str
    ) -> None:
        repo = git_repo({"train.py": script()})
        done = run_cli(*verb.split(), "train.py", "-c", "x", "-m", "model", cwd=repo)
        assert done.returncode == 0, done.stderr
        assert "train.py -c x -m model" in (done.stdout + done.stderr).rpartition("Next: ")[2]

    def test_an_unknown_module_is_named(self, tmp_path: Path, run_cli: RunCli) -> None:
        done = run_cli("run", "-m", "pkg.train", cwd=tmp_path)
        assert done.returncode == 2
        assert "-m pkg.train: no such module" in done.stderr

    @pytest.mark.parametrize(
        ("typed", "message", "hint"),
        [
            ("dry-run", "'dry-run' is neither", "Did you mean: instrument --dry-run"),
            ("help", "'help' is neither", "Did you mean: instrument --help"),
            ("rnu", "'rnu' is neither a command nor a script", "Did you mean: instrument run"),
            ("nothing", "neither a command nor a script", "Commands: run, preview, explain"),
            ("folder", "a folder, not a script", "explain --summary"),
            ("notes.ipynb", "a notebook, not a script", "nbconvert --to script"),
        ],
    )
    def test_what_is_no_script_is_named(
        self, tmp_path: Path, run_cli: RunCli, typed: str, message: str, hint: str
    ) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "notes.ipynb").write_text("{}")
        done = run_cli(typed, cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
        assert hint in done.stderr

    def test_the_scripts_options_need_no_dashes(
        self, git_repo: RepoFactory, run_cli: RunCli
    ) -> None:
        repo = git_repo({"train.py": script()})
        done = run_cli("explain", "--json", "train.py", "--config", "x.yaml", cwd=repo)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["eligible"]

    @pytest.mark.parametrize("verb", ["explain", "--dry-run", "run --dry-run"])
    def test_what_follows_the_script_is_the_scripts(
        self, git_repo: RepoFactory, run_cli: RunCli, verb: str
    ) -> None:
        repo = git_repo({"train.py": script()})
        done = run_cli(*verb.split(), "train.py", "--steps", "8", cwd=repo)
        assert "Passed to train.py: --steps" in done.stderr
        assert "train.py --steps 8\n" in done.stdout + done.stderr

    def test_what_most_need_comes_first(
        self, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("COLUMNS", "100")
        heads = [f" {panel} " for panel in PANELS]
        text = run_cli("run", "-h", cwd=tmp_path).stdout
        assert [text.index(head) for head in heads] == sorted(map(text.index, heads))
        usual = text.partition(heads[0])[2].partition(heads[1])[0]
        assert all(flag in usual for flag in ("--steps", "--dry-run", "--output", "-m"))
        assert "--tracy-tools-folder" not in text.partition(heads[-1])[0]
        assert "<bool>" not in text + run_cli("-h", cwd=tmp_path).stdout

    def test_every_option_has_its_panel(self) -> None:
        for name, command in COMMANDS.items():
            for option in options_of(command).values():
                assert option.rich_help_panel != "Options", f"{name} {option.name}"


# -- what is documented ------------------------------------------------------------------------


def _rows(page: str, heading: str) -> list[list[str]]:
    """Cells of the table below a heading of a page of the documentation."""
    page_text = (DOCS / page).read_text(encoding="utf-8")
    section = page_text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_option_is_documented(request: pytest.FixtureRequest) -> None:
    page = OPTIONS_PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--update-goldens"):
        OPTIONS_PAGE.write_text(options_table.put(page), encoding="utf-8")
    else:
        assert options_table.put(page) == page, "pytest tests/cli/test_main.py --update-goldens"


def test_the_help_names_every_pass() -> None:
    for command in ("run", "explain", "apply"):
        said = options_of(commands()[command])["--only"].help
        assert said and all(re.search(rf"\b{name}\b", said) for name in PASSES), command


def test_every_exit_code_is_documented() -> None:
    assert [int(row[0]) for row in _rows("running.md", "Exit codes")] == list(EXIT_CODES)


def test_every_verb_that_is_named_to_the_user_exists() -> None:
    verbs = {name.split()[0] for name in commands()}
    for path in sorted((ROOT / "instrumentor").rglob("*.py")):
        for name in re.findall(r"(?:`|Next: )instrument ([a-z]+)", path.read_text("utf-8")):
            assert name in verbs, f"{path.name} names instrument {name}"


def test_every_verb_is_documented_and_has_help() -> None:
    pages = [ROOT / "README.md", *DOCS.glob("*.md")]
    documentation = "".join(page.read_text(encoding="utf-8") for page in pages)
    for name, command in COMMANDS.items():
        assert f"instrument {name}" in documentation
        assert command.help
        assert all(p.help for p in options_of(command).values())


def test_version_and_help(run_cli: RunCli, tmp_path: Path) -> None:
    assert re.fullmatch(r"instrument \d+\.\d+\.\d+\n", run_cli("--version", cwd=tmp_path).stdout)
    shown = run_cli("--help", cwd=tmp_path).stdout
    for code in EXIT_CODES:
        assert re.search(rf"\b{code}\b", shown)
    listed = " ".join(shown.partition("Exit codes:")[2].split()).rstrip(".").split(", ")
    assert [int(each.split()[0]) for each in listed] == list(EXIT_CODES), "no clause stands alone"
    assert "..." not in shown.partition("Commands:")[2], "a short help is cut off"
    for name in COMMANDS:
        assert run_cli(*name.split(), "--help", cwd=tmp_path).returncode == 0
    assert run_cli(cwd=tmp_path).returncode in (0, 2)


def on_a_terminal(cwd: Path, *arguments: str, **env: str) -> str:
    """What a command prints on a pseudo-terminal."""
    near, far = pty.openpty()
    wanted = {**os.environ, "NO_COLOR": "", "TERM": "xterm", **env}
    command = [sys.executable, "-m", "instrumentor", *arguments]
    with subprocess.Popen(command, cwd=cwd, env=wanted, stdin=far, stdout=far, stderr=far):
        os.close(far)
        with os.fdopen(near, "rb", buffering=0) as stream:
            return b"".join(iter(lambda: _read(stream), b"")).decode()


def _read(stream: io.FileIO) -> bytes:
    try:
        return stream.read(4096) or b""
    except OSError:  # EIO: the other end is closed
        return b""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "-h"], ["kernel"], ["run", "--bogus"], ["nosuch.py"]]
)
def test_a_terminal_without_colours_gets_no_escape_sequences(
    arguments: list[str], tmp_path: Path
) -> None:
    assert "\x1b" not in on_a_terminal(tmp_path, *arguments, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(tmp_path, *arguments, TERM="dumb")
    if arguments != ["run", "--bogus"]:
        assert "\x1b[" in on_a_terminal(tmp_path, *arguments)


def test_the_shell_completes_verbs_options_and_their_values(
    run_cli: RunCli, tmp_path: Path
) -> None:
    def completed(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        asked = {"_INSTRUMENT_COMPLETE": "complete_bash", **words}
        return run_cli(cwd=tmp_path, env=asked).stdout.split()

    assert completed("instrument ru") == ["run"]
    assert completed("instrument run --warm") == ["--warmup"]
    assert completed("instrument run --profiler w") == ["wallclock"]
    assert completed("instrument kernel r") == ["run", "report"]
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # not the one the tests run in
    shown = run_cli("--show-completion", "bash", cwd=tmp_path, env=named).stdout
    assert "_INSTRUMENT_COMPLETE=complete_bash" in shown and " instrument\n" in shown


def test_the_skill_is_printed(run_cli: RunCli, tmp_path: Path) -> None:
    printed = run_cli("skill", cwd=tmp_path).stdout
    assert printed == (ROOT / "instrumentor" / "cli" / "SKILL.md").read_text(encoding="utf-8")
    assert printed.startswith("---\nname: ")
    for verb in re.findall(r"instrument ([a-z]+)", printed):
        assert verb in {name.split()[0] for name in COMMANDS}


def test_what_the_skill_and_its_page_name_exists() -> None:
    offered = {flag for command in COMMANDS.values() for flag in options_of(command)} | {"--help"}
    skill = (ROOT / "instrumentor" / "cli" / "SKILL.md").read_text(encoding="utf-8")
    page = (DOCS / "skill.md").read_text(encoding="utf-8")
    for flag in re.findall(r"[`( ](--[a-z][\w-]+)", skill + page):
        assert flag in offered, flag
    rows = re.findall(r"^   \| ((?:`[\w.]+`(?:, )?)+) \|", skill, re.MULTILINE)
    keys = {key for row in rows for key in re.findall(r"`(\w+)", row)}
    assert len(keys) >= 10 and keys <= set(Summary(profiler="tracy").to_json())
