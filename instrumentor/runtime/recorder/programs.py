"""Device time of each program, in extra steps behind the samples, as ttnn streams it.

Builds of tt-metal without Tracy have it too, and it goes on while a trace is replayed. ttnn calls
back from a thread of its own, which takes turns with the script's: no sample is timed meanwhile.
Records come some time after their program has ended, so each step waits until no more come.

What is called here: `ttnn.device.IsProgramRealtimeProfilerActive`,
`RegisterProgramRealtimeProfilerCallback` and `Unregister...`. Callbacks get a batch (`records`,
`dropped`), in older versions one record; a record holds `chip_id`, `start_timestamp`,
`end_timestamp` in ticks of its chip, `frequency` in ticks a nanosecond, and `kernel_sources`.

ttnn 0.81.1 without an open device answers each of these by opening all devices, or crashes. So they
are called between two regions of the script alone: at the end of a process it may have closed its
device, and what goes on listening then hears nothing.
"""

import sys
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

from instrumentor.runtime.recorder.barrier import Barrier
from instrumentor.runtime.recorder.extra_steps import ExtraSteps
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.runtimes import ttnn_opened

#: Steps whose programs are recorded.
PROGRAM_STEPS = 5
#: A step's records are complete when none has come for so many seconds,
QUIET_S = 0.2
#: and are no longer waited for after that many.
PATIENCE_S = 3.0
#: Kernels that are named, those of most time first.
MOST_KERNELS = 30

#: Chip, start and end in its ticks, ticks a nanosecond, kernel sources.
Program = Tuple[int, int, int, float, Tuple[str, ...]]


class Programs(ExtraSteps):
    """Has ttnn tell what its devices run, for a few steps.

    Args:
        wanted: whether a profiler of the run's own does not have these times already.
    """

    name, what = "programs", "for the device time of each program"

    def __init__(self, records: Records, barrier: Barrier, wanted: bool) -> None:
        super().__init__(records)
        self.barrier, self.wanted = barrier, wanted
        self.lock = threading.Lock()
        self.came: List[Program] = []
        self.dropped = 0
        self.last_s = 0.0  # when the last records came
        self.handle: Any = None
        self.begun_s = self.ms = 0.0
        self.inside: List[Program] = []  # of the region that was left last

    def due(self, label: Optional[str], automatic: bool) -> bool:
        """Whether these steps are to be taken, now that there are enough samples."""
        device = of_ttnn()
        # Without an open device to ask would open all that there are.
        if not self.wanted or self.records.rank is not None or device is None or not ttnn_opened():
            return False
        try:
            active = bool(device.IsProgramRealtimeProfilerActive())
        except Exception as error:
            return self.failed("cannot be asked whether it is active: %r" % (error,))
        return active or self.failed(
            "is not active: it needs fast dispatch, with a core of its own, on a local device"
        )

    def failed(self, why: str) -> bool:
        """Say that there are no such times; False."""
        self.records.warn("ttnn's real-time profiler %s." % why, "no-programs")
        return False

    def start(self) -> None:
        """Take extra steps from the next region on."""
        super().start()
        try:
            self.handle = of_ttnn().RegisterProgramRealtimeProfilerCallback(self.hear)
        except Exception as error:
            self.on = self.failed("could not be listened to: %r" % (error,))

    def enough(self) -> bool:
        """Whether no more of them are needed: the last one ends where another one begins."""
        return not self.on or self.begun > PROGRAM_STEPS

    def begin(self, frame: Any) -> None:
        """A region begins: the iteration before it is over."""
        self.barrier.drain()
        rest = self.collect()
        if self.begun:
            self.write(rest)
        self.begun += 1
        self.inside, self.ms = [], 0.0
        if self.enough():
            self.unregister()
        self.begun_s = time.perf_counter()

    def end(self, values: Any) -> None:
        """The region ends."""
        self.barrier.wait(tuple(values), False)
        self.ms = (time.perf_counter() - self.begun_s) * 1000.0
        self.inside = self.collect()

    def stop(self) -> None:
        """Listen no longer; what is called at the end of the process, too, asks ttnn nothing."""
        self.on = False

    def unregister(self) -> None:
        """End the callbacks, once the one that may be running has returned."""
        try:
            of_ttnn().UnregisterProgramRealtimeProfilerCallback(self.handle)
        except Exception as error:
            self.failed("goes on listening: %r" % (error,))

    # -- what ttnn tells --------------------------------------------------------------------------

    def hear(self, told: Any) -> None:
        """A batch of records, or one; they are valid until this returns."""
        if not self.on:
            return
        records = getattr(told, "records", None)
        found = [known(each) for each in ([told] if records is None else records)]
        with self.lock:
            self.came += found
            self.dropped += int(getattr(told, "dropped", 0))
            self.last_s = time.perf_counter()

    def collect(self) -> List[Program]:
        """What was told since this was asked last, once no more comes."""
        asked_s = time.perf_counter()
        while time.perf_counter() - max(asked_s, self.last_s) < QUIET_S:
            if time.perf_counter() - asked_s > PATIENCE_S:
                break
            time.sleep(QUIET_S / 10)
        with self.lock:
            found, self.came = self.came, []
        return found

    def write(self, rest: List[Program]) -> None:
        """The iteration that is over.

        Args:
            rest: programs that ran behind its region.
        """
        with self.lock:
            dropped, self.dropped = self.dropped, 0
        self.records.write(
            "programs",
            ms=self.ms,
            chips=by_chip(self.inside),
            rest=by_chip(rest),
            kernels=by_kernel(self.inside),
            dropped=dropped,
        )


