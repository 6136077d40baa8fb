"""Known failures in a log: what happened, why, and what to do; and what to show of unknown ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from instrumentor_analysis.shared.files import read_text

TABLE = Path(__file__).with_name("failures.yaml")


class Failure(Struct, frozen=True, dict=True):
    """A row of the table; its comment says what each column is for.

    Attributes:
        text: stands in a log that shows this failure.
        pattern: what is matched where the text stands; its named groups may be used in ``cause``
            and ``remedy``. Empty: the text itself.
        seen: a page that shows the text.
        sample: a log that shows it.
        on_success: worth telling even when the run ended with 0.
        harmless: no failure, and never the reason of one.
        cause_if_ran, remedy_if_ran: of a run whose samples show that the script ran, where the
            others do not fit such a run.
    """

    name: str
    text: str
    title: str
    cause: str
    remedy: str
    seen: str
    sample: str
    pattern: str = ""
    on_success: bool = False
    harmless: bool = False
    cause_if_ran: str = ""
    remedy_if_ran: str = ""

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """What is searched for; it may span lines."""
        return re.compile(self.pattern or re.escape(self.text))


@cache
def failures() -> tuple[Failure, ...]:
    """All rows, in the order in which they are tried."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one takes a tenth of the time
    rows = yaml.load(read_text(TABLE), Loader=loader)
    return tuple(Failure(**row) for row in rows)


class Diagnosis(Struct, frozen=True):
    """A failure found in a log.

    Attributes:
        line: the line of the log that shows it, or the first of them.
        line_number: 1-based.
        link: a page that shows it.
        harmless: no failure, and never the reason of one.
    """

    name: str
    title: str
    cause: str
    remedy: str
    line: str
    line_number: int
    link: str = ""
    harmless: bool = False

    @property
    def page(self) -> str:
        """The link, where it shows this failure; empty for one that every program can have."""
        # A whole repository is no page about a failure.
        return self.link if urlsplit(self.link).path.count("/") > _OF_REPOSITORY else ""


_OF_REPOSITORY = 2  # slashes in the path of one: /owner/name
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
LONGEST_TRACEBACK = 200_000  # characters
LONGEST_LINE = 2000  # characters that are shown
_TRACEBACK = "Traceback (most recent call last):"
# tt-metal's errors name the place of an assertion first, and the cause on lines of their own.
_CAUSE = re.compile(r"\ninfo:\n((?:(?!backtrace:).*\n){1,20}?)backtrace:")
# A SyntaxError in the script itself comes without the line `Traceback ...`, and shows few lines.
_SYNTAX = re.compile(
    r'^ +File ".*", line \d+\n(?: .*\n){1,20}(?:SyntaxError|IndentationError|TabError): .*',
    re.MULTILINE,
)
_TELLING = re.compile(
    r"error|exception|fatal|critical|fail|abort|assert|panic|killed|segmentation|timed? ?out|"
    r"refused|denied|cannot|can't|unable|not found|no such|missing|invalid|unsupported|"
    r"out of memory|TT_THROW",
    re.IGNORECASE,
)
# What a program says to its developers, and its settings: `| DEBUG |`, `Config{throw_exception=..`.
_QUIET = re.compile(r"^\|?\s*(DEBUG|TRACE)\b|^\w*\{\w+=", re.IGNORECASE)
EXAMINED = 50_000  # lines from either end of a log that may hold millions
_STAMP = re.compile(r"^[\d\-:., |T]+")  # a repeated line differs in its time alone
# Raised by the wrapper because the script failed: a consequence, never the cause.
_WRAPPER_ERRORS = ("subprocess.CalledProcessError", "KeyboardInterrupt")


def diagnose(
    log: str, returncode: int | None = None, *, ran: bool = False
) -> tuple[Diagnosis, ...]:
    """The known failures in a log, the most specific first, each once.

    Args:
        log: output of the script and of the profiler.
        returncode: of the run; after 0 only what spoils a good run is told. None: unknown.
        ran: there are samples, so the script did run.
    """
    text = plain(log)
    claimed: set[int] = set()
    found: dict[str, Diagnosis] = {}
    for failure in failures():
        if failure.text not in text:
            continue
        first, counted = 1, 0
        for match in failure.expression.finditer(text):
            first += text.count("\n", counted, match.start())
            counted = match.start()
            lines = range(first, first + match.group().count("\n") + 1)
            if claimed.isdisjoint(lines):  # else a more specific row has told it
                claimed.update(lines)
                if failure.name not in found and (returncode != 0 or failure.on_success):
                    found[failure.name] = _filled(failure, match, first, ran)
    return tuple(found.values())


