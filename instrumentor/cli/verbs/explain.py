"""`instrument explain SCRIPT`: where the loop is, what would be changed and why, or why not."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instrumentor.cli import common, next_commands
from instrumentor.cli.signature import Only, Verb, Without
from instrumentor.machine.device_nodes import planned_here
from instrumentor.run.options import RunOptions
from instrumentor.shared import console
from instrumentor.shared.option_fields import MEASURE, OUTPUT, option
from instrumentor.shared.options import Options
from instrumentor.shared.project import seen_from_here
from instrumentor_analysis.shared.caveats import read_caveats
from instrumentor_analysis.shared.files import read_bytes

if TYPE_CHECKING:
    from instrumentor.rewrite.prepare import Explanation


@dataclass(frozen=True)
class Asked:
    """Choices of the command line alone."""

    discover: bool = option(
        MEASURE,
        False,
        "Run the unmodified script for two optimizer steps in a copy; show what was seen.",
        once=True,
    )
    summary: bool = option(OUTPUT, False, "SCRIPT is a folder: summarise all its files.", once=True)


@Verb
def explain(
    context: typer.Context,
    script: common.Script = None,
    arguments: common.Configuration = None,
    *,
    rewrite: Annotated[Options, Without("profiler")],
    options: Annotated[RunOptions, Only("module", "timeout_s")],
    asked: Asked,
    notes: common.Notes,
    shown: common.Json,
) -> None:
    """Say where the loop is, what would be changed, or why not."""
    started = common.started_by(script, arguments, options.module)
    script, handed = started.script, list(started.arguments)
    rewrite = replace(rewrite, test=started.test)
    options = replace(options, module=started.module, launcher=started.launcher)
    target = next_commands.target(started)
    if asked.summary:
        from instrumentor.cli.corpus import show

        raise typer.Exit(show([script, *map(Path, handed)], json=shown.json))
    common.tell_handed_over(context, script, handed)
    from instrumentor.rewrite.prepare import explain as explain_script

    if asked.discover:
        explanation = _by_running(script, replace(options, rewrite=rewrite), handed)
    else:
        explanation = explain_script(script, rewrite, handed)
    if shown.json:
        console.out_json(explanation.to_json())
    elif explanation.eligible:
        document = explanation.to_json()
        _show(document)
        told = planned_here(read_caveats(document["warnings"]))
        console.warn_all(told, notes=notes.verbose, ignored=rewrite.ignore_warnings)
        words = next_commands.typed(context, "preview")
        console.out(f"Next: {next_commands.dry_run(words, next_commands.measured(started, told))}")
    else:
        from instrumentor.locate.located import Declined

        for reason in explanation.reasons:
            console.out(f"declined: {console.as_typed(str(reason))}")
        declined = Declined(*explanation.reasons)
        hint = next_commands.instead(
            declined, script, rewrite, next_commands.typed(context), target
        )
        console.out(f"hint: {hint}")
    raise typer.Exit(0 if explanation.eligible else 3)


def _by_running(script: Path, options: RunOptions, arguments: list[str]) -> Explanation:
    from instrumentor.rewrite.prepare import Explanation, script_path
    from instrumentor.run.discovery import discover, prepared_by

    path = script_path(script)
    narrator = console.Narrator()
    with narrator.alive():
        seen = discover(path, arguments, options, narrator)
    console.say(f"Seen in {seen.sentence}")
    for name, chains in seen.chains.items():
        for file, line, function in chains[0] if chains else ():
            console.say(f"  {name:<9} {seen_from_here(Path(file))}:{line} in {function}")
    plan = prepared_by(seen, path, options.rewrite, arguments).plan
    return Explanation(True, (), plan, plan.to_json())


#: What a run leaves out, puts off or switches off: the plan's field, as it is shown.
_LEFT_OUT = {
    "skipped_validation": ("left out", "validation"),
    "skipped_checkpoints": ("left out", "saving"),
    "deferred_host_reads": ("put off", "reading of values"),
    "disabled_cache_clears": ("left out", "clearing of caches"),
}
#: How the run ends, by the strategy of its early stop; others are named as they are.
_STOPPED = {"skip": "by skipping the rest of the test"}
#: How the script counts its steps, by the position of its counter.
_COUNTED = {
    "before": "counted before the step",
    "after": "counted after the step",
    "branch": "counted with each update",
    "after_continue": "counted with each update",
    "enumerate": "counted by the loop",
    "outer": "counted by an outer loop",
}
#: How one update covers several backwards.
_ACCUMULATED = {
    "branch": "the optimizer steps in a branch, not in every iteration",
    "continue": "iterations without an update are left by continue",
    "context": "a context manager decides which iterations update",
    "nested": "an inner loop runs several backwards for one update",
}


#: What the words in the margin of the loop say.
_MARKED = {
    "skip": "left out",
    "move": "moved",
    "begin": "starts the clock",
    "|": "timed",
    "wait": "waits for the device, reads the clock",
    "stop": "ends the run",
}


def _show(document: dict[str, Any]) -> None:
    loop, region = document["loop"], document["region"]
    start = f"{seen_from_here(Path(loop['file']))}:{loop['line']}"
    if region is None:
        seen = "; found by running the script" if document["found_by"] == "running" else ""
        console.out(f"{start}: {document['label']} of what is called there{seen}")
        return
    where = f" in {loop['function']}()" if loop["function"] else ""
    kind = common.LOOPS.get(document["mode"], "loop")
    lines = common.lines(loop["line"], loop["end_line"])
    console.out(f"{start}: {kind}{where}, {lines}")
    _margin(document)
    for name, text in _facts(document):
        console.out(f"  {name:<14} {text}")
    for name, (label, what) in _LEFT_OUT.items():
        if document[name]:
            numbers = sorted(document[name])
            word = "line" if len(numbers) == 1 else "lines"
            console.out(f"  {label:<14} {what}, {word} {', '.join(map(str, numbers))}")
    common.show_edits(document["edits"])


def _facts(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What was found, by what it is to the run."""
    loop, region, sync = document["loop"], document["region"], document["sync"]
    counter, stop = document["counter"], document["stop"]
    elsewhere = (
        f"{seen_from_here(Path(region['file']))}, " if region["file"] != loop["file"] else ""
    )
    lines = common.lines(region["start_line"], region["end_line"])
    if document["found_by"] == "running":
        yield "found by", "running the script as it is for two optimizer steps"
    up_to = f", up to {region['up_to']}" if region["up_to"] else ""
    yield "timed region", f"{elsewhere}{lines}{up_to} ({document['label']})"
    yield from _evidence(document["evidence"])
    words = {
        "keep": f"the script's own {sync['api']} at line {sync['line']} is kept",
        "insert": "inserted at the end of the region",
        "none": "inside the helper, with its optimizer step",
    }
    yield "sync", f"{words[sync['action']]}; then waits for the device"
    if counter:
        how = _COUNTED[counter["position"]]
        yield "counter", f"{counter['name']} at line {counter['line']}, {how}"
    if document["accumulation"] in _ACCUMULATED:
        yield "accumulation", _ACCUMULATED[document["accumulation"]]
    # Behind the step there may be lines that belong to it, such as the counter's.
    ends = [_stands(edit) for edit in document["edits"] if edit["pass"] == "early_stop"]
    behind = [edit["line"] for edit in document["edits"] if edit["pass"] == "ending"][:1]
    also = f"; at the latest behind the loop of line {behind[0]}" if behind else ""
    how = _STOPPED.get(stop["strategy"], f"by {stop['strategy']}")
    yield "stop", f"after line {(ends or [stop['line']])[0]}, {how}{also}"


