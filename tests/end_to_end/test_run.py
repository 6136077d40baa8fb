"""`instrument run` as a user types it: real processes, real repositories, no trace left behind."""

from __future__ import annotations

import json
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import RepoFactory, RunCli, git
from tests.end_to_end.conftest import Measure
from tests.end_to_end.small import beside_noise, read, records, script
from tests.warned import texts

FILES = {"changes.diff", "plan.json", "report.html", "run.json", "run.log", "summary.json",
         "summary.md", "timings.jsonl"}  # fmt: skip


def test_a_run_from_script_to_summary(git_repo: RepoFactory, measure: Measure) -> None:
    repo = git_repo({"train.py": script()})
    ran = measure(repo, "train.py")
    assert ran.code == 0, ran.err
    assert {p.name for p in ran.folder.iterdir()} == FILES

    summary = read(ran.folder)
    assert summary["schema"] == "instrument-summary/1"
    assert (summary["profiler"], summary["scope"]) == ("wallclock", "fwd+bwd")
    wall = summary["wall_clock_ms"]
    assert wall["samples"] == 4
    assert 2 <= wall["min"] <= wall["median"] <= wall["max"]
    assert wall["cpu"] > 0
    assert wall["compile"] >= 2
    for name in ("device_time_ms", "overhead_percent", "dispatch_ms_per_op", "host_bound"):
        assert summary[name] is None
    assert summary["script_exit_code"] == 0
    assert beside_noise(summary["warnings"]) == []
    assert all((ran.folder / path).exists() for path in summary["artifacts"].values())

    facts = read(ran.folder, "run.json")
    assert facts["schema"] == "instrument-run/1"
    assert facts["script"] == str(repo / "train.py")
    assert facts["git_commit"] == git(repo, "rev-parse", "HEAD").strip()
    assert (facts["partial"], facts["interrupted"], facts["git_dirty"]) == (False, False, False)
    assert facts["loop"] == {"file": str(repo / "train.py"), "line": 34, "found_by": "reading"}

    assert "[TIMER] Step 1: fwd+bwd = " in ran.log
    assert "[TIMER] Summary" in ran.log
    assert " ms, median of 4 steps, " in ran.out
    assert read(ran.folder, "plan.json")["schema"] == "instrument-plan/1"


def test_progress_is_plain_lines_where_there_is_no_terminal(measured: Measure) -> None:
    ran = measured(script(), env={"NO_COLOR": ""})
    lines = ran.err.splitlines()
    assert not {"\x1b", "\r"} & set(ran.err + ran.out)
    said = [line.partition("] ")[2] for line in lines if line.startswith("[")]
    assert said[0] == "Found the loop at train.py:34 (forward 36, backward 37, counter batch 34)"
    assert said[1] == "Profiler wallclock: asked for"
    assert said[2].startswith("Copied 1 file to ")
    assert said[3] == "Running 5 steps with timers alone"
    assert [line.split()[:2] for line in said[4:9]] == [["step", f"{n}:"] for n in range(5)]
    assert said[4].endswith("(first step)")
    assert said[9].strip() == "all 5 samples are taken; stopping the script"
    assert lines[-2].startswith("Page: file:///") and lines[-2].endswith("/repo-1/report.html")
    assert [lines[-3], lines[-1]] == [
        "Wrote instrument-runs/repo-1/ (your files were not touched)",
        "Next: instrument report instrument-runs/repo-1",
    ]


def test_colours_only_where_they_are_wanted(git_repo: RepoFactory, measure: Measure) -> None:
    repo = git_repo({"train.py": script()})
    coloured = measure(repo, "train.py", env={"NO_COLOR": "", "FORCE_COLOR": "1"})
    assert "\x1b[" in coloured.err
    plain = measure(repo, "train.py", env={"NO_COLOR": "1", "FORCE_COLOR": "1"},
                    folder="instrument-runs/repo-2")  # fmt: skip
    assert "\x1b" not in plain.err + plain.out


def test_quiet_and_json(git_repo: RepoFactory, measure: Measure) -> None:
    repo = git_repo({"train.py": script()})
    quiet = measure(repo, "--quiet", "train.py")
    assert quiet.err == ""
    assert "\nfwd+bwd  " in quiet.out
    ran = measure(repo, "--json", "train.py", folder="instrument-runs/repo-2")
    assert ran.err == ""
    document = json.loads(ran.out)
    assert document.pop("folder") == str(ran.folder)
    assert document == read(ran.folder)


def test_verbose_shows_the_output_of_the_script(measured: Measure) -> None:
    assert "  | hello\n" in measured(script(before="print('hello')"), "--verbose").err