def reasons(found: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Those that a run can fail for."""
    return tuple(each for each in found if not each.harmless)


def _filled(failure: Failure, match: re.Match[str], number: int, ran: bool) -> Diagnosis:
    values = match.groupdict()
    cause = (ran and failure.cause_if_ran) or failure.cause
    remedy = (ran and failure.remedy_if_ran) or failure.remedy
    start = match.string.rfind("\n", 0, match.start()) + 1
    line, _, _ = match.string[start : start + LONGEST_LINE].partition("\n")
    return Diagnosis(
        name=failure.name,
        title=failure.title,
        cause=cause.format_map(values),
        remedy=remedy.format_map(values),
        line=line.strip(),
        line_number=number,
        link=failure.seen,
        harmless=failure.harmless,
    )


def plain(log: str) -> str:
    """The log without colours, and of each progress bar only its last state."""
    lines = _ANSI.sub("", log).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def last_traceback(log: str) -> str | None:
    """The script's last traceback, its exception included; None when there is none.

    A traceback of the wrapper, which only says that the script failed, is passed over.
    """
    text = plain(log)
    own = (
        (start, block)
        for start, block in _tracebacks(text)
        if not block.rsplit("\n", 1)[-1].startswith(_WRAPPER_ERRORS)
    )
    blocks = [(match.start(), match.group()) for match in _SYNTAX.finditer(text)]
    blocks += islice(own, 1)
    return max(blocks)[1] if blocks else None


def _tracebacks(text: str) -> Iterator[tuple[int, str]]:
    """Where each traceback begins, and its text; the last one first."""
    start = text.rfind(_TRACEBACK)
    while start >= 0:
        body: list[str] = []
        # Multi-process launchers prefix every line: `[rank0] `.
        prefix = text[text.rfind("\n", 0, start) + 1 : start]
        for line in _lines(text, start, start + LONGEST_TRACEBACK):
            inner = line.removeprefix(prefix) if body else line
            body.append(inner)
            if len(body) > 1 and not inner.startswith(" ") and inner:
                break
        block = "\n".join(body).rstrip()
        cause = _CAUSE.match(text, start + len(block)) if not prefix else None
        yield start, f"{block}\n{cause[1].rstrip()}" if cause else block
        start = text.rfind(_TRACEBACK, 0, start)


def _lines(text: str, start: int, end: int) -> Iterator[str]:
    """Lines of a part of a text, one by one: most readers need the first few."""
    end = min(end, len(text))
    while start <= end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop
        yield text[start:stop]
        start = stop + 1


def error_lines(log: str, lines: int = 15) -> tuple[tuple[int, str], ...]:
    """The lines of a log that speak of an error, the first of them and the last, numbered."""
    seen: set[str] = set()
    telling: list[tuple[int, str]] = []
    all_lines = plain(log).splitlines()
    ends = [*range(len(all_lines))[:EXAMINED], *range(len(all_lines))[EXAMINED:][-EXAMINED:]]
    for at in ends:
        line = all_lines[at][:LONGEST_LINE].strip()
        said = _STAMP.sub("", line)
        if said not in seen and _TELLING.search(said) and not _QUIET.search(said):
            seen.add(said)
            telling.append((at + 1, line))
    if len(telling) <= lines:
        return tuple(telling)
    first = lines // 3  # the cause comes early, the consequences late
    return (*telling[:first], *telling[first - lines :])


def relevant_tail(log: str, lines: int = 15) -> str:
    """The last lines that say something: no blank ones, a repeated line only once."""
    kept: list[str] = []
    for line in plain(log).splitlines():
        if line.strip() and (not kept or line != kept[-1]):
            kept.append(line.rstrip())
    return "\n".join(kept[-lines:])
