"""How long the script's optimizers step and its data loaders make it wait, by torch's own marks.

torch sets a profiler's mark around every optimizer's step and around each batch that a DataLoader
hands out. They are seen for the whole run, by no hook of an optimizer or a module: torch.compile
guards on those, and never looks into a mark. A closure that a step is given is the script's own
forward and backward: while it runs, the optimizer does not.
"""

import functools
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from instrumentor.runtime.recorder.watch import STEP, Place, caller, optimizer_in, places_of

LOADER = "enumerate(DataLoader)#"
DATA, OPTIMIZER, CLEARING, CLOSURE = "data", "optimizer", "clearing", "closure"
#: Of a step: a closure was given, and nothing tells when it runs (torch before 2.0).
UNTOLD = "step with a closure"
NOT_TOLD = (
    "This torch does not tell when an optimizer calls the closure of its step: it has no own time"
)
CLEAR = "Optimizer.zero_grad#"
HOOKS = "_optimizer_step_pre_hooks"  # of an optimizer, by their keys


def kind_of(name: str) -> Optional[str]:
    """What a mark of that name is around; None where that is of no interest."""
    starts = ((STEP, OPTIMIZER), (LOADER, DATA), (CLEAR, CLEARING))
    return next((kind for start, kind in starts if name.startswith(start)), None)


