"""Variables of each mode; nothing forbidden, nothing that excludes another."""

from __future__ import annotations

import pytest

from instrumentor.kernels.environment import (
    by_hand,
    environment,
    mode_variables,
    removed,
    without_profilers,
)

ALWAYS = {"TT_METAL_DEVICE_PROFILER": "1", "TT_METAL_PROFILER_MID_RUN_DUMP": "1"}
ALL = {
    "TTLANG_AUTO_PROFILE": "1",
    "TTLANG_PERF_DUMP": "1",
    "TTLANG_SIGNPOST_PROFILE": "1",
    "TT_METAL_DEVICE_PROFILER_NOC_EVENTS": "1",
    "TTLANG_PERF_SERV": "1",
    "TTLANG_COMPILE_ONLY": "1",
    "TTLANG_PROFILE_CSV": "/tmp/x.csv",
    "HOME": "/home/u",
}


@pytest.mark.parametrize(
    ("mode", "own"),
    [
        ("auto-profile", {"TTLANG_AUTO_PROFILE": "1"}),
        ("perf", {"TTLANG_PERF_DUMP": "1", "TT_METAL_DEVICE_PROFILER_NOC_EVENTS": "1"}),
        ("signposts", {"TTLANG_SIGNPOST_PROFILE": "1"}),
    ],
)
def test_each_mode_has_its_own_and_only_those(mode: str, own: dict[str, str]) -> None:
    kept = {"TTLANG_PROFILE_CSV": "/tmp/x.csv", "HOME": "/home/u"}
    assert environment(ALL, mode) == {**ALWAYS, **own, **kept}
    assert mode_variables(mode) == {**ALWAYS, **own}


def test_what_is_removed_is_told_with_the_reason() -> None:
    found = removed(ALL, "auto-profile")
    assert found["TTLANG_PERF_SERV"] == "it starts a server that waits for Enter"
    assert found["TTLANG_PERF_DUMP"] == "it belongs to --mode perf"
    assert "HOME" not in found


def test_what_is_off_anyway_is_not_worth_a_word() -> None:
    assert removed({"TTLANG_PERF_SERV": "0"}, "perf") == {}
    assert "TTLANG_PERF_SERV" not in environment({"TTLANG_PERF_SERV": "0"}, "perf")


def test_a_checked_run_has_no_profiler() -> None:
    assert without_profilers({**ALL, **ALWAYS}) == {
        "TTLANG_PROFILE_CSV": "/tmp/x.csv",
        "HOME": "/home/u",
    }


def test_the_command_by_hand_never_dumps() -> None:
    assert by_hand("python k.py") == (
        "TT_METAL_DEVICE_PROFILER=1 TT_METAL_PROFILER_MID_RUN_DUMP=1 TTLANG_AUTO_PROFILE=1 "
        "python k.py"
    )
