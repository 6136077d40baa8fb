"""`instrument apply SCRIPT -o COPY`: write the instrumented copy, never over a file of yours."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from instrumentor.cli import common, next_commands
from instrumentor.cli.signature import Verb
from instrumentor.shared import console
from instrumentor.shared.errors import UsageError
from instrumentor.shared.option_fields import OUTPUT, option
from instrumentor.shared.options import Options
from instrumentor.shared.outputs import write_new
from instrumentor_analysis.shared.files import read_bytes


@dataclass(frozen=True)
class Asked:
    """Choices of the command line alone."""

    output: Path = option(OUTPUT, ..., "Where the copy goes.", "-o", "--output", once=True)
    force: bool = option(OUTPUT, False, "Replace an existing file (never the original).", once=True)


@Verb
def apply(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="The training script.")],
    *,
    asked: Asked,
    notes: common.Notes,
    rewrite: Options,
) -> None:
    """Write the instrumented copy of the module that holds the loop."""
    from instrumentor.rewrite.prepare import prepare

    common.warn_of_ignored(script)
    output = asked.output
    # The copy is run by hand, without the recorder's module on its path.
    prepared = prepare(script, replace(rewrite, self_contained=True))
    main = prepared.plan.file
    if output.resolve() in {p.resolve() for p in prepared.originals} | {prepared.script.resolve()}:
        raise UsageError(f"{output} is the original", "Give another name with -o.")
    if output.is_dir():
        output = output / main.name
    write_new(output, prepared.replacements[main], force=asked.force)
    if main != prepared.script:
        console.say(f"The loop is in {main}: {output} is the copy of that module")
    caveats, ignored = prepared.plan.warnings, rewrite.ignore_warnings
    console.warn_all(caveats, notes=notes.verbose, ignored=ignored)
    console.say(f"Wrote {output} (your file was not touched)")
    if main != prepared.script:
        console.say(
            f"It runs once it stands in the place of {console.shown(main)}; "
            "a run does that in a copy of its own"
        )
        console.say(f"Next: {console.quoted('instrument', 'run', script)}")
        return
    beside = output.parent.resolve() == main.parent.resolve()
    found = [] if beside else sorted(_finds_beside(main))
    for line, what in found[:1]:
        place = f"{console.shown(main)}:{line}"
        console.warn(f"{place}: {what}; the copy, in another folder, looks there instead")
    following = _into_its_folder(context, script, output) if found else _started(script, output)
    console.say(f"Next: {console.quoted(*following)}")


def _finds_beside(script: Path) -> Iterator[tuple[int, str]]:
    """Line by line what the script takes from its own folder, wherever it is started."""
    folder = script.parent
    for node in ast.walk(ast.parse(read_bytes(script))):
        if isinstance(node, ast.Name) and node.id == "__file__":
            yield node.lineno, "the script looks in its own folder (__file__)"
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for name in _imported(node):
                if (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file():
                    yield node.lineno, f"the script imports {name} from its own folder"
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "the script imports from its own package"


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The outermost modules of absolute imports."""
    if isinstance(node, ast.Import):
        return [each.name.partition(".")[0] for each in node.names]
    return [] if node.level or not node.module else [node.module.partition(".")[0]]


def _started(script: Path, output: Path) -> list[str]:
    """What starts a copy that finds all it needs."""
    from instrumentor.run.launchers import Started

    return [next_commands.python(script), *next_commands.target(Started(output))]


def _into_its_folder(context: typer.Context, script: Path, output: Path) -> list[str]:
    """The command that writes the copy where the script stands."""
    copy = script.with_name(output.name)
    if copy.exists():
        copy = script.with_name(f"{script.stem}_instrumented.py")
    given = [word for word in next_commands.typed(context) if word != "--force"]
    options = next_commands.without(given, ("--output",))
    return ["instrument", "apply", *options, console.word(script), "-o", console.word(copy)]
