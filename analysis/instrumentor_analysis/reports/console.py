"""A summary as the text that ends a run: the verdict first, then numbers, then warnings.

Colours mean something: red a threshold that is passed (overhead, gaps above 6.5 us), green good
use, yellow room, grey what was not measured. :mod:`.reports.ops_console` prints the ops.
"""

from __future__ import annotations

from instrumentor_analysis.model import Summary
from instrumentor_analysis.reports import breakdown, words
from instrumentor_analysis.reports.files import listed
from instrumentor_analysis.reports.headline import (
    Figures,
    Line,
    evidence,
    figures,
    subtitle,
    title,
    warnings,
)
from instrumentor_analysis.reports.terminal import (
    Paint,
    indented,
    painter,
    section_lines,
    warning_lines,
)

_NAME = 16
_VALUE = 13
_MOST = breakdown.Most(ops=10, savings=5, places=5, rest=5)


def render(
    summary: Summary,
    *,
    width: int = 80,
    color: bool = False,
    notes: bool = False,
) -> str:
    """The output summary of a run.

    Args:
        width: columns of the terminal.
        color: use escape codes; decide by ``isatty`` and ``NO_COLOR``.
        notes: with the warnings of weight ``note``.

    Returns:
        Text that ends in a newline.
    """
    paint = painter(color)
    head = paint(words.visible(title(summary)), "bold")
    blocks = [
        [f"{head}  {paint(words.visible(subtitle(summary)), 'dim')}".rstrip()],
        _verdict(summary, width, paint),
        *(_figures(each, width, paint) for each in figures(summary)),
        *(section_lines(each, width, paint) for each in breakdown.sections(summary, _MOST)),
        warning_lines(warnings(summary, notes=notes), width, paint),
        _files(summary, paint),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _figures(section: Figures, width: int, paint: Paint) -> list[str]:
    lines = indented(words.visible(section.title), width, rest="  ")
    lines = [paint(line, "bold") for line in lines]
    for line in section.lines:
        lines += _figure(line, width, paint)
    return lines


def _figure(line: Line, width: int, paint: Paint) -> list[str]:
    value = line.value.rjust(_VALUE)
    # Units of one letter less would throw the figures out of line.
    if line.value.endswith(" %"):
        value = (line.value + " ").rjust(_VALUE)
    start = f"  {line.name:<{_NAME}}{value}"
    painted = f"  {line.name:<{_NAME}}{paint(value, line.tone)}"
    if not line.note:
        return [painted.rstrip()]
    notes = indented(words.visible(line.note), width, start + "   ", " " * (len(start) + 3))
    first = paint(notes[0][len(start) + 3 :], "dim")
    rest = [" " * (len(start) + 3) + paint(text.strip(), "dim") for text in notes[1:]]
    return [f"{painted}   {first}", *rest]


def _verdict(summary: Summary, width: int, paint: Paint) -> list[str]:
    verdict = summary.verdict
    if verdict is None:
        return []
    colour = "bold red" if verdict.name == "host-bound" else "bold yellow"
    text = f"Verdict: {verdict.name}: {words.visible(verdict.reason)}"
    first, *rest = indented(text, width, rest="  ")
    lines = [first.replace(verdict.name, paint(verdict.name, colour), 1), *rest]
    for what, value, limit in evidence(summary):
        fact = f"{what} {value} ({limit})" if limit else f"{what} {value}"
        lines += [paint(line, "dim") for line in indented(words.visible(fact), width, "  · ")]
    if verdict.levers:
        lines.append("  Next, one at a time:")
        for number, lever in enumerate(verdict.levers, start=1):
            text = words.visible(f"{lever.what}: {lever.how}")
            lines += indented(text, width, f"  {number}. ")
    return lines


def _files(summary: Summary, paint: Paint) -> list[str]:
    files = listed(summary.artifacts)
    if not files:
        return []
    size = max(len(words.visible(name)) for name, _ in files)
    lines = [f"  {words.visible(name):<{size}}  {words.visible(path)}" for name, path in files]
    return [paint("Files", "bold"), *lines]
