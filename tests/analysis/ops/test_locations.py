"""MLIR locations to lines of the original file."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instrumentor_analysis.load.ops_csv import load
from instrumentor_analysis.load.table import Categorical, Table, concat
from instrumentor_analysis.model import Locations
from instrumentor_analysis.ops.locations import (
    NO_LOCATIONS,
    LineMap,
    Place,
    by_source_line,
    module_name,
    places,
    read_diff,
    user_place,
)
from instrumentor_analysis.ops.per_op import per_op
from instrumentor_analysis.ops.roofline import architecture
from tests.analysis.ops_rows import FIXTURES

DIFF = """\
--- a/pkg/train.py
+++ b/pkg/train.py
@@ -1,3 +1,5 @@
 import torch
+# [instrument] begin
+import time

 x = 1
@@ -10,4 +12,5 @@
 loss = f()
-loss.backward()
+t = 1
+loss.backward()
 sync()
 done()
"""


def ops_of(name: str) -> Table:
    ops = per_op(load(FIXTURES / name).frame, architecture("wormhole"))
    return ops.take(~ops["is_signpost"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("loc(unknown)", ()),
        ("", ()),
        ("loc(#loc7)", ()),
        ('loc("a.py":3:7)', (Place("a.py", 3),)),
        ('loc("a.py":3:7 to 4:1)', (Place("a.py", 3),)),
        ('loc("matmul"("a.py":3:7))', (Place("a.py", 3),)),
        ('loc(callsite("f"("m.py":1:2) at "g"("t.py":9:1)))', (Place("m.py", 1), Place("t.py", 9))),
        ('loc(fused["a.py":3:7; "b.py":4:1])', (Place("a.py", 3), Place("b.py", 4))),
        ('loc(fused<{x = "y"}>["a.py":3:7, "a.py":3:7])', (Place("a.py", 3),)),
        ('loc("Linear[fc]/forward(net/model.py:45)/aten__mm")', (Place("net/model.py", 45),)),
        (r'loc("C:\\x\\a.py":3:7)', (Place(r"C:\\x\\a.py", 3),)),
        ('loc("a.py":0:0)', ()),
    ],
)
def test_places(text: str, expected: tuple[Place, ...]) -> None:
    assert places(text) == expected


@given(st.text(max_size=60))
def test_any_text_is_survived(text: str) -> None:
    for place in places(text):
        assert place.line > 0
    user_place(text, read_diff(text))


@pytest.mark.parametrize(
    ("line", "original"),
    [*enumerate((1, 1, 1, 2, 3, 4), 1), *enumerate((9, 10, 10, 11, 12, 13), 11), (40, 37)],
)
def test_lines_are_mapped_back_through_the_diff(line: int, original: int) -> None:
    lines = read_diff(DIFF)
    place = lines.original(Place("/tmp/shadow/pkg/train.py", line))
    assert place == Place("pkg/train.py", original)


def test_other_files_stay_as_they_are() -> None:
    lines = read_diff(DIFF)
    for file in ("/lib/torch/nn.py", "other/train.py", "train.py"):
        assert lines.original(Place(file, 7)) == Place(file, 7)
    assert LineMap().original(Place("a.py", 2)) == Place("a.py", 2)


lines_of_code = st.lists(st.sampled_from(["a", "b", "c", "d", "--x", "++y"]), max_size=12)


@given(old=lines_of_code, inserted=st.lists(st.integers(0, 12), max_size=4))
def test_kept_lines_find_their_original(old: list[str], inserted: list[int]) -> None:
    numbered = [f"{text} {at}\n" for at, text in enumerate(old, 1)]
    new = list(numbered)
    for at in sorted(inserted, reverse=True):
        new.insert(min(at, len(new)), "marked\n")
    diff = "".join(difflib.unified_diff(numbered, new, "a/f.py", "b/f.py", n=1))
    lines = read_diff(diff)
    for at, text in enumerate(new, 1):
        if text != "marked\n":
            place = lines.original(Place("/s/f.py" if diff else "f.py", at))
            assert place.line == int(text.split()[1])


def test_the_users_line_comes_before_a_librarys() -> None:
    lines = read_diff(DIFF)
    library = '"mm"("/v/site-packages/torch/nn.py":7:1)'
    mine = '"step"("/tmp/s/pkg/train.py":14:1)'
    assert user_place(f"loc(callsite({library} at {mine}))", lines) == Place("pkg/train.py", 11)
    assert user_place(f"loc({library})", lines) == Place("/v/site-packages/torch/nn.py", 7)
    assert user_place('loc(callsite("x.mlir":1:1 at "net.py":2:2))', lines) == Place("net.py", 2)
    assert user_place("loc(unknown)", lines) is None


def test_device_time_per_source_line() -> None:
    found = by_source_line(ops_of("locations.csv"))
    assert [(line.file, line.line, line.device_time_ms, line.op_count, line.const_eval)
            for line in found.lines] == [
        ("train.py", 14, 0.022, 2, False),
        ("train.py", 14, 0.015, 1, True),
        ("model.py", 7, 0.011, 1, False),
    ]  # fmt: skip
    assert (found.unlocated_ms, found.unlocated_count) == (pytest.approx(0.027), 2)
    assert found.unlocated_percent == pytest.approx(27 / 75 * 100)
    assert found.note is None
    assert found.lines[0].ops == ("UnaryDeviceOperation",)
    assert sum(line.percent or 0 for line in found.lines) == pytest.approx(48 / 75 * 100)


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ('loc("Net[net]/Linear[fc1]/aten__mm"("a.py":1:1))', "Net[net].Linear[fc1]"),
        ('loc("aten__mm"("a.py":1:1))', "a.py"),
        ("loc(unknown)", None),
    ],
)
def test_modules_by_name_else_by_file(location: str, name: str | None) -> None:
    assert module_name(location, user_place(location, LineMap())) == name


def test_device_time_per_module() -> None:
    modules = by_source_line(ops_of("locations.csv")).modules
    assert [(m.name, m.device_time_ms, m.op_count, m.const_eval) for m in modules] == [
        ("train.py", 0.022, 2, False),
        ("model.py", 0.011, 1, False),
        ("(constants, evaluated once)", 0.015, 1, True),
    ]


def test_the_constants_are_shown_beside_the_first_modules() -> None:
    found = by_source_line(ops_of("locations.csv"))
    assert [m.name for m in found.most_modules(1)] == ["train.py", "(constants, evaluated once)"]
    assert [m.name for m in Locations(modules=found.modules[:2]).most_modules(1)] == ["train.py"]


def test_a_module_without_ops_of_a_step_is_not_shown() -> None:
    ops = ops_of("locations.csv")
    ops = ops.assign(const_eval=Categorical.of(["true"] * len(ops)))
    (only,) = by_source_line(ops).modules
    assert (only.name, only.op_count) == ("(constants, evaluated once)", 4)


def test_locations_of_pooled_steps_are_those_of_one() -> None:
    once = ops_of("locations.csv")
    one, pooled = by_source_line(once), by_source_line(concat([once] * 3), pooled=3)
    assert [(s.file, s.line, s.op_count) for s in pooled.lines] == [
        (s.file, s.line, s.op_count) for s in one.lines
    ]
    assert [m.op_count for m in pooled.modules] == [m.op_count for m in one.modules]
    for each, other in zip((*pooled.lines, *pooled.modules), (*one.lines, *one.modules),
                           strict=True):  # fmt: skip
        assert (each.device_time_ms, each.percent) == pytest.approx(
            (other.device_time_ms, other.percent)
        )
    assert (pooled.unlocated_ms, pooled.unlocated_count) == (pytest.approx(0.027), 2)


def test_everything_located_is_no_row_of_its_own() -> None:
    ops = ops_of("locations.csv")
    found = by_source_line(ops.take([".py" in str(place) for place in ops["location"]]))
    assert (found.unlocated_ms, found.unlocated_count, found.unlocated_percent) == (0.0, 0, 0.0)
    assert Locations().unlocated_percent is None


def test_a_diff_turns_them_into_the_users_lines(tmp_path: Path) -> None:
    diff = tmp_path / "changes.diff"
    diff.write_text("--- a/train.py\n+++ b/train.py\n@@ -1 +1,3 @@\n+x\n+y\n z\n", encoding="utf-8")
    found = by_source_line(ops_of("locations.csv"), diff)
    assert {(line.file, line.line) for line in found.lines} == {("train.py", 12), ("train.py", 13)}


def test_no_locations_is_said_once() -> None:
    found = by_source_line(ops_of("training_v2_1.csv"))
    assert (found.lines, found.note, found.unlocated_ms) == ((), NO_LOCATIONS, None)
