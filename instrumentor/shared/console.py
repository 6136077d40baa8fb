"""Every word that reaches the terminal: progress on stderr, results on stdout.

What a script prints, a file is called or a table holds is shown, never obeyed by the terminal.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from instrumentor.shared.errors import InstrumentError
from instrumentor.shared.project import below_here
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.shared.caveats import Caveat, by_weight, together, without
from instrumentor_analysis.shared.units import quantity

_DIFF_COLORS = {"+++": "bold", "---": "bold", "@@": "cyan", "+": "green", "-": "red"}


_COLOR = re.compile(r"(\x1b\[[0-9;]*m)")

# What our own words and reports hold, for a terminal that cannot show it.
_SPELLED = {"±": "+-", "μ": "u", "µ": "u", "·": "-", "•": "*", "…": "...", "─": "-", "█": "#"}


def visible(text: str) -> str:
    """Text of others with its control characters as text: ``\\x1b``; its lines stay lines."""
    return formatting.visible(text, keep="\n\t")


def _foreign(text: str) -> str:
    """What is said of others' names, which may have any length."""
    return visible(formatting.bounded(as_typed(text)))


def _shown(text: str, painted: bool) -> str:
    """A line of ours, in which colours may stand when it was painted."""
    if not painted:
        return visible(text)
    return "".join(p if _COLOR.fullmatch(p) else visible(p) for p in _COLOR.split(text))


def _broken(text: str, indent: int) -> list[str]:
    """The lines of a text behind a start of so many columns: on a terminal broken between words,
    and indented."""
    columns = shutil.get_terminal_size((100, 24)).columns
    if not sys.stderr.isatty() or indent + formatting.width(text) <= columns:
        return [text]
    from instrumentor_analysis.reports.terminal import indented

    first, *others = indented(text, columns, " " * indent)
    return [first[indent:], *others]


def _spell(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    wanted = error.object[error.start : error.end]
    known = (_SPELLED.get(c, c) for c in wanted)
    return "".join(c.encode("ascii", "backslashreplace").decode() for c in known), error.end


def accept_every_character() -> None:
    """Let no word fail for want of a character: a plain locale, a file name that is no text."""
    codecs.register_error("instrument", _spell)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="instrument")


def colored(stream: TextIO) -> bool:
    """Colour only on a terminal, never with NO_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Columns of the terminal; 100 where the output goes elsewhere, or what COLUMNS says."""
    if sys.stdout.isatty():
        return shutil.get_terminal_size((100, 24)).columns
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdigit() and int(columns) > 0 else 100


def shown(path: Path) -> str:
    """A path as the user would type it: relative where it lies below the working directory."""
    return str(below_here(path) or path)


def as_typed(text: str) -> str:
    """A message with its paths below the working directory as the user would type them."""
    try:
        cwd = str(Path.cwd())
    except OSError:  # it is gone
        return text
    if cwd == os.sep:
        return text
    # Not within a longer path, nor in a file:// address.
    return re.sub(rf"(?<![\w./-]){re.escape(cwd)}/(?=[^\s/])", "", text)


def quoted(*words: Path | str) -> str:
    """Words of a command as a shell takes them, for a line that is to be pasted."""
    return shlex.join(word(each) if isinstance(each, Path) else each for each in words)


def word(path: Path) -> str:
    """A path as one word of a command: none that begins with `-`, which would be an option."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def paint(text: str, color: str, stream: TextIO) -> str:
    """The text in a colour, where the stream takes colours."""
    if not colored(stream):
        return text
    from instrumentor_analysis.reports.terminal import painter

    return painter(True)(text, color)


class _Status:
    """The last line of a terminal: what goes on now. Whatever is printed takes its place."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # the narrator's thread draws between two words of ours
        self.drawn = False

    @staticmethod
    def possible() -> bool:
        """Whether stderr is a terminal that can go back to the start of a line."""
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def print(self, text: str, stream: TextIO, end: str = "\n") -> None:
        with self.lock:
            self.wipe()
            if stream is sys.stderr:
                # In one file or pipe the two stand in the order in which they were written. That
                # nobody reads any more is found when the results are written.
                with contextlib.suppress(BrokenPipeError):
                    sys.stdout.flush()
            print(text, end=end, file=stream, flush=stream is sys.stderr)

    def draw(self, texts: Sequence[str]) -> None:
        """The first of these that fits, else the last one cut."""
        columns = shutil.get_terminal_size((100, 24)).columns
        text = next((each for each in texts if len(visible(each)) < columns), texts[-1])
        # Not in the last column: some terminals wrap there, and \r returns to the wrong line.
        with self.lock:
            self.drawn = True
            print(f"\r\x1b[K{visible(text)[: columns - 1]}", end="", file=sys.stderr, flush=True)

    def wipe(self) -> None:
        with self.lock:
            if self.drawn:
                self.drawn = False
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)


