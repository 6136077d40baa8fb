"""What each sample is, and how many are to be taken until enough of them are steady.

Where no number is asked for, samples are taken until the steps get no faster (the warm-up), and
then until their median is known, or others are seen to keep the machine too busy for one.

A step that compiled is not a steady one. Compilers often count what they compile
(:class:`.facts.Compilations`). Where nothing is counted, as on a device that compiles at the first
use of a shape, the times tell, once all of them are there.
"""

from typing import Any, Dict, List, Mapping, Optional, Tuple

from instrumentor.runtime.recorder.facts import counted
from instrumentor.runtime.recorder.other_processes import OTHERS_SHARE, Others
from instrumentor.runtime.recorder.records import Records
from instrumentor_analysis.clock.order_statistics import median_bounds

#: A step without counters compiled when it took so many times as long as the middle one,
TIMES = 5.0  # steps that torch_xla compiled again took 28 to 114 times as long
#: and so many milliseconds longer,
LONGER_MS = 500.0
#: and the rest agree: the slowest of them took at most so many times as long as the fastest.
AGREE = 2.0

#: Without a number that was asked for: so many steady samples at least, for so many seconds,
LEAST, LEAST_S = 20, 3.0
#: until half the interval of their median is no more than this share of it;
PRECISE = 0.01
#: no more samples than that, and when the time is up no fewer than these.
MOST, FEWEST = 200, 4
#: The warm-up is over when the last two samples are no more than 5 % faster than those before,
FASTER = 0.95
#: after so many of them, or this share of the time.
MOST_WARMUP, WARMUP_SHARE = 10, 0.2
#: How often the median is looked at, in samples.
EVERY = 5
#: Share of the samples from which a kind of them, or the rare kinds together, has to have a median
#: that is known.
KIND_SHARE = 0.2


