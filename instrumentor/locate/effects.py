"""What a statement changes beyond its own values, through the functions it calls.

Effects are read, not guessed: a call of the program's own functions is followed; a call that
leaves the program counts as changing whatever it is given, unless `known_calls` knows
better; what cannot be read at all is named. Storage is told apart by names: a
variable of one scope, or an attribute of that name of any object.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from instrumentor.locate.known_calls import (
    ACCELERATOR_SAVES,
    BUILTINS,
    CHECKPOINTS,
    GLOBAL,
    LOADS,
    MODULE_CHANGES,
    MODULE_SAVES,
    READING_METHODS,
    READS_ONLY,
    SAVES,
    WRITES_FIRST_ARGUMENT,
    WRITING_METHODS,
)
from instrumentor.locate.objects import Objects
from instrumentor.locate.program import Function, Program
from instrumentor.locate.storage import Arguments, Cell, Frame, Reach, Storage
from instrumentor.locate.syntax import (
    FUNCTIONS,
    LOOPS,
    FunctionNode,
    ScopeNode,
    Source,
    arguments,
    below,
    own_nodes,
)
from instrumentor.locate.values import Class

_DEPTH = 12


@dataclass(frozen=True)
class Mode:
    """A module put into training or evaluation mode.

    Attributes:
        owner: the module as the examined statement's scope spells it, '' when it cannot.
        training: the mode; None when it is given back what it had.
        certain: not under a condition.
    """

    owner: str
    training: bool | None
    certain: bool


@dataclass
class Effects:
    """What statements do.

    Attributes:
        bound: names bound in their own scope.
        changed: names and attributes whose objects may be changed, attributes that are set.
        saves: a file is written or removed.
        checkpoint: weights or optimizer state are saved.
        loads: weights or arrays are read from a file.
        modes: switches of modules in order.
        unknown: what cannot be read or cannot be taken out, each as `FILE:LINE: text`.
    """

    bound: set[Cell] = field(default_factory=set)
    changed: set[Cell] = field(default_factory=set)
    saves: bool = False
    checkpoint: bool = False
    loads: bool = False
    modes: list[Mode] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, other: Effects, *, certain: bool = True) -> None:
        self.bound |= other.bound
        self.changed |= other.changed
        self.saves |= other.saves
        self.checkpoint |= other.checkpoint
        self.loads |= other.loads
        self.modes += [replace(m, certain=m.certain and certain) for m in other.modes]
        self.unknown += other.unknown

    def mode_left(self) -> dict[str, Mode]:
        """The last switch of each module that is not given back its mode."""
        last = {mode.owner: mode for mode in self.modes}
        return {owner: mode for owner, mode in last.items() if mode.training is not None}


@dataclass(eq=False)
class EffectsReader:
    """Reads effects of statements of a program; summaries of functions are kept."""

    program: Program
    storage: Storage
    objects: Objects
    _kept: dict[ast.stmt, Effects] = field(default_factory=dict, repr=False)

    def of(self, source: Source, scope: ScopeNode, statements: Iterable[ast.stmt]) -> Effects:
        found = Effects()
        for statement in statements:
            found.add(self._kept.get(statement) or self._of(source, scope, statement))
        return found

    def _of(self, source: Source, scope: ScopeNode, statement: ast.stmt) -> Effects:
        frame = Frame(source, scope)
        found = self._kept[statement] = Effects()
        self._statement(frame, statement, found, certain=True)
        for node in (statement, *own_nodes(statement)):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                found.bound.add(Cell(node.id, self.storage.owner(source, scope, node.id)))
            elif isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)):
                found.unknown.append(f"{_at(frame, node)}: a definition")
        return found

    # -- statements ----------------------------------------------------------------------------

    def _statement(
        self, frame: Frame, statement: ast.stmt, found: Effects, *, certain: bool
    ) -> None:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return  # what it does counts where it is called
        headers = [n for n in ast.iter_child_nodes(statement) if not _is_suite(n)]
        for header in headers:
            for node in below(header):
                self._node(frame, statement, node, found, certain=certain)
        if isinstance(statement, (ast.Global, ast.Nonlocal, ast.Delete)):
            return
        inner_certain = certain and not isinstance(statement, (ast.If, *LOOPS, ast.Match))
        restores = isinstance(statement, ast.If) and _asks_for_mode(frame, statement.test)
        for part, is_certain in _suites(statement, inner_certain):
            inside = Effects()
            for inner in part:
                self._statement(frame, inner, inside, certain=is_certain)
            if restores:
                inside.modes = [replace(m, training=None, certain=True) for m in inside.modes]
            found.add(inside)

    def _node(
        self, frame: Frame, statement: ast.stmt, node: ast.AST, found: Effects, *, certain: bool
    ) -> None:
        if isinstance(node, ast.Call):
            found.add(self._call(frame, statement, node), certain=certain)
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(
            node.ctx, ast.Load
        ):
            self._store(frame, node, found)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            owner = self.storage.owner(frame.source, frame.scope, node.id)
            if owner is not frame.scope:  # `global`, `nonlocal`
                found.changed.add(Cell(node.id, owner))
            elif isinstance(statement, ast.AugAssign):
                reach = self.storage.of(frame, node)  # a list or a tensor grows in place
                found.changed |= _cells([reach])
        elif isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)) and frame.top:
            found.unknown.append(f"{_at(frame, node)}: waits for others")

    def _store(self, frame: Frame, node: ast.Attribute | ast.Subscript, found: Effects) -> None:
        owner = self.storage.of(frame, node.value)
        if self.objects.is_library(frame.source, frame.scope, node.value):
            found.unknown.append(f"{_at(frame, node)}: sets {ast.unparse(node)}")
        elif isinstance(node, ast.Subscript):
            found.changed |= owner.cells
        elif owner.cells or not owner.fresh:
            found.changed.add(Cell(node.attr))
            if not (owner.own or self.objects.is_own(frame.source, frame.scope, node.value)):
                found.changed |= owner.cells  # a library may read the attribute

    # -- calls ---------------------------------------------------------------------------------

    def _call(self, frame: Frame, statement: ast.stmt, call: ast.Call) -> Effects:
        where = (frame.source, frame.scope)
        if isinstance(call.func, ast.Attribute) and self.objects.is_module(*where, call.func.value):
            switched = self._switch(frame, call.func, call)
            if switched is not None:
                return switched
        functions = self.functions(frame, call)
        if functions:
            found = Effects()
            for function in functions:
                found.add(self._summary(function, self.storage.arguments(frame, call, function)))
            return found
        values = self.program.names.of(*where, call.func)
        if any(isinstance(v, Class) for v in values):
            return Effects()  # a class without a constructor of its own
        given = _cells(self.storage.of(frame, a) for a in arguments(call))
        name = self.program.names.qualified(*where, call.func)
        if name.startswith("builtins."):
            return self._builtin(frame, call, name.removeprefix("builtins."))
        if self.objects.is_module(*where, call.func):
            return Effects()
        made_by = self.objects.object_of(*where, call.func)
        if made_by:  # an object of a library that is called: a loss, a metric, a transform
            own = self.storage.of(frame, call.func).cells
            harmless = made_by.startswith("torch.nn.") or not own
            return Effects() if harmless else Effects(changed=set(own) | given)
        if isinstance(call.func, ast.Attribute) and not self.objects.is_library(*where, call.func):
            return self._method(frame, call, call.func, given)
        if "." in name:
            return self._library(frame, statement, call, name, given)
        return self._unread(frame, call)

    def functions(self, frame: Frame, call: ast.Call) -> list[Function]:
        """The program's functions that a call may run, `getattr(x, "name")()` included."""
        inner = call.func
        if isinstance(inner, ast.Call) and len(inner.args) > 1:
            if self.program.names.qualified(frame.source, frame.scope, inner.func) == _GETATTR:
                name = self.storage.of(frame, inner.args[1]).constant
                return self.program.methods_by_name.get(name, [])
        return self.program.resolve(frame.source, frame.scope, call)

    def _switch(self, frame: Frame, function: ast.Attribute, call: ast.Call) -> Effects | None:
        """`model.eval()`, `model.train()`, `model.train(was_training)`."""
        if function.attr not in ("eval", "train"):
            return None
        training: bool | None = function.attr == "train"
        if training and call.args:
            given = call.args[0]
            training = bool(given.value) if isinstance(given, ast.Constant) else None
        return Effects(modes=[Mode(self.storage.of(frame, function.value).path, training, True)])

    def _library(
        self, frame: Frame, statement: ast.stmt, call: ast.Call, name: str, given: set[Cell]
    ) -> Effects:
        found = Effects(saves=name in SAVES, checkpoint=name in CHECKPOINTS, loads=name in LOADS)
        if name == "torch.set_grad_enabled" and isinstance(statement, (ast.With, ast.AsyncWith)):
            return found
        if name.startswith(GLOBAL):
            return self._unread(frame, call)
        if name in WRITES_FIRST_ARGUMENT or name.endswith("_"):
            found.changed |= _cells([self.storage.of(frame, call.args[0])]) if call.args else set()
        reads = name.partition(".")[0] in READS_ONLY or found.saves or found.loads
        if not reads or any(k.arg == "out" for k in call.keywords):
            found.changed |= given
        return found

    def _method(
        self, frame: Frame, call: ast.Call, function: ast.Attribute, given: set[Cell]
    ) -> Effects:
        word = function.attr
        where = (frame.source, frame.scope, function.value)
        own = self.storage.of(frame, function.value)
        if word in ("backward", "step") or (word == "load_state_dict" and own.cells):
            return self._unread(frame, call)
        if self.objects.is_module(*where):
            if word in MODULE_CHANGES or word.endswith("_"):
                return Effects(changed=set(own.cells))
            saves = word in MODULE_SAVES
            return Effects(saves=saves, checkpoint=saves)
        made_by = self.objects.made_by(*where)
        if made_by.startswith("accelerate.") and word in ACCELERATOR_SAVES:
            return Effects(saves=True, checkpoint=True)
        if word in WRITING_METHODS:
            return Effects(saves=True, changed=set(own.cells))
        if word in READING_METHODS or self.objects.is_sink(*where):
            return Effects()
        return Effects(changed=set(own.cells) | given)

    def _builtin(self, frame: Frame, call: ast.Call, name: str) -> Effects:
        if name in BUILTINS:
            return Effects()
        if name == "next" and call.args:
            return Effects(changed=_cells([self.storage.of(frame, call.args[0])]))
        if name == "open":
            mode = call.args[1] if len(call.args) > 1 else None
            reads = mode is None or (isinstance(mode, ast.Constant) and "r" in str(mode.value))
            return Effects(saves=not reads)
        if name == "setattr" and len(call.args) == 3:
            attribute = self.storage.of(frame, call.args[1]).constant
            if attribute:
                return Effects(changed={Cell(attribute)})
        return self._unread(frame, call)

    def _unread(self, frame: Frame, call: ast.Call) -> Effects:
        return Effects(unknown=[f"{_at(frame, call)}: {ast.unparse(call.func)}()"])

    # -- functions -----------------------------------------------------------------------------

    def _summary(self, function: Function, given: Arguments) -> Effects:
        key = (function.node, given)
        cached = self._summaries.get(key)
        if cached is not None:
            return cached
        found = self._summaries[key] = Effects()
        if len(self._open) >= _DEPTH:
            found.unknown.append(f"{function.source.path.name}:{function.node.lineno}: too deep")
            return found
        self._open.append(function.node)
        frame = Frame(function.source, function.node, given, top=False)
        outside = function.source.scope_of(function.node)
        for decorator in function.node.decorator_list:
            node = decorator.func if isinstance(decorator, ast.Call) else decorator
            values = self.program.names.of(function.source, outside, node)
            if any(isinstance(v, (Function, Class)) for v in values):
                found.unknown.append(f"{_at(frame, decorator)}: a decorator")
        for statement in function.node.body:
            self._statement(frame, statement, found, certain=True)
        self._open.pop()
        return found

    @cached_property
    def _summaries(self) -> dict[tuple[FunctionNode, Arguments], Effects]:
        return {}

    @cached_property
    def _open(self) -> list[FunctionNode]:
        return []


