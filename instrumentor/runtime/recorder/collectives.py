"""How long each rank's collectives take, in extra steps behind the samples.

Ranks that train together wait for each other inside of collectives, and nothing that one rank
measures by itself tells its own work from that. Collectives end together, so of each one the rank
with the shortest duration came last. torch.profiler has these durations, and runs in steps that
are no samples.
"""

import sys
import warnings
from typing import Any, List, Optional, Tuple

from instrumentor.runtime.recorder.extra_steps import ExtraSteps
from instrumentor.runtime.recorder.judging import other_processes
from instrumentor.runtime.recorder.records import Records

#: Steps under the profiler; the first one is left out, since starting the profiler makes it longer.
PROFILED_STEPS = 5
STEP_MARK = "instrument_step"
#: What torch calls collectives whose time lasts from the call to the end of the exchange. Those of
#: backends that work on a device's queue (nccl) last for as long as the call only.
TIMED_COLLECTIVES = ("gloo:", "mpi:")


class Collectives(ExtraSteps):
    """Takes as many steps in every rank, whatever goes wrong in one of them."""

    name, what = "collectives", "under torch.profiler, for what the ranks wait"

    def __init__(self, records: Records) -> None:
        super().__init__(records)
        self.profile: Any = None

    def due(self, label: Optional[str], automatic: bool) -> bool:
        """Whether these steps are to be taken: where several ranks train together."""
        if self.records.rank is None:
            return False
        return other_processes(sys.modules.get("torch")) > 1

    def enough(self) -> bool:
        """Whether no more of them are needed: the last one ends where another one begins."""
        return self.begun > PROFILED_STEPS

    def begin(self, frame: Any) -> None:
        """A step begins: the one before is over."""
        self.begun += 1
        if self.begun == 1:
            self.guarded(self.open)
        self.guarded(self.mark)
        if self.enough():
            self.finish()

    def stop(self) -> None:
        """Take no more of them."""
        super().stop()
        self.finish()

    def finish(self) -> None:
        """Record the steps that are whole."""
        profile, self.profile = self.profile, None
        if profile is not None:
            self.guarded(lambda: self.close(profile))

    def open(self) -> None:
        """Start the profiler, of the CPU alone."""
        profile = sys.modules["torch"].autograd.profiler.profile(use_kineto=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            profile.__enter__()
        self.profile = profile

    def mark(self) -> None:
        """Let the profile say where a step begins."""
        with sys.modules["torch"].autograd.profiler.record_function(STEP_MARK):
            pass

    def close(self, profile: Any) -> None:
        """Stop the profiler, and record each step but the first."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            profile.__exit__(None, None, None)
        backend = str(sys.modules["torch"].distributed.get_backend())
        spans = [(each.name(), *event_times_ms(each)) for each in profile.kineto_results.events()]
        for number, (ms, calls) in enumerate(collectives_by_step(spans)):
            self.records.write("collectives", step=number, ms=ms, calls=calls, backend=backend)

    def guarded(self, action: Any) -> None:
        """Do something that must not cost the user's run."""
        try:
            action()
        except Exception as error:
            self.records.warn("what the ranks wait for is not known: %r" % (error,))


def event_times_ms(event: Any) -> Tuple[float, float]:
    """Start and duration of an event of the profiler, in milliseconds."""
    if hasattr(event, "start_ns"):
        return event.start_ns() / 1e6, event.duration_ns() / 1e6
    return event.start_us() / 1e3, event.duration_us() / 1e3


def collectives_by_step(
    spans: List[Tuple[str, float, float]],
) -> List[Tuple[float, List[List[Any]]]]:
    """Length of each whole step but the first, and its collectives: name, start in it, duration."""
    begins = sorted(start for name, start, _ in spans if name == STEP_MARK)
    timed = sorted(
        (each for each in spans if each[0].startswith(TIMED_COLLECTIVES)), key=lambda e: e[1]
    )
    found = []
    for begin, end in zip(begins[1:], begins[2:]):  # noqa: B905, RUF007 - 3.8
        inside = [[name, at - begin, ms] for name, at, ms in timed if begin <= at < end]
        found.append((end - begin, inside))
    return found
