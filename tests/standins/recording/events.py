"""The order of events: what the stand-ins append to, and what a test reads.

An event is a string: ``forward``, ``backward``, ``sync``, ``wait``, ``clock``, ``item``,
``optimizer``, ``validate``, ``checkpoint``, ``debugger``, ``finally``, ``signpost NAME``,
``print TEXT``.
"""

import builtins
import itertools
import pdb
import sys
import time

log = []
drawn = {}
_perf_counter = time.perf_counter
# A millisecond a reading: what is decided by times is the same however busy the machine is.
_seconds = (reading / 1000 for reading in itertools.count())
_print = print
_set_trace = pdb.set_trace
_breakpoint = breakpoint


def add(event):
    log.append(event)


def number(sequence=""):
    """The next float in [0.1, 1.1) of a fixed sequence; what is skipped shifts no other one."""
    drawn[sequence] = drawn.get(sequence, 0) + 1
    return 0.1 + (drawn[sequence] * 7919 % 1000) / 1000.0


def reset():
    log.clear()
    drawn.clear()


def _clock():
    if sys._getframe(1).f_code.co_name in ("begin", "end"):  # the recorder's, not the script's
        add("clock")
    return next(_seconds)


def _recorded_print(*values, sep=" ", end="\n", file=None, flush=False):
    text = sep.join(map(str, values))
    if file in (None, sys.stdout) and "[TIMER]" not in text and text.strip("=\n"):
        add("print " + text)


def install():
    """Record the clock's readings, every print and every debugger from here on."""
    time.perf_counter = _clock
    builtins.print = _recorded_print
    pdb.set_trace = builtins.breakpoint = lambda *args, **keywords: add("debugger")


def uninstall():
    time.perf_counter = _perf_counter
    builtins.print = _print
    pdb.set_trace, builtins.breakpoint = _set_trace, _breakpoint
