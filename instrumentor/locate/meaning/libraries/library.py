"""What is known of a library: one value of this type in one module of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from msgspec import Struct

from instrumentor.locate.meaning.roles import Effect, Kind, Role

_Meaning = TypeVar("_Meaning")
#: Meanings with the qualified names that have them, `*` for any text: the first that fits counts.
Table: TypeAlias = tuple[tuple[_Meaning, tuple[str, ...]], ...]


class Switch(Struct, frozen=True):
    """An option of a class that turns on what its modules do.

    Attributes:
        option: its name; none where nothing tells.
        at: its place among the arguments.
        is_on: whether they do it when nothing is said.
    """

    option: str = ""
    at: int = -1
    is_on: bool = True


class Library(Struct, frozen=True, kw_only=True):
    """What calls of a library mean to a training step, and whether it holds the loop itself.

    Names are those that :mod:`instrumentor.read.names` resolves to, whatever a script calls them.

    ``trainer``, ``imported``, ``runtime`` and ``without_torch`` name the kind of a decline of
    :mod:`instrumentor.locate.rules.frameworks`: hidden-backward, hf-trainer, lightning,
    foreign-runtime, jax, keras.

    Attributes:
        packages: top-level packages that its scripts import.
        roles: what its functions do.
        makes: what calling its functions and classes makes.
        bases: what a class of the program is that derives from its classes.
        parts: of functions that return several objects what each is.
        without_parameters: classes of modules with nothing to train in them.
        containers: classes of modules that have the parameters of what they are given, and no more.
        effects: what its functions change beyond their value.
        draws: functions that take random numbers from a generator of the process.
        draws_if_made: classes whose weights are random at first, and what makes such weights.
        draws_in_training: functions and classes of modules that do so in training mode alone.
        draws_if_told: such classes that do so only with a `dropout` of more than zero.
        tracks_in_training: such classes that change their buffers then, by the option that tells.
        made_when_called: such classes that make their weights at their first call.
        numbers: functions that give numbers or texts, which nobody can change.
        compilers: functions that make a graph of a function.
        on_host: nothing that its functions give is differentiable for torch.
        trainer: kind of the decline where a script starts a class `*Trainer` of these packages, or
            one derived from it.
        imported: kind of that where the entry script imports one of them, shows one of `trains` and
            no loop.
        runtime: where any module of the step imports one of them: torch sees no backward.
        without_torch: of a script that imports one of them and not torch, or also torch when the
            script shows one of `trains`.
        why: what the reason says of it.
    """

    packages: tuple[str, ...] = ()
    roles: Table[Role] = ()
    makes: Table[Kind] = ()
    bases: Table[Kind] = ()
    parts: Mapping[str, tuple[Kind, ...]] = {}
    without_parameters: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    effects: Table[Effect] = ()
    draws: tuple[str, ...] = ()
    draws_if_made: tuple[str, ...] = ()
    draws_in_training: tuple[str, ...] = ()
    draws_if_told: tuple[str, ...] = ()
    tracks_in_training: Table[Switch] = ()
    made_when_called: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    compilers: tuple[str, ...] = ()
    on_host: bool = False
    trainer: str = ""
    imported: str = ""
    runtime: str = ""
    without_torch: str = ""
    why: str = ""
    trains: tuple[bytes, ...] = ()


def rows(prefix: str, words: str) -> tuple[str, ...]:
    """Each of the words, behind a prefix."""
    return tuple(prefix + word for word in words.split())


def fits(name: str, row: str) -> bool:
    """As `fnmatchcase`, which would compile a pattern for each of some hundred rows."""
    if "*" not in row:
        return name == row
    head, *inner, tail = row.split("*")
    at, end = len(head), len(name) - len(tail)
    if at > end or not (name.startswith(head) and name.endswith(tail)):
        return False
    for part in inner:
        at = name.find(part, at, end) + len(part)
        if at < len(part):
            return False
    return True
