"""`instrument tune SCRIPT ARGS`: change one thing at a time, keep what helps for sure."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instrumentor.cli import common, next_commands
from instrumentor.cli.signature import Only, Verb, Without
from instrumentor.run.options import RunOptions
from instrumentor.shared import console
from instrumentor.shared.errors import UsageError
from instrumentor.shared.option_fields import WHERE, option
from instrumentor.shared.outputs import TUNING
from instrumentor.tune.options import TrialOptions, TuneOptions
from instrumentor.tune.settings import assigned
from instrumentor_analysis.load.run_folder import read_facts

#: Of the table: what a terminal of ordinary width, a log and a pull request show whole.
_WIDEST = 100

if TYPE_CHECKING:
    from instrumentor.tune.report import Report
    from instrumentor.tune.tuning import Tuned


@dataclass(frozen=True)
class Asked:
    """Choices of the command line alone."""

    resume: Path | None = option(
        WHERE, None, "Resume a tuning that was killed or interrupted.", metavar="DIR", once=True
    )


@Verb
def tune(
    context: typer.Context,
    script: Annotated[
        Path | None, typer.Argument(help="The training or inference script; none with --resume.")
    ] = None,
    arguments: common.Arguments = None,
    *,
    options: TuneOptions,
    rewrite: Annotated[
        TrialOptions,
        Without(
            *("profiler", "keep_validation", "skip_validation", "skip_saving"),
            *("only", "skip", "time_budget_s", "phases"),
        ),
    ],
    run: Annotated[RunOptions, Only("python", "tt_xla", "link", "no_link", "keep_copy")],
    asked: Asked,
    shown: Annotated[common.Shown, Without("verbose")],
) -> None:
    """Find what makes a script faster, one change at a time.

    The script and its YAML stay as they are. Trials run in copies; a change is kept only when its
    gain exceeds the interval and the loss stays the same.
    """
    from instrumentor.tune.narrator import Narrator
    from instrumentor.tune.report import make_report, write
    from instrumentor.tune.tuning import resume as resume_tuning
    from instrumentor.tune.tuning import tune as tune_script

    options = replace(options, rewrite=rewrite, run=run)
    narrator = Narrator(quiet=shown.quiet)
    if (asked.resume is None) == (script is None):
        if script is None:
            raise UsageError(
                "which script?", "Give one, or --resume DIR. For example: instrument tune train.py"
            )
        raise UsageError("--resume DIR takes no script", "The script is in its journal.")
    try:
        with common.working(narrator):
            if script is None:
                assert asked.resume is not None
                tuned = resume_tuning(asked.resume, options, narrator)
            else:
                common.warn_of_ignored(script)
                common.tell_handed_over(context, script, arguments or [])
                tuned = tune_script(script, arguments or [], options, narrator)
    except KeyboardInterrupt:
        # Finished trials are in the journal: nothing of them is lost.
        if narrator.folder is not None:
            folder = console.quoted(narrator.folder)
            console.say(f"Stopped. Next: instrument tune --resume {folder}")
        raise
    report = make_report(tuned)
    write(tuned, report)
    _show(tuned, report, json=shown.json)
    fate = _fate(tuned.folder, quiet=shown.quiet)
    if not shown.quiet:
        console.say(f"Wrote {console.shown(tuned.folder)}/ ({fate})")
        console.say(f"Next: {_next(context, tuned, report)}")


def _show(tuned: Tuned, report: Report, *, json: bool) -> None:
    show_document(report.document, json=json)


def show_earlier(folder: Path, *, json: bool) -> None:
    """What an earlier tuning came to.

    Raises:
        UsageError: its document cannot be read, or is of another version.
    """
    from instrumentor.tune.report import SCHEMA
    from instrumentor_analysis.shared.documents import read

    path = folder / TUNING
    try:
        document = read(path)
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise ValueError(f"it is none of {SCHEMA}")
        show_document(document, json=json)
    except BrokenPipeError:  # the reader has gone
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        read_on = f"Read {console.quoted(folder / 'tune.md')}."
        raise UsageError(f"{path}: it is no document of a tuning ({error})", read_on) from error
    if not json:
        run = console.quoted(console.shown(first_run(folder)))
        console.say(f"Each trial is a run: instrument report {run}")


def first_run(folder: Path) -> Path:
    """The first run of a tuning, which is one of the script as it is."""
    return min(folder.glob("trials/*/run*"), default=folder / "trials")


def show_document(document: dict[str, Any], *, json: bool) -> None:
    """The table, its notes and the conclusion."""
    from instrumentor.tune.report import conclusion, table
    from instrumentor_analysis.reports.terminal import painter, table_lines

    if json:
        console.out_json(document)
    else:
        paint = painter(console.colored(sys.stdout))
        width = min(console.terminal_width(), _WIDEST)
        for line in table_lines(table(document), width, paint):
            console.out(line)
        console.out()
        for note in document["notes"]:
            console.out_wrapped(note, "- ", _WIDEST)
        console.out()
        console.out(conclusion(document))


def _next(context: typer.Context, tuned: Tuned, report: Report) -> str:
    """Go on, make the best configuration one's own, or find out another way what helps."""
    from instrumentor.tune.report import not_proven

    document, target = report.document, tuned.target
    if tuned.search.out_of_budget:
        return f"instrument tune --resume {console.quoted(console.shown(tuned.folder))}"
    if document["patch"]:
        root = console.shown(Path(document["patch_root"]))
        inside = () if root == "." else ("-C", root)
        return console.quoted("git", *inside, "apply", tuned.folder / document["patch"])
    arguments = document["best_arguments"] or target.arguments
    script = [console.word(Path(console.shown(target.script))), *arguments]
    unsure = not document["best"] and not_proven(document)
    if tuned.search.too_noisy or unsure:
        # Nothing was found out, not even what is promising.
        words = [*_typed(context, "tune"), *script]
        return f"instrument tune {console.quoted(*words)}  # when the machine is quiet"
    promising = tuned.search.promising()
    if document["withheld"] and promising is not None:
        # Pairs see the same machine, whatever goes on there.
        words = [*_typed(context, "compare"), "--set", assigned(*promising), *script]
        return f"instrument compare {console.quoted(*words)}"
    return next_commands.run(_typed(context, "run"), script)


def _typed(context: typer.Context, sibling: str) -> list[str]:
    """The options that another command takes as well; a folder of this one is none of its."""
    return next_commands.without(next_commands.typed(context, sibling), ("--resume", "--output"))


def _fate(folder: Path, *, quiet: bool) -> str:
    """What the trials say of the user's files; names the links, and what changed behind them."""
    from instrumentor.workspace.linked_data import SHOWN, UsersFiles
    from instrumentor_analysis.shared.documents import listed

    runs = [read_facts(path.parent)[0] for path in folder.glob("trials/*/run*/run.json")]
    linked, changed = (
        dict.fromkeys(Path(name) for run in runs for name in run.get(key, ()))
        for key in ("linked", "linked_changed")
    )
    if linked and not quiet:
        console.say(f"Linked into the copies: {listed(linked, 5)} (your own, not copied)")
    if changed:
        console.warn(
            f"your own files changed during the trials: {listed(changed, SHOWN)}; "
            "they are linked, not copied: --no-link DIR copies them"
        )
    whole = all(run.get("linked_whole", True) for run in runs)
    return UsersFiles(linked_changed=tuple(changed), linked_whole=whole).fate
