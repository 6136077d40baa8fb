"""What each phase of an iteration takes, in extra steps behind the samples.

A barrier costs, and keeps the host from working ahead of its device, so no sample has one inside.
Once there are enough samples some more steps are taken with a barrier at each border of a phase.
The borders are what torch and the recorder see by themselves: its data loaders' and optimizers'
marks, the entry into autograd's engine, the entry of the loop's body, the timed region. That the
loop has come back to its own line, for the next batch, is told by a trace function, which is on
from the end of a region to there alone.
"""

import sys
import time
from typing import Any, Dict, List, Optional

from instrumentor.runtime.recorder.barrier import Barrier
from instrumentor.runtime.recorder.extra_steps import ExtraSteps
from instrumentor.runtime.recorder.facts import counted
from instrumentor.runtime.recorder.host_memory import resident_bytes
from instrumentor.runtime.recorder.loop_line import LoopLine
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.runtimes import runtime_of
from instrumentor.runtime.recorder.step_tensors import loss_among
from instrumentor.runtime.recorder.torch_marks import CLOSURE, DATA, OPTIMIZER, Marks
from instrumentor.runtime.recorder.watch import Event, Watch

PREPARE, FORWARD, BACKWARD, OTHER = "prepare", "forward", "backward", "other"
#: What a sample may cover for its iteration to have these phases.
STEPS = ("fwd+bwd", "fwd+bwd+optimizer", "step", "inference")
#: From one optimizer step to the next, of a script without inserted lines.
WHOLE_STEP = "whole step"

#: Extra iterations where no number was asked for: at most so many,
MOST_EXTRA = 20
#: for so many seconds where there are at least that many, and no longer than that where not.
LEAST_EXTRA, EXTRA_S, MOST_S = 3, 3.0, 10.0
#: Iterations after which it ends in any case, as where each of them compiles.
NO_MORE = 200


