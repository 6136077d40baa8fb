"""The plain run: the script's own command, the recorder's settings in the environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from instrumentor.run.profilers import WALLCLOCK, Artifacts
from tests.run.profilers.conftest import RequestFactory


def test_command_is_the_scripts_own(make_request: RequestFactory) -> None:
    request = make_request(steps=7, warmup=2)
    launch = WALLCLOCK.launch(request)
    assert launch.argv == (sys.executable, str(request.script), *request.arguments)
    assert launch.cwd == request.cwd
    assert launch.env["INSTRUMENT_PROFILER"] == "wallclock"
    assert launch.env["INSTRUMENT_STEPS"] == "7"
    assert launch.env["INSTRUMENT_WARMUP"] == "2"
    assert launch.env["INSTRUMENT_RECORD"] == str(request.record)
    assert launch.env["WANDB_MODE"] == "disabled"
    assert launch.env["PATH"].split(os.pathsep)[0] == str(request.python.parent)
    assert "PYTHONPATH" not in launch.env


def test_import_paths_come_before_the_users(make_request: RequestFactory) -> None:
    request = make_request(
        env={"PYTHONPATH": "/theirs:"}, import_paths=(Path("/copy"), Path("/tt-xla"))
    )
    assert WALLCLOCK.launch(request).env["PYTHONPATH"] == "/copy:/tt-xla:/theirs:"


def test_nothing_to_collect(tmp_path: Path) -> None:
    assert WALLCLOCK.collect(tmp_path, tmp_path / "out", 0) == Artifacts()
