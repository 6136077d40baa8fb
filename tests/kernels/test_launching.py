"""run-test.sh where there is one, and why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.errors import UsageError
from instrumentor.kernels.launching import find_run_test, start

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


@pytest.mark.parametrize(("mode", "flag"), [("perf", "--perf"), ("auto-profile", "--auto-profile")])
def test_its_flags(mode: str, flag: str) -> None:
    found = start(PYTHON, SCRIPT, ("a b",), mode, SHELL, files=1)
    assert found.argv == ("/tools/run-test.sh", "-v", flag, "--hw", "/copy/k.py", "a b")
    assert found.via == "/tools/run-test.sh"


def test_directly() -> None:
    found = start(PYTHON, SCRIPT, ("x",), "perf", None, files=1)
    assert (found.argv, found.via, found.note) == (
        ("/usr/bin/python", "/copy/k.py", "x"), "direct", "",
    )  # fmt: skip


def test_what_it_cannot_do_is_run_directly_and_told() -> None:
    assert "no flag" in start(PYTHON, SCRIPT, (), "signposts", SHELL, files=1).note
    several = start(PYTHON, SCRIPT, (), "perf", SHELL, files=2)
    assert several.via == "direct"
    assert "takes one file" in several.note
