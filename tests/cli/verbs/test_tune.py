"""`instrument tune`: what to type next, whatever came of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace as Like
from typing import Any

import pytest

from instrumentor.cli import next_commands
from instrumentor.cli.verbs import tune as verb
from instrumentor.tune.settings import Value, parsed


def following(
    monkeypatch: pytest.MonkeyPatch, promising: tuple[str, Value] | None, **document: Any
) -> str:
    """The next command for a script of which these facts were found out."""
    monkeypatch.setattr(verb, "_typed", lambda context, sibling: ["--steps", "8"])
    known = {"patch": None, "best_arguments": None, "withheld": None, **document}
    search = Like(out_of_budget=known.pop("out_of_budget", False), promising=lambda: promising)
    target = Like(script=Path.cwd() / "tr ain.py", arguments=("--lr", "a b"))
    tuned: Any = Like(search=search, target=target, folder=Path.cwd() / "tuned")
    context: Any = Like()
    report: Any = Like(document=known)
    return verb._next(context, tuned, report)


def test_the_next_command(monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(Path.cwd())
    patch = following(monkeypatch, None, patch="best.diff", patch_root=root)
    assert patch == f"git apply {root}/tuned/best.diff"
    chosen = following(monkeypatch, None, best_arguments=["--batch", "64"])
    assert chosen == "instrument run --steps 8 'tr ain.py' --batch 64"
    assert following(monkeypatch, None) == "instrument run --steps 8 'tr ain.py' --lr 'a b'"
    goes_on = following(monkeypatch, None, out_of_budget=True, withheld="busy")
    assert goes_on == "instrument tune --resume tuned"


@pytest.mark.parametrize("promising", [("amp", "bfloat16"), ("tf32", True), ("num_workers", 4)])
def test_what_nothing_is_concluded_of_can_be_compared_in_pairs(
    monkeypatch: pytest.MonkeyPatch, promising: tuple[str, Value]
) -> None:
    said = following(monkeypatch, promising, withheld="the machine was busy")
    assert said.startswith("instrument compare --steps 8 --set ")
    assert said.endswith(" 'tr ain.py' --lr 'a b'")
    assert parsed(said.split()[5]) == promising


def test_options_of_another_verb_that_was_not_built() -> None:
    context: Any = Like(parent=Like(command=Like(commands={})))
    names = next_commands._names(context, "compare")
    assert {"steps", "set", "python"} <= names and "budget" not in names
