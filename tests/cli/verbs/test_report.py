"""`instrument report` end to end: every source, every option, every file, what is refused."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import instrumentor
from instrumentor import ReportFiles, UsageError
from instrumentor_analysis.load import run_folder as run_folders
from instrumentor_analysis.ops.op_report import per_op_report
from instrumentor_analysis.ops.report_options import ReportOptions
from instrumentor_analysis.reports import csv
from tests.analysis.ops_rows import FIXTURES, header, op, signpost, step, text, write
from tests.analysis.reports.summaries import run_folder, torch_folder
from tests.conftest import RepoFactory, RunCli, first_line
from tests.end_to_end.small import script
from tests.warned import texts

Say = Callable[..., str]
TRAINING = FIXTURES / "training_v2_1.csv"
#: IDs of step_compile, step_steady_1 and step_steady_2 in it.
FIRST, SECOND, THIRD = range(3, 13), range(15, 24), range(26, 35)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder under Tracy with two steady steps of seven ops."""
    return run_folder(tmp_path / "mnist_baseline")


@pytest.fixture
def say(run_cli: RunCli, tmp_path: Path) -> Say:
    """What `instrument report ...` prints, when it ends well."""

    def call(*arguments: str | Path, env: dict[str, str] | None = None) -> str:
        done = run_cli("report", *arguments, cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def ids(printed: str) -> list[int]:
    """IDs in the table of ops."""
    table = printed.partition("ID  Total")[2].partition("\n\n")[0]
    return [int(line.split()[0]) for line in table.splitlines() if re.match(r" {0,4}\d+ ", line)]


def names(folder: Path) -> set[str]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# -- sources -----------------------------------------------------------------------------------


def test_a_csv_shows_ops_stacked_report_advice_and_summary(say: Say, tmp_path: Path) -> None:
    printed = say(TRAINING)
    assert ids(printed) == list(THIRD)
    for part in (
        *("Device time by kind of op", "Advice", "step_steady_2: the last complete"),
        *("device time    ", "Potential savings (upper bound)"),
    ):
        assert part in printed
    assert "\x1b" not in printed
    assert names(tmp_path) == set()


def test_a_run_folder_shows_the_summary_and_refreshes_its_files(say: Say, run: Path) -> None:
    printed = say(run)
    assert ids(printed) == []
    assert "Wall clock of fwd+bwd, 2 steady steps" in printed
    assert {"summary.json", "summary.md", "report.html"} <= names(run)
    assert "tracy_perf/tt_perf_report_stacked.png" in names(run)
    assert ids(say(run, "--ops")) != []


def test_the_tables_of_tt_perf_report_are_made_once(say: Say, run: Path) -> None:
    say(run)
    table = run / "tracy_perf" / "tt_perf_report.csv"
    first = table.stat().st_mtime_ns
    say(run)
    assert table.stat().st_mtime_ns == first
    assert "tt_perf_report" in json.loads((run / "summary.json").read_text())["artifacts"]
    (run / "tracy_perf" / "ops_perf_results.csv").touch()
    say(run)
    assert table.stat().st_mtime_ns > first


def test_a_look_at_another_step_leaves_the_files_of_the_run_alone(say: Say, run: Path) -> None:
    say(run)
    before = {name: (run / name).read_bytes() for name in names(run)}
    assert "step_compile: the step asked for" in say(run, "--step", "0")
    say(run, "--ignore-signposts")
    assert {name: (run / name).read_bytes() for name in names(run)} == before


def test_of_several_reports_of_tracy_the_newest_is_read_and_named_and_nothing_written(
    say: Say, tmp_path: Path
) -> None:
    reports = tmp_path / "out" / "reports"
    for number, stamp in enumerate(("2026_01_05_10_20_30", "named/2026_01_06_10_20_30")):
        (reports / stamp).mkdir(parents=True)
        csv_file = reports / stamp / "ops_perf_results.csv"
        csv_file.write_text(text(step("step_steady_1", [op(us=10.0 + number)])))
    before = names(tmp_path)
    for source in ("out", "out/reports"):
        document = json.loads(say(source, "--json"))
        read = "out/reports/named/2026_01_06_10_20_30"
        assert document["device_time_ms"] == pytest.approx(0.011)
        assert document["run"] == {"ops": f"{read}/ops_perf_results.csv"}
        said = f"2 reports below {source}: read the newest, {read}"
        assert said in texts(document["warnings"])
    for source, ms in (("out/reports/named", 0.011), ("out/reports/2026_01_05_10_20_30", 0.010)):
        document = json.loads(say(source, "--json"))
        assert document["device_time_ms"] == pytest.approx(ms)
        assert not any("reports below" in warning for warning in texts(document["warnings"]))
    assert names(tmp_path) == before


def test_every_output_names_the_trace_that_it_is_about(say: Say, tmp_path: Path) -> None:
    (tmp_path / "my trace.csv").write_text(TRAINING.read_text())
    printed = say("my trace.csv", "--html", "page.html", "--perfetto", "trace.json")
    assert "\nmy trace.csv  tracy" in printed
    page = (tmp_path / "page.html").read_text()
    assert "<h1>my trace.csv</h1>" in page
    assert '<th scope="row">ops</th><td class="text">my trace.csv</td>' in page
    assert '"title":"my trace.csv"' in (tmp_path / "trace.json").read_text()
    assert "2 ops CSVs  tracy" in say("my trace.csv", TRAINING)


def test_figures_in_the_words_of_other_tools(say: Say, run: Path, tmp_path: Path) -> None:
    say(run, "--openmetrics", "ci.prom", "--tt-xla-json", "bench.json")
    metrics = (tmp_path / "ci.prom").read_text()
    assert "instrument_wall_clock_median_seconds{" in metrics and metrics.endswith("# EOF\n")
    assert json.loads((tmp_path / "bench.json").read_text())["measurements"]
    say(run, "--blacksmith-json", "perf_summary.json")
    assert json.loads((tmp_path / "perf_summary.json").read_text())["ops"]["totals"]


def test_several_hosts_are_one_system(say: Say, tmp_path: Path) -> None:
    hosts = []
    for name, us in (("a", 10.0), ("b", 12.5)):
        hosts.append(tmp_path / f"{name}.csv")
        hosts[-1].write_text(text(step("step_steady_1", [op(us=us), op(us=3.0)])))
    document = json.loads(say(*hosts, "--json"))
    assert document["device_time_ms"] == pytest.approx(0.0155)
    assert document["device_time"]["devices"] == 2


# -- options -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--step", "1"), list(SECOND)),
        (("--step", "0"), list(FIRST)),
        (("--step", "all"), [*THIRD]),
        (("--start-signpost", "step_steady_1_end"), [*THIRD, 37, 38, 39]),
        (("--signpost", "step_steady_1_end"), [*THIRD, 37, 38, 39]),
        (("--end-signpost", "step_compile_end"), list(FIRST)),
        (("--ignore-signposts", "--id-range", "-4"), [2, 3, 4]),
        (("--id-range", "28-30"), [28, 29, 30]),
        (("--id-range", "33-"), [33, 34]),
        (("--hide-below", "20"), [27, 28]),
        (("--min-percentage", "20"), list(THIRD)),
    ],
)
def test_windows_and_filters(say: Say, arguments: tuple[str, ...], expected: list[int]) -> None:
    assert ids(say(TRAINING, *arguments)) == expected


