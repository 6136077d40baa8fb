"""Matching the ops of two steps: by op, shapes, types, memory, and their order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from instrumentor_analysis.compare.model import OpKind, Ops
from instrumentor_analysis.compare.ops import compare_ops, match
from instrumentor_analysis.model import SlowOp
from tests.analysis.compare.sides import op_list, side

MATMUL = OpKind("Matmul", "1x1x32x64, 1x1x64x64 -> 1x1x32x64", "BF16, BF16 -> BF16", "DRAM, DRAM")
IN_L1 = replace(MATMUL, memory="L1, DRAM")
LARGER = replace(MATMUL, shapes="1x1x64x64, 1x1x64x64 -> 1x1x64x64")
BFP8 = replace(MATMUL, types="BFP8, BFP8 -> BFP8", memory="L1, L1")
ADD = OpKind("Add", "1x1x32x32", "BF16", "DRAM")
GELU = OpKind("Gelu", "1x1x32x32", "BF16", "DRAM")

kinds = st.sampled_from([MATMUL, IN_L1, LARGER, BFP8, ADD, GELU])
lists = st.lists(st.tuples(kinds, st.integers(1, 100).map(float)), max_size=12)


def counts(ops: Ops) -> tuple[int, int, int, int]:
    found = ops.counts
    return found["same"], found["changed"], found["added"], found["removed"]


def test_alike_ops_are_the_same_and_keep_their_times() -> None:
    found = match(op_list((MATMUL, 100.0), (ADD, 10.0)), op_list((MATMUL, 80.0), (ADD, 10.0)))
    assert counts(found) == (2, 0, 0, 0)
    first = found.changes[0]
    assert (first.op, first.status, first.base_ms, first.new_ms) == ("Matmul", "same", 0.1, 0.08)


def test_one_more_of_a_kind_is_added() -> None:
    found = match(op_list((ADD, 1.0), (ADD, 2.0)), op_list((ADD, 1.0), (ADD, 2.0), (ADD, 4.0)))
    assert counts(found) == (2, 0, 1, 0)
    added = next(c for c in found.changes if c.status == "added")
    assert (added.base, added.new, added.base_ms, added.new_ms) == (None, ADD, None, 0.004)
    assert added.position == 2


def test_a_fused_op_is_removed() -> None:
    found = match(op_list((MATMUL, 100.0), (GELU, 30.0)), op_list((MATMUL, 110.0)))
    assert counts(found) == (1, 0, 0, 1)
    assert (found.changes[0].op, found.changes[0].change_ms) == ("Gelu", -0.03)


@pytest.mark.parametrize(
    ("new", "parts"),
    [(IN_L1, ("memory",)), (BFP8, ("types", "memory")), (LARGER, ("shapes",))],
)
def test_other_memory_types_and_shapes_are_changes(new: OpKind, parts: tuple[str, ...]) -> None:
    found = match(op_list((MATMUL, 100.0)), op_list((new, 60.0)))
    assert counts(found) == (0, 1, 0, 0)
    assert found.changes[0].changed == parts


def test_what_is_nearer_is_paired_first() -> None:
    found = match(op_list((MATMUL, 1.0), (LARGER, 2.0)), op_list((LARGER, 2.0), (IN_L1, 1.0)))
    assert {(c.base, c.new) for c in found.changes} == {(MATMUL, IN_L1), (LARGER, LARGER)}


def test_the_rest_is_paired_in_order() -> None:
    other = replace(MATMUL, shapes="other")
    found = match(op_list((MATMUL, 1.0), (LARGER, 2.0)), op_list((other, 3.0), (other, 4.0)))
    pairs = {(c.base, c.base_ms, c.new_ms) for c in found.changes}
    assert pairs == {(MATMUL, 0.001, 0.003), (LARGER, 0.002, 0.004)}


@pytest.mark.parametrize(
    ("old_us", "new_us", "per", "ms"),
    [(None, 1.0, (1, 1), (None, 0.001)), (8.0, 16.0, (2, 8), (0.004, 0.002))],
)
def test_times_of_what_was_timed_per_sample(
    old_us: float | None, new_us: float, per: tuple[int, int], ms: tuple[float | None, float]
) -> None:
    found = match(op_list((ADD, old_us)), op_list((ADD, new_us)), per=per)
    assert (found.changes[0].base_ms, found.changes[0].new_ms) == ms


@given(lists, lists)
@settings(deadline=None)
def test_nothing_is_lost_and_swapping_mirrors(
    base: list[tuple[OpKind, float]], new: list[tuple[OpKind, float]]
) -> None:
    there, back = match(op_list(*base), op_list(*new)), match(op_list(*new), op_list(*base))
    assert sum(c.base_count for c in there.changes) == len(base)
    assert sum(c.new_count for c in there.changes) == len(new)
    same, changed, added, removed = counts(there)
    assert counts(back) == (same, changed, removed, added)
    assert abs(sum(c.base_ms or 0 for c in there.changes) * 1000 - sum(t for _, t in base)) < 1e-6


@given(lists)
@settings(deadline=None)
def test_a_step_is_the_same_as_itself(ops: list[tuple[OpKind, float]]) -> None:
    found = match(op_list(*ops), op_list(*ops))
    assert counts(found) == (len(ops), 0, 0, 0)
    assert all(change.change_ms == 0 for change in found.changes)


def test_device_times_are_not_held_against_self_times() -> None:
    base = side([1.0], ops=op_list((ADD, 1.0)))
    new = side([1.0], ops=op_list((ADD, 1.0), time="self time"))
    assert compare_ops(base, new) is None


def test_summaries_alone_are_compared_by_name() -> None:
    base = side([1.0], slow_ops=(SlowOp("A", 2, 4.0, 80.0, None), SlowOp("B", 1, 1.0, 20.0, None)))
    new = side([1.0], slow_ops=(SlowOp("A", 2, 3.0, 100.0, None),))
    found = compare_ops(base, new)
    assert found.by == "name" and found.note
    assert [(c.op, c.status, c.change_ms) for c in found.changes] == [
        ("A", "same", -1.0),
        ("B", "removed", -1.0),
    ]
    assert found.time == "device time"
    kept, removed = found.changes
    assert (kept.base_count, kept.new_count, kept.base, kept.new) == (2, 2, *[OpKind("A")] * 2)
    assert (removed.base_count, removed.new_count) == (1, 0)
    assert (removed.base, removed.new) == (OpKind("B"), None)
    (added,) = (each for each in compare_ops(new, base).changes if each.op == "B")
    assert (added.base, added.new, added.base_count, added.new_count) == (None, OpKind("B"), 0, 1)


def test_summaries_of_the_host_alone_are_compared_by_self_time() -> None:
    slow = [(SlowOp("A", 2, None, None, None, op_self_time_ms=ms),) for ms in (4.0, 3.0)]
    found = compare_ops(side([1.0], slow_ops=slow[0]), side([1.0], slow_ops=slow[1]))
    assert (found.time, [c.change_ms for c in found.changes]) == ("self time", [-1.0])


def test_what_a_full_list_does_not_name_is_not_called_removed() -> None:
    full = tuple(SlowOp(f"Op{at}", 1, 10.0 - at / 10, 5.0, None) for at in range(15))
    base = side([1.0], slow_ops=(*full[:14], SlowOp("Last", 1, 0.1, 1.0, None)))
    found = compare_ops(base, side([1.0], slow_ops=full))
    assert "Last" not in [change.op for change in found.changes]
