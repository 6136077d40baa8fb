"""What the stand-in and the launcher take for granted of Tracy, asked of the real package.

The ttnn wheel carries the package but not Tracy's capture programs, and there is no device: so
options, signposts and the refusal without tools, not a whole profile.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from instrumentor.profilers.tracy_options import REQUIRED, parse_options, read_options

pytestmark = pytest.mark.ttnn

STANDINS = Path(__file__).resolve().parents[1] / "standins"


def _run(python: Path | str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(python), *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_real_package_offers_what_a_run_needs(ttnn_python: Path, tmp_path: Path) -> None:
    options = read_options(ttnn_python, os.environ, tmp_path)
    assert set(REQUIRED) <= options
    assert "--sync-host-device" in options


def test_the_stand_in_offers_only_what_the_real_package_does(
    ttnn_python: Path, tmp_path: Path
) -> None:
    real = read_options(ttnn_python, os.environ, tmp_path)
    shown = _run(
        sys.executable,
        *("-m", "tracy", "--help"),
        PYTHONPATH=str(STANDINS),
        STANDIN_TRACY_VERSION="0.81",
    )
    offered = parse_options(shown.stdout)
    assert set(REQUIRED) <= offered
    assert offered <= real


def test_a_signpost_needs_no_device(ttnn_python: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import tracy\ntracy.signpost('step_compile_start')\nprint('done')\n")
    done = _run(ttnn_python, str(script))
    assert done.returncode == 0, done.stderr
    assert "done" in done.stdout
    assert "step_compile_start" in done.stderr + done.stdout


def test_without_capture_tools_there_is_no_profile(ttnn_python: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('done')\n")
    output = tmp_path / "tracy"
    done = _run(
        ttnn_python,
        *("-m", "tracy", "-p", "-r", "-o", str(output), "-t", "23456", str(script)),
        TRACY_NO_WEB_SERVER="1",
    )
    assert done.returncode != 0
    assert "tools" in (done.stdout + done.stderr).lower()
    assert not list(output.rglob("ops_perf_results*.csv"))
