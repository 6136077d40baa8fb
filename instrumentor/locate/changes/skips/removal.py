"""The statements that are taken out or do not run then, and the functions unused with them."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property

from msgspec import Struct, field

from instrumentor.read.callers import is_only_called
from instrumentor.read.constants import Constants, of_all_callers, passes_over, unreached
from instrumentor.read.program import Class, Function, Program
from instrumentor.read.signatures import is_decorated
from instrumentor.read.syntax import (
    FUNCTIONS,
    FunctionNode,
    ScopeNode,
    Source,
    all_parameters,
    below,
    contains,
    own_nodes,
)
from instrumentor.read.values import PLAIN_BASES, External, Object

Statements = Iterable[tuple[Source, ast.stmt]]
#: What runs later than where it stands.
_DELAYED = (*FUNCTIONS, ast.Lambda, ast.GeneratorExp)
#: Bases of a library whose methods set no attribute of what derives from them, nor make one.
BASES_TO_EXTEND = tuple(
    External(name)
    for name in (
        *("torch.nn.Module", "torch.nn.modules.module.Module"),
        *("torch.utils.data.Dataset", "torch.utils.data.dataset.Dataset"),
    )
)
_NEVER_MADE = (*BASES_TO_EXTEND, External("torch.nn.Sequential"))
#: What is asked about a class by its name.
_ASKING = ("super", "isinstance", "issubclass")
_ASKED = ("__getattr__", "__getattribute__")
_LOOKS_UP = ("getattr", "hasattr", "methodcaller")


class Gone(Struct, eq=False, dict=True):
    """Statements that do not run.

    Attributes:
        taken: those that are taken out, with what they hand to others.
        absent: those that do not run while it matters.
        closed: functions that only calls of the program run.
    """

    program: Program
    taken: Statements
    absent: Statements = ()
    closed: Closed | None = None
    _known: dict[FunctionNode, Constants] = field(default_factory=dict)

    @cached_property
    def by_source(self) -> dict[Source, list[ast.stmt]]:
        return _by_source(self.taken)

    @cached_property
    def _absent(self) -> dict[Source, list[ast.stmt]]:
        return _by_source(self.absent)

    def holds(self, source: Source, node: ast.AST) -> bool:
        if any(contains(s, node) for s in self.by_source.get(source, ())):
            return True
        around = [s for s in self._absent.get(source, ()) if contains(s, node)]
        return any(not is_delayed(s, node) for s in around)

    def leaves_out(self, source: Source, scope: ScopeNode, node: ast.AST) -> bool:
        """Whether what remains calls a function with constants that never come to a place in it."""
        statement = source.statement_of(node)
        if statement is None or not isinstance(scope, FUNCTIONS) or scope in self.program.handed:
            return False
        function = Function(source, scope)
        if scope not in self._known:
            self._known[scope] = of_all_callers(self.program, function, self._runs)
        known = self._known[scope]
        return bool(known) and (
            statement in unreached(function, known)
            or any(passes_over(part, node, known) for part in own_nodes(statement))
        )

    def _runs(self, scope: ScopeNode, call: ast.Call) -> bool:
        return scope not in self.functions and not self.holds(
            self.program.source_of_scope[scope], call
        )

    @cached_property
    def functions(self) -> set[ScopeNode]:
        """Functions that nothing but these statements calls."""
        found = self._called(self.by_source)
        while outside := {f for f in found if self._is_called(f, found, handed=True)}:
            found -= outside
        if self.closed is None:
            return found
        unused = {f for f in self._called(self._absent) if f in self.closed.functions}
        unused |= self.closed.uncalled
        while outside := {f for f in unused if self._is_called(f, found | unused, handed=False)}:
            unused -= outside
        return found | unused

    def _called(self, statements: dict[Source, list[ast.stmt]]) -> set[ScopeNode]:
        found: set[ScopeNode] = set()
        for source, each in statements.items():
            for statement in each:
                found.update(self.program.called_from(source.scope_of(statement), [statement]))
        return found

    def _is_called(self, function: ScopeNode, found: set[ScopeNode], *, handed: bool) -> bool:
        program = self.program
        assert isinstance(function, FUNCTIONS)
        callers = [(scope, node) for scope, node, _ in program.callers_of(function)]
        given = program.handed.get(function, ()) if handed else ()
        return any(
            scope not in found and not self.holds(program.source_of_scope[scope], node)
            for scope, node in (*callers, *given)
        )


class Closed(Struct, eq=False, dict=True):
    """Functions that nothing runs but the calls that can be read.

    Attributes:
        from_the_entry: the step is reached from the script itself, so that what nobody calls does
            not run.
    """

    program: Program
    from_the_entry: bool
    _known: dict[tuple[ast.ClassDef, bool], bool] = field(default_factory=dict)

    @cached_property
    def functions(self) -> dict[FunctionNode, None]:
        """In the order of the program."""
        return {
            f: None
            for source in self.program.sources.values()
            for f in source.functions
            if f not in self.program.handed and self._is_plain(source, f)
        }

    @cached_property
    def uncalled(self) -> set[ScopeNode]:
        """Those that nobody calls or names, and those that only they call."""
        called = self.program.callers
        if not self.from_the_entry:
            return set()
        alone = [f for f in self.functions if not called.get(f) and not self._is_named(f)]
        inner = {g for f in alone for g in self.program.called_from(f, f.body)}
        return {*alone, *(f for f in self.functions if f in inner)}

    def is_called_in_sight(self, function: FunctionNode) -> bool:
        """Whether every call of its name is one that could be read, and no text names it."""
        if any(text in function.name for text in self._texts) or self._is_looked_up(function):
            return False
        return all(
            self.program.resolve(*each)
            or any(isinstance(v, External) for v in self.program.of(*each[:2], each[2].func))
            or (_is_of_super(each[2]) and self._is_on_one_base(function))
            for each in self.program.calls_named(function.name)
        )

    def _is_on_one_base(self, function: FunctionNode) -> bool:
        """Whether `super()` in another class never comes to a method of this one's class."""
        owners = (
            s.class_of[function] for s in self.program.sources.values() if function in s.class_of
        )
        derived = (c for owner in owners for c in self.program.subclasses.get(owner, ()))
        return all(len(cls.node.bases) < 2 for cls in derived)

    def _is_plain(self, source: Source, function: FunctionNode) -> bool:
        """No library or decorator runs it, and no syntax."""
        owner = source.class_of.get(function)
        special = function.name.startswith("__") and function.name != "__init__"
        known = is_decorated(function, "staticmethod", "classmethod")
        decorated = len(function.decorator_list) > known
        makes = function.name == "__init__"
        own = owner is None or self._is_own(source, owner, makes=makes)
        if owner is not None and makes and own:
            classes = [owner, *(c.node for c in self.program.subclasses.get(owner, ()))]
            own = not any(map(self._is_looked_up, classes)) and all(
                is_only_called(self.program, cls.name, _ASKING) for cls in classes
            )
        return not special and not decorated and own

    def _is_own(self, source: Source, owner: ast.ClassDef, *, makes: bool) -> bool:
        """A class on no class of a library and with no decorator, which could call what it has.

        Args:
            makes: it is enough that no library makes objects of the class.
        """
        if (owner, makes) not in self._known:
            bases = self.program.bases(Class(source, owner))
            read = {c.node for c in bases}
            registered = any(c.node.decorator_list or c.node.keywords for c in bases)
            bases_of_a_library = (*PLAIN_BASES, *(_NEVER_MADE if makes else ()))
            self._known[owner, makes] = not registered and all(
                v in bases_of_a_library or (isinstance(v, Class) and v.node in read)
                for c in bases
                for base in c.node.bases
                for v in self.program.of(c.source, c.source.scope_of(c.node), base) or (None,)
            )
        return self._known[owner, makes]

    def _is_named(self, function: FunctionNode) -> bool:
        """Written anywhere, or among the texts by which attributes are looked up."""
        name = function.name
        if any(name in source.mentions for source in self.program.sources.values()):
            return True
        if self._is_looked_up(function):
            return True
        return any(text and text in name for text in self._texts)

    def _is_looked_up(self, defined: FunctionNode | ast.ClassDef) -> bool:
        """Whether it is in a module of which what has some name is asked for: `getattr(m, name)`"""
        return any(
            getattr(value, "node", None) is defined
            for module in self._looked_into
            for value in self.program.names.attribute(module, defined.name)
        )

    @cached_property
    def _looked_into(self) -> set[Source]:
        calls = (each for word in _LOOKS_UP for each in self.program.calls_named(word))
        return {
            v
            for source, scope, call in calls
            if call.args
            for v in self.program.of(source, scope, call.args[0])
            if isinstance(v, Source)
        }

    @cached_property
    def _texts(self) -> set[str]:
        """Texts that attributes are looked up by; all there are where that is computed."""
        found: set[str] = set()
        for word in _LOOKS_UP:
            for source, scope, call in self.program.calls_named(word):
                if self._is_of_a_library(source, scope, call) or _asks_for_itself(scope, call):
                    continue
                name = call.args[-1] if word == "methodcaller" else (*call.args, call, call)[1]
                parts = name.values if isinstance(name, ast.JoinedStr) else [name]
                if not (texts := _texts(parts)):
                    return {t for s in self.program.sources.values() for t in _texts(s.nodes)}
                found.add(max(texts, key=len))
        return found

    def _is_of_a_library(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        """`getattr(torch, name)`, `getattr(DataLoader(...), name)`, or of whole modules."""
        owners = self.program.of(source, scope, call.args[0]) if call.args else ()
        made = (v.made_by if isinstance(v, Object) else v for v in owners)
        return bool(owners) and all(isinstance(v, (External, Source)) for v in made)


def _is_of_super(call: ast.Call) -> bool:
    """`super().__init__()`, which comes to a library where it is not followed."""
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
            return True
    return False


def _by_source(statements: Statements) -> dict[Source, list[ast.stmt]]:
    found: dict[Source, list[ast.stmt]] = {}
    for source, statement in statements:
        found.setdefault(source, []).append(statement)
    return found


def _asks_for_itself(scope: ScopeNode, call: ast.Call) -> bool:
    """`__getattr__` looking up on another object what was written as an attribute, or so asked."""
    if not (isinstance(scope, FUNCTIONS) and scope.name in _ASKED and len(call.args) > 1):
        return False
    name = call.args[1]
    return isinstance(name, ast.Name) and name.id == [*all_parameters(scope)][-1].arg


def is_delayed(statement: ast.stmt, node: ast.AST) -> bool:
    """In something that a statement only defines."""
    return any(
        isinstance(inner, _DELAYED) and contains(inner, node)
        for inner in (statement, *below(statement))
    )


def _texts(nodes: Iterable[ast.AST]) -> set[str]:
    return {
        n.value
        for n in nodes
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.isidentifier()
    }
