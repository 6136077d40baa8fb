"""What an expression may refer to, as far as the source tells.

Values are compared by what they stand for: two calls of one constructor are two objects, two
names of one object are one. A dataclass where not every field tells them apart.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeGuard

from msgspec import Struct

from instrumentor.read.syntax import FunctionNode, ScopeNode, Source


class External(Struct, frozen=True):
    """A module, function or class of an installed package, by its qualified name."""

    name: str


#: Bases that leave the attributes and methods of what derives from them as they are.
PLAIN_BASES = (External("builtins.object"), External("abc.ABC"))


class Free(Struct, frozen=True):
    """A name that nothing in sight binds."""

    name: str


@dataclass(frozen=True)
class Function:
    """A function or method of one of the program's modules.

    Attributes:
        owner: the object that a method is taken from; it tells no two methods apart.
    """

    source: Source
    node: FunctionNode
    owner: Value | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return self.node.name


class Class(Struct, frozen=True):
    """A class of one of the program's modules."""

    source: Source
    node: ast.ClassDef


@dataclass(frozen=True)
class Object:
    """What calling `made_by` at `node` returned; with no node, any instance of the class."""

    made_by: Value
    node: ast.Call | None = None
    where: tuple[Source, ScopeNode] | None = field(default=None, compare=False)

    def __hash__(self) -> int:
        """Kept: what it calls may be a long chain of objects."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.made_by, self.node))


class Member(Struct, frozen=True):
    """An attribute of an object that the program does not define."""

    owner: Value
    name: str


class Item(Struct, frozen=True):
    """An element of something that is no literal; index None is any of them."""

    owner: Value
    index: int | None


@dataclass(frozen=True)
class Group:
    """A tuple, list, set or dict that the program writes out: the values of each element.

    Attributes:
        of: what it was taken from, where one call takes it from several.
    """

    node: ast.AST
    items: tuple[Values, ...] = field(compare=False)
    keys: tuple[object, ...] = field(default=(), compare=False)
    of: Value | None = None


class Opaque(Struct, frozen=True):
    """Something known only by where it is bound: a parameter nobody gives, a computed value."""

    node: ast.AST


Value: TypeAlias = (
    External | Free | Function | Class | Object | Member | Item | Group | Opaque | Source
)
Values: TypeAlias = tuple[Value, ...]
NOTHING: Values = ()
#: Behind those that are told: it may be others as well.
MORE = Opaque(ast.Constant(...))


def is_own(value: Value) -> TypeGuard[Object]:
    """An instance of a class of the program."""
    return isinstance(value, Object) and isinstance(value.made_by, Class)
