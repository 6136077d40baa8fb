"""The real tracy package of the ttnn wheel: its options, and a script started through it.

The wheel has no capture program and there is no device: programs that write nothing take the place
of those two, and there is no report.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from instrumentor.machine.interpreter import ask
from instrumentor.machine.tracy_tools import tool_names
from instrumentor.run.known_failures import diagnose, failures
from instrumentor.run.process import run
from instrumentor.run.profilers import TRACY
from instrumentor.run.profilers.tracy_options import REQUIRED, read_options
from tests.conftest import STANDINS
from tests.run.profilers.conftest import RequestFactory

pytestmark = pytest.mark.ttnn


SCRIPT = """\
import json, multiprocessing, os, pickle, sys, tracy
class Thing: pass
def square(x): return x * x
if __name__ == "__main__":
    pickle.loads(pickle.dumps(Thing()))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        squares = pool.map(square, [2, 3])
    tracy.signpost("step_compile_start")
    told = [sys.argv, __file__, sys.path[0], squares, os.getcwd(), os.environ["PWD"]]
    print("SEEN", json.dumps(told), flush=True)
    raise SystemExit(7)
"""


def test_probe_finds_the_package(ttnn_python: Path, tmp_path: Path) -> None:
    _, packages = ask(ttnn_python, os.environ)
    assert packages["ttnn"].version
    assert "tracy" in packages


def test_the_names_of_its_programs_are_read_out_of_it(ttnn_python: Path) -> None:
    _, packages = ask(ttnn_python, os.environ)
    assert tool_names(packages["tracy"]) == (("tracy-capture", "tracy-csvexport"),)


def test_options(ttnn_python: Path, tmp_path: Path) -> None:
    options = read_options(ttnn_python, os.environ, tmp_path)
    assert not list(tmp_path.iterdir())
    assert set(REQUIRED) <= options
    assert {"--check-exit-code", "--sync-host-device", "--tracy-tools-folder"} <= options
    assert {"--output-folder", "--port", "--op-support-count"} <= options
    standin = {**os.environ, "PYTHONPATH": str(STANDINS)}
    assert read_options(Path(sys.executable), standin, tmp_path) <= options


def test_what_is_known_of_its_failures_is_in_its_source(ttnn_python: Path) -> None:
    _, packages = ask(ttnn_python, os.environ)
    (folder,) = packages["tracy"].folders
    source = "\n".join(path.read_text() for path in folder.glob("*.py"))
    source = re.sub(r'"\s*\n\s*f?"', "", source)  # a text in several pieces
    rows = [row for row in failures() if "/tools/tracy/" in row.seen]
    older = {"No profiling data could be captured", "No module named"}
    sooner = {"so there was no Tracy client"}  # what tracy_start says before Tracy's own text comes
    assert len(rows) > 10
    assert {row.text for row in rows if row.text not in source} <= older | sooner
    said = "\n".join(path.read_text() for path in (STANDINS / "tracy").glob("*.py"))
    for text in ("Tracy tools were not found.", "Test process started", "before writing a trace",
                 "not found, will try again in 1 second", "exited with a non-zero return code",
                 "Tracy capture did not finish within", "Could not copy"):  # fmt: skip
        assert text in source and text in re.sub(r'"\s*\n\s*f?"', "", said), text


DEVICE_LOG = """\
ARCH: wormhole_b0, CHIP_FREQ[MHz]: 1000, Max Compute Cores: 64
PCIe slot, core_x, core_y, RISC processor type, timer_id, time, data, run host ID, trace id, \
trace id counter, zone name, type, source line, source file, meta data
"""


def test_what_pandas_3_makes_of_a_device_log_is_recognised(
    ttnn_python: Path, tmp_path: Path
) -> None:
    rows = "0,1,2,BRISC,1,1000,0,1024,,,BRISC-FW,ZONE_START,1,a.cc,\n" * 9
    (tmp_path / "log.csv").write_text(DEVICE_LOG + rows)
    code = "from tracy.process_device_log import import_device_profile_log as f; f('log.csv')"
    done = subprocess.run([ttnn_python, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    version = ask(ttnn_python, os.environ)[1]["pandas"].version or ""
    found = diagnose(done.stderr, done.returncode)
    assert [each.name for each in found] == (["pandas-3"] if version >= "3" else [])


def test_a_signpost_needs_no_device(ttnn_python: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import tracy\ntracy.signpost('step_compile_start')\n")
    done = subprocess.run([ttnn_python, script], capture_output=True, text=True, check=True)
    assert "step_compile_start" in done.stderr + done.stdout


def test_without_its_programs_there_is_no_profile(
    make_request: RequestFactory, ttnn_python: Path, tmp_path: Path
) -> None:
    launch = TRACY.launch(make_request("", python=ttnn_python))
    finished = run(launch, log=tmp_path / "run.log")
    log = (tmp_path / "run.log").read_text()
    (found,) = diagnose(log, finished.returncode)
    assert (finished.returncode, found.name) == (1, "tools-not-found")


def fake_tools(folder: Path) -> Path:
    """Programs in the place of capture and export: the wheel has none. They write nothing."""
    folder.mkdir()
    for name in ("tracy-capture", "tracy-csvexport"):
        (folder / name).write_text('#!/bin/sh\necho said\n[ "$1" = -o ] && : > "$2"\nexit 0\n')
        (folder / name).chmod(0o755)
    return folder


def test_a_script_gets_its_arguments_and_its_main_module(
    make_request: RequestFactory, ttnn_python: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    tools = fake_tools(tmp_path / "tools")
    env = {"TT_METAL_HOME": str(home), "PWD": "/somewhere"}
    request = make_request(SCRIPT, env=env, python=ttnn_python, tools_folder=tools)
    launch = TRACY.launch(request)
    finished = run(launch, log=tmp_path / "run.log")
    log = (tmp_path / "run.log").read_text()
    assert "SEEN " in log, log
    told = next(line for line in log.splitlines() if line.startswith("SEEN "))
    script = str(request.script)
    argv = [script, *request.arguments]
    seen = [argv, script, str(request.script.parent), [4, 9], str(request.cwd), "/somewhere"]
    assert json.loads(told[5:]) == seen
    outcome = json.loads((request.scratch / "outcome.json").read_text())
    assert outcome.items() >= {"exit_code": 7, "exception": "SystemExit"}.items()
    assert finished.returncode == 4 and finished.left_running == ()
    # Nothing of it is left where the script works, and nothing but empty folders in its home.
    assert [path.name for path in request.cwd.iterdir()] == [request.script.name]
    assert not [path for path in home.rglob("*") if not path.is_dir()]
    assert launch.side_log is not None and launch.side_log.read_text() == "said\n"


def test_the_page_of_a_good_run_stays_ours(
    make_request: RequestFactory, ttnn_python: Path, tmp_path: Path
) -> None:
    env = {"TT_METAL_HOME": str(tmp_path / "home")}
    tools = fake_tools(tmp_path / "tools")
    request = make_request("", env=env, python=ttnn_python, tools_folder=tools)
    run(TRACY.launch(request), log=tmp_path / "run.log")
    assert "embed.tracy" in (tmp_path / "run.log").read_text()
    assert [path.name for path in request.cwd.iterdir()] == [request.script.name]
    assert not [path for path in (tmp_path / "home").rglob("*") if not path.is_dir()]
    assert (request.scratch / "work" / "page" / "embed.tracy").is_symlink()
