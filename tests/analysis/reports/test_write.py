"""Reports in a run folder: whole or not at all, and nothing but ours is touched."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from instrumentor_analysis.clock.timings import Timings
from instrumentor_analysis.load.run_folder import RunFolder
from instrumentor_analysis.model import Locations, SourceLine
from instrumentor_analysis.ops.op_report import per_op_report
from instrumentor_analysis.reports import csv
from instrumentor_analysis.reports import summary as pages
from instrumentor_analysis.reports import write as render
from instrumentor_analysis.reports.write import with_stacked, write_all, write_to
from instrumentor_analysis.shared.errors import NothingMeasured
from instrumentor_analysis.summary.analysis import Analysis
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.reports.summaries import run_folder, torch_folder, tracy, wallclock_only
from tests.waiting import HANG_S


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_default_formats(tmp_path: Path) -> None:
    written = write_all(tracy(), tmp_path)
    assert written == {
        "json": tmp_path / "summary.json",
        "markdown": tmp_path / "summary.md",
        "html": tmp_path / "report.html",
    }
    assert sorted(files_of(tmp_path)) == ["report.html", "summary.json", "summary.md"]
    artifacts = json.loads((tmp_path / "summary.json").read_text("utf-8"))["artifacts"]
    assert artifacts["html"] == "report.html" and artifacts["ops"].startswith("tracy_perf/")
    assert "`report.html`" in (tmp_path / "summary.md").read_text("utf-8")


def test_every_format_where_the_user_wants_it(tmp_path: Path) -> None:
    folder, out = run_folder(tmp_path / "mnist_baseline"), tmp_path / "out"
    out.mkdir()
    (folder / "profile_log_device.csv").write_text("ARCH: wormhole_b0\n", encoding="utf-8")
    before = files_of(folder)
    names = {"csv": "ops.csv", "html": "page.html", "perfetto": "t.json", "plots": "p",
             "visualizer": "v"}  # fmt: skip
    targets = {name: out / file for name, file in names.items()}
    report = per_op_report(folder)
    written = write_to(with_stacked(targets), analyse(folder), report=report)
    assert files_of(folder) == before
    assert set(written) == {*targets.values(), out / "ops_stacked.csv", out / "ops_stacked.png"}
    assert sorted(files_of(out)) == [
        "ops.csv",
        "ops_stacked.csv",
        "ops_stacked.png",
        *(f"p/{n}.{k}" for n in ("breakdown", "gaps", "roofline", "step_times")
          for k in ("png", "svg")),
        "page.html",
        "t.json",
        "v/ops_perf_results.csv",
        "v/profile_log_device.csv",
    ]  # fmt: skip


def test_what_is_given_on_is_a_file_where_the_run_has_a_link(tmp_path: Path) -> None:
    """One that stays in the run leads elsewhere from another folder."""
    folder, out = run_folder(tmp_path / "run"), tmp_path / "out"
    (tmp_path / "secret.csv").write_text("secret", encoding="utf-8")
    (folder / "secret.csv").write_text("ARCH: wormhole_b0\n", encoding="utf-8")
    (folder / "logs").mkdir()
    (folder / "logs" / "profile_log_device.csv").symlink_to("../secret.csv")
    write_to({"visualizer": out}, analyse(folder), report=per_op_report(folder))
    log = out / "profile_log_device.csv"
    assert not log.is_symlink() and log.read_text("utf-8") == "ARCH: wormhole_b0\n"


def test_what_can_have_no_second_name_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    folder, out = run_folder(tmp_path / "run"), tmp_path / "out"
    (folder / "profile_log_device.csv").write_text("ARCH: wormhole_b0\n", encoding="utf-8")
    out.mkdir()  # a folder that holds nothing is free
    monkeypatch.setattr(render.os, "link", refused)
    write_to({"visualizer": out}, analyse(folder), replace=False)
    assert (out / "profile_log_device.csv").read_text("utf-8") == "ARCH: wormhole_b0\n"
    with pytest.raises(FileExistsError):
        write_to({"visualizer": out}, analyse(folder), replace=False)


@pytest.mark.parametrize(
    ("name", "module", "function"),
    [("csv", csv, "render"), ("stacked", csv, "render_stacked"), ("html", pages, "html")],
)
def test_a_name_that_is_no_text_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: object, function: str
) -> None:
    """Half a character, as in a path that is no UTF-8."""
    folder = run_folder(tmp_path / "run")
    monkeypatch.setattr(module, function, lambda *_, **__: "name\udc80")
    write_to({name: tmp_path / "x"}, analyse(folder), report=per_op_report(folder))
    assert (tmp_path / "x").read_bytes() == b"name?"


def test_again_gives_the_same(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    contents = []
    for _ in range(2):
        analysis = analyse(folder)
        write_all(analysis.summary, folder, analysis=analysis)
        contents.append(files_of(folder))
    assert contents[0] == contents[1]


def test_a_failed_write_leaves_the_earlier_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "summary.md"
    target.write_text("earlier", encoding="utf-8")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(render.os, "fsync", full)
    with pytest.raises(OSError, match="No space") as caught:
        write_all(tracy(), tmp_path, formats=["markdown"])
    assert caught.value.filename == str(target), "not a file that nobody knows"
    assert files_of(tmp_path) == {"summary.md": b"earlier"}


def test_a_link_that_appears_after_the_look_is_not_written_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who owns a run's folder can put one there at any moment."""
    run, mine = run_folder(tmp_path / "run"), tmp_path / "mine"
    mine.mkdir()

    def looking(folder: Path, target: Path) -> None:
        target.parent.rename(target.parent.with_name("before"))
        target.parent.symlink_to(mine)

    analysis, report = analyse(run), per_op_report(run)
    monkeypatch.setattr(render, "refuse_links", looking)
    targets = {"csv": run / "tracy_perf" / "tt_perf_report.csv"}
    with pytest.raises(OSError, match="behind which nothing is written"):
        write_to(targets, analysis, report=report, within=run)
    assert not any(mine.iterdir())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("csv", "no device ops to write"),
        ("stacked", "no device ops to sum"),
        ("visualizer", "ttnn-visualizer needs"),
        ("plots", "nothing to plot"),
    ],
)
def test_what_the_run_has_nothing_for_is_said_and_nothing_written(
    tmp_path: Path, name: str, said: str
) -> None:
    run, target = tmp_path / "run", tmp_path / "target"
    analysis = Analysis(wallclock_only(), Timings(), RunFolder(run))
    with pytest.raises(NothingMeasured, match=said):
        write_to({name: target, "html": tmp_path / "page.html"}, analysis)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_replaced_on_demand_only(tmp_path: Path) -> None:
    analysis = analyse(torch_folder(tmp_path / "run"))
    targets = {"perfetto": tmp_path / "t.json", "html": tmp_path / "page.html"}
    targets["html"].write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError):
        write_to(targets, analysis, replace=False)
    assert not targets["perfetto"].exists() and targets["html"].read_text("utf-8") == "mine"
    write_to(targets, analysis)
    assert "aten::addmm" in targets["html"].read_text("utf-8")


