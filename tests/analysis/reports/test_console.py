"""The output summary on a terminal: exact text, and what holds for any summary."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.model import SlowOp
from analysis.reports import console, words
from tests.analysis.reports.summaries import ALL, HOSTILE, torch_cpu, tracy

GOLDENS = Path(__file__).parent / "goldens"
ESCAPE = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize("name", ALL)
def test_text_is_exactly_this(name: str, request: pytest.FixtureRequest) -> None:
    text = console.render(ALL[name](), width=80, folder="mnist_baseline")
    golden = GOLDENS / f"{name}.txt"
    if request.config.getoption("--update-goldens"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("name", ALL)
def test_fits_the_terminal(name: str, width: int) -> None:
    text = console.render(ALL[name](), width=width)
    # A path is one word: cut, it could not be pasted.
    lines = [line for line in text.splitlines() if "tracy_profile" not in line]
    assert max(map(words.width, lines)) <= width


@pytest.mark.parametrize("name", ALL)
def test_colours_change_nothing_but_colours(name: str) -> None:
    plain = console.render(ALL[name](), width=100)
    assert "\x1b" not in plain
    assert ESCAPE.sub("", console.render(ALL[name](), width=100, color=True)) == plain


def test_what_was_not_measured_is_never_zero() -> None:
    text = console.render(torch_cpu())
    assert re.search(r"device time +not measured +torch on the CPU has no device", text)
    assert re.search(r"overhead +not measured", text)
    assert re.search(r"op self time +31\.5 ms", text)
    assert not re.search(r"(?<![\d.,])0(\.0+)? (ms|us|%)", text)


def test_overhead_above_the_threshold_is_red() -> None:
    assert re.search(r"\x1b\[31m +85\.0 % \x1b\[0m", console.render(tracy(), color=True))


def test_hostile_names_are_shown_not_obeyed() -> None:
    ops = tuple(SlowOp(name, 1, 1.0, 10.0, None, "Other") for name in HOSTILE)
    text = console.render(replace(tracy(), slow_ops=ops), width=80)
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert "\\x1b[31mred" in text
    tables = [line for line in text.splitlines() if "tracy_profile" not in line]
    assert max(map(words.width, tables)) <= 80


def test_the_chart_and_the_host_trace_are_named() -> None:
    text = console.render(tracy(), folder="out/")
    assert re.search(r"chart +out/tracy_perf/tt_perf_report_stacked\.png", text)
    assert re.search(r"host trace +out/tracy_profile/\S+\.tracy", text)
