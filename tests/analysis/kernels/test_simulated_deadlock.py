"""Which wait of a deadlock is to be mended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from instrumentor_analysis.kernels.findings import Finding
from instrumentor_analysis.kernels.simulated_report import simulated_report
from tests.analysis.kernels.counted import changed, folder_with


def _hung(*blocked: tuple[str, str, str], uses: str = "") -> dict[str, Any]:
    """Threads that wait; `uses`: thread, buffer, what, of what was done until then."""
    rows = [
        {"thread": t, "operation": o, "buffer": b, "file": "/x", "line": 5, "nodes": [0]}
        for t, o, b in blocked
    ]
    document = changed(complete=False, problem={"kind": "deadlock", "blocked": rows})
    if uses:
        document["blocks"] = [[0, *use.split(), 1, 0, 4, 0] for use in uses.split(", ")]
    return document


def _found(folder: Path, document: dict[str, Any]) -> Finding:
    (only,) = simulated_report(folder_with(folder, document)).found
    assert only.kind == "deadlock"
    return only


WAITS = (("write", "wait", "y_dfb"), ("compute", "wait", "b_dfb"), ("read", "reserve", "a_dfb"))


@pytest.mark.parametrize(
    ("document", "first", "change"),
    [
        (
            _hung(("compute", "wait", "a_dfb")),
            "compute waits for a block of a_dfb",
            "read (line 9) has ended, compute (line 15) has not",
        ),
        (
            _hung(("compute", "wait", "b_dfb")),
            "compute waits for a block of b_dfb",
            "No thread has pushed a block of b_dfb",
        ),
        (
            _hung(("compute", "wait", "a_dfb"), ("read", "reserve", "a_dfb")),
            "compute waits",
            "The threads wait for each other",
        ),
        # Who holds its own blocks is the cause, whoever else waits for it.
        (
            _hung(
                ("write", "wait", "y_dfb"),
                ("compute", "reserve", "a_dfb"),
                uses="compute a_dfb wait, compute a_dfb reserve, write y_dfb wait",
            ),
            "compute waits for room in a_dfb",
            "block_count=3 of a_dfb (line 6), or pop one",
        ),
        (
            _hung(("compute", "wait", "a_dfb"), uses="compute a_dfb reserve, compute a_dfb wait"),
            "compute waits for a block of a_dfb",
            "push it before the wait",
        ),
        # What nobody gives is the cause where all wait for it in the end ...
        (
            _hung(*WAITS, uses="compute y_dfb reserve, compute a_dfb wait, read a_dfb reserve"),
            "compute waits for a block of b_dfb",
            "No thread has pushed a block of b_dfb",
        ),
        # ... and not where whoever would give it is held up by others.
        (
            _hung(*WAITS, uses="read b_dfb push, compute a_dfb wait"),
            "write waits",
            "The threads wait for each other",
        ),
        # Of two that nobody gives anything the one is the cause for which a third waits.
        (
            _hung(
                ("write", "wait", "y_dfb"),
                ("compute", "wait", "a_dfb"),
                ("read", "wait", "a pipe"),
                uses="read a_dfb reserve, compute a_dfb wait",
            ),
            "read waits for data from a pipe",
            "Nothing was sent over the pipe that read (line 9) receives from at line 5",
        ),
        (
            _hung(("read", "reserve", "a_dfb"), uses="read a_dfb reserve"),
            "read waits for room in a_dfb",
            "No thread has taken a block of a_dfb",
        ),
    ],
)
def test_the_wait_that_explains_the_others_comes_first_with_its_remedy(
    tmp_path: Path, document: dict[str, Any], first: str, change: str
) -> None:
    found = _found(tmp_path, document)
    assert found.title.startswith(f"deadlock: {first}") and found.evidence.startswith(
        first.split()[0]
    )
    assert change in found.change


def test_what_each_buffer_got_and_gave_is_said(tmp_path: Path) -> None:
    found = _found(tmp_path, _hung(("compute", "wait", "a_dfb")))
    assert "a_dfb (line 6): read pushed 1, compute popped 1" in found.evidence
