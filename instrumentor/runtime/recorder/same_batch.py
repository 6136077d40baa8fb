"""What an iteration takes whose next batch is there already: the last one again, asked of nobody.

An iteration less its wait for data is no such thing: a host that has slept is slow for a while
(its caches are cold, its clock is low), so the same step takes longer behind a wait. So extra
iterations behind the samples get the batch of the one before. Where the loop comes back to its own
line, it is sent back to the first line of its body, with the loop's variables as the loader had
left them; nothing is wrapped, and no sample is touched. They are timed as samples and their
iterations are.

They come in groups, each behind a batch that the loader made: their number may decide what an
iteration does (`if step % 10 == 0`), and the groups tell how much the machine wavers.
"""

import copy
import sys
import time
import warnings
from typing import Any, Dict, List, Mapping, Optional, Tuple

from instrumentor.runtime.recorder.barrier import Barrier
from instrumentor.runtime.recorder.extra_steps import ExtraSteps
from instrumentor.runtime.recorder.iterations import Iterations
from instrumentor.runtime.recorder.loop_line import LoopLine
from instrumentor.runtime.recorder.phases import FORWARD, Phases

#: Groups, and iterations in each: the first ones still feel the wait ahead of the group.
GROUPS, GROUP, GROUP_LEAD = 5, 10, 2
#: No more of them once these seconds are spent.
SAME_S = 10.0
#: Iterations that come to no group's end, as where the loop fetches its batch in its body.
ASTRAY = 20
#: Waits for data that take less of an iteration are nothing to predict from.
LEAST_WAIT = 0.02
#: What may lie between the loop's next item and its body: the item goes to the loop's variables.
UNPACKING = ("UNPACK_SEQUENCE", "UNPACK_EX", "NOP", "CACHE", "EXTENDED_ARG")
#: What tells a variable without a value from one that holds None.
TELL_UNBOUND = {"locals", "vars", "dir", "NameError", "UnboundLocalError"}


