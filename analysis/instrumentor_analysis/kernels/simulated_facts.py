"""A simulation with what the source and the run say about its kernel: names, lines, coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct

from instrumentor_analysis.kernels.simulation import Place, Simulation
from instrumentor_analysis.shared.documents import listed

CORRECT, CORES, TRAFFIC, BLOCKS = 4, 1, 2, 3


class Simulated(Struct, frozen=True, dict=True):
    """A simulation, and what the source and the run say about its kernel.

    Attributes:
        run: run.json; every key may be absent.
        cores: of the chip that the kernel is for.
    """

    simulation: Simulation
    run: Mapping[str, Any]
    cores: int = 0

    def line_of(self, name: str) -> str:
        """Where the source defines a buffer or a thread: `` (line 12)``, else nothing."""
        line = self._lines.get(name)
        return "" if line is None else f" (line {line})"

    @cached_property
    def _lines(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for entry in (*(self.run.get("buffers") or ()), *(self.run.get("threads") or ())):
            found.setdefault(entry["name"], entry["line"])
        return found

    def named(self, name: str) -> str:
        """A buffer or thread with its line."""
        return name + self.line_of(name)

    @property
    def parameters(self) -> Mapping[str, int]:
        """The kernel's parameters and their lines."""
        names = self.run.get("parameters") or ()
        return dict(zip(names, self.run.get("parameter_lines") or (), strict=False))

    @property
    def at_grid(self) -> str:
        """The grid, with the line that asks for it."""
        line = (self.run.get("grid") or {}).get("line")
        extents = "x".join(map(str, self.simulation.grid)) or "unknown"
        return f"grid {extents}" + (f" (line {line})" if line else "")

    def places(self, what: str, name: str, thread: str = "") -> tuple[Place, ...]:
        """Where a tensor is read or written, or a block of a buffer first asked for."""
        known = self._places.get((what, name), ())
        return tuple(place for place in known if thread in ("", place.thread))

    @cached_property
    def _places(self) -> Mapping[tuple[str, str], Sequence[Place]]:
        found: dict[tuple[str, str], list[Place]] = {}
        for place in self.simulation.places:
            found.setdefault((place.what, place.name), []).append(place)
        return found

    def where(self, places: Iterable[Place]) -> str:
        """``line 12``, ``lines 12 and 15``, ``ops.py:12``; '' where no line is known."""
        found = sorted({(place.file, place.line) for place in places if place.line})
        own = [str(line) for file, line in found if file == self.run.get("source_file")]
        others = [f"{Path(f).name}:{n}" for f, n in found if f != self.run.get("source_file")]
        lines = f"line{'s' * (len(own) > 1)} {joined(own)}" if own else ""
        return joined([*filter(None, [lines]), *others])

    def node(self, node: int) -> str:
        """A node by its coordinates."""
        return f"node {self.simulation.coordinates(node)}"

    def nodes(self, nodes: Sequence[int]) -> str:
        """Some nodes by their coordinates."""
        return listed([self.simulation.coordinates(node) for node in nodes])

    @property
    def approved(self) -> bool:
        """Whether a validation, or a check of the script's own, has found the result right."""
        verdict = self.run.get("validation")
        if isinstance(verdict, Mapping):
            return bool(verdict.get("ok"))
        ended = self.run.get("script_exit_code") == 0 and self.simulation.arithmetic
        return ended and bool(self.run.get("own_check"))

    @property
    def approver(self) -> str:
        """What has found the result right; '' where nothing has."""
        verdict = self.run.get("validation")
        if not self.approved:
            return ""
        if isinstance(verdict, Mapping):
            return str(verdict.get("by"))
        return f"the script's own check (line {self.run.get('own_check')})"

    @property
    def wrong(self) -> bool:
        """Whether a check has found the result of this call wrong."""
        verdict = self.run.get("validation")
        found = isinstance(verdict, Mapping) and not verdict.get("ok")
        return found and not (verdict or {}).get("later")


def plural(count: int, noun: str) -> str:
    """``1 node``, ``64 nodes``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def are(count: int) -> str:
    """The verb of so many."""
    return "is" if count == 1 else "are"


def joined(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
