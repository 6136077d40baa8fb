"""The real tracy package of the ttnn wheel: its options, and a script started through it.

The wheel has no capture program and there is no device, so only the second start is tried: the
command that the wrapper hands to a shell.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from instrumentor.environment import probe
from instrumentor.profilers import TRACY, LaunchRequest
from instrumentor.profilers.tracy import REQUIRED, read_options

pytestmark = pytest.mark.ttnn

RequestFactory = Callable[..., LaunchRequest]

SCRIPT = """\
import json, multiprocessing, pickle, sys, tracy
class Thing: pass
def square(x): return x * x
if __name__ == "__main__":
    pickle.loads(pickle.dumps(Thing()))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        squares = pool.map(square, [2, 3])
    tracy.signpost("step_compile_start")
    print("SEEN", json.dumps([sys.argv, __file__, sys.path[0], squares]))
    raise SystemExit(7)
"""


def test_probe_finds_the_package(ttnn_python: Path, tmp_path: Path) -> None:
    _, packages = probe(ttnn_python, os.environ, tmp_path)
    assert packages["ttnn"].version
    assert "tracy" in packages


def test_options(ttnn_python: Path, tmp_path: Path) -> None:
    options = read_options(ttnn_python, os.environ, tmp_path)
    assert not list(tmp_path.iterdir())
    assert set(REQUIRED) <= options
    assert {"--check-exit-code", "--sync-host-device", "--tracy-tools-folder"} <= options
    assert {"--output-folder", "--port", "--op-support-count"} <= options


def test_a_script_gets_its_arguments_and_its_main_module(
    make_request: RequestFactory, ttnn_python: Path
) -> None:
    request = make_request(SCRIPT, python=ttnn_python)
    launch = TRACY.launch(request)
    env = {**launch.env, "TT_METAL_HOME": str(request.scratch)}
    done = subprocess.run(
        " ".join([*launch.argv[:3], "--no-capture-tool", *launch.argv[3:]]),
        shell=True,  # as tracy starts itself again
        env=env,
        cwd=launch.cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "SEEN " in done.stdout, done.stderr
    told = next(line for line in done.stdout.splitlines() if line.startswith("SEEN "))
    script = str(request.script)
    argv = [script, *request.arguments]
    assert json.loads(told[5:]) == [argv, script, str(request.script.parent), [4, 9]]
    outcome = json.loads((request.scratch / "outcome.json").read_text())
    assert outcome.items() >= {"exit_code": 7, "exception": "SystemExit"}.items()
    assert not list(request.cwd.glob("pwned"))
