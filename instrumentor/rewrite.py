"""Plan -> new source and diff, proven before anybody runs it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from instrumentor.engine import MARKER, apply_edits
from instrumentor.errors import UsageError
from instrumentor.locate import locate, parse_source
from instrumentor.options import Options
from instrumentor.plan import Plan, make_plan
from instrumentor.proofs import prove


@dataclass(frozen=True)
class Rewritten:
    """An instrumented module.

    Attributes:
        code: the new source, in the original's encoding and newlines.
        diff: unified diff, original to instrumented.
        plan: what was done and why.
    """

    code: bytes
    diff: str
    plan: Plan


def rewrite(
    source: str | bytes, options: Options | None = None, *, filename: str = "<source>"
) -> Rewritten:
    """Instrument one module's text.

    Args:
        source: the module; `str` is taken as UTF-8.
        options: see :class:`instrumentor.options.Options`.
        filename: used in messages and the diff only.

    Raises:
        Declined: with file, line and reason.
        UsageError: the source is already instrumented, or an option is wrong.
        ProofFailed: the result did not pass a proof.
    """
    data = source.encode() if isinstance(source, str) else source
    options = options or Options()
    path = Path(filename)
    refuse_instrumented(path, data)
    parsed = parse_source(path, data)
    plan = make_plan(locate(parsed, options), options)
    code = instrument(data, plan, path)
    return Rewritten(code, unified_diff({path: (data, code)}), plan)


def refuse_instrumented(path: Path, data: bytes) -> None:
    """Raises UsageError when our marker is there already."""
    if MARKER.encode() in data:
        raise UsageError(
            f"{path}: already instrumented (it holds the marker '{MARKER}')",
            "Give the original file; `instrument strip` gives it back from this copy.",
        )


def instrument(data: bytes, plan: Plan, path: Path) -> bytes:
    """Apply a plan's edits of one file and prove the result.

    Raises:
        ProofFailed: a proof did not hold.
    """
    edits = plan.edits_of(path)
    code = apply_edits(data, edits)
    prove(data, code, edits)
    return code


def unified_diff(files: Mapping[Path, tuple[bytes, bytes]], relative_to: Path | None = None) -> str:
    """A unified diff of several files, decoded for reading (undecodable bytes escaped)."""
    parts: list[str] = []
    for path, (before, after) in files.items():
        name = (
            str(path.relative_to(relative_to))
            if relative_to and path.is_relative_to(relative_to)
            else str(path)
        )
        parts.extend(_diff_lines(_lines(before), _lines(after), f"a/{name}", f"b/{name}"))
    return "".join(parts)


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "backslashreplace").splitlines(keepends=True)


def _diff_lines(before: Sequence[str], after: Sequence[str], a: str, b: str) -> list[str]:
    lines: list[str] = []
    for line in difflib.unified_diff(before, after, a, b):
        lines.append(
            line if line.endswith(("\n", "\r")) else line + "\n\\ No newline at end of file\n"
        )
    return lines
