"""What is known of libraries, one module each: a new sync is a row.

A trainer that scripts derive classes from is a file; one that they only call, named `*Trainer`,
`*Engine`, `*Learner`, `*Runner` or `*Estimator`, needs none.

In: a qualified name; out: what it means to a training step, or who holds the loop.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from importlib import import_module
from itertools import chain
from pkgutil import iter_modules
from typing import Any

from instrumentor.locate.meaning.libraries.library import Library, Switch, Table, fits
from instrumentor.locate.meaning.roles import Effect, Kind, Role

#: Asked after all others: Python's own, and rows that fit names of whatever package.
_LAST = ("python", "others")
_MODULES = {each.name for each in iter_modules(__path__)} - {"library", *_LAST}
LIBRARIES: tuple[Library, ...] = tuple(
    import_module(f"{__name__}.{name}").LIBRARY for name in (*sorted(_MODULES), *_LAST)
)


def _all_of(attribute: str) -> tuple[Any, ...]:
    return tuple(chain.from_iterable(getattr(each, attribute) for each in LIBRARIES))


_ROLES: Table[Role] = _all_of("roles")
_MAKES: Table[Kind] = _all_of("makes")
_BASES: Table[Kind] = _all_of("bases")
_EFFECTS: Table[Effect] = _all_of("effects")
_NUMBERS, _DRAWS, _COMPILERS = map(_all_of, ("numbers", "draws", "compilers"))
_IN_TRAINING, _IF_TOLD = map(_all_of, ("draws_in_training", "draws_if_told"))
_WITHOUT, _CONTAINERS = map(_all_of, ("without_parameters", "containers"))
_TRACKS: Table[Switch] = _all_of("tracks_in_training")
_IF_MADE = _all_of("draws_if_made")
_WHEN_CALLED = _all_of("made_when_called")
#: Of those that draw the ones that only tell how far a generator is, or make another.
_READ_STATE = ("get_state", "getstate")
_GENERATORS = ("Generator", "Random", "RandomState", "SystemRandom", "default_rng")
_PARTS = {name: kinds for each in LIBRARIES for name, kinds in each.parts.items()}
_ON_HOST = frozenset(name for each in LIBRARIES if each.on_host for name in each.packages)


def _meaning(table: Table[Any], name: str) -> Any:
    """That of the first row that fits a name."""
    return next((meaning for meaning, names in table if _matches(name, names)), None)


def _matches(name: str, names: tuple[str, ...]) -> bool:
    return any(fits(name, row) for row in names)


@lru_cache(maxsize=4096)
def role_of(name: str) -> Role | None:
    """What a function of an installed package does, by its qualified name."""
    role: Role | None = _meaning(_ROLES, name)
    return role


@lru_cache(maxsize=4096)
def made_by(name: str) -> Kind | None:
    """What calling a qualified name makes."""
    kind: Kind | None = _meaning(_MAKES, name)
    return kind


def parts_of(name: str) -> tuple[Kind, ...]:
    """What each of the objects is that a function returns together."""
    return _PARTS.get(name, ())


def derived_from(names: Collection[str]) -> Kind | None:
    """What a class is that derives from installed classes of these names."""
    return next((kind for kind, rows in _BASES if any(_matches(n, rows) for n in names)), None)


@lru_cache(maxsize=4096)
def has_no_parameters(name: str) -> bool:
    """Whether what a class makes is a module with nothing to train in it."""
    return _matches(name, _WITHOUT) and not is_container(name)


def is_container(name: str) -> bool:
    """Whether what a class makes has the parameters of what it is given, and no more."""
    return _matches(name, _CONTAINERS)


@lru_cache(maxsize=4096)
def effect_of(name: str) -> Effect:
    """What calling a function of an installed package changes."""
    effect: Effect | None = _meaning(_EFFECTS, name)
    return effect or Effect.GIVEN


def gives_number(name: str) -> bool:
    """Whether a function gives a number or a text, which nobody can change."""
    return _matches(name, _NUMBERS)


@lru_cache(maxsize=4096)
def compiles(name: str) -> bool:
    """Whether what a function is given runs as a graph: its statements while it is traced only."""
    return _matches(name, _COMPILERS)


def draws(name: str) -> bool:
    """Whether a function takes random numbers from a generator of the process, or seeds it."""
    word = name.rpartition(".")[2]
    return _matches(name, _DRAWS) and word not in _READ_STATE and word not in _GENERATORS


def draws_if_made(name: str) -> bool:
    """Whether what makes a module, or its weights, takes random numbers for them."""
    return _matches(name, _IF_MADE)


def draws_in_training(name: str, *, told: bool) -> bool:
    """Whether a function, or a module made by a class, takes random numbers in training mode.

    Args:
        told: it is given a `dropout`.
    """
    return draws(name) or _matches(name, _IN_TRAINING) or (told and _matches(name, _IF_TOLD))


@lru_cache(maxsize=4096)
def tracks_in_training(name: str) -> Switch | None:
    """By which option a module made by a class changes its buffers in training mode, if one may."""
    switch: Switch | None = _meaning(_TRACKS, name)
    return switch


def is_made_when_called(name: str) -> bool:
    """Whether a module made by a class has no weights before its first call."""
    return _matches(name, _WHEN_CALLED)


def is_on_host(package: str) -> bool:
    """Whether nothing that a package makes is differentiable for torch."""
    return package in _ON_HOST
