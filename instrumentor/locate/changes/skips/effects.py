"""What statements change beyond their own values."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable
from enum import Flag, auto

from msgspec import Struct, field

from instrumentor.locate.changes.skips.modes import Mode, join
from instrumentor.locate.changes.skips.storage import (
    NOWHERE,
    Cell,
    Frame,
    Reach,
    Spelling,
    anywhere,
)
from instrumentor.read.syntax import Source

#: What changes something.
Change = tuple[Source, ast.AST]
_MANY = 8
_WIDEST = 60


class Files(Flag):
    """What is done with files and folders, which :mod:`files` tells apart."""

    WRITES = auto()  # or removes
    READS = auto()
    MAKES_FOLDER = auto()
    NEEDS_FOLDER = auto()  # makes a file, for which there has to be one


class Effects(Struct):
    """What statements do.

    Attributes:
        bound: names bound in their own scope.
        changed: names and attributes whose objects may be changed; with what does so.
        replaced: attributes, and names of other scopes, that may be set to another object.
        files: what is done with files.
        opened: the calls that do that, where they stand and with what they are given there.
        modes: how each module that is switched is left.
        moved: modules moved to another device, as they are spelled where that is: whether to the
            CPU at last, and what does so.
        draws: data loaders that are walked over, as the examined scope spells them, in order;
            nothing for random numbers that cannot be drawn in their place.
        unknown: the first thing that cannot be read or taken out, as `FILE:LINE: text`.
    """

    bound: set[Cell] = field(default_factory=set)
    changed: dict[Cell, Change] = field(default_factory=dict)
    replaced: dict[Cell, Change] = field(default_factory=dict)
    files: Files = Files(0)
    opened: dict[tuple[ast.Call, Frame], Files] = field(default_factory=dict)
    modes: dict[Spelling, Mode] = field(default_factory=dict)
    moved: dict[tuple[Source, ast.AST, str], tuple[bool, Change]] = field(default_factory=dict)
    draws: list[Spelling] = field(default_factory=list)
    unknown: str = ""

    def add(self, other: Effects, *, certain: bool = True) -> None:
        self.bound |= other.bound
        self.changed = {**other.changed, **self.changed}
        self.replaced = {**other.replaced, **self.replaced}
        self.files |= other.files
        self.opened = {**other.opened, **self.opened}
        self.moved = {**self.moved, **other.moved}
        for key, mode in other.modes.items():
            self.modes[key] = join(self.modes.get(key), mode)
        self.draws += other.draws if certain else [NOWHERE] * len(other.draws)
        if len(self.draws) > _MANY:  # of a function that calls itself
            self.draws = [NOWHERE]
        self.unknown = self.unknown or other.unknown

    def binds(self, path: Spelling) -> bool:
        """Whether a path means something else, or nothing, without this."""
        bound = any(c.name == path.first and c.scope is path.scope for c in self.bound)
        changed = self.changed if "[" in path.text else {}
        return bound or any(c.name in path.words for c in (*self.replaced, *changed))

    @property
    def left(self) -> list[Mode]:
        """The modules that are not given back as they were found."""
        return [mode for mode in self.modes.values() if not mode.is_kept]


def changes(frame: Frame, node: ast.AST, cells: Iterable[Cell]) -> Effects:
    """What a node may change in place."""
    return Effects(changed=dict.fromkeys(cells, (frame.source, node)))


def replaces(frame: Frame, node: ast.AST, cells: Iterable[Cell]) -> Effects:
    """What a node may put something else into."""
    return Effects(replaced=dict.fromkeys(cells, (frame.source, node)))


def shown(change: Change) -> str:
    """`TEXT at FILE:LINE`, of a long text the beginning."""
    source, node = change
    called = isinstance(node, ast.Call)
    text = textwrap.shorten(
        ast.unparse(node.func if isinstance(node, ast.Call) else node), _WIDEST, placeholder="..."
    )
    return f"{text}{'()' if called else ''} at {source.at(getattr(node, 'lineno', 0))}"


def cells_of(reach: Reach) -> set[Cell]:
    """Storage through which a change of an object shows, and of whatever it leads to."""
    return set() if reach.plain else {*anywhere(reach.cells | reach.held)}


def unread(frame: Frame, node: ast.AST, what: str) -> Effects:
    return Effects(unknown=f"{frame.source.at(getattr(node, 'lineno', 0))}: {what}")
