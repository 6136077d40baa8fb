"""Learns from a script as it is where its step lies: one whole iteration under torch's eyes.

An iteration is what happens from a step of one optimizer to the next step of the same one. The
loop is the innermost function that was running at both. In between, anomaly mode keeps the stack
of every node's making, so the graph of a backward tells where its forward ran, in any library and
behind any alias. The script ends at the second step; what it learnt is the event ``observed``.
"""

import importlib.util
import sys
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from instrumentor.runtime.recorder.graph import read_graph
from instrumentor.runtime.recorder.judging import count_parameters
from instrumentor.runtime.recorder.records import Records
from instrumentor.runtime.recorder.watch import (
    Event,
    Place,
    Watch,
    formatted_places,
    is_users,
    place_of,
)

DEEPEST_PLACE = 60  # places of a chain
MOST_CHAINS = 1000  # of one kind: a record of more is none of ours
#: What a frame was doing: the frame, the number of its instruction, the frame that it was calling.
Doing = Tuple[Any, int, Any]


class AfterTorch:
    """A finder of modules that lets others find torch, and acts when it has been executed.

    Importing torch ourselves would come before the script's own settings of the environment.
    """

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The usual spec of torch, its execution followed by the action; None for all others."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                self.action()

            # Of this loader alone: torch may ask its own for resources, so no other stands in.
            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class Observer:
    """Watches from the import of torch to the second step of an optimizer."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.watch = Watch(self.seen)
        self.optimizer: Any = None
        self.frames: List[Any] = []  # of its first step, which are kept alive
        self.parameters: Dict[str, int] = {}
        self.forwards: List[Tuple[int, List[Place]]] = []  # (number of the node, chain)
        self.backwards: List[List[Place]] = []
        self.steps: List[List[Place]] = []
        self.doing: Dict[str, List[List[Doing]]] = {"backward": [], "step": []}

    def start(self) -> None:
        """Begin to watch, in the process that trains."""
        if self.records.active:
            self.watch.on()

    def seen(self, event: Event) -> None:
        if not self.records.active:
            return
        if event.kind == "step" and self.optimizer is None:
            self.optimizer, self.frames = event.about, running_frames()
            self.doing["step"].append(what_frames_do())
            self.parameters = count_parameters(event.about)
            # Without the nan check, which would raise in a script that survives a nan.
            sys.modules["torch"].set_anomaly_enabled(True, False)
        elif event.kind == "step":
            self.steps.append(running_chain())
            self.doing["step"].append(what_frames_do())
            if event.about is self.optimizer:
                self.finish()
        elif event.kind == "backward" and self.optimizer is not None and not event.nested:
            self.backwards.append(running_chain())
            self.doing["backward"].append(what_frames_do())
            self.read(event.about)

    def read(self, outputs: Any) -> None:
        """Note where the nodes that feed a backward were made."""
        tensors = outputs if isinstance(outputs, (list, tuple)) else (outputs,)
        for node in read_graph(tensors).nodes:
            lines = node.metadata.get("traceback_")
            if lines:  # before torch 2.1 a node has no number
                number = getattr(node, "_sequence_nr", int)()
                self.forwards.append((number, formatted_places(lines)[:DEEPEST_PLACE]))

    def finish(self) -> None:
        """Write what was learnt, and end the script."""
        self.watch.off()
        sys.modules["torch"].set_anomaly_enabled(False)
        now = set(map(id, running_frames()))
        frames = [frame for frame in self.frames if id(frame) in now]
        both = [place_of(frame) for frame in frames]
        loop = both[0] if both else None
        self.forwards.sort(key=lambda each: each[0])
        forwards = [places for _, places in self.forwards]
        self.records.write(
            "observed",
            loop=loop,
            users=next((place for place in both if is_users(place[0], place[2])), None),
            forward=lines_within(loop, forwards),
            backward=lines_within(loop, self.backwards),
            step=lines_within(loop, self.steps),
            in_turns=bool(frames) and in_turns(frames[0], **self.doing),
            chains={
                "forward": telling(forwards),
                "backward": distinct(self.backwards),
                "step": distinct(self.steps),
            },
            parameters=self.parameters,
        )
        # The tool ends the run if it still goes on some seconds after this.
        self.records.write("complete", samples=0)
        raise SystemExit(0)


def telling(chains: List[List[Place]]) -> List[List[Place]]:
    """The first of some chains, and each in which a function ran that is in none before it."""
    kept: List[List[Place]] = []
    met: Set[Tuple[str, str]] = set()
    for chain in chains:
        ran = {(file, function) for file, _, function in chain}
        if not ran <= met:
            kept.append(chain)
            met |= ran
    return kept


def distinct(chains: List[List[Place]]) -> List[List[Place]]:
    """The first of equal chains, of which there may be thousands: one of each micro-batch."""
    kept = [list(chain) for chain in dict.fromkeys(map(tuple, chains))]
    return kept[:MOST_CHAINS]


def lines_within(loop: Optional[Place], chains: List[List[Place]]) -> List[int]:
    """The lines of the loop's function through which chains go, in order of time."""
    file, _, function = loop or ("", 0, "")
    lines = ([n for at, n, name in chain if (at, name) == (file, function)] for chain in chains)
    return [*dict.fromkeys(found[0] for found in lines if found)]


def in_turns(loop: Any, backward: List[List[Doing]], step: List[List[Doing]]) -> bool:
    """Whether a call in the loop runs a backward, and in another turn the step, never both."""
    backwards, steps = (
        {(at, id(called)) for chain in chains for frame, at, called in chain if frame is loop}
        for chains in (backward, step)
    )
    shared = {at for at, _ in backwards} & {at for at, _ in steps}
    return bool(shared) and not backwards & steps


def what_frames_do() -> List[Doing]:
    """Of each running frame what it is doing, innermost first."""
    frames = running_frames()
    return [(f, f.f_lasti, frames[n - 1] if n else None) for n, f in enumerate(frames)]


def running_frames() -> List[Any]:
    """The frames that are running, innermost first, without those of this module."""
    found = []
    frame: Optional[Any] = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is not globals() and "_dynamo" not in frame.f_code.co_filename:
            found.append(frame)
        frame = frame.f_back
    return found


def running_chain() -> List[Place]:
    return [place_of(frame) for frame in running_frames()[:DEEPEST_PLACE]]
