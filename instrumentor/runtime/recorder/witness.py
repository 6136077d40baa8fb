"""Checks that the timed region holds what its label says, in the sample that never counts.

The first region is watched, and what follows it up to the next one (the gap). Autograd numbers
its nodes: what feeds a backward and is older than the region was made outside of it. When there
is such a node, the gap is run in anomaly mode and one more sample is spent: nodes that were made
in the gap then hold the stack of their making. So what is made once, ahead of the loop, raises no
alarm. The other checks look on as well: no alarm without a place that was seen, and nothing
counts as verified without its evidence.
"""

import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from instrumentor.runtime.recorder.graph import Graph, read_graph, sequence_number
from instrumentor.runtime.recorder.judging import (
    AFTER,
    INSIDE,
    LATER,
    Evidence,
    Seen,
    count_parameters,
    judge,
    offers,
    other_processes,
)
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.watch import Event, Watch, formatted_places, is_users

TRACKED = 8  # parameters whose in-place changes are followed, by torch's version counters


class Witness:
    """Called by the recorder around the clock; never raises, never works in a steady sample."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.watch = Watch(self.seen)
        self.evidence = Evidence()
        self.regions = 0  # that were closed
        self.inside = False
        self.over = False  # nothing more is to be learnt of forward and backward
        self.idle = False  # nothing more is to be learnt
        self.failed = False
        self.suspicious = False  # nodes older than the region feed its backward
        self.anomaly: Optional[Tuple[bool, bool]] = None  # the script's own mode, while ours is on
        self.own_anomaly = False  # the script had switched it on itself
        self.gap: List[int] = []  # autograd's numbers at its begin and its end
        self.since: Optional[int] = None
        self.thread = 0
        self.tracked: List[Any] = []
        self.versions = 0
        self.verdict: Optional[Dict[str, Any]] = None

    def begin(self) -> bool:
        """Before the clock; False when there is to be no further sample."""
        self.guarded(self.opening)
        return not self.failed

    def end(self, label: str) -> None:
        """After the clock was read."""
        self.guarded(lambda: self.closing(label))

    def conclude(self) -> None:
        """Write the verdict, as no further region comes."""
        self.guarded(self.last_look)

    @property
    def wants_another(self) -> bool:
        """Whether the next sample is needed as evidence, and so must not count."""
        return self.suspicious and self.regions == 1 and not self.over

    @property
    def when(self) -> str:
        """What is seen now is seen there."""
        return INSIDE if self.inside else LATER if self.over else AFTER

    def add(self, kind: str, places: Any = (), **more: Any) -> None:
        self.evidence.seen.append(Seen(kind, self.when, list(places), **more))

    # -- in this order ----------------------------------------------------------------------------

    def opening(self) -> None:
        """Begin to watch the first region, or judge what its gap and the second have shown."""
        torch = sys.modules.get("torch")
        if not hasattr(torch, "autograd"):
            self.give_up("the script does not use torch")
            return
        self.ordinary_mode()
        self.changed_outside()
        if self.over:
            self.watch.off()
            return
        if self.regions == 0:
            # Of a region that was begun and never closed, as by a `continue`.
            self.watch.off()
            self.evidence, self.suspicious = Evidence(), False
            # Ranks that are all recorded are one training.
            self.evidence.processes = 0 if self.records.rank is not None else other_processes(torch)
            self.watch.on()
            self.watch.on_forwards()
        if self.evidence.processes or (self.regions == 1 and not self.suspicious):
            self.watch.off()
            self.decide()
            return
        # Autograd numbers nodes per thread: those of another thread cannot be compared.
        self.since, self.thread = sequence_number(), threading.get_ident()
        self.inside = self.watch.forwards = True

    def closing(self, label: str) -> None:
        """Begin the gap behind the first region; behind a second one, the verdict."""
        first = self.regions == 0
        self.regions += 1
        if self.changed():
            if first:
                self.add("changed")
            else:  # whether it belongs there, and when it does, only the label says
                kind = "changed inside" if label == "fwd+bwd" else "changed"
                self.evidence.seen.append(Seen(kind, LATER, []))
        self.inside = self.watch.forwards = False
        if first:
            self.evidence.label = label
            self.suspicious = self.suspicious and self.evidence.judged
            if self.suspicious:
                self.anomaly_mode()
        elif not self.over:
            self.watch.off()
            self.decide()
        if self.over and not self.idle:
            self.watch.on()  # up to the next region: an accumulated step comes after many samples

    def last_look(self) -> None:
        """Undo all that was replaced, and give the verdict on what there is."""
        self.ordinary_mode()
        self.watch.off()
        self.changed_outside()
        if self.regions:
            self.decide()
        self.idle = True

    def anomaly_mode(self) -> None:
        """Let torch keep the stack of every node's making, in the gap."""
        torch = sys.modules["torch"]
        self.anomaly = (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
        self.gap = [sequence_number() or 0]
        torch.set_anomaly_enabled(True, False)

    def ordinary_mode(self) -> None:
        """End our anomaly mode."""
        if self.anomaly is not None:
            sys.modules["torch"].set_anomaly_enabled(*self.anomaly)
            self.gap.append(sequence_number() or 0)
            self.own_anomaly, self.anomaly = self.anomaly[0], None

    def decide(self) -> None:
        """Write the verdict, when it is another one than before."""
        self.over = True
        verdict = judge(self.evidence, enough=self.regions > 1 or not self.suspicious)
        if verdict != self.verdict:
            self.verdict = verdict
            self.records.write("witness", **verdict)
        self.failed = verdict["status"] == "failed"
        waiting = self.evidence.judged and "optimizer" in verdict["unverified"]
        self.idle = self.failed or not waiting
        if self.idle:
            self.watch.off()
            self.tracked = []

    # -- what the watch tells ---------------------------------------------------------------------

    def seen(self, event: Event) -> None:
        """An event, noted on the clock of the first sample."""
        started = time.perf_counter()
        self.guarded(lambda: self.note(event))
        if self.inside and self.regions == 0:
            self.evidence.cost_s += time.perf_counter() - started

    def note(self, event: Event) -> None:
        if event.kind == "step":
            self.note_step(event)
        elif event.nested or self.over:
            return
        elif event.kind == "backward":
            self.note_backward(event)
        elif self.inside and event.kind == "forward":
            self.note_forward(event)
        elif self.inside:
            if event.kind == "gradient":
                self.fed(read_graph(as_outputs(event.about)))
            self.add(event.kind, event.places)
            if event.kind == "backward done":
                self.changed()  # an optimizer may step within the backward
                leaves = [each.leaves for each in self.evidence.of("backward", INSIDE, AFTER)]
                self.watch.weights |= {id(leaf) for found in leaves for leaf in found}

    def note_step(self, event: Event) -> None:
        self.add("nested step" if event.nested else "step", event.places)
        if self.evidence.parameters is None:
            self.evidence.parameters = count_parameters(event.about)
            self.evidence.optimizer = offers(sys.modules["torch"], event.about)
            if self.over:
                self.decide()

    def note_forward(self, event: Event) -> None:
        """Note a forward, with the number of its node, which no memory hangs on."""
        if threading.get_ident() == self.thread:
            node = getattr(event.about, "grad_fn", None)
            number = None if node is None or self.since is None else node._sequence_nr()
            self.add("used", event.places, number=number)

    def fed(self, graph: Graph) -> None:
        """Note what was differentiated."""
        if self.since is not None:
            self.evidence.fed.update(node._sequence_nr() for node in graph.nodes)

    def note_backward(self, event: Event) -> None:
        graph = read_graph(as_outputs(event.about))
        unread = self.why_unread(graph) if self.inside else ""
        self.add("backward", event.places, leaves=graph.leaves, unread=unread)
        if not self.inside:
            return
        self.fed(graph)
        if not unread:
            self.compare(graph)
        if not self.tracked:
            self.tracked = [leaf for leaf in graph.leaves if leaf.requires_grad][:TRACKED]
        elif self.changed():
            self.add("changed")

    def why_unread(self, graph: Graph) -> str:
        """Why the nodes of a backward cannot be held against the region's begin."""
        if not graph.whole:
            return "the graph of the backward is too large to be read"
        if self.since is None:
            version = sys.modules["torch"].__version__
            return "torch %s does not number its autograd nodes (2.1 does)" % version
        if threading.get_ident() != self.thread:
            return "forward and backward run in different threads"
        return ""

    def compare(self, graph: Graph) -> None:
        """Hold the nodes of a backward against the begin of the region."""
        assert self.since is not None
        older = [node for node in graph.nodes if node._sequence_nr() < self.since]
        if self.regions == 0:
            self.suspicious = self.suspicious or bool(older)
            return
        if self.own_anomaly:  # then every node has its stack: only the gap's count
            older = [node for node in older if self.gap[0] <= node._sequence_nr() < self.gap[1]]
        for stack in filter(None, (node.metadata.get("traceback_") for node in reversed(older))):
            places = [p for p in formatted_places(stack) if is_users(p[0], p[2])]
            self.evidence.seen.append(Seen("forward", AFTER, places))

    # -- changes of parameters --------------------------------------------------------------------

    def changed(self) -> bool:
        """Whether a tracked parameter was changed in place since this was asked last."""
        before, self.versions = self.versions, sum(each._version for each in self.tracked)
        return bool(self.tracked) and self.versions != before

    def changed_outside(self) -> None:
        """Note an update by hand, which no optimizer announces: parameters changed in the gap."""
        if not self.inside and self.changed():
            self.add("changed")
            if self.over:
                self.decide()

    # -- failures of our own ----------------------------------------------------------------------

    # Whatever goes wrong in here, the user's training must go on as if nobody had looked.
    def guarded(self, action: Callable[[], None]) -> None:
        if self.idle:
            return
        try:
            action()
        except Exception as error:
            self.give_up("the check itself failed: %r" % (error,))

    def give_up(self, why: str) -> None:
        """Leave the script alone, and say that nothing was verified."""
        self.watch.off()
        self.evidence.lost = why
        self.over = self.idle = True
        self.records.write("witness", **judge(self.evidence, enough=True))


def as_outputs(about: Any) -> Sequence[Any]:
    """What is differentiated, of one output or several."""
    return about if isinstance(about, (list, tuple)) else (about,)
