"""The rules for the order of events find each kind of fault: they are no empty promise."""

from __future__ import annotations

import pytest

from tests.recording import Expectation, Trace, violations

STEP = ["forward", "backward", "sync", "wait"]


def good(steps: int = 5) -> list[str]:
    """The events of a run without fault."""
    events: list[str] = []
    for n in range(steps):
        name = "step_compile" if n == 0 else f"step_steady_{n}"
        events += [f"signpost {name}_start", "clock", *STEP, "clock", f"signpost {name}_end"]
        events += ["item", "optimizer"]
    return [*events, "signpost benchmark_complete", "finally"]


def found(events: list[str], **expected: object) -> str:
    return "; ".join(violations(Trace(tuple(events), None), Expectation(**expected)))  # type: ignore[arg-type]


def without(event: str, occurrence: int = 0) -> list[str]:
    events = good()
    index = [n for n, e in enumerate(events) if e == event][occurrence]
    return events[:index] + events[index + 1 :]


def with_before(new: str, event: str, occurrence: int = 0) -> list[str]:
    events = good()
    index = [n for n, e in enumerate(events) if e == event][occurrence]
    return [*events[:index], new, *events[index:]]


def test_no_fault() -> None:
    assert found(good()) == ""


FAULTS: dict[str, tuple[list[str], str]] = {
    "no_wait": (without("wait"), "not waited for"),
    "no_sync": (without("sync", 2), "nothing cuts the graph"),
    "second_sync": (with_before("sync", "wait"), "a second sync"),
    "work_between_wait_and_clock": (with_before("sync", "clock", 1), "not waited for"),
    "read_inside": (with_before("item", "backward"), "a host read inside"),
    "validation": (with_before("validate", "optimizer"), "a validation ran"),
    "checkpoint": (with_before("checkpoint", "optimizer"), "a checkpoint was written"),
    "cache_clear": (with_before("cache clear", "optimizer"), "cache was cleared"),
    "no_backward": (without("backward", 1), "no forward and backward"),
    "forward_outside": (with_before("forward", "signpost step_steady_2_start"), "outside"),
    "end_is_missing": (without("signpost step_steady_1_end"), "inside step_steady_1"),
    "start_is_missing": (without("signpost step_steady_1_start"), "without its start"),
    "stopped_early": (good(3), "stopped after 3 samples"),
    "stopped_before_the_optimizer": (without("optimizer", 4), "not at the end of a step"),
    "never_stopped": (good()[:-2], "never stopped"),
    "work_after_the_stop": ([*good(), "validate"], "after the stop"),
    "one_step_too_many": (
        [*good(6)[:-2], "signpost benchmark_complete"],
        "a step began although",
    ),
    "misnamed": (
        [e.replace("steady_3", "steady_7") for e in good()],
        "regions are",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str) -> None:
    events, words = FAULTS[name]
    assert words in found(events)


def test_a_failed_script() -> None:
    assert "NameError" in "; ".join(violations(Trace(tuple(good()), "NameError: x"), Expectation()))


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_other_devices_get_no_sync(device: str) -> None:
    events = [e for e in good() if e != "sync" and not (e == "wait" and device == "cpu")]
    assert found(events, device=device) == ""
