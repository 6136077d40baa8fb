"""FLOPs that tt-mlir reports of each graph it compiles, caught while the first sample lasts.

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

#: Where a report is written unless it is told otherwise, and where it is told to be.
PLACES = ("*.json", "perf_metrics/*.json")
#: Compiling a graph takes far longer.
EVERY_S = 0.02


class CompilerReports:
    """Reports that are written from now on."""

    def __init__(self) -> None:
        self.open = True
        self.since = time.time()
        self.seen: Set[Tuple[str, int]] = set()
        self.flops = 0
        self.peak = 0
        self.graphs = 0
        self.lock, self.reading = threading.Lock(), threading.local()
        self.watched = "tt_crank" in sys.modules or "torch_xla" in sys.modules
        if self.watched:
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
        for place in PLACES:
            for path in glob.glob(place):
                self.read(os.path.abspath(path))

    def read(self, path: str) -> None:
        """Add up a file, if it is a report and not known."""
        self.reading.now = True  # what is opened here is not to be heard
        with self.lock:
            self.add(path)
        self.reading.now = False

    def add(self, path: str) -> None:
        """As :meth:`read`, by one thread at a time."""
        try:
            written = os.stat(path).st_mtime_ns
            if (path, written) in self.seen or written < self.since * 1e9:
                return
            with open(path, encoding="utf-8") as stream:
                flops = json.load(stream)["flops"]
            total, peak = int(flops["total_flops"]), int(flops["peak_flops_per_sec"])
        except Exception:  # no report
            return
        self.seen.add((path, written))
        self.flops += total
        self.peak = max(self.peak, peak)
        self.graphs += 1

    def close(self) -> Dict[str, Any]:
        """Read what is there; returns what all reports say together, {} without one."""
        if self.watched:
            self.look()
        self.open = False
        if not self.graphs or not self.peak:
            return {}
        return {"reported_flops": self.flops, "reported_peak": self.peak, "graphs": self.graphs}