def test_signposts_can_be_rows(say: Say) -> None:
    border = ("--end-signpost", "step_compile_end")
    assert "step_compile_start (signpost)" in say(TRAINING, *border, "--print-signposts")
    assert "(signpost)" not in say(TRAINING, *border)


def test_summary_and_ops_are_of_the_same_window(say: Say) -> None:
    document = json.loads(say(TRAINING, "--start-signpost", "step_steady_1_start",
                              "--end-signpost", "step_steady_1_end", "--json"))  # fmt: skip
    assert document["device_time_ms"] == pytest.approx(0.6776)
    assert (
        document["window"]["how"] == "ops after 'step_steady_1_start', before 'step_steady_1_end'"
    )


def test_no_advice_and_no_summary(say: Say) -> None:
    assert "Advice" not in say(TRAINING, "--no-advice")
    only = say(TRAINING, "--no-summary")
    assert ids(only) == list(THIRD)
    assert "Device time by kind of op" not in only and "the last complete" not in only


def test_an_architecture_of_ones_own(say: Say) -> None:
    assert "on blackhole" in say(TRAINING, "--arch", "P150")
    assert "on blackhole" in say(TRAINING, env={"INSTRUMENT_ARCH": "P150"})


def test_an_unknown_architecture_is_reported_without_utilisation(
    run_cli: RunCli, say: Say, run: Path, tmp_path: Path
) -> None:
    ops_csv = run / "tracy_perf" / "ops_perf_results.csv"
    ops_csv.write_text(ops_csv.read_text().replace("wormhole_b0", "quasar"))
    printed = say(run, "--ops", "--csv", "x.csv", "--html", "x.html", "--plots", "plots",
                  "--perfetto", "x.json")  # fmt: skip
    assert "on quasar" in printed
    assert " ".join(printed.split()).count("No peaks are known for quasar") == 1
    for word in ("matmul FLOPs", "SLOW", "at its bound", "nothing to improve", "nan"):
        assert word not in printed
    assert "Roofline" not in (tmp_path / "x.html").read_text()
    assert names(tmp_path / "plots") == {
        f"{n}.{k}" for n in ("step_times", "breakdown", "gaps") for k in ("png", "svg")
    }
    for name in ("x.csv", "x_stacked.csv", "x.json", "mnist_baseline/summary.md"):
        assert not re.search(r"\bnan\b", (tmp_path / name).read_text(), re.IGNORECASE), name
    document = json.loads(say(run, "--json", "--ops"))
    assert document["architecture"] == "quasar"
    assert (document["dram_percent"], document["matmul_flops_percent"]) == (None, None)
    assert {each["kind"] for each in document["savings"]} == {"gap"}
    for each in document["ops"]:
        assert (each["dram_percent"], each["flops_percent"]) == (None, None)
        assert each["bound"] in ("", "HOST")
    assert document["device_time_ms"] and document["categories"] and document["verdict"]
    known = json.loads(say(run, "--json", "--arch", "p100"))
    assert known["dram_percent"] and not any(
        "No peaks" in text for text in texts(known["warnings"])
    )
    refused = run_cli("report", run, "--flops", "1e9", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--flops needs a peak: none is known for quasar" in refused.stderr


@pytest.mark.parametrize(
    ("group", "first"),
    [("op", "Matmul "), ("memory", "Matmul (in0:dram_interleaved)"), ("category", "Compute ")],
)
def test_the_stacked_report_by(say: Say, group: str, first: str) -> None:
    stacked = say(TRAINING, "--group-by", group).partition("Device time by kind of op\n")[2]
    assert stacked.splitlines()[2].split(maxsplit=1)[1].startswith(first)


def test_raw_op_codes(say: Say) -> None:
    assert "Matmul 2048 x 2048 x 2048" not in say(TRAINING, "--raw-op-codes", "--no-summary",
                                                 "--no-advice")  # fmt: skip


def test_host_ops_devices_and_replays(say: Say) -> None:
    models = FIXTURES / "models_v2_1.csv"
    whole = ids(say(models, "--ignore-signposts"))
    without = ids(say(models, "--ignore-signposts", "--no-host-ops"))
    assert set(without) < set(whole)
    devices = FIXTURES / "two_devices_v1.csv"
    merged = ids(say(devices, "--ignore-signposts"))
    assert len(ids(say(devices, "--ignore-signposts", "--no-merge-devices"))) == 2 * len(merged)
    replay = FIXTURES / "replay.csv"
    hint = "--tracing-mode keeps the order of the file"
    flat = " ".join(say(replay, "--ignore-signposts").split())
    assert hint in flat
    assert hint not in " ".join(say(replay, "--ignore-signposts", "--tracing-mode").split())


def test_active_experts(say: Say) -> None:
    sparse = FIXTURES / "sub_devices.csv"
    assert say(sparse, "--active-experts", "1") != say(sparse, "--active-experts", "2")


def test_colours(say: Say) -> None:
    assert "\x1b[31m" in say(TRAINING, "--color", env={"NO_COLOR": ""})
    assert "\x1b" not in say(TRAINING, "--no-color", env={"NO_COLOR": "", "FORCE_COLOR": "1"})
    assert "\x1b" not in say(TRAINING, env={"NO_COLOR": ""})


def test_json_with_and_without_the_ops(say: Say, run: Path) -> None:
    document = json.loads(say(run, "--json"))
    assert document == json.loads((run / "summary.json").read_text())
    found = json.loads(say(TRAINING, "--json", "--ops", "--id-range", "27-28"))["ops"]
    assert [each["id"] for each in found] == [27, 28]
    assert found[0]["device_time_us"] == 300.0
    assert found[0]["gap_us"] is None


def test_defaults_in_pyproject(say: Say, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.instrument]\ngroup_by = \"op\"\n"
                                             .replace("group_by", "group-by"))  # fmt: skip
    assert "(in0:" not in say(TRAINING, "--no-advice")