_status = _Status()


def out(text: str = "", *, painted: bool | None = None) -> None:
    """A line of the result; painted where colours were asked for, whatever the stream is."""
    _status.print(_shown(text, colored(sys.stdout) if painted is None else painted), sys.stdout)


def out_wrapped(text: str, first: str = "", widest: int = 0) -> None:
    """A paragraph of the result; broken between words on a terminal alone.

    Args:
        first: what its first line begins with; the others are indented.
        widest: lines of no more columns, however wide the terminal is.
    """
    from instrumentor_analysis.reports.terminal import indented

    if not sys.stdout.isatty():
        out(first + text)
        return
    width = min(terminal_width(), widest) if widest else terminal_width()
    for line in indented(text, width, first, "  "):
        out(line)


def show(
    render: Callable[..., str], what: object, *, painted: bool | None = None, **how: Any
) -> None:
    """What a report says of something, for this terminal; further options are the report's."""
    color = colored(sys.stdout) if painted is None else painted
    text = render(what, width=terminal_width(), color=color, **how)
    out(text.rstrip("\n"), painted=painted)


def raw(text: str) -> None:
    """Text of the result as it is (a diff keeps its own line ends)."""
    _status.print(text, sys.stdout, end="")
    sys.stdout.flush()


def out_json(value: object) -> None:
    """The result as JSON."""
    _status.print(json.dumps(value, indent=2), sys.stdout)


def say(text: str) -> None:
    """A line about the work."""
    _status.print(_shown(text, colored(sys.stderr)), sys.stderr)


def warn(text: str) -> None:
    """A warning."""
    say(f"{paint('warning:', 'yellow', sys.stderr)} {_foreign(text)}")


def warn_all(
    caveats: Iterable[Caveat], *, notes: bool = False, ignored: Collection[str] = ()
) -> None:
    """The warnings of a plan or a run, the heaviest first; notes on demand only.

    Args:
        ignored: codes of those that nobody wants to see; how many there are is said.
    """
    for each in together(by_weight(without(caveats, ignored), notes=notes)):
        if each.weight == "note":
            say(f"{paint('note:', 'dim', sys.stderr)} {_foreign(each.labelled)}")
        else:
            warn(each.labelled)


def fail(error: InstrumentError) -> None:
    """An error as what / do this."""
    say(f"{paint(f'{error.word}:', 'red', sys.stderr)} {_foreign(error.message)}")
    if error.hint:
        say(f"{paint('hint:', 'bold', sys.stderr)} {_foreign(error.hint)}")


def diff(patch: bytes) -> None:
    """A unified diff: exact bytes, to be applied; on a terminal coloured, to be read."""
    if not colored(sys.stdout) and not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(patch)
        sys.stdout.flush()
        return
    for line in patch.decode("utf-8", "backslashreplace").removesuffix("\n").split("\n"):
        color = next((c for start, c in _DIFF_COLORS.items() if line.startswith(start)), "")
        line = visible(line)
        raw(paint(line, color, sys.stdout) + "\n" if color else line + "\n")


def counts_line(counts: dict[str, int], steps: int | None, rest: str = "") -> str:
    """What would be changed, in one line.

    Args:
        rest: of the steps, where they end with an update.
    """
    done = (
        _some("insert at", counts["inserted"], "place"),
        _some("move", counts["moved"], "statement"),
        _some("disable", counts["disabled"], "statement"),
    )
    edits = ", ".join(each for each in done if each) or "change nothing"
    stop = "when the median is known" if steps is None else f"after {steps} steps{rest}"
    return f"Would {edits}: signposts, timers, barrier, stop {stop}"


def _some(verb: str, count: int, what: str) -> str:
    return f"{verb} {count} {what}{'' if count == 1 else 's'}" if count else ""


def _short(text: str) -> str:
    """Its first words."""
    return text if len(text) <= SHORT else text[:SHORT].rpartition(" ")[0]


