"""What is found on a machine: interpreters, packages, devices, tools, holders of a device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from instrumentor.machine.device_nodes import device_holders, find_devices, planned_here
from instrumentor.machine.environment import examine, find_tt_xla
from instrumentor.machine.interpreter import Package
from instrumentor.machine.tracy_tools import find_tools
from instrumentor.shared.errors import UsageError
from instrumentor_analysis.shared.caveats import Caveat
from tests.conftest import STANDINS


def make_tools(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder


def test_devices_in_numeric_order(tmp_path: Path) -> None:
    assert find_devices(tmp_path / "none") == ()
    (tmp_path / "by-id").mkdir()
    for number in (10, 2, 0):
        (tmp_path / str(number)).touch()
    assert [path.name for path in find_devices(tmp_path)] == ["0", "2", "10"]
    assert find_devices(env={"INSTRUMENT_DEVICE_ROOT": str(tmp_path)}) == find_devices(tmp_path)
    assert find_devices(tmp_path, {"TT_METAL_SIMULATOR": "/sim/libttsim.so"}) == ()  # instead


def test_what_holds_on_xla_is_told_where_a_script_may_run_there(tmp_path: Path) -> None:
    none, card = {"INSTRUMENT_DEVICE_ROOT": str(tmp_path / "none")}, tmp_path / "card"
    card.mkdir()
    (card / "0").touch()
    told = [Caveat("host-reads-moved", "moved"), Caveat("validation-stays", "stays")]
    assert planned_here(told, none) == told[1:]
    for env in (
        {"INSTRUMENT_DEVICE_ROOT": str(card)},
        {**none, "PJRT_DEVICE": "TT"},
        {**none, "TT_METAL_SIMULATOR": "/sim/libttsim.so"},
    ):
        assert planned_here(told, env) == told


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


@pytest.mark.parametrize("names", [OLD, NEW])
def test_of_both_spellings_in_a_folder_the_installed_tracys_count(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    """An updated build leaves the older programs beside the new ones."""
    site = tmp_path / "site" / "tracy"
    site.mkdir(parents=True)
    capture, export = names
    (site / "common.py").write_text(
        f'TRACY_CAPTURE_TOOL = "{capture}"\nTRACY_CSVEXPROT_TOOL = "{export}"\n'
    )
    folder = make_tools(tmp_path / "tools", *OLD, *NEW)
    found = find_tools(folder, {"tracy": Package("tracy", None, (site,))})
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
        "site/tt_crank/bin",
        "build/third_party/tt-mlir-install/bin",
        "home/build/tools/profiler/bin",
        "work/build_Release/tools/profiler/bin",
        "site/ttnn/build_Release/tools/profiler/bin",
        "tt-xla/third_party/tt-mlir/install/bin",
        "tt-xla/build_Release/tools/profiler/bin",
    ],
)
def test_places_of_the_tools(tmp_path: Path, place: str) -> None:
    packages = {
        name: Package(name, None, (tmp_path / "site" / name,))
        for name in ("pjrt_plugin_tt", "ttnn", "tt_crank")
    }
    where = (tmp_path / "tt-xla", {"TT_METAL_HOME": str(tmp_path / "home")}, tmp_path / "work")
    assert find_tools(None, packages, *where) is None
    folder = make_tools(tmp_path / place, *NEW)
    found = find_tools(None, packages, *where)
    assert found is not None
    assert found.folder == folder


@pytest.mark.parametrize("file", ["common.py", "_original/common.py"])
def test_tools_bear_the_names_that_the_installed_tracy_uses(tmp_path: Path, file: str) -> None:
    path = tmp_path / "site" / "tracy" / file
    path.parent.mkdir(parents=True)
    path.write_text(
        'TRACY_CAPTURE_TOOL = "tracy-capture"\nTRACY_CSVEXPROT_TOOL = "tracy-csvexport"\n'
    )
    packages = {
        name: Package(name, None, (tmp_path / "site" / name,)) for name in ("tracy", "ttnn")
    }
    old = make_tools(tmp_path / "site" / "ttnn" / "bin", *OLD)
    assert find_tools(None, packages) is None
    with pytest.raises(UsageError, match="no tracy-capture and tracy-csvexport in it"):
        find_tools(old, packages)
    new = make_tools(tmp_path / "site" / "tracy" / "bin", *NEW)
    found = find_tools(None, packages)
    assert found is not None and found.folder == new


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
