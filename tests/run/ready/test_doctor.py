"""Each check on machines that are right and on machines that are not, through stand-ins."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from instrumentor.machine.environment import Machine
from instrumentor.machine.interpreter import Interpreter, Package
from instrumentor.machine.tracy_tools import find_tools
from instrumentor.run.options import RunOptions
from instrumentor.run.profilers import choose
from instrumentor.run.ready.doctor import (
    Check,
    PlannedRun,
    Status,
    doctor,
    failed,
    host,
    planned_run,
)
from instrumentor.run.ready.doctor.model import came_with
from tests.conftest import STANDINS

MODULES = ("yaml", "click", "loguru", "seaborn")

MakePlanned = Callable[..., PlannedRun]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No load, whatever else goes on where the tests run."""
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))


@pytest.fixture
def make_planned(tmp_path: Path) -> MakePlanned:
    """Factory of planned runs; all is well on the machine unless a change says otherwise."""
    devices = tmp_path / "devices"
    devices.mkdir()
    (devices / "0").touch()
    packages = {name: Package(name, "1.0") for name in ("torch", "pjrt_plugin_tt", *MODULES)}
    packages["pandas"] = Package("pandas", "2.2.3")
    packages["tracy"] = Package("tracy", None, (STANDINS / "tracy",))
    machine = Machine(
        interpreter=Interpreter(Path(sys.executable), "--python"),
        python_version="3.11.4",
        packages=packages,
        devices=(devices / "0",),
        tools=find_tools(STANDINS / "tools-tracy"),
    )
    env = {
        **os.environ,
        "PYTHONPATH": str(STANDINS),
        "PATH": os.pathsep.join([str(STANDINS / "bin"), os.environ["PATH"]]),
    }

    def make(env_changes: dict[str, str] | None = None, **changes: Any) -> PlannedRun:
        names = set(PlannedRun.__dataclass_fields__)
        of_machine = {key: value for key, value in changes.items() if key not in names}
        of_run = {key: value for key, value in changes.items() if key in names}
        return PlannedRun(
            **{
                "machine": replace(machine, **of_machine),
                "env": {**env, **(env_changes or {})},
                "cwd": tmp_path,
                "folders": (tmp_path / "not" / "yet",),
                "device_folder": devices,
                **of_run,
            }
        )

    make.packages = packages  # type: ignore[attr-defined]
    return make


def named(checks: tuple[Check, ...], name: str) -> Check:
    (found,) = [check for check in checks if check.name == name]
    return found


def test_the_port_that_is_asked_for_is_looked_at(make_planned: MakePlanned) -> None:
    with socket.socket() as busy:
        busy.bind(("", 0))
        busy.listen()
        port = busy.getsockname()[1]
        check = named(doctor(make_planned(port=port)), "port")
        assert check.status is Status.FAILED
        assert f"port {port}" in check.text and "--port" in check.remedy
    assert named(doctor(make_planned(port=port)), "port").text == f"port {port} is free"


def without(make: MakePlanned, *names: str) -> dict[str, Package]:
    packages: dict[str, Package] = make.packages  # type: ignore[attr-defined]
    return {name: package for name, package in packages.items() if name not in names}


def test_a_ready_machine(make_planned: MakePlanned) -> None:
    checks = doctor(make_planned())
    assert [check for check in checks if check.status is not Status.OK] == []
    assert [check.name for check in checks] == [
        "interpreter",
        "torch",
        "pjrt-plugin",
        "tracy",
        "tracy-tools",
        "device",
        "device-in-use",
        "tt-smi",
        "port",
        "disk",
    ]


@pytest.mark.parametrize(
    ("name", "changes", "remedy"),
    [
        ("interpreter", {"python_version": "3.7.2"}, "3.8"),
        ("tracy", {"env_changes": {"STANDIN_TRACY_FAIL": "plugin"}}, "first on PYTHONPATH"),
        ("tracy", {"env_changes": {"STANDIN_TRACY_FAIL": "module:loguru"}}, "install loguru"),
        ("tracy-tools", {"tools": None}, "--tracy-tools-folder"),
        ("device", {"devices": ()}, "--profiler torch"),
        ("runtime-trace", {"config": {"enable_trace": True}}, "--profiler wallclock"),
    ],
)
def test_what_stops_a_run(
    make_planned: MakePlanned, name: str, changes: dict[str, Any], remedy: str
) -> None:
    stopped = failed(doctor(make_planned(**changes)))
    assert [check.name for check in stopped] == [name]
    assert remedy in stopped[0].remedy