def test_mfu(say: Say, run: Path) -> None:
    record = run / "timings.jsonl"
    events = [json.loads(line) | {"batch_shape": [8, 4], "batch_samples": 8}
              for line in record.read_text().splitlines()]  # fmt: skip
    record.write_text("".join(json.dumps(event) + "\n" for event in events))
    printed = say(run, "--flops", "1e9", "--peak-tflops", "16")
    # 8 samples in 5 ms each: 1600 a second.
    assert re.search(r"fwd\+bwd only +1,600 samples/s +batch 8x4", printed)
    assert re.search(r"model FLOPs +1\.0 GFLOPs +per sample, as given", printed)
    assert re.search(r"MFU +10\.0 % +of 16\.0 TFLOP/s, as given", printed)
    wall = json.loads((run / "summary.json").read_text())["wall_clock_ms"]
    assert wall["mfu"]["percent"] == pytest.approx(10.0)
    assert wall["samples_per_s"] == 1600.0


# -- files -------------------------------------------------------------------------------------

WHOLE = ("--ignore-signposts", "--raw-op-codes", "--group-by", "op")


def test_the_csv_is_that_of_the_library(say: Say, tmp_path: Path) -> None:
    printed = say(TRAINING, *WHOLE, "--csv", "ours.csv", "--summary-file", "also.csv")
    # The ops are in the file: half a million lines on the screen help nobody.
    assert not ids(printed) and "Device time by kind of op" not in printed
    assert not say(TRAINING, *WHOLE, "--csv", "silent.csv", "--no-summary").strip()
    assert ids(say(TRAINING, *WHOLE, "--csv", "again.csv", "--ops"))
    report = per_op_report(TRAINING, ReportOptions(ignore_signposts=True, group_by="op"))
    assert (tmp_path / "ours.csv").read_text() == csv.render(report, raw_op_codes=True)
    assert (tmp_path / "also.csv").read_text() == csv.render_stacked(report)
    assert not (tmp_path / "ours_stacked.csv").exists()


