"""What is found on a machine: interpreters, packages, devices, tools, holders of a device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from instrumentor.environment import (
    Package,
    device_holders,
    examine,
    find_devices,
    find_interpreter,
    find_tools,
    find_tt_xla,
    probe,
)
from instrumentor.errors import NotReady, UsageError

STANDINS = Path(__file__).parent / "standins"


def make_python(folder: Path) -> Path:
    """An environment's interpreter that starts the one of the tests."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return python


def make_tools(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder


def test_interpreter_in_order(tmp_path: Path) -> None:
    project = tmp_path / "project"
    asked, active, conda = (make_python(tmp_path / name) for name in ("asked", "venv", "conda"))
    env = {"VIRTUAL_ENV": str(tmp_path / "venv"), "CONDA_PREFIX": str(tmp_path / "conda")}
    assert find_interpreter(project, asked, env) == (asked, "--python", ())
    assert find_interpreter(project, tmp_path / "asked", env)[0] == asked
    assert find_interpreter(project, None, env) == (active, "VIRTUAL_ENV", ())
    del env["VIRTUAL_ENV"]
    assert find_interpreter(project, None, env) == (conda, "CONDA_PREFIX", ())
    assert find_interpreter(project, None, {})[:2] == (Path(sys.executable), "this interpreter")
    own = make_python(project / "env" / "xla_env")
    assert find_interpreter(project, None, {}) == (own, "env/xla_env", ())


def test_an_interpreter_by_name_is_looked_for_on_path(tmp_path: Path) -> None:
    python = make_python(tmp_path)
    env = {"PATH": str(python.parent)}
    assert find_interpreter(tmp_path, "python", env)[0] == python


def test_a_missing_interpreter_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such interpreter"):
        find_interpreter(tmp_path, tmp_path / "nothing", {})


def test_an_empty_environment_is_passed_over_with_a_note(tmp_path: Path) -> None:
    _, source, notes = find_interpreter(tmp_path, None, {"VIRTUAL_ENV": "/gone"})
    assert source == "this interpreter"
    assert "VIRTUAL_ENV=/gone" in notes[0]


def test_probe_finds_without_importing(tmp_path: Path) -> None:
    for name in ("torch", "ttnn"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported')")
    info = tmp_path / "ttnn-0.81.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ttnn\nVersion: 0.81.1\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    version, packages = probe(Path(sys.executable), env, tmp_path)
    assert version == ".".join(map(str, sys.version_info[:3]))
    assert packages["ttnn"] == Package("ttnn", "0.81.1", (tmp_path / "ttnn",))
    assert packages["torch"].folders == (tmp_path / "torch",)
    assert "pjrt_plugin_tt" not in packages


def test_probe_survives_a_talkative_start(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hello')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert probe(Path(sys.executable), env, tmp_path)[0].startswith("3.")


@pytest.mark.parametrize("body", ["exit 3", "echo no json"])
def test_a_broken_interpreter_is_an_error(tmp_path: Path, body: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{body}\n")
    python.chmod(0o755)
    with pytest.raises(NotReady, match="does not answer"):
        probe(python, dict(os.environ), tmp_path)


def test_devices_in_numeric_order(tmp_path: Path) -> None:
    assert find_devices(tmp_path / "none") == ()
    (tmp_path / "by-id").mkdir()
    for number in (10, 2, 0):
        (tmp_path / str(number)).touch()
    assert [path.name for path in find_devices(tmp_path)] == ["0", "2", "10"]
    assert find_devices(env={"INSTRUMENT_DEVICE_ROOT": str(tmp_path)}) == find_devices(tmp_path)


def test_tt_xla_stands_beside_the_project(tmp_path: Path) -> None:
    project = tmp_path / "blacksmith"
    project.mkdir()
    assert find_tt_xla(project) is None
    (tmp_path / "tt-xla" / "python_package").mkdir(parents=True)
    assert find_tt_xla(project) == tmp_path / "tt-xla"
    with pytest.raises(UsageError, match="no python_package"):
        find_tt_xla(project, project)


OLD, NEW = ("capture-release", "csvexport-release"), ("tracy-capture", "tracy-csvexport")


@pytest.mark.parametrize("names", [OLD, NEW])
def test_tools_under_both_names(tmp_path: Path, names: tuple[str, str]) -> None:
    folder = make_tools(tmp_path / "tools", *names)
    found = find_tools(folder)
    assert found is not None
    assert (found.capture.name, found.csvexport.name) == names


def test_half_of_the_tools_is_not_enough(tmp_path: Path) -> None:
    folder = make_tools(tmp_path / "tools", "capture-release", "tracy-csvexport")
    with pytest.raises(UsageError, match="capture-release and csvexport-release or"):
        find_tools(folder)


@pytest.mark.parametrize(
    "place",
    [
        "site/pjrt_plugin_tt/bin",
        "site/ttnn/build_Release/tools/profiler/bin",
        "tt-xla/third_party/tt-mlir/install/bin",
        "tt-xla/build_Release/tools/profiler/bin",
    ],
)
def test_places_of_the_tools(tmp_path: Path, place: str) -> None:
    packages = {
        name: Package(name, None, (tmp_path / "site" / name,))
        for name in ("pjrt_plugin_tt", "ttnn")
    }
    assert find_tools(None, packages, tmp_path / "tt-xla") is None
    folder = make_tools(tmp_path / place, *NEW)
    found = find_tools(None, packages, tmp_path / "tt-xla")
    assert found is not None
    assert found.folder == folder


def test_examine_puts_it_together(tmp_path: Path) -> None:
    project = tmp_path / "blacksmith"
    project.mkdir()
    (tmp_path / "tt-xla" / "python_package" / "pjrt_plugin_tt").mkdir(parents=True)
    devices = tmp_path / "devices"
    devices.mkdir()
    (devices / "0").touch()
    machine = examine(
        project,
        python=sys.executable,
        env={**os.environ, "PYTHONPATH": str(STANDINS)},
        tools_folder=STANDINS / "tools-tracy",
        device_root=devices,
    )
    assert machine.has("tracy")
    assert machine.has("pjrt_plugin_tt")
    assert machine.version_of("tracy") is None
    assert machine.version_of("nothing") is None
    assert machine.devices == (devices / "0",)
    assert machine.import_paths == (tmp_path / "tt-xla" / "python_package",)
    assert machine.tools is not None
    assert machine.tools.capture.name == "tracy-capture"


def test_holders_of_a_device(tmp_path: Path) -> None:
    node = tmp_path / "0"
    node.touch()
    assert device_holders(tmp_path) == ()
    with subprocess.Popen(
        [STANDINS / "bin" / "hold-device", node], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        holders = device_holders(tmp_path)
        process.terminate()
    (holder,) = holders
    assert holder.pid == process.pid
    assert "hold-device" in holder.command
    assert holder.devices == (node,)
    assert 0 <= holder.age_s < 60
    assert holder.user
