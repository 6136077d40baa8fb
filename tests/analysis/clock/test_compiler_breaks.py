"""What interrupts a compiler, as figures and as findings."""

from __future__ import annotations

from instrumentor_analysis.clock.compiler_breaks import by_place, causes
from instrumentor_analysis.model import Cause

RECOMPILED = {"kind": "recompiled", "what": "size mismatch", "file": "t.py", "line": 3, "ms": 90.0}


def test_the_costliest_comes_first_and_what_is_no_cause_is_left_out() -> None:
    found = causes([{"kind": "fallback", "what": "aten::nonzero"}, RECOMPILED, {"kind": 3}, 7])
    places = [(each.kind, each.place) for each in found]
    assert places == [("recompiled", "t.py:3"), ("fallback", "")]
    assert causes(None) == ()


def test_a_finding_of_each_kind_with_place_and_remedy() -> None:
    read = Cause("fallback", "aten::_local_scalar_dense", "t.py", 9)
    again = Cause(**RECOMPILED)  # type: ignore[arg-type]
    one, other = by_place([again, again, read])
    assert "compiled again: size mismatch at t.py:3, and 1 more of the kind" in str(one)
    assert "reading a value" in str(other) and "t.py:9" in str(other)
    assert one.hint and other.hint
