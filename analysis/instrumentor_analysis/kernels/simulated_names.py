"""Tensors that stand where their names say that another one belongs.

A suspicion, not a proof: it is told where a result is wrong, or where nothing checks it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from instrumentor_analysis.kernels.findings import Finding
from instrumentor_analysis.kernels.simulated_facts import CORRECT, Simulated
from instrumentor_analysis.kernels.simulation import Place

#: So much longer than a parameter a variable may be and still be called like it: x and xd.
_LONGER = 2


def called_like(name: str, other: str) -> bool:
    """Whether a variable is named after another one: x_dfb, x_dev or xd after x."""
    longer, short = name.lower(), other.lower()
    inside = f"_{short}_" in f"_{longer}_"
    return inside or (longer.startswith(short) and len(longer) <= len(short) + _LONGER)


def misplaced(facts: Simulated) -> Iterator[Finding]:
    """Arguments and copies whose names cross; nothing where a check found the result right."""
    if facts.approved:
        return
    yield from _arguments(facts)
    yield from _copies(facts)


def _arguments(facts: Simulated) -> Iterator[Finding]:
    call = facts.run.get("invocation") or {}
    given = dict(facts.run.get("given") or {})
    for one, other in combinations(given, 2):
        a, b = given[one], given[other]
        crossed = called_like(a, other) and called_like(b, one)
        if crossed and not called_like(a, one) and not called_like(b, other):
            line = facts.parameters.get(one)
            order = f" (line {line})" if line else ""
            yield Finding(
                "swapped",
                CORRECT,
                f"{a} and {b} look swapped in the call",
                f"line {call.get('line')} gives {a} for {one} and {b} for {other}",
                f"Give the arguments in the order of the parameters{order}.",
            )


def _copies(facts: Simulated) -> Iterator[Finding]:
    tensors = [*facts.simulation.tensors, *(facts.run.get("tensors") or ())]
    told: set[tuple[int, str, str]] = set()
    for place in facts.simulation.places:
        meant = _meant(place, tensors)
        if meant and (place.line, place.name, place.buffer) not in told:
            told.add((place.line, place.name, place.buffer))
            ends = [place.name, place.buffer]
            source, target = ends if place.what == "read" else ends[::-1]
            yield Finding(
                "swapped",
                CORRECT,
                f"{place.name} is copied where {meant} seems to belong",
                f"{facts.where([place])}: {source} to {target}",
                f"If {place.buffer} is for {meant}, copy {meant} there.",
            )


def _meant(place: Place, tensors: list[str]) -> str:
    """The tensor that the buffer of a copy is named after, where that is another one alone."""
    if not place.buffer or called_like(place.buffer, place.name):
        return ""
    others = {name for name in tensors if called_like(place.buffer, name)}
    return others.pop() if len(others) == 1 else ""
