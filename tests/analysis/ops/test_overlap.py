"""Collectives beside other ops, on each chip's own clock."""

from __future__ import annotations

import pytest

from instrumentor_analysis.ops.overlap import communication
from instrumentor_analysis.ops.skew import compare_devices
from instrumentor_analysis.reports.breakdown import devices as section
from tests.analysis.ops_rows import REAL, Row, frame_of, op

GATHER, MATMUL = "AllGatherAsyncDeviceOperation", "MatmulDeviceOperation"


def at(code: str, start_us: float, us: float, device: int = 0, *, early_us: float = 0.5) -> Row:
    """An op whose kernel runs from then on, at 1 GHz; its firmware began a little before."""
    end = (start_us + us) * 1000 + 1e6 * (device + 1)
    begin = end - us * 1000 - early_us * 1000
    cycles = {"DEVICE FW START CYCLE": f"{begin:.0f}", "DEVICE FW END CYCLE": f"{end:.0f}"}
    duration = {"DEVICE FW DURATION [ns]": f"{end - begin:.0f}"}
    return {**op(code, us, device=device), **cycles, **duration}


def without_cycles(code: str, device: int = 0) -> Row:
    blank = {"DEVICE FW START CYCLE": "", "DEVICE FW END CYCLE": ""}
    return {**op(code, 10.0, device=device), **blank}


def test_communication_is_hidden_by_what_runs_beside_it() -> None:
    found = communication(frame_of(at(GATHER, 0, 100), at(MATMUL, 40, 100)))
    assert found[0].ms == pytest.approx(0.1) and found[0].hidden_ms == pytest.approx(0.06)


def test_ops_one_after_the_other_hide_nothing_although_firmware_overlaps() -> None:
    rows = [at(MATMUL, 0, 50), at(GATHER, 50, 100, early_us=20), at(MATMUL, 150, 50, early_us=20)]
    assert communication(frame_of(*rows))[0].hidden_ms == pytest.approx(0, abs=1e-9)


def test_collectives_at_once_count_once_and_hide_none_of_each_other() -> None:
    found = communication(frame_of(at(GATHER, 0, 100), at("ReduceScatter", 50, 100)))
    assert (found[0].ms, found[0].hidden_ms) == (pytest.approx(0.15), 0)


def test_each_chip_has_its_own_clock() -> None:
    rows = [at(GATHER, 0, 100), at(MATMUL, 0, 100, device=1), at(GATHER, 100, 50, device=1)]
    found = communication(frame_of(*rows))
    assert found[0].hidden_ms == 0 and found[1].ms == pytest.approx(0.05)


def test_nothing_without_collectives_or_cycles() -> None:
    assert communication(frame_of(at(MATMUL, 0, 10))) == {}
    assert communication(frame_of(without_cycles(GATHER))) == {}


def test_the_table_of_devices_has_it_where_it_is_known() -> None:
    rows = [at(code, start, 100, chip) for chip in (0, 1) for code, start in
            ((GATHER, 0), (MATMUL, 50))]  # fmt: skip
    titles = [c.title for c in section(compare_devices(frame_of(*rows)), 5).tables[0].columns]
    assert titles[-3:-1] == ["collectives", "hidden"]
    bare = [without_cycles(code, chip) for code in (GATHER, MATMUL) for chip in (0, 1)]
    titles = [c.title for c in section(compare_devices(frame_of(*bare)), 5).tables[0].columns]
    assert "hidden" not in titles


@pytest.mark.skipif(not REAL.is_dir(), reason="the real traces are not here")
def test_on_a_real_trace_shares_are_shares() -> None:
    from instrumentor_analysis.load.ops_csv import load

    found = communication(load(REAL / "bh20_oft_integral_image_trace.csv").frame)
    assert all(0 <= each.hidden_ms <= each.ms for each in found.values())
