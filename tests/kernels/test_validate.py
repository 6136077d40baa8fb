"""Validation by a command, and by a reference."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instrumentor.kernels.options import Criteria, parse_command
from instrumentor.kernels.validate import (
    Validation,
    Verdict,
    compare_files,
    is_check,
    raised_at,
)
from instrumentor.shared.errors import UsageError
from instrumentor.shared.project import find_project
from tests.conftest import RepoFactory
from tests.end_to_end.small import processes_with


def check(
    criteria: Criteria,
    script: Path,
    env: dict[str, str] | None = None,
    limit_s: float | None = None,
) -> Verdict:
    variables = {"PATH": "/usr/bin:/bin", **(env or {})}
    log = script.parent.parent / "validation.log"
    project, python = find_project(script), Path(sys.executable)
    asked = Validation(project, script, (), python, script.parent, variables, log, limit_s)
    return asked.by(criteria)


@pytest.fixture
def script(git_repo: RepoFactory) -> Path:
    text = "import json\njson.dump([1.0, 2.0], open('out.json', 'w'))\n"
    return git_repo({"k.py": text, "ref.json": "[1.0, 2.001]"}) / "k.py"


def test_a_commands_exit_code_decides(script: Path) -> None:
    command = f"{sys.executable} -c 'print(\"fine\")'"
    assert check(Criteria(parse_command(command)), script) == Verdict(True, command, "code 0: fine")
    wrong = check(Criteria((sys.executable, "-c", "raise SystemExit('off by one')")), script)
    assert (wrong.ok, wrong.detail) == (False, "code 1: off by one")


def test_no_shell_and_no_profiler_around_a_command(script: Path) -> None:
    code = "import os, sys; sys.exit(sys.argv[1] != '$HOME;x' or 'TTLANG_PERF_DUMP' in os.environ)"
    criteria = Criteria((sys.executable, "-c", code, "$HOME;x"))
    assert check(criteria, script, {"TTLANG_PERF_DUMP": "1"}).ok


def test_a_command_that_hangs_is_ended_with_all_that_it_started(
    script: Path, tmp_path: Path
) -> None:
    mark = f"{tmp_path}/of-this-test"
    code = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)', {mark!r}])\n"
        "print('started', flush=True)\ntime.sleep(3600)"
    )
    hanging = Criteria((sys.executable, "-c", code))
    assert check(hanging, script, limit_s=1.0).detail == "did not end within 1 s"
    assert processes_with(mark) == []


def test_a_command_that_is_not_there(script: Path) -> None:
    with pytest.raises(UsageError, match="could not be started"):
        check(Criteria(("/nowhere/check",)), script)


def test_output_against_a_reference_leaves_nothing_behind(script: Path) -> None:
    reference = script.parent / "ref.json"
    criteria = Criteria(reference=reference, output_file=Path("out.json"))
    verdict = check(criteria, script)
    assert verdict.ok, verdict.detail
    assert not (script.parent / "out.json").exists()
    tight = Criteria(reference=reference, output_file=Path("out.json"), rtol=0, atol=1e-6)
    assert "1 of 2 elements differ" in check(tight, script).detail


def test_a_script_that_fails_or_writes_nothing(script: Path) -> None:
    reference = script.parent / "ref.json"
    assert (
        "did not write"
        in check(Criteria(reference=reference, output_file=Path("x")), script).detail
    )
    # What an earlier run left says nothing of this one.
    (script.parent / "x.json").write_text("[1.0, 2.001]")
    stale = Criteria(reference=reference, output_file=Path("x.json"))
    assert "did not write x.json" in check(stale, script).detail
    script.write_text("raise SystemExit(3)\n")
    criteria = Criteria(reference=reference, output_file=Path("out.json"))
    assert "the script itself failed: code 3" in check(criteria, script).detail


@pytest.mark.parametrize("suffix", ["npy", "npz", "json", "csv", "txt"])
def test_kinds_of_files(tmp_path: Path, suffix: str) -> None:
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    one, two = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    for path in (one, two):
        if suffix == "npy":
            np.save(path, values)
        elif suffix == "npz":
            np.savez(path, x=values)
        elif suffix == "json":
            path.write_text(json.dumps(values.tolist()))
        else:
            np.savetxt(path, values, delimiter="," if suffix == "csv" else " ")
    assert compare_files(one, two, 0, 0, "x").ok


def test_shapes_names_and_nan(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(3))
    np.save(tmp_path / "b.npy", np.ones(4))
    assert "shape (3,)" in compare_files(tmp_path / "a.npy", tmp_path / "b.npy", 0, 0, "").detail
    np.savez(tmp_path / "a.npz", x=np.ones(1))
    np.savez(tmp_path / "b.npz", y=np.ones(1))
    assert "arrays" in compare_files(tmp_path / "a.npz", tmp_path / "b.npz", 0, 0, "").detail
    np.save(tmp_path / "n.npy", np.array([1.0, np.nan, 1.0]))
    detail = compare_files(tmp_path / "n.npy", tmp_path / "a.npy", 1, 1, "").detail
    assert detail.startswith("1 of 3 elements differ") and detail.endswith(
        "1 are no number; at most by 0"
    )
    np.save(tmp_path / "n.npy", np.full(3, np.nan))
    assert compare_files(tmp_path / "n.npy", tmp_path / "a.npy", 1, 1, "").detail.endswith(
        "3 are no number"
    )


@pytest.mark.parametrize(("name", "text"), [("a.pt", "x"), ("a.npy", "junk"), ("a.json", "{")])
def test_files_that_cannot_be_compared(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError):
        compare_files(path, path, 0, 0, "")


@pytest.mark.parametrize(
    "given",
    [{"reference": "r.npy"}, {"output_file": "r.npy"}, {"reference": "no", "output_file": "r.npy"},
     {"rtol": -1.0}, {"atol": -1.0}],
)  # fmt: skip
def test_options_that_do_not_fit(tmp_path: Path, given: dict[str, Any]) -> None:
    (tmp_path / "r.npy").touch()
    paths = {k: tmp_path / v if isinstance(v, str) else v for k, v in given.items()}
    with pytest.raises(UsageError):
        Criteria(**paths)
    assert not Criteria().given


FRAME = """Traceback (most recent call last):
  File "/project/k.py", line 3, in <module>
    main()
"""
WRONG = '    raise ValueError("y is wrong")\nValueError: y is wrong'
RAISES = f'{FRAME}  File "%s", line 2, in check\n{WRONG}'


@pytest.mark.parametrize(
    ("traceback", "check"),
    [
        (RAISES % "/project/k.py", True),
        (RAISES % "/lib/ttnn.py", False),
        (f"{FRAME}AssertionError", True),
        (RAISES.replace("ValueError", "AssertionError") % "/lib/torch/testing.py", True),
        (f"{FRAME}AttributeError: module 'ttnn' has no attribute 'upsample'", False),
    ],
)
def test_what_a_script_ends_with_is_a_check_or_tells_nothing_of_the_result(
    traceback: str, check: bool
) -> None:
    assert is_check(traceback, Path("/project")) == check


def test_the_line_of_a_failed_check_is_the_innermost_of_the_project() -> None:
    frames = """Traceback (most recent call last):
  File "/home/me/train.py", line 12, in <module>
    main()
  File "/home/me/train.py", line 8, in main
    assert_close(x, y)
  File "/usr/lib/torch/testing.py", line 900, in assert_close
    raise error
AssertionError: no
"""
    assert raised_at(frames, Path("/home/me")) == " (train.py:8)"
    assert raised_at(frames, Path("/elsewhere")) == ""
