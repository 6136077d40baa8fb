"""Which op makes a step's graph another one than that of the step before, in extra steps.

Where torch_xla compiles in step after step, and so no step could be replayed as a trace, two
updates are gone through op by op. The first op with another name, shape or data type is the cause.
Where only numbers differ, most of them are inputs of the graph and cost nothing: two more updates
tell, by torch_xla's own hash of the graph behind each of these ops, which of them are not. Views
(`slice_copy`) stand aside: torch_xla makes them anew whenever it likes, and their numbers are part
of the graph.
"""

import sys
import threading
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from instrumentor.runtime.recorder.barrier import Barrier
from instrumentor.runtime.recorder.compiler_breaks import NEW_GRAPH
from instrumentor.runtime.recorder.dispatched import enter_dispatch, leave_dispatch, op_name
from instrumentor.runtime.recorder.extra_steps import ExtraSteps
from instrumentor.runtime.recorder.flops import DEEPEST, compiles
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.runtimes import runtime_of
from instrumentor.runtime.recorder.sampling import Sampling
from instrumentor.runtime.recorder.torch_marks import Marks
from instrumentor.runtime.recorder.watch import Place, places_of

#: Samples that compiled behind the leading ones from which it is worth a look.
LEAST_RECOMPILED = 2
#: Updates that are compared op by op, and those whose graphs are.
COMPARED, HASHED = 2, 2
#: No more of them once these seconds are spent, or these iterations are over.
REPEATS_S, MOST_REPEATS = 30.0, 64
#: An op by which torch_xla keeps its own books.
OWN_OF_XLA = "aten::_propagate_xla_data"
#: How the copy of a view is called.
VIEW_COPY = "_copy"
#: Ops of which the graph is looked at.
MOST_HASHED = 40


class Call(NamedTuple):
    """One op: its name, what decides its graph, its numbers, and who called it."""

    op: str
    view: bool
    shapes: Tuple[Any, ...]
    numbers: Tuple[Any, ...]
    places: Tuple[Place, ...]
    graph: Any  # hash of what leads to its result, where it was asked for


class Update:
    """The calls of one update: ops as they came, and the views of each place."""

    def __init__(self) -> None:
        self.ops: List[Call] = []
        self.views: Dict[Tuple[str, Tuple[Place, ...]], List[Call]] = {}

    def add(self, call: Call) -> None:
        """A further call; of a view each kind of call counts once."""
        if not call.view:
            self.ops.append(call)
            return
        name = call.op[: -len(VIEW_COPY)] if call.op.endswith(VIEW_COPY) else call.op
        call = call._replace(op=name)
        known = self.views.setdefault((name, call.places), [])
        if call not in known:
            known.append(call)


class Repeats(ExtraSteps):
    """Notes every op of some whole updates.

    Attributes:
        updates: the ops of each whole update so far.
    """

    name, what = "repeats", "for what makes them compile again"

    def __init__(
        self, records: Records, barrier: Barrier, sampling: Sampling, marks: Marks, wanted: bool
    ) -> None:
        super().__init__(records)
        self.barrier, self.sampling = barrier, sampling
        self.marks, self.wanted = marks, wanted
        self.mode: Any = None
        self.updates: List[Update] = []
        self.update = Update()  # that goes on
        self.hashed: Set[int] = set()  # places in an update of the ops whose graph is looked at
        self.stepped = 0
        self.entered = False
        self.lock = threading.Lock()

    def due(self, label: Optional[str], automatic: bool) -> bool:
        """Whether these steps are to be taken: steps have compiled again and again."""
        if not self.wanted or self.records.rank is not None or "torch" not in sys.modules:
            return False
        lazy = runtime_of(self.barrier.device).cut is not None
        return lazy and self.sampling.recompiled >= LEAST_RECOMPILED and not compiles()

    def enough(self) -> bool:
        """Whether no more of them are needed."""
        late = self.spent_s() > REPEATS_S
        wanted = COMPARED + (HASHED if self.hashed else 0)
        return not self.on or late or self.begun > MOST_REPEATS or len(self.updates) >= wanted

    def enter(self, frame: Any) -> None:
        """The loop's body is entered: what it does ahead of the region belongs to it."""
        self.turn()
        self.entered = True

    def begin(self, frame: Any) -> None:
        """A region begins."""
        if not self.entered:
            self.turn()
        self.entered = False

    def turn(self) -> None:
        """An iteration begins: the one before is over."""
        self.leave()
        if self.begun and (len(self.marks.stepped) > self.stepped or not self.marks.stepped):
            self.updates.append(self.update)
            self.update = Update()
            self.judge()
        self.begun, self.stepped = self.begun + 1, len(self.marks.stepped)
        if not self.enough():
            self.mode = enter_dispatch(self.seen)

    def stop(self) -> None:
        """Take no more of them."""
        super().stop()
        self.leave()

    def leave(self) -> None:
        if self.mode is not None:
            mode, self.mode = self.mode, None
            leave_dispatch(mode)

    def seen(self, func: Any, args: Any, named: Any, out: Any, frame: Any) -> None:
        """An op was called."""
        op, kind = op_name(func), self.barrier.device
        given = [*flat(args), *flat(sorted(named.items())), *flat(out)]
        if op == OWN_OF_XLA or not any(type_of_device(each) == kind for each in given):
            return
        shapes = tuple(described_tensor(each) for each in given if hasattr(each, "shape"))
        numbers = tuple(each for each in given if type(each) in (int, float, bool))
        with self.lock:  # autograd has threads of its own
            graph = graph_of(out) if len(self.update.ops) in self.hashed else None
            places = tuple(places_of(frame)[:DEEPEST])
            self.update.add(Call(op, is_view(func, op), shapes, numbers, places, graph))

    def judge(self) -> None:
        """What the updates so far tell."""
        before, after = self.updates[-2:] if len(self.updates) > 1 else (Update(), Update())
        found = next(different(before, after), None)
        if found is not None:
            self.write(*found)
        elif len(self.updates) == COMPARED:
            self.hashed = set(other_numbers(before, after)[:MOST_HASHED])
        elif len(self.updates) == COMPARED + HASHED:
            pairs = ((before.ops[at], after.ops[at]) for at in sorted(self.hashed))
            found = next((pair for pair in pairs if pair[0].graph != pair[1].graph), None)
            if found is not None:
                self.write(*found)

    def write(self, before: Call, after: Call) -> None:
        """The cause, with the place of the later call."""
        what = "%s: %s" % (after.op, difference(before, after))
        facts: Dict[str, Any] = {"places": after.places, "count": self.sampling.recompiled}
        self.records.write("cause", kind=NEW_GRAPH, what=what, ms=0.0, **facts)
        self.on = False


