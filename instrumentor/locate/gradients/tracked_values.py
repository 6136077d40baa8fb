"""What variables hold while statements are walked through: which statements made their values.

A value that is detached from the graph is followed, too: no backward comes to the forward that made
it, but a loss that is computed from it needs that forward.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor.locate.meaning.roles import Evidence
from instrumentor.read.syntax import ScopeNode, Source, dotted
from instrumentor.read.values import Object


class Made(Struct, frozen=True):
    """A differentiable value, or what stands for one where a region begins.

    Attributes:
        unit: the statement of the walked scope that makes it, itself or by a call.
        statement: the innermost statement that does, maybe in a helper, in `source`.
        evidence: how it is known that this value is differentiable.
        what: what tells: a qualified name, a type, or a spelling.
        detached: whether it has been taken off the graph since, or was never on it.
        after_unread: whether a call ahead of it, which could not be read, may be a forward as well.
        is_of_switched: whether it is made of leaves that a statement has need a gradient, which
            before that are data.
        branches: where the unit is an `if`, the statements of its branches that may begin a region.
    """

    unit: ast.stmt
    statement: ast.stmt
    source: Source
    evidence: Evidence = Evidence.TYPE
    what: str = ""
    detached: bool = False
    after_unread: bool = False
    is_of_switched: bool = False
    branches: tuple[ast.stmt, ...] = ()

    @property
    def certain(self) -> bool:
        """Whether a model or a parameter was seen, not only a call that cannot be read."""
        return self.is_typed or self.evidence is Evidence.SPELLING

    @property
    def is_typed(self) -> bool:
        """Whether no name had to be guessed from."""
        return self.evidence in (Evidence.TYPE, Evidence.USE, Evidence.RUN)


#: A variable by the scope that binds it, with attributes: (scope, "batch.x"); of `self`, no scope.
#: An attribute of an object, by whatever names that goes: (object, "latent").
Key: TypeAlias = tuple[ScopeNode | Object | None, str]


class Given(Struct, frozen=True):
    """What a variable held before the walk, maybe detached."""

    key: Key
    detached: bool = False


Value: TypeAlias = frozenset[Made | Given]
NO_VALUE: Value = frozenset()


def detached(value: Value) -> Value:
    """The same off the graph."""
    return frozenset(part if part.detached else replace(part, detached=True) for part in value)


def attached(value: Value) -> Value:
    """What of it is on the graph."""
    return frozenset(part for part in value if not part.detached)


class Held(Struct):
    """The variables of a walk.

    Attributes:
        binder: the scope that binds a name.
        values: of each variable that the walk has bound.
        filled: containers from before the walk that it has only added elements to.
    """

    binder: Callable[[str], ScopeNode | None]
    values: dict[Key, Value] = field(default_factory=dict)
    filled: set[Key] = field(default_factory=set)

    def key(self, node: ast.AST) -> Key | None:
        """The variable of a name or a chain of attributes; items stand for the whole."""
        while isinstance(node, (ast.Subscript, ast.Starred)):
            node = node.value
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        name = dotted(node)
        if not name or "(" in name or "[" in name:
            return self.key(node.value) if isinstance(node, ast.Attribute) else None
        root, _, rest = name.partition(".")
        return (None, name) if root in ("self", "cls") and rest else (self.binder(root), name)

    def bind(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self.bind(element, value)
            return
        key = self.key(target)
        if key is None:
            return
        if isinstance(target, ast.Subscript):
            value |= self.values.get(key, NO_VALUE)
        elif isinstance(target, ast.Name):
            for inner in self._inside(key):
                del self.values[inner]
        self.values[key] = value
        self.filled.discard(key)

    def fill(self, key: Key, value: Value) -> None:
        """Add an element to a container."""
        if key not in self.values:
            self.filled.add(key)
        self.values[key] = self.values.get(key, NO_VALUE) | value

    def read(self, key: Key) -> Value:
        """A variable with its attributes; of one that is not bound, what it was given before."""
        scope, name = key
        inner = [self.values[k] for k in self._inside(key)]
        while name:
            if (scope, name) in self.values:
                return self.values[scope, name].union(*inner)
            name = name.rpartition(".")[0]
        return frozenset({Given(key)}).union(*inner)

    def _inside(self, key: Key) -> list[Key]:
        scope, name = key
        return [k for k in self.values if k[0] is scope and k[1].startswith(f"{name}.")]

    def join(self, ways: Sequence[Mapping[Key, Value]]) -> None:
        """Branches come together: a variable that one does not bind keeps what it held before."""
        self.values = {
            key: NO_VALUE.union(*(way.get(key, frozenset({Given(key)})) for way in ways))
            for key in dict.fromkeys(k for way in ways for k in way)
        }
