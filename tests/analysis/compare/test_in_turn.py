"""The command that runs in turn what two finished runs were of."""

from __future__ import annotations

from typing import Any

import pytest

from instrumentor_analysis.compare.in_turn import advised, in_turn
from instrumentor_analysis.compare.model import SideFacts

PLAIN = ["python3", "train.py", "--lr", "0.1"]
ONE, TWO = {"git_commit": "a" * 40, "git_dirty": False}, {"git_commit": "b" * 40}
HERE = {**ONE, "git_dirty": True}


def facts(command: Any, environment: dict[str, Any], **more: Any) -> SideFacts:
    run = {"command": command, "script": "/home/me/train.py", **more}
    return SideFacts("run", "run", "torch", "fwd+bwd", run=run, environment=environment)


@pytest.mark.parametrize(
    ("base", "new", "command"),
    [
        ((PLAIN, ONE), (PLAIN, TWO), "--refs aaaaaaaaa..bbbbbbbbb train.py --lr 0.1"),
        ((PLAIN, ONE), (PLAIN, HERE), "--refs aaaaaaaaa.. train.py --lr 0.1"),
        ((PLAIN, ONE), (["python3", "b c.py"], ONE), "train.py --lr 0.1 -- 'b c.py'"),
        ((PLAIN, {}), (["python3", "-m", "pkg"], {}), "train.py --lr 0.1 -- -m pkg"),
        # Of files that changed, the first state is gone; a launcher is no script.
        ((PLAIN, HERE), (PLAIN, HERE), None),
        ((PLAIN, HERE), (PLAIN, TWO), None),
        ((PLAIN, ONE), (["python3", "other.py"], TWO), None),
        ((["torchrun", "train.py"], ONE), (PLAIN, ONE), None),
        ((None, ONE), (PLAIN, TWO), None),
    ],
)
def test_what_differs_is_put_into_the_command(base: Any, new: Any, command: str | None) -> None:
    made = in_turn(facts(*base), facts(*new))
    assert made == (f"instrument compare {command}" if command else "")


@pytest.mark.parametrize(
    ("base", "new", "typed"),
    [
        (("/a/train.py", PLAIN, ONE), ("/b/train.py", PLAIN, TWO), False),
        (("/a/train.py", PLAIN, ONE), ("/b/other.py", ["python3", "other.py"], ONE), False),
        (("/a/train.py", PLAIN, ONE), ("/a/b/t.py", ["python3", "./b/t.py"], ONE), True),
        (("/a/train.py", PLAIN, ONE), ("/b/t.py", ["python3", "/b/t.py"], ONE), True),
    ],
)
def test_no_command_takes_in_two_repositories_or_folders(base: Any, new: Any, typed: bool) -> None:
    sides = [facts(command, environment, script=at) for at, command, environment in (base, new)]
    assert bool(in_turn(*sides)) is typed


def test_options_stand_ahead_of_the_script() -> None:
    found = in_turn(facts(PLAIN, ONE), facts(PLAIN, TWO), "--fail-on-regression 5")
    assert found.startswith("instrument compare --fail-on-regression 5 --refs aaaaaaaaa..")


def test_both_versions_are_measured_as_the_runs_were() -> None:
    region = ["--region", "train.py:3-9", "--mode", "train"]
    old, now = facts(PLAIN, ONE, chosen=region), facts(PLAIN, TWO, chosen=region)
    typed = "instrument compare --region train.py:3-9 --mode train --refs aaaaaaaaa..bbbbbbbbb tr"
    assert in_turn(old, now).startswith(typed)
    here = facts(PLAIN, HERE, chosen=region)
    assert "compare --region train.py:3-9 --mode train --refs A..B train.py" in advised(here, here)
    other = facts(PLAIN, TWO, chosen=["--region", "train.py:5-9"])
    assert in_turn(old, other) == "" and "the two runs measured other lines" in advised(old, other)


def test_tracy_s_own_words_are_left_out() -> None:
    traced = ["python3", "-m", "tracy", "-p", "-r", "-o", "out", "train.py"]
    found = in_turn(facts(traced, ONE, arguments=["--lr", "1"]), facts(traced, ONE))
    assert found == "instrument compare /home/me/train.py --lr 1 -- /home/me/train.py"


@pytest.mark.parametrize(
    ("base", "new", "said"),
    [
        ((PLAIN, ONE), (PLAIN, TWO), "alike: instrument compare --refs aaaaaaaaa..bbbbbbbbb train"),
        ((PLAIN, ONE), (PLAIN, ONE), "there is nothing to run in turn, because both runs are of"),
        ((PLAIN, HERE), (PLAIN, HERE), "or commit each version and run both in turn, so that"),
        ((PLAIN, HERE), (PLAIN, TWO), "alike: instrument compare --refs A..B train.py --lr 0.1"),
        ((PLAIN, {}), (PLAIN, {}), "."),
        ((None, ONE), (PLAIN, TWO), "."),
    ],
)
def test_advice_can_be_typed_as_far_as_the_runs_tell(base: Any, new: Any, said: str) -> None:
    told = advised(facts(*base), facts(*new))
    assert said in told and (told == ".") is (said == ".") and "--help" not in told
