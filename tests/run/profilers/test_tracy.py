"""Tracy, through its stand-in: every version, arguments, failures, interrupted runs."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor.machine.interpreter import Package
from instrumentor.machine.tracy_tools import find_tools
from instrumentor.run.known_failures import diagnose
from instrumentor.run.process import Finished, Stall, Stop, Watch, run
from instrumentor.run.profilers import TRACY, Artifacts, LaunchRequest, tracy_options
from instrumentor.run.profilers.base import RUNTIME
from instrumentor.run.profilers.tracy import newest_report, shell_safe
from instrumentor.run.profilers.tracy_options import parse_options, read_options
from instrumentor.shared.errors import NotReady, UsageError
from instrumentor_analysis.clock.host_layers import read_zones
from tests.conftest import STANDINS
from tests.run.profilers.conftest import RequestFactory
from tests.waiting import HANG_S, Clock
from tests.warned import texts

STEPS = """\
import json, os, sys, tracy
print(json.dumps(sys.argv))
for name in ["step_compile", "step_steady_1", "step_steady_2"]:
    tracy.signpost(name + "_start")
    tracy.signpost(name + "_end")
tracy.signpost("benchmark_complete")
"""
VERSIONS = ["0.65", "0.72", "0.75", "0.78", "0.81"]


@dataclass
class Ran:
    finished: Finished
    log: str
    artifacts: Artifacts


def run_under_tracy(request: LaunchRequest, output: Path, stop: Stop | None = None) -> Ran:
    finished, log = start(request, output, stop)
    return Ran(finished, log, TRACY.collect(request.scratch, output, finished.returncode))


def start(request: LaunchRequest, output: Path, stop: Stop | None = None) -> tuple[Finished, str]:
    stop = stop or Stop()

    def on_line(line: str) -> None:
        if line == "stop me":
            stop.request()

    watch = Watch(on_line=on_line, linger_s=0.2, grace_s=HANG_S, timeout_s=HANG_S)
    launch = TRACY.launch(request)
    finished = run(launch, log=output / "run.log", watch=watch, stop=stop)
    assert launch.side_log is not None
    logs = [output / "run.log", *([launch.side_log] if launch.side_log.exists() else [])]
    return finished, "\n".join(log.read_text() for log in logs)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_gives_a_table(
    make_tracy_request: RequestFactory, tmp_path: Path, version: str
) -> None:
    request = make_tracy_request(STEPS, version=version)
    ran = run_under_tracy(request, tmp_path / "out dir")
    assert ran.finished.returncode == 0
    assert ran.finished.left_running == ()
    assert ran.artifacts.script_exit_code == 0
    assert texts(ran.artifacts.warnings) == []
    table = ran.artifacts.files["ops_csv"]
    assert table == tmp_path / "out dir" / "tracy_perf" / "ops_perf_results.csv"
    with table.open() as stream:
        rows = list(csv.DictReader(stream))
    codes = [row["OP CODE"] for row in rows]
    window = codes[codes.index("step_steady_2_start") + 1 : codes.index("step_steady_2_end")]
    assert len(window) == 18
    assert "MatmulDeviceOperation" in window
    assert ("DEVICE ARCH" in rows[0]) == (version != "0.65")
    assert ran.artifacts.files["host_trace"].is_file()
    assert ran.artifacts.files["report"].is_relative_to(tmp_path / "out dir" / "tracy_profile")
    assert list((tmp_path / "out dir" / "tracy_profile" / ".logs").iterdir())
    assert ran.finished.ended == ()  # no version starts its web server


def test_arguments_arrive_exactly_and_no_shell_sees_them(
    make_tracy_request: RequestFactory, tmp_path: Path
) -> None:
    request = make_tracy_request(STEPS)
    ran = run_under_tracy(request, tmp_path / "out")
    seen = json.loads(next(line for line in ran.log.splitlines() if line.startswith("[")))
    assert seen == [str(request.script), *request.arguments]
    assert not list(tmp_path.rglob("pwned"))


def test_options_are_taken_from_help(make_tracy_request: RequestFactory) -> None:
    old = TRACY.launch(make_tracy_request(version="0.65", programs_per_read=4000)).argv
    assert "--op-support-count" not in old
    assert "--no-web-server" not in old


def test_counters_and_noc_traces_are_asked_for(
    make_tracy_request: RequestFactory, tmp_path: Path
) -> None:
    (first := tmp_path / "first").mkdir()
    plain = TRACY.launch(make_tracy_request(scratch=first))
    assert not {"--enable-sum-profiling", "--collect-noc-traces"} & {*plain.argv}
    assert plain.warnings == ()
    request = make_tracy_request(STEPS, counters=("waits", "fpu", "pack"), noc_trace=True)
    ran = run_under_tracy(request, tmp_path / "out")
    assert ran.finished.returncode == 0
    (again := tmp_path / "again").mkdir()
    launch = TRACY.launch(replace(request, scratch=again))
    asked = {"--enable-sum-profiling", "--profiler-capture-perf-counters=fpu,pack"}
    assert asked | {"--collect-noc-traces"} <= {*launch.argv}
    (warning,) = launch.warnings
    assert (warning.kind, warning.weight) == ("counters", "caution")


@pytest.mark.parametrize(
    ("asked", "lacks"),
    [({"counters": ("waits",)}, "--enable-sum-profiling"), ({"noc_trace": True}, "--collect-noc")],
)
def test_counters_that_a_version_lacks_are_no_run_without_them(
    make_tracy_request: RequestFactory, asked: Mapping[str, object], lacks: str
) -> None:
    with pytest.raises(NotReady, match=f"no {lacks}"):
        TRACY.launch(make_tracy_request(version="0.65", **asked))


def test_what_distorts_kernels_is_said(make_tracy_request: RequestFactory) -> None:
    env = {"TT_METAL_WATCHER": "10", "TT_METAL_DPRINT_CORES": "0,0", "TT_METAL_DPRINT_ETH": ""}
    (warning,) = TRACY.launch(make_tracy_request(env=env)).warnings
    assert (warning.kind, warning.weight) == ("debug-tools", "wrong")
    assert warning.message.startswith("TT_METAL_DPRINT_CORES, TT_METAL_WATCHER was set")


def test_tools_that_are_off_distort_nothing(make_tracy_request: RequestFactory) -> None:
    assert TRACY.launch(make_tracy_request(env={"TT_METAL_WATCHER": "0"})).warnings == ()


def test_options_of_a_new_version(make_tracy_request: RequestFactory) -> None:
    request = make_tracy_request(programs_per_read=4000, mid_run_dump=True, port=12345)
    launch = TRACY.launch(request)
    argv = list(launch.argv)
    assert argv[:4] == [sys.executable, str(RUNTIME / "tracy_start.py"), "-p", "-r"]
    assert argv[argv.index("-o") + 1] == str(request.scratch / "tracy")
    assert argv[argv.index("-t") + 1] == "12345"
    assert argv[argv.index("--op-support-count") + 1] == "4000"
    assert {"--no-web-server", "--dump-device-data-mid-run", "--check-exit-code"} <= set(argv)
    assert argv[-1] == str(request.scratch / "launch.py")
    assert launch.env["TT_METAL_PROFILER_PROGRAM_SUPPORT_COUNT"] == "4000"
    assert launch.env["TRACY_NO_WEB_SERVER"] == "1"


@pytest.mark.parametrize("version", ["0.65", "0.78", "0.81"])
@pytest.mark.parametrize("home", [False, True])
def test_nothing_is_left_where_the_script_works(
    make_tracy_request: RequestFactory, tmp_path: Path, version: str, home: bool
) -> None:
    env = {"TT_METAL_HOME": str(tmp_path / "home")} if home else {}
    page = tmp_path / "home" / "build/profiler/build_wasm"
    (page / "traces").mkdir(parents=True)
    (page / "traces" / "mine.tracy").touch()
    (page / "embed.tracy").symlink_to("traces/mine.tracy")
    stale = tmp_path / "home" / "generated" / "profiler" / ".logs" / "tracy_profile_log_host.tracy"
    stale.parent.mkdir(parents=True)
    stale.write_text("of an earlier run without -o")
    request = make_tracy_request(STEPS, version=version, env=env)
    run_under_tracy(request, tmp_path / "out")
    copied = [path for path in (request.scratch / "work").rglob("*.tracy") if path.exists()]
    assert copied == []  # it may be large
    assert [path.name for path in request.cwd.iterdir()] == [request.script.name]
    assert [path.name for path in (page / "traces").iterdir()] == ["mine.tracy"]
    assert str((page / "embed.tracy").readlink()) == "traces/mine.tracy"


def test_the_script_works_where_the_user_does(
    make_tracy_request: RequestFactory, tmp_path: Path
) -> None:
    source = STEPS + "print('AT', os.getcwd(), os.environ.get('PWD'), os.environ['PYTHONPATH'])\n"
    source += "import helper\n"
    (tmp_path / "my project" / "lib").mkdir(parents=True)
    (tmp_path / "my project" / "lib" / "helper.py").touch()
    paths = f"{STANDINS}:lib"
    request = make_tracy_request(source, env={"PYTHONPATH": paths, "PWD": str(tmp_path)})
    ran = run_under_tracy(request, tmp_path / "out")
    assert f"AT {request.cwd} {tmp_path} {paths}\n" in ran.log
    assert ran.artifacts.script_exit_code == 0


def test_leaving_without_the_usual_end_is_not_taken_for_no_operation(
    make_tracy_request: RequestFactory, tmp_path: Path
) -> None:
    request = make_tracy_request(STEPS + "os._exit(0)\n", version="0.72")
    launched = request.scratch / "launch.pid"
    for left, what in ((True, "os._exit"), (False, "no operation")):
        launched.touch() if left else launched.unlink()
        failure = TRACY.collect(request.scratch, tmp_path / "out", 0).failure
        assert failure is not None and what in failure.message


WRAPPER = """\
import os
from pathlib import Path
import tt_crank
__path__.append({original!r})
os.environ["TT_METAL_HOME"] = str(Path(tt_crank.__file__).parent / "tt-metal")
exec(compile(Path({original!r}, "__init__.py").read_text(), "tracy", "exec"))
PROFILER_ARTIFACTS_DIR = Path(os.getcwd()) / ".tracy_artifacts"
PROFILER_LOGS_DIR = PROFILER_ARTIFACTS_DIR / ".logs"
os.environ["TT_METAL_PROFILER_DIR"] = str(PROFILER_ARTIFACTS_DIR)
"""


def test_under_tt_cranks_wrapper(make_tracy_request: RequestFactory, tmp_path: Path) -> None:
    site = tmp_path / "site"
    for package in ("tracy", "tt_crank"):
        (site / package).mkdir(parents=True)
    (site / "tt_crank" / "__init__.py").touch()
    (site / "tt_crank" / "bin").symlink_to(STANDINS / "tools-tracy")
    (site / "tracy" / "__init__.py").write_text(WRAPPER.format(original=str(STANDINS / "tracy")))
    packages = {name: Package(name, None, (site / name,)) for name in ("tracy", "tt_crank")}
    tools = find_tools(None, packages)
    assert tools is not None and tools.folder == site / "tt_crank" / "bin"
    source = STEPS + "print('INTO', os.environ['TT_METAL_PROFILER_DIR'])\n"
    env = {"PYTHONPATH": str(site), "STANDIN_TRACY_CRANK": "1"}
    request = make_tracy_request(source, env=env, tools_folder=tools.folder)
    ran = run_under_tracy(request, tmp_path / "out")
    assert "ops_csv" in ran.artifacts.files, ran.log
    assert f"INTO {request.scratch / 'tracy'}\n" in ran.log
    assert [path.name for path in request.cwd.iterdir()] == [request.script.name]
    assert not [path for path in (site / "tt_crank" / "tt-metal").rglob("*") if path.is_file()]
    zones = read_zones(tmp_path / "out" / "tracy_profile" / ".logs" / "tracy_ops_times.csv")
    assert [zone.layer for zone in zones].count("run") == 3
    assert [zone.layer for zone in zones].count("compile") == 2


def test_unsafe_folders_are_reached_through_links(
    make_tracy_request: RequestFactory, tmp_path: Path
) -> None:
    tools = tmp_path / "the tools; really"
    tools.symlink_to(STANDINS / "tools-tracy")
    prefix = tmp_path / "my env"
    prefix.symlink_to(Path(sys.prefix))
    python = prefix / "bin" / Path(sys.executable).name
    request = make_tracy_request(STEPS, tools_folder=tools, python=python)
    assert all(shell_safe(word) for word in TRACY.launch(request).argv)
    shutil.rmtree(request.scratch / "tools")
    (request.scratch / "interpreter").unlink()
    assert run_under_tracy(request, tmp_path / "out").artifacts.files.get("ops_csv") is not None


def test_a_scratch_folder_that_a_shell_would_read_is_declined(
    make_tracy_request: RequestFactory, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="passes paths to a shell"):
        TRACY.launch(make_tracy_request(scratch=tmp_path / "a b"))


def test_a_failing_script_keeps_its_own_code(
    make_tracy_request: RequestFactory, tmp_path: Path
) -> None:
    source = STEPS + "def f():\n    raise SystemExit(7)\nf()\n"
    ran = run_under_tracy(make_tracy_request(source), tmp_path / "out")
    assert ran.finished.returncode == 4
    assert ran.artifacts.script_exit_code == 7
    assert "ops_csv" not in ran.artifacts.files
    assert texts(ran.artifacts.warnings) == ["Tracy made no report"]


def test_an_interrupted_run_still_has_its_report(
    make_tracy_request: RequestFactory, tmp_path: Path
) -> None:
    source = STEPS + "import time\nprint('stop me', flush=True)\ntime.sleep(3600)\n"
    ran = run_under_tracy(make_tracy_request(source), tmp_path / "out")
    assert ran.finished.interrupted
    assert ran.artifacts.script_exit_code == 130
    assert "ops_csv" in ran.artifacts.files
    assert ran.finished.left_running == ()


def test_a_wait_for_the_device_is_noticed_and_explained(
    make_tracy_request: RequestFactory, tmp_path: Path
) -> None:
    lines: list[str] = []

    clock, stop = Clock(), Stop()

    def on_stall(stall: Stall) -> None:
        lines.extend(stall.last_lines)
        stop.request()

    request = make_tracy_request(STEPS, fail="lock", env={"STANDIN_LOCK_PID": "31337"})
    watch = Watch(
        on_line=lambda line: clock.go() if "31337" in line else None,
        on_stall=on_stall, stall_s=30, clock=clock, linger_s=0.2, grace_s=1.0,
    )  # fmt: skip
    finished = run(TRACY.launch(request), log=tmp_path / "run.log", watch=watch, stop=stop)
    (found,) = diagnose("\n".join(lines))
    assert found.name == "device-locked"
    assert "kill -INT 31337" in found.remedy
    assert finished.left_running == ()


def test_a_capture_program_that_outlives_the_run_is_ended(
    make_tracy_request: RequestFactory, tmp_path: Path
) -> None:
    env = {"STANDIN_CAPTURE_OUTLIVE": "1"}
    ran = run_under_tracy(make_tracy_request(STEPS, fail="no-data", env=env), tmp_path / "out")
    assert ran.finished.returncode == 1
    assert ran.finished.ended
    assert ran.finished.left_running == ()


def test_an_empty_report_is_an_error_with_a_remedy(
    make_tracy_request: RequestFactory, tmp_path: Path
) -> None:
    found = run_under_tracy(make_tracy_request(STEPS, fail="no-ops"), tmp_path / "out").artifacts
    assert found.failure is not None and found.failure.hint
    assert found.files["profile"].is_dir()


@pytest.mark.parametrize(("programs", "support", "fits"), [(500, None, False), (500, 2000, True)])
def test_buffer_overflow_and_its_remedy(
    make_tracy_request: RequestFactory,
    tmp_path: Path,
    programs: int,
    support: int | None,
    fits: bool,
) -> None:
    env = {"STANDIN_TRACY_PROGRAMS": str(programs)}
    request = make_tracy_request(STEPS, env=env, programs_per_read=support)
    ran = run_under_tracy(request, tmp_path / "out")
    assert ("ops_csv" in ran.artifacts.files) == fits
    names = [found.name for found in diagnose(ran.log, ran.finished.returncode)]
    assert names == ([] if fits else ["buffer-overflow"])


@pytest.mark.parametrize(
    ("fail", "name"),
    [
        ("no-tools", "tools-not-found"),
        ("no-port", "no-port"),
        ("no-data", "no-tracy-client"),
        ("protocol", "capture-protocol"),
        ("capture-died", "capture-died"),
        ("capture-timeout", "port-busy"),
        ("pandas", "pandas-3"),
        ("ethernet", "device-stuck"),
        ("trace", "trace-and-profiler"),
        ("shape", "trace-shape"),
        ("region", "trace-region"),
        ("oom", "device-out-of-memory"),
        ("overflow", "buffer-overflow"),
    ],
)
def test_failures_are_recognised(
    make_tracy_request: RequestFactory, tmp_path: Path, fail: str, name: str
) -> None:
    finished, log = start(make_tracy_request(STEPS, fail=fail), tmp_path / "out")
    assert finished.returncode != 0
    assert diagnose(log, finished.returncode)[0].name == name


@pytest.mark.parametrize(
    ("fail", "remedy"), [("plugin", "first on PYTHONPATH"), ("module:loguru", "install loguru")]
)
def test_a_tracy_that_does_not_import_is_told_before_the_run(
    make_tracy_request: RequestFactory, fail: str, remedy: str
) -> None:
    with pytest.raises(NotReady) as raised:
        TRACY.launch(make_tracy_request(fail=fail))
    assert remedy in raised.value.hint


def test_the_options_are_asked_for_once(
    make_tracy_request: RequestFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    answer = tracy_options._ask

    def counted(python: Path, env: Mapping[str, str], timeout_s: float) -> frozenset[str]:
        asked.append(env["STANDIN_TRACY_VERSION"])
        return answer(python, env, timeout_s)

    monkeypatch.setattr(tracy_options, "_ask", counted)
    request = make_tracy_request(env={"MARK": str(tmp_path)})
    read_options(request.python, request.env, tmp_path)  # as the doctor does, before a run
    run = {"PYTHONPYCACHEPREFIX": "x", "GIT_DIR": "y", "INSTRUMENT_RUN_ID": "z"}
    TRACY.launch(replace(request, env={**request.env, **run}, programs_per_read=4000))
    assert asked == ["0.81"]
    read_options(request.python, {**request.env, "STANDIN_TRACY_VERSION": "0.65"}, tmp_path)
    assert asked == ["0.81", "0.65"]


def test_asking_for_the_options_leaves_nothing_behind(
    make_tracy_request: RequestFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = make_tracy_request()
    monkeypatch.chdir(request.cwd)
    TRACY.launch(request)
    assert [path.name for path in request.cwd.iterdir()] == ["train it.py"]


@pytest.mark.parametrize("entry", ["packages", "", None])
def test_tracy_is_found_where_the_users_path_says_and_not_beside_the_script(
    make_tracy_request: RequestFactory, entry: str | None
) -> None:
    request = make_tracy_request()
    (request.cwd / "packages").symlink_to(STANDINS)
    (request.cwd / "tracy").symlink_to(STANDINS / "tracy")
    env = {name: value for name, value in request.env.items() if name != "PYTHONPATH"}
    if entry is None:
        with pytest.raises(NotReady, match="No module named"):
            TRACY.launch(replace(request, env=env))
        return
    env["PYTHONPATH"] = f"{entry}:/nowhere"
    assert "-r" in TRACY.launch(replace(request, env=env)).argv


HELP = """\
Usage: python3 -m tracy [-m module | scriptfile] [arg] ...

Options:
  -h, --help            show this help message and exit
  -p                    Only profile enabled zones, see also -z
  -o OUTPUT_FOLDER, --output-folder=OUTPUT_FOLDER
                        Profiler artifacts folder
  --tracy-tools-folder=BINARY_FOLDER
                        --not-an-option in a description
"""


def test_help_is_read_without_the_descriptions() -> None:
    expected = {"-h", "--help", "-p", "-o", "--output-folder", "--tracy-tools-folder"}
    assert parse_options(HELP) == expected


def test_newest_report_wins(tmp_path: Path) -> None:
    assert newest_report(tmp_path) is None
    for stamp in ("2025_11_02_10_00_00", "2026_01_02_09_00_00", "2025_12_31_23_59_59"):
        (tmp_path / stamp).mkdir()
        (tmp_path / stamp / f"ops_perf_results_{stamp}.csv").touch()
    (tmp_path / "2026_02_01_00_00_00").mkdir()
    found = newest_report(tmp_path)
    assert found is not None
    assert found.parent.name == "2026_01_02_09_00_00"
