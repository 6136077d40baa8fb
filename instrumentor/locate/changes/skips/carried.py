"""What a model keeps of one forward for the next: a hidden state, a queue, a running mean.

An evaluation that runs such a model moves it on, whatever its own value is used for. Not counted:
what each forward sets before it reads it, and what is made once for a shape or a key.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from itertools import pairwise

from msgspec import Struct, field

from instrumentor.locate.changes.skips.implicit import Implicit, in_training
from instrumentor.locate.changes.skips.liveness import variables
from instrumentor.locate.changes.skips.storage import Cell
from instrumentor.locate.meaning import libraries, methods
from instrumentor.locate.meaning.libraries.library import fits
from instrumentor.locate.meaning.roles import Effect
from instrumentor.read.bindings import Bound, Defined
from instrumentor.read.constants import asked_of, unreached
from instrumentor.read.control_flow import START, flow_of
from instrumentor.read.fixpoint import Answers
from instrumentor.read.names import external_name
from instrumentor.read.program import Function, Program
from instrumentor.read.signatures import own_parameter, passed
from instrumentor.read.syntax import (
    FunctionNode,
    ScopeNode,
    Source,
    argument,
    callee,
    own_calls,
    own_nodes,
    parameters,
    path_to,
)
from instrumentor.read.values import Class, Value

_TRANSPARENT = ("data", "grad")
#: Functions that change the running statistics they are given: the option that tells, its default.
_TRACKS = {
    "torch.nn.functional.batch_norm": ("training", False),
    "torch.nn.functional.instance_norm": ("use_input_stats", True),
}
#: Methods with an underscore at the end that leave the values as they are.
_HARMLESS = ("requires_grad_", "retain_grad_")


class Write(Struct, frozen=True):
    """A change of storage that outlives a call.

    Attributes:
        binds: the name itself is set, whatever it was before.
        in_training: an evaluation does not come to it.
    """

    cell: Cell
    statement: ast.stmt
    binds: bool
    in_training: bool


class Carried(Struct, eq=False):
    """State that the forwards of a program's modules hand on."""

    program: Program
    implicit: Implicit
    _writes: dict[ScopeNode, list[Write]] = field(default_factory=dict)
    _answers: Answers = field(default_factory=Answers)

    def by(
        self, source: Source, scope: ScopeNode, call: ast.Call, *, training: bool = False
    ) -> list[Cell]:
        """Attributes and global variables in which calling a module leaves something for the next.

        Args:
            training: only what it changes below `if self.training:`, else all but that.
        """
        first = self.implicit.called(source, scope, call.func)
        every = self.implicit.run_by(source, scope, call.func)
        out = self._left_out(scope, call, first, every)
        written = {
            write.cell
            for function in every
            for write in self._of(function)
            if write.in_training is training and write.statement not in out
        }
        return [
            cell
            for cell in sorted(written, key=lambda c: c.name)
            if cell.scope is not None or any(self._exposed(f, cell, set()) for f in first)
        ]

    def _left_out(
        self, scope: ScopeNode, call: ast.Call, first: list[Function], every: list[Function]
    ) -> set[ast.stmt]:
        """Statements that a call does not come to with the constants that it gives."""
        inner = {
            function
            for each in every
            for inside in own_calls(each.node)
            for function in self.implicit.called(each.source, each.node, inside.func)
        }
        return {
            statement
            for function in first
            if function not in inner
            for statement in unreached(function, asked_of(self.program, scope, call, function, {}))
        }

    def _exposed(self, function: Function, cell: Cell, seen: set[Function]) -> bool:
        """Whether a function may read an attribute before it has set it."""
        if function in seen:
            return False
        seen.add(function)
        flow, source = flow_of(function.node), function.source
        sets = {w.statement for w in self._of(function) if w.cell == cell and w.binds}
        sets |= {*self._set_by_calls(function, cell)}

        def reached(node: ast.AST) -> bool:
            at = source.statement_of(node)
            if at is None or at not in flow.begins:
                return True
            before = {flow.before(s) for s in sets if s is not at}
            return flow.path(START, flow.before(at), before)

        if any(reached(node) for node in self._reads(function, cell)):
            return True
        return any(
            reached(call) and any(self._exposed(f, cell, seen) for f in called)
            for call in own_calls(function.node)
            if (called := self.implicit.called(source, function.node, call.func))
        )

    def _set_by_calls(self, function: Function, cell: Cell) -> Iterator[ast.stmt]:
        """`self.reset()`, whose own suite sets it for certain."""
        for statement in own_nodes(function.node):
            match statement:
                case ast.Expr(value=call) | ast.Assign(value=call):
                    pass
                case _:
                    continue
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                called = self.implicit.called(function.source, function.node, call.func)
                own = isinstance(call.func.value, ast.Name) and call.func.value.id == "self"
                if own and called and all(self._certainly_sets(f, cell) for f in called):
                    yield statement

    def _certainly_sets(self, function: Function, cell: Cell) -> bool:
        sets = {w.statement for w in self._of(function) if w.cell == cell and w.binds}
        later = (ast.Yield, ast.YieldFrom, ast.Await)
        if function.node.decorator_list or any(
            isinstance(n, later) for n in own_nodes(function.node)
        ):
            return False
        for statement in function.node.body:
            if statement in sets:
                return True
            if any(isinstance(n, ast.Return) for n in (statement, *own_nodes(statement))):
                break
        return False

    def _reads(self, function: Function, cell: Cell) -> Iterator[ast.AST]:
        changes = {w.statement for w in self._of(function) if not w.binds}
        for node in own_nodes(function.node):
            if isinstance(node, ast.Attribute) and node.attr == cell.name:
                statement = function.source.statement_of(node)
                if _is_moved(statement, node):
                    continue
                if isinstance(node.ctx, ast.Load) or statement in changes:
                    yield node

    # -- writes --------------------------------------------------------------------------------

    def _of(self, function: Function) -> list[Write]:
        found = self._writes.get(function.node)
        if found is None:
            found = self._writes[function.node] = [*self._written(function)]
        return found

    def _written(self, function: Function) -> Iterator[Write]:
        source, scope = function.source, function.node
        for call in own_calls(scope):
            statement = source.statement_of(call)
            if statement is None:
                continue
            for given in self._changed_by_call(function, call):
                for cell in self._cells(function, given):
                    yield Write(cell, statement, binds=False, in_training=in_training(source, call))
        for node in own_nodes(scope):
            follows = isinstance(node, ast.Call) and self._tracks(function, node)
            for owner, binds in (*_changed(node), *(_tracked(node) if follows else ())):
                if self._is_a_module(function, owner):
                    continue  # `tools.append(x)` runs a function of that name
                statement = node if isinstance(node, ast.stmt) else source.statement_of(node)
                if statement is None or is_memo(self.program, source, scope, statement):
                    continue
                if isinstance(node, ast.Name) and self._is_own(function, node.id):
                    continue  # a name of one call, whatever else it was a name of
                binds = binds and not isinstance(statement, ast.AugAssign)
                training = in_training(source, statement) or follows == "in training"
                for cell in self._cells(function, owner):
                    yield Write(cell, statement, binds, training)

    def _changed_by_call(self, function: Function, call: ast.Call) -> Iterator[ast.expr]:
        """What a call gives to functions that change it in place: `centre(self.weight)`."""
        for called in self.implicit.called(function.source, function.node, call.func):
            bound = bool(own_parameter(called))
            for name, given in passed(call, called.node, bound=bound):
                if name in self._changes_given(called):
                    yield given

    def _changes_given(self, function: Function) -> frozenset[str]:
        """Parameters whose values a function, or what it hands them on to, changes in place."""
        return self._answers.ask(
            function.node, lambda: frozenset(self._given_changed(function)), frozenset()
        )

    def _given_changed(self, function: Function) -> Iterator[str]:
        own = parameters(function.node) - {own_parameter(function)}
        changed = [
            owner for n in own_nodes(function.node) for owner, binds in _changed(n) if not binds
        ]
        calls = own_calls(function.node)
        changed += [given for call in calls for given in self._changed_by_call(function, call)]
        for owner in changed:
            words, root = _chain(owner)
            if root in own and not {*words} - {*_TRANSPARENT}:
                yield root

    def _tracks(self, function: Function, call: ast.Call) -> str:
        """When a call changes the running statistics that it is given: in training, always."""
        name = self.program.names.qualified(function.source, function.node, call.func)
        option, always = _TRACKS.get(name, ("", False))
        told = argument(call, option, at=5) if option else None
        if told is None:
            return "always" if always else ""
        if isinstance(told, ast.Constant) and not told.value:
            return ""
        return "in training" if getattr(told, "attr", "") == "training" else "always"

    def _is_a_module(self, function: Function, owner: ast.expr) -> bool:
        """Whether a name is that of one of the program's modules, and of nothing else."""
        values = self.program.names.of(function.source, function.node, owner)
        return bool(values) and all(isinstance(value, Source) for value in values)

    def _is_a_librarys(self, function: Function, node: ast.expr) -> bool:
        """`torch.cuda.FloatTensor(4)`, which `fill_` changes."""
        calls = False
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
            calls |= isinstance(node, ast.Call)
            node = node.func if isinstance(node, ast.Call) else node.value
        where = (function.source, function.node)
        return calls and self.program.names.is_of_a_library(*where, node)

    def _is_own(self, function: Function, name: str) -> bool:
        """Whether a function has a variable of that name."""
        return self.program.names.binder(function.source, function.node, name) is function.node

    def _cells(self, function: Function, owner: ast.expr) -> Iterator[Cell]:
        """Storage that outlives the call by which a changed expression is reached."""
        words, root = _chain(owner)
        if root is None or self._is_a_librarys(function, owner):
            return
        binder = self.program.names.binder(function.source, function.node, root)
        if not self._is_own(function, root):
            bare = not words and binder is not None
            # `torch.add(x, y)` adds nothing to torch
            where = (function.source, function.node)
            if bare and not self.program.names.is_of_a_library(*where, owner):
                yield Cell(root, binder)
        elif root not in parameters(function.node):
            values = self.program.names.bound(function.source, function.node, root)
            for value in (b.value for b in values if isinstance(b, Bound) and not b.path):
                if isinstance(value, (ast.Attribute, ast.Subscript)) and _chain(value)[1] != root:
                    yield from self._cells(function, value)
            return
        yield from (Cell(word) for word in words if word not in _TRANSPARENT)


