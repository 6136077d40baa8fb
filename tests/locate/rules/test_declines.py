"""Every decline says what, why and what would work, and its example is declined by it alone."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from instrumentor.locate.rules.decline import Decline
from instrumentor.locate.rules.declines import DECLINES
from tests import declines_page
from tests.conftest import ROOT, RunCli

PAGE = ROOT / "docs" / "declines.md"


def test_the_page_is_made_from_the_declines(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-goldens"):
        PAGE.write_text(declines_page.text(), encoding="utf-8")
    hint = "pytest tests/locate/rules/test_declines.py --update-goldens"
    assert PAGE.read_text(encoding="utf-8") == declines_page.text(), hint


def test_none_is_left_out() -> None:
    """A class that is not listed would be on no page, and no example of it be run.

    One that no module decides says nothing.
    """
    assert set(Decline.__subclasses__()) == set(DECLINES)
    assert len({each.__name__ for each in DECLINES}) == len(DECLINES)
    assert all(map(declines_page.deciding, DECLINES))


def test_declines_of_one_kind_are_treated_alike() -> None:
    """Who reads a reason knows its kind only."""
    for name in ("observable", "timeable"):
        of_kind = {(each.kind, getattr(each, name)) for each in DECLINES}
        assert len(of_kind) == len({each.kind for each in DECLINES}), name


def test_no_reason_is_made_elsewhere() -> None:
    """A message outside of `locate/rules/` would be on no page."""
    making = re.compile(r"(?<!class )\bReason(\.at)?\(")
    for path in sorted((ROOT / "instrumentor").rglob("*.py")):
        if path.parts[-2] not in ("rules", "plan"):
            assert not making.search(path.read_text(encoding="utf-8")), path


def _words(template: str) -> re.Pattern[str]:
    """What a template may have become."""
    fixed = re.split(r"\{[^}]*\}", template)
    return re.compile(".+".join(map(re.escape, fixed)), re.DOTALL)


@pytest.mark.parametrize("decline", DECLINES, ids=lambda each: each.__name__)
def test_its_example_is_declined_by_it(
    decline: type[Decline], tmp_path: Path, run_cli: RunCli
) -> None:
    files, commands = declines_page.example(decline)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for command in commands:
        program, *words = shlex.split(command)
        if program == "instrument":
            done = run_cli(*words, cwd=tmp_path)
        else:
            named = {"python": sys.executable}.get(program, program)
            subprocess.run([named, *words], cwd=tmp_path, check=True)
    assert done.returncode in (0, 3), done.stderr
    told = " ".join((done.stdout + done.stderr).split())
    assert _words(decline.message).search(told), told
