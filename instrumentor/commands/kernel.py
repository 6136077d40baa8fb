"""`instrument kernel explain|run|report|iterate`: tt-lang kernels, one invocation at a time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instrumentor import console
from instrumentor.commands import common, panels
from instrumentor.errors import InstrumentError, RunFailed, UsageError
from instrumentor.outputs import refuse_outputs, write_new

if TYPE_CHECKING:
    from instrumentor.kernels.iterate import Iteration
    from instrumentor.kernels.options import KernelOptions
    from instrumentor.kernels.run import KernelRun
    from instrumentor_analysis.kernels.report import KernelReport

_SCRIPT_LAST = {"allow_interspersed_args": False, "ignore_unknown_options": False}

app = typer.Typer(
    help="Profile and optimise tt-lang kernels, one invocation at a time.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Script = Annotated[Path, typer.Argument(help="A script that invokes a tt-lang kernel.")]
Arguments = Annotated[
    list[str] | None, typer.Argument(help="Its own arguments, handed over untouched.")
]
KernelName = Annotated[
    str,
    typer.Option(
        "--kernel",
        metavar="NAME",
        help="The kernel, as NAME or FACTORY.NAME; needed when several are invoked.",
    ),
]
Call = Annotated[
    int | None,
    typer.Option("--call", metavar="N", help="Its Nth invocation, as explain numbers them."),
]
KernelMode = Annotated[
    str,
    typer.Option(
        "--mode",
        help=(
            "auto-profile: cycles line by line; perf: duration and data movement; signposts: "
            "regions marked with ttl.signpost()."
        ),
    ),
]
Validate = Annotated[
    str,
    typer.Option(
        "--validate",
        metavar="COMMAND",
        help=(
            "Command that checks the kernel, run on your own files without profilers; its exit "
            "code decides."
        ),
    ),
]
Reference = Annotated[
    Path | None,
    typer.Option(
        "--reference",
        metavar="FILE",
        help="The right output (.npy, .npz, .json, .csv, .txt), with --output-file.",
    ),
]
OutputFile = Annotated[
    Path | None,
    typer.Option(
        "--output-file",
        metavar="FILE",
        help="The file that the script writes and that is compared with --reference.",
    ),
]
Rtol = Annotated[float, typer.Option("--rtol", help="Relative tolerance of that comparison.")]
Atol = Annotated[float, typer.Option("--atol", help="Absolute tolerance of that comparison.")]
ProductionShape = Annotated[
    str,
    typer.Option(
        "--production-shape",
        metavar="RxC,...",
        help="Shape of the arguments in production: one for all, or one for each.",
    ),
]
Chips = Annotated[int, typer.Option("--chips", help="Chips that production will use.")]
RunTest = Annotated[
    str,
    typer.Option(
        "--run-test",
        metavar="PATH|auto|no",
        help="tt-lang's run-test.sh; auto: the one on PATH or in the project; no: run directly.",
    ),
]


@app.command("explain", cls=panels.Command)
def explain(
    script: Script,
    kernel: KernelName = "",
    call: Call = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Print the diff that a run would apply, nothing else.")
    ] = False,
    json: common.Json = False,
) -> None:
    """Show kernels, their invocations, and which would be profiled."""
    if diff:
        from instrumentor.kernels.plan import Choice
        from instrumentor.kernels.prepare import prepare_kernel

        console.diff(prepare_kernel(script, Choice(kernel, call)).patch)
        return
    from instrumentor.kernels.find import find_kernels
    from instrumentor.kernels.plan import Choice, found_json, plan_for
    from instrumentor.locate.model import Declined
    from instrumentor.prepare import script_path
    from instrumentor.project import find_project

    path = script_path(script)
    project = find_project(path)
    found = find_kernels(path, project.import_roots)
    try:
        document = plan_for(project, found, Choice(kernel, call)).to_json()
    except Declined as declined:
        document = found_json(found)
        reasons = [
            {
                "file": str(reason.file),
                "line": reason.line,
                "kind": reason.kind,
                "message": reason.message,
                "remedy": reason.remedy,
            }
            for reason in declined.reasons
        ]
        document |= {"chosen": None, "declined": reasons}
    if json:
        console.out_json(document)
    else:
        _describe(script, document)
    raise typer.Exit(3 if "declined" in document else 0)


def _describe(script: Path, document: dict[str, Any]) -> None:
    for kernel in document["kernels"]:
        _describe_kernel(kernel)
        for invocation in document["invocations"]:
            if invocation["kernel"] == kernel["qualified"]:
                _describe_invocation(invocation, document["chosen"])
    if document["tensors"]:
        console.out("data sizes in sight:")
    for tensor in document["tensors"]:
        shape = " x ".join(map(str, tensor["shape"]))
        dtype = tensor["dtype"] or "dtype not given"
        console.out(
            f"  {tensor['line']:>5}  {tensor['name']}: {shape}, {dtype}, {tensor['memory']}"
        )
    if "declined" in document:
        for reason in document["declined"]:
            where = f"{console.shown(Path(reason['file']))}:{reason['line']}"
            console.out(f"declined: {where}: {reason['message']}")
        console.out(f"hint: {document['declined'][0]['remedy']}")
        return
    console.out("edits:")
    for edit in document["edits"]:
        name = Path(edit["file"]).name
        console.out(f"  {name}:{edit['line']:<5} {edit['kind']:<13} {edit['reason']}")
    for warning in document["warnings"]:
        console.warn(warning)
    chosen = document["chosen"]["kernel"]
    console.out(f"Next: instrument kernel run --kernel {console.quoted(chosen, script)}")


def _describe_kernel(kernel: dict[str, Any]) -> None:
    grid = kernel["grid"]
    asked = "no grid given" if grid["kind"] == "default" else f"grid {grid['text']}"
    factory = f", made by {kernel['factory']}()" if kernel["factory"] else ""
    console.out(
        f"{console.shown(Path(kernel['file']))}:{kernel['line']}: @ttl.{kernel['decorator']} "
        f"{kernel['qualified']}, {asked}{factory}"
    )
    for thread in kernel["threads"]:
        console.out(f"  {thread['line']:>5}  {thread['kind']} thread {thread['name']}")
    for buffer in kernel["buffers"]:
        tiles = " x ".join(map(str, buffer["tiles"])) if buffer["tiles"] else "?"
        console.out(
            f"  {buffer['line']:>5}  buffer {buffer['name']}: {tiles} tiles, "
            f"{buffer['factor'] or '?'} blocks"
        )


def _describe_invocation(invocation: dict[str, Any], chosen: dict[str, Any] | None) -> None:
    runs = chosen is not None and chosen["invocation"] == invocation
    mark = "runs" if runs else "skipped" if chosen is not None else ""
    console.out(
        f"  {invocation['line']:>5}  call {invocation['number']}: {invocation['text']}"
        + (f"  [{mark}]" if mark else "")
    )
    for step in invocation["through"]:
        console.out(f"         reached from line {step['line']}: {step['text']}")
    for loop in invocation["loops"]:
        console.out(f"         in a loop at line {loop['line']}: {loop['text']}")


@app.command("run", cls=panels.Command, context_settings=_SCRIPT_LAST)
def run(
    context: typer.Context,
    script: Script,
    arguments: Arguments = None,
    kernel: KernelName = "",
    call: Call = None,
    mode: KernelMode = "perf",
    validate: Validate = "",
    reference: Reference = None,
    output_file: OutputFile = None,
    rtol: Rtol = 1e-2,
    atol: Atol = 1e-2,
    production_shape: ProductionShape = "",
    chips: Chips = 1,
    run_test: RunTest = "auto",
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="The run folder; default NAME_kernel here, -2, -3 ... when it exists.",
        ),
    ] = None,
    python: common.Python = None,
    timeout: common.Timeout = None,
    json: common.Json = False,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Profile one invocation, in a copy; say what limits it."""
    from instrumentor.kernels.run import run_kernel

    options = _options(
        kernel, call, mode, validate, reference, output_file, rtol, atol, production_shape, chips,
        run_test, output, python, timeout,
    )  # fmt: skip
    if not quiet:
        common.tell_handed_over(context, script, arguments or [])
    narrator = console.Narrator(quiet=quiet or (json and not verbose), verbose=verbose)
    try:
        with narrator.alive():
            result = run_kernel(script, arguments or [], options, narrator)
    except InstrumentError as error:
        partial: KernelRun | None = error.result
        if partial is not None:
            console.warn("this is what was printed before the failure")
            _show(partial.report, json=json)
        raise
    _show(result.report, json=json)
    if not quiet and not json:
        from instrumentor.workspace.linked import fate

        fared = fate(changed=bool(result.linked_changed), whole=result.linked_whole)
        console.say(f"Wrote {console.shown(result.folder)}/ ({fared})")
        console.say(f"Next: instrument kernel iterate {console.quoted(script)}")
    if result.verdict is not None and not result.verdict.ok:
        raise RunFailed(
            f"the validation failed: {result.verdict.by}: {result.verdict.detail}",
            "Correct the kernel first: the time of a wrong result means nothing.",
        )
    if result.verdict is not None and not quiet and not json:
        console.say(f"Validated by {result.verdict.by}: {result.verdict.detail}")


