"""Learns from a script as it is where its step lies: one whole iteration under torch's eyes.

An iteration is what happens from a step of one optimizer to the next step of the same one. The
loop is the innermost function that was running at both. In between, anomaly mode keeps the stack
of every node's making, so the graph of a backward tells where its forward ran, in any library and
behind any alias. The script ends at the second step; what it learnt is the event ``observed``.
"""

import sys
from typing import Any, List, Optional, Tuple

from instrumentor.runtime.recorder.graph import read_graph
from instrumentor.runtime.recorder.judging import Evidence
from instrumentor.runtime.recorder.places import FRAME, Place, is_users
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.watch import Event, Watch

DEEPEST = 60  # places of a chain


class Observer:
    """Watches from the import of torch to the second step of an optimizer."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.watch = Watch(self.seen)
        self.optimizer: Any = None
        self.frames: List[Any] = []  # of its first step, which are kept alive
        self.counts = Evidence()
        self.forwards: List[Tuple[int, List[Place]]] = []  # (number of the node, chain)
        self.backwards: List[List[Place]] = []
        self.steps: List[List[Place]] = []
        self.optimizers: List[str] = []

    def start(self) -> None:
        """From here on."""
        if self.records.ours:
            self.watch.on()

    def seen(self, event: Event) -> None:
        if not self.records.ours:
            return
        if event.kind == "step" and self.optimizer is None:
            self.optimizer, self.frames = event.about, stack()
            self.counts.count(event.about)
            sys.modules["torch"].set_anomaly_enabled(True, False)
        elif event.kind == "step":
            self.steps.append(chain_of(stack()))
            self.optimizers.append(type(event.about).__name__)
            if event.about is self.optimizer:
                self.finish()
        elif event.kind == "backward" and self.optimizer is not None and not event.nested:
            self.backwards.append(chain_of(stack()))
            self.read(event.about)

    def read(self, outputs: Any) -> None:
        """Where the nodes that feed a backward were made."""
        tensors = outputs if isinstance(outputs, (list, tuple)) else (outputs,)
        for node in read_graph(tensors).nodes:
            lines = node.metadata.get("traceback_")
            if lines:
                self.forwards.append((numbered(node), chain_in(lines)))

    def finish(self) -> None:
        """Write what was learnt, and end the script."""
        self.watch.off()
        sys.modules["torch"].set_anomaly_enabled(False)
        now = {id(frame) for frame in stack()}
        loop = next((frame for frame in self.frames if id(frame) in now), None)
        mine = next((f for f in self.frames if id(f) in now and is_users(*named(f))), None)
        self.forwards.sort(key=lambda each: each[0])
        chains = {
            "forward": [chain for _, chain in self.forwards[:1]],
            "backward": self.backwards,
            "step": self.steps,
        }
        self.records.write(
            "observed",
            loop=None if loop is None else place_of(loop),
            users=None if mine is None else place_of(mine),
            forward=self.lines(loop, [chain for _, chain in self.forwards]),
            backward=self.lines(loop, chains["backward"]),
            step=self.lines(loop, chains["step"]),
            chains=chains,
            optimizers=self.optimizers,
            parameters=self.counts.counts,
        )
        self.records.write("complete", samples=0)
        raise SystemExit(0)

    def lines(self, loop: Any, chains: List[List[Place]]) -> List[int]:
        """The lines of the loop's function through which chains go, in order of time."""
        found: List[int] = []
        wanted = None if loop is None else named(loop)
        for chain in chains:
            line = next((n for file, n, name in chain if (file, name) == wanted), None)
            if line is not None and line not in found:
                found.append(line)
        return found


def stack() -> List[Any]:
    """The frames that are running, innermost first, without those of this module."""
    found = []
    frame: Optional[Any] = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is not globals() and "_dynamo" not in frame.f_code.co_filename:
            found.append(frame)
        frame = frame.f_back
    return found


def named(frame: Any) -> Tuple[str, str]:
    return frame.f_code.co_filename, frame.f_code.co_name


def place_of(frame: Any) -> Place:
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def chain_of(frames: List[Any]) -> List[Place]:
    return [place_of(frame) for frame in frames[:DEEPEST]]


def chain_in(lines: List[str]) -> List[Place]:
    """The same of a formatted stack, which is outermost first."""
    found = [FRAME.match(line) for line in lines]
    places = [(m.group(1), int(m.group(2)), m.group(3).strip()) for m in found if m is not None]
    return places[::-1][:DEEPEST]


def numbered(node: Any) -> int:
    """Autograd's number of a node; 0 before torch 2.1."""
    return int(node._sequence_nr()) if hasattr(node, "_sequence_nr") else 0