@pytest.mark.parametrize(
    ("name", "package", "remedy"),
    [
        ("tracy", "tracy", "--python"),
        ("pjrt-plugin", "pjrt_plugin_tt", "env/xla_env"),
        ("report-modules", "seaborn", "pip install seaborn"),
        ("report-modules", "yaml", "pip install pyyaml"),
    ],
)
def test_missing_packages_stop_a_run(
    make_planned: MakePlanned, name: str, package: str, remedy: str
) -> None:
    packages = without(make_planned, package)
    stopped = failed(doctor(make_planned(packages=packages)))
    assert [check.name for check in stopped] == [name]
    assert remedy in stopped[0].remedy


def test_a_script_of_ttnn_without_a_device_is_warned_of(make_planned: MakePlanned) -> None:
    for packages, status in (((), Status.WARNING), (("ttnn",), Status.OK)):
        there = {**without(make_planned), "ttnn": Package("ttnn", "0.81.1", ())}
        for name in packages:
            del there[name]
        planned = make_planned(profiler="wallclock", packages=there, devices=())
        assert named(doctor(planned), "device").status is status


def test_without_tracy_in_play_nothing_of_it_stops_a_run(make_planned: MakePlanned) -> None:
    checks = doctor(
        make_planned(
            profiler="wallclock",
            packages=without(make_planned, "tracy", "pjrt_plugin_tt"),
            tools=None,
            devices=(),
            config={"enable_trace": True},
        )
    )
    assert failed(checks) == ()
    assert "needs none" in named(checks, "device").text
    assert {check.name for check in checks} == {
        "interpreter",
        "torch",
        "device",
        "disk",
    }


def test_torch_stops_a_run_only_when_it_profiles(make_planned: MakePlanned) -> None:
    packages = without(make_planned, "torch")
    for profiler, status in (("torch", Status.FAILED), ("wallclock", Status.WARNING)):
        checks = doctor(make_planned(profiler=profiler, packages=packages))
        assert named(checks, "torch").status is status


