"""What several verbs share: arguments, options of the command line alone, and words about them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instrumentor.cli.signature import Only
from instrumentor.shared import console
from instrumentor.shared.errors import InstrumentError, RunFailed, UsageError
from instrumentor.shared.option_fields import OUTPUT, USUAL, option
from instrumentor.shared.project import ignored_mark, seen_from_here
from instrumentor_analysis.shared.files import read_text

if TYPE_CHECKING:
    from instrumentor.run.launchers import Started

Script = Annotated[Path | None, typer.Argument(help="The training script.")]
Arguments = Annotated[
    list[str] | None, typer.Argument(help="Its own arguments, passed on unchanged.")
]
Configuration = Annotated[
    list[str] | None, typer.Argument(help="Its own arguments (--config is read).")
]

_NEAR = 0.85  # --stepz is --steps, but --model is not --module


@dataclass(frozen=True)
class Shown:
    """How a result and its progress are shown."""

    json: bool = option(OUTPUT, False, "Print the result as JSON.")
    quiet: bool = option(OUTPUT, False, "No progress, only the result.", "--quiet", "-q")
    verbose: bool = option(
        USUAL,
        False,
        "Show the script's output as it comes; of a run the whole report, with its notes.",
        "--verbose",
        "-v",
    )

    @property
    def narrator(self) -> console.Narrator:
        """The progress as lines."""
        quiet = self.quiet or (self.json and not self.verbose)
        return console.Narrator(quiet=quiet, verbose=self.verbose)


Json = Annotated[Shown, Only("json")]


@dataclass(frozen=True)
class Notes:
    """Whether warnings of weight ``note`` are shown: everywhere on demand only."""

    verbose: bool = option(
        USUAL,
        False,
        "Show the notes, too: warnings on which no figure depends.",
        "--verbose",
        "-v",
    )


@dataclass(frozen=True)
class Preview:
    """Whether and how a dry run is shown."""

    dry_run: bool = option(USUAL, False, "Show diff, command and environment; run nothing.")
    full: bool = option(OUTPUT, False, "With --dry-run: show the recorder's module as well.")


@dataclass(frozen=True)
class Remembered:
    """The store of earlier runs."""

    history: Path | None = option(
        OUTPUT,
        None,
        "The store of earlier runs; default: history.sqlite in the user's data folder.",
        metavar="PATH",
    )
    no_history: bool = option(OUTPUT, False, "Do not add the run to the history.")


Store = Annotated[Remembered, Only("history")]


def started_by(script: Path | None, arguments: Sequence[str] | None, module: str) -> Started:
    """The script and what starts it, of `SCRIPT ARGS`, `-m MODULE ARGS` or a launcher's words.

    Raises:
        UsageError: no script is given, or there is no such module.
    """
    from instrumentor.run.launchers import started

    words = [*([str(script)] if script else []), *(arguments or [])]
    if not words and not module:
        raise UsageError("no script was given", "For example: instrument run train.py")
    found = started(words, module, Path.cwd())
    warn_of_ignored(found.script)
    return found


def warn_of_ignored(script: Path) -> None:
    """Name another user's file that would have made a script's project another one."""
    told = ignored_mark(script)
    if told:
        console.warn(told)


def end_on_sigterm() -> None:
    """Let SIGTERM, too, leave nothing behind; a run takes it, and Ctrl-C, by itself."""
    # As `timeout` and schedulers end a job; the default would leave the copy to the next start.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextlib.contextmanager
def working(
    narrator: console.Narrator, show_partial: Callable[[Any], None] | None = None
) -> Iterator[None]:
    """While something runs: told about; and where it fails, what there is all the same is shown."""
    end_on_sigterm()
    try:
        with narrator.alive():
            yield
    except InstrumentError as error:
        if error.result is not None and show_partial is not None:
            show_partial(error.result)
        raise


def tell_handed_over(context: typer.Context, script: Path, arguments: Sequence[str]) -> list[str]:
    """Say which of the script's arguments are or resemble options of this command.

    What stands behind the script is the script's; who meant us finds out before the run. With
    --quiet it is not said.

    Returns:
        Those that are.
    """
    if context.params.get("quiet"):
        return []
    ours = {name for parameter in context.command.params for name in parameter.opts}
    ours |= {*context.help_option_names}
    taken = [word for word in arguments if word.partition("=")[0] in ours and word != "-"]
    if taken:
        console.say(
            f"Passed to {script.name}: {' '.join(taken)} (options of instrument go "
            "before the script)"
        )
    for word, meant in _mistyped(script, arguments, ours).items():
        console.say(f"{word} is passed to {script.name}; did you mean {meant}?")
    return taken


def tell_taken(failed: RunFailed, script: Path, taken: Sequence[str]) -> None:
    """Say of a script that failed which options of ours it was given."""
    if taken:
        meant = f"{' '.join(taken)}: passed to {script.name}, since it stood behind the script."
        failed.hint = "\n  ".join((meant, failed.hint))


def _mistyped(script: Path, arguments: Sequence[str], ours: Set[str]) -> dict[str, str]:
    """Arguments that are nearly an option of ours and that the script does not mention."""
    words = (word.partition("=")[0] for word in arguments if word.startswith("--"))
    near = {word: get_close_matches(word, sorted(ours), 1, _NEAR) for word in words}
    unknown = {word: found[0] for word, found in near.items() if found and word not in ours}
    if not unknown or not script.is_file():
        return {}
    # Parsers derive `--batch-size` from a field batch_size: both spellings count as mentioned.
    text = read_text(script, "replace").replace("_", "-")
    return {word: it for word, it in unknown.items() if word[2:].replace("_", "-") not in text}


#: What is timed, by the mode of a plan.
LOOPS = {"train": "training loop", "inference": "inference loop", "region": "region"}


def lines(first: int, last: int) -> str:
    """``line 5``, ``lines 5-9``."""
    return f"line {first}" if first == last else f"lines {first}-{last}"


def show_edits(edits: Sequence[Mapping[str, Any]]) -> None:
    """The edits of a plan's document, a line each."""
    console.out("edits:")
    places = [f"{seen_from_here(Path(edit['file']))}:{edit['line']}" for edit in edits]
    wide = max(map(len, places), default=0)
    for edit, place in zip(edits, places, strict=True):
        console.out(f"  {place:<{wide}}  {_WHERE[_kind(edit)]:<13}  {edit['reason']}")


#: Where code comes to at the line of an edit, or what becomes of what stands there.
_WHERE = {
    "prelude": "at the top",
    "insert-before": "before",
    "insert-after": "behind",
    "disable": "commented out",
    "replace": "replaced",
    "move-after": "moved",
}


def _kind(edit: Mapping[str, Any]) -> str:
    return "replace" if edit["kind"] == "disable" and edit.get("code") else str(edit["kind"])


def configured(context: typer.Context) -> frozenset[str]:
    """The options that a pyproject.toml gave: it may have come with the project, from anybody."""
    given = ((name, context.get_parameter_source(name)) for name in context.params)
    return frozenset(name for name, source in given if source and source.name == "DEFAULT_MAP")
