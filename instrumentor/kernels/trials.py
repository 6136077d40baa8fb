"""The edits of one number that the findings of a simulated kernel name, each simulated as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from instrumentor.kernels.model import Kernel, Number
from instrumentor.kernels.prepare import PreparedKernel
from instrumentor_analysis.kernels.findings import Finding, Try

#: Trials of one version; each is a simulation of its own.
MOST = 6


class Trial(Struct, frozen=True):
    """A number of the kernel's file, and what is written over it in the copy."""

    number: Number
    text: str

    @property
    def title(self) -> str:
        """What is tried, in the words of the source."""
        number = self.number
        if number.of == "grid":
            return f"grid={self.text} (line {number.line})"
        name = f"block_count of {number.name}" if number.of == "block_count" else number.name
        return f"{name} {number.value} -> {self.text} (line {number.line})"


class Tried(Struct, frozen=True):
    """What came of a trial: better, worse, same, traded, invalid or failed, and why."""

    title: str
    state: Annotated[str, Meta(pattern="^(better|worse|same|traded|invalid|failed)$")]
    said: str


def trials(kernel: Kernel, found: Sequence[Finding]) -> tuple[Trial, ...]:
    """What the findings name and the kernel's file writes as a number, each place once."""
    every = (
        Trial(number, text)
        for finding in found
        for asked in finding.tries
        for number in kernel.numbers
        if (text := _written(asked, number))
    )
    places = {(each.number.line, each.number.start, each.text): each for each in every}
    return tuple(places.values())[:MOST]


def _written(asked: Try, number: Number) -> str:
    """What the number would be; '' for another number than is asked for."""
    if asked.of != number.of or (asked.name and asked.name != number.name):
        return ""
    if number.value is None:
        return '"full"'
    value = asked.to if asked.to is not None else number.value * (asked.times or 1)
    return "" if value == number.value else str(value)


def with_trial(prepared: PreparedKernel, trial: Trial) -> PreparedKernel:
    """The copy's text with the number changed; its lines stay where they are."""
    file, number = prepared.plan.kernel.source.path, trial.number
    lines = prepared.replacements[file].splitlines(keepends=True)
    original = prepared.originals[file].splitlines(keepends=True)[number.line - 1]
    for at, line in prepared.line_map.items():
        if line == number.line and lines[at - 1] == original:
            start, end = original[: number.start], original[number.end :]
            lines[at - 1] = start + trial.text.encode() + end
    return replace(prepared, replacements={**prepared.replacements, file: b"".join(lines)})