def test_a_torch_run(tmp_path: Path) -> None:
    folder = torch_folder(tmp_path / "run")
    targets = {"html": tmp_path / "page.html", "perfetto": tmp_path / "t.json"}
    write_to({**targets, "plots": tmp_path / "p"}, analyse(folder))
    assert "aten::addmm" in targets["html"].read_text("utf-8")


def test_sources_are_read_below_the_root_only(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "model").mkdir(parents=True)
    (root / "model" / "net.py").write_text("x = 1\n", encoding="utf-8")
    for secret in (tmp_path / "secret.py", root / "id_rsa"):
        secret.write_text("key\n", encoding="utf-8")
    (root / "key.py").symlink_to("id_rsa")
    outside = ("../secret.py", str(tmp_path / "secret.py"))
    (root / "large.py").write_bytes(b"#" * 2_000_000)
    (root / "folder.py").mkdir()
    (tmp_path / "link").symlink_to(root)
    names = ("model/net.py", *outside, "absent.py", "id_rsa", "key.py", "large.py", "folder.py")
    lines = tuple(SourceLine(name, 1, 1.0, 1.0, 1) for name in names)
    summary = replace(tracy(), locations=Locations(lines))
    for named in (root, tmp_path / "link"):
        assert render.read_sources(summary, named) == {"model/net.py": "x = 1\n"}
    assert render.read_sources(summary, None) == {}
    assert render.read_sources(replace(summary, locations=None), root) == {}


def _hashed(text: Any) -> Any:
    return sha256(text.encode()).hexdigest() if isinstance(text, str) else text


STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("facts", "modified_s", "shown"),
    [
        ({}, 9e9, True),
        ({"started": "yesterday", "source_hashes": ["x"]}, 9e9, True),
        ({"started": STARTED.isoformat()}, STARTED.timestamp() - 60, True),
        # The start is known to the second only.
        ({"started": STARTED.isoformat()}, STARTED.timestamp() + 0.9, True),
        ({"started": STARTED.isoformat()}, STARTED.timestamp() + 1, False),
        # What is no hash says nothing.
        ({"source_hashes": {"net.py": 5}, "started": STARTED.isoformat()}, 1.0, True),
        # A hash says more than a time: a checkout makes files younger, not different.
        ({"source_hashes": {"net.py": "x = 1\n"}, "started": STARTED.isoformat()}, 9e9, True),
        ({"source_hashes": {"net.py": "x = 2\n"}, "started": STARTED.isoformat()}, 1.0, False),
        ({"source_hashes": {"other.py": "x = 2\n"}, "started": STARTED.isoformat()}, 1.0, True),
        ({"source_hashes": {"other.py": "x = 2\n"}, "started": STARTED.isoformat()}, 9e9, False),
    ],
)
def test_a_source_that_changed_since_the_run_has_no_text(
    tmp_path: Path, facts: dict[str, Any], modified_s: float, shown: bool
) -> None:
    path = tmp_path / "net.py"
    path.write_text("x = 1\n", encoding="utf-8")
    os.utime(path, (modified_s, modified_s))
    hashes = facts.get("source_hashes")
    if isinstance(hashes, dict):
        found = {name: _hashed(text) for name, text in hashes.items()}
        facts = {**facts, "source_hashes": found}
    summary = replace(tracy(), locations=Locations((SourceLine("net.py", 1, 1.0, 1.0, 1),)))
    sources = render.read_sources(summary, tmp_path, RunFolder(tmp_path / "run", facts))
    assert sources == {"net.py": "x = 1\n" if shown else None}


def test_importing_is_cheap() -> None:
    code = """
import sys
import instrumentor_analysis.reports.write, instrumentor_analysis.reports.plots
from instrumentor_analysis.reports import json, kernel, perfetto, summary, visualizer
heavy = {"pandas", "numpy", "matplotlib", "jinja2", "rich"} & set(sys.modules)
assert not heavy, heavy
"""
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, timeout=HANG_S)
