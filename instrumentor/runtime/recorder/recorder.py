"""Opens and closes the timed regions of the script, and ends the run after enough of them."""

import atexit
import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from instrumentor.runtime.recorder.barrier import CHECK, Barrier, Waited
from instrumentor.runtime.recorder.collectives import Collectives
from instrumentor.runtime.recorder.compiler_breaks import DROPPED, write_causes
from instrumentor.runtime.recorder.differentiated import Differentiated
from instrumentor.runtime.recorder.extra_steps import ExtraSteps
from instrumentor.runtime.recorder.facts import FACTS, Batches
from instrumentor.runtime.recorder.host_memory import peak_resident
from instrumentor.runtime.recorder.iterations import Iterations
from instrumentor.runtime.recorder.model import Model
from instrumentor.runtime.recorder.modules import Modules
from instrumentor.runtime.recorder.other_processes import Others
from instrumentor.runtime.recorder.phases import Phases
from instrumentor.runtime.recorder.profiled_steps import ProfiledSteps
from instrumentor.runtime.recorder.programs import Programs
from instrumentor.runtime.recorder.random_draws import (
    DRAWS,
    HENCE,
    draws_by_itself,
    has_its_workers,
    loader_of,
)
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.repeats import Repeats
from instrumentor.runtime.recorder.runtimes import runtime_of
from instrumentor.runtime.recorder.same_batch import SameBatch
from instrumentor.runtime.recorder.sampling import Sampling
from instrumentor.runtime.recorder.torch_marks import Marks
from instrumentor.runtime.recorder.witness import Witness

#: Samples that are printed: so many first ones, and then one in so many seconds.
PRINTED, PRINTED_EVERY_S = 10, 1.0
MOST_UNASKED = 5  # steps in a row that do not come to the early stop
#: Samples without an update of an optimizer that torch knows, behind which a step is profiled.
MOST_UNTRAINED = 10
INFERENCE = "inference"  # the label of samples that no update follows
#: Of several ranks, where no number was asked for: samples, and leading ones of them at least.
RANKS_STEPS, RANKS_WARMUP = 25, 2