_GETATTR = "builtins.getattr"


def _cells(given: Iterable[Reach]) -> set[Cell]:
    return {cell for reach in given if not reach.plain for cell in reach.cells | reach.held}


def _suites(statement: ast.stmt, certain: bool) -> Iterator[tuple[list[ast.stmt], bool]]:
    for name in ("body", "orelse", "finalbody"):
        part = getattr(statement, name, None)
        if isinstance(part, list) and part and isinstance(part[0], ast.stmt):
            yield part, certain
    for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield handler.body, False


def _is_suite(node: ast.AST) -> bool:
    return isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case))


def _asks_for_mode(frame: Frame, test: ast.expr) -> bool:
    """`if was_training:`: what follows gives back the mode that there was."""
    if any(isinstance(n, ast.Attribute) and n.attr == "training" for n in below(test)):
        return True
    names = {n.id for n in below(test) if isinstance(n, ast.Name)}
    return any(
        isinstance(n, ast.Assign)
        and isinstance(n.value, ast.Attribute)
        and n.value.attr == "training"
        and any(isinstance(t, ast.Name) and t.id in names for t in n.targets)
        for n in own_nodes(frame.scope)
    )


def _at(frame: Frame, node: ast.AST) -> str:
    return f"{frame.source.path.name}:{getattr(node, 'lineno', 0)}"
