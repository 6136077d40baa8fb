"""The source lines that device time comes from, beside their code where its text is known."""

from __future__ import annotations

from collections.abc import Mapping

from instrumentor_analysis.model import SourceLine, Summary
from instrumentor_analysis.reports import formatting
from instrumentor_analysis.reports.document import CodeLine, Listing

#: Lines shown around a line that ops come from.
CONTEXT_LINES = 3
_HEADS = ("device time", "share")


def listings(summary: Summary, sources: Mapping[str, str | None]) -> tuple[Listing, ...]:
    """The lines by file, the file of most device time first, and what no line is known of.

    Args:
        sources: text of the files; None of one that was changed since the run, so that its text
            is not that of the lines.
    """
    locations = summary.locations
    if locations is None:
        return ()
    by_file: dict[str, list[SourceLine]] = {}
    for each in locations.lines:
        by_file.setdefault(each.file, []).append(each)
    most = max((each.device_time_ms for each in locations.lines), default=0.0)
    changed = "(changed since the run: shown without its code)"
    found: list[Listing] = []
    for name, lines in by_file.items():
        text = sources.get(name)
        rows, last = _lines(lines, text, most or 1.0), "ops" if text is None else "code"
        note = changed if name in sources and text is None else ""
        found.append(Listing(name, _HEADS, rows, last, note))
    if locations.lines and locations.unlocated_ms:
        cells = formatting.ms(locations.unlocated_ms), formatting.share(locations.unlocated_percent)
        ops = formatting.plural(locations.unlocated_count, "op")
        found.append(Listing("no location", _HEADS, (CodeLine(None, ops, cells),), "ops"))
    return tuple(found)


def _lines(lines: list[SourceLine], text: str | None, most: float) -> tuple[CodeLine, ...]:
    """Hot lines with their surroundings; without a text, what they run stands in its place."""
    known = [] if text is None else text.splitlines()
    shown: dict[int, list[CodeLine]] = {}
    for each in sorted(lines, key=lambda each: (each.line, each.const_eval)):
        for number in range(each.line - CONTEXT_LINES, each.line + CONTEXT_LINES + 1):
            # The line of a trace may lie beyond a file that was cut or generated.
            if 1 <= number <= len(known):
                shown.setdefault(number, [])
        once = ", evaluated once" if each.const_eval else ""
        ops = f"{formatting.plural(each.op_count, 'op')}{once}: {', '.join(each.ops)}".rstrip(": ")
        code = known[each.line - 1] if 1 <= each.line <= len(known) else ""
        cells = formatting.ms(each.device_time_ms), formatting.share(each.percent)
        heat = each.device_time_ms / most
        line = CodeLine(each.line, ops if text is None else code, cells, heat, ops)
        shown.setdefault(each.line, []).append(line)
    found: list[CodeLine] = []
    for number in sorted(shown):
        if found and found[-1].number != number - 1 and known:
            found.append(CodeLine(None))
        found += shown[number] or [CodeLine(number, known[number - 1])]
    return tuple(found)
