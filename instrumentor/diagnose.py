"""Known failures in a log: what happened, why, and what to do; and what to show of unknown ones."""

from __future__ import annotations

import re
from dataclasses import dataclass

from instrumentor.failures import FAILURES, Failure


@dataclass(frozen=True)
class Diagnosis:
    """A failure found in a log.

    Attributes:
        line: the line of the log that shows it.
        line_number: 1-based.
    """

    name: str
    title: str
    cause: str
    remedy: str
    line: str
    line_number: int
    link: str = ""


_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
LONGEST_TRACEBACK = 200_000
_TRACEBACK = "Traceback (most recent call last):"
_SYNTAX = re.compile(
    r'^ +File ".*", line \d+\n(?: +.*\n)+(?:SyntaxError|IndentationError|TabError): .*',
    re.MULTILINE,
)
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
    unclaimed = dict(enumerate(plain(log).splitlines(), 1))
    found: dict[str, Diagnosis] = {}
    for failure in FAILURES:
        pattern = re.compile(failure.pattern)
        hits = [(number, pattern.search(line)) for number, line in unclaimed.items()]
        matches = [(number, match) for number, match in hits if match]
        if matches and failure.name not in found and (returncode != 0 or failure.on_success):
            number, match = matches[0]
            found[failure.name] = _filled(failure, match, unclaimed[number], number, ran)
        for number, _ in matches:  # a more general row has nothing to add to these lines
            del unclaimed[number]
    return tuple(found.values())


def _filled(failure: Failure, match: re.Match[str], line: str, number: int, ran: bool) -> Diagnosis:
    values = match.groupdict()
    cause = (ran and failure.cause_if_ran) or failure.cause
    remedy = (ran and failure.remedy_if_ran) or failure.remedy
    return Diagnosis(
        name=failure.name,
        title=failure.title,
        cause=cause.format_map(values),
        remedy=remedy.format_map(values),
        line=line.strip(),
        line_number=number,
        link=failure.link,
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
    blocks = [
        (start, block)
        for start, block in _tracebacks(text)
        if not block.rsplit("\n", 1)[-1].startswith(_WRAPPER_ERRORS)
    ]
    blocks += [(match.start(), match.group()) for match in _SYNTAX.finditer(text)]
    whole = [block for _, block in sorted(blocks)]
    return whole[-1] if whole else None


def _tracebacks(text: str) -> list[tuple[int, str]]:
    found = []
    start = text.find(_TRACEBACK)
    while start >= 0:
        body: list[str] = []
        prefix = text[text.rfind("\n", 0, start) + 1 : start]
        for line in text[start : start + LONGEST_TRACEBACK].split("\n"):
            inner = line.removeprefix(prefix) if body else line
            body.append(inner)
            if len(body) > 1 and not inner.startswith(" ") and inner:
                break
        found.append((start, "\n".join(body).rstrip()))
        start = text.find(_TRACEBACK, start + 1)
    return found


def relevant_tail(log: str, lines: int = 15) -> str:
    """The last lines that say something: no blank ones, a repeated line only once."""
    kept: list[str] = []
    for line in plain(log).splitlines():
        if line.strip() and (not kept or line != kept[-1]):
            kept.append(line.rstrip())
    return "\n".join(kept[-lines:])
