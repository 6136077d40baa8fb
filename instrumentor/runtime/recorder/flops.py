"""FLOPs of the first sample: counted op by op where it runs eagerly, else reported by tt-mlir.

The report is one file that every graph writes anew, and a script may read and remove it at once.
So it is looked for all the time, and read when Python code is about to open or remove it.
"""

import glob
import json
import os
import sys
import threading
import time
from typing import Any, Dict, Set, Tuple

from instrumentor.runtime.recorder.dispatched import enter_dispatch, leave_dispatch, op_name
from instrumentor.runtime.recorder.flop_formulas import flops_of
from instrumentor.runtime.recorder.living import living
from instrumentor.runtime.recorder.watch import Place, places_of

#: Where a report is written unless it is told otherwise, and where it is told to be.
PLACES = ("*.json", "perf_metrics/*.json")
#: Between two looks for reports; compiling a graph takes far longer.
EVERY_S = 0.02
#: Places of a stack that are kept.
DEEPEST = 8


class Counting:
    """FLOPs between start and stop, of each op that goes through torch's dispatcher.

    Attributes:
        uncounted: ops that compute and have no formula.
        looked_up: shapes of the token ids that went into a table of embeddings.
        called: by op, from where it was called, and how often; where torch_xla may run it.
    """

    def __init__(self) -> None:
        self.total = 0
        self.uncounted: Dict[str, int] = {}
        self.looked_up: Set[Tuple[int, ...]] = set()
        self.called: Dict[str, Dict[Tuple[Place, ...], int]] = {}
        self.mode: Any = None

    def start(self) -> None:
        """Begin, when nothing in this process is compiled and this torch can count."""
        if "torch" not in sys.modules or compiles():
            return
        traced = "torch_xla" in sys.modules

        def seen(func: Any, args: Any, named: Any, out: Any, frame: Any) -> None:
            self.add(func, args, named, out)
            if op_name(func) == "aten::embedding" and len(args) > 1:
                self.looked_up.add(tuple(int(size) for size in args[1].shape))
            if traced:
                self.note(op_name(func), frame)

        self.mode = enter_dispatch(seen)

    def add(self, func: Any, args: Tuple[Any, ...], named: Dict[str, Any], out: Any) -> None:
        """Count a call, or note that it cannot be."""
        flops = flops_of(func, args, named, out)
        if flops is None:
            name = op_name(func)
            self.uncounted[name] = self.uncounted.get(name, 0) + 1
        else:
            self.total += flops

    def note(self, op: str, frame: Any) -> None:
        """Remember the user's places on the stack of a call; a thread of torch's own has none."""
        known = self.called.setdefault(op, {})
        places = tuple(places_of(frame)[:DEEPEST])
        known[places] = known.get(places, 0) + 1

    def stop(self) -> int:
        """End; returns the FLOPs, 0 when nothing was counted."""
        if self.mode is not None:
            mode, self.mode = self.mode, None
            leave_dispatch(mode)
        return self.total


def compiles() -> bool:
    """Whether the script has handed anything to torch.compile, or may do so in the step."""
    if "torch.nn.attention.flex_attention" in sys.modules:  # compiles itself when it is called
        return True
    if "torch._dynamo" not in sys.modules:
        return False
    return bool(living(is_compiled))


def is_compiled(each: Any) -> bool:
    """Whether an object is a function that torch.compile made."""
    known = getattr(each, "__dict__", None) if type(each) is type(compiles) else None
    if not known:
        return False
    return "_torchdynamo_orig_callable" in known and "_torchdynamo_disable" not in known


class CompilerReports:
    """Reports that are written from now on."""

    def __init__(self) -> None:
        self.open = True
        self.since = time.time()
        self.seen: Set[Tuple[str, int]] = set()
        self.flops = self.peak = self.graphs = 0
        self.lock, self.reading = threading.Lock(), threading.local()
        self.watched = "tt_crank" in sys.modules or "torch_xla" in sys.modules
        if self.watched:
            # An audit hook cannot be removed: after the end it only does nothing.
            sys.addaudithook(self.hear)
            threading.Thread(target=self.watch, daemon=True).start()

    def hear(self, event: str, arguments: Tuple[Any, ...]) -> None:
        """Read a report that is about to be read or removed."""
        if self.open and event in ("open", "os.remove") and str(arguments[0]).endswith(".json"):
            if not getattr(self.reading, "now", False):
                self.read(os.path.abspath(str(arguments[0])))

    def watch(self) -> None:
        """Read whatever is written, until the end."""
        while self.open:
            self.look()
            time.sleep(EVERY_S)

    def look(self) -> None:
        """Read what is there."""
        for path in (path for place in PLACES for path in glob.glob(place)):
            self.read(os.path.abspath(path))

    def read(self, path: str) -> None:
        """Add up a file, if it is a report and not known."""
        self.reading.now = True  # what is opened here is not to be heard
        with self.lock:
            try:
                written = os.stat(path).st_mtime_ns
                if (path, written) not in self.seen and written >= self.since * 1e9:
                    self.add(path)
                    self.seen.add((path, written))
            except Exception:  # no report
                pass
        self.reading.now = False

    def add(self, path: str) -> None:
        with open(path, encoding="utf-8") as stream:
            flops = json.load(stream)["flops"]
        total, peak = int(flops["total_flops"]), int(flops["peak_flops_per_sec"])
        self.flops, self.peak = self.flops + total, max(self.peak, peak)
        self.graphs += 1

    def close(self) -> Dict[str, Any]:
        """Read what is there; returns what all reports say together, {} without one."""
        if self.watched:
            self.look()
        self.open = False
        if not self.graphs or not self.peak:
            return {}
        return {"reported_flops": self.flops, "reported_peak": self.peak, "graphs": self.graphs}
