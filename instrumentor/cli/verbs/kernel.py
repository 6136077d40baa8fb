"""`instrument kernel explain|run|report|iterate`: tt-lang kernels, one invocation at a time."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instrumentor.cli import common, next_commands
from instrumentor.cli.signature import Command, Only, Verb, Without
from instrumentor.cli.verbs import SCRIPT_LAST
from instrumentor.kernels.model import OLDER
from instrumentor.kernels.options import Choice, Criteria, KernelOptions, Simulated
from instrumentor.machine.device_nodes import find_devices
from instrumentor.shared import console
from instrumentor.shared.errors import Interrupted, RunFailed, UsageError
from instrumentor.shared.option_fields import MEASURE, OUTPUT, WHERE, option, output_file
from instrumentor.shared.outputs import Replacing, refuse_outputs, write_new

if TYPE_CHECKING:
    from instrumentor.kernels.iterate import Iteration
    from instrumentor.kernels.run import KernelRun
    from instrumentor_analysis.kernels.report import AnyReport

app = typer.Typer(
    help="Profile and optimise tt-lang kernels, one invocation at a time.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Script = Annotated[Path, typer.Argument(help="A script that invokes a tt-lang kernel.")]


@dataclass(frozen=True)
class Explained(common.Shown):
    """How an explanation is shown."""

    diff: bool = option(
        OUTPUT, False, "Print the diff that a run would apply, nothing else.", once=True
    )


@dataclass(frozen=True)
class Iterated:
    """How versions are compared."""

    repeat: int = option(
        MEASURE, 4, "Runs of each version; below 4 no difference is significant.", once=True
    )
    once: bool = option(
        WHERE, False, "Measure the files as they are now, print the summary and exit.", once=True
    )
    try_edits: bool = option(
        WHERE,
        False,
        "Also simulate each edit that the findings name and that is one number: block_count, "
        "larger blocks, the full grid.",
        once=True,
    )
    restore: bool = option(
        WHERE,
        False,
        "Put the best version back (from git where it is committed) and exit.",
        once=True,
    )
    session: Path | None = option(
        WHERE,
        None,
        "Where the session is kept and resumed from; default NAME_iterate here.",
        metavar="DIR",
        once=True,
    )


@dataclass(frozen=True)
class Page(Replacing):
    """A report as a file."""

    html: Path | None = output_file("Write the report as HTML.")


@app.command("explain", cls=Command, epilog="Example: instrument kernel explain matmul.py")
@Verb
def explain(
    script: Script, *, choice: Choice, shown: Annotated[Explained, Only("diff", "json")]
) -> None:
    """Show kernels, their invocations, and which would be profiled."""
    from instrumentor.kernels.prepare import explain_kernel, prepare_kernel

    if shown.diff:
        console.diff(prepare_kernel(script, choice).patch)
        return
    document = explain_kernel(script, choice)
    if shown.json:
        console.out_json(document)
    else:
        _describe(script, document)
    raise typer.Exit(3 if "declined" in document else 0)


def _describe(script: Path, document: dict[str, Any]) -> None:
    chosen = document["chosen"] or {}
    for kernel in document["kernels"]:
        _describe_kernel(kernel)
        for invocation in document["invocations"]:
            if invocation["kernel"] == kernel["qualified"]:
                runs = invocation == chosen.get("invocation")
                _describe_call(invocation, ("  [runs]" if runs else "  [skipped]") * bool(chosen))
    if document["tensors"]:
        console.out("visible data sizes:")
    for tensor in document["tensors"]:
        dtype = tensor["dtype"] or "dtype not given"
        _row(tensor, f"{tensor['name']}: {_times(tensor['shape'])}, {dtype}, {tensor['memory']}")
    if "declined" in document:
        for reason in document["declined"]:
            console.out(f"declined: {_where(reason)}: {reason['message']}")
        console.out(f"hint: {document['declined'][0]['remedy']}")
        return
    common.show_edits(document["edits"])
    for warning in document["warnings"]:
        console.warn(warning)
    name = console.quoted(chosen["kernel"])
    console.out(f"Next: instrument kernel run --kernel {name} {console.quoted(script)}")
    of = (kernel for kernel in document["kernels"] if kernel["qualified"] == chosen["kernel"])
    _tell_machine(older=any(kernel["decorator"] == OLDER for kernel in of))


def _tell_machine(*, older: bool) -> None:
    """What this machine lacks for the run, where that is known."""
    if older:
        console.out(f"  on a device: tt-lang's simulator knows ttl.operation, not ttl.{OLDER}")
    elif not find_devices(env=os.environ) and importlib.util.find_spec("ttl") is None:
        console.out(
            "  without a device: pip install tt-lang-sim (CPython 3.11 or newer), or name the "
            "interpreter\n  that has it: --simulate --python PATH"
        )


def _describe_call(invocation: dict[str, Any], mark: str) -> None:
    _row(invocation, f"call {invocation['number']}: {invocation['text']}{mark}")
    for how, places in (("reached from", "through"), ("in a loop at", "loops")):
        for place in invocation[places]:
            console.out(f"         {how} line {place['line']}: {place['text']}")


def _describe_kernel(kernel: dict[str, Any]) -> None:
    grid = kernel["grid"]
    asked = "no grid given" if grid["kind"] == "default" else f"grid {grid['text']}"
    factory = f", made by {kernel['factory']}()" if kernel["factory"] else ""
    decorated = f"@ttl.{kernel['decorator']} {kernel['qualified']}"
    console.out(f"{_where(kernel)}: {decorated}, {asked}{factory}")
    for thread in kernel["threads"]:
        _row(thread, f"{thread['kind']} thread {thread['name']}")
    for buffer in kernel["buffers"]:
        tiles, blocks = _times(buffer["tiles"] or "?"), buffer["factor"] or "?"
        _row(buffer, f"buffer {buffer['name']}: {tiles} tiles, {blocks} blocks")


def _times(shape: Iterable[object]) -> str:
    return " x ".join(map(str, shape))


def _where(place: dict[str, Any]) -> str:
    return f"{console.shown(Path(place['file']))}:{place['line']}"


def _row(place: dict[str, Any], text: str) -> None:
    console.out(f"  {place['line']:>5}  {text}")


@app.command(
    "run",
    cls=Command,
    epilog="Example: instrument kernel run --validate 'pytest test_matmul.py' matmul.py",
    context_settings=SCRIPT_LAST,
)
@Verb
def run(
    context: typer.Context,
    script: Script,
    arguments: common.Arguments = None,
    *,
    choice: Choice,
    criteria: Criteria,
    simulated: Simulated,
    options: KernelOptions,
    shown: common.Shown,
) -> None:
    """Profile one invocation, in a copy; say what limits it.

    Exit code 1: it hangs, its result is wrong, or on the simulator it does not fit L1, leaves tiles
    of an output out or has several nodes write them.
    """
    from instrumentor.kernels.run import run_kernel

    common.tell_handed_over(context, script, arguments or [])
    options = replace(options, choice=choice, criteria=criteria, simulated=simulated)

    def show_partial(partial: KernelRun) -> None:
        if not partial.report.simulated:
            console.warn("this is what was printed before the failure")
        _show(partial.report, json=shown.json)

    narrator = shown.narrator
    with common.working(narrator, show_partial):
        result = run_kernel(script, arguments or [], options, narrator)
    _show(result.report, json=shown.json)
    told = not (shown.quiet or shown.json)
    if told:
        console.say(f"Wrote {console.shown(result.folder)}/ ({result.users_files.fate})")
    if result.verdict is not None and not result.verdict.ok:
        hint = "Correct the kernel first: the time of a wrong result means nothing."
        if result.verdict.later:
            hint = "Later calls may be the cause: watch another with --call N."
        said = f"{result.verdict.by}: {result.verdict.detail}"
        raise RunFailed(f"the validation failed: {said}", hint)
    if result.report.wrong is not None:
        wrong = result.report.wrong
        raise RunFailed(wrong.title, wrong.change)
    if result.verdict is not None and told:
        console.say(f"Validated by {result.verdict.by}: {result.verdict.detail}")
    if told:
        words = [*next_commands.typed(context, "iterate"), console.word(script), *(arguments or ())]
        console.say(f"Next: instrument kernel iterate {console.quoted(*words)}")


@app.command(
    "report",
    cls=Command,
    epilog="Example: instrument kernel report matmul_kernel --html report.html",
)
@Verb
def report(
    path: Annotated[
        Path,
        typer.Argument(metavar="DIR|LOG", help="A folder of kernel run, or a log of tt-lang's."),
    ],
    *,
    page: Page,
    shown: common.Json,
) -> None:
    """Read an earlier run again, or a log that tt-lang printed."""
    from instrumentor_analysis.kernels.report import report as read
    from instrumentor_analysis.kernels.report import report_of_log

    html = page.html
    refuse_outputs([html], [path], force=page.force)
    found = read(path) if path.is_dir() else report_of_log(path)
    _show(found, json=shown.json)
    if html is not None:
        from instrumentor_analysis.reports.kernel import html as page_of

        write_new(html, page_of(found).encode("utf-8", errors="replace"), force=page.force)
        console.say(f"Wrote {html}")


@app.command(
    "iterate",
    cls=Command,
    epilog="Example: instrument kernel iterate matmul.py",
    context_settings=SCRIPT_LAST,
)
@Verb
def iterate(
    context: typer.Context,
    script: Script,
    arguments: common.Arguments = None,
    *,
    choice: Choice,
    criteria: Criteria,
    simulated: Simulated,
    options: Annotated[KernelOptions, Without("output")],
    asked: Iterated,
    shown: common.Shown,
) -> None:
    """Measure a baseline, then each of your edits, validated."""
    from instrumentor.kernels.iterate import Iteration
    from instrumentor.kernels.session_text import summary_json, summary_lines

    options = replace(options, choice=choice, criteria=criteria, simulated=simulated)
    if options.mode == "signposts":
        raise UsageError(
            "--mode signposts gives no wall time", "Use --mode perf (the default) to compare."
        )
    work = Iteration(
        script,
        arguments or [],
        options,
        repeat=asked.repeat,
        folder=asked.session,
        progress=console.Narrator(quiet=not shown.verbose, verbose=shown.verbose),
        restoring=asked.restore,
    )
    common.tell_handed_over(context, script, arguments or [])
    common.end_on_sigterm()
    if asked.restore:
        back = work.restore()
        console.say(f"Restored version {back.number} from {back.source}")
        return
    if not (criteria.given or work.own_check or shown.quiet):
        console.warn("nothing validates the kernel: give --validate COMMAND or --reference FILE")
    quiet = shown.quiet or shown.json
    _Rounds(work, script, quiet=quiet, tries=asked.try_edits).go(once=asked.once)
    if shown.json:
        console.out_json({**summary_json(work.session), "folder": str(work.session.folder)})
    for line in () if shown.json else summary_lines(work.session):
        for part in _wrapped(line):
            console.out(part)
    last = work.session.versions[-1] if work.session.versions else None
    if asked.once and last is not None and last.state in ("invalid", "failed"):
        raise RunFailed(
            f"version {last.number}: {last.problem}",
            f"Go back: instrument kernel iterate --restore {console.quoted(script)}",
        )


def _wrapped(text: str) -> list[str]:
    """A line as a paragraph for this terminal, behind the word that it begins with."""
    from instrumentor_analysis.reports.terminal import indented

    width = console.terminal_width()
    if len(text) <= width:
        return [text]
    first, rest = re.match(r"( *(?:\w+:|[A-Z][\w-]+ {2,})? ?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    return indented(rest, width, first)


class _Rounds:
    """The conversation of an iteration."""

    def __init__(self, work: Iteration, script: Path, *, quiet: bool, tries: bool) -> None:
        self.work, self.script, self.quiet, self.tries = work, script, quiet, tries

    def say(self, text: str) -> None:
        for line in () if self.quiet else _wrapped(text):
            console.say(line)

    def go(self, *, once: bool) -> None:
        """Measure, wait, measure ... until interrupted; or once."""
        try:
            if self.work.changed():
                self.round()
            elif once:
                self.say("The files have not changed since they were last measured.")
            while not once:
                self.say(f"Edit {self.script} and save it; Ctrl-C ends.")
                self.work.wait_for_change()
                self.round()
        except (KeyboardInterrupt, Interrupted):
            self.say("")

    def round(self) -> None:
        """One version."""
        from instrumentor.kernels.session_text import tried_line, version_line

        number = len(self.work.session.versions) + 1
        runs = f"{self.work.repeat} runs"
        told = "on the simulator" if self.work.only_simulated else runs
        self.say(f"Measuring version {number}, {told} ...")
        version = self.work.measure()
        self.say(version_line(version))
        limit = self.work.report.limit if self.work.report else None
        if limit is not None and version.good:
            self.say(f"  bottleneck: {limit.title} ({limit.evidence})")
            self.say(f"  change: {limit.change}")
            if not self.work.only_simulated:
                self.say(f"  gain: {limit.worth}")
        for tried in self.work.try_edits() if self.tries and version.good else ():
            self.say(tried_line(tried))
        best = self.work.last_good()
        if version.state in ("slower", "invalid", "failed") and best is not None:
            self.offer(best.number, number)

    def offer(self, best: int, number: int) -> None:
        """Offer to go back to the best version."""
        # Nobody answers in a pipe or a CI job.
        if not sys.stdin.isatty():
            self.say(
                f"  version {best} is the best so far; go back to it with: instrument "
                f"kernel iterate --restore {console.quoted(self.script)}"
            )
            return
        question = f"  Restore version {best}, the best so far, over {number}?"
        if typer.confirm(question, default=False, err=True):
            back = self.work.restore()
            self.say(f"  restored version {back.number} from {back.source}")


def _show(found: AnyReport, *, json: bool) -> None:
    if json:
        console.out_json({**found.to_json(), "folder": str(found.folder)})
        return
    from instrumentor_analysis.reports import kernel

    console.show(kernel.console, found)
