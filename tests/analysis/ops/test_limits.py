"""What limits an op: by counted waits, by who was done early, and against a simulated kernel."""

from __future__ import annotations

import random

import numpy as np
import pytest
from msgspec.structs import replace

from instrumentor_analysis.model import Limit
from instrumentor_analysis.ops.limits import by_limit, roles
from instrumentor_analysis.ops.op_report import per_op_report
from instrumentor_analysis.ops.report_options import ReportOptions
from instrumentor_analysis.reports.limits import because, section
from instrumentor_analysis.reports.summary import console, html, markdown
from tests.analysis.ops_rows import REAL, Row, matmul, op, per_op_of
from tests.analysis.reports.summaries import tracy

READ_WRITE = "['a/reader_unary.cpp'; 'a/writer_unary.cpp']"
_PARTS = {
    "reader": "DEVICE NCRISC KERNEL DURATION [ns]",
    "writer": "DEVICE BRISC KERNEL DURATION [ns]",
    "compute": "DEVICE TRISC1 KERNEL DURATION [ns]",
    "unpack": "DEVICE TRISC0 KERNEL DURATION [ns]",
    "pack": "DEVICE TRISC2 KERNEL DURATION [ns]",
}
_SOURCES = "DATA MOVEMENT KERNEL SOURCE"


def kernel(us: float, kernels: str = READ_WRITE, **parts_us: float) -> Row:
    """An op of this duration, with the durations of its parts."""
    times = {_PARTS[part]: f"{value * 1000:.0f}" for part, value in parts_us.items()}
    return op(us=us) | {_SOURCES: kernels} | times


def told(*rows: Row) -> list[str | None]:
    """The limits of these rows."""
    return per_op_of(*rows)["limits"].tolist()


@pytest.mark.parametrize(
    ("parts", "limit"),
    [
        ({"reader": 3, "compute": 95, "writer": 100}, "compute or writer"),
        ({"reader": 3, "compute": 40, "writer": 100}, "writer"),
        ({"reader": 100, "compute": 30, "writer": 30}, "reader"),
        ({"reader": 98, "compute": 99, "writer": 100}, "unclear"),
        ({"reader": 60, "compute": 80, "writer": 100}, "unclear"),
        # One tile: it is read, calculated and written, and compute took longest.
        ({"reader": 12, "compute": 67, "writer": 100}, "unclear"),
        ({"reader": 2, "writer": 100}, "writer"),
        ({"reader": 97, "writer": 100}, "unclear"),
        ({"compute": 95}, None),
        ({}, None),
    ],
)
def test_the_part_that_was_not_done_early(parts: dict[str, float], limit: str | None) -> None:
    assert told(kernel(100.0, **parts)) == [limit]


def test_a_kernel_of_one_part_is_limited_by_it() -> None:
    assert told(kernel(10.0, "['a/reader_copy.cpp']", reader=10)) == ["reader"]
    # Its processor did not run: the names mean something else.
    assert told(kernel(10.0, "['a/writer.cpp']", reader=10)) == ["unclear"]


def test_without_a_reader_and_a_writer_by_name_durations_tell_nothing() -> None:
    mixed = "['a/reader_in0.cpp'; 'a/reader_in1_writer.cpp']"
    assert told(kernel(100.0, mixed, reader=3, compute=40, writer=100)) == ["unclear"]
    assert told(kernel(100.0, "", reader=3, compute=40, writer=100)) == ["unclear"]


@pytest.mark.parametrize(
    ("kernels", "found"),
    [
        (READ_WRITE, "reader, writer"),
        ("['x/writer_a.cpp']", "writer"),
        ("['reader/halo_gather.cpp'; 'reader/halo_gather.cpp']", None),
        ("['x/reader_writer.cpp'; 'x/reader.cpp']", None),
        ("[]", None),
        (None, None),
    ],
)
def test_roles_by_the_names_of_files(kernels: str | None, found: str | None) -> None:
    assert roles(kernels) == found


def waiting(front_us: float, back_us: float) -> Row:
    """An op on 64 cores whose unpacker and packer ran 100 us each; waits of one core."""
    counted = {
        "DEVICE COMPUTE CB WAIT FRONT [ns]": f"{front_us * 64 * 1000:.0f}",
        "DEVICE COMPUTE CB RESERVE BACK [ns]": f"{back_us * 64 * 1000:.0f}",
    }
    return kernel(100.0, "", reader=100, writer=100, unpack=100, compute=100, pack=100) | counted


def test_counted_waits_tell_what_durations_do_not() -> None:
    rows = waiting(70, 10), waiting(20, 60), waiting(20, 30), waiting(55, 60)
    assert told(*rows) == ["reader", "writer", "compute", "writer"]
    ops = per_op_of(rows[0])
    assert ops["input_wait_percent"].tolist() == [70.0]
    assert ops["output_wait_percent"].tolist() == [10.0]


def test_a_wait_that_was_not_counted_is_no_wait_of_nothing() -> None:
    half = waiting(0, 0) | {"DEVICE COMPUTE CB RESERVE BACK [ns]": ""}
    assert told(half) == ["unclear"]


