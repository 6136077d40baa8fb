"""Edits of one number: where the number is written, what findings ask for, the copy's text."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.kernels.options import Choice
from instrumentor.kernels.prepare import prepare_kernel
from instrumentor.kernels.trials import MOST, trials, with_trial
from instrumentor_analysis.kernels.findings import Finding, Try
from tests.kernels.scripts import found

SOURCE = """\
import ttl

BLOCK = 2
GRID = (4, 1)  # ä


@ttl.operation(grid=GRID)
def k(a, out):
    deep = 2
    a_dfb = ttl.make_dataflow_buffer_like(a, shape=(BLOCK, 1), block_count=deep)
    out_dfb = ttl.make_dataflow_buffer_like(out, shape=(BLOCK, rows()), block_count=1)
    wide_dfb = ttl.make_dataflow_buffer_like(out, shape=(2 * BLOCK, 1), block_count=count())


k(1, 2)
"""


def asked(*tries: Try) -> list[Finding]:
    return [Finding("kind", 1, "", "", "", tries=(each,)) for each in tries]


def titles(*tries: Try, source: str = SOURCE) -> list[str]:
    (kernel,) = found(source).kernels
    return [trial.title for trial in trials(kernel, asked(*tries))]


@pytest.mark.parametrize(
    ("tried", "title"),
    [
        (Try("grid"), ['grid="full" (line 7)']),
        (Try("block_count", "a_dfb", to=3), ["block_count of a_dfb 2 -> 3 (line 9)"]),
        (Try("block_count", "out_dfb", to=2), ["block_count of out_dfb 1 -> 2 (line 11)"]),
        (Try("block", times=2), ["BLOCK 2 -> 4 (line 3)"]),
        # What is as asked for already, what is computed, and what is not there.
        (Try("block_count", "a_dfb", to=2), []),
        (Try("block_count", "wide_dfb", to=2), []),
        (Try("block_count", "other_dfb", to=2), []),
    ],
)
def test_a_number_is_tried_where_it_is_written(tried: Try, title: list[str]) -> None:
    assert titles(tried) == title


def test_each_place_is_tried_once_and_there_are_not_too_many() -> None:
    assert len(titles(Try("grid"), Try("grid"), Try("block", times=2))) == 2
    many = [Try("block_count", "a_dfb", to=number) for number in range(3, 20)]
    assert len(titles(*many)) == MOST


def test_the_copy_has_the_number_and_everything_else_as_it_was(tmp_path: Path) -> None:
    script = tmp_path / "k.py"
    script.write_text(SOURCE, encoding="utf-8")
    prepared = prepare_kernel(script, Choice(), others_run=True)
    before = prepared.replacements[script].decode().splitlines()
    for trial in trials(
        prepared.plan.kernel, asked(Try("grid"), Try("block_count", "out_dfb", to=2))
    ):
        changed = with_trial(prepared, trial)
        after = changed.replacements[script].decode().splitlines()
        (at,) = [n for n, pair in enumerate(zip(before, after, strict=True)) if len(set(pair)) > 1]
        original = SOURCE.splitlines()[trial.number.line - 1]
        assert before[at] == original
        assert after[at] == original.replace("GRID", '"full"').replace("count=1", "count=2")
        assert changed.line_map == prepared.line_map
    assert script.read_text(encoding="utf-8") == SOURCE


def test_a_number_is_called_what_its_line_calls_it() -> None:
    renamed = SOURCE.replace("    deep = 2", "    deep, = 2,\n    rows_a_block = BLOCK").replace(
        "(BLOCK, 1)", "(rows_a_block, 1)"
    )
    assert titles(Try("block", times=2), source=renamed) == ["BLOCK 2 -> 4 (line 3)"]