@pytest.mark.parametrize(
    ("path", "options", "names"),
    [
        ("mnist/train.py", (), tuple(f"instrument-runs/mnist-{n}" for n in (1, 2, 3))),
        ("mnist/finetune.py", (), ("instrument-runs/finetune-1",)),
        ("mnist/main.py", ("--label", "bf16"), ("instrument-runs/mnist_bf16-1",)),
        ("run.py", ("--output", "out/first"), ("out/first",)),
    ],
)
def test_the_run_folder_has_a_name_and_is_never_overwritten(
    git_repo: RepoFactory,
    measure: Measure,
    path: str,
    options: tuple[str, ...],
    names: tuple[str, ...],
) -> None:
    repo = git_repo({path: script()})
    for name in names:
        assert measure(repo, *options, path, folder=name).code == 0
    assert read(repo / names[0], "run.json")["label"] == ("bf16" if "bf16" in options else "")


@pytest.mark.parametrize("taken", ["out", "out-2"])
def test_a_folder_that_is_taken_is_an_error_before_anything_runs(
    git_repo: RepoFactory, run_cli: RunCli, taken: str
) -> None:
    repo = git_repo({"train.py": script(), f"{taken}/run.json": "{}"})
    repeat = ("--repeat", "2") if taken == "out-2" else ()
    done = run_cli("run", *repeat, "--output", "out", "train.py", cwd=repo)
    assert done.returncode == 2
    assert done.stdout == "" and "Running" not in done.stderr
    assert f"error: {taken} is not empty" in done.stderr
    assert "hint: Name a new folder" in done.stderr
    assert sorted(path.name for path in repo.glob("out*")) == [taken]
    assert (repo / taken / "run.json").read_text() == "{}"


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_behind_a_script_starts_nothing(
    git_repo: RepoFactory, run_cli: RunCli, word: str
) -> None:
    repo = git_repo({"train.py": script()})
    done = run_cli("run", "train.py", word, cwd=repo)
    assert done.returncode == 0
    assert "Usage: instrument run" in done.stdout
    assert f"The script's own options: python3 train.py {word}" in done.stderr
    assert not (repo / "instrument-runs").exists()


ARGUMENTS = (
    *("--config", "x.yaml", "--steps", "99", "--label=other", "-o", "z", "--help", "--dry-run"),
    *("two words", "", "it's", 'a "quote"', "$HOME", "*", "--", "-h", "\u00e9", "back\\slash"),
    *(";touch pwned", "$(touch pwned)", "`touch pwned`", "a\nb"),
)


