"""Adds the recorder: one self-contained block behind the imports and environment set-up.

It must come after the docstring and `from __future__`, and after assignments to `os.environ`
that have to precede `import torch`; it must come before the loop when that is module-level code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from instrumentor.edits import Edit, Kind, Statement
from instrumentor.locate.model import Located
from instrumentor.locate.syntax import Source, address, dotted
from instrumentor.options import Options
from instrumentor.passes.names import Names

NAME = "recorder"

_LOAD = """\
def {factory}(file):
    import json, os, time
    path = os.environ.get("INSTRUMENT_RECORD", "")
    if path:
        event = {{"event": "load", "pid": os.getpid(), "file": os.path.abspath(file)}}
        event["time"] = time.time()
        with open(path, "a") as stream:
            stream.write(json.dumps(event) + "\\n")


{factory}(__file__)"""


def edits(located: Located, names: Names, options: Options) -> Iterator[tuple[Source, Edit]]:
    """The recorder in the loop's module; a record of its load in every other edited module."""
    main = located.candidate.source
    yield (
        main,
        Edit(
            Kind.PRELUDE,
            _anchor(main),
            _recorder_text(names, options),
            reason="signposts, clock, barrier and records, in one self-contained helper",
        ),
    )
    for source in _other_sources(located):
        yield source, load_record(source, names.factory)


def load_record(source: Source, factory: str) -> Edit:
    """Lets a module of the copy say that it was loaded."""
    return Edit(
        Kind.PRELUDE,
        _anchor(source),
        _LOAD.format(factory=factory),
        pass_name=NAME,
        reason="records that this copy was loaded",
    )


def _other_sources(located: Located) -> list[Source]:
    main = located.candidate.source
    found = [s.source for s in located.skipped]
    found += [s for s, _ in located.cache_clears] + [s.source for s in located.stops]
    return [s for s in dict.fromkeys(found) if s is not main]


def recorder_source() -> str:
    """The text of the recorder's factory, as it stands in runtime/recorder.py."""
    text = (Path(__file__).parent.parent / "runtime" / "recorder.py").read_text(encoding="utf-8")
    return text[text.index("def _instrument_recorder") :]


def _recorder_text(names: Names, options: Options) -> str:
    text = recorder_source().rstrip("\n").replace("_instrument_recorder", names.factory)
    call = (
        f'{names.recorder} = {names.factory}(globals().get("__file__", ""), '
        f'steps={options.steps}, warmup={options.warmup}, profiler="{options.profiler}")'
    )
    head = "# Added by instrument to this temporary copy: the original file is untouched."
    return f"{head}\n{text}\n\n\n{call}"


def _anchor(source: Source) -> Statement | None:
    last: ast.stmt | None = None
    for statement in source.tree.body:
        if not _is_preamble(statement, first=last is None):
            break
        last = statement
    return address(last) if last is not None else None


def _is_preamble(statement: ast.stmt, *, first: bool) -> bool:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return True
    if isinstance(statement, ast.Expr):
        value = statement.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return True
        return isinstance(value, ast.Call) and dotted(value.func).startswith(
            ("os.environ", "os.putenv", "sys.path", "warnings.", "xr.", "site.")
        )
    if isinstance(statement, ast.Assign):
        return all(dotted(t).startswith(("os.environ", "sys.path")) for t in statement.targets)
    if isinstance(statement, ast.Try):
        return all(
            isinstance(s, (ast.Import, ast.ImportFrom, ast.Pass))
            for s in (
                *statement.body,
                *(x for h in statement.handlers for x in h.body if not _binds_name(x)),
            )
        )
    if isinstance(statement, ast.If) and not statement.orelse:
        return all(_is_preamble(s, first=False) for s in statement.body)
    return False


def _binds_name(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign)
