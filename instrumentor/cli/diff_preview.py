"""What would be changed, as a diff; without Typer, because a plain dry run does without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from instrumentor.cli import next_commands
from instrumentor.locate.located import Declined
from instrumentor.machine.device_nodes import planned_here
from instrumentor.rewrite.prepare import prepare
from instrumentor.shared import console
from instrumentor.shared.options import Options

if TYPE_CHECKING:
    from instrumentor.run.launchers import Started


def show(
    started: Started,
    options: Options,
    *,
    full: bool = False,
    notes: bool = False,
    words: Sequence[str] = (),
) -> None:
    """Print what would be changed; write nothing.

    Args:
        full: with the recorder's module, which stands outside of the copy.
        notes: with warnings of weight ``note``.
        words: the options as they were typed, for the next command.

    Raises:
        InstrumentError: declined, or a wrong path or option.
    """
    target, options = next_commands.target(started), replace(options, test=started.test)
    try:
        prepared = prepare(started.script, options, started.arguments)
    except Declined as declined:
        declined.hint = next_commands.instead(declined, started.script, options, words, target)
        raise
    console.diff(prepared.whole_patch if full else prepared.patch)
    plan = prepared.plan
    kinds = {"train": "training loop", "inference": "inference loop"}
    console.say(f"Found the {kinds.get(plan.explanation['mode'], 'lines')} at {plan.found}")
    console.say(console.counts_line(plan.counts(), plan.options.steps, plan.rest_of_update))
    warnings = planned_here(plan.warnings)
    console.warn_all(warnings, notes=notes, ignored=plan.options.ignore_warnings)
    console.say(f"Next: {next_commands.run(words, next_commands.measured(started, warnings))}")