@app.command("report", cls=panels.Command)
def report(
    path: Annotated[
        Path,
        typer.Argument(metavar="DIR|LOG", help="A folder of kernel run, or a log of tt-lang's."),
    ],
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the report as HTML.")
    ] = None,
    force: common.Force = False,
    json: common.Json = False,
) -> None:
    """Read an earlier run again, or a log that tt-lang printed."""
    from instrumentor_analysis.errors import AnalysisError
    from instrumentor_analysis.kernels.report import report as read
    from instrumentor_analysis.kernels.report import report_of_log

    refuse_outputs([html], [path], force=force)
    try:
        found = read(path) if path.is_dir() else report_of_log(path)
    except AnalysisError as error:
        raise UsageError(error.message, error.hint) from error
    _show(found, json=json)
    if html is not None:
        from instrumentor_analysis.reports.kernel_html import render

        write_new(html, render(found).encode("utf-8", errors="replace"), force=force)
        console.say(f"Wrote {html}")


@app.command("iterate", cls=panels.Command, context_settings=_SCRIPT_LAST)
def iterate(
    context: typer.Context,
    script: Script,
    arguments: Arguments = None,
    kernel: KernelName = "",
    call: Call = None,
    mode: KernelMode = "perf",
    repeat: Annotated[
        int,
        typer.Option("--repeat", help="Runs of each version; below 4 no difference is sure."),
    ] = 4,
    once: Annotated[
        bool,
        typer.Option("--once", help="Measure what the files hold now, print the summary, end."),
    ] = False,
    restore: Annotated[
        bool,
        typer.Option(
            "--restore", help="Put the best version back (from git where it is there), and end."
        ),
    ] = False,
    session: Annotated[
        Path | None,
        typer.Option(
            "--session",
            metavar="DIR",
            help="Where the session is kept and taken up again; default NAME_iterate here.",
        ),
    ] = None,
    validate: Validate = "",
    reference: Reference = None,
    output_file: OutputFile = None,
    rtol: Rtol = 1e-2,
    atol: Atol = 1e-2,
    production_shape: ProductionShape = "",
    chips: Chips = 1,
    run_test: RunTest = "auto",
    python: common.Python = None,
    timeout: common.Timeout = None,
    json: common.Json = False,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Measure a baseline, then each of your edits, validated."""
    from instrumentor.kernels.iterate import Iteration

    options = _options(
        kernel, call, mode, validate, reference, output_file, rtol, atol, production_shape, chips,
        run_test, None, python, timeout,
    )  # fmt: skip
    if mode == "signposts":
        raise UsageError(
            "--mode signposts gives no wall time", "Use --mode perf (the default) to compare."
        )
    narrator = console.Narrator(quiet=not verbose, verbose=verbose)
    work = Iteration(
        script, arguments or [], options, repeat=repeat, folder=session, progress=narrator
    )
    if not quiet:
        common.tell_handed_over(context, script, arguments or [])
    if restore:
        back = work.restore()
        console.say(f"Restored version {back.number} from {back.source}")
        return
    if not options.criteria.given and not quiet:
        console.warn("nothing validates the kernel: give --validate COMMAND or --reference FILE")
    _Rounds(work, script, quiet=quiet or json).go(once=once)
    _summarise(work, json=json)
    last = work.session.versions[-1] if work.session.versions else None
    if once and last is not None and last.state in ("invalid", "failed"):
        raise RunFailed(
            f"version {last.number}: {last.problem}",
            f"Go back: instrument kernel iterate --restore {script}",
        )


class _Rounds:
    """The conversation of an iteration."""

    def __init__(self, work: Iteration, script: Path, *, quiet: bool) -> None:
        self.work, self.script, self.quiet = work, script, quiet

    def say(self, text: str) -> None:
        if not self.quiet:
            console.say(text)

    def go(self, *, once: bool) -> None:
        """Measure, wait, measure ... until interrupted; or once."""
        from instrumentor.errors import Interrupted

        try:
            if self.work.changed():
                self.round()
            elif once:
                self.say("The files are as they were measured last.")
            while not once:
                self.say(f"Edit {self.script} and save it; Ctrl-C ends.")
                self.work.wait_for_change()
                self.round()
        except (KeyboardInterrupt, Interrupted):
            self.say("")

    def round(self) -> None:
        """One version."""
        from instrumentor.kernels.telling import version_line

        number = len(self.work.session.versions) + 1
        self.say(f"Measuring version {number}, {self.work.repeat} runs ...")
        version = self.work.measure()
        self.say(version_line(version))
        limit = self.work.report.limit if self.work.report else None
        if limit is not None and version.good:
            self.say(f"  bottleneck: {limit.title} ({limit.evidence})")
            self.say(f"  change: {limit.change}")
            self.say(f"  gain: {limit.worth}")
        if version.state in ("slower", "invalid", "failed"):
            self.offer(number)

    def offer(self, number: int) -> None:
        """Offer to go back to the best version."""
        target = self.work.last_good()
        if target is None:
            return
        if not sys.stdin.isatty():
            self.say(
                f"  version {target.number} is the best so far; go back to it with: instrument "
                f"kernel iterate --restore {self.script}"
            )
            return
        question = f"  Restore version {target.number}, the best so far, over {number}?"
        if typer.confirm(question, default=False, err=True):
            back = self.work.restore()
            self.say(f"  restored version {back.number} from {back.source}")


def _summarise(work: Iteration, *, json: bool) -> None:
    from instrumentor.kernels.telling import summary_json, summary_lines

    if json:
        console.out_json({**summary_json(work.session), "folder": str(work.session.folder)})
        return
    for line in summary_lines(work.session):
        console.out(line)


def _options(
    kernel: str,
    call: int | None,
    mode: str,
    validate: str,
    reference: Path | None,
    output_file: Path | None,
    rtol: float,
    atol: float,
    production_shape: str,
    chips: int,
    run_test: str,
    output: Path | None,
    python: str | None,
    timeout: float | None,
) -> KernelOptions:
    from instrumentor.kernels.options import KernelOptions, parse_shapes
    from instrumentor.kernels.plan import Choice
    from instrumentor.kernels.validate import make_criteria

    return KernelOptions(
        choice=Choice(kernel, call),
        mode=mode,
        output=output,
        python=python,
        run_test=run_test,
        criteria=make_criteria(validate, reference, output_file, rtol, atol, timeout),
        production=parse_shapes(production_shape),
        chips=chips,
        timeout_s=timeout,
    )


def _show(found: KernelReport, *, json: bool) -> None:
    if json:
        console.out_json({**found.to_json(), "folder": str(found.folder)})
        return
    from instrumentor_analysis.reports.kernel_console import render

    width = console.terminal_width()
    console.out(render(found, width=width, color=console.colored(sys.stdout)).rstrip("\n"))