class SameBatch(ExtraSteps):
    """Sends the loop back into its body without asking for the next batch."""

    name, what = "same_batch", "with the same batch again"

    def __init__(self, barrier: Barrier, iterations: Iterations, phases: Phases) -> None:
        super().__init__(iterations.records)
        self.barrier, self.iterations, self.phases = barrier, iterations, phases
        self.loop = LoopLine(self.at_loop)
        self.code: Any = None  # of the loop that the next two are of
        self.names: Optional[List[str]] = None  # the loop's variables
        self.loop_line = 0
        self.given: Dict[str, Any] = {}
        self.asked = False  # whether the loop was told already to do without the next batch
        self.finishes = False  # the script asks whether it is finished, behind its step
        self.group = self.place = self.astray = 0
        self.begun_s = 0.0

    def due(self, label: Optional[str], automatic: bool) -> bool:
        """Whether such iterations are to be taken: the phases have told of a wait for data.

        Not of iterations of several kinds: of which the same batch again is one is not known.
        """
        kinds = {stepped for _, stepped in self.iterations.taken.values()}
        alone = self.records.rank is None and self.phases.edge == FORWARD
        return alone and self.phases.waited >= LEAST_WAIT and len(kinds) == 1

    def enough(self) -> bool:
        """Whether no more of them are needed."""
        late = self.spent_s() > SAME_S
        last = self.group + 1 >= GROUPS and self.place + 1 >= GROUP
        return not self.on or last or late or self.astray >= ASTRAY

    def stop(self) -> None:
        """Take no more of them."""
        super().stop()
        self.loop.off()
        self.given = {}

    # -- the recorder's calls ---------------------------------------------------------------------

    def enter(self, frame: Any) -> None:
        """The loop's body is entered."""
        self.loop.off()
        self.loop.body(frame)
        if not self.asked:
            self.note(frame)

    def begin(self, frame: Any) -> None:
        """A region begins."""
        if self.loop.frame is None:  # nothing of the body lies before it
            self.enter(frame)
        self.astray += not self.asked
        self.asked = False
        self.begun_s = time.perf_counter()

    def end(self, values: Any) -> None:
        """The region ends."""
        stopped_s = time.perf_counter()
        if self.barrier.wait(tuple(values), False).method:
            stopped_s = time.perf_counter()
        if not self.finishes:
            self.loop.wait()
        self.iterations.end(
            name="%s_%d_%d" % (self.name, self.group, self.place),
            index=self.place,
            ms=(stopped_s - self.begun_s) * 1000.0,
            event="",  # until the loop has done without a batch
        )

    def finishing(self) -> None:
        """The script asks whether it is finished: what it does next is the loop's end."""
        self.finishes = True
        if self.on:
            self.loop.wait()

    # -- the loop ---------------------------------------------------------------------------------

    def note(self, frame: Any) -> None:
        """Keep what the loader has just given."""
        if frame.f_code is not self.code:
            self.code = frame.f_code
            self.names, self.loop_line = variables(frame.f_code, frame.f_lineno)
        if self.names is None:
            self.on = False
            return
        local = frame.f_locals
        self.given = {name: local[name] for name in self.names if name in local}
        self.given = {name: as_new(value) for name, value in self.given.items()}

    def at_loop(self, frame: Any) -> None:
        """The loop has come to its own line: it goes on with the batch that it has had."""
        asked_s = time.perf_counter()
        sample = self.iterations.sample
        if frame.f_lineno != self.loop_line or sample is None or not self.on:
            return
        if self.place + 1 >= GROUP:
            self.group, self.place, self.astray = self.group + 1, 0, 0
        elif self.send_back(frame):
            self.place += 1
            sample["event"] = self.name if self.place > GROUP_LEAD else ""
            self.asked = True
        self.iterations.own_s += time.perf_counter() - asked_s

    def send_back(self, frame: Any) -> bool:
        """Whether the loop goes on at the first line of its body."""
        if tells_unbound(frame.f_code, frame.f_locals):
            self.on = False
            return False
        try:
            with warnings.catch_warnings():  # CPython 3.12 warns of the variables it sets to None
                warnings.simplefilter("ignore", RuntimeWarning)
                frame.f_lineno = self.loop.line
        except ValueError:  # this version of Python cannot go there
            self.on = False
            return False
        local = frame.f_locals
        for name, value in self.given.items():
            local[name] = as_new(value)
        return True


def as_new(value: Any) -> Any:
    """A container as it is: the script may put other things into the one that it was given."""
    return copy.copy(value) if isinstance(value, (list, Mapping)) else value


def tells_unbound(code: Any, local: Mapping[str, Any]) -> bool:
    """Whether a function would notice that its variables without a value hold None.

    From CPython 3.12 on, a frame that is sent to another line has them all set to None; only
    there, an instruction that may find none is one of its own.
    """
    from dis import get_instructions

    unbound = {name for name in code.co_varnames if name not in local}
    if sys.version_info < (3, 12) or not unbound:
        return False
    return any(
        each.argval in (unbound if each.opname == "LOAD_FAST_CHECK" else TELL_UNBOUND)
        for each in get_instructions(code)
        if each.opname in ("LOAD_FAST_CHECK", "LOAD_GLOBAL")
    )


def variables(code: Any, line: int) -> Tuple[Optional[List[str]], int]:
    """The variables of the `for` loop whose body begins at a line, and the line of the loop.

    None where no such loop begins there, or its variables are no plain ones of a function or of a
    module.
    """
    from dis import get_instructions

    names: Optional[List[str]] = None
    loop_line = at = 0
    for each in get_instructions(code):
        at = getattr(each, "line_number", None) or int(each.starts_line or 0) or at
        if each.opname == "FOR_ITER":
            names, loop_line = [], at
        elif names is None or each.opname in UNPACKING:
            continue
        elif each.opname.startswith(("STORE_FAST", "STORE_NAME", "STORE_DEREF")) and at < line:
            names += each.argval if isinstance(each.argval, tuple) else [each.argval]
        elif loop_line < at == line:
            return names, loop_line
        else:
            names = None
    return None, 0
