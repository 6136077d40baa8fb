"""run-test.sh where there is one, and why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.errors import UsageError
from instrumentor.kernels.tt_lang import Start, TtLang, find_run_test

PYTHON, SCRIPT, SHELL = Path("/usr/bin/python"), Path("/copy/k.py"), Path("/tools/run-test.sh")


def script(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_on_path_first_then_in_the_project(tmp_path: Path) -> None:
    own = script(tmp_path / "p" / "tools" / "run-test.sh")
    assert find_run_test(tmp_path / "p", "auto", {"PATH": "/nowhere"}) == own
    other = script(tmp_path / "bin" / "run-test.sh")
    assert find_run_test(tmp_path / "p", "auto", {"PATH": str(tmp_path / "bin")}) == other
    assert find_run_test(tmp_path / "none", "auto", {"PATH": "/nowhere"}) is None


def test_asked_for(tmp_path: Path) -> None:
    own = script(tmp_path / "mine.sh")
    assert find_run_test(tmp_path, str(own), {}) == own
    assert find_run_test(tmp_path, "no", {"PATH": str(tmp_path)}) is None
    with pytest.raises(UsageError, match="does not exist"):
        find_run_test(tmp_path, "/nowhere/run-test.sh", {})


def started(mode: str, run_test: Path | None, files: int = 1) -> Start:
    return TtLang(mode, run_test, files, 0).start(PYTHON, SCRIPT, ("a b",))


@pytest.mark.parametrize(("mode", "flag"), [("perf", "--perf"), ("auto-profile", "--auto-profile")])
def test_its_flags(mode: str, flag: str) -> None:
    argv = ("/tools/run-test.sh", "-v", flag, "--hw", "/copy/k.py", "a b")
    assert started(mode, SHELL) == Start(argv, "/tools/run-test.sh")


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (started("perf", None), ""),
        (started("signposts", SHELL), "run-test.sh has no flag for --mode signposts: run directly"),
        (started("perf", SHELL, 2), "run-test.sh takes one file, 2 were changed: run directly"),
    ],
)
def test_directly_and_why(found: Start, note: str) -> None:
    assert found == Start(("/usr/bin/python", "/copy/k.py", "a b"), "direct", note)
