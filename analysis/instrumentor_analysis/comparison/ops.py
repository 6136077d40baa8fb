"""The ops of two steps, matched one to one: by op, shapes, types and memory, in their order.

What is alike in all of these is paired first, the n-th with the n-th. What is left is paired by
op and shapes and types, then by op and shapes, then by op alone, again in order: those are
``changed``. The rest was added or removed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from instrumentor_analysis.comparison.model import OpChange, OpKind, Ops, Status
from instrumentor_analysis.comparison.op_lists import OpList
from instrumentor_analysis.comparison.side import Side
from instrumentor_analysis.figures import MOST_SLOW_OPS
from instrumentor_analysis.model import SlowOp

_ROUNDS: tuple[Callable[[OpKind], object], ...] = (
    lambda kind: kind,
    lambda kind: (kind.op, kind.shapes, kind.types),
    lambda kind: (kind.op, kind.shapes),
    lambda kind: kind.op,
)
_PARTS = ("shapes", "types", "memory")
NAMES_ONLY = (
    "only the slowest ops are compared, and by name: a summary.json has no single ops; give run "
    "folders for shapes and memory"
)


class _Group(Struct):
    """Ops of one outcome, as they are collected."""

    counts: list[int] = field(default_factory=lambda: [0, 0])
    times_us: list[float] = field(default_factory=lambda: [0.0, 0.0])
    timed: list[bool] = field(default_factory=lambda: [False, False])
    position: int | None = None

    def take(self, side: int, position: int, time_us: float | None) -> None:
        self.counts[side] += 1
        if time_us is not None:
            self.times_us[side] += time_us
            self.timed[side] = True
        if self.position is None or position < self.position:
            self.position = position

    def ms(self, side: int, per: int) -> float | None:
        return self.times_us[side] / 1000 / per if self.timed[side] else None


def compare_ops(base: Side, new: Side, per: tuple[int, int] = (1, 1)) -> Ops | None:
    """Match the ops of two sides; None where one of them has none, or their times differ in kind.

    Args:
        per: what each side's times are divided by: 1, or its batch size.
    """
    if base.ops is not None and new.ops is not None:
        if base.ops.time != new.ops.time:
            return None
        return match(base.ops, new.ops, per)
    return _by_name(base, new, per)


def match(base: OpList, new: OpList, per: tuple[int, int] = (1, 1)) -> Ops:
    """Match two lists of ops; arguments as for :func:`compare_ops`."""
    groups: dict[tuple[OpKind | None, OpKind | None], _Group] = defaultdict(_Group)
    counts: Counter[Status] = Counter()
    left = [list(range(len(base.sequence))), list(range(len(new.sequence)))]
    for key in _ROUNDS:
        pairs, left = _pair(base, new, left, key)
        for old_at, new_at in pairs:
            kinds = base.kinds[base.sequence[old_at]], new.kinds[new.sequence[new_at]]
            group = groups[kinds]
            group.take(0, new_at, base.times_us[old_at])
            group.take(1, new_at, new.times_us[new_at])
            counts["same" if kinds[0] == kinds[1] else "changed"] += 1
    for at in left[0]:
        groups[base.kinds[base.sequence[at]], None].take(0, at, base.times_us[at])
    for at in left[1]:
        groups[None, new.kinds[new.sequence[at]]].take(1, at, new.times_us[at])
    counts["removed"], counts["added"] = len(left[0]), len(left[1])
    changes = [_change(kinds, group, per) for kinds, group in groups.items()]
    return Ops(base.time, "kind", _sorted(changes), _ordered(counts))


def _pair(
    base: OpList, new: OpList, left: Sequence[Sequence[int]], key: Callable[[OpKind], object]
) -> tuple[list[tuple[int, int]], list[list[int]]]:
    """Pair the n-th op of a key with the n-th; the pairs, and what is left of both."""
    keys = [[key(kind) for kind in side.kinds] for side in (base, new)]
    waiting: dict[object, list[int]] = defaultdict(list)
    for at in reversed(left[1]):
        waiting[keys[1][new.sequence[at]]].append(at)
    pairs: list[tuple[int, int]] = []
    unpaired: list[int] = []
    for at in left[0]:
        candidates = waiting.get(keys[0][base.sequence[at]])
        if candidates:
            pairs.append((at, candidates.pop()))
        else:
            unpaired.append(at)
    return pairs, [unpaired, sorted(at for rest in waiting.values() for at in rest)]


def _change(
    kinds: tuple[OpKind | None, OpKind | None], group: _Group, per: tuple[int, int]
) -> OpChange:
    old, new = kinds
    parts: tuple[str, ...] = ()
    if old is None or new is None:
        status: Status = "added" if old is None else "removed"
    else:
        parts = tuple(part for part in _PARTS if getattr(old, part) != getattr(new, part))
        status = "changed" if parts else "same"
    return OpChange(
        status,
        old,
        new,
        group.counts[0],
        group.counts[1],
        group.ms(0, per[0]),
        group.ms(1, per[1]),
        group.position,
        parts,
    )


def _sorted(changes: Sequence[OpChange]) -> tuple[OpChange, ...]:
    return tuple(sorted(changes, key=lambda c: (-abs(c.change_ms), c.op, c.position or 0)))


def _ordered(counts: Mapping[Status, int]) -> dict[str, int]:
    every: tuple[Status, ...] = ("same", "changed", "added", "removed")
    return {status: counts.get(status, 0) for status in every}


def _by_name(base: Side, new: Side, per: tuple[int, int]) -> Ops | None:
    """Ops by name, out of the summaries; what a full list does not name may still be there."""
    lists = [side.summary.slow_ops for side in (base, new)]
    device = [any(op.device_time_ms is not None for op in ops) for ops in lists]
    if not all(lists) or device[0] != device[1]:
        return None
    old, now = ({op.op: op for op in ops} for ops in lists)
    names = list(dict.fromkeys((*old, *now)))
    for one in (old, now):
        # An op that is not in a full list may be there all the same.
        if len(one) >= MOST_SLOW_OPS:
            names = [op for op in names if op in one]
    changes = [_named(op, (old.get(op), now.get(op)), device[0], per) for op in names]
    counts: Counter[Status] = Counter()
    for change in changes:
        counts[change.status] += max(change.base_count, change.new_count)
    time = "device time" if device[0] else "self time"
    return Ops(time, "name", _sorted(changes), _ordered(counts), NAMES_ONLY)


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