def of_ttnn() -> Any:
    """ttnn's module of devices where it can tell of programs, else None."""
    device = getattr(sys.modules.get("ttnn"), "device", None)
    return device if hasattr(device, "RegisterProgramRealtimeProfilerCallback") else None


def known(record: Any) -> Program:
    """What is kept of a record."""
    return (
        int(record.chip_id),
        int(record.start_timestamp),
        int(record.end_timestamp),
        float(record.frequency),
        tuple(str(each) for each in record.kernel_sources),
    )


def by_chip(programs: List[Program]) -> Dict[str, Dict[str, float]]:
    """Of each chip: number of programs, the milliseconds of all, and those with at least one.

    A program without a length or a frequency is ``untimed``.
    """
    found: Dict[str, List[Tuple[float, float]]] = {}
    untimed: Dict[str, int] = {}
    for program in programs:
        chip, span = str(program[0]), span_of(program)
        spans = found.setdefault(chip, [])
        if span is not None:
            spans.append(span)
        else:
            untimed[chip] = untimed.get(chip, 0) + 1
    return {
        chip: {
            "programs": len(spans),
            "ms": sum(end - start for start, end in spans),
            "busy_ms": union_of(spans),
            "untimed": untimed.get(chip, 0),
        }
        for chip, spans in found.items()
    }


def span_of(program: Program) -> Optional[Tuple[float, float]]:
    """Start and end in milliseconds of its chip; None without a length or a frequency."""
    _, start, end, frequency, _ = program
    if end < start or frequency <= 0:
        return None
    return start / frequency / 1e6, end / frequency / 1e6


def union_of(spans: List[Tuple[float, float]]) -> float:
    """How long at least one of these spans lasts."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def by_kernel(programs: List[Program]) -> List[List[Any]]:
    """Programs by what they compute: name, how many, milliseconds; those of most time first."""
    found: Dict[str, List[Any]] = {}
    for program in programs:
        span = span_of(program)
        if span is not None:
            row = found.setdefault(kernel_name(program[4]), [0, 0.0])
            row[0] += 1
            row[1] += span[1] - span[0]
    rows: List[List[Any]] = [[name, *row] for name, row in found.items()]
    rows.sort(key=lambda row: -row[2])
    return rows[:MOST_KERNELS]


def kernel_name(sources: Tuple[str, ...]) -> str:
    """The file of the compute kernel, else of the first one, without folders and its end."""
    computing = [each for each in sources if "/compute" in each]
    path = (computing or list(sources) or ["unnamed"])[0]
    return path.replace("\\", "/").rpartition("/")[2].rpartition(".")[0] or path
