"""What each module's forward takes, and its FLOPs, in extra steps behind the samples.

Every call of a module passes through `torch.nn.Module.__call__`, which is replaced for these steps.
The first of them counts FLOPs, which makes everything slower; the others are timed, on a device
with a barrier at each border. Not where something is compiled: what is fused has no modules.
"""

import sys
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

from instrumentor.runtime.recorder.barrier import Barrier
from instrumentor.runtime.recorder.extra_steps import ExtraSteps
from instrumentor.runtime.recorder.flops import Counting, compiles
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.runtimes import runtime_of
from instrumentor.runtime.recorder.watch import Event, Watch

#: Steps that are timed, behind the one that counts: at most so many, for so many seconds.
TIMED_STEPS, TIMED_S = 9, 5.0
#: Modules that are told apart at most; of a tree with more the rest is in their callers.
MOST_MODULES = 4000


class Module:
    """One place in the tree of calls."""

    def __init__(self, parent: int, name: str, kind: str) -> None:
        self.parent, self.name, self.kind = parent, name, kind
        self.calls, self.seconds, self.flops = 0, 0.0, 0

    def row(self) -> List[Any]:
        """Place of its caller, name, class, calls, milliseconds, FLOPs."""
        spent = self.seconds * 1000.0
        return [self.parent, self.name, self.kind, self.calls, spent, self.flops]


class Modules(ExtraSteps):
    """Follows the calls of modules while a region of an extra step is open."""

    name, what = "modules", "for what each module takes"

    def __init__(self, records: Records, barrier: Barrier, wanted: Optional[int]) -> None:
        super().__init__(records)
        self.barrier, self.wanted = barrier, wanted
        self.watch = Watch(self.seen)
        self.backwards = 0  # that are running
        self.counting: Optional[Counting] = None
        self.names: Dict[int, str] = {}  # of modules, by id
        self.thread = 0
        self.forget()

    def forget(self) -> None:
        """Nothing was called yet."""
        self.found: List[Module] = []
        self.places: Dict[Tuple[int, str], int] = {}  # caller and name -> place
        self.open: List[int] = []

    def due(self, label: Optional[str], automatic: bool) -> bool:
        """Whether these steps are to be taken, now that there are enough samples."""
        if self.wanted == 0 or self.records.rank is not None or "torch" not in sys.modules:
            return False
        if runtime_of(self.barrier.device).cut is not None or self.barrier.problem:
            return False
        return bool(automatic or self.wanted) and not compiles()

    def enough(self) -> bool:
        """Whether no more of them are needed."""
        timed = self.begun - 1
        late = timed > 0 and self.spent_s() > TIMED_S
        return not self.on or timed >= TIMED_STEPS or late

    def begin(self, frame: Any) -> None:
        """A region begins."""
        self.forget()
        self.backwards = 0
        self.counting = Counting() if self.begun == 0 else None
        self.thread = threading.get_ident()
        self.watch.on_backwards()
        self.watch.replace(sys.modules["torch"].nn.Module, "__call__", self.called)
        if self.counting is not None:
            self.counting.start()

    def end(self, values: Any) -> None:
        """The region ends: what its modules took."""
        counted, self.counting = self.counting, None
        if counted is not None:
            counted.stop()
        self.watch.off()
        self.begun += 1
        rows = [each.row() for each in self.found]
        uncounted = sorted(counted.uncounted) if counted is not None else []
        counts = counted is not None and counted.total > 0
        kind = "flops" if counted is not None else "time"
        if rows and (counts or counted is None):
            self.records.write("modules", what=kind, rows=rows, uncounted=uncounted)

    def stop(self) -> None:
        """Take no more of them."""
        super().stop()
        if self.counting is not None:
            self.counting.stop()
        self.watch.off()

    # -- calls ------------------------------------------------------------------------------------

    def seen(self, event: Event) -> None:
        """A backward begins or ends: what it calls again is its own."""
        self.backwards += -1 if event.kind.endswith(" done") else 1

    def called(self, real: Any) -> Any:
        """Around the call of any module."""

        def instrument_call(this: Any, *args: Any, **kwargs: Any) -> Any:
            if self.backwards or threading.get_ident() != self.thread:
                return real(this, *args, **kwargs)
            at = self.place(this)
            if at is None:
                return real(this, *args, **kwargs)
            before = self.counted()
            self.drain()
            started = time.perf_counter()
            try:
                return real(this, *args, **kwargs)
            finally:
                self.drain()
                module = self.found[at]
                module.seconds += time.perf_counter() - started
                module.flops += self.counted() - before
                self.open.pop()

        return instrument_call

    def place(self, module: Any) -> Optional[int]:
        """The place of a call, from where it is made; None where there are too many."""
        if not self.open:
            self.names = {id(each): name for name, each in module.named_modules()}
        kind = type(module).__name__
        name = self.names.get(id(module), "") or kind
        caller = self.open[-1] if self.open else -1
        key = caller, name
        at = self.places.get(key)
        if at is None:
            if len(self.found) >= MOST_MODULES:
                return None
            at = self.places[key] = len(self.found)
            self.found.append(Module(caller, name, kind))
        self.found[at].calls += 1
        self.open.append(at)
        return at

    def counted(self) -> int:
        """FLOPs so far."""
        return 0 if self.counting is None else self.counting.total

    def drain(self) -> None:
        """Wait for a device, but not while FLOPs are counted: then nobody looks at the clock."""
        if self.counting is None:
            self.barrier.drain()