@pytest.mark.parametrize(
    ("cells", "limit"),
    [
        ({"NOC UTIL (%)": "80"}, "NoC"),
        ({"NPE CONG IMPACT (%)": "25"}, "NoC"),
        ({"DRAM BW UTIL (%)": "80"}, "DRAM"),
        ({"FPU Util Median (%)": "80"}, "compute"),
        ({"NOC UTIL (%)": "30", "DRAM BW UTIL (%)": "", "FPU Util Median (%)": "10"}, None),
        ({"CORE COUNT": "8"}, "few cores"),
        ({"CORE COUNT": "33"}, None),
        # Then the number of cores that there are would be assumed.
        ({"CORE COUNT": "8", "AVAILABLE WORKER CORE COUNT": ""}, None),
        ({"CORE COUNT": "8", "NOC UTIL (%)": "90"}, "few cores, NoC"),
    ],
)
def test_utilisation_and_cores(cells: Row, limit: str | None) -> None:
    tensor = ("1x1x1024x1024", "BFLOAT16", "L1_INTERLEAVED")
    assert told(op(inputs=[tensor], output=tensor) | cells) == [limit]


def test_an_output_of_few_tiles_needs_few_cores() -> None:
    assert told(op() | {"CORE COUNT": "4"}) == [None]  # 64 x 64: four tiles


def test_a_modelled_op_at_its_bound() -> None:
    assert told(matmul(2048, 2048, 2048, 300.0)) == ["compute"]
    assert told(matmul(32, 4096, 4096, 130.0, fidelity="HiFi2")) == ["DRAM"]


def test_the_host_is_told_by_the_gap() -> None:
    rows = op(), op(us=5.0, gap_us=9.0), op(us=5.0, gap_us=6.0), op(us=5.0, gap_us=20_000.0)
    assert told(*rows) == [None, "host", None, None]


def test_times_are_summed_and_figures_weighted() -> None:
    rows = (
        kernel(10.0, reader=1, compute=10, writer=10),
        kernel(30.0, reader=9, compute=30, writer=30),
        kernel(40.0, reader=40, compute=40, writer=40),
    )
    ops = per_op_of(*rows)
    compute, unclear = by_limit(ops)
    assert (unclear.name, unclear.device_time_ms, unclear.percent) == ("unclear", 0.04, 50.0)
    assert (compute.name, compute.op_count, compute.percent) == ("compute or writer", 2, 50.0)
    assert compute.figures["reader_percent"] == pytest.approx((1 + 9) / 40 * 100)
    assert because(compute) == "reader 25 %, compute 100 %, writer 100 %"
    half = by_limit(ops, pooled=2)[0]
    assert half.device_time_ms == 0.02


def test_nothing_is_shown_where_nothing_is_told() -> None:
    assert by_limit(per_op_of(op())) == ()
    assert not section(()).tables
    assert not section((Limit("unclear", 1.0, 100.0, 1),)).tables


def test_every_format_shows_them() -> None:
    limit = Limit("few cores", 4.2, 61.0, 3, figures={"cores": 8.0, "available_cores": 64.0})
    summary = replace(tracy(), limits=(limit,))
    for shown in (console(summary), markdown(summary), html(summary)):
        assert "What limits the ops" in shown and "8 of 64 cores" in shown
    assert "What limits the ops" not in markdown(replace(summary, limits=()))


def simulated(chance: random.Random) -> tuple[str, Row]:
    """The part that limits a kernel of our own, and its row: tiles through two buffers.

    The truth is the part of the longest time for a tile, by half again.
    """
    parts = ("reader", "compute", "writer")
    truth = chance.choice(parts)
    tile_us = {part: chance.uniform(0.2, 1.0) for part in parts}
    tile_us[truth] = 1.5 * max(tile_us.values())
    tiles = chance.randint(1, 40)
    depth = {part: chance.choice((2, 2, 4, 64)) for part in ("compute", "writer")}
    ends: dict[str, list[float]] = {part: [] for part in parts}
    for at in range(tiles):
        before = 0.0
        for part, after in zip(parts, (*parts[1:], None), strict=True):
            own = ends[part][-1] if ends[part] else 0.0
            # Room in the buffer behind it: the next part is done with the tile that lay there.
            room = depth.get(after or "", 0)
            free = ends[after][at - room] if after and at >= room else 0.0
            took = tile_us[part] * chance.gauss(1, 0.05)
            before = max(own, before, free) + took
            ends[part].append(before)
    last = {part: ends[part][-1] for part in parts}
    return truth, kernel(max(last.values()), **last)


def test_a_tag_is_right_where_one_is_given() -> None:
    chance = random.Random(26)
    cases = [simulated(chance) for _ in range(2000)]
    limits = told(*(row for _, row in cases))
    given = [(truth, found) for (truth, _), found in zip(cases, limits, strict=True)]
    tagged = [(truth, found) for truth, found in given if found != "unclear"]
    right = sum(truth in str(found).split(" or ") for truth, found in tagged)
    print(f"{len(tagged)} of {len(given)} told, {right} of them rightly")
    assert right >= 0.98 * len(tagged)
    assert len(tagged) >= 0.1 * len(given)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("bh20_oft_integral_image_trace", "writer"),
        ("bh_p100_dlv3", "host"),
        ("wh_clip_encoder_2", "unclear"),
    ],
)
def test_real_traces(name: str, first: str) -> None:
    path = REAL / f"{name}.csv"
    if not path.exists():
        pytest.skip("the recorded traces are not here")
    ops = per_op_report(path, ReportOptions(ignore_signposts=True)).ops
    found = by_limit(ops)
    assert found[0].name == first
    # Of every op with the durations of its parts something is told, and counted once at least.
    whole_us = float(np.nansum(ops["device_time_us"]))
    assert sum(each.device_time_ms for each in found) * 1000 >= 0.99 * whole_us
    assert not any("wait" in key for each in found for key in each.figures)
    assert ("few cores" in {each.name for each in found}) == (
        name != "bh20_oft_integral_image_trace"
    )
