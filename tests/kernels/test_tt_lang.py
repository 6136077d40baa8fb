"""run-test.sh where there is one, and why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.kernels.tt_lang import TtLang, find_run_test, why_not
from instrumentor.run.profilers import Launch, LaunchRequest
from instrumentor.shared.errors import UsageError

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


def launched(mode: str, run_test: Path | None) -> Launch:
    request = LaunchRequest(
        PYTHON, SCRIPT, ("a b",), Path("/copy"), {}, Path("/scratch"), Path("/out/kernel.jsonl")
    )
    return TtLang(mode, run_test, 0).launch(request)


@pytest.mark.parametrize(("mode", "flag"), [("perf", "--perf"), ("auto-profile", "--auto-profile")])
def test_its_flags(mode: str, flag: str) -> None:
    made = launched(mode, SHELL)
    assert made.argv == ("/tools/run-test.sh", "-v", flag, "--hw", "/copy/k.py", "a b")
    assert "INSTRUMENT_RECORD" not in made.env  # a file of another machine


def test_directly() -> None:
    made = launched("signposts", None)
    assert made.argv == ("/usr/bin/python", "/copy/k.py", "a b")
    assert made.env["INSTRUMENT_RECORD"] == "/out/kernel.jsonl"


@pytest.mark.parametrize(
    ("mode", "files", "why"),
    [
        ("perf", 1, ""),
        ("signposts", 1, "has no flag for --mode signposts"),
        ("perf", 2, "takes one file, 2 were changed"),
    ],
)
def test_why_not(mode: str, files: int, why: str) -> None:
    assert why_not(mode, files) == why
