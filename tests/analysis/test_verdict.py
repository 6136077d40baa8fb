"""Verdicts: never without both numbers, thresholds, levers."""

from __future__ import annotations

import pytest

from instrumentor_analysis.model import Verdict
from instrumentor_analysis.verdict import Shares, decide


def verdict(wall: float, device: float, shares: Shares | None = None) -> Verdict:
    found = decide(wall, device, shares or Shares({}))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("wall", "device"), [(None, 5.0), (5.0, None), (None, None), (0.0, 1.0), (-1.0, 1.0)]
)
def test_no_verdict_without_both_numbers(wall: float | None, device: float | None) -> None:
    assert decide(wall, device, Shares({"Compute": 100.0}, dram=90.0)) is None


def test_host_bound_is_above_seventy_percent() -> None:
    assert verdict(100.0, 29.9).name == "host-bound"
    assert verdict(100.0, 30.0).name != "host-bound"
    found = verdict(100.0, 10.0, Shares({"TM": 90.0}, dram=90.0))
    assert found.name == "host-bound"
    assert [(e.what, e.value) for e in found.evidence[:3]] == [
        ("wall clock", 100.0), ("device time", 10.0), ("overhead", 90.0),
    ]  # fmt: skip
    assert found.levers[0].what == "runtime trace"


@pytest.mark.parametrize(
    ("shares", "name"),
    [
        (Shares({"Compute": 90.0}, dram=60.0, slow=30.0), "memory-bound"),
        (Shares({"Compute": 90.0}, flop=60.0), "compute-bound"),
        (Shares({"TM": 30.0, "DM": 15.0, "CCL": 6.0, "Compute": 49.0}), "data-movement-bound"),
        (Shares({"TM": 49.0, "Compute": 51.0}, slow=51.0), "mixed"),
        (Shares({}), "mixed"),
    ],
)
def test_by_what_holds_half_of_the_device_time(shares: Shares, name: str) -> None:
    found = verdict(100.0, 90.0, shares)
    assert found.name == name
    assert found.levers
    assert {e.unit for e in found.evidence} >= {"ms", "%", "% of device time"}


def test_a_trace_is_a_lever_from_thirty_percent_overhead() -> None:
    shares = Shares({"Compute": 100.0}, dram=80.0)
    assert "runtime trace" not in [lever.what for lever in verdict(100.0, 75.0, shares).levers]
    assert "runtime trace" in [lever.what for lever in verdict(100.0, 60.0, shares).levers]


def test_waiting_for_most_of_the_step_is_named_although_it_is_not_host_bound() -> None:
    found = verdict(100.0, 35.0, Shares({"Compute": 100.0}, dram=40.0))
    assert found.name == "mixed"
    assert found.reason.startswith("the device waits for 65 % of the step, short of host-bound")
    assert found.levers[0].what == "runtime trace"
    assert verdict(100.0, 55.0, Shares({})).reason.startswith("no single bound")


def test_figures_that_contradict_each_other_have_no_verdict() -> None:
    assert decide(1.0, 2.0, Shares({}, dram=90.0)) is None
    assert verdict(100.0, 104.0, Shares({}, dram=90.0)).name == "memory-bound"


def test_evidence_of_dispatch_and_gaps() -> None:
    found = decide(100.0, 20.0, Shares({}), op_count=40, median_gap_us=9.0)
    evidence = {e.what: (e.value, e.threshold) for e in found.evidence}
    assert evidence["dispatch per op"] == (2.0, None)
    assert evidence["median op-to-op gap"] == (9.0, 6.5)


def test_cuda_has_its_own_levers_and_no_roofline() -> None:
    found = decide(10.0, 8.0, None, cuda=True)
    assert found.name == "mixed"
    assert all("TT_RUNTIME" not in lever.how for lever in found.levers)
