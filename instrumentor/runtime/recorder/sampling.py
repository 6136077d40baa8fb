"""What each sample is, and how many are to be taken until enough of them are steady.

A step that compiled is not a steady one. Compilers often count what they compile
(:class:`.facts.Compilations`). Where nothing is counted, as on a device that compiles at the first
use of a shape, the times tell, once all of them are there.
"""

from typing import Dict, List, Optional, Tuple

from instrumentor.runtime.recorder.facts import counted
from instrumentor.runtime.recorder.records import Records

#: A step without counters compiled when it took so many times as long as the middle one,
TIMES = 5.0  # steps that torch_xla compiled again took 28 to 114 times as long
#: and so many milliseconds longer,
LONGER_MS = 500.0
#: and the rest agree: the slowest of them took at most so many times as long as the fastest.
AGREE = 2.0


class Sampling:
    """Counts samples per label; one that compiled in the place of a steady one is made up for."""

    def __init__(self, steps: int, warmup: int, records: Records) -> None:
        self.steps = steps
        self.warmup = warmup
        self.records = records
        self.counts: Dict[str, int] = {}  # label -> number of samples
        self.steady: Dict[str, List[Tuple[str, float]]] = {}  # label -> (name, milliseconds)
        self.owed = 0

    @property
    def wanted(self) -> int:
        """Samples in all: at most twice as many as were asked for."""
        return self.steps + min(self.owed, self.steps)

    def add(self, label: str, name: str, milliseconds: float, compiled: bool) -> str:
        """Count a sample; returns its kind: compile, warmup or steady."""
        count = self.counts.get(label, 0)
        self.counts[label] = count + 1
        if count == 0:
            return "compile"
        if compiled:
            self.owe(int(count >= self.warmup))
            return "compile"
        if count < self.warmup:
            return "warmup"
        self.steady.setdefault(label, []).append((name, milliseconds))
        return "steady"

    def spend_one(self) -> None:
        """Let the next sample count as warm-up, and take one more."""
        self.warmup += 1
        self.steps += 1

    def enough(self, taken: int, device: Optional[str]) -> bool:
        """Whether no more samples are needed; a device of unknown compiler is looked at again."""
        if taken < self.wanted:
            return False
        for label, samples in self.steady.items():
            found = far_above(samples, device)
            self.steady[label] = [each for each in samples if each[0] not in found]
            for name in found:
                self.records.write("compiled", name=name, why="far above the others")
            self.owe(len(found))
        return taken >= self.wanted

    def owe(self, samples: int) -> None:
        """Make up for so many, unless there have been too many already."""
        if self.owed <= self.steps < self.owed + samples:
            text = "more than %d later steps compiled: no more than %d samples are taken"
            self.records.warn(text % (self.steps, 2 * self.steps))
        self.owed += samples


def far_above(samples: List[Tuple[str, float]], device: Optional[str]) -> List[str]:
    """Names of steady samples that must have compiled, by their milliseconds alone.

    None on the CPU and where torch_xla counts: there it was a pause.
    """
    if device in (None, "cpu", "unknown") or "torch_xla" in counted() or len(samples) < 3:
        return []
    times = sorted(ms for _, ms in samples)
    middle = times[(len(times) - 1) // 2]
    limit = max(TIMES * middle, middle + LONGER_MS)
    rest = [ms for ms in times if ms <= limit]
    if len(rest) < 2 or rest[-1] > AGREE * rest[0]:
        return []
    return [name for name, ms in samples if ms > limit]