@pytest.mark.parametrize(
    "options", [("wallclock",), ("tracy",), ("tracy", "--in-place")], ids=" ".join
)
def test_everything_behind_the_script_is_its_own_in_folders_of_any_name(
    git_repo: RepoFactory,
    measure: Measure,
    tracy: dict[str, str],
    tmp_path: Path,
    options: tuple[str, ...],
) -> None:
    """Tracy hands its command to a shell; spaces and signs in the user's paths must not matter."""
    said = (
        "print(json.dumps(sys.argv))\n"
        "print('first', sys.path[0] == os.path.dirname(os.path.abspath(sys.argv[0])))\n"
        "print('same', __file__ == os.path.abspath(sys.argv[0]))"
    )
    source = script(imports="import json\n", before=said)
    path, out = "my exp; rm -rf x/train it.py", tmp_path / "out & more"
    repo = git_repo({path: source, "x.yaml": "lr: 1\n"}, name="a b'c $HOME;x")
    ran = measure(
        *(repo, *options[1:], "--steps", "4", "--output", out, path, *ARGUMENTS),
        profiler=options[0], env=tracy, folder=str(out),
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert read(ran.folder)["op_count"] == (18 if options[0] == "tracy" else None)
    seen = json.loads(next(line for line in ran.log.splitlines() if line.startswith('["')))
    assert tuple(seen[1:]) == ARGUMENTS
    assert seen[0] == path  # as typed
    assert "first True\n" in ran.log and "same True\n" in ran.log
    assert read(ran.folder, "run.json")["arguments"] == list(ARGUMENTS)
    assert len(records(ran.folder, "sample")) == 4
    assert not list(repo.rglob("pwned"))


def test_the_script_works_where_the_user_stands(git_repo: RepoFactory, measure: Measure) -> None:
    before = (
        "from pathlib import Path\n"
        "print('at', Path(__file__).parent.relative_to(Path.cwd()))\n"
        "print('read', open('notes.txt').read())\n"
        "import helper\n"
        "print('helper', helper.WORD)\n"
        "import subprocess\n"
        "subprocess.run(['git', 'log', '--oneline'], check=True)\n"
        "print('wandb', os.environ['WANDB_MODE'])"
    )
    repo = git_repo({"sub/exp/train.py": script(before=before), "sub/notes.txt": "committed",
                     "sub/exp/helper.py": "WORD = 1\n"})  # fmt: skip
    (repo / "sub" / "notes.txt").write_text("edited")
    (repo / "sub" / "exp" / "helper.py").write_text("WORD = 'not committed'\n")
    done = measure_dirty(repo, measure, cwd=repo / "sub")
    for line in ("at exp", "read edited", "helper not committed", "wandb disabled"):
        assert f"{line}\n" in done


def measure_dirty(repo: Path, measure: Measure, cwd: Path) -> str:
    """Like measure, in a repository whose files differ from the commit."""
    git(repo, "update-index", "--assume-unchanged", "sub/notes.txt", "sub/exp/helper.py")
    ran = measure(repo, "exp/train.py", cwd=cwd, folder="instrument-runs/exp-1")
    assert ran.code == 0, ran.err
    return ran.log


def test_modes_and_odd_bytes_survive(git_repo: RepoFactory, measure: Measure) -> None:
    source = script().replace("\n", "\r\n").rstrip().encode() + "  # caf\u00e9".encode()
    repo = git_repo({"train.py": b"\xef\xbb\xbf" + source})
    (repo / "train.py").chmod(0o750)
    git(repo, "commit", "--quiet", "--all", "--message", "Executable")
    assert measure(repo, "train.py").code == 0
    assert stat.S_IMODE((repo / "train.py").stat().st_mode) == 0o750


def test_files_that_the_script_writes(git_repo: RepoFactory, measure: Measure) -> None:
    repo = git_repo(
        {"train.py": script(before="os.makedirs('ckpt')\nopen('ckpt/a.txt', 'w').write('x')")}
    )
    ran = measure(repo, "train.py")
    assert "The script wrote ckpt/a.txt into the copy (kept with --keep)" in ran.err
    assert not (repo / "ckpt").exists()
    kept = measure(repo, "--keep", "train.py", folder="instrument-runs/repo-2")
    assert (kept.folder / "files" / "ckpt" / "a.txt").read_text() == "x"
    assert read(kept.folder, "run.json")["new_files"] == ["ckpt/a.txt"]


def test_linked_folders(git_repo: RepoFactory, measure: Measure) -> None:
    check = "print('link', os.path.islink('corpus'), os.path.islink('data'))"
    repo = git_repo(
        {"train.py": script(before=check), "corpus/a.txt": "a", ".gitignore": "/data/\n"}
    )
    (repo / "data").mkdir()
    (repo / "data" / "b.bin").write_bytes(b"b")
    assert "link False True" in measure(repo, "train.py").log
    chosen = measure(
        repo, "--link", "corpus", "--no-link", "data", "train.py", folder="instrument-runs/repo-2"
    )
    assert "link True False" in chosen.log


def linking_repo(git_repo: RepoFactory, before: str = "pass") -> Path:
    """A repository with an ignored folder of data, which a copy links to."""
    repo = git_repo({"train.py": script(before=before), ".gitignore": "/data/\n"})
    (repo / "data" / "cached").mkdir(parents=True)
    (repo / "data" / "tokens.bin").write_bytes(b"tokens")
    return repo


WRITES = (
    "open('data/tokens.bin', 'wb').write(b'TOKENS')\nopen('data/cached/new.bin', 'w').write('n')"
)
CHANGED = (
    "your own files changed during the run: data/tokens.bin, data/cached/new.bin; "
    "they are linked, not copied: --no-link data copies them"
)


def test_what_is_linked_is_named(git_repo: RepoFactory, measure: Measure) -> None:
    ran = measure(linking_repo(git_repo), "train.py")
    assert "] Linked data (your own, not copied; watched)\n" in ran.err
    assert "Wrote instrument-runs/repo-1/ (your files were not touched)\n" in ran.err
    facts = read(ran.folder, "run.json")
    assert (facts["linked"], facts["linked_changed"]) == (["data"], [])
    assert facts["linked_whole"] is True


def test_writing_through_a_link_is_told(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = linking_repo(git_repo, WRITES)
    done = run_cli("run", "--profiler", "wallclock", "train.py", cwd=repo)
    assert done.returncode == 0, done.stderr
    assert "not touched" not in done.stderr
    assert (
        "Wrote instrument-runs/repo-1/ (files in linked folders changed: see above)" in done.stderr
    )
    assert CHANGED in texts(read(repo / "instrument-runs/repo-1")["warnings"])
    assert "--no-link data" in done.stdout
    facts = read(repo / "instrument-runs/repo-1", "run.json")
    assert facts["linked_changed"] == ["data/tokens.bin", "data/cached/new.bin"]


def test_writing_through_a_tracked_link_out_of_the_project_is_told(
    git_repo: RepoFactory, run_cli: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "results.csv").write_text("of years")
    repo = git_repo({"train.py": script(before="open('results.csv', 'w').write('gone')")})
    (repo / "results.csv").symlink_to("../results.csv")
    git(repo, "add", "results.csv")
    done = run_cli("run", "--profiler", "wallclock", "train.py", cwd=repo)
    assert "] Linked results.csv (your own, not copied; watched)\n" in done.stderr
    assert "not touched" not in done.stderr and "results.csv; they are linked" in done.stdout
    (tmp_path / "results.csv").write_text("of years")
    copy = ("--no-link", "results.csv")
    done = run_cli("run", "--profiler", "wallclock", *copy, "train.py", cwd=repo)
    assert "(your files were not touched)" in done.stderr
    assert (tmp_path / "results.csv").read_text() == "of years"


def test_a_copied_folder_is_not_written_through(git_repo: RepoFactory, measure: Measure) -> None:
    ran = measure(linking_repo(git_repo, WRITES), "--no-link", "data", "train.py")
    assert ran.code == 0 and "(your files were not touched)" in ran.err


def test_a_script_that_failed_before_the_loop_may_have_written(
    git_repo: RepoFactory, run_cli: RunCli
) -> None:
    repo = linking_repo(git_repo, f"{WRITES}\nsys.exit(3)")
    done = run_cli("run", "--profiler", "wallclock", "train.py", cwd=repo)
    assert done.returncode != 0
    assert f"warning: {CHANGED}" in done.stderr


def test_a_plain_locale_is_no_obstacle(git_repo: RepoFactory, run_cli: RunCli) -> None:
    repo = git_repo({"train.py": script()})
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run_cli("run", "--profiler", "wallclock", "train.py", cwd=repo, env=env, fresh=True)
    assert done.returncode == 0, done.stderr
    assert "wallclock - fwd+bwd" in done.stdout and done.stdout.isascii()


def test_what_the_script_says_does_not_steer_the_terminal(
    git_repo: RepoFactory, run_cli: RunCli
) -> None:
    name = "tr\x1b]0;owned\x07.py"
    title = "\\x1b]0;owned\\x07"
    repo = git_repo({name: script(before=f"print('{title}', flush=True); sys.exit('{title}')")})
    done = run_cli("run", "-v", "--profiler", "wallclock", name, cwd=repo)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout + done.stderr and "\x07" not in done.stdout + done.stderr
    assert f"  | {title}\n" in done.stderr and f"Found the loop at tr{title}.py" in done.stderr


def test_a_limit_on_files_is_told(git_repo: RepoFactory) -> None:
    repo = git_repo({"train.py": script()})
    command = f"{shlex.quote(sys.executable)} -m instrumentor run --profiler wallclock train.py"
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 8; {command}"], cwd=repo, capture_output=True, text=True
    )
    assert done.returncode == 4 and "Traceback" not in done.stderr
    assert re.search(
        r"error: (.+: )?File too large\nhint: Raise the limit on the size of files", done.stderr
    )


@pytest.mark.parametrize("profiler", ["wallclock", "tracy"])
def test_an_absolute_path_stays_one(
    measure: Measure, git_repo: RepoFactory, tracy: dict[str, str], profiler: str
) -> None:
    said = "print([os.path.isabs(sys.argv[0]), __file__ == sys.argv[0]])"
    repo = git_repo({"train.py": script(before=said)})
    ran = measure(repo, repo / "train.py", profiler=profiler, env=tracy)
    assert "[True, True]" in ran.log, ran.err


def test_warmup_steps_are_no_steady_ones(measured: Measure) -> None:
    ran = measured(script(), "--steps", "7", "--warmup", "3")
    kinds = [r["kind"] for r in records(ran.folder, "sample")]
    assert kinds == ["compile", "warmup", "warmup", *["steady"] * 4]
    assert read(ran.folder)["wall_clock_ms"]["samples"] == 4


def test_scope_step_times_the_optimizer_too(measured: Measure) -> None:
    ran = measured(
        script().replace(
            "    def step(self):\n        pass", "    def step(self):\n        time.sleep(0.02)"
        ),
        "--scope",
        "step",
    )
    summary = read(ran.folder)
    assert summary["scope"] != "fwd+bwd"
    assert summary["wall_clock_ms"]["min"] >= 20


TWO_LOOPS = script().replace(
    "def main():", "def other(batches):\n    optimizer = Optimizer()\n"
    "    for batch in range(batches):\n        loss = model(batch)\n        loss.backward()\n"
    "        optimizer.step()\n        optimizer.zero_grad()\n\n\ndef main():\n    other(3)\n",
)  # fmt: skip


def test_several_loops_want_a_choice(git_repo: RepoFactory, measure: Measure) -> None:
    repo = git_repo({"train.py": TWO_LOOPS})
    declined = measure(repo, "train.py")
    assert declined.code == 3
    assert "--loop" in declined.err
    assert not declined.folder.exists()
    chosen = measure(repo, "--loop", "train.py:34", "train.py")
    assert chosen.code == 0, chosen.err
    assert read(chosen.folder, "run.json")["loop"]["line"] == 34


def test_a_dry_run_of_a_run_shows_command_and_environment(
    git_repo: RepoFactory, measure: Measure
) -> None:
    repo = git_repo({"train.py": script()})
    ran = measure(repo, "--dry-run", "train.py", "--config", "a b.yaml")
    assert ran.code == 0, ran.err
    assert not ran.folder.exists()
    assert ran.out.startswith("--- a/train.py\n+++ b/train.py\n")
    assert "Would copy 1 file" in ran.err
    assert "INSTRUMENT_PROFILER=wallclock" in ran.err
    assert "train.py --config 'a b.yaml'" in ran.err
    document = json.loads(measure(repo, "--dry-run", "--json", "train.py", "x").out)
    assert document["command"][-1] == "x"
    assert document["environment"]["WANDB_MODE"] == "disabled"
    assert document["diff"] == ran.out


def test_options_behind_the_script_are_the_scripts_and_that_is_said(
    git_repo: RepoFactory, measure: Measure
) -> None:
    repo = git_repo({"train.py": script()})
    ran = measure(repo, "--dry-run", "train.py", "--steps=9", "--lr", "3", "--profiler", "torch")
    assert "Passed to train.py: --steps=9 --profiler (options of instrument go before" in ran.err
    assert "stop after 9 steps" not in ran.err
    asked = measure(repo, "--dry-run", "train.py", "--help")
    assert "Passed to train.py: --help (" in asked.err
    plain = measure(repo, "--dry-run", "train.py", "--lr", "3", "--steps-per-epoch", "4")
    assert "Passed to" not in plain.err


def test_a_script_that_fails_at_an_option_of_ours_is_told_whose_it_was(
    git_repo: RepoFactory, measure: Measure
) -> None:
    repo = git_repo({"train.py": "import sys\nassert len(sys.argv) == 1\n" + script()})
    ran = measure(repo, "train.py", "--steps", "9")
    assert ran.code == 1
    assert "hint: --steps: passed to train.py, since it stood behind the script." in ran.err


def test_an_option_behind_the_script_that_was_probably_mistyped_is_asked_about(
    git_repo: RepoFactory, run_cli: RunCli
) -> None:
    repo = git_repo({"train.py": f"{script()}\n# --step_s 3\n"})

    def told(verb: str, *words: str) -> str:
        done = run_cli(*verb.split(), "train.py", *words, cwd=repo)
        assert done.returncode == 0, done.stderr
        return "\n".join(line for line in done.stderr.splitlines() if "is passed to" in line)

    asked = "--stepz is passed to train.py; did you mean --steps?"
    assert told("run --dry-run", "--stepz=5", "--lr", "--model", "--step-s", "--steps") == asked
    typed = told("run --dry-run", "--dry-rnu", "--stepz", "5")
    assert typed == f"--dry-rnu is passed to train.py; did you mean --dry-run?\n{asked}"
    assert told("explain", "--stepz", "5") == asked


def test_report_renders_an_earlier_run_again(
    git_repo: RepoFactory, measure: Measure, run_cli: RunCli
) -> None:
    repo = git_repo({"train.py": script()})
    ran = measure(repo, "train.py")
    before = read(ran.folder)
    (ran.folder / "summary.json").unlink()
    again = run_cli("report", "instrument-runs/latest", cwd=repo)
    assert again.returncode == 0 and "Wall clock, 4 steady steps" in again.stdout
    assert read(ran.folder) == before
    assert json.loads(run_cli("report", "--json", ran.folder, cwd=repo).stdout) == before


def test_outside_of_git(tmp_path: Path, measure: Measure) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "train.py").write_text(script())
    ran = measure(folder, "train.py", folder="instrument-runs/plain-1")
    assert ran.code == 0, ran.err
    assert read(ran.folder, "run.json")["git_commit"] is None
