"""CSV to typed frame: formats, blanks, damage with line and column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from instrumentor_analysis.errors import BadOption, DamagedFile, NotAnOpsFile
from instrumentor_analysis.load import load, load_hosts
from instrumentor_analysis.scan import Region, scan
from instrumentor_analysis.summary import summarise
from instrumentor_analysis.table import Categorical
from tests.analysis.ops_rows import FIXTURES, REAL, header, op, signpost, step, text
from tests.warned import texts


def write(path: Path, content: str) -> Path:
    """A file as the writer leaves it."""
    path.write_text(content, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(
    ("name", "version"),
    [("two_devices_v1.csv", "v1"), ("v2_plain.csv", "v2"), ("training_v2_1.csv", "v2.1")],
)
def test_formats_have_one_schema(name: str, version: str) -> None:
    ops = load(FIXTURES / name)
    assert ops.format == version
    assert texts(ops.warnings) == []
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
    frame = load(write(tmp_path / "few.csv", text([op(us=3.0)], columns))).frame
    assert frame["kernel_duration_ns"].tolist() == [3000.0]
    for name in ("device_id", "op_to_op_latency_ns", "host_start_ns"):
        assert np.isnan(frame[name]).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\r\n", "is empty"),
        ("a,b\r\n1,2\r\n", r"line 1: no column 'OP CODE', 'OP TYPE', 'DEVICE KERNEL DURATION"),
        ("OP CODE,OP TYPE\r\n", r"no column 'DEVICE KERNEL DURATION \[ns\]'"),
    ],
)
def test_foreign_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(NotAnOpsFile, match=message) as caught:
        load(write(tmp_path / "x.csv", content))
    assert caught.value.hint


def test_a_header_with_a_stray_line_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"OP CODE,OP\rTYPE,x\n")
    with pytest.raises(NotAnOpsFile, match="line 1"):
        load(path)


def test_text_that_looks_like_numbers_stays_text(tmp_path: Path) -> None:
    rows = [op("12", us=1.0) | {"INPUT_0_DATATYPE": "7", "OUTPUT_0_DATATYPE": "7"}]
    frame = load(write(tmp_path / "x.csv", text(rows))).frame
    assert frame["op_code"].tolist() == ["12"]
    assert frame["input_0_datatype"].tolist() == ["7"]


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(NotAnOpsFile, match="not a text file"):
        load(path)


def test_a_truncated_file_names_line_and_column(tmp_path: Path) -> None:
    content = text([op(), op()])
    half = content[: content.rindex("tt_dnn_device") + 5]
    path = write(tmp_path / "cut.csv", half)
    for read in (load, scan):
        with pytest.raises(DamagedFile) as caught:
            read(path)
        assert (caught.value.line, caught.value.column) == (3, "OP TYPE")
        assert "line 3" in caught.value.message


@pytest.mark.parametrize("cells", [-3, 2])
def test_a_row_of_another_length_is_damage(tmp_path: Path, cells: int) -> None:
    lines = text([op(), op(), op()]).splitlines()
    lines[2] = lines[2] + "," * cells if cells > 0 else lines[2].rsplit(",", -cells)[0]
    with pytest.raises(DamagedFile) as caught:
        load(write(tmp_path / "x.csv", "\r\n".join(lines) + "\r\n"))
    assert caught.value.line == 3


def test_text_among_figures_counts_as_blank_and_is_named(tmp_path: Path) -> None:
    rows = [op(us=1.0), op(us=2.0) | {"CORE COUNT": "many"}, op(us=3.0) | {"CORE COUNT": "inf"}]
    ops = load(write(tmp_path / "x.csv", text(rows)))
    assert np.isnan(ops.frame["core_count"]).tolist() == [False, True, True]
    assert ops.frame["kernel_duration_ns"].tolist() == [1000.0, 2000.0, 3000.0]
    assert "line 3, column 'CORE COUNT': 'many'" in texts(ops.warnings)[0]


def test_a_region_is_those_rows_of_the_whole() -> None:
    path = FIXTURES / "training_v2_1.csv"
    whole = load(path).frame
    posts = scan(path).signposts
    start, end = posts[2], posts[3]
    part = load(path, Region(start.end, end.start, start.line + 1)).frame
    inside = whole.take((whole["line"] > start.line) & (whole["line"] < end.line))
    assert part["line"].tolist() == inside["line"].tolist()
    assert part["op_code"].tolist() == inside["op_code"].tolist()
    assert part["kernel_duration_ns"].tolist() == inside["kernel_duration_ns"].tolist()


def test_damage_in_a_region_names_the_line_of_the_file(tmp_path: Path) -> None:
    lines = text([op(), *step("step_steady_1", [op(), op()])]).splitlines()
    lines[4] = lines[4].rsplit(",", 2)[0]
    path = write(tmp_path / "x.csv", "\r\n".join(lines) + "\r\n")
    posts = scan(path).signposts
    with pytest.raises(DamagedFile) as caught:
        load(path, Region(posts[0].end, posts[1].start, posts[0].line + 1))
    assert caught.value.line == 5


def test_hosts_are_merged_with_their_devices_numbered_on() -> None:
    path = FIXTURES / "two_devices_v1.csv"
    frame = load_hosts([path, path]).frame
    assert set(frame["device_id"].tolist()) == {0, 1, 2, 3}
    assert len(set(frame["line"].tolist())) == len(frame)


def test_hosts_of_different_size_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "one.csv", text([op(version="v1")], header("v1")))
    with pytest.raises(BadOption, match="1 devices"):
        load_hosts([FIXTURES / "two_devices_v1.csv", one])
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
    assert texts(ops.warnings) == []
    assert (~np.isnan(ops.frame["kernel_duration_ns"])).sum() > 20


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda lines: "\r".join([*lines, ""]), "carriage return alone"),
        (lambda lines: "\n".join(["# mine", *lines]), "line 1: a comment where the header"),
        (
            lambda lines: "\n".join([*lines[:5], lines[5].replace(",", ',"', 1), *lines[6:]]),
            "line 6: a quote opens here and does not close",
        ),
    ],
)
def test_what_is_wrong_is_said_in_words(
    tmp_path: Path, spoil: Callable[[list[str]], str], said: str
) -> None:
    lines = (FIXTURES / "training_v2_1.csv").read_text().splitlines()
    file = write(tmp_path / "ops.csv", spoil(lines))
    with pytest.raises((NotAnOpsFile, DamagedFile), match=said):
        load(file)


def test_a_csv_of_the_device_alone_is_read_for_what_it_holds(tmp_path: Path) -> None:
    """As profiling in real time, or without the host's half, leaves it: no OP CODE, no OP TYPE."""
    columns = [c for c in header() if c not in ("OP CODE", "OP TYPE")]
    path = write(tmp_path / "x.csv", text([op(us=3.0), op(us=5.0)], columns))
    ops = load(path)
    assert ops.frame["kernel_duration_ns"].tolist() == [3000.0, 5000.0]
    assert ops.frame["op_code"].tolist() == ["(unnamed program)"] * 2
    assert "no names of ops" in texts(ops.warnings)[0]
    assert scan(path).signposts == ()
    summary = summarise(path)
    assert (summary.op_count, summary.device_time_ms) == (2, 0.008)
    assert any("of the device alone" in warning for warning in texts(summary.warnings))


