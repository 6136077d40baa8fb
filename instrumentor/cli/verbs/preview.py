"""`instrument --dry-run SCRIPT`: the unified diff on stdout, counts and warnings on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from instrumentor.cli import next_commands
from instrumentor.locate.located import Declined
from instrumentor.rewrite.prepare import prepare
from instrumentor.shared import console
from instrumentor.shared.options import Options


def preview(
    script: Path, options: Options, *, full: bool = False, words: Sequence[str] = ()
) -> None:
    """Print what would be changed; write nothing.

    Args:
        full: with the recorder's module, which stands outside of the copy.
        words: the options as they were typed, for the next command.

    Raises:
        InstrumentError: declined, or a wrong path or option.
    """
    try:
        prepared = prepare(script, options)
    except Declined as declined:
        declined.hint = next_commands.instead(declined, script, options, words, [str(script)])
        raise
    console.diff(prepared.whole_patch if full else prepared.patch)
    explanation = prepared.plan.explanation
    loop = explanation["loop"]
    counter = explanation["counter"]
    counted = f", counter {counter['name']} {counter['line']}" if counter else ""
    backward = explanation["backward"]
    backed = f", backward {backward['line']}" if backward else ""
    kind = {"train": "training loop", "inference": "inference loop"}.get(
        explanation["mode"], "lines"
    )
    console.say(
        f"Found the {kind} at {console.shown(Path(loop['file']))}:{loop['line']} (forward "
        f"{explanation['forward']['line']}{backed}{counted})"
    )
    console.say(console.counts_line(prepared.plan.counts(), prepared.plan.options.steps))
    console.warn_all(prepared.plan.warnings)
    console.say(f"Next: {next_commands.run(words, [str(script)])}")