class Marks:
    """Adds up the time within marks on the thread that trains, outermost ones only.

    Attributes:
        spent_s: seconds so far, by kind.
        ended_s: when the last of them was left.
        stepped: numbers of the optimizers that have stepped, as they came.
        dropped: where an optimizer let its gradients go, the user's places; None unless it did.
        tell: is told the kind of each outermost mark, and whether it opens; within a step also
            CLOSURE, in which marks are outermost ones again.
        after_batch: is told the frame of a loader's iterator that hands out a batch.
        untold: is told in words that a step's own time is not known.
    """

    def __init__(self, untold: Callable[[str], None] = print) -> None:
        self.untold = untold
        self.kinds: List[str] = []  # of the open marks
        self.spent_s: Dict[str, float] = {DATA: 0.0, OPTIMIZER: 0.0}
        self.ended_s = 0.0
        self.stepped: List[int] = []
        self.seen: List[Any] = []  # optimizers
        self.open: List[Any] = []  # marks, the outermost first
        self.since_s = 0.0
        self.thread = 0
        self.holding: Any = None  # a parameter that had a gradient when an optimizer's were cleared
        self.dropped: Optional[List[Place]] = None
        self.tell: Optional[Callable[[str, bool], None]] = None
        self.after_step: Optional[Callable[[Any], None]] = None
        self.after_batch: Optional[Callable[[Any], None]] = None
        self.undo: Dict[str, Tuple[Any, Any]] = {}  # name -> torch's function, ours

    def on(self) -> None:
        """Begin to look at marks, where that has not begun."""
        if self.thread:
            return
        record_function = getattr(torch_profiler(), "record_function", None)
        if record_function is None:
            return
        self.thread = threading.get_ident()
        never_compiled = getattr(sys.modules.get("torch._dynamo"), "disable", None)
        for name, around in (("__enter__", self.enter), ("__exit__", self.leave)):
            real = getattr(record_function, name)
            ours = never_compiled(around(real)) if never_compiled else around(real)
            setattr(record_function, name, ours)
            self.undo[name] = real, ours

    def off(self) -> None:
        """Put torch's own functions back, but where someone is told of each step."""
        if self.after_step is not None:
            return
        record_function = getattr(torch_profiler(), "record_function", None)
        while self.undo:
            name, (real, ours) = self.undo.popitem()
            # Someone else may have wrapped our function meanwhile: that stays in place.
            if getattr(record_function, name, None) is ours:
                setattr(record_function, name, real)

    def enter(self, real: Any) -> Any:
        """Around the begin of a mark."""

        def instrument_enter(this: Any) -> Any:
            kind = kind_of(str(this.name))
            if kind is not None and threading.get_ident() == self.thread:
                self.open.append(this)
                if kind == OPTIMIZER and len(self.open) == 1:
                    frame = caller()
                    self.note_step(optimizer_in(frame))
                    kind = self.follow_closure(self.seen[self.stepped[-1]], frame)
                self.kinds.append(kind)
                if kind == CLEARING and self.dropped is None:
                    self.holding = first_with_gradient(optimizer_in(caller()))
                if len(self.open) == 1:
                    self.said(kind, True)
                self.since_s = self.since_s if len(self.open) > 1 else time.perf_counter()
            return real(this)

        return instrument_enter

    def leave(self, real: Any) -> Any:
        """Around the end of a mark."""

        def instrument_leave(this: Any, *failure: Any) -> Any:
            result = real(this, *failure)
            if self.open and this is self.open[-1]:
                self.open.pop()
                holding, self.holding = self.holding, None
                if holding is not None and holding.grad is None:
                    self.dropped = places_of(caller())
                kind = self.kinds.pop()
                if kind == DATA and self.after_batch is not None:
                    self.after_batch(caller())
                if not self.open:
                    self.close(kind)
            return result

        return instrument_leave

    def note_step(self, optimizer: Any) -> None:
        """Which one of the optimizers steps."""
        if not any(optimizer is each for each in self.seen):
            self.seen.append(optimizer)
        self.stepped.append(next(n for n, each in enumerate(self.seen) if each is optimizer))

    def said(self, kind: str, opens: bool) -> None:
        """Tell of what opens or closes, where somebody listens."""
        if self.tell is not None and kind != UNTOLD:
            self.tell(kind, opens)

    def close(self, kind: str) -> None:
        """The outermost mark is left."""
        now_s = time.perf_counter()
        if kind in self.spent_s:
            self.ended_s = now_s
            self.spent_s[kind] += now_s - self.since_s
        self.said(kind, False)
        if kind in (OPTIMIZER, UNTOLD):
            hooks = getattr(self.seen[self.stepped[-1]], HOOKS, {})
            hooks.pop(self, None)
            if self.after_step is not None:
                self.after_step(self.seen[self.stepped[-1]])

    # -- closures ---------------------------------------------------------------------------------

    def follow_closure(self, optimizer: Any, frame: Any) -> str:
        """Be told when a step calls the closure that it is given; returns the step's kind.

        torch's hooks ahead of a step may give it other arguments. One is there only while such a
        step runs, and only on an optimizer that is given a closure.

        Args:
            frame: torch's own, around the step.
        """
        args, named = (frame.f_locals.get(name) or () for name in ("args", "kwargs"))
        if not any(map(callable, (*args[1:2], dict(named).get("closure")))):
            return OPTIMIZER
        hooks = getattr(optimizer, HOOKS, None)
        if hooks is None:
            self.untold(NOT_TOLD)
            return UNTOLD
        hooks[self] = self.with_closure
        return OPTIMIZER

    def with_closure(self, optimizer: Any, args: Any, named: Any) -> Any:
        """The arguments of a step, with a closure that is told."""
        if callable(named.get("closure")):
            return args, {**named, "closure": self.around(named["closure"])}
        given = args[1:2]  # an older hook of the script's may have taken it away
        return (args[0], *map(self.around, filter(callable, given)), *args[2:]), named

    def around(self, closure: Any) -> Any:
        """The same closure; while it runs no mark is open."""

        @functools.wraps(closure)
        def instrument_closure(*args: Any, **named: Any) -> Any:
            if not self.open or threading.get_ident() != self.thread:
                return closure(*args, **named)
            outer = self.open, self.kinds
            now_s = time.perf_counter()
            self.spent_s[OPTIMIZER] += now_s - self.since_s
            self.open, self.kinds = [], []
            self.said(CLOSURE, True)
            try:
                return closure(*args, **named)
            finally:
                self.open, self.kinds = outer
                self.said(CLOSURE, False)
                self.since_s = time.perf_counter()

        return instrument_closure


def first_with_gradient(optimizer: Any) -> Any:
    """The first parameter of an optimizer that has a gradient; None without one."""
    parameters = (each for group in optimizer.param_groups for each in group["params"])
    return next((each for each in parameters if each.grad is not None), None)


def torch_profiler() -> Any:
    """torch.autograd.profiler where the script has torch, else None."""
    return getattr(getattr(sys.modules.get("torch"), "autograd", None), "profiler", None)