def test_a_wrapper_and_a_plugin_out_of_step(make_planned: MakePlanned, tmp_path: Path) -> None:
    packages = without(make_planned)
    for name, text in (("tracy", "from pjrt_plugin_tt import setup_tt_metal_home"), ("plugin", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
    packages["tracy"] = Package("tracy", None, (tmp_path / "tracy",))
    packages["pjrt_plugin_tt"] = Package("pjrt_plugin_tt", "0.3", (tmp_path / "plugin",))
    check = named(doctor(make_planned(packages=packages)), "pjrt-plugin")
    assert check.status is Status.FAILED
    assert "--tt-xla" in check.remedy


def test_warnings(make_planned: MakePlanned) -> None:
    packages = {**without(make_planned), "pandas": Package("pandas", "3.0.1")}
    checks = doctor(
        make_planned(
            packages=packages,
            interpreter=Interpreter(
                Path(sys.executable), "this interpreter", notes=("VIRTUAL_ENV=/gone was skipped",)
            ),
            env_changes={"PATH": "/usr/bin"},
        )
    )
    warned = {check.name for check in checks if check.status is Status.WARNING}
    assert warned == {"interpreter", "pandas", "tt-smi"}
    assert all(check.remedy for check in checks if check.status is not Status.OK)


def test_a_capture_program_that_was_left_behind_is_named(
    make_planned: MakePlanned, tmp_path: Path
) -> None:
    capture = STANDINS / "tools-tracy" / "tracy-capture"
    command = [capture, "-o", tmp_path / "x", "-f", "-p", "29999"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(10)
        try:  # other runs on this machine may have captures of their own
            check, taken = (
                next(each for each in doctor(planned) if f"process {process.pid} " in each.text)
                for planned in (make_planned(), make_planned(port=29999))
            )
        finally:
            process.terminate()
    assert (check.status, taken.status) == (Status.WARNING, Status.FAILED)
    assert f"process {process.pid} is left over" in check.text and "port 29999" in check.text
    assert f"kill -INT {process.pid}" in check.remedy


def test_the_capture_program_of_a_run_is_not_left_behind(
    make_planned: MakePlanned, tmp_path: Path
) -> None:
    capture = [str(STANDINS / "tools-tracy" / "tracy-capture"), "-o", str(tmp_path / "x"), "-f"]
    code = f"import subprocess; subprocess.run({capture})"
    running = [sys.executable, "-c", code, "tracy"]  # as `python -m tracy` and `tracy` show
    with subprocess.Popen(running, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.read(10)
        names = [check.name for check in doctor(make_planned())]
        os.killpg(process.pid, signal.SIGTERM)
    assert "tracy-capture" not in names


def test_tt_crank_drives_the_device_without_the_plugin(make_planned: MakePlanned) -> None:
    packages = {
        **without(make_planned, "pjrt_plugin_tt"),
        "tt_crank": Package("tt_crank", "0.1"),
    }
    checks = doctor(make_planned(packages=packages))
    assert named(checks, "tt-crank").text == "tt_crank 0.1"
    assert failed(checks) == ()


def test_an_older_tracy_is_told_by_what_it_lacks(make_planned: MakePlanned) -> None:
    checks = doctor(make_planned(env_changes={"STANDIN_TRACY_VERSION": "0.65"}))
    assert "without --op-support-count" in named(checks, "tracy").text


@pytest.mark.parametrize(
    ("free", "status"), [(2**20, Status.FAILED), (2**30, Status.WARNING), (2**33, Status.OK)]
)
def test_disk_space(
    make_planned: MakePlanned, monkeypatch: pytest.MonkeyPatch, free: int, status: Status
) -> None:
    class Usage:
        def __init__(self, path: Path) -> None:
            self.free = free

    monkeypatch.setattr(host.shutil, "disk_usage", Usage)
    assert named(doctor(make_planned()), "disk").status is status


def repository(folder: Path) -> Path:
    """As much of a repository as tells one."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").touch()
    return folder


@pytest.mark.parametrize("inner", ["sub", "deep/er/sub", "."])
def test_a_checkout_that_came_with_a_clone_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    """A submodule's repository is not the only one that its files came with."""
    clone = repository(tmp_path / "clone")
    script = (repository(clone / inner) if inner != "." else clone) / "train.py"
    script.touch()
    package = script.parent.parent / "tt-xla" / "python_package" / "tracy"
    package.mkdir(parents=True)
    for name in ("__init__.py", "__main__.py"):
        (package / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (tmp_path / "link").symlink_to(clone)
    entries = (package.parent, clone, tmp_path / "link")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, entries)))
    planned = planned_run(script)
    assert str(tmp_path / "link") not in planned.env["PYTHONPATH"]
    by_file = RunOptions(tt_xla=package.parents[1], configured=frozenset({"tt_xla"}))
    assert not planned_run(script, options=by_file).ask_tracy
    assert planned.machine.has("tracy") and not planned.ask_tracy
    if inner != ".":
        assert str(clone) not in planned.env["PYTHONPATH"]
    assert named(doctor(planned), "tracy").text.startswith("tracy is not started: ")
    assert not (tmp_path / "ran").exists()


def test_a_machine_that_a_run_would_refuse_has_not_passed(tmp_path: Path) -> None:
    """Of a script that imports torch where its loop is, the lack of it is no warning."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    step = "loss = model(x).sum()\n    optimizer.zero_grad()\n    loss.backward()\n"
    loop = f"def train(model, optimizer):\n  for x in range(9):\n    {step}    optimizer.step()\n"
    (tmp_path / "loop.py").write_text(f"import torch\n\n\n{loop}")
    (tmp_path / "train.py").write_text("import loop\n\nloop.train(1, 2)\n")
    (tmp_path / "none.py").write_text("print()\n")
    python = str(bare / "bin" / "python")
    for script, profiler, status in (
        ("train.py", "auto", Status.FAILED),
        ("loop.py", "auto", Status.FAILED),
        ("train.py", "wallclock", Status.WARNING),
        ("none.py", "auto", Status.WARNING),
    ):
        options = RunOptions(python=python, profiler=profiler)
        checks = doctor(planned_run(tmp_path / script, options=options))
        assert named(checks, "torch").status is status, (script, profiler)


def test_the_parts_of_an_archive_came_together(tmp_path: Path) -> None:
    assert came_with(tmp_path / "archive" / "a") == tmp_path / "archive"
    outer = repository(tmp_path / "clone")
    assert came_with(repository(outer / "sub")) == outer
    assert came_with(Path.home() / "scripts") == Path.home() / "scripts"


def test_a_busy_machine_is_a_warning(
    make_planned: MakePlanned, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "load" not in {check.name for check in doctor(make_planned())}
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (20.0, 20.0, 20.0))
    check = named(doctor(make_planned()), "load")
    assert check.status is Status.WARNING and "a load of 20.0 on 2 CPUs" in check.text
    assert check.remedy


def test_where_kernels_can_be_simulated(make_planned: MakePlanned, tmp_path: Path) -> None:
    for without_simulator in (make_planned(), make_planned(devices=())):
        assert "tt-lang-sim" not in {check.name for check in doctor(without_simulator)}
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "ttlang_sim.py").touch()
    packages = {"ttl": Package("ttl", "1.1.6", (tmp_path,))}
    said = named(doctor(make_planned(packages=packages)), "tt-lang-sim").text
    assert said == "tt-lang-sim 1.1.6: kernel run --simulate"


def test_a_script_on_ttnn_needs_no_plugin(make_planned: MakePlanned) -> None:
    packages = {**without(make_planned, "pjrt_plugin_tt"), "ttnn": Package("ttnn", "0.81.1")}
    checks = doctor(make_planned(packages=packages))
    assert named(checks, "ttnn").text == "ttnn 0.81.1"
    assert not [check for check in checks if check.name == "pjrt-plugin"]


def test_a_simulator_is_a_device(make_planned: MakePlanned, tmp_path: Path) -> None:
    library = tmp_path / "libttsim_wh.so"
    library.touch()
    check = named(doctor(make_planned(devices=(), simulator=library)), "device")
    assert (check.status, "simulated" in check.text) == (Status.OK, True)
    library.unlink()
    for profiler in ("tracy", "wallclock"):
        planned = make_planned(devices=(), simulator=library, profiler=profiler)
        check = named(doctor(planned), "device")
        assert (check.status, check.text) == (
            Status.FAILED,
            f"TT_METAL_SIMULATOR names {library}, which is not there",
        )


@pytest.mark.parametrize("traced", [True, False])
def test_a_build_without_tracy_is_seen_before_the_run(
    make_planned: MakePlanned, tmp_path: Path, traced: bool
) -> None:
    library = tmp_path / "ttnn" / "build" / "lib" / "libtt_metal.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"\x7fELF" + b"\0" * 5000 + b"profile_log_device.csv" * traced)
    packages = {**make_planned.packages}  # type: ignore[attr-defined]
    packages["ttnn"] = Package("ttnn", "0.81.1", (tmp_path / "ttnn",))
    planned = make_planned(packages=packages)
    found = [check for check in doctor(planned) if check.name == "tracy-build"]
    assert [check.status for check in found] == [Status.FAILED] * (not traced)
    profiler, why = choose("auto", planned.machine)
    assert profiler.name == ("tracy" if traced else "wallclock")
    assert ("built without Tracy" in why) == (not traced)
    assert choose("tracy", planned.machine)[0].name == "tracy"  # who asks for it gets it


@pytest.mark.parametrize(
    ("nodes", "mesh", "status"),
    [
        (1, None, None),
        (0, [1, 8], None),  # other devices than Tenstorrent's
        (8, [1, 8], Status.OK),
        (1, [1, 2], Status.WARNING),  # an n300 has two chips behind a node
        (1, [1, 8], Status.FAILED),
        (3, [1, 8], Status.FAILED),
    ],
)
def test_the_chips_of_a_mesh(
    make_planned: MakePlanned, nodes: int, mesh: list[int] | None, status: Status | None
) -> None:
    devices = tuple(Path(f"/dev/tenstorrent/{n}") for n in range(nodes))
    planned = make_planned(devices=devices, config={"mesh_shape": mesh})
    found = list(host.chips(planned))
    assert [check.status for check in found] == ([] if status is None else [status])
    assert all("8 chips" in check.text or "2 chips" in check.text for check in found)
