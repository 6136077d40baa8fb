"""`instrument compare BASE NEW`: which run is faster, and by how much."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instrumentor.cli import common, next_commands, signature
from instrumentor.cli.compare_versions import PairOptions, PairSteps, begins_script, show_earlier
from instrumentor.cli.signature import Only, Verb, Without
from instrumentor.run.options import RunOptions
from instrumentor.shared import console
from instrumentor.shared.errors import RunFailed, UsageError
from instrumentor.shared.option_fields import MEASURE, Checked, option, output_file
from instrumentor.shared.outputs import Replacing, are_pairs, refuse_outputs, write_new

if TYPE_CHECKING:
    from instrumentor_analysis.compare.model import Comparison

# In the place of `--`: no path holds it.
_AGAINST = "\0"


@dataclass(frozen=True)
class Asked(Checked, Replacing):
    """Choices of the command line alone."""

    html: Path | None = output_file("Write a page with the runs side by side.")
    markdown: Path | None = output_file("Write Markdown, as for a pull request.")
    fail_on_regression: float | None = option(
        MEASURE,
        None,
        "Exit with code 6 when the iteration is slower by more than this many percent, with 7 when "
        "more runs are needed to tell (it says how many), with 0 when a regression larger by 3 "
        "points is ruled out.",
        metavar="PCT",
    )
    judge: str = option(
        MEASURE,
        "iteration",
        "Conclude from the iteration (of micro-steps the update), or from the timed region alone.",
        choices=("iteration", "region"),
        once=True,
    )
    batch_size: str = option(
        MEASURE,
        "",
        "Samples per step of each run, overriding what was recorded; - keeps it.",
        metavar="BASE,NEW",
        once=True,
    )


@Verb
def compare(
    context: typer.Context,
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BASE NEW | SCRIPT ARGS",
            help=(
                "A script (or -m MODULE), run in pairs at two commits (--refs), under two "
                "interpreters, with and without a setting, or with other arguments (after --). Or "
                "finished runs: run "
                "folders (one folder of pairs is judged again) or summary.json files; @NAME is a "
                "pinned run of the history, @last the newest one, SCRIPT@NAME and SCRIPT@last "
                "those of one script. Each is compared with the first; with -- the runs before it "
                "are repeats of one version, those after it of the other."
            ),
        ),
    ] = None,
    *,
    asked: Asked,
    options: Annotated[PairOptions, Without("rewrite", "run")],
    rewrite: Annotated[
        PairSteps, Only("steps", "warmup", "scope", "loop", "mode", "region", "keep_validation")
    ],
    run: Annotated[RunOptions, Only("python", "tt_xla", "timeout_s", "link", "no_link")],
    shown: Annotated[common.Shown, Without("verbose")],
    store: common.Store,
) -> None:
    """Compare two versions of a script by running them in pairs, or finished runs."""
    from instrumentor.cli.compare_runs import compared, judged
    from instrumentor.cli.compare_versions import are_scripts, compare_versions
    from instrumentor.results.history import History

    percent = asked.fail_on_regression
    if percent is not None and not 0 <= percent < 1e6:
        raise UsageError(f"--fail-on-regression {percent:g}: must be 0 or more percent")
    if not runs:
        raise UsageError(
            "nothing to compare was given",
            "Give two run folders, BASE and NEW, or a script and --refs BASE..NEW.",
        )
    groups, of_region = _groups(runs), asked.judge == "region"
    if are_scripts([group[0] for group in groups], options):
        options = replace(options, rewrite=rewrite, run=run)
        typed = next_commands.typed(context)
        script, taken = _handed_over(context, groups)
        try:
            compare_versions(groups, options, percent, shown, of_region=of_region, typed=typed)
        except RunFailed as failed:
            common.tell_taken(failed, script, taken)
            raise
        return
    runs = [run for group in groups for run in group]
    if len(runs) == 1 and are_pairs(Path(runs[0])):
        _judge_pairs(Path(runs[0]), asked, options.resolution, json=shown.json)
        return
    if len(runs) < 2:
        raise UsageError("a comparison takes two runs", "Give BASE and NEW: two run folders.")
    _refuse_itself(groups)
    sizes = _sizes(asked.batch_size, groups)
    refuse_outputs([asked.html, asked.markdown], map(Path, runs), force=asked.force)
    comparisons = compared(groups, sizes, History(store.history), of_region=of_region)
    _write(comparisons, asked)
    _show(comparisons, shown.json)
    for said in () if percent is None else judged(comparisons, percent):
        console.say(said)


def _handed_over(context: typer.Context, groups: list[list[str]]) -> tuple[Path, list[str]]:
    """Say which options of ours stand behind a script; the last such script, and those."""
    told: tuple[Path, list[str]] = (Path(), [])
    for group in groups:
        at = next((at for at, word in enumerate(group) if begins_script(word)), 0)
        # Of `-m MODULE` the module is what the rest is passed to.
        at = min(at + (group[at] == "-m"), len(group) - 1)
        script = Path(group[at])
        taken = common.tell_handed_over(context, script, group[at + 1 :])
        told = (script, taken) if taken else told
    return told


def _refuse_itself(groups: list[list[str]]) -> None:
    """A run against itself says nothing, as where ``latest`` is the other one.

    Raises:
        UsageError: a run of the base is among those that it is compared with.
    """
    base = {Path(run).resolve(): run for run in groups[0]}
    for run in (run for group in groups[1:] for run in group):
        same = base.get(Path(run).resolve())
        if same is not None and Path(run).exists():  # names of the history are looked at there
            shown = console.shown(Path(run).resolve())
            raise UsageError(
                f"{run} and {same} are one run: {shown}",
                "Give another run, or measure again with instrument run.",
            )


def _judge_pairs(folder: Path, asked: Asked, resolution: float, *, json: bool) -> None:
    if asked.html or asked.markdown:
        runs = console.quoted(folder / "01_base", folder / "01_new")
        told = f"A page is of single runs, for example: instrument compare --html x.html {runs}"
        raise UsageError(f"{folder}: pairs have no page", told)
    show_earlier(
        folder,
        json=json,
        resolution=resolution,
        gate_percent=asked.fail_on_regression,
        of_region=asked.judge == "region",
    )


class Command(signature.Command):
    """Keeps the ``--`` between two groups, and all that stands behind a script."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = [_AGAINST if arg == "--" else arg for arg in args]
        script = next((at for at, arg in enumerate(given) if begins_script(arg)), None)
        if script is not None:  # from there on options are the script's own
            given.insert(script, "--")
        return super().parse_args(ctx, given)


