"""Adds the recorder: one import behind the script's own imports and environment set-up.

It must come after the docstring and `from __future__`, and after assignments to `os.environ`
that have to precede `import torch`; it must come before whatever uses it in module-level code, be
that lines among the imports.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence

from instrumentor.locate.located import Located
from instrumentor.read.syntax import Source, address, dotted
from instrumentor.runtime.bundle import MODULE, block_text
from instrumentor.shared.edits import Edit, Kind, Statement
from instrumentor.shared.errors import UsageError
from instrumentor.shared.options import Options

NAME = "recorder"


def edits(
    located: Located, recorder: str, options: Options, others: Sequence[tuple[Source, Edit]]
) -> Iterator[tuple[Source, Edit]]:
    """The recorder in the loop's module; in every other edited one it learns that it runs.

    Args:
        others: the edits of all other passes, which use it.

    Raises:
        UsageError: a copy that holds the recorder itself is one file, and the loop and its timed
            lines stand in several.
    """
    main, steps = located.candidate.source, [r.candidate.source for r in located.regions]
    stops = [stop.source for stop in (*located.stops, *located.endings)]
    if options.self_contained:
        if len({main, *steps, *stops}) > 1:
            names = " and ".join(sorted(s.path.name for s in {main, *steps, *stops}))
            raise UsageError(
                f"the loop and its step stand in {names}: one copy cannot hold both",
                "Measure it with `instrument run`, which instruments both.",
            )
        head = "# Added by instrument to this copy: the original file is untouched."
        block = block_text(options, recorder)
        reason = "brings signposts, clock, barrier and records in one helper"
        yield main, Edit(Kind.PRELUDE, _anchor(main, others), f"{head}\n{block}", reason=reason)
        return
    skipped, clears = [s.source for s in located.skipped], [s for s, _ in located.cache_clears]
    edited = [source for source, _ in others]
    for source in dict.fromkeys((main, *skipped, *steps, *clears, *stops, *edited)):
        yield source, import_of(source, recorder, others)


def import_of(source: Source, recorder: str, others: Sequence[tuple[Source, Edit]] = ()) -> Edit:
    """Lets a module of the copy use the recorder, which learns by it that the module runs."""
    return Edit(
        Kind.PRELUDE,
        _anchor(source, others),
        f"from {MODULE} import recorder as {recorder}",
        pass_name=NAME,
        reason="imports signposts, clock, barrier and records; tells that this copy runs",
    )


def _anchor(source: Source, others: Sequence[tuple[Source, Edit]]) -> Statement | None:
    """The last statement of the preamble that ends ahead of all other edits."""
    lines = (edit.at.line for file, edit in others if file is source and edit.at is not None)
    first = min(lines, default=sys.maxsize)
    last: ast.stmt | None = None
    for statement in source.tree.body:
        if not _is_preamble(statement) or first <= (statement.end_lineno or statement.lineno):
            break
        last = statement
    return address(last) if last is not None else None


def _is_preamble(statement: ast.stmt) -> bool:
    """An import, the docstring, or what sets the environment up."""
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Expr(value=ast.Call(func=function)):
            return dotted(function).startswith(_SETS_UP)
        case ast.Assign(targets=targets):
            return all(dotted(t).startswith(("os.environ", "sys.path")) for t in targets)
        # An optional import: `try: import wandb`, `except ImportError: wandb = None`.
        case ast.Try(body=body, handlers=handlers):
            handled = [s for h in handlers for s in h.body if not isinstance(s, ast.Assign)]
            wanted = (ast.Import, ast.ImportFrom, ast.Pass)
            return all(isinstance(s, wanted) for s in (*body, *handled))
        case ast.If(body=body, orelse=[]):
            return all(map(_is_preamble, body))
    return False


# xr is torch_xla.runtime: `xr.set_device_type("TT")` stands among the imports.
_SETS_UP = ("os.environ", "os.putenv", "sys.path", "warnings.", "xr.", "site.")
