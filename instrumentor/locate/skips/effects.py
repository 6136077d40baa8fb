"""What statements change beyond their own values."""

from __future__ import annotations

import ast

from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor.locate.skips.storage import Cell, Frame, Reach


class Mode(Struct, frozen=True):
    """A module put into training or evaluation mode.

    Attributes:
        owner: the module as the examined statement's scope spells it, '' when it cannot.
        training: the mode; None when it is given back what it had.
        certain: not under a condition.
    """

    owner: str
    training: bool | None
    certain: bool


class Effects(Struct):
    """What statements do.

    Attributes:
        bound: names bound in their own scope.
        changed: names and attributes whose objects may be changed, attributes that are set.
        saves: a file is written or removed.
        loads: a file is read that may have been saved.
        modes: switches of modules in order.
        draws: data loaders that are walked over, as the examined scope spells them, in order; ''
            for random numbers that cannot be drawn in their place.
        unknown: what cannot be read or cannot be taken out, each as `FILE:LINE: text`.
    """

    bound: set[Cell] = field(default_factory=set)
    changed: set[Cell] = field(default_factory=set)
    saves: bool = False
    loads: bool = False
    modes: list[Mode] = field(default_factory=list)
    draws: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, other: Effects, *, certain: bool = True) -> None:
        self.bound |= other.bound
        self.changed |= other.changed
        self.saves |= other.saves
        self.loads |= other.loads
        self.modes += [replace(m, certain=m.certain and certain) for m in other.modes]
        self.draws += other.draws if certain else [""] * len(other.draws)
        self.unknown += other.unknown

    def mode_left(self) -> dict[str, Mode]:
        """The last switch of each module that is not given back its mode."""
        last = {mode.owner: mode for mode in self.modes}
        return {owner: mode for owner, mode in last.items() if mode.training is not None}


def cells_of(reach: Reach) -> set[Cell]:
    """Storage through which a change of an object shows, what a container holds included."""
    return set() if reach.plain else {*reach.cells, *reach.held}


def unread(frame: Frame, node: ast.AST, what: str) -> Effects:
    line = getattr(node, "lineno", 0)
    return Effects(unknown=[f"{frame.source.path.name}:{line}: {what}"])