class Recorder:
    """Times regions of the main process; in any other process every method does nothing."""

    def __init__(
        self,
        steps: int,
        warmup: int,
        profiler: str,
        budget_s: Optional[float] = None,
        phases: Optional[int] = None,
    ) -> None:
        """See :class:`.sampling.Sampling`; under Tracy, whose buffers fill, exactly `steps`.

        Args:
            phases: see :class:`.phases.Phases`.
        """
        self.records = Records()
        wanted = os.environ.get("INSTRUMENT_PROFILER") or profiler
        wanted = wanted if self.records.active else ""
        self.signpost = find_signpost(wanted)
        asked = os.environ.get("INSTRUMENT_STEPS")
        if asked:
            extra = os.environ.get("INSTRUMENT_PHASES")
            phases = int(extra) if extra else None
            budget_s = float(os.environ.get("INSTRUMENT_BUDGET_S") or 0.0) or None
        steps = int(asked or steps)
        warmup = int(os.environ.get("INSTRUMENT_WARMUP") or warmup)
        buffers = means_tracy(wanted)
        if self.records.rank is not None:
            # Each step of one rank needs all others: all take equally many. In the second sample
            # the witness may be at work, and none is made up for.
            warmup = max(warmup, RANKS_WARMUP)
            steps = max(steps, warmup + 1, 0 if budget_s is None or buffers else RANKS_STEPS)
            budget_s = None
        self.sampling = Sampling(steps, warmup, self.records, None if buffers else budget_s)
        self.barrier = Barrier(self.records)
        self.batches = Batches(self.records)
        self.facts = [self.batches, *(make(self.records) for make in FACTS)]
        self.model = Model(self.records)
        self.profiled = ProfiledSteps(self.records)
        self.witness = Witness(self.records)
        self.differentiated = Differentiated()
        self.marks = Marks(self.records.warn)
        self.iterations = Iterations(self.records, self.marks)
        self.phases = Phases(self.records, self.marks, self.barrier, phases)
        extra_steps = not buffers and phases != 0
        self.repeats = Repeats(self.records, self.barrier, self.sampling, self.marks, extra_steps)
        #: What is measured in extra steps behind the samples, in this order.
        self.coming: List[ExtraSteps] = [
            self.repeats,
            self.phases,
            SameBatch(self.barrier, self.iterations, self.phases),
            Modules(self.records, self.barrier, phases),
            Programs(self.records, self.barrier, extra_steps),
            Collectives(self.records),
        ]
        self.behind: Optional[ExtraSteps] = None  # of these the one that takes its steps
        self.beside = Others()  # while it does, or steps under a profiler behind the samples
        self.profiling_s: Optional[float] = None  # when these began
        self.taken = 0  # samples so far
        self.asides: List[Tuple[str, float]] = []  # open ones, with their start
        self.walked: Set[int] = set()  # loaders that are not walked over, by id
        self.refused = 0  # steps for which nothing proved the device idle
        self.updates = 0  # of optimizers, when a region was begun last
        self.updated = self.trained = False  # an update came before this region, before a sample
        self.unasked = 0  # regions that an update followed, since `finished` was asked last
        self.name: Optional[str] = None  # of the open region
        self.label: Optional[str] = None  # of the last sample
        self.done = False
        self.started = self.printed_s = 0.0  # of the last sample, and of the last that was printed
        self.cpu_s = 0.0  # of this process and all its threads, then; later in the last sample
        if self.records.active:
            atexit.register(self.summarise)

    def enter(self, *item: Any) -> None:
        """Note that the body of the loop is entered: what came before fetched its batch.

        Args:
            item: what the loop hands out, where the region begins in a function.
        """
        if self.done or not self.records.active:
            return
        if self.behind is not None:
            self.behind.enter(sys._getframe(1))
        self.iterations.enter()
        if item:
            looked = time.perf_counter()
            self.batches.enter(item)
            self.iterations.own_s += time.perf_counter() - looked

    def begin(self, *batch: Any, resume: bool = False, when: Any = True) -> None:
        """Open a region, ahead of the forward.

        Args:
            resume: keep one that is open.
            when: whether this iteration comes to the region's end, as far as the script tells.
        """
        if self.done or not self.records.active or not when:
            return
        called = time.perf_counter()
        if self.name is not None and resume and self.behind is not None:
            return
        if self.name is not None and resume:
            for fact in self.facts:
                fact.begin(batch, True)
            return
        if self.name is not None:
            self.signpost(self.name + "_cancelled")
            self.records.write("cancelled", name=self.name)
        if self.overdue():
            self.name = None
            self.complete()
            return
        self.barrier.clear()
        pending = time.perf_counter() - called
        self.marks.on()
        self.differentiated.begin()
        self.iterations.begin(called, pending)
        if self.behind is not None:
            self.name = self.behind.name
            self.behind.begin(sys._getframe(1))
            return
        if not self.witness.begin():
            self.name = None
            self.complete()
            return
        profiled = self.profiles()
        self.name = self.profiled.next_name if profiled else self.next_name()
        if profiled:
            self.profiled.open()
        else:
            for fact in self.facts:
                fact.begin(batch, False)
        self.model.begin()
        self.updated = bool(self.marks.stepped)
        self.signpost(self.name + "_start")
        self.cpu_s = time.process_time()
        self.started = time.perf_counter()

    def next_name(self) -> str:
        """The region's name in signposts and records.

        Letters, digits and _ only: of a signpost Tracy drops all up to the last ": ", and puts ;
        for a comma.
        """
        index = self.taken
        if index == 0:
            return "step_compile"
        return "step_%s_%d" % ("warmup" if self.sampling.leads(index) else "steady", index)

    def profiles(self) -> bool:
        """Whether the region to come is a profiled step: the first one follows the warm-up.

        And a sample behind an update, whose optimizer has the memory that it keeps: the peak is
        read ahead of the profiler.
        """
        if self.taken == 0 or not self.profiled.due or self.sampling.leads(self.taken):
            return False
        settled = self.trained or self.label == INFERENCE or self.taken >= MOST_UNTRAINED
        return settled or self.profiled.behind

    def end(
        self, *values: Any, label: str = "fwd+bwd", synced: bool = False, batch: Sequence[Any] = ()
    ) -> None:
        """Wait for the device, read the clock, record the sample.

        Args:
            values: the loss, where the script has a name for it. What was differentiated last, or
                else what the optimizers hold, is looked at behind them.
            batch: what entered the forward, where the begin could not know it.
        """
        if self.name is None or not self.records.active:
            return
        values = (*values, *(self.differentiated.take() or self.marks.seen))
        if self.behind is not None:
            self.name = None
            self.behind.end(values)
            return
        # Before the barrier, too: finding out that nothing is pending must not count.
        stopped = time.perf_counter()
        waited = self.barrier.wait(values, synced)
        if waited.method:  # else nothing was pending
            stopped = time.perf_counter()
        self.cpu_s = time.process_time() - self.cpu_s
        milliseconds = (stopped - self.started) * 1000.0
        self.signpost(self.name + "_end")
        name, self.name = self.name, None
        self.iterations.regions += 1
        if waited.problem:
            self.refuse(name, waited)
        elif self.profiled.running:
            self.profiled.close(name, milliseconds, waited.device)
        else:
            self.take(name, milliseconds, label, waited, values, tuple(batch))

    def take(
        self,
        name: str,
        milliseconds: float,
        label: str,
        waited: Waited,
        values: Tuple[Any, ...],
        batch: Tuple[Any, ...],
    ) -> None:
        """Record a sample with all that is known of it, and hear the witness.

        Args:
            values: what the step produced, as for :meth:`end`.
            batch: what entered the forward, where the begin could not know it.
        """
        sample: Dict[str, Any] = {"device": waited.device, "barrier": waited.method}
        for fact in self.facts:
            sample.update(fact.end(values, batch))
        self.model.end(values, sample["batch_samples"])
        if self.taken == 0:
            self.batches.entered(self.model.looked_up)
        compiled = "compiled" in sample
        if not any(self.sampling.steady.values()) or not self.barrier.settled:
            # Reading to the host would slow every step: it stops once nothing was found left.
            # What compiles takes too long to tell a part of it from what is left.
            later = self.barrier.check(values, 0.0 if self.taken == 0 or compiled else milliseconds)
            if later is not None:
                milliseconds = (later - self.started) * 1000.0
                sample.update(device=self.barrier.device, barrier=CHECK)
        nodes = sample.get("nodes")
        kind = self.sampling.add(label, name, milliseconds, compiled, self.started, nodes)
        sample.update(kind=kind, label=label)
        number, self.taken, self.label = self.taken, self.taken + 1, label
        self.trained = self.trained or self.updated
        facts = {"name": name, "index": number, "ms": milliseconds}
        memory = sample.pop("memory")
        timed = {"cpu_ms": self.cpu_s * 1000.0, "start_s": self.started}
        self.records.again("sample", sample, memory, **timed, **facts)
        self.witness.end(label)
        if self.witness.wants_another and self.records.rank is None:
            self.sampling.spend_one()
        if self.profiled.due and not runtime_of(waited.device).profiled:
            self.profiled.cancel(waited.device)
        if number < PRINTED or self.started - self.printed_s >= PRINTED_EVERY_S:
            self.printed_s = self.started
            shown = kind if kind != "compile" else "compiled" if compiled else "first"
            line = "[TIMER] Step %d: %s = %.1f ms  (%s)"
            print(line % (number, label, milliseconds, shown), flush=True)
        if self.witness.failed:
            self.complete()
        self.iterations.end(**facts)  # last: what this took is no part of it

    def aside(self, what: str = "") -> None:
        """Time what stays ahead of the first sample: opened with its name, closed without."""
        if what:
            self.asides.append((what, time.perf_counter()))
        elif self.asides:
            name, started = self.asides.pop()
            seconds = time.perf_counter() - started
            text = "%s stays and took %.1f s before the first sample" % (name, seconds)
            self.records.warn(text)

    def kept(self, what: str = "") -> None:
        """Tell apart what stays between samples: opened with its name, closed without."""
        if self.records.active and not self.done:
            self.iterations.keep(what)

    def drawn(self, *loaders: Any, told: bool = False) -> None:
        """Take the random numbers that walking over loaders takes, where a walk is skipped.

        Args:
            told: that it takes others is known, and was said before the run.

        An iterator of torch's DataLoader takes a seed for its workers when it is made, and one
        for the order of its samples with the first of them. One whose workers stay is made once.
        """
        torch = sys.modules["torch"]
        for loader in map(loader_of, loaders):
            if loader is not None:  # what loaders of other kinds would draw is not known
                again = id(loader) in self.walked
                self.walked.add(id(loader))
                if not has_its_workers(loader, again):
                    torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
                indices = iter(loader._index_sampler)
                first = next(indices, None)
                if self.records.active and not told and not again:
                    if draws_by_itself(loader, first, indices):
                        text = DRAWS % type(loader.dataset).__name__ + HENCE
                        self.records.warn(text, "random-numbers")

    def refuse(self, name: str, waited: Waited) -> None:
        """Record that a step ran and could not be timed."""
        self.refused += 1
        reason = "nothing proves that the device %s is idle (%s)" % (waited.device, waited.problem)
        self.records.write("refused", name=name, device=waited.device, reason=reason)
        print("[TIMER] %s is no sample: %s" % (name, reason), flush=True)

    def overdue(self) -> bool:
        """Whether there are enough samples, and the script does not come to its early stop.

        Who started the run ends it once the record is complete.
        """
        updates = len(self.marks.stepped)
        if updates > self.updates:
            self.updates, self.unasked = updates, self.unasked + 1
        if self.unasked < MOST_UNASKED or not self.enough():
            return False
        text = "the early stop was not reached in %d steps, though there were enough samples: "
        self.records.warn(text % self.unasked + "nothing more is measured, and the run is ended")
        return True

    def finished(self, stepped: bool = True) -> bool:
        """True once enough samples are taken and an optimizer step has been made."""
        self.unasked = 0
        if self.done or not stepped:
            return self.done
        if not self.enough():
            if self.behind is not None:
                self.behind.finishing()
            return False
        self.complete()
        return True

    def ended(self) -> None:
        """Note that the loop has ended by itself, and that nothing behind it is to run."""
        if not self.done and self.records.active:
            self.records.write("ended")
            print("[TIMER] The loop has ended, and the run: the rest may need what is skipped")

    def enough(self) -> bool:
        """Whether enough samples are taken, with the extra steps behind them that are due."""
        if not (self.sampled() if self.behind is None else self.behind.enough()):
            return False
        self.go_on()
        return self.behind is None

    def go_on(self) -> None:
        """Take the next kind of extra steps that is due."""
        asked = time.perf_counter()
        self.leave()
        while self.coming and self.behind is None:
            following = self.coming.pop(0)
            if following.due(self.label, self.sampling.budget_s is not None):
                self.beside.start()
                following.start()
                self.behind = following
        self.iterations.own_s += time.perf_counter() - asked

    def leave(self) -> None:
        """End the extra steps of a kind, and tell what others did beside them."""
        if self.behind is None:
            return
        self.behind.stop()
        self.tell_beside(self.behind.name, self.behind.spent_s())
        self.behind = None

    def tell_beside(self, name: str, seconds: float) -> None:
        """What others did beside extra steps of that name."""
        others_s = self.beside.used_s()
        if others_s is not None:
            facts = {"cpus": self.beside.cpus, "others_s": others_s}
            self.records.write("beside", of=name, seconds=seconds, **facts)

    def sampled(self) -> bool:
        """Whether enough samples are taken."""
        asked = time.perf_counter()
        samples = self.taken + self.refused
        if self.profiled.behind or self.sampling.enough(
            samples, self.barrier.device, self.iterations.taken
        ):
            if not self.profiled.behind:
                self.beside.start()
                self.profiling_s = time.perf_counter()
            self.profiled.behind = True
            if self.sampling.other_cpus is not None:  # nothing else can be told there, either
                # What was asked for is measured nevertheless, and what is no time.
                kept = [self.repeats, *([self.phases] if self.phases.wanted else [])]
                self.coming = [each for each in self.coming if each in kept]
                self.profiled.stop()
        enough = self.profiled.behind and not self.profiled.due
        if enough and self.profiling_s is not None:
            if self.profiled.taken > 1:
                self.tell_beside("profiled", time.perf_counter() - self.profiling_s)
            self.profiling_s = None
        self.iterations.own_s += time.perf_counter() - asked
        return enough

    def skip_test(self) -> None:
        """Leave the test that pytest runs: skipped, since what it asserts was not reached."""
        from pytest import skip

        skip("instrument: enough samples were taken")

    def complete(self) -> None:
        """Say that nothing more is to be measured."""
        self.done = True
        self.leave()
        self.write_causes()
        self.witness.conclude()
        self.marks.off()
        self.differentiated.off()
        self.signpost("benchmark_complete")
        peak = runtime_of(self.barrier.device).peak_memory()
        if peak is not None:
            self.records.write("memory", what=peak[0], bytes=peak[1])
        self.write_peak()
        self.barrier.release()
        busy = self.sampling.other_cpus
        more = {} if busy is None else {"other_cpus": busy}
        self.records.write("complete", samples=self.taken, why=self.sampling.why, **more)
        # Called first of all, when all threads have ended: from here on the process is closing.
        atexit.register(self.records.write, "leaving")

    def write_peak(self) -> None:
        """The most memory of the process, and how much of it came ahead of any profiler."""
        before = self.profiled.peak_before
        more = {} if before is None else {"before_profiled": before}
        self.records.write("resident", bytes=peak_resident(), **more)

    def write_causes(self) -> None:
        """What kept compilers from making one program of a step."""
        counting = self.model.counting
        write_causes(self.records, {} if counting is None else counting.called)
        runtime = runtime_of(self.barrier.device)
        stepped = [bool(which) for _, which in self.iterations.taken.values()]
        if (
            self.marks.dropped
            and len(set(stepped)) > 1
            and runtime.in_torch
            and runtime.tenstorrent
        ):
            facts: Dict[str, Any] = {"places": self.marks.dropped, "count": sum(stepped), "ms": 0.0}
            self.records.write("cause", kind=DROPPED, what="zero_grad", **facts)

    def summarise(self) -> None:
        """Print the samples in short, at the end of the process."""
        if not self.records.active:
            return
        self.profiled.abandon()
        if self.behind is not None:  # there were enough samples, and no more steps
            self.complete()
        self.witness.conclude()
        self.marks.off()
        self.differentiated.off()
        if not self.done:
            self.sampling.settle()
            self.write_causes()
            self.write_peak()
        for label, steady in self.sampling.steady.items():
            ordered = sorted(milliseconds for _, milliseconds in steady)
            middle = ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]
            print("\n" + "=" * 50)
            print("[TIMER] Summary (%s, steady steps):" % label)
            print("  samples : %d" % len(steady))
            print("  mean    : %.1f ms" % (sum(ordered) / len(ordered)))
            print("  median  : %.1f ms" % (sum(middle) / len(middle)))
            print("  min     : %.1f ms" % ordered[0])
            print("  max     : %.1f ms" % ordered[-1])
            print("=" * 50 + "\n", flush=True)


def means_tracy(profiler: str) -> bool:
    """Whether Tracy runs the script."""
    return profiler == "tracy" or (profiler == "auto" and "tracy" in sys.modules)


def find_signpost(profiler: str) -> Callable[[str], None]:
    """Tracy's own function when Tracy is meant, else one that does nothing."""
    if means_tracy(profiler):
        from tracy import signpost  # a failure here is meant to end the run

        return signpost  # type: ignore[no-any-return]
    return lambda name: None
