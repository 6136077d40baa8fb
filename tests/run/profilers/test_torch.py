"""The embedded profiler: the hook's files are moved into the run's folder."""

from __future__ import annotations

import sys
from pathlib import Path

from instrumentor.run.profilers import TORCH
from tests.run.profilers.conftest import RequestFactory
from tests.warned import texts


def test_hook_travels_with_the_run(make_request: RequestFactory) -> None:
    request = make_request()
    launch = TORCH.launch(request)
    assert launch.argv == (sys.executable, str(request.script), *request.arguments)
    hook = Path(launch.env["INSTRUMENT_HOOK"])
    assert "def open_profile" in hook.read_text()
    assert hook.is_relative_to(request.scratch)
    assert Path(launch.env["INSTRUMENT_HOOK_OUTPUT"]).is_relative_to(request.scratch)


def test_no_operations_is_a_warning(make_request: RequestFactory, tmp_path: Path) -> None:
    TORCH.launch(make_request())
    artifacts = TORCH.collect(tmp_path / "scratch", tmp_path / "out", 0)
    assert "ops" not in artifacts.files
    assert "wall clock alone" in texts(artifacts.warnings)[0]
    assert not (tmp_path / "out").exists()


def test_table_and_trace_are_moved(make_request: RequestFactory, tmp_path: Path) -> None:
    launch = TORCH.launch(make_request())
    folder = Path(launch.env["INSTRUMENT_HOOK_OUTPUT"])
    (folder / "ops.csv").write_text("op\n")
    (folder / "trace.json").write_text("{}")
    artifacts = TORCH.collect(tmp_path / "scratch", tmp_path / "out", 0)
    target = tmp_path / "out" / "torch_profile"
    assert artifacts.files == {
        "profile": target,
        "ops": target / "ops.csv",
        "trace": target / "trace.json",
    }
    assert (target / "ops.csv").read_text() == "op\n"
    assert not folder.exists()


def test_a_trace_alone_is_kept_with_a_warning(make_request: RequestFactory, tmp_path: Path) -> None:
    launch = TORCH.launch(make_request())
    (Path(launch.env["INSTRUMENT_HOOK_OUTPUT"]) / "trace.json").write_text("{}")
    artifacts = TORCH.collect(tmp_path / "scratch", tmp_path / "out", 0)
    assert "ops" not in artifacts.files
    assert "trace" in artifacts.files
    assert texts(artifacts.warnings) == ["torch.profiler wrote no table of operations."]
