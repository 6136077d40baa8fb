"""What an expression may refer to, as far as the source tells.

Values are compared by what they stand for: two calls of one constructor are two objects, two
names of one object are one.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeAlias

from instrumentor.locate.syntax import FunctionNode, ScopeNode, Source


@dataclass(frozen=True)
class External:
    """A module, function or class of an installed package, by its qualified name."""

    name: str


@dataclass(frozen=True)
class Free:
    """A name that nothing in sight binds."""

    name: str


@dataclass(frozen=True)
class Function:
    """A function or method of one of the program's modules."""

    source: Source
    node: FunctionNode

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(frozen=True)
class Class:
    """A class of one of the program's modules."""

    source: Source
    node: ast.ClassDef


@dataclass(frozen=True)
class Method:
    """A method as an attribute of an object."""

    function: Function
    owner: Value = field(compare=False)


@dataclass(frozen=True)
class Object:
    """What calling `made_by` at `node` returned; with no node, any instance of the class."""

    made_by: Value
    node: ast.Call | None = None
    where: tuple[Source, ScopeNode] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Member:
    """An attribute of an object that the program does not define."""

    owner: Value
    name: str


@dataclass(frozen=True)
class Item:
    """An element of something that is no literal; index None is any of them."""

    owner: Value
    index: int | None


@dataclass(frozen=True)
class Group:
    """A tuple, list, set or dict that the program writes out: the values of each element."""

    node: ast.AST
    items: tuple[Values, ...] = field(compare=False)
    keys: tuple[object, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Opaque:
    """Something known only by where it is bound: a parameter nobody gives, a computed value."""

    node: ast.AST


Value: TypeAlias = (
    External | Free | Function | Class | Method | Object | Member | Item | Group | Opaque | Source
)
Values: TypeAlias = tuple[Value, ...]
NOTHING: Values = ()
