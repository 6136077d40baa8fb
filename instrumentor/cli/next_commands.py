"""What to type next: the command that was typed, with the options that matter for the next one."""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instrumentor.shared import console
from instrumentor.shared.errors import InstrumentError
from instrumentor_analysis.shared.caveats import UNCALLED_TEST, Caveat
from instrumentor_analysis.shared.files import read_bytes

if TYPE_CHECKING:
    import typer

    from instrumentor.locate.located import Declined
    from instrumentor.run.launchers import Started
    from instrumentor.shared.options import Options

# How an answer is shown, and what is asked once: no next command repeats them.
_RELATIVE = re.compile(rb"^from[ \t]+\.", re.MULTILINE)
_OF_THIS_COMMAND = frozenset(
    {"json", "full", "dry_run", "summary", "discover", "module", "fix", "verbose"}
)


def typed(context: typer.Context, sibling: str = "") -> list[str]:
    """The options of the command line, as they are typed.

    Args:
        sibling: another verb, or command of the same group; only the options that it has, too.
    """
    words: list[str] = []
    names = _names(context, sibling)
    for option in context.command.params:
        name = option.name or ""
        source = context.get_parameter_source(name)
        if option.param_type_name != "option" or source is None or source.name != "COMMANDLINE":
            continue
        if name in _OF_THIS_COMMAND or name not in names:
            continue
        value = context.params[name]
        spelled = max(option.opts, key=len)
        if isinstance(value, bool):
            words.append(spelled)
        else:
            values = value if isinstance(value, (list, tuple)) else [value]
            words += [word for each in values for word in (spelled, str(each))]
    return words


def _names(context: typer.Context, sibling: str) -> set[str]:
    group: Any = context.parent.command if context.parent is not None else None
    command = group.commands.get(sibling) if sibling else context.command
    if command is None:  # a verb that this command line was not made with
        return {*getattr(import_module(f"instrumentor.cli.verbs.{sibling}"), sibling).declared}
    return {str(each.name) for each in command.params}


def target(started: Started) -> list[str]:
    """The script, module or launcher, and the arguments behind it.

    A script that imports from its own package is typed as a module, the one way to start it.
    """
    module = started.module or _as_module(started.script)
    what = ["-m", module] if module else [console.word(started.script)]
    return [*what, *(started.launcher or started.arguments)]


def measured(started: Started, warnings: Iterable[Caveat]) -> list[str]:
    """What to measure of a script that was read: where only pytest calls its loop, through that."""
    from instrumentor.run.launchers import through_pytest

    uncalled = any(each.kind == UNCALLED_TEST for each in warnings)
    return target(through_pytest(started) if uncalled else started)


def _as_module(script: Path) -> str:
    """``pkg.train`` of a script below the working directory with relative imports; else ''."""
    try:
        inside = script.absolute().relative_to(Path.cwd()).with_suffix("")
        text = read_bytes(script)
        # A look at the text spares nearly every script the parse.
        relative = _RELATIVE.search(text) and _imports_its_package(ast.parse(text).body)
    except (OSError, ValueError, SyntaxError):  # what is wrong with it is said elsewhere
        return ""
    if not relative or len(inside.parts) < 2 or not all(map(str.isidentifier, inside.parts)):
        return ""
    return ".".join(inside.parts)


def _imports_its_package(body: Sequence[ast.stmt]) -> bool:
    """Whether a relative import is certain to be made: not where the script may do without it."""
    return any(isinstance(each, ast.ImportFrom) and each.level > 0 for each in body)


def run(options: Sequence[str], script: Sequence[str]) -> str:
    """The run that an explanation or a dry run was for."""
    return f"instrument run {console.quoted(*options, *script)}"


def dry_run(options: Sequence[str], script: Sequence[str]) -> str:
    """What shows the edits of an explanation as a diff, of scripts and modules alike."""
    return f"instrument --dry-run {console.quoted(*options, *script)}"