def test_every_file_that_can_be_asked_for(say: Say, run: Path, tmp_path: Path) -> None:
    (run / "tracy_profile").mkdir()
    (run / "tracy_profile" / "profile_log_device.csv").write_text("log\n")
    out = tmp_path / "out"
    out.mkdir()
    say(run, "--csv", out / "ops.csv", "--html", out / "page.html", "--plots", out / "plots",
        "--perfetto", out / "trace.json", "--visualizer", out / "tt")  # fmt: skip
    assert names(out) == {
        "ops.csv", "ops_stacked.csv", "ops_stacked.png", "page.html", "trace.json",
        "tt/ops_perf_results.csv", "tt/profile_log_device.csv",
        *(f"plots/{n}.{k}" for n in ("step_times", "breakdown", "roofline", "gaps")
          for k in ("png", "svg")),
    }  # fmt: skip
    assert (out / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert json.loads((out / "trace.json").read_text())["traceEvents"]


def test_the_older_options_of_tt_perf_report(say: Say, tmp_path: Path) -> None:
    say(TRAINING, "--stacked-csv", "kinds", "--classic-colors")
    table, picture = tmp_path / "kinds.csv", tmp_path / "kinds.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    say(TRAINING, "--summary-file", "plain.csv")
    assert (tmp_path / "plain.csv").read_text() == table.read_text()
    assert (tmp_path / "plain.png").read_bytes() != picture.read_bytes()
    assert say(TRAINING, "--no-stack-by-in0") == say(TRAINING, "--group-by", "op")
    short = say(TRAINING, "--no-stacked-report", "--csv", "ops.csv")
    assert "Device time by kind of op" not in short and "Top ops by device time" in short
    assert not list(tmp_path.glob("ops_stacked*"))


@pytest.mark.parametrize(
    "option", ["--csv", "--summary-file", "--html", "--perfetto", "--openmetrics"]
)
def test_nothing_is_replaced_without_force(run_cli: RunCli, tmp_path: Path, option: str) -> None:
    (tmp_path / "mine.x").write_text("mine")
    refused = run_cli("report", TRAINING, option, "mine.x", cwd=tmp_path)
    assert refused.returncode == 2
    assert "mine.x exists" in refused.stderr and "--force" in refused.stderr
    assert (tmp_path / "mine.x").read_text() == "mine"
    forced = run_cli("report", TRAINING, option, "mine.x", "--force", cwd=tmp_path)
    assert forced.returncode == 0
    assert (tmp_path / "mine.x").read_text() != "mine"
    assert names(tmp_path) <= {"mine.x", "mine_stacked.csv", "mine_stacked.png", "mine.png"}


def test_a_second_file_and_a_folder_are_not_replaced_either(
    run_cli: RunCli, tmp_path: Path
) -> None:
    (tmp_path / "ops_stacked.csv").write_text("mine")
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "mine.png").write_text("mine")
    for arguments in (("--csv", "ops.csv"), ("--plots", "plots")):
        done = run_cli("report", TRAINING, *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert " exists" in done.stderr
    assert names(tmp_path) == {"ops_stacked.csv", "plots/mine.png"}


CHANGED = "(changed since the run: shown without its code)"
FORWARD = "        loss = model(batch)\n"


@pytest.fixture
def measured(git_repo: RepoFactory) -> Path:
    """A folder that a run left, and in it ops of a device whose locations name the script."""
    repo = git_repo({"train.py": script()})
    options = instrumentor.RunOptions(profiler="wallclock", cwd=repo)
    folder = instrumentor.run(repo / "train.py", options=options).folder
    code = instrumentor.rewrite(script()).code.decode()
    line = code.splitlines(keepends=True).index(FORWARD) + 1
    place = {"LOC": f'loc("{repo.name}/train.py":{line}:5)', "CONST_EVAL_OP": "false"}
    rows = step("step_steady_1", [op() | place, op(us=5.0)])
    (folder / "tracy_perf").mkdir()
    (folder / "tracy_perf" / "ops_perf_results.csv").write_text(
        text(rows, header("v2.1", tuple(place)))
    )
    facts = json.loads((folder / "run.json").read_text()) | {"profiler": "tracy"}
    (folder / "run.json").write_text(json.dumps(facts))
    return folder


def test_the_code_of_a_script_that_was_edited_since_is_not_shown(say: Say, measured: Path) -> None:
    path, page = measured.parent.parent / "train.py", measured / "report.html"
    original = path.read_bytes()
    facts = json.loads((measured / "run.json").read_text())
    assert facts["source_hashes"] == {"train.py": hashlib.sha256(original).hexdigest()}
    number = script().splitlines(keepends=True).index(FORWARD) + 1
    assert f"train.py:{number} " in say(measured)
    assert FORWARD.rstrip() in page.read_text() and CHANGED not in page.read_text()

    path.write_bytes(b"import math\n" + original)
    say(measured)
    assert FORWARD.strip() not in page.read_text() and CHANGED in page.read_text()

    # A checkout brings the same file back, with another time.
    path.write_bytes(original)
    os.utime(path, (4e9, 4e9))
    say(measured)
    assert FORWARD.rstrip() in page.read_text() and CHANGED not in page.read_text()


@pytest.mark.parametrize("why", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_to_is_reported_on(
    run: Path, monkeypatch: pytest.MonkeyPatch, why: int
) -> None:
    def full(target: Path, content: bytes) -> None:
        raise OSError(why, os.strerror(why), str(target))

    before = names(run)
    for module in ("reports.write", "shared.files"):
        monkeypatch.setattr(f"instrumentor_analysis.{module}.write_whole", full)
    found = instrumentor.report(run)
    assert found.summary.wall_clock is not None and found.summary.device_time_ms
    table = run / "tracy_perf" / "tt_perf_report.csv"
    why_not = f"{table}: {os.strerror(why)}"
    assert found.unrefreshed == f"{run}: its files could not be refreshed ({why_not})"
    assert names(run) == before
    # A file that was asked for is another matter.
    with pytest.raises(UsageError, match=os.strerror(why)):
        instrumentor.report(run, files=ReportFiles(html=run / "mine.html"))


def test_no_file_behind_a_link_in_a_run_folder_is_touched(
    run_cli: RunCli, run: Path, tmp_path: Path
) -> None:
    """A run folder may come from anybody: a link in it would lead to files of the user."""
    mine = tmp_path / "mine"
    (run / "tracy_perf").rename(mine)
    (run / "tracy_perf").symlink_to("../mine")
    for name in ("tt_perf_report.csv", "tt_perf_report_stacked.csv", "tt_perf_report_stacked.png"):
        (mine / name).write_text("mine")
        os.utime(mine / name, (0, 0))
    page = tmp_path / "page.html"
    page.write_text("mine")
    (run / "report.html").symlink_to(page)
    before = {name: (mine / name).read_bytes() for name in names(mine)}
    done = run_cli("report", run, cwd=tmp_path)
    assert done.returncode == 0
    assert {name: (mine / name).read_bytes() for name in names(mine)} == before
    assert page.read_text() == "mine"
    assert "tracy_perf: is a symbolic link, behind which nothing is written" in done.stderr


def test_a_link_at_the_place_of_a_report_is_replaced_not_followed(say: Say, run: Path) -> None:
    page = run.parent / "page.html"
    page.write_text("mine")
    (run / "report.html").symlink_to(page)
    say(run)
    assert page.read_text() == "mine" and not (run / "report.html").is_symlink()


def test_why_a_folder_is_not_refreshed_is_said(run_cli: RunCli, run: Path, tmp_path: Path) -> None:
    (run / "summary.json").mkdir()
    (run / "summary.json" / "mine").write_text("mine")
    done = run_cli("report", run, "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["device_time_ms"]
    assert f"warning: {run.name}: its files could not be refreshed" in done.stderr
    assert "summary.json: Is a directory" in done.stderr and ".tmp" not in done.stderr


OUTPUTS = ("--csv", "--summary-file", "--html", "--plots", "--perfetto", "--visualizer")


@pytest.mark.parametrize("option", OUTPUTS)
def test_an_output_into_a_missing_folder_is_refused_before_the_work(
    run_cli: RunCli, tmp_path: Path, option: str
) -> None:
    done = run_cli("report", "nowhere.csv", option, "nodir/x", "--force", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: nodir: no such folder\nhint: Create it first: mkdir -p nodir\n"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (("--csv", "x.csv", "--summary-file", "x.csv"), "two outputs would go to x.csv"),
        (("--csv", "x.csv", "--html", "x_stacked.csv"), "two outputs would go to x_stacked.csv"),
        (("--plots", "d", "--html", "d"), "two outputs would go to d"),
        (("--visualizer", "d", "--html", "d/x.html"), "d/x.html would lie in d, another output"),
    ],
)
def test_two_outputs_in_one_place_are_refused(
    run_cli: RunCli, tmp_path: Path, files: tuple[str, ...], said: str
) -> None:
    for force in ((), ("--force",)):
        done = run_cli("report", TRAINING, *files, *force, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr and "a place of its own" in done.stderr
    assert names(tmp_path) == set()


# -- what is refused ---------------------------------------------------------------------------


def _damaged(folder: Path) -> Path:
    lines = TRAINING.read_text().splitlines()
    lines[6] = lines[6].rpartition(",")[0]
    (folder / "damaged.csv").write_text("\n".join(lines) + "\n")
    return folder / "damaged.csv"


def _run_file(folder: Path) -> Path:
    (folder / "run.json").write_text("{}")
    return folder / "run.json"


def _notes(folder: Path) -> Path:
    (folder / "notes.txt").write_text("to do")
    return folder / "notes.txt"


def _empty_window(folder: Path) -> Path:
    path = write(folder / "none.csv", [*step("step_steady_1", []), signpost("benchmark_complete")])
    return path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere",), "nowhere does not exist"),
        ((".",), "is not the folder of a run"),
        ((_damaged,), "damaged.csv, line 7"),
        ((Path(__file__),), "test_report.py is a script, and a report is of what was measured"),
        ((_run_file,), "instrument report {folder}"),
        ((_notes,), "line 1: no column 'OP CODE'"),
        ((_empty_window,), "step step_steady_1 holds no ops"),
        ((TRAINING, "--step", "9"), "there is no step 9"),
        ((TRAINING, "--step", "two"), "--step two: must be a number or all"),
        ((TRAINING, "--step", "1", "--signpost", "x"), "each choose a window"),
        ((TRAINING, "--id-range", "5"), "'5' is not a range of IDs"),
        ((TRAINING, "--id-range", "900-"), "no op in the ID range; the IDs run from 26 to 34"),
        ((TRAINING, "--arch", "quasar"), "unknown architecture 'quasar'"),
        ((TRAINING, "--group-by", "colour"), "--group-by colour"),
        ((TRAINING, "--active-experts", "0"), "must be positive"),
        ((TRAINING, "--html", "nowhere/x.html"), "nowhere"),
        ((TRAINING, "--visualizer", "v"), "needs profile_log_device.csv"),
        ((TRAINING, "."), "several sources have to be ops CSVs"),
        ((TRAINING, "--flops", "-1"), "--flops -1: must be above 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_ends_with_code_2_and_a_remedy(
    run_cli: RunCli, tmp_path: Path, arguments: tuple[object, ...], said: str
) -> None:
    made = [each(tmp_path) if callable(each) else each for each in arguments]
    before = names(tmp_path)
    done = run_cli("report", *made, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert said.format(folder=tmp_path) in done.stderr
    assert "Traceback" not in done.stderr
    assert names(tmp_path) == before


def _closed() -> None:
    def read(path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    run_folders.read = read  # in a process of its own


@pytest.mark.parametrize("verb", ["report", "compare"])
def test_a_run_whose_facts_may_not_be_read_has_no_figures(
    run_cli: RunCli, run: Path, tmp_path: Path, verb: str
) -> None:
    others = [run_folder(tmp_path / "other")] if verb == "compare" else []
    done = run_cli(verb, run, *others, cwd=tmp_path, first=_closed)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: mnist_baseline/run.json: cannot be read: Permission denied" in done.stderr
    assert "hint: See who may read it (ls -l)" in done.stderr


def test_ops_of_a_profile_by_torch(run_cli: RunCli, tmp_path: Path) -> None:
    folder = torch_folder(tmp_path / "run")
    assert run_cli("report", folder, cwd=tmp_path).returncode == 0
    shown = run_cli("report", folder, "--ops", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "aten::addmm" in shown.stdout and "62.3 %" in shown.stdout
    few = run_cli("report", folder, "--no-summary", "--hide-below", "10", cwd=tmp_path)
    assert "aten::linear" not in few.stdout and "1 op below 10 % is not shown" in few.stdout
    document = json.loads(run_cli("report", folder, "--ops", "--json", cwd=tmp_path).stdout)
    assert [each["self_time_us"] for each in document["ops"]] == [4.5, 90.0, 50.0]
    for option, hint in (
        (("--id-range", "1-2"), "instrument report run --ops"),
        (("--csv", "x.csv"), "torch_profile/ops.csv"),
    ):
        done = run_cli("report", folder, *option, cwd=tmp_path)
        assert done.returncode == 2
        assert "no device ops" in done.stderr and hint in done.stderr
        assert "rofile with tracy" not in done.stderr
    assert not (tmp_path / "x.csv").exists()


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    line, said = first_line("report", str(TRAINING), cwd=tmp_path)
    assert (line, said) == ("step step_steady_2, on wormhole\n", "")


# -- the library -------------------------------------------------------------------------------


def test_the_same_from_python(run: Path, tmp_path: Path) -> None:
    found = instrumentor.report(run, ReportOptions(step=1), ReportFiles(csv=tmp_path / "x.csv"))
    assert found.ops.window == "step step_steady_1"
    assert found.summary.window.step == "step_steady_1"
    names = ("x.csv", "x_stacked.csv", "x_stacked.png")
    assert found.written == tuple(tmp_path / name for name in names)
    with pytest.raises(UsageError, match="exists"):
        instrumentor.report(str(run), files=ReportFiles(csv=tmp_path / "x.csv"))
    with pytest.raises(UsageError, match="nothing to report on"):
        instrumentor.report([])


def test_the_source_and_the_records_stay_whatever_is_asked(run: Path, tmp_path: Path) -> None:
    trace = tmp_path / "ops.csv"
    trace.write_bytes(TRAINING.read_bytes())
    samples = (run / "timings.jsonl").read_bytes()
    with pytest.raises(UsageError, match="is an input"):
        instrumentor.report(trace, files=ReportFiles(csv=trace, force=True))
    with pytest.raises(UsageError, match="is a record of the run"):
        instrumentor.report(run, files=ReportFiles(html=run / "timings.jsonl", force=True))
    assert trace.read_bytes() == TRAINING.read_bytes()
    assert (run / "timings.jsonl").read_bytes() == samples