class Sampling:
    """Counts samples per label; one that compiled in the place of a steady one is made up for.

    Args:
        steps: samples in all.
        warmup: of these the leading ones.
        budget_s: seconds for as many steady samples as the median needs, after at least `warmup`
            leading ones; None: exactly `steps`.
    """

    def __init__(
        self, steps: int, warmup: int, records: Records, budget_s: Optional[float] = None
    ) -> None:
        self.steps = steps
        self.warmup = warmup
        self.records = records
        self.budget_s = budget_s
        self.counts: Dict[str, int] = {}  # label -> number of samples
        self.steady: Dict[str, List[Tuple[str, float]]] = {}  # label -> (name, milliseconds)
        self.nodes: Dict[str, Any] = {}  # name -> number of autograd's nodes
        self.owed = 0
        self.recompiled = 0  # samples behind the leading ones that compiled
        self.warming: Dict[str, List[Tuple[str, float]]] = {}  # samples of the warm-up
        self.warm = False
        self.began_s: Optional[float] = None  # the steady samples
        self.now_s = 0.0  # end of the last one
        self.why = "asked for"  # there are enough
        self.others = Others()
        self.other_cpus: Optional[float] = None  # beside samples that are certainly disturbed

    @property
    def wanted(self) -> int:
        """Samples in all: at most twice as many as were asked for."""
        return self.steps + min(self.owed, self.steps)

    def leads(self, index: int) -> bool:
        """Whether the sample of that number is one of the leading ones."""
        return not self.warm if self.budget_s is not None else index < self.warmup

    def add(
        self,
        label: str,
        name: str,
        milliseconds: float,
        compiled: bool,
        started_s: float = 0.0,
        nodes: Any = None,
    ) -> str:
        """Count a sample; returns its kind: compile, warmup or steady."""
        count = self.counts.get(label, 0)
        self.counts[label] = count + 1
        self.nodes[name] = nodes
        self.now_s = started_s + milliseconds / 1000.0
        if count == 0:
            return "compile"
        if compiled:
            late = int(not self.leads(count))
            self.recompiled += late
            self.owe(late)
            return "compile"
        if self.leads(count):
            self.warm_up(label, name, milliseconds, started_s)
            return "warmup"
        if self.began_s is None:
            self.began_s = started_s
            if self.budget_s is not None:
                self.others.start()
        self.steady.setdefault(label, []).append((name, milliseconds))
        return "steady"

    def warm_up(self, label: str, name: str, milliseconds: float, started_s: float) -> None:
        """A leading sample; without a number that was asked for, whether it was the last one."""
        found = self.warming.setdefault(label, [])
        found.append((name, milliseconds))
        if self.budget_s is None:
            return
        self.began_s = started_s if self.began_s is None else self.began_s
        long = self.now_s - self.began_s >= WARMUP_SHARE * self.budget_s
        enough = sum(self.counts.values()) >= self.warmup
        times = [each for _, each in found]
        if long or len(times) >= max(MOST_WARMUP, self.warmup) or (enough and no_faster(times)):
            self.warm, self.began_s = True, None

    def spend_one(self) -> None:
        """Let the next sample count as warm-up, and take one more."""
        self.warmup += 1
        self.steps += 1

    def enough(
        self, taken: int, device: Optional[str], iterations: Mapping[str, Tuple[float, Any]] = {}
    ) -> bool:
        """Whether no more samples are needed; a device of unknown compiler is looked at again.

        Args:
            iterations: milliseconds of the samples' iterations, and their kinds, by name.
        """
        if self.budget_s is not None:
            return self.known(iterations) and (not self.drop(device) or self.why != "precise")
        if taken < self.wanted:
            return False
        self.owe(self.drop(device))
        return taken >= self.wanted

    def known(self, iterations: Mapping[str, Tuple[float, Any]]) -> bool:
        """Whether the median is known well enough, or there is no more time for it; sets why."""
        count = max(map(len, self.steady.values()), default=0)
        seconds = 0.0 if self.began_s is None else self.now_s - self.began_s
        if count >= MOST or (count >= FEWEST and seconds >= (self.budget_s or 0.0)):
            self.why = "most" if count >= MOST else "budget"
            self.hopeless(count, seconds)
        elif count >= LEAST and seconds >= LEAST_S and count % EVERY == 0:
            if all(map(precise, self.kinds(iterations))):
                self.why = "precise"
            elif self.hopeless(count, seconds):
                self.why = "busy"
            else:
                return False
        else:
            return False
        return True

    def hopeless(self, count: int, seconds: float) -> bool:
        """Whether the run counts as one on a busy machine even if all is quiet from now on.

        Args:
            count: steady samples.
            seconds: that they took.
        """
        left_s = min((self.budget_s or 0.0) - seconds, (MOST - count) * seconds / count)
        left_s = max(left_s, 0.0)
        used_s = self.others.used_s()
        if used_s is None or used_s < OTHERS_SHARE * self.others.cpus * (seconds + left_s):
            return False
        self.other_cpus = used_s / seconds
        return True

    def kinds(self, iterations: Mapping[str, Tuple[float, Any]]) -> List[List[float]]:
        """Times of the samples, and of their iterations, of each frequent kind by itself.

        Kinds that are rare count as one, so that steps that are never alike are looked at together.
        """
        samples = max(self.steady.values(), key=len)
        regions = [(self.nodes.get(name), ms) for name, ms in samples]
        wholes = [
            ((self.nodes.get(name), iterations[name][1]), iterations[name][0])
            for name, _ in samples
            if name in iterations
        ]
        return frequent(regions, len(samples)) + frequent(wholes, len(samples))

    def drop(self, device: Optional[str]) -> int:
        """Take out the samples that must have compiled, by their times; how many."""
        dropped = 0
        for label, samples in self.steady.items():
            found = far_above(samples, device)
            self.steady[label] = [each for each in samples if each[0] not in found]
            for name in found:
                self.records.write("compiled", name=name, why="far above the others")
            dropped += len(found)
        return dropped

    def owe(self, samples: int) -> None:
        """Make up for so many, unless there have been too many already; never of several ranks."""
        if self.records.rank is not None:
            return
        if self.budget_s is None and self.owed <= self.steps < self.owed + samples:
            text = "more than %d later steps compiled: no more than %d samples are taken"
            self.records.warn(text % (self.steps, 2 * self.steps))
        self.owed += samples

    def settle(self) -> None:
        """The script is over: where few samples are steady, those of the warm-up have to do."""
        for label, samples in self.warming.items():
            steady = self.steady.get(label, [])
            if self.budget_s is not None and len(steady) < FEWEST and samples[1:]:
                self.records.write("steady", names=[name for name, _ in samples[1:]])
                self.steady[label] = samples[1:] + steady


def frequent(kinds: List[Tuple[Any, float]], samples: int) -> List[List[float]]:
    """Times of each kind that makes up enough of the samples; the rare ones together are one."""
    found: Dict[Any, List[float]] = {}
    for kind, milliseconds in kinds:
        found.setdefault(kind, []).append(milliseconds)
    least = KIND_SHARE * samples
    common = [times for times in found.values() if len(times) >= least]
    rare = [milliseconds for kind, milliseconds in kinds if len(found[kind]) < least]
    return common + ([rare] if len(rare) >= least else [])


def no_faster(times: List[float]) -> bool:
    """Whether the last two of at least two warm-up samples are no longer faster than the others."""
    if len(times) < 2:
        return False
    earlier, later = (times[:1], times[1:]) if len(times) == 2 else (times[:-2], times[-2:])
    return min(later) >= FASTER * min(earlier)


def precise(times: List[float]) -> bool:
    """Whether the median of these is known well enough."""
    found = median_bounds(times)
    return found is not None and found[1] - found[0] <= PRECISE * (found[1] + found[0])


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
