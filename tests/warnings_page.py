"""docs/warnings.md, made of the table of warnings."""

from __future__ import annotations

from instrumentor_analysis.shared.warning_codes import LEVELS, WARNINGS

_HEAD = """# Warnings

Each warning ends with its code. `instrument explain-warning W205` says of one what this page says.
`--ignore-warnings W205,W206`, or `ignore-warnings = "W205,W206"` under `[tool.instrument]` in
`pyproject.toml`, leaves warnings out of what is printed and of the page; the report says how many.
Documents (`summary.json`) keep them all. A code never changes its meaning.

"""
_NOTES = """\
On a terminal every command shows notes with `--verbose` alone (`explain`, `--dry-run`, `apply`,
`run`, `report`); the page and `summary.md` hold them folded.
"""


def text() -> str:
    """The whole page."""
    levels = "".join(f"- **{level}**: {means}.\n" for level, means in LEVELS.items())
    rows = "".join(
        f"| {each.code} | `{each.kind}` | {each.weight} | {each.title} | {each.why} | "
        f"{each.remedy} |\n"
        for each in WARNINGS
    )
    heads = "code", "in documents", "level", "warning", "what it means", "what to do"
    table = f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|\n"
    return f"{_HEAD}There are three levels:\n\n{levels}\n{_NOTES}\n{table}{rows}"