class Phases(ExtraSteps):
    """Follows the script from border to border once it is on.

    Args:
        wanted: iterations to take; None: a few where no kind of device has to compile for it.

    Attributes:
        edge: what a region begins with. Of a script without inserted lines that is what follows
            its optimizer's step, and where the forward begins is not seen.
    """

    name, what = "phases", "with a barrier around each phase"

    def __init__(
        self, records: Records, marks: Marks, barrier: Barrier, wanted: Optional[int]
    ) -> None:
        super().__init__(records)
        self.marks, self.barrier, self.wanted = marks, barrier, wanted
        self.watch = Watch(self.seen)
        self.edge = FORWARD
        self.taken = self.whole = self.all = 0  # iterations: without compiling, whole cycles, all
        self.spent: List[List[Any]] = []  # owner, seconds, memory at the end; of the open iteration
        self.owner = OTHER
        self.before: List[str] = []  # owners of what a mark has interrupted
        self.since_s = self.begun_s = 0.0
        self.steps = 0  # of optimizers, at the iteration's begin
        self.compiled: Dict[str, int] = {}
        self.inside = False
        self.behind = -1  # the first part behind the region's last backward
        self.loop = LoopLine(self.at_loop)
        self.data_s = self.all_s = 0.0  # of the iterations, those that compiled left out

    def due(self, label: Optional[str], automatic: bool) -> bool:
        """Whether the samples have these phases, and no device has to compile for a border."""
        self.edge = OTHER if label == WHOLE_STEP else FORWARD
        fit = bool(self.marks.spent_s[DATA]) if label == WHOLE_STEP else label in STEPS
        if self.wanted == 0 or not fit or "torch" not in sys.modules or self.barrier.problem:
            return False
        lazy = runtime_of(self.barrier.device).cut is not None
        return bool(self.wanted) or (automatic and not lazy)

    def start(self) -> None:
        """Take extra steps from the next region on."""
        self.watch.on_backwards()
        self.marks.tell = self.marked
        super().start()

    def stop(self) -> None:
        """Take no more of them."""
        super().stop()
        self.loop.off()
        self.watch.off()
        self.marks.tell = None

    def enough(self) -> bool:
        """Whether no more of them are needed."""
        if self.all >= NO_MORE:
            return True
        if self.wanted:
            # Of several ranks all take equally many, whichever of theirs compiled.
            return (self.whole if self.records.rank is None else self.all) >= self.wanted
        seconds = self.spent_s()
        few = self.whole >= LEAST_EXTRA and seconds >= EXTRA_S
        return self.whole >= MOST_EXTRA or few or (self.whole > 0 and seconds >= MOST_S)

    @property
    def waited(self) -> float:
        """Share of the iterations in which the loop waited for its next batch."""
        return self.data_s / self.all_s if self.all_s else 0.0

    # -- the recorder's calls ---------------------------------------------------------------------

    def begin(self, frame: Any) -> None:
        """A region begins: the iteration before it is over."""
        self.border(self.edge)
        if self.begun_s:
            self.write()
        self.spent, self.before, self.behind = [], [], -1
        self.inside = self.edge == FORWARD
        self.steps, self.compiled = len(self.marks.stepped), counted()
        if self.loop.frame is None:
            self.loop.body(frame)
        self.begun_s = self.since_s = time.perf_counter()

    def end(self, values: Any) -> None:
        """The region ends."""
        self.border(OTHER, values)
        self.behind = -1
        if self.inside:
            self.inside = False
            self.loop.wait()

    def enter(self, frame: Any) -> None:
        """The loop's body is entered."""
        self.loop.off()
        self.loop.body(frame)
        if self.begun_s:
            self.border(PREPARE)

    # -- borders ----------------------------------------------------------------------------------

    def border(self, owner: str, values: Any = ()) -> None:
        """What ran until now belongs to a phase; what follows, to this one.

        Args:
            values: what was made last, as for :meth:`.barrier.Barrier.wait`.
        """
        kind = str(self.barrier.device)
        loss = loss_among(values, kind) if self.barrier.ways else None
        if loss is not None:
            self.barrier.loss = loss.detach()
        runtime = runtime_of(kind)
        if runtime.cut is not None:
            runtime.cut()
        self.barrier.drain()
        seconds = time.perf_counter() - self.since_s
        self.spent.append([self.owner, seconds, resident_bytes(), runtime.held()])
        self.owner = owner
        self.since_s = time.perf_counter()

    def seen(self, event: Event) -> None:
        """A backward begins or ends."""
        if event.nested or not self.begun_s or not event.kind.startswith("backward"):
            return
        if event.kind == "backward done":
            self.border(OTHER)
            self.behind = len(self.spent)
            return
        roots = event.about if isinstance(event.about, (list, tuple)) else (event.about,)
        self.border(BACKWARD, roots)
        # What lies between two backwards of a region made the graph of the second.
        for part in self.spent[self.behind :] if self.inside and self.behind >= 0 else ():
            part[0] = FORWARD if part[0] == OTHER else part[0]

    def marked(self, kind: str, opens: bool) -> None:
        """One of torch's marks opens or closes."""
        if not self.begun_s:
            return
        if opens:
            self.before.append(self.owner)
            self.border({DATA: DATA, CLOSURE: FORWARD}.get(kind, OPTIMIZER))
            self.behind = -1 if kind == CLOSURE else self.behind
            return
        before = self.before.pop() if self.before else OTHER
        self.behind = -1 if kind == CLOSURE else self.behind
        fetched = kind == DATA and not self.inside and before == OTHER  # and no line says more
        made = PREPARE if self.edge == FORWARD else FORWARD
        self.border(made if fetched else before)

    def at_loop(self, frame: Any) -> None:
        """The loop has come to its own line: the next batch is asked for."""
        if self.begun_s and not self.inside:
            self.border(DATA)

    # -- what is known of an iteration ------------------------------------------------------------

    def write(self) -> None:
        """The iteration that is over: its own wall clock, and milliseconds of each phase."""
        compiled = counted() != self.compiled
        stepped = len(self.marks.stepped) - self.steps
        self.all += 1
        self.taken += not compiled
        if stepped or not self.marks.stepped:
            self.whole = self.taken
        parts: Dict[str, float] = {}
        memory: Dict[str, List[Optional[int]]] = {}
        for owner, seconds, *held in self.spent:
            parts[owner] = parts.get(owner, 0.0) + seconds * 1000.0
            known = memory.get(owner, [None, None])
            memory[owner] = [max(filter(None, pair), default=None) for pair in zip(known, held)]  # noqa: B905 - 3.8
        if not compiled:
            self.data_s += parts.get(DATA, 0.0) / 1000.0
            self.all_s += self.since_s - self.begun_s
        self.records.write(
            "phases",
            ms=(self.since_s - self.begun_s) * 1000.0,
            parts=parts,
            resident={owner: held[0] for owner, held in memory.items()},
            allocated={owner: held[1] for owner, held in memory.items()},
            borders=len(self.spent),
            stepped=stepped,
            compiled=compiled,
        )
