"""Which names a file's scopes read and bind, read off its syntax tree.

Not by `symtable`: since Python 3.12 it counts what a comprehension binds among the names of the
scope around it, and in each version a look at one name costs as much as the scope has functions.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from instrumentor.read.syntax import SCOPES, all_parameters, bound_by, children
from instrumentor.rewrite.engine.parsing import parse


class Names(Struct):
    """The names of one file.

    Attributes:
        all: every name that any scope reads or binds.
        of_module: names bound at module level, by ``global`` statements too.
        from_module: per scope (its dotted path) the names it reads from module level or builtins.
        from_function: per scope the names it reads from itself or from a function around it.
    """

    all: set[str] = field(default_factory=set)
    of_module: set[str] = field(default_factory=set)
    from_module: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    from_function: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


class Scope(Struct, eq=False):
    """A module, a class, a function, or a comprehension with names of its own.

    Attributes:
        path: names of the scopes around it and its own, joined by dots.
        hidden: a class, whose names its methods do not see.
        inlined: a comprehension, in which `:=` binds for the scope around it.
    """

    path: str = ""
    around: Scope | None = None
    hidden: bool = False
    inlined: bool = False
    reads: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    of_module: set[str] = field(default_factory=set)

    def inner(self, name: str, *, hidden: bool = False, inlined: bool = False) -> Scope:
        """A scope that begins in this one."""
        return Scope(f"{self.path}.{name}", self, hidden, inlined)

    def is_of_module(self, name: str) -> bool:
        """Whether a name that is read here is looked for in the module."""
        scope: Scope | None = self
        while scope is not None and scope.around is not None:
            if name in scope.of_module:
                return True
            if name in scope.binds and (scope is self or not scope.hidden):
                return False
            scope = scope.around
        return True


def collect_names(source: str | bytes | ast.Module) -> Names:
    """Collect the names of code that compiles."""
    names = Names()
    for scope in _Reader(source if isinstance(source, ast.Module) else parse(source)).scopes:
        names.all |= scope.reads | scope.binds | scope.of_module
        at_top = scope.around is None
        names.of_module |= scope.binds if at_top else scope.binds & scope.of_module
        for name in scope.reads:
            where = names.from_module if scope.is_of_module(name) else names.from_function
            where[scope.path].add(name)
    return names


_Parts = Iterator[tuple[ast.AST, Scope]]
_TYPE_ALIAS: type[ast.AST] | None = getattr(ast, "TypeAlias", None)  # of Python 3.12
#: Nodes with parts that stand in another scope, or are not evaluated.
_WITH_SCOPES = {
    *(*SCOPES, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.NamedExpr, ast.AnnAssign, _TYPE_ALIAS),
}


class _Reader:
    """Walks a tree in no order: what a name means is asked when all scopes are known."""

    def __init__(self, tree: ast.Module) -> None:
        self.scopes = [Scope()]
        # After `from __future__ import annotations` none is evaluated.
        self.evaluated = not any(map(_defers_annotations, tree.body))
        waiting: list[tuple[ast.AST, Scope]] = [(tree, self.scopes[0])]
        while waiting:
            node, scope = waiting.pop()
            _note(node, scope)
            if type(node) in _WITH_SCOPES:
                waiting += self._parts(node, scope)
            else:
                waiting += [(part, scope) for part in children(node)]

    def _begun(self, scope: Scope) -> Scope:
        self.scopes.append(scope)
        return scope

    def _parts(self, node: ast.AST, scope: Scope) -> _Parts:
        """A node's parts, each with the scope in which it stands."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _each(node.decorator_list, scope)
                outer = yield from self._typed(node, scope)
                yield from self._function(node, node.name, node.body, outer)
                if self.evaluated and node.returns is not None:
                    yield node.returns, outer
            case ast.Lambda():
                yield from self._function(node, "lambda", [node.body], scope)
            case ast.ClassDef():
                yield from _each(node.decorator_list, scope)
                outer = yield from self._typed(node, scope)
                yield from _each((*node.bases, *node.keywords), outer)
                yield from _each(node.body, self._begun(outer.inner(node.name, hidden=True)))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                yield from self._comprehension(node, scope)
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                _around_comprehensions(scope).binds.add(name)
                yield value, scope
            case ast.AnnAssign(target=target, value=value) if not self.evaluated:
                yield from _each([target, *([value] if value is not None else [])], scope)
            case _ if type(node) is _TYPE_ALIAS:
                yield node.name, scope  # type: ignore[attr-defined]
                outer = yield from self._typed(node, scope)
                yield node.value, outer  # type: ignore[attr-defined]
            case _:
                yield from _each(children(node), scope)

    def _typed(self, node: Any, scope: Scope) -> Generator[tuple[ast.AST, Scope], None, Scope]:
        """The scope of type parameters, which Python has since 3.12; else the one around."""
        given = getattr(node, "type_params", None)
        if not given:
            return scope
        inside = self._begun(scope.inner(f"{getattr(node.name, 'id', node.name)}[]"))
        inside.binds.update(each.name for each in given)
        yield from _each(given, inside)
        return inside

    def _function(self, node: Any, name: str, body: Sequence[ast.AST], scope: Scope) -> _Parts:
        inside = self._begun(scope.inner(name))
        parameters = all_parameters(node)
        inside.binds.update(each.arg for each in parameters)
        if scope.hidden:
            inside.binds.add("__class__")  # made by the compiler
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        yield from _each(defaults, scope)
        if self.evaluated:
            yield from _each([a.annotation for a in parameters if a.annotation], scope)
        yield from _each(body, inside)

    def _comprehension(self, node: Any, scope: Scope) -> _Parts:
        inside = self._begun(scope.inner(type(node).__name__, inlined=True))
        for field_name, value in ast.iter_fields(node):
            if field_name != "generators":
                yield value, inside
        for number, each in enumerate(node.generators):
            # The first is gone through outside, once.
            yield each.iter, inside if number else scope
            yield from _each((each.target, *each.ifs), inside)


def _each(nodes: Iterable[ast.AST], scope: Scope) -> _Parts:
    return ((node, scope) for node in nodes)


def _note(node: ast.AST, scope: Scope) -> None:
    """What a node itself does to names; a `nonlocal` one is bound by a function around."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        scope.reads.add(node.id)
    elif isinstance(node, ast.Global):
        scope.of_module.update(node.names)
    elif not (isinstance(node, ast.alias) and node.name == "*"):
        scope.binds.update(bound_by(node))


def _around_comprehensions(scope: Scope) -> Scope:
    while scope.inlined and scope.around is not None:
        scope = scope.around
    return scope


def _defers_annotations(statement: ast.stmt) -> bool:
    match statement:
        case ast.ImportFrom(module="__future__", names=names):
            return any(each.name == "annotations" for each in names)
    return False