def is_view(func: Any, op: str) -> bool:
    """Whether the result is a view of an argument, or the copy that torch_xla makes of one."""
    returned = [each.alias_info for each in func._schema.returns]
    copied = op.endswith(VIEW_COPY) and op != "aten::_to_copy"
    return copied or any(each is not None and not each.is_write for each in returned)


def flat(value: Any) -> Iterator[Any]:
    """What is in lists and tuples, one by one."""
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from flat(each)
    else:
        yield value


def type_of_device(value: Any) -> Optional[str]:
    return getattr(getattr(value, "device", None), "type", None)


def described_tensor(tensor: Any) -> Tuple[str, Tuple[int, ...]]:
    """Its data type and its shape."""
    return str(tensor.dtype).rpartition(".")[2], tuple(map(int, tensor.shape))


def graph_of(out: Any) -> Any:
    """torch_xla's hash of the pending graph that makes a result; None where it tells none."""
    lowest: Any = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
    tensors = [each for each in flat(out) if type_of_device(each) == "xla"]
    try:
        return lowest._get_graph_hash(tensors)
    except Exception:  # another version, or a result without a graph
        return None


def different(before: Update, after: Update) -> Iterator[Tuple[Call, Call]]:
    """Calls at the same place of which one makes another graph for sure."""
    for one, other in zip(before.ops, after.ops):  # noqa: B905 - 3.8
        if (one.op, one.shapes) != (other.op, other.shapes):
            yield one, other
    for key, calls in after.views.items():
        known = before.views.get(key, [])
        if len(known) == len(calls):
            yield from (pair for pair in zip(known, calls) if pair[0] != pair[1])  # noqa: B905 - 3.8
    fewer, more = sorted((before.ops, after.ops), key=len)
    if fewer and len(fewer) < len(more):
        yield fewer[-1], more[len(fewer)]


def other_numbers(before: Update, after: Update) -> List[int]:
    """Places of the ops that were given other numbers."""
    pairs = enumerate(zip(before.ops, after.ops))  # noqa: B905 - 3.8
    return [at for at, (one, other) in pairs if one.numbers != other.numbers]


def difference(before: Call, after: Call) -> str:
    """What has changed, in words."""
    if before.op != after.op:
        return "where the step before called %s" % before.op
    for (kind, shape), (kind_after, shape_after) in zip(before.shapes, after.shapes):  # noqa: B905 - 3.8
        if kind != kind_after:
            return "%s, then %s" % (kind, kind_after)
        if shape != shape_after:
            return "shape %s, then %s" % (
                "x".join(map(str, shape)),
                "x".join(map(str, shape_after)),
            )
    for number, number_after in zip(before.numbers, after.numbers):  # noqa: B905 - 3.8
        if number != number_after:
            return "%s, then %s" % (number, number_after)
    return "called with more, or less, than before"
