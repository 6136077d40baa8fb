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
from typing import Any, Dict, List, Optional, Tuple

from instrumentor.runtime.recorder.graph import Graph, read_graph, sequence_number
from instrumentor.runtime.recorder.judging import Backward, Evidence, judge, other_processes
from instrumentor.runtime.recorder.places import places_in
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.watch import Event, Watch

TRACKED = 8  # parameters whose changes are followed


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
        self.since: Optional[int] = None
        self.thread = 0
        self.tracked: List[Any] = []
        self.versions = 0
        self.verdict: Optional[Dict[str, Any]] = None

    def begin(self) -> bool:
        """Before the clock; False when there is to be no further sample."""
        if not self.idle:
            self.guarded(self.opening)
        return not self.failed

    def end(self, label: str) -> None:
        """After the clock was read."""
        if not self.idle:
            self.guarded(lambda: self.closing(label))

    def conclude(self) -> None:
        """When no further region comes."""
        if not self.idle:
            self.guarded(self.last_look)

    @property
    def wants_another(self) -> bool:
        """Whether the next sample is needed as evidence, and so must not count."""
        return self.suspicious and self.regions == 1 and not self.over

    # -- in this order ----------------------------------------------------------------------------

    def opening(self) -> None:
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
            self.watch.off()  # of a region that was begun and never closed
            self.evidence, self.suspicious = Evidence(), False
            self.evidence.processes = other_processes(torch)
            self.watch.on()
        if self.evidence.processes or (self.regions == 1 and not self.suspicious):
            self.watch.off()
            self.decide()
            return
        self.since, self.thread = sequence_number(), threading.get_ident()
        self.inside = True

    def closing(self, label: str) -> None:
        first, self.inside = self.regions == 0, False
        self.regions += 1
        if self.tracked and self.total() != self.versions:
            self.evidence.changed_inside |= first
            self.evidence.changed_later |= not first and label != "fwd+bwd"
            self.evidence.changed_unseen |= not first and label == "fwd+bwd"
            self.versions = self.total()
        if first:
            self.evidence.label = label
            self.suspicious = self.suspicious and self.evidence.judged
            if self.suspicious:
                torch = sys.modules["torch"]
                self.anomaly = (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
                self.evidence.gap_began = sequence_number()
                torch.set_anomaly_enabled(True, False)
        elif not self.over:
            self.watch.off()
            self.decide()
        if self.over and not self.idle:
            self.watch.on()  # up to the next region: an accumulated step comes after many samples

    def last_look(self) -> None:
        self.ordinary_mode()
        self.watch.off()
        self.changed_outside()
        if self.regions:
            self.decide()
        self.idle = True

    def ordinary_mode(self) -> None:
        """End our anomaly mode."""
        if self.anomaly is not None:
            sys.modules["torch"].set_anomaly_enabled(*self.anomaly)
            self.evidence.gap_ended = sequence_number()
            self.evidence.own_anomaly = self.anomaly[0]
            self.anomaly = None

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
        elif event.kind == "backward done" and self.inside:
            self.evidence.late = []
            self.versions = self.total()  # an optimizer may step within the backward
            self.watch.on_inference(self.evidence.weights())
        elif event.kind == "gradient" and self.inside:
            self.evidence.gradients += 1
        elif event.kind in ("eval", "train", "inference") and self.inside:
            self.evidence.late.append((event.kind, event.places))

    def note_step(self, event: Event) -> None:
        if event.nested:
            self.evidence.nested_step = True
        elif not self.over:
            self.evidence.steps.append((self.inside, event.places))
        if self.inside:
            self.evidence.late = []
        if self.evidence.counts is None:
            self.evidence.count(event.about)
            if self.over and not self.inside:
                self.evidence.changed_later = True
                self.decide()

    def note_backward(self, event: Event) -> None:
        tensors = event.about if isinstance(event.about, (list, tuple)) else (event.about,)
        graph = read_graph(tensors)
        stepped = any(not inside for inside, _ in self.evidence.steps)
        leaves = {id(leaf): leaf for leaf in graph.leaves}
        unread = "" if not self.inside else self.why_unread(graph)
        self.evidence.backwards.append(Backward(event.places, self.inside, stepped, leaves, unread))
        if not self.inside:
            return
        if not unread:
            self.compare(graph)
        if not self.tracked:
            self.tracked = [leaf for leaf in graph.leaves if leaf.requires_grad][:TRACKED]
        elif self.total() != self.versions:
            self.evidence.changed_inside = True

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
        older = graph.made_before(self.since)
        if self.regions == 0:
            self.suspicious = self.suspicious or bool(older)
            return
        if self.evidence.own_anomaly:  # then every node has its stack: only the gap's count
            began, ended = self.evidence.gap_began or 0, self.evidence.gap_ended or 0
            older = [node for node in older if began <= node._sequence_nr() < ended]
        stacks = [node.metadata.get("traceback_") for node in reversed(older)]
        self.evidence.outside += [places_in(stack) for stack in stacks if stack]

    # -- changes of parameters --------------------------------------------------------------------

    def total(self) -> int:
        """Grows with every change in place of a tracked parameter."""
        return sum(parameter._version for parameter in self.tracked)

    def changed_outside(self) -> None:
        if self.tracked and not self.inside and self.total() != self.versions:
            self.versions = self.total()
            self.evidence.changed_gap |= not self.over
            self.evidence.changed_later |= self.over
            if self.over:
                self.decide()

    # -- failures of our own ----------------------------------------------------------------------

    def guarded(self, action: Any) -> None:
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