def progress_bar() -> Callable[[int, int], None]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda done, total: None

    def show(done: int, total: int) -> None:
        if done % 16 and done != total:  # results come in chunks of 16, see corpus.survey
            return
        end = "\n" if done == total else ""
        print(f"\r{_bar(done, total)}", end=end, file=sys.stderr, flush=True)

    return show


def _bar(done: int, total: int, width: int = 40) -> str:
    filled = width * done // max(total, 1)
    return f"[{'#' * filled}{'-' * (width - filled)}] {done}/{total}"


SHORT = 28  # letters of what goes on, where there is no room for more
MOST_STEPS = 10  # that have a line of their own
_MEASURING = "measuring:"  # the others
_OF_STEPS = " of steps"  # the time that is still to come, not of all that follows
#: Why the recorder has enough of so many samples.
_ENOUGH = {
    "precise": "the median is known to 1 % after {} samples; stopping the script",
    "budget": "the time is up after {} samples (--time-budget); stopping the script",
    "busy": "the machine is too busy for a figure, and more steps would not help; stopping the "
    "script after {} samples",
    "most": "200 samples are taken, the most of one run; stopping the script",
}
_ALL = "all {} samples are taken; stopping the script"
_ONE = "the one sample is taken; stopping the script"
SILENCE_S = 10.0  # nothing is said for so long, or for a third of what goes on by now
#: Samples from which their pace tells how long the others take.
_PACE_STEPS = 2
_BEAT_S = 1.0  # between two states of the status line
#: How a stage is told, and what goes on behind that line.
_STAGES = {
    "found": ("Found the loop at", "looking at the interpreter and the devices"),
    "interpreter": ("Interpreter", "looking at the devices"),
    "profiler": ("Profiler", "preparing the copy and the device"),
    "copied": ("Copied", "starting the script"),
    "linked": ("Linked", "starting the script"),
    "in place": ("Swapped", "starting the script"),
    "untraced": ("Running", "starting the script"),
    "discover": ("Looking for the step:", "running the unmodified script"),
    "reset": ("Resetting", "resetting"),
    "running": ("Running", "running the script: nothing measured so far"),
    "simulating": ("Simulating on", "simulating the kernel"),
    "analysing": ("Analysing", "analysing"),
    "pair": ("Pair", "running this version"),
    "Validating": ("Validating", "validating"),
}


