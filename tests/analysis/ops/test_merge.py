"""Several devices to one row per op; the real tt-perf-report is asked in test_parity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instrumentor_analysis.load.ops_csv import load
from instrumentor_analysis.ops.merge import DIFFERENT_OPS, merge_devices, valid_duration_ns
from instrumentor_analysis.ops.skew import compare_devices
from tests.analysis.ops_rows import FIXTURES, frame_of, host_op, op, signpost


def test_one_device_is_left_as_it_is() -> None:
    frame = frame_of(op(), host_op(), op())
    merged, warnings = merge_devices(frame)
    assert merged is frame
    assert warnings == ()


def test_the_slowest_device_counts_and_a_collective_is_averaged() -> None:
    merged, warnings = merge_devices(load(FIXTURES / "two_devices_v1.csv").frame)
    assert warnings == ()
    assert merged["op_code"].tolist() == [
        "UnaryDeviceOperation", "AllGatherAsync", "Matmul", "ReduceScatterMinimalAsync",
        "TransposeDeviceOperation",
    ]  # fmt: skip
    assert merged["kernel_duration_ns"].tolist() == [12000.0, 34000.0, 100000.0, 44500.0, 12000.0]
    assert merged["device_id"].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_devices_that_ran_different_ops_are_aligned_and_announced() -> None:
    merged, (warning,) = merge_devices(load(FIXTURES / "uneven_devices_v1.csv").frame)
    assert "2 devices did not run the same ops" in warning.message
    assert "ReshapeView (1 times)" in warning.message
    # The first device leads, the second waits at the op that the first does not have.
    assert merged["op_code"].tolist().count("AllGatherAsync") == 2
    assert merged["op_code"].tolist().count("CopyDeviceOperation") == 1


def test_rows_that_are_no_device_ops_keep_their_place() -> None:
    pair = [op(us=1.0), op(us=2.0, device=1)]
    lost = op("LostDeviceOperation") | {"DEVICE ID": "-1"}
    frame = frame_of(*pair, signpost("s"), host_op(), lost, *pair)
    merged, _ = merge_devices(frame)
    assert merged["op_code"].tolist() == [
        "UnaryDeviceOperation", "s", "(torch) aten::add", "LostDeviceOperation",
        "UnaryDeviceOperation",
    ]  # fmt: skip


@pytest.mark.parametrize("times", [(None, 2.0), (2.0, None), (None, None)])
def test_an_unusable_duration_never_wins(times: tuple[float | None, float | None]) -> None:
    rows = [op(us=times[0]), op(us=times[1], device=1)]
    gathers = [row | {"OP CODE": "AllGather"} for row in rows]
    merged, _ = merge_devices(frame_of(*rows, *gathers))
    expected = 2000.0 if any(times) else np.nan
    np.testing.assert_equal(valid_duration_ns(merged), [expected, expected])


def test_the_input_is_not_changed() -> None:
    frame = load(FIXTURES / "two_devices_v1.csv").frame
    before = list(frame.records())
    merge_devices(frame)
    np.testing.assert_equal(list(frame.records()), before)


@settings(deadline=None, max_examples=40)
@given(sequences=st.lists(st.lists(st.sampled_from("ab"), max_size=6), min_size=2, max_size=3))
def test_every_row_is_used_exactly_once(sequences: list[list[str]]) -> None:
    rows = [
        op(f"{name}DeviceOperation", us=1.0 + at, device=device)
        for device, names in enumerate(sequences)
        for at, name in enumerate(names)
    ]
    if not rows:
        return
    frame = frame_of(*rows)
    merged, _ = merge_devices(frame)
    longest = max(map(len, sequences))
    assert longest <= len(merged) <= len(rows)
    assert len(set(merged["line"].tolist())) == len(merged)
    for name in "ab":
        count = merged["op_code"].tolist().count(f"{name}DeviceOperation")
        assert count >= max(names.count(name) for names in sequences)


@pytest.mark.usefixtures("no_hang")
def test_as_many_devices_as_rows() -> None:
    many = 30_000
    frame = frame_of(*(op(f"Op{at}", device=at) for at in range(many)))
    merged, (warning,) = merge_devices(frame)
    assert len(merged) == many and warning.kind == DIFFERENT_OPS
    found = compare_devices(frame)
    assert found is not None and len(found.rows) == many
    assert {(row.op_count, row.missing_ops) for row in found.rows} == {(1, many - 1)}
