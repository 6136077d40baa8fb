"""What make runs before anything is installed: finding an interpreter, checking, announcing."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import FIND_PYTHON, ROOT

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"


def _make_venv() -> ModuleType:
    """`.ci/make_venv.py`, which no import statement reaches."""
    spec = importlib.util.spec_from_file_location("make_venv", ROOT / ".ci" / "make_venv.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_venv"] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


make_venv = _make_venv()


def _executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _find_python(*versions: str, path: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(FIND_PYTHON), *versions],
        env={"PATH": f"{path}:/usr/bin:/bin", "HOME": str(home), "PYENV_ROOT": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def _fake_python(path: Path, version: str, has_venv: bool = True) -> None:
    status = 0 if has_venv else 1
    _executable(
        path,
        f'#!/bin/sh\ncase "$2" in *version_info*) echo {version};; *) exit {status};; esac\n',
    )


def test_an_interpreter_that_starts_and_has_ensurepip_wins(tmp_path: Path) -> None:
    _executable(tmp_path / "bin" / "python3.97", "#!/bin/sh\nexit 127\n")
    _fake_python(tmp_path / "bin" / "python3.98", "3.98", has_venv=False)
    _fake_python(tmp_path / "bin" / "python3.99", "3.99")
    path = str(tmp_path / "bin")
    found = _find_python("3.97", "3.98", "3.99", path=path, home=tmp_path)
    assert found.stdout.strip() == str(tmp_path / "bin" / "python3.99")
    found = _find_python("3.98", path=path, home=tmp_path)
    assert found.stdout.strip().endswith("python3.98")


def test_an_interpreter_of_pyenv_is_found(tmp_path: Path) -> None:
    _fake_python(tmp_path / "versions" / "3.99.4" / "bin" / "python3", "3.99")
    found = _find_python("3.99", path=str(tmp_path / "bin"), home=tmp_path)
    assert found.stdout.strip() == str(tmp_path / "versions" / "3.99.4" / "bin" / "python3")


def test_no_interpreter_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    found = _find_python("3.98", path=str(tmp_path), home=tmp_path)
    assert found.returncode == 1
    assert "No CPython among 3.98 found" in found.stderr
    assert "make PYTHON=" in found.stderr


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> make_venv.Environment:
    monkeypatch.setattr(make_venv, "ROOT", tmp_path)
    return make_venv.Environment(
        folder=".venv",
        pythons=(OWN,),
        requirements=("torch==2.13.0",),
        download_gb=0.4,
        disk_gb=1.5,
        cuda_download_gb=2.9,
        cuda_disk_gb=5.5,
    )


def _stopped(capsys: pytest.CaptureFixture[str], stop: pytest.ExceptionInfo[SystemExit]) -> str:
    assert stop.value.code == 4
    return capsys.readouterr().err


def test_a_wrong_version_stops(
    environment: make_venv.Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_venv.Environment(".venv", ("2.7",), (), 0, 0)
    with pytest.raises(SystemExit) as stop:
        make_venv._check_interpreter(other)
    assert f".venv needs CPython 2.7; {sys.executable} is {OWN}" in _stopped(capsys, stop)
    make_venv._check_interpreter(environment)


def test_a_missing_ensurepip_stops_and_names_the_package(
    environment: make_venv.Environment,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(SystemExit) as stop:
        make_venv._check_interpreter(environment)
    assert f"apt install python{OWN}-venv" in _stopped(capsys, stop)


def test_too_little_disk_stops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 1_000_000_000

    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage)
    with pytest.raises(SystemExit) as stop:
        make_venv._check_disk(tmp_path / ".venv", 1.5, ".venv")
    assert "takes about 1.5 GB of disk" in _stopped(capsys, stop)
    make_venv._check_disk(tmp_path / ".venv", 0.9, ".venv")


@pytest.mark.parametrize(
    ("names", "said", "cuda"),
    [
        (["torch", "nvidia-cublas"], "CUDA packages", True),
        (["torch", "sympy"], "Downloading about 0.4 GB", False),
        ([], "", False),
    ],
)
def test_the_download_is_announced(
    environment: make_venv.Environment,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    names: list[str],
    said: str,
    cuda: bool,
) -> None:
    def pip(_folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        report = Path(arguments[arguments.index("--report") + 1])
        report.write_text(json.dumps({"install": [{"metadata": {"name": n}} for n in names]}))
        return subprocess.CompletedProcess(arguments, 0)

    monkeypatch.setattr(make_venv, "_pip_process", pip)
    assert make_venv._announce(environment, Path(".venv"), ()) is cuda
    asking, _, output = capsys.readouterr().out.partition("\n")
    assert asking == "Asking the package index for torch==2.13.0"
    assert said in output
    assert ("PIP_ARGS" in output) is cuda
    assert bool(output) is bool(said)


def test_every_target_is_described() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for target in ("demo", "test", "test-all", "test-xla", "test-tracy", "bench", "lint", "clean"):
        assert f"\n{target}:" in makefile
        assert f"make {target} " in shown