def _is_moved(statement: ast.stmt | None, node: ast.Attribute) -> bool:
    """`self.grid = self.grid.to(x.device)`, the same values where a forward needs them."""
    match statement:
        case ast.Assign(targets=[target], value=ast.Call(func=ast.Attribute(value=moved) as does)):
            same = moved is node and ast.unparse(target) == ast.unparse(node)
            return same and does.attr in (*methods.MOVES, "to", "type_as")
    return False


def _changed(node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """What a node sets (True) or changes in place."""
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Name(ctx=ast.Store()):
            yield node, True
        case ast.Subscript(value=owner, ctx=ast.Store() | ast.Del()):
            yield owner, False
        case ast.Call(func=ast.Attribute(value=owner, attr=word)):
            in_place = word.endswith("_") and not word.endswith("__") and word not in _HARMLESS
            if in_place or word in methods.FILLS or word in methods.TAKES:
                yield owner, False
    if isinstance(node, ast.Call):
        yield from ((k.value, False) for k in node.keywords if k.arg == "out")


def _tracked(node: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """The running mean and variance that a call is given."""
    assert isinstance(node, ast.Call)
    named = [k.value for k in node.keywords if k.arg in ("running_mean", "running_var")]
    yield from ((given, False) for given in (*node.args[1:3], *named))


def _chain(node: ast.expr) -> tuple[list[str], str | None]:
    """Attributes on the way to an expression, and the name that it starts at."""
    words: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            words.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return words, None
    return words, node.id


#: What is made of numbers and texts alone.
_SETTLED = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Tuple)


# -- what is made once -----------------------------------------------------------------------------


def is_memo(program: Program, source: Source, scope: ScopeNode, statement: ast.stmt) -> bool:
    """`if n not in cache: cache[n] = window(n)`, whose value hangs on nothing else.

    Whoever comes first makes it: the same one for everybody.
    """
    if not isinstance(statement, ast.Assign) or not isinstance(scope, ast.FunctionDef):
        return False
    made = {ast.unparse(_whole(t)) for t in statement.targets}
    for guard in _guards(source, scope, statement):
        if made & {*_spelled(guard.test)} or _is_made_with(program, source, statement, guard):
            asked = {*_compared(guard.test)}
            asked |= {text for name in asked for text in _key(program, source, scope, name)}
            return _Known(program, source, scope, asked).tells(statement.value, set())
    return False


def _guards(source: Source, scope: ScopeNode, statement: ast.stmt) -> Iterator[ast.If]:
    """The tests below which a statement stands, innermost first, or behind whose return."""
    for suite, index in reversed(path_to(source, scope, statement)):
        parent = source.places[suite[index]].parent
        for before in reversed(suite[:index]):
            if isinstance(before, ast.If) and isinstance(before.body[-1], ast.Return):
                yield before
        if isinstance(parent, ast.If) and suite is parent.body:
            yield parent


def _key(program: Program, source: Source, scope: ScopeNode, name: str) -> Iterator[str]:
    """What a key is made of: `key = f"{size}_{rate}"`, `key = (size, rate)`."""
    parts: list[ast.expr] = []
    match program.names.bound(source, scope, name):
        case [Bound(value=ast.Tuple(elts=parts), path=())]:
            pass
        case [Bound(value=ast.JoinedStr(values=values), path=())]:
            if all(any(isinstance(v, ast.Constant) for v in two) for two in pairwise(values)):
                parts = [v.value for v in values if isinstance(v, ast.FormattedValue)]
    whole = (p for p in parts if isinstance(p, ast.Call) and callee(p) == "tuple")
    parts = parts + [p.args[0] for p in whole if len(p.args) == 1]
    yield from (ast.unparse(part) for part in parts if isinstance(part, (ast.Name, ast.Attribute)))


def _is_made_with(program: Program, source: Source, statement: ast.Assign, test: ast.If) -> bool:
    """Another cache, with the one that is asked for the key: nothing else puts anything there."""
    match statement.targets:
        case [ast.Subscript(value=ast.Name(id=name) as cache, slice=key)]:
            pass
        case _:
            return False
    asked = {*_spelled(test.test)}
    beside = (t for s in test.body if isinstance(s, ast.Assign) for t in s.targets)
    first = any(
        isinstance(t, ast.Subscript)
        and ast.unparse(t.value) in asked
        and ast.unparse(t.slice) == ast.unparse(key)
        for t in beside
    )
    home = program.names.binder(source, source.scope_of(statement), name)
    if not first or home is not source.tree or statement not in test.body:
        return False
    reads = {n.value for n in source.nodes if isinstance(n, ast.Subscript) and _loads(n)}
    binds = [n for n in variables(program, source, home, name) if n not in reads and n is not cache]
    return (
        not any(name in s.mentions for s in program.sources.values() if s is not source)
        and len(binds) == 1
        and isinstance(binds[0].ctx, ast.Store)
    )


def _loads(node: ast.Subscript) -> bool:
    return isinstance(node.ctx, ast.Load)


def _whole(node: ast.expr) -> ast.expr:
    """`cache` of `cache[n]`."""
    return _whole(node.value) if isinstance(node, ast.Subscript) else node


def _spelled(test: ast.expr) -> Iterator[str]:
    return (ast.unparse(n) for n in ast.walk(test) if isinstance(n, (ast.Name, ast.Attribute)))


def _compared(node: ast.AST) -> Iterator[str]:
    """Names and attributes whose values a test asks for, not their shape."""
    match node:
        case ast.Attribute(attr=word) | ast.Call(func=ast.Attribute(attr=word)):
            if word in methods.DESCRIBES_TENSOR:
                return
    if isinstance(node, (ast.Name, ast.Attribute)):
        yield ast.unparse(node)
        return
    for child in ast.iter_child_nodes(node):
        yield from _compared(child)


def hangs_on_what_it_is_given(program: Program, function: Function) -> bool:
    """Whether a function gives the same whenever it is given the same: it may be kept.

    Of a method its object counts by what is set where that is made.
    """
    return _Known.within(program, function, ()).tells_all()


class _Known(Struct):
    """Whether expressions of a function hang on nothing but shapes, constants and what is asked.

    Attributes:
        around: functions that are being read.
    """

    program: Program
    source: Source
    scope: FunctionNode
    asked: Collection[str]
    around: tuple[FunctionNode, ...] = ()

    @classmethod
    def within(
        cls, program: Program, function: Function, around: tuple[FunctionNode, ...]
    ) -> _Known:
        asked = parameters(function.node) - {own_parameter(function)}
        return cls(program, function.source, function.node, asked, (*around, function.node))

    def tells_all(self) -> bool:
        later = (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await)
        body = self.scope.body
        return not any(isinstance(n, later) for s in body for n in (s, *own_nodes(s))) and all(
            self.tells(s, set()) for s in body
        )

    def tells(self, node: ast.AST, seen: set[str]) -> bool:
        if node in self.source.given_to_lambdas:
            return True
        match node:
            case ast.Name(id=name):
                return name in self.asked or self._name(name, seen)
            case ast.Attribute(attr=word) | ast.Call(func=ast.Attribute(attr=word)):
                if word in methods.DESCRIBES_TENSOR:
                    return True
                if word in methods.DRAWING:
                    return False
        if isinstance(node, ast.Attribute):
            if ast.unparse(node) in self.asked:
                return True
            if isinstance(node.value, ast.Name):
                if node.value.id == own_parameter(Function(self.source, self.scope)):
                    return self._is_setting(node.attr)
            values = self.program.names.of(self.source, self.scope, node)
            if not all(map(self._is_the_same, values)):
                return False
        return all(self.tells(child, seen) for child in ast.iter_child_nodes(node))

    def _name(self, name: str, seen: set[str]) -> bool:
        home = self.program.names.binder(self.source, self.scope, name)
        if home is not self.scope:
            return self._of_outside(name, home)
        if name in parameters(self.scope) or name in seen:
            return name in seen
        bound, seen = self.program.names.bound(self.source, self.scope, name), {*seen, name}
        return all(
            (isinstance(b, Bound) and self.tells(b.value, seen))
            or (isinstance(b, Defined) and self._defined(b.node, seen))
            for b in bound
        )

    def _of_outside(self, name: str, home: ScopeNode | None) -> bool:
        """What a library or the program defines, or a number or a text that stays what it is."""
        names = self.program.names
        bound = names.bound(self.source, home, name) if home is not None else []
        match bound:
            case [Bound(value=value, path=())] if isinstance(value, _SETTLED):
                return all(
                    isinstance(n, (*_SETTLED, ast.operator, ast.unaryop, ast.expr_context))
                    for n in ast.walk(value)
                )
        values = names.named(self.source, self.scope, name)
        is_bound = any(isinstance(b, Bound) for b in bound)
        return bool(values) and not is_bound and all(map(self._is_the_same, values))

    def _is_the_same(self, value: Value) -> bool:
        """Of what is defined, whether using it depends on nothing that changes."""
        if isinstance(value, Function):
            inner = _Known.within(self.program, value, self.around)
            return value.node in self.around or inner.tells_all()
        if isinstance(value, Class):
            return False
        name = external_name(value)
        changing = (
            libraries.draws(name)
            or libraries.draws_if_made(name)
            or libraries.effect_of(name) in (Effect.LOADS, Effect.PROCESS)
            or any(fits(name, row) for row in methods.ASKS_WHAT_CHANGES)
        )
        return not (name and changing)

    def _defined(self, node: ast.AST, seen: set[str]) -> bool:
        """A function or a class of its own, by what it names of this one."""
        return all(
            isinstance(n.ctx, ast.Load) and (n.id in self.asked or self._name(n.id, seen))
            for n in ast.walk(node)
            if isinstance(n, ast.Name) and self._binder(n) is self.scope
        )

    def _binder(self, node: ast.Name) -> ScopeNode | None:
        where = self.program.scope_of(self.source, node)
        return self.program.names.binder(self.source, where, node.id)

    def _is_setting(self, attribute: str) -> bool:
        """Set where the object is made, to what it is given there or a constant."""
        puts = self.program.names.puts_of(attribute)
        return bool(puts) and all(
            getattr(put.scope, "name", "") == "__init__"
            and not any(isinstance(n, ast.Call) for n in ast.walk(put.bound.value))
            for _, put in puts
        )
