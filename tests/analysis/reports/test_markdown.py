"""Markdown: names that must not become markup."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from instrumentor_analysis.model import SlowOp
from instrumentor_analysis.reports import markdown, summary
from tests.analysis.reports.summaries import HOSTILE, tracy


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("plain_name stays", "plain_name stays"),
        ("_leading_", "\\_leading\\_"),
        ("a | b", "a \\| b"),
        ("<b>", "\\<b\\>"),
        ("[x](y)", "\\[x\\](y)"),
        ("two\nlines", "two\\\\nlines"),
        ("3 ~ 4", "3 \\~ 4"),
    ],
)
def test_escape(text: str, escaped: str) -> None:
    assert markdown.escape(text) == escaped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("look at `a_b`, *then*", "look at `a_b`, \\*then\\*"),
        ("in turn: instrument compare a.py", "in turn: `instrument compare a.py`"),
        ("one ` alone", "one \\` alone"),
    ],
)
def test_commands_are_code(text: str, shown: str) -> None:
    assert markdown.marked(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Matmul", "`Matmul`"),
        ("", ""),
        ("a`b", "``a`b``"),
        ("`a``", "``` `a`` ```"),
        ("a|b", "`a\\|b`"),
    ],
)
def test_code(text: str, shown: str) -> None:
    assert markdown.code(text) == shown


def test_hostile_names_stay_in_their_cells() -> None:
    ops = tuple(SlowOp(name, 1, 1.0, 10.0, None, "Other") for name in HOSTILE)
    rows = [
        line
        for line in summary.markdown(replace(tracy(), slow_ops=ops)).splitlines()
        if line.endswith("| Other |")
    ]
    assert len(rows) == len(HOSTILE)
    assert {row.replace("\\|", "").count("|") for row in rows} == {6}
