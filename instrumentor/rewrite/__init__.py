"""Plan -> new source and diff, proven before anybody runs it.

In: a script on disk or a text, and its plan; out: instrumented bytes and their diff.
"""

from __future__ import annotations

import difflib
import os
import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from instrumentor.locate import locate, parse_source
from instrumentor.plan import Plan, make_plan
from instrumentor.rewrite.engine import MARKER, apply_edits
from instrumentor.rewrite.proofs import prove
from instrumentor.shared import git_quotes
from instrumentor.shared.errors import ProofFailed, UsageError
from instrumentor.shared.options import Options
from instrumentor.shared.project import Project

#: A line of the old file, and why something changes there.
Noted: TypeAlias = tuple[int, str]
WIDEST = 160  # characters of reasons in the header of a hunk
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? ")


class Rewritten(Struct, frozen=True):
    """An instrumented module.

    Attributes:
        code: the new source, in the original's encoding and newlines.
        diff: unified diff, original to instrumented.
        plan: what was done and why.
    """

    code: bytes
    diff: str
    plan: Plan


class Instrumented(Struct, frozen=True):
    """An instrumented script, not yet run.

    Attributes:
        script: absolute path of the entry script.
        project: its repository.
        originals: bytes of the files as they are.
        replacements: bytes of the instrumented files, by original path.
    """

    script: Path
    project: Project
    originals: Mapping[Path, bytes]
    replacements: Mapping[Path, bytes]

    @property
    def diff(self) -> str:
        """The patch as text, for reading."""
        return readable(self.patch)

    @property
    def patch(self) -> bytes:
        """Unified diff of all files, names relative to the project, exact bytes.

        The header of each hunk ends with what is done in it, which `git apply` passes over.
        """
        files = {p: (self.originals[p], new) for p, new in self.replacements.items()}
        return unified_patch(files, self.project.root, self.reasons())

    def reasons(self) -> Mapping[Path, Sequence[Noted]]:
        """Lines of the originals, and why something changes there."""
        return {}


def rewrite(
    source: str | bytes, options: Options | None = None, *, filename: str = "<source>"
) -> Rewritten:
    """Instrument one module's text.

    Args:
        source: the module; `str` is taken as UTF-8.
        options: see :class:`instrumentor.shared.options.Options`; ``self_contained`` for a result
            that runs by itself.
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
    return Rewritten(code, readable(unified_patch({path: (data, code)})), plan)


def refuse_instrumented(path: Path, data: bytes) -> None:
    """Raises UsageError when our marker is there already."""
    if MARKER.encode() in data:
        raise UsageError(
            f"{path}: already instrumented (it holds the marker '{MARKER}')",
            "Give the original: the file that `instrument apply` has read, or git's version of it.",
        )


def instrument(data: bytes, plan: Plan, path: Path, *, rebinds: Collection[str] = ()) -> bytes:
    """Apply a plan's edits of one file and prove the result.

    Args:
        rebinds: names of the file that inserted code may bind anew.

    Raises:
        ProofFailed: a proof did not hold.
    """
    edits = plan.edits_of(path)
    try:
        code = apply_edits(data, edits)
        prove(data, code, edits, allowed_names=rebinds)
    except ProofFailed as error:
        raise ProofFailed(f"{path}: {error.message}", error.hint) from error
    return code


def unified_patch(
    files: Mapping[Path, tuple[bytes | None, bytes]],
    relative_to: Path | None = None,
    reasons: Mapping[Path, Sequence[Noted]] | None = None,
) -> bytes:
    """A patch of several files, byte for byte: `git apply` gives the new ones from the old.

    Args:
        files: (before, after) by path; before is None for a new file.
        reasons: lines of the old file and why they change, shown in the header of their hunk.
    """
    parts: list[bytes] = []
    for path, (before, after) in files.items():
        root = relative_to if relative_to and path.is_relative_to(relative_to) else None
        name = os.fsencode(path.relative_to(root) if root else path).lstrip(b"/")
        lines = difflib.diff_bytes(
            difflib.unified_diff,
            _lines(before or b""),
            _lines(after),
            b"/dev/null" if before is None else _in_header(b"a/" + name),
            _in_header(b"b/" + name),
        )
        noted = (reasons or {}).get(path, ())
        parts.extend(
            _explained(line, noted)
            if line.startswith(b"@@ ")
            else line
            if line.endswith(b"\n")
            else line + b"\n\\ No newline at end of file\n"
            for line in lines
        )
    return b"".join(parts)


def _in_header(name: bytes) -> bytes:
    """A name as git writes it into a patch, of which no line end in it begins another line."""
    if git_quotes.CONTROL.search(name):
        return git_quotes.quoted(name)
    return name + b"\t" if b" " in name else name  # as diff(1) ends one that has spaces


def _explained(header: bytes, noted: Sequence[Noted]) -> bytes:
    """The header of a hunk with the reasons for what changes in it, where git shows a function."""
    found = _HUNK.match(header)
    assert found is not None
    first = int(found[1])
    last = first + int(found[2] or 1)
    why = ", ".join(dict.fromkeys(reason for line, reason in noted if first <= line < last))
    said = textwrap.shorten(why, WIDEST, placeholder=" ...").encode(errors="backslashreplace")
    return header.rstrip(b"\n") + b" " + said + b"\n" if said else header


def readable(patch: bytes) -> str:
    """A patch as text, undecodable bytes escaped."""
    return patch.decode("utf-8", "backslashreplace")


def _lines(data: bytes) -> list[bytes]:
    # Not splitlines(): to git a lone carriage return ends no line.
    *whole, last = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([last] if last else [])