def test_its_programs_may_have_names(tmp_path: Path) -> None:
    content = text([op(us=3.0)], [c for c in header() if c != "OP TYPE"])
    path = write(tmp_path / "x.csv", content.replace("OP CODE", "OP NAME", 1))
    ops = load(path)
    assert ops.frame["op_code"].tolist() == ["UnaryDeviceOperation"]
    assert "no signposts" in texts(ops.warnings)[0]


def test_records_of_the_real_time_profiler_are_named(tmp_path: Path) -> None:
    content = "program_id,start_timestamp,end_timestamp,frequency,chip_id\n1,5,9,1.35,0\n"
    with pytest.raises(NotAnOpsFile, match="records of the real-time profiler") as caught:
        load(write(tmp_path / "x.csv", content))
    assert caught.value.hint


def test_newer_columns_pass_through(tmp_path: Path) -> None:
    columns = ["SOME NEW TEXT", *header(), "SOME NEW UTIL (%)"]
    rows = [op(us=3.0) | {"SOME NEW TEXT": "a", "SOME NEW UTIL (%)": "81.5"}, op(us=4.0)]
    ops = load(write(tmp_path / "x.csv", text([*rows, signpost("s")], columns)))
    assert texts(ops.warnings) == []
    assert ops.frame["kernel_duration_ns"].tolist()[:2] == [3000.0, 4000.0]
    assert [post.name for post in scan(tmp_path / "x.csv").signposts] == ["s"]