def _groups(runs: list[str]) -> list[list[str]]:
    """The runs on either side of ``--``; without it each run by itself.

    Raises:
        UsageError: there is not one such mark with runs on both sides.
    """
    if _AGAINST not in runs:
        one = begins_script(runs[0]) and not (len(runs) == 2 and runs[1].endswith(".py"))
        return [runs] if one else [[run] for run in runs]
    at = runs.index(_AGAINST)
    groups = [runs[:at], runs[at + 1 :]]
    if not all(groups) or _AGAINST in groups[1]:
        raise UsageError(
            "-- separates the runs of two versions, once",
            "For example: instrument compare A1 A2 A3 -- B1 B2 B3",
        )
    return groups


def _sizes(text: str, groups: list[list[str]]) -> list[int | None]:
    counts = [len(group) for group in groups]
    if not text:
        return [None] * sum(counts)
    parts = [part.strip() for part in text.split(",")]
    bad = [part for part in parts if part != "-" and not (part.isdigit() and int(part) > 0)]
    if bad or len(parts) != len(groups):
        raise UsageError(
            f"--batch-size {text}: takes a whole number or - for each of the {len(groups)} runs",
            "For example: --batch-size 32,64.",
        )
    sizes = [None if part == "-" else int(part) for part in parts]
    return [size for size, count in zip(sizes, counts, strict=True) for _ in range(count)]


def _write(comparisons: tuple[Comparison, ...], asked: Asked) -> None:
    from instrumentor_analysis.reports.comparison import document

    for target, render in ((asked.html, document.html), (asked.markdown, document.markdown)):
        if target is not None:
            text = render(comparisons).encode("utf-8", errors="replace")
            write_new(target, text, force=asked.force)
            console.say(f"Wrote {target}")


def _show(comparisons: tuple[Comparison, ...], json: bool) -> None:
    if json:
        from instrumentor_analysis.compare.model import document

        console.out_json(document(comparisons))
        return
    from instrumentor_analysis.reports.comparison import document as reports

    console.show(reports.console, comparisons)
