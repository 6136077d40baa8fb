"""What a run of a script as it is has shown of its step: where in the user's files it lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from instrumentor.shared.project import seen_from_here

#: Frames that ran at one time, innermost first: file, line, function.
Chain: TypeAlias = tuple[tuple[Path, int, str], ...]


@dataclass(frozen=True)
class Observed:
    """Where the step was seen to be, in the user's files.

    Attributes:
        file, function: of the loop; the innermost function that ran from one update to the next.
        library: the loop is in no file of the project.
        call: the user's innermost place from which the loop runs.
        forward, backward, step: lines of ``function`` through which they ran, in order of time.
        in_turns: a call in the loop runs the backward in one turn, the optimizer's step in another.
        chains: for each of the three, the stacks seen; of forwards the first, and each in which a
            function ran that is in none before it.
        parameters: ``trainable`` and ``with_gradient`` at the first update.
    """

    file: Path
    function: str
    library: bool
    call: tuple[Path, int]
    forward: tuple[int, ...]
    backward: tuple[int, ...]
    step: tuple[int, ...]
    chains: Mapping[str, tuple[Chain, ...]]
    parameters: Mapping[str, int] | None
    in_turns: bool = False

    @property
    def sentence(self) -> str:
        """What was seen, for the console."""
        where = f"{seen_from_here(self.file)}, {self.function}()"
        parts = [
            f"{name} {'/'.join(map(str, lines))}"
            for name, lines in (
                ("forward", self.forward[:1]),
                ("backward", self.backward),
                ("optimizer step", self.step),
            )
            if lines
        ]
        return f"{where}: {', '.join(parts)}"