class Narrator:
    """Progress of a run as lines: the stage, each sample as it comes, elapsed time.

    On a terminal the last line says at each second what goes on, with a bar where it is known how
    many samples or trials there will be.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False, total: int = 0) -> None:
        self.quiet = quiet
        self.total = total  # samples of a pass
        self.verbose = verbose
        self.start = self.heard = self.since = time.monotonic()
        self.doing = "reading the script"
        self.steps = 0
        self.profiled = 0  # steps under torch.profiler
        self.budget_s: float | None = None  # of a pass whose number of samples is open
        self.first: float | None = None  # when its first sample came
        self.steady: float | None = None  # and the first that the budget counts
        self.complete = False  # no more samples are to come

    def _say(self, text: str) -> None:
        self.heard = time.monotonic()
        if not self.quiet:
            stamp = f"[{self.heard - self.start:6.1f} s] "
            lines = _broken(_foreign(text), len(stamp))
            say("\n".join((paint(stamp, "dim", sys.stderr) + lines[0], *lines[1:])))

    @contextlib.contextmanager
    def alive(self) -> Iterator[None]:
        """While the block runs, no silence is longer than :data:`SILENCE_S`."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_BEAT_S):
                self.beat(time.monotonic())

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()  # ahead of the wipe: it could draw once more
            _status.wipe()

    @classmethod
    @contextlib.contextmanager
    def during(cls, doing: str, *, quiet: bool = False) -> Iterator[None]:
        """Say regularly that the block, which reports nothing itself, goes on."""
        narrator = cls(quiet=quiet)
        narrator.doing = doing
        with narrator.alive():
            yield

    def beat(self, now: float) -> None:
        """Say what goes on, and for how long: on a terminal always, else after a while."""
        if not self.quiet and _status.possible():
            total = max(self.steps, self.total)
            bar, count = f"{_bar(self.steps, total, 20)} ", f"{self.steps}/{total} "
            if not (self.total and self.steps):
                bar = count = ""
            # What it will still take is looked for at the end: the rest makes room for it.
            start, times, short = (
                f"[{now - self.start:6.1f} s] ",
                self._times(now),
                _short(self.doing),
            )
            ways = (
                (bar, self.doing, times),
                (count, self.doing, times),
                (count, short, times),
                (count, short, self._times(now, briefly=True)),
            )
            _status.draw([start + "".join(each) for each in ways])
        elif now - self.heard >= max(SILENCE_S, (now - self.since) / 3):
            self._say(f"  still {self.doing}{self._times(now)}")

    def _times(self, now: float, *, briefly: bool = False) -> str:
        """For how long, where that is a second or more, and how long it will still take.

        Args:
            briefly: without saying since when, and of what.
        """
        waited = "" if now - self.since < 0.5 else f"{now - self.since:.0f} s"
        if waited and not briefly and self.doing.startswith(_MEASURING):
            waited += " since the last"  # and not since the first
        left = self._left(now)
        left = left.replace(_OF_STEPS, "") if briefly else left
        times = ", ".join(filter(None, (waited, left)))
        return f" ({times})" if times else ""

    def _left(self, now: float) -> str:
        """How long the samples will still take, once two are known; empty where none is to come."""
        if self.steps < _PACE_STEPS or self.first is None or self.complete:
            return ""
        spent = now - self.first
        if self.total > self.steps:
            left = spent / (self.steps - 1) * (self.total - self.steps)
            return f"about {left:.0f} s left"
        if self.budget_s is not None and self.steady is not None:
            left = self.budget_s - (now - self.steady)
            return f"at most {left:.0f} s{_OF_STEPS} left" if left > 0 else ""
        return ""

    def _now(self, doing: str) -> None:
        """What goes on from the last line on."""
        self.doing, self.since = doing, self.heard

    def stage(self, name: str, detail: str) -> None:
        """A stage begins."""
        if name == "running":
            self.steps, self.profiled = 0, 0  # of this pass
            self.first, self.steady, self.complete = None, None, False
        elif name == "analysing":
            self.total = 0
        word, doing = _STAGES.get(name, (name, f"at it: {name} {detail}"))
        self._say(f"{word} {detail}")
        self._now(doing)

    def record(self, record: Mapping[str, Any]) -> None:
        """A sample or a warning of the script."""
        event = record.get("event")
        if event == "sample":
            self._sample(record)
        elif event == "profiled":
            self._profiled(float(record["ms"]))
        elif event == "ending":
            self.doing = "ending the script"
        elif event == "steady":
            count = len(record["names"])
            taken = "one of its warm-up steps is" if count == 1 else f"{count} warm-up steps are"
            self._say(f"  the script has ended; {taken} taken as steady, there were too few others")
        elif event == "phases":
            self.doing = "timing each phase of the iteration"
            self.complete = True
        elif event == "observed":
            self._say("  its step is found; stopping the script")
        elif event == "complete" and self.steps:
            self.complete = True
            ended = _ENOUGH.get(str(record.get("why")), _ALL if self.steps > 1 else _ONE)
            self._say(f"  {ended.format(self.steps)}")
            self._now("waiting for the script to end and for the profiler's report")
        # A kernel has no steps.
        elif event == "load" and not self.steps and self.doing != _STAGES["simulating"][1]:
            self.doing = "waiting for the first step (imports, data, compiling)"

    def _sample(self, record: Mapping[str, Any]) -> None:
        self.steps += 1
        # As in the reports, where the first one is step 0.
        number, kind = record.get("index", self.steps - 1), record.get("kind")
        if self.verbose or self.steps <= MOST_STEPS:
            compiled = "compiled" if record.get("compiled") else "first step"
            ms = quantity(float(record["ms"]), "ms")
            said = compiled if kind == "compile" else kind
            self._say(f"  step {number}: {record['label']} {ms} ({said})")
        self.first = self.heard if self.first is None else self.first
        if self.steady is None and kind == "steady":
            self.steady = self.heard
        self._now(f"waiting for step {number + 1}")
        if not self.verbose and self.steps > MOST_STEPS:
            self.doing = f"{_MEASURING} {self.steps} steps so far"
            self.since = time.monotonic()

    def _profiled(self, ms: float) -> None:
        self.profiled += 1
        if self.profiled == 1:
            self._say(f"  one step under the profiler: {quantity(ms, 'ms')}")
            self.doing = "waiting for the next step"
        else:
            self._now("profiling some more steps")

    def line(self, text: str) -> None:
        """A line of the script's output; of one that was written over and over, the last state."""
        if self.verbose:
            self.heard = time.monotonic()
            say(f"  | {visible(text.rstrip().rpartition(chr(13))[2])}")

    def note(self, text: str) -> None:
        """A stall or an ending."""
        warn(text)
