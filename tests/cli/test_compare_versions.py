"""Which two versions a command line means, and the sentence in the end."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor.cli.common import Shown
from instrumentor.cli.compare_versions import (
    PairOptions,
    _commit,
    _hopeless,
    _pairs,
    _resumed,
    _show,
    _Wanted,
    _wanted,
    _warn_of_few,
    are_scripts,
    compare_versions,
    parse_refs,
    progress_of,
    show_earlier,
    statement,
)
from instrumentor.run.launchers import Started
from instrumentor.run.options import RunOptions
from instrumentor.run.pairs import MOST_PAIRS, Command, Measured, Pair, Paired, Version, judged
from instrumentor.shared.errors import NotReady, UsageError
from instrumentor.shared.project import find_project
from instrumentor.tune.settings import parsed
from instrumentor_analysis.compare.paired import (
    FALSE_VERDICT,
    MISSED,
    Outcome,
    Verdict,
    fewest_pairs,
    verdict,
)
from instrumentor_analysis.model import Interval
from tests.attackers import NOBODY, TWO_USERS
from tests.conftest import RepoFactory, git


def again_with(paired: Paired, pairs: int | None) -> str:
    return f"instrument compare {pairs}"


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("main..HEAD", ("main", "HEAD")),
        ("main...HEAD", ("main...HEAD", "HEAD")),
        ("HEAD..", ("HEAD", "WORKTREE")),
        ("HEAD", ("HEAD", "WORKTREE")),
        ("v1.0..v1.1", ("v1.0", "v1.1")),
        ("main..WORKTREE", ("main", "WORKTREE")),
    ],
)
def test_refs(text: str, ends: tuple[str, str]) -> None:
    assert parse_refs(text) == ends


@pytest.mark.parametrize("text", ["..HEAD", "WORKTREE..HEAD", "..."])
def test_refs_without_a_base(text: str) -> None:
    with pytest.raises(UsageError, match="names no base"):
        parse_refs(text)


def test_finished_runs_are_no_scripts() -> None:
    assert not are_scripts(["run_a", "@last"], PairOptions())
    assert are_scripts(["a.py"], PairOptions())
    assert are_scripts(["-m"], PairOptions(refs="main.."))


def test_versions_differ_in_one_thing() -> None:
    words = ["train.py", "--config", "a.yaml"], ["train.py", "--config", "b.yaml"]
    base, new = _wanted(words, PairOptions())
    assert (base.name, new.started.arguments) == (
        "train.py --config a.yaml",
        ("--config", "b.yaml"),
    )
    base, new = _wanted([["train.py"]], PairOptions(pythons=("py310", "py312")))
    assert (base.python, new.python) == ("py310", "py312")
    base, new = _wanted([["train.py"]], PairOptions(set="batch_size=64"))
    assert (base.setting, new.setting) == ("", "batch_size=64")
    for groups, options in [
        ([["train.py"]], PairOptions()),
        (words, PairOptions(refs="main..")),
        ([["train.py"]], PairOptions(refs="main..", set="batch_size=64")),
        ([["train.py"]], PairOptions(pythons=("one",))),
    ]:
        with pytest.raises(UsageError):
            _wanted(groups, options)


def test_a_setting_is_one_of_tunes() -> None:
    assert parsed("batch_size=48") == ("batch_size", 48)
    assert parsed("trace=on") == ("trace", True)
    assert parsed("dtype=bfloat16") == ("dtype", "bfloat16")
    with pytest.raises(UsageError, match="dtype takes bfloat16"):
        parsed("dtype=float64")


@pytest.mark.parametrize(
    ("outcome", "ratio", "ends", "said"),
    [
        ("faster", 0.968, (0.962, 0.973), "HEAD is 3.2 % faster than main (95 %: 2.7 to 3.8 %), "),
        ("slower", 1.05, (1.02, 1.08), "HEAD is 5.0 % slower than main (95 %: 2.0 to 8.0 %), "),
        ("slower", 1.05, None, "HEAD is 5.0 % slower than main, "),
        (
            "same",
            1.001,
            (0.995, 1.006),
            "no difference of 1 % or more between main and HEAD (95 %: -0.5 to +0.6 %), ",
        ),
        (
            "undecided",
            1.01,
            (0.95, 1.08),
            "9 pairs, no verdict yet: HEAD takes 5.0 % less to 8.0 % more time than main (95 %)",
        ),
    ],
)
def test_the_verdict_is_a_sentence(
    outcome: Outcome, ratio: float, ends: tuple[float, float] | None, said: str
) -> None:
    interval = None if ends is None else Interval(*ends, 0.95)
    sides = [Version(name, Path("train.py"), (), RunOptions()) for name in ("main", "HEAD")]
    found = Verdict(outcome, ratio, interval, 9, 1.0)
    paired = Paired(Path("out"), *sides, (), "iteration", False, found, 240.0)
    assert statement(paired) == (said if outcome == "undecided" else f"{said}9 pairs")


@pytest.mark.parametrize(
    ("new_ms", "said"),
    [
        (
            [20.0] * 6,
            "HEAD was faster than main in 6 of 6 pairs; no verdict before 10 pairs",
        ),
        (
            [77.0, 77.0, 60.0],
            "HEAD was faster than main in 1 of 3 pairs; no verdict before 10 pairs",
        ),
        (
            [80.0, 40.0],
            "HEAD was faster than main in 1 of 2 pairs; no verdict before 10 pairs",
        ),
        (
            [80.0],
            "HEAD was faster than main in 0 of 1 pair; no verdict before 10 pairs",
        ),
    ],
)
def test_too_few_pairs_say_what_they_show_and_how_many_it_takes(
    new_ms: list[float], said: str
) -> None:
    sides = [Version(name, Path("train.py"), (), RunOptions()) for name in ("main", "HEAD")]
    pairs = [
        Pair("base", *(Measured("run", {"iteration": each}) for each in (70.0, ms)))
        for ms in new_ms
    ]
    assert statement(judged(Path("out"), sides[0], sides[1], pairs, 1.0, None)) == said


def test_an_interrupted_comparison_says_so_and_asks_for_no_other_number_of_pairs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sides = [Version(name, Path("train.py"), (), RunOptions()) for name in ("main", "HEAD")]
    pairs = [
        Pair("base", *(Measured("run", {"iteration": each}) for each in (70.0, ms)))
        for ms in (80.0, 40.0)
    ]
    paired = judged(Path("out"), sides[0], sides[1], pairs, 1.0, None)
    _show(replace(paired, interrupted=True), Shown(), again_with)
    told = capsys.readouterr()
    assert "in 1 of 2 pairs; interrupted before the 10 that a verdict needs, 0 s" in told.out
    assert "--pairs" not in told.err and "Next: instrument compare None  # until" in told.err


@pytest.mark.parametrize(
    ("pairs", "few", "said"),
    [
        (None, False, "--steps 6 --pairs 12 --resume out"),
        (None, True, "--steps 6 --resume out"),  # 40 of them, not too few again
        (40, True, "--steps 6 --resume out --pairs 40"),
    ],
)
def test_pairs_are_gone_on_with_until_they_can_decide(
    pairs: int | None, few: bool, said: str
) -> None:
    typed = ["--steps", "6", "--pairs", "12", "--output", "old"]
    assert _resumed(typed, "out", pairs, few=few) == said.split()


def test_an_interval_without_0_that_is_no_verdict_says_why_and_what_to_type(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sides = [Version(name, Path("train.py"), (), RunOptions()) for name in ("main", "HEAD")]
    pairs = [
        Pair("base", *(Measured("run", {"iteration": each}) for each in (1.0, ms)))
        for ms in (1.05, 1.1, 1.2, 1.3, 1.1, 1.2, 5.0)
    ]
    paired = judged(Path("out"), sides[0], sides[1], pairs, 1.0, None)
    ends = Interval(1.012, 5.0, 0.95)
    told = replace(paired, verdict=Verdict("undecided", 1.2, ends, 7, 1.0))
    assert statement(told) == (
        "7 pairs, no verdict yet: HEAD probably takes 1.2 to 400.0 % more time than main (95 %; "
        "+400.0 % is the most different pair); a verdict takes 99 % certainty"
    )
    _show(told, Shown(), again_with)
    assert "Next: instrument compare 150  # 0 s more at most" in capsys.readouterr().err
    said = "  pair 7 of at most 40: main 1.000 ms, HEAD 5.000 ms; no verdict yet: HEAD probably "
    assert progress_of(told, 40) == f"{said}takes 1.2 to 400.0 % more time"
    # Less time is no time with a minus, and of commits the name is enough.
    less = replace(told, verdict=Verdict("undecided", 0.8, Interval(0.71, 0.975, 0.95), 7, 1.0))
    less = replace(less, base=replace(sides[0], name="HEAD~ (569793eb6)"))
    less = replace(less, new=replace(sides[1], name="HEAD (4591ad002)"))
    assert progress_of(less, 40) == (
        "  pair 7 of at most 40: HEAD~ 1.000 ms, HEAD 5.000 ms; no verdict yet: HEAD probably "
        "takes 2.5 to 29.0 % less time"
    )
    same = replace(less, base=replace(sides[0], name="x (1)"), new=replace(sides[1], name="x (2)"))
    assert "x (1) 1.000 ms, x (2) 5.000 ms" in progress_of(same, 40)
    faster = replace(less, verdict=Verdict("faster", 0.8, Interval(0.71, 0.975, 0.95), 7, 1.0))
    _show(faster, Shown(), again_with)
    assert "Next: instrument report out  # every pair\n" in capsys.readouterr().err


@pytest.mark.parametrize(("figure", "micro_steps"), [("iteration", None), ("update", 2)])
def test_the_times_of_pairs_are_per_sample_where_their_batches_differ(
    figure: str, micro_steps: int | None
) -> None:
    sides = [Version(name, Path("train.py"), (), RunOptions()) for name in ("main", "HEAD")]
    steps = micro_steps or 1
    runs = (
        Measured("run", {figure: ms * steps}, batch, micro_steps=micro_steps)
        for ms, batch in ((80.0, 8.0), (160.0, 32.0))
    )
    paired = judged(Path("out"), sides[0], sides[1], [Pair("base", *runs)], 1.0, None)
    told = "main 10.00 ms, HEAD 5.00 ms per sample"
    assert progress_of(paired, 40).startswith(f"  pair 1 of at most 40: {told}. So far: ")
    assert [*_pairs(paired)] == [f"pair  1: {told} (-50.0 %)"]


@pytest.mark.parametrize("gated", [False, True])
def test_pairs_that_cannot_decide_are_told_before_the_first(
    gated: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    least = fewest_pairs(MISSED if gated else FALSE_VERDICT)
    assert 5 < least <= 10
    _warn_of_few(least, gated=gated)
    assert not capsys.readouterr().err
    _warn_of_few(least - 1, gated=gated)
    assert f"--pairs {least - 1} ends undecided" in capsys.readouterr().err


def test_a_verdict_takes_no_fewer_pairs_than_is_said() -> None:
    agree = [0.5] * fewest_pairs()
    assert verdict(agree, 1.0).outcome == "slower"
    assert verdict(agree[1:], 1.0).outcome == "undecided"


def test_a_file_keeps_its_name_at_the_start_of_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sides = [Version(name, Path("train.py"), (), RunOptions()) for name in ("a.py", "b.py")]
    found = Verdict("slower", 1.05, None, 9, 1.0)
    paired = Paired(Path("out"), *sides, (), "iteration", False, found, 240.0)
    _show(paired, Shown(quiet=True), again_with)
    assert capsys.readouterr().out.startswith("b.py is 5.0 % slower than a.py, 9 pairs, ")


def test_undecided_pairs_end_with_how_to_go_on_and_others_with_a_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = [Version(name, Path("train.py"), (), RunOptions()) for name in ("a.py", "b.py")]
    runs = [Measured("01_" + name, {"iteration": 5.0}) for name in ("base", "new")]
    pairs = (Pair("base", *runs),)
    for outcome, ends in (
        ("undecided", "Next: the same instrument compare with --resume out --pairs "),
        ("slower", "Next: instrument report out/01_new"),
    ):
        found = Verdict(outcome, 1.05, None, 1, 1.0)
        paired = Paired(Path("out"), *sides, pairs, "iteration", False, found, 240.0)
        monkeypatch.setattr(
            sys.modules[Paired.__module__], "read_pairs", lambda *_, p=paired, **__: p
        )
        show_earlier(Path("out"), json=False)
        assert capsys.readouterr().err.splitlines()[-1].startswith(ends)


def test_a_report_of_undecided_pairs_ends_with_the_whole_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = ("--refs", "main..HEAD", "--pairs", "3", "--output", "out")
    command = Command(typed, (("train.py", "--lr", "0.1"),), str(tmp_path))
    sides = [Version(name, Path("train.py"), (), RunOptions()) for name in ("main", "HEAD")]
    runs = [Measured("01_" + name, {"iteration": 5.0}) for name in ("base", "new")]
    found = judged(Path("out"), *sides, (Pair("base", *runs),), 1.0, None)
    record = replace(found, command=command).to_json()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "pairs.json").write_text(json.dumps(record))
    monkeypatch.chdir(tmp_path)
    show_earlier(Path("out"), json=False)
    again = "instrument compare --refs main..HEAD --resume {} --pairs 40 train.py --lr 0.1"
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"Next: {again.format('out')}  # goes on with these"
    # Typed elsewhere, it goes to where the script and the commits are known by these names.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    show_earlier(Path("../out"), json=False)
    last = capsys.readouterr().err.splitlines()[-1]
    there = again.format((tmp_path / "out").resolve())
    assert last == f"Next: cd {tmp_path} && {there}  # goes on with these"


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((0.37, 1.45), "takes more than 1,000 of them (100 min); quieten the machine first"),
        ((0.9, 1.12), "(100 min); quieten the machine first, or ask for less: --resolution 9"),
        ((0.96, 1.05), "takes about 205 of them (20 min); quieten the machine first, or"),
        ((0.99, 1.02), None),  # twice as many will do
    ],
)
def test_a_load_under_which_nothing_will_be_known_is_said(
    capsys: pytest.CaptureFixture[str], ends: tuple[float, float], said: str | None
) -> None:
    sides = [Version(name, Path("train.py"), (), RunOptions()) for name in ("a.py", "b.py")]
    runs = [Measured(name, {"iteration": 5.0}) for name in ("base", "new")]
    found = Verdict("undecided", 1.005, Interval(*ends, 0.95), 40, 2.0)
    pairs = (Pair("base", *runs),) * 40
    paired = Paired(Path("out"), *sides, pairs, "iteration", False, found, 240.0)
    _show(paired, Shown(quiet=True), again_with)
    out = " ".join(capsys.readouterr().out.split())
    assert ("pairs differ too much" in out) is (said is not None)
    assert (said or "") in out


@pytest.mark.parametrize(
    ("ends", "proposed", "quiet"),
    [
        ((0.99, 1.02), 40, False),
        ((0.955, 1.045), 60, False),
        ((0.9, 1.12), 340, False),
        ((0.37, 1.45), 40, True),
    ],
)
def test_as_many_pairs_are_proposed_as_a_verdict_is_said_to_take(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    ends: tuple[float, float],
    proposed: int,
    quiet: bool,
) -> None:
    sides = [Version(name, Path("train.py"), (), RunOptions()) for name in ("a.py", "b.py")]
    runs = [Measured(name, {"iteration": 5.0}) for name in ("base", "new")]
    found = Verdict("undecided", 1.005, Interval(*ends, 0.95), 10, 2.0)
    pairs = (Pair("base", *runs),) * 10
    paired = Paired(Path("out"), *sides, pairs, "iteration", False, found, 240.0)
    _show(paired, Shown(), again_with)
    made = capsys.readouterr()
    said = re.search(r"a verdict takes about (\d+)", " ".join(made.out.split()))
    assert said is None or int(said[1]) <= proposed
    last = made.err.splitlines()[-1]
    assert str(proposed) in last and ("on a quiet machine" in last) is quiet
    monkeypatch.setattr(sys.modules[judged.__module__], "read_pairs", lambda *_, **__: paired)
    show_earlier(tmp_path, json=False)
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"--pairs {proposed}" in last and ("on a quiet machine" in last) is quiet


@pytest.mark.parametrize(
    ("pairs", "most", "said"),
    [
        (
            10,
            40,
            "  So far pairs differ too much: at this spread a verdict takes about 101 of them ",
        ),
        (10, 10, ""),  # the last: the result says it
        (9, 40, ""),  # too few to know how much they differ
        (10, 60, ""),  # of so many not far away
    ],
)
def test_pairs_that_will_not_decide_say_so_while_they_run(pairs: int, most: int, said: str) -> None:
    sides = [Version(name, Path("train.py"), (), RunOptions()) for name in ("a.py", "b.py")]
    runs = [Measured(name, {"iteration": 5.0}) for name in ("base", "new")]
    found = Verdict("undecided", 1.001, Interval(0.969, 1.032, 0.95), pairs, 1.0)
    kept = (Pair("base", *runs),) * pairs
    paired = Paired(Path("out"), *sides, kept, "iteration", False, found, 240.0)
    told = _hopeless(paired, most)
    assert told.startswith(said) and bool(told) == bool(said)
    assert not said or told.endswith(f"this ends after {most}, or by Ctrl-C with what there is")


def test_more_pairs_than_can_be_judged_are_refused_before_the_first() -> None:
    with pytest.raises(UsageError, match=f"must be {MOST_PAIRS} or fewer"):
        compare_versions([["train.py"]], PairOptions(pairs=MOST_PAIRS + 1), None, Shown())


@TWO_USERS
def test_git_that_accepts_no_repository_says_so_and_no_commit_is_missed(
    git_repo: RepoFactory,
) -> None:
    repo = git_repo({"train.py": "x = 1\n"})
    project = find_project(repo / "train.py")
    wanted = _Wanted("HEAD", Started(repo / "train.py"), ref="HEAD")
    assert _commit(project, wanted) is not None
    os.chown(repo / ".git", NOBODY, NOBODY)
    with pytest.raises(NotReady, match="dubious ownership"):
        _commit(project, wanted)


@pytest.mark.parametrize("ref", ["HEAD", "HEAD~1", "HEAD...main", "HEAD~1^{tree}"])
@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"damaged")])
def test_a_commit_that_git_cannot_read_is_a_commit(
    git_repo: RepoFactory, ref: str, damage: Callable[[Path], object]
) -> None:
    """Else a right name is called wrong, and the damage is not seen."""
    repo = git_repo({"train.py": "x = 1\n"})
    wanted = _Wanted(ref, Started(repo / "train.py"), ref=ref)
    made = git(repo, "rev-parse", "HEAD").strip()
    stored = repo / ".git" / "objects" / made[:2] / made[2:]
    stored.chmod(0o644)
    damage(stored)
    with pytest.raises(NotReady, match=f"which git cannot read in {repo}|is corrupt"):
        _commit(find_project(repo / "train.py"), wanted)
