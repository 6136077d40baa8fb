"""CSV to typed frame: formats, blanks, damage with line and column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from instrumentor_analysis.load.ops_csv import load, load_hosts
from instrumentor_analysis.load.scan import Region, scan
from instrumentor_analysis.load.table import Categorical
from instrumentor_analysis.ops.op_report import per_op_report
from instrumentor_analysis.reports import csv
from instrumentor_analysis.shared.errors import AnalysisError, BadOption, DamagedFile, NotAnOpsFile
from instrumentor_analysis.summary.summarise import summarise
from tests.analysis.ops_rows import FIXTURES, REAL, frame_of, header, op, signpost, step, text
from tests.warned import texts


def write(folder: Path, content: str) -> Path:
    """A file as the writer leaves it."""
    path = folder / "x.csv"
    path.write_text(content, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(
    ("name", "version"),
    [("two_devices_v1.csv", "v1"), ("v2_plain.csv", "v2"), ("training_v2_1.csv", "v2.1")],
)
def test_formats_have_one_schema(name: str, version: str) -> None:
    ops = load(FIXTURES / name)
    assert (ops.format, ops.warnings) == (version, ())
    for column in ("kernel_duration_ns", "op_to_op_latency_ns", "core_count", "device_id"):
        assert ops.frame[column].dtype == np.float64
    for column in ("op_code", "op_type", "attributes", "input_0_x", "output_0_memory"):
        assert isinstance(ops.frame[column], Categorical)
    assert ops.frame["line"].tolist() == list(range(2, len(ops.frame) + 2))


def test_signposts_leave_blanks_not_zeros() -> None:
    frame = load(FIXTURES / "training_v2_1.csv").frame
    posts = frame.take(frame["op_type"].equals("signpost"))
    assert posts["op_code"].tolist()[0] == "step_compile_start"
    for name in ("kernel_duration_ns", "core_count", "device_id"):
        assert np.isnan(posts[name]).all()
    assert not np.isnan(posts["host_start_ns"]).any()


def test_columns_that_a_file_lacks_are_blank(tmp_path: Path) -> None:
    columns = ("OP CODE", "OP TYPE", "DEVICE KERNEL DURATION [ns]")
    frame = load(write(tmp_path, text([op(us=3.0)], columns))).frame
    assert frame["kernel_duration_ns"].tolist() == [3000.0]
    for name in ("device_id", "op_to_op_latency_ns", "host_start_ns"):
        assert np.isnan(frame[name]).all()


TRAINING = (FIXTURES / "training_v2_1.csv").read_text(encoding="utf-8")
LINES = TRAINING.splitlines()
RECORDS = b"program_id,start_timestamp,end_timestamp,frequency,chip_id\n1,5,9,1.35,0\n"


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"", NotAnOpsFile, "is empty"),
        (b"\r\n", NotAnOpsFile, "is empty"),
        (b"a,b\n1,2\n", NotAnOpsFile, r"line 1: no column 'OP CODE', 'OP TYPE', 'DEVICE KERNEL D"),
        (b"OP CODE,OP TYPE\n", NotAnOpsFile, r"no column 'DEVICE KERNEL DURATION \[ns\]'"),
        (b"OP CODE,OP\rTYPE,x\n", NotAnOpsFile, "line 1"),
        (b"\xff\xfe\x00\x01", NotAnOpsFile, "not a text file"),
        (RECORDS, NotAnOpsFile, "records of the real-time profiler"),
        ("\r".join([*LINES, ""]).encode(), NotAnOpsFile, "carriage return alone"),
        (f"# mine\n{TRAINING}".encode(), NotAnOpsFile, "line 1: a comment where the header"),
        (
            "\n".join([*LINES[:5], LINES[5].replace(",", ',"', 1), *LINES[6:]]).encode(),
            DamagedFile,
            "line 6: a quote opens here and does not close",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    tmp_path: Path, content: bytes, kind: type[AnalysisError], message: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(kind, match=message) as caught:
        load(path)
    assert caught.value.hint


def test_a_truncated_file_names_line_and_column(tmp_path: Path) -> None:
    content = text([op(), op()])
    path = write(tmp_path, content[: content.rindex("tt_dnn_device") + 5])
    for read in (load, scan):
        with pytest.raises(DamagedFile) as caught:
            read(path)
        assert (caught.value.line, caught.value.column) == (3, "OP TYPE")
        assert "line 3, column 'OP TYPE': the file ends within this line" in caught.value.message


@pytest.mark.parametrize("cells", [-3, 2])
def test_a_row_of_another_length_is_damage(tmp_path: Path, cells: int) -> None:
    """Its line is that of the file, also where only a region of it is read."""
    lines = text([op(), *step("step_steady_1", [op(), op()])]).splitlines()
    lines[4] = lines[4] + "," * cells if cells > 0 else lines[4].rsplit(",", -cells)[0]
    path = write(tmp_path, "\r\n".join(lines) + "\r\n")
    start, end = scan(path).signposts
    for region in (None, Region(start.end, end.start, start.line + 1)):
        with pytest.raises(DamagedFile) as caught:
            load(path, region)
        assert caught.value.line == 5


def test_text_among_figures_counts_as_blank_and_is_named(tmp_path: Path) -> None:
    rows = [op(us=1.0), op(us=2.0) | {"CORE COUNT": "many"}, op(us=3.0) | {"CORE COUNT": "inf"}]
    ops = load(write(tmp_path, text(rows)))
    assert np.isnan(ops.frame["core_count"]).tolist() == [False, True, True]
    assert ops.frame["kernel_duration_ns"].tolist() == [1000.0, 2000.0, 3000.0]
    assert "line 3, column 'CORE COUNT': 'many'" in texts(ops.warnings)[0]
    # And figures in a column of texts are texts.
    assert frame_of(op("12"))["op_code"].tolist() == ["12"]


def test_a_region_is_those_rows_of_the_whole() -> None:
    path = FIXTURES / "training_v2_1.csv"
    whole = load(path).frame
    start, end = scan(path).signposts[2:4]
    part = load(path, Region(start.end, end.start, start.line + 1)).frame
    inside = whole.take((whole["line"] > start.line) & (whole["line"] < end.line))
    for name in ("line", "op_code", "kernel_duration_ns"):
        assert part[name].tolist() == inside[name].tolist()


def test_hosts_are_merged_with_their_devices_numbered_on(tmp_path: Path) -> None:
    path = FIXTURES / "two_devices_v1.csv"
    frame = load_hosts([path, path]).frame
    assert set(frame["device_id"].tolist()) == {0, 1, 2, 3}
    assert len(set(frame["line"].tolist())) == len(frame)
    one = write(tmp_path, text([op(version="v1")], header("v1")))
    with pytest.raises(BadOption, match="1 devices"):
        load_hosts([path, one])
    with pytest.raises(BadOption, match="no ops CSV"):
        load_hosts([])


def test_bytes_that_are_no_utf8_do_not_end_the_report(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(text([signpost("s"), op()]).encode().replace(b"Unary", b"Un\xffry"))
    assert load(path).frame["op_code"].tolist() == ["s", "Un\ufffdryDeviceOperation"]


@pytest.mark.skipif(not REAL.is_dir(), reason="needs the real traces beside the repository")
@pytest.mark.parametrize("path", sorted(REAL.glob("*.csv")), ids=lambda path: path.name)
def test_real_traces_load_without_a_warning(path: Path) -> None:
    ops = load(path)
    assert ops.warnings == ()
    assert (~np.isnan(ops.frame["kernel_duration_ns"])).sum() > 20


def test_a_csv_of_the_device_alone_is_read_for_what_it_holds(tmp_path: Path) -> None:
    """As profiling in real time, or without the host's half, leaves it: no OP CODE, no OP TYPE."""
    columns = [c for c in header() if c not in ("OP CODE", "OP TYPE")]
    path = write(tmp_path, text([op(us=3.0), op(us=5.0)], columns))
    ops = load(path)
    assert ops.frame["kernel_duration_ns"].tolist() == [3000.0, 5000.0]
    assert ops.frame["op_code"].tolist() == ["(unnamed program)"] * 2
    assert "no names of ops" in texts(ops.warnings)[0]
    assert scan(path).signposts == ()
    summary = summarise(path)
    assert (summary.op_count, summary.device_time_ms) == (2, 0.008)
    assert any("of the device alone" in warning for warning in texts(summary.warnings))
    named = text([op(us=3.0)], [c for c in header() if c != "OP TYPE"])
    ops = load(write(tmp_path, named.replace("OP CODE", "OP NAME", 1)))
    assert ops.frame["op_code"].tolist() == ["UnaryDeviceOperation"]
    assert "no signposts" in texts(ops.warnings)[0]


