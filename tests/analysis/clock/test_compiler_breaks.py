"""What interrupts a compiler, as figures and as findings."""

from __future__ import annotations

from instrumentor_analysis.clock.compiler_breaks import by_place, causes, keeps_from_replay
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
    assert "compiled again: size mismatch at t.py:3, and 1 more like it" in str(one)
    assert "reading a value" in str(other) and "t.py:9" in str(other)
    assert one.hint and other.hint


def test_what_keeps_a_step_from_being_replayed_is_one_sentence_with_its_line() -> None:
    broken = Cause("graph break", "print", "t.py", 3)
    assert keeps_from_replay([]) == keeps_from_replay([broken]) == ""
    power = Cause("new graph", "aten::pow: 3, then 4", "t.py", 7)
    said = keeps_from_replay([broken, power, Cause("gradients dropped", "zero_grad", "t.py", 8)])
    assert said == "new graph at t.py:7 (aten::pow: 3, then 4), and 1 more"
    for found in by_place([power]):
        assert "at t.py:7: aten::pow: 3, then 4" in str(found) and "keep recompiling" in str(found)
