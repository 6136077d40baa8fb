"""Several devices: who was slow, and who waited for whom, exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor_analysis.model import Devices
from instrumentor_analysis.ops.figures import unbalanced
from instrumentor_analysis.ops.skew import compare_devices
from instrumentor_analysis.reports.summary import console, html, markdown
from instrumentor_analysis.summary.summarise import summarise
from tests.analysis.ops_rows import FIXTURES, Row, frame_of, op, signpost, step, write


def on(times: tuple[float | None, ...], code: str = "RingJointSDPADeviceOperation") -> list[Row]:
    """One op on as many devices as there are times, in us."""
    return [op(code, us, device=at) for at, us in enumerate(times)]


def gather(*times: float) -> list[Row]:
    return on(times, "AllGatherAsyncDeviceOperation")


def devices(*rows: Row) -> Devices:
    found = compare_devices(frame_of(*rows))
    assert found is not None
    return found


def test_a_single_device_is_held_against_none(tmp_path: Path) -> None:
    rows = [op(), signpost("s"), op()]
    assert compare_devices(frame_of(*rows)) is None
    assert summarise(write(tmp_path / "x.csv", rows)).devices is None


def test_the_slowest_device_and_its_op() -> None:
    found = devices(*on((350.0, 691.0)), *on((10.0, 11.0), "Unary"))
    assert [(row.device_time_ms, row.op_count) for row in found.rows] == [(0.36, 2), (0.702, 2)]
    assert found.max_over_mean == pytest.approx(0.702 / 0.531)
    assert found.collectives == () and found.rows[0].waited_ms is None
    # The other op differs by 1 us: less than half a percent of the slowest device's time.
    (skew,) = found.ops
    assert (skew.op, skew.fastest_device, skew.slowest_device) == (
        "RingJointSDPADeviceOperation", 0, 1,
    )  # fmt: skip
    assert (skew.fastest_us, skew.slowest_us, skew.skew_us) == (350.0, 691.0, 341.0)
    (said,) = unbalanced(found)
    assert said.message == (
        "Device 1 worked 702 us, 1.32 times the mean of the 2 devices; the op that differs most is "
        "RingJointSDPADeviceOperation: 691 us on device 1, 350 us on device 0"
    )
    assert unbalanced(replace(found, max_over_mean=1.04)) == []


def test_skew_adds_up_call_by_call() -> None:
    """Devices that are slow by turns have equal sums, and wait for each other all the same."""
    found = devices(*on((10.0, 50.0)), *on((52.0, 10.0)))
    (skew,) = found.ops
    assert (skew.count, skew.skew_us) == (2, 82.0)
    assert (skew.fastest_us, skew.slowest_us, skew.worst_id) == (60.0, 62.0, 4)


def test_the_shortest_in_a_collective_arrived_last() -> None:
    rows = [*gather(30.0, 10.0, 25.0), *gather(12.0, 10.0, 11.0), *gather(5.0, 9.0, 6.0)]
    found = devices(*rows)
    assert found.ops == ()
    (wait,) = found.collectives
    assert (wait.last_device, wait.last_calls, wait.calls) == (1, 2, 3)
    # 20 and 15, 2 and 1, 4 and 1 us longer than the shortest.
    assert wait.mean_wait_us == pytest.approx(43 / 6)
    assert wait.longest_wait_us == 20.0
    assert [row.arrived_last for row in found.rows] == [1, 2, 0]
    assert [row.waited_ms for row in found.rows] == pytest.approx([0.022, 0.004, 0.017])


def test_what_a_device_lacks_is_counted_and_compared_with_nothing() -> None:
    rows = [*on((10.0, 90.0)), *gather(8.0, 3.0), *on((70.0,)), *on((None, 5.0), "Unary")]
    found = devices(*rows)
    assert [row.missing_ops for row in found.rows] == [0, 1]
    assert [row.device_time_ms for row in found.rows] == pytest.approx([0.088, 0.098])
    assert [each.skew_us for each in found.ops] == [80.0]


def test_pooled_steps_count_as_one(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    once = [*on((10.0, 50.0)), *gather(9.0, 3.0)]
    rows = [row for number in (1, 2, 3) for row in step(f"step_steady_{number}", once)]
    write(path, rows)
    one, every = summarise(path).devices, summarise(path, "all").devices
    assert [row.device_time_ms for row in every.rows] == pytest.approx([0.019, 0.053])
    assert [(e.count, e.skew_us) for e in every.ops] == [(e.count, e.skew_us) for e in one.ops]
    assert [(e.count, e.calls) for e in every.collectives] == [(1, 3)]


def test_every_report_tells_of_it() -> None:
    summary = summarise(FIXTURES / "two_devices_v1.csv")
    assert summary.devices is not None
    shown = [console(summary, width=120), markdown(summary), html(summary)]
    for report in shown:
        assert "Devices: the slowest took" in report
        assert "last to arrive" in report and "AllGatherAsync" in report
    assert summary.to_json()["devices"]["rows"][1]["device_id"] == 1