def test_newer_columns_pass_through(tmp_path: Path) -> None:
    columns = ["SOME NEW TEXT", *header(), "SOME NEW UTIL (%)"]
    rows = [op(us=3.0) | {"SOME NEW TEXT": "a", "SOME NEW UTIL (%)": "81.5"}, op(us=4.0)]
    path = write(tmp_path, text([*rows, signpost("s")], columns))
    ops = load(path)
    assert ops.warnings == ()
    assert ops.frame["kernel_duration_ns"].tolist()[:2] == [3000.0, 4000.0]
    assert [post.name for post in scan(path).signposts] == ["s"]


@pytest.mark.parametrize("told", ["1e308", "-1e308", "1e-320", "inf", "9" * 400])
def test_what_no_machine_measures_is_no_figure(tmp_path: Path, told: str) -> None:
    """Sums and ratios of such figures would be none, and numpy would say so on the terminal."""
    names = ("DEVICE KERNEL DURATION [ns]", "OP TO OP LATENCY [ns]")
    rows = [op(**dict.fromkeys(names, told)) for _ in range(3)]
    path = write(tmp_path, text([*rows, op()]))
    assert np.isnan(load(path).frame["kernel_duration_ns"][:3]).all()
    report = per_op_report(path)
    assert csv.render(report) and csv.render_stacked(report)
