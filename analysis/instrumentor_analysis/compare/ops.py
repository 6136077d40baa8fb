"""The ops of two steps, matched one to one: by op, shapes, types and memory, in their order.

What is alike in all of these is paired first, the n-th with the n-th. What is left is paired by
op and shapes and types, then by op and shapes, then by op alone, again in order: those are
``changed``. The rest was added or removed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from instrumentor_analysis.compare.model import OpChange, OpKind, Ops, Status
from instrumentor_analysis.compare.op_lists import OpList
from instrumentor_analysis.compare.side import Side
from instrumentor_analysis.model import SlowOp
from instrumentor_analysis.ops.figures import MOST_SLOW_OPS

_ROUNDS: tuple[Callable[[OpKind], object], ...] = (
    lambda kind: kind,
    lambda kind: (kind.op, kind.shapes, kind.types),
    lambda kind: (kind.op, kind.shapes),
    lambda kind: kind.op,
)
#: Positions of an op in both steps, None on a side without it.
Pair = tuple[int | None, int | None]
_PARTS = ("shapes", "types", "memory")
NAMES_ONLY = (
    "only the slowest ops are compared, and by name, because a summary.json has no single ops; "
    "give run folders to compare shapes and memory"
)


def compare_ops(base: Side, new: Side, per: tuple[int, int] = (1, 1)) -> Ops | None:
    """Match the ops of two sides; None where one of them has none, or their times differ in kind.

    Args:
        per: what each side's times are divided by: 1, or its batch size.
    """
    if base.ops is not None and new.ops is not None:
        # Self time on the host and device time are different quantities: no ratio of them means
        # anything.
        if base.ops.time != new.ops.time:
            return None
        return match(base.ops, new.ops, per)
    return _by_name(base, new, per)


def match(base: OpList, new: OpList, per: tuple[int, int] = (1, 1)) -> Ops:
    """Match two lists of ops; arguments as for :func:`compare_ops`."""
    # By counting, not by aligning two sequences as diff does: ops that were reordered still pair.
    pairs: list[Pair] = []
    left: tuple[list[int], list[int]] = [*range(len(base.sequence))], [*range(len(new.sequence))]
    for key in _ROUNDS:
        found, left = _pair(base, new, left, key)
        pairs += found
    pairs += [*((at, None) for at in left[0]), *((None, at) for at in left[1])]
    groups: dict[tuple[OpKind | None, OpKind | None], list[Pair]] = defaultdict(list)
    for pair in pairs:
        old, now = pair
        kinds = (
            None if old is None else base.kinds[base.sequence[old]],
            None if now is None else new.kinds[new.sequence[now]],
        )
        groups[kinds].append(pair)
    changes = (_change(kinds, group, (base, new), per) for kinds, group in groups.items())
    return _ops(base.time, "kind", changes)


def _pair(
    base: OpList,
    new: OpList,
    left: tuple[list[int], list[int]],
    key: Callable[[OpKind], object],
) -> tuple[list[Pair], tuple[list[int], list[int]]]:
    """Pair the n-th op of a key with the n-th; the pairs, and the unpaired ops of both sides."""
    keys = [[key(kind) for kind in side.kinds] for side in (base, new)]
    waiting: dict[object, list[int]] = defaultdict(list)
    # Reversed, so that pop() below takes the first.
    for at in reversed(left[1]):
        waiting[keys[1][new.sequence[at]]].append(at)
    pairs: list[Pair] = []
    unpaired: list[int] = []
    for at in left[0]:
        candidates = waiting.get(keys[0][base.sequence[at]])
        if candidates:
            pairs.append((at, candidates.pop()))
        else:
            unpaired.append(at)
    return pairs, (unpaired, sorted(at for rest in waiting.values() for at in rest))


def _change(
    kinds: tuple[OpKind | None, OpKind | None],
    group: Sequence[Pair],
    lists: tuple[OpList, OpList],
    per: tuple[int, int],
) -> OpChange:
    old, new = kinds
    parts: tuple[str, ...] = ()
    if old is None or new is None:
        status: Status = "added" if old is None else "removed"
    else:
        parts = tuple(part for part in _PARTS if getattr(old, part) != getattr(new, part))
        status = "changed" if parts else "same"
    counts: list[int] = []
    ms: list[float | None] = []
    for side, ops in enumerate(lists):
        times = [ops.times_us[at] for pair in group if (at := pair[side]) is not None]
        timed = [time_us for time_us in times if time_us is not None]
        counts.append(len(times))
        ms.append(sum(timed) / 1000 / per[side] if timed else None)
    shown = 0 if new is None else 1
    position = min(at for pair in group if (at := pair[shown]) is not None)
    return OpChange(status, old, new, counts[0], counts[1], ms[0], ms[1], position, parts)


def _ops(time: str, by: Literal["kind", "name"], every: Iterable[OpChange], note: str = "") -> Ops:
    """Most difference first, with the ops of each status: pairs, where they are on both sides."""
    changes = sorted(every, key=lambda c: (-abs(c.change_ms), c.op, c.position or 0))
    counts = dict.fromkeys(("same", "changed", "added", "removed"), 0)
    for change in changes:
        counts[change.status] += max(change.base_count, change.new_count)
    return Ops(time, by, tuple(changes), counts, note or None)


def _by_name(base: Side, new: Side, per: tuple[int, int]) -> Ops | None:
    """Ops by name, out of the summaries; what a full list does not name may still be there."""
    lists = [side.summary.slow_ops for side in (base, new)]
    device = [any(op.device_time_ms is not None for op in ops) for ops in lists]
    if not all(lists) or device[0] != device[1]:
        return None
    old, now = ({op.op: op for op in ops} for ops in lists)
    # An op that is not in a full list may be there all the same.
    full = [one for one in (old, now) if len(one) >= MOST_SLOW_OPS]
    names = [op for op in dict.fromkeys((*old, *now)) if all(op in one for one in full)]
    changes = (_named(op, (old.get(op), now.get(op)), device[0], per) for op in names)
    return _ops("device time" if device[0] else "self time", "name", changes, NAMES_ONLY)


def _named(
    name: str, both: tuple[SlowOp | None, SlowOp | None], on_device: bool, per: tuple[int, int]
) -> OpChange:
    old, now = both

    def ms(op: SlowOp | None, size: int) -> float | None:
        if op is None:
            return None
        time = op.device_time_ms if on_device else op.op_self_time_ms
        return None if time is None else time / size

    kind = OpKind(name)
    return OpChange(
        "added" if old is None else "removed" if now is None else "same",
        *(None if old is None else kind, None if now is None else kind),
        *(old.count if old else 0, now.count if now else 0),
        *(ms(old, per[0]), ms(now, per[1])),
    )
