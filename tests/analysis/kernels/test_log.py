"""Whole logs: several sections in any order, cut anywhere, with the script's output between."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instrumentor_analysis.kernels.log import parse_log
from instrumentor_analysis.kernels.model import KernelLog
from instrumentor_analysis.shared.documents import plain
from tests.analysis.kernels import printed

WHOLE = (
    "epoch 1\n"
    + printed.AUTO
    + printed.ROOFLINE
    + printed.PERF
    + printed.FLOW.format(name="DFB")
    + printed.PIPES
    + printed.SIGNPOSTS_NEW
    + "done\n"
)


def test_every_section_is_found_and_complete() -> None:
    log = parse_log(WHOLE)
    assert [section.kind for section in log.sections] == [
        "thread-lines", "threads", "roofline", "programs", "flow", "pipes", "signposts",
    ]  # fmt: skip
    assert all(section.complete for section in log.sections), log.warnings
    assert log.warnings == ()
    assert WHOLE.splitlines()[log.sections[1].line - 1] == "THREAD SUMMARY"


def test_the_order_does_not_matter() -> None:
    other = parse_log(printed.SIGNPOSTS_NEW + printed.PERF + printed.AUTO)
    assert len(other.programs) == 2
    assert len(other.threads) == 2


def test_two_profiles_are_counted() -> None:
    assert parse_log(printed.AUTO * 2).summaries("threads") == 2


def test_a_cut_log_says_what_was_read_and_where_it_stopped() -> None:
    cut = printed.AUTO[: printed.AUTO.index("  TRISC_0")]
    log = parse_log(cut)
    assert len(log.threads) == 1
    assert log.sections[-1].problem == (
        f"the log ends at line {len(cut.splitlines()) + 1} without its closing line"
    )
    assert log.warnings == (
        f"THREAD SUMMARY (line {log.sections[-1].line}): {log.sections[-1].problem}; "
        "1 entries were read",
    )


def test_dropped_markers_are_told() -> None:
    log = parse_log("Profiler DRAM buffers were full, markers were dropped! x\n" + printed.AUTO)
    assert "dropped markers" in log.warnings[0]


def test_an_empty_log() -> None:
    assert parse_log("") == KernelLog()


def test_it_goes_into_json() -> None:
    assert json.loads(json.dumps(plain(parse_log(WHOLE))))["machine"]["mhz"] == 1350


@settings(max_examples=60)
@given(st.integers(0, len(WHOLE)), st.text(max_size=80), st.integers(0, len(WHOLE)))
def test_no_damage_makes_it_fail(cut: int, noise: str, at: int) -> None:
    text = WHOLE[:at] + noise + WHOLE[at:]
    log = parse_log(text[:cut])
    assert all(section.end_line >= section.line for section in log.sections)
    json.dumps(plain(log))


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from([line for line in WHOLE.splitlines() if line.strip()])
        | st.text(max_size=60),
        max_size=40,
    )
)
def test_lines_in_any_order_do_not_make_it_fail(lines: list[str]) -> None:
    json.dumps(plain(parse_log("\n".join(lines))))


MANY = 150_000
PROGRAM = "PERF SUMMARY\nProgram 1\n"


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize(
    "text",
    [
        "THREAD: a (1 ops, 1 cycles)\n1 1% 1 x\n" + "1 a\n" * 250_000,
        "PERF SUMMARY\nx\n" * 250_000,
        PROGRAM + "".join(f"TRISC_{number}: 1 cycles\n" for number in range(250_000)),
        PROGRAM + "DRAM read: 1 B " * MANY,
        PROGRAM + "barriers: 1 read " * MANY,
        "PERF SUMMARY\n" + "arch:" * MANY,
        "SIGNPOST PROFILE\na" + " " * MANY + "x",
        "SIGNPOST PROFILE\n" + "a A " * MANY,
        "THREAD: a" + " " * MANY + "x",
        "PERF SUMMARY\nProgram 1" + " " * MANY + "x",
    ],
    ids=lambda text: text[:40].split("\n", 2)[1 if text.startswith(("P", "S")) else 0][:12],
)
def test_a_log_of_any_length_is_read_in_a_time_that_grows_with_it(text: str) -> None:
    parse_log(text)