def _evidence(findings: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """All lines of a part that are known in one way."""
    alike: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for each in findings:
        alike.setdefault((each["part"], each["file"], each["by"]), []).append(each)
    for (part, file, by), found in alike.items():
        numbers = ", ".join(str(line) for line in sorted(each["line"] for each in found))
        names = ", ".join(dict.fromkeys(each["name"] for each in found))
        yield part, f"{seen_from_here(Path(file))}:{numbers}, {_known_by(by, names)}"


def _known_by(by: str, names: str) -> str:
    """What tells that lines are a part of the step."""
    if by == "run":
        return "seen in the run"
    return f"known by its {by}: {names}{'' if by in ('type', 'use') else ' (a guess)'}"


def _margin(document: dict[str, Any]) -> None:
    """The source of loop and region with its margin marked, file by file, and what that says."""
    loop, region = document["loop"], document["region"]
    shown = {loop["file"]: (loop["line"], loop["end_line"])}
    shown.setdefault(region["file"], (region["start_line"], region["end_line"]))
    told: list[list[str]] = []
    for file, span in shown.items():
        if len(shown) > 1:
            console.out(f"  {seen_from_here(Path(file))}")
        told += _marked(file, span, document)
    console.out(f"  {_legend(told)}")


def _marked(file: str, span: tuple[int, int], document: dict[str, Any]) -> list[list[str]]:
    """Print the lines of a span, and those around what is changed outside of it.

    Returns:
        The words of each line; the last one is printed.
    """
    source = read_bytes(Path(file))
    lines = source.decode("utf-8", "replace").split("\n")
    region, told = document["region"], list[list[str]]()
    marks = _marks(file, document["edits"], _statement_ends(source))
    first, last = min([span[0], *marks]), max([span[1], *marks])
    previous_shown, left = True, math.inf  # how deep the block is that the clock has left
    begins = [number for number, words in marks.items() if "begin" in words]
    begun, stands = 0.0, False  # how deep it starts; whether it does so in another branch, too
    for number in range(first, min(last, len(lines)) + 1):
        inside = span[0] <= number <= span[1]
        near = inside or any(abs(number - m) <= 1 for m in marks)
        if near:
            text, words = lines[number - 1], marks.get(number, [])
            depth = len(text) - len(text.lstrip()) if text.strip() else math.inf
            left = left if depth >= left else math.inf
            if number in begins:
                begun, stands = depth, False
            elif depth < begun and any(b > number for b in begins):
                stands = True
            timed = region["start_line"] <= number <= region["end_line"]
            running = timed and left == math.inf and not stands and region["file"] == file
            bar = "|" if running else " "
            console.out(f"  {(words or [''])[-1]:>5} {bar} {number:>5}  {text}")
            told += [words, ["|"]] if running else [words]
            left = min(left, depth) if "wait" in words else left
        elif previous_shown:
            console.out("        ...")
        previous_shown = near
    return told


def _legend(told: list[list[str]]) -> str:
    """What the words of the margin say: a word that hides others on each of its lines, theirs."""
    said: list[str] = []
    for word in _MARKED:
        lines = [words for words in told if words[-1:] == [word]]
        if lines:
            every = (each for each in _MARKED if all(each in words for words in lines))
            said.append(f"{word}: {', '.join(_MARKED[each] for each in every)}")
    return "; ".join(said)


def _marks(file: str, edits: list[dict[str, Any]], ends: dict[int, int]) -> dict[int, list[str]]:
    """What becomes of a line, by its number: the words for it, in the order of the edits."""
    marks: dict[int, list[str]] = {}
    for edit in edits:
        if edit["file"] != file:
            continue
        first, last = edit["line"], ends.get(edit["line"], edit["line"])
        word = {"disable": "skip", "move-after": "move"}.get(edit["kind"], "")
        if edit["pass"] == "early_stop":
            word = "stop"
        elif edit["pass"] == "region":
            word = "begin" if edit["kind"] == "insert-before" else "wait"
        if word in ("skip", "move"):
            for number in range(first, last + 1):
                marks.setdefault(number, []).append(word)
        elif word:
            marks.setdefault(last if edit["kind"] == "insert-after" else first, []).append(word)
    return marks


def _stands(edit: dict[str, Any]) -> int:
    """The line that an edit stands behind or before: of a statement of several lines the last."""
    line = int(edit["line"])
    if edit["kind"] != "insert-after":
        return line
    return _statement_ends(read_bytes(Path(edit["file"]))).get(line, line)


def _statement_ends(source: bytes) -> dict[int, int]:
    """Last line of the statement that starts on a line."""
    ends: dict[int, int] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            ends[node.lineno] = max(ends.get(node.lineno, 0), node.end_lineno or node.lineno)
    return ends