def instead(
    declined: Declined,
    path: Path,
    rewrite: Options | None,
    options: Sequence[str],
    script: Sequence[str],
) -> str:
    """The remedy of a declined script, followed by commands that can be pasted.

    Args:
        path: the script's file.
        rewrite: the options with which it was declined; None where running it has not helped.
        options, script: as they were typed.
    """
    from instrumentor.locate.rules.loops import SeveralLoops
    from instrumentor.locate.rules.unreadable import Syntax
    from instrumentor.run.discovery import may_help

    others = without(options, ("--loop", "--region"))
    loops = [r for r in declined.reasons if r.kind == SeveralLoops.kind]
    said = ["Say which one:" if loops else declined.reasons[0].remedy]
    said += [run([*others, "--loop", f"{r.file.name}:{r.line}"], script) for r in loops]
    if not loops and rewrite is not None and may_help(declined, path, rewrite):
        said.append(f"{run(options, script)}  # runs it for two steps in a copy to find its step")
    region = next((r.region for r in declined.reasons if r.region), "")
    if region and not loops:
        said.append(f"{run([*others, '--region', region], script)}  # times these lines")
    if not loops and (command := kernel_run(path, options, script)):
        said.append(command)
    # A choice of loops needs nothing else, and what does not parse no Python would run.
    if not loops and declined.reasons[0].kind != Syntax.kind and _has_tracy(path, options):
        whole = console.quoted(*_python(options), "python3", *script)
        said.append(f"instrument profile {whole}  # traces all of it with Tracy; needs no loop")
    return "\n  ".join(said)


def _has_tracy(path: Path, options: Sequence[str]) -> bool:
    """Whether Tracy is installed where `instrument profile` would run the script."""
    from instrumentor.machine.environment import examine
    from instrumentor.shared.project import find_project

    try:
        root, typed = find_project(path.absolute()).root, _python(options)
        named = typed[-1] if typed else _configured_python()
        return examine(root, python=named, preview=True).has("tracy")
    except InstrumentError:  # nothing can be run there
        return False


def python(path: Path) -> str:
    """The interpreter that a run of the script takes, as short as it can be typed."""
    from instrumentor.machine.environment import examine
    from instrumentor.shared.project import find_project

    root = find_project(path.absolute()).root
    try:
        chosen = examine(root, python=_configured_python(), preview=True).python
    except InstrumentError:  # it is not there: any will say so
        return "python3"
    found = shutil.which("python3")
    # Of one environment all names are one; its link may lead to another environment's file.
    return "python3" if found and Path(found).parent == chosen.parent else console.shown(chosen)


def _configured_python() -> str | None:
    """The interpreter that every verb is given where none is typed."""
    from instrumentor.cli.config import find_defaults

    named = os.environ.get("INSTRUMENT_PYTHON") or find_defaults(Path.cwd()).table.get("python")
    return named if isinstance(named, str) else None


def _python(options: Sequence[str]) -> list[str]:
    """The interpreter among the options, as it was typed: the last one counts."""
    at = [i for i, word in enumerate(options) if word == "--python"][-1:]
    return [word for i in at for word in options[i : i + 2]]


def kernel_run(path: Path, options: Sequence[str], script: Sequence[str]) -> str:
    """The command for a script that runs a tt-lang kernel and trains nothing; '' for others."""
    from instrumentor.kernels.find import find_kernels
    from instrumentor.shared.project import find_project

    try:
        text = read_bytes(path)
        # Looked for first, since reading a program takes much longer.
        if b"ttl" not in text or b".backward(" in text or script[:1] == ["-m"]:
            return ""
        found = find_kernels(path.absolute(), find_project(path.absolute()).import_roots)
    except (InstrumentError, OSError):
        return ""
    words = console.quoted(*_python(options), *script)
    said = "# its tt-lang kernel; without a device on tt-lang-sim (pip install tt-lang-sim)"
    return f"instrument kernel run {words}  {said}" if found.kernels else ""


def without(options: Sequence[str], names: Sequence[str]) -> list[str]:
    """The options but for those names and their values."""
    pairs = zip(("", *options), options, strict=False)
    return [word for before, word in pairs if word not in names and before not in names]


def discover(script: Sequence[str]) -> str:
    """What shows where a script's step runs, for one whose region was refused by its run."""
    words = console.quoted(*script)
    return f"instrument explain --discover {words}  # shows where its step runs"
