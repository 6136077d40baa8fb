"""Reads the effects of statements, through the functions that they call.

A call of the program's own functions is followed, and so is what `with`, `for`, `[]` and
properties run of its classes; for a call that leaves the program see
:mod:`instrumentor.locate.changes.skips.calls`; what cannot be read at all is named.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace

from instrumentor.locate.changes.skips.calls import LibraryCalls
from instrumentor.locate.changes.skips.carried import (
    Carried,
    hangs_on_what_it_is_given,
    is_memo,
)
from instrumentor.locate.changes.skips.effects import (
    Effects,
    Files,
    changes,
    replaces,
    unread,
)
from instrumentor.locate.changes.skips.implicit import (
    Implicit,
    changed_operands,
    in_training,
    operands,
)
from instrumentor.locate.changes.skips.modes import (
    SWITCHES_GRADIENTS,
    Mode,
    Paths,
    State,
    flow_through,
)
from instrumentor.locate.changes.skips.objects import Objects
from instrumentor.locate.changes.skips.storage import (
    FRESH,
    NOWHERE,
    Arguments,
    Cell,
    Frame,
    Reach,
    Spelling,
    Storage,
)
from instrumentor.locate.changes.skips.walks import Does, Walks
from instrumentor.locate.changes.skips.wrappers import wrappers
from instrumentor.locate.meaning.libraries.library import rows
from instrumentor.read.bindings import Binding, Bound, Parameter
from instrumentor.read.constants import (
    Constants,
    asked_of,
    decided,
    flow_with,
    key_of,
    passes_over,
    unreached,
)
from instrumentor.read.control_flow import Flow
from instrumentor.read.fixpoint import Answers
from instrumentor.read.names import external_name
from instrumentor.read.program import Function, Program
from instrumentor.read.signatures import own_parameter, passed, suspends
from instrumentor.read.syntax import (
    FUNCTIONS,
    LOOPS,
    FunctionNode,
    ScopeNode,
    Source,
    arguments,
    below,
    bound_by,
    contains,
    header,
    own_calls,
    own_nodes,
    returned,
)
from instrumentor.read.values import (
    Class,
    Free,
    Group,
    Item,
    Member,
    Object,
    Opaque,
    Value,
    Values,
    is_own,
)

_DEPTH = 20
#: So often a function that comes to itself is read with what each call of it gives.
_ALIKE = 2
_NONE: Constants = {}
_GETATTR = "builtins.getattr"
#: Functions that give what they are handed a new object each time: a match of a text.
_GIVES_NEW = rows("re.", "sub subn")
#: Decorators that keep what a function gives for the next who asks.
_KEEPS = rows("functools.", "lru_cache cache cached_property")
#: What an expression does otherwise than when it is computed, or binds.
_LATER = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda)
#: Methods by which a generator goes on.
_RESUMES = ("__next__", "send", "throw")


class EffectsReader(Struct, eq=False, dict=True):
    """Effects of statements of a program; summaries of functions are kept."""

    program: Program
    storage: Storage
    objects: Objects
    never: Container[ast.stmt] = ()
    _kept: dict[ast.stmt, Effects] = field(default_factory=dict)
    _answers: Answers = field(default_factory=Answers)
    _depth: int = 0
    #: The functions that are being read, with what each call gave.
    _open: dict[ScopeNode, list[Arguments]] = field(default_factory=dict)
    #: What is constant in the call that is being read, and what it does not come to for that.
    _fixed: Constants = field(default_factory=dict)
    _out: frozenset[ast.stmt] = frozenset()
    #: Calls by which decorators run what they decorate, which is read by itself.
    _read_already: set[ast.Call] = field(default_factory=set)
    #: Of the statements of what is being read, which modules each switches.
    _switches: dict[ast.stmt, list[Mode]] = field(default_factory=dict)

    @cached_property
    def _methods(self) -> Implicit:
        return Implicit(self.program)

    @cached_property
    def carried(self) -> Carried:
        return Carried(self.program, self._methods)

    @cached_property
    def _walks(self) -> Walks:
        return Walks(self.storage, self.objects, self._comes_to)

    @cached_property
    def _library(self) -> LibraryCalls:
        return LibraryCalls(self.storage, self.objects)

    def of(
        self,
        source: Source,
        scope: ScopeNode,
        statements: Iterable[ast.stmt],
        without: Iterable[ast.stmt] = (),
    ) -> Effects:
        """Args: without: statements that are taken out of them."""
        found = Effects()
        for statement in statements:
            out = frozenset(s for s in without if s is not statement and contains(statement, s))
            if out:
                around, self._out = self._out, out
                found.add(self._alone(Frame(source, scope), statement))
                self._out = around
            else:
                found.add(self._kept.get(statement) or self._of(source, scope, statement))
        return found

    def _of(self, source: Source, scope: ScopeNode, statement: ast.stmt) -> Effects:
        frame = Frame(source, scope)
        found = self._kept[statement] = self._alone(frame, statement)
        itself = {n for n in (statement, *own_nodes(statement)) if _switches_itself(n)}
        for node in (statement, *own_nodes(statement)):
            for name in () if any(contains(n, node) for n in itself) else bound_by(node):
                found.bound.add(Cell(name, self.storage.owner(source, scope, name)))
            if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)):
                found.add(unread(frame, node, "a definition"))
        return found

    # -- statements ----------------------------------------------------------------------------

    def _alone(self, frame: Frame, statement: ast.stmt) -> Effects:
        found, around = Effects(), self._switches
        self._switches = {}
        self._statement(frame, statement, found, certain=True)
        if self._switches:
            found.modes = self._left(frame, flow_through(statement))
        self._switches = around
        return found

    def _left(self, frame: Frame, flow: Flow) -> dict[Spelling, Mode]:
        """How the paths through what is being read leave the modules that it switches."""
        return Paths(
            self.program,
            frame.source,
            frame.scope,
            flow,
            self._switches,
            self._out,
            lambda s: frame.source.places[s].suite[0] in self.never,
            lambda module: _mode(frame, module, self.storage.of(frame, module)).key,
        ).left()

    def _statement(
        self, frame: Frame, statement: ast.stmt, found: Effects, *, certain: bool
    ) -> None:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            self._define(frame, statement, found)
            return  # what it does counts where it is called
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            self._walk(frame, statement.iter, found, certain=certain)
        elif isinstance(statement, ast.Assign):
            if any(isinstance(t, (ast.Tuple, ast.List)) for t in statement.targets):
                self._walk(frame, statement.value, found, certain=certain)
        nodes = [*header(statement)]
        maybe = {n for part in nodes for n in self._sometimes(part)}
        switched: list[Mode] = []
        for node in nodes:
            if self._fixed and any(passes_over(test, node, self._fixed) for test in nodes):
                continue
            surely = certain and node not in maybe
            self._node(frame, statement, node, found, certain=surely)
            for name in bound_by(node):
                self._bind(frame, statement, name, found)
            for owner in operands(node):
                self._special(frame, owner, found)
            for owner in changed_operands(node):
                found.add(changes(frame, owner, self._library.uses(frame, owner)))
            switched += [m.or_not() if node in maybe else m for m in found.modes.values()]
            found.modes = {}
        if switched:
            at = statement
            if group := self._group(frame, statement):
                at, walked = group
                switched = [replace(m, owner=walked, is_group=True) for m in switched]
            self._switches[at] = [*self._switches.get(at, ()), *switched]
        inner_certain = certain and not isinstance(statement, (ast.If, *LOOPS, ast.Match))
        if isinstance(statement, ast.If) and decided(statement.test, self._fixed) is not None:
            inner_certain = certain
        for part, is_certain in _suites(statement, inner_certain):
            if part[0] not in self.never:
                self._suite(frame, part, found, certain=is_certain)

    def _define(self, frame: Frame, statement: FunctionNode | ast.ClassDef, found: Effects) -> None:
        """Binds the name; what decorates it runs here."""
        self._bind(frame, statement, statement.name, found)
        for decorator in statement.decorator_list:
            if self._decorates_as(frame.source, frame.scope, decorator) == "functools.wraps":
                continue
            values = self.program.names.of(frame.source, frame.scope, decorator)
            if not all(external_name(_maker(value)) for value in values):
                found.add(unread(frame, decorator, "a decorator"))

    def _decorates_as(self, source: Source, scope: ScopeNode, decorator: ast.expr) -> str:
        """The qualified name of a library's decorator, or of what makes it."""
        made = decorator.func if isinstance(decorator, ast.Call) else decorator
        return self.program.names.qualified(source, scope, made)

    def _suite(
        self, frame: Frame, statements: list[ast.stmt], found: Effects, *, certain: bool
    ) -> None:
        for statement in (s for s in statements if s not in self._out):
            self._statement(frame, statement, found, certain=certain)
            left = (n for n in (statement, *own_nodes(statement)) if isinstance(n, ast.Return))
            if any(node not in self._out for node in left):
                certain = False  # what follows runs only where that did not return

    def _node(
        self, frame: Frame, statement: ast.stmt, node: ast.AST, found: Effects, *, certain: bool
    ) -> None:
        match node:
            case ast.Call() if node not in self._read_already:
                found.add(self._call(frame, statement, node), certain=certain)
                self._begin(self._walks.begun_by(frame, node), found, certain=certain)
            case ast.Attribute() | ast.Subscript():
                stores = not isinstance(node.ctx, ast.Load) and not _switches_itself(statement)
                if stores and not self._is_memo(frame, statement):
                    self._store(frame, statement, node, found)
                if isinstance(node, ast.Attribute):
                    accessors = self._methods.accessors(frame.source, frame.scope, node)
                    self._run(frame, node.value, accessors, found)
            case ast.comprehension(iter=walked) | ast.Starred(value=walked, ctx=ast.Load()):
                self._walk(frame, walked, found, certain=certain)
            case ast.YieldFrom(value=walked) if frame.run != "examined":
                self._walk(frame, walked, found, certain=certain)
            case ast.Compare(ops=ops, comparators=sides):
                for operator, side in zip(ops, sides, strict=True):
                    if isinstance(operator, (ast.In, ast.NotIn)):
                        self._walk(frame, side, found, certain=certain)
            case ast.Yield() | ast.YieldFrom() | ast.Await() if frame.run == "examined":
                found.add(unread(frame, node, "waits for others"))

    def _bind(self, frame: Frame, statement: ast.stmt, name: str, found: Effects) -> None:
        owner = self.storage.owner(frame.source, frame.scope, name)
        if owner is not frame.scope and self._is_memo(frame, statement):
            return
        if owner is not frame.scope:  # `global`, `nonlocal`
            found.add(replaces(frame, ast.Name(name, lineno=statement.lineno), [Cell(name, owner)]))
        elif isinstance(statement, ast.AugAssign):  # a list or a tensor grows in place
            target = statement.target
            grown = self.storage.of(frame, target)
            found.add(changes(frame, target, () if grown.plain else grown.cells))

    def _is_memo(self, frame: Frame, statement: ast.stmt) -> bool:
        return is_memo(self.program, frame.source, frame.scope, statement)

    def _store(
        self,
        frame: Frame,
        statement: ast.stmt,
        node: ast.Attribute | ast.Subscript,
        found: Effects,
    ) -> None:
        owner = self.storage.of(frame, node.value)
        if self.objects.is_library(frame.source, frame.scope, node.value):
            flag = self._flag(frame, statement, node)
            if flag is None:
                found.add(unread(frame, node, f"sets {ast.unparse(node)}"))
            else:
                found.add(Effects(modes={flag.key: flag}))
        elif isinstance(node, ast.Subscript):
            does = replaces if owner.plain else changes  # a number that has elements is none
            found.add(does(frame, node, owner.cells | self._library.uses(frame, node.value)))
            if any(cell.name == "__dict__" for cell in owner.cells):
                found.add(unread(frame, node, f"sets {ast.unparse(node)}"))
        elif owner.cells or not owner.fresh:
            grows = isinstance(statement, ast.AugAssign)  # a list or a tensor, in place
            cells = {*self.storage.slots(frame, node, owner, held=grows)}
            for value in self.program.names.of(frame.source, frame.scope, node.value):
                if isinstance(value, Source):  # a variable of another module
                    cells.add(Cell(node.attr, value.tree))
            found.add(replaces(frame, node, cells))
            where = (frame.source, frame.scope, node.value)
            own = owner.own or self.objects.is_own(*where) or self.objects.is_namespace(*where)
            if not own:
                found.add(changes(frame, node, owner.cells))  # a library may read the attribute

    def _flag(self, frame: Frame, statement: ast.stmt, node: ast.expr) -> Mode | None:
        """`torch.backends.cudnn.benchmark = True`"""
        name = self.program.names.qualified(frame.source, frame.scope, node)
        match statement:
            case ast.Assign(targets=[target], value=ast.Constant(value=bool(on))):
                if target is node and name.startswith("torch.backends."):
                    flag = Spelling(name, frame.source.tree)
                    return Mode(flag, frame.scope, name, frozenset({State(on)}), is_flag=True)
        return None

    # -- calls ---------------------------------------------------------------------------------

    def _call(self, frame: Frame, statement: ast.stmt, call: ast.Call) -> Effects:
        where = (frame.source, frame.scope)
        if isinstance(call.func, ast.Attribute) and self.objects.is_module(*where, call.func.value):
            switched = self._switch(frame, call.func, call)
            if switched is not None:
                return switched
        if isinstance(statement, ast.Expr) and statement.value is call:
            switched = self._gradients(frame, call)
            if switched is not None:
                return switched
        found = Effects()
        if isinstance(call.func, ast.Attribute) and call.func.attr in _RESUMES:
            self._special(frame, call.func.value, found)
        values = self.program.names.called(*where, call.func)
        made = [v for v in values if isinstance(v, Class)]
        functions = self.functions(frame, call)
        untold = any(map(_is_untold, values)) or (not functions and self._is_looked_up(values))
        if untold and not self.objects.is_known(*where, call.func):
            return unread(frame, call, f"{ast.unparse(call.func)}()")
        for cls in made:
            for word in ("__new__", "__post_init__"):
                functions = functions + self.program.methods(cls, word, overrides=False)
        draws = list[list[Spelling]]()
        for function in functions:
            fixed = asked_of(self.program, frame.scope, call, function, self._fixed)
            given = self.storage.arguments(frame, call, function)
            one = self._summary(function, given, fixed)
            draws += [one.draws] if made or not _only_raises(function) else []
            found.add(one)
        if not made and draws.count(draws[0] if draws else []) < len(draws):  # one of them runs
            found.draws = [NOWHERE]
        elif not made and draws:
            found.draws = [*draws[0]]
        others = any(isinstance(v, (Member, Object)) and not is_own(v) for v in values)
        leaves = self.storage.leaves(frame, call) or not (functions or made)
        leaves |= bool(others and any(isinstance(v, (Function, Class)) for v in values))
        for function in self.handed_to(frame, call) if leaves or not functions else ():
            found.add(self._summary(function, self._given_by(frame, call, function)))
        if not leaves:
            return found
        found.add(self._by_library(frame, statement, call))
        return found

    def _by_library(self, frame: Frame, statement: ast.stmt, call: ast.Call) -> Effects:
        """Of what the program does not define."""
        found, where = Effects(), (frame.source, frame.scope)
        for each in self.storage.lambdas(frame, call):
            found.add(self._of_lambda(frame, call, each))
        values, own = self.program.names.called(*where, call.func), list[Value]()
        for value in values:
            forwards = self._methods.applied(value)
            for function in forwards:
                found.add(self._applied(frame, call, function))
            is_read = isinstance(value, (Function, Class)) or _is_a_lambda(value)
            own += [value] if forwards or is_read else []
        if own and len(own) == len(values):
            return found
        found.add(self._library.of(frame, statement, call))
        found.opened = {(call, frame): found.files} if found.files else {}
        for function in self._methods.looked_up(*where, call):
            found.add(self._summary(function, ()))
        alone = self.storage.of(frame, call.func).is_new
        left = self.carried.by(*where, call)
        found.add(replaces(frame, call, (c for c in left if c.scope is not None or not alone)))
        if any(map(self._draws, self._methods.run_by(*where, call.func))):
            found.draws.append(NOWHERE)
        by_library = Effects()
        for argument in arguments(call):
            self._special(frame, argument, by_library)
        if by_library.draws and (does := self._walks.does(frame, call)) is not Does.BEGINS:
            by_library.draws = [NOWHERE] if does is Does.UNKNOWN else []
        by_library.files &= ~Files.READS  # a data set reads its own
        by_library.opened = {at: d & ~Files.READS for at, d in by_library.opened.items()}
        found.add(by_library)
        return found

    def _of_lambda(self, frame: Frame, call: ast.Call, node: ast.Lambda) -> Effects:
        """What the expression of a lambda does with what a call gives to it."""
        inner = self.storage.within(frame, call, node)
        at = inner.source.statement_of(node)
        of_a_class = at is None or inner.source.class_around(at) is not None
        later = of_a_class or any(isinstance(n, _LATER) for n in ast.walk(node.body))
        if later or self._depth >= _DEPTH:
            return unread(frame, call, f"{ast.unparse(call.func)}()")
        self._depth += 1
        try:
            return self._answers.ask(inner, lambda: self._expression(inner, node.body), Effects())
        finally:
            self._depth -= 1

    def _expression(self, frame: Frame, body: ast.expr) -> Effects:
        found, at = Effects(), frame.source.statement_of(body)
        if at is None:
            return unread(frame, body, ast.unparse(body))
        for node in (body, *below(body)):
            self._node(frame, at, node, found, certain=False)
            for owner in operands(node):
                self._special(frame, owner, found)
        return unread(frame, body, ast.unparse(body)) if found.modes else found

    def _decorated(self, frame: Frame, decorator: ast.expr, value: Value) -> Effects:
        """What a decorator of the program does around a call of what it decorates."""
        if external_name(_maker(value)):
            return Effects()
        found = wrappers(self.program, value) if isinstance(value, Function) else None
        if found is None:
            return unread(frame, decorator, "a decorator")
        does = Effects()
        for wrapper in found:
            self._read_already.add(wrapper.call)
            around = self._summary(wrapper.function, ())
            does.add(around, certain=wrapper.is_certain)
        return unread(frame, decorator, "a decorator") if does.modes else does

    def _applied(self, frame: Frame, call: ast.Call, function: Function) -> Effects:
        """What the forward of a `torch.autograd.Function` does, whose context nobody else has."""
        given: dict[str, list[Reach]] = {}
        for name, value in passed(call, function.node, bound=True):
            given.setdefault(name, []).append(self.storage.of(frame, value))
        context = {a.arg: [FRESH] for a in function.node.args.args[:1]}
        outside = Frame(function.source, function.source.scope_of(function.node))
        return self._summary(
            function, self.storage.completed(outside, function.node, {**context, **given})
        )

    def _draws(self, function: Function) -> bool:
        """Whether a function that a module runs takes random numbers in evaluation mode too."""
        return any(
            not in_training(function.source, call)
            and not _follows_the_mode(call)
            and self._library.draws(Frame(function.source, function.node), call)
            for call in own_calls(function.node)
        )

    def handed_to(self, frame: Frame, call: ast.Call) -> Iterator[Function]:
        """Functions that a library is given, and may call."""
        for argument in arguments(call):
            if isinstance(argument, (ast.Name, ast.Attribute)):
                for value in self.program.names.of(frame.source, frame.scope, argument):
                    if isinstance(value, Function):
                        yield value

    def _given_by(self, frame: Frame, call: ast.Call, function: Function) -> Arguments:
        """What a library gives a function that it is handed, as far as that is told."""
        where = (frame.source, frame.scope)
        called = call.func
        makes = self.program.names.qualified(*where, called) in _GIVES_NEW
        if isinstance(called, ast.Attribute) and called.attr in ("sub", "subn"):
            makes |= self.objects.object_of(*where, called.value) == "re.compile"
        return tuple((p.arg, FRESH) for p in function.node.args.args[:1] if makes)

    def _is_looked_up(self, values: Values) -> bool:
        """Whether it is found by a name that nobody tells, in what is not a library."""
        return any(
            isinstance(value, Object)
            and value.node is not None
            and value.where is not None
            and external_name(value.made_by) == _GETATTR
            and self.objects.is_own_too(*value.where, value.node.args[0])
            for value in values
        )

    def functions(self, frame: Frame, call: ast.Call) -> list[Function]:
        """The program's functions that a call may run, `getattr(x, "name")()` included."""
        inner, found = call.func, self.program.resolve(frame.source, frame.scope, call)
        if not found and isinstance(inner, ast.Call) and len(inner.args) > 1:
            if self.program.names.qualified(frame.source, frame.scope, inner.func) == _GETATTR:
                name = self.storage.of(frame, inner.args[1]).constant
                return self.program.methods_by_name.get(name, [])
        return found

    def _switch(self, frame: Frame, function: ast.Attribute, call: ast.Call) -> Effects | None:
        """`model.eval()`, `model.train()`, `model.train(was_training)`."""
        if function.attr not in ("eval", "train"):
            return None
        training: bool | None = function.attr == "train"
        given = [*call.args, *(k.value for k in call.keywords)] if training else []
        if given:
            training = decided(given[0], self._fixed)
        module = self.storage.of(frame, function.value)
        if module.is_new and not _is_given_back(frame.scope, function.value):
            return Effects()
        mode = _mode(frame, function.value, module)
        if training is not None:
            mode = replace(mode, ends=frozenset({State(training)}))
        elif isinstance(given[0], ast.Name):
            mode = replace(mode, restored=given[0].id)
        return Effects(modes={mode.key: mode})

    def _group(self, frame: Frame, statement: ast.stmt) -> tuple[ast.stmt, Spelling] | None:
        """The loop over modules in which a statement switches each of them, and what it walks over.

        `for net in nets.values(): net.eval()`, `for name in nets: nets[name].train()`.
        """
        loop = frame.source.places[statement].parent
        match loop, statement:
            case (
                ast.For(target=ast.Name(id=name), iter=walked, body=[_]),
                ast.Expr(value=ast.Call(func=ast.Attribute(value=switched))),
            ):
                pass
            case _:
                return None
        container, by_key = walked, isinstance(switched, ast.Subscript)
        match walked:
            case ast.Call(func=ast.Attribute(value=held, attr="keys" | "values" as word), args=[]):
                container, by_key = held, word == "keys"
        element = ast.unparse(container) + f"[{name}]" if by_key else name
        if ast.unparse(switched) != element:
            return None
        parts = container.elts if isinstance(container, (ast.List, ast.Tuple)) else [container]
        reaches = [self.storage.of(frame, part) for part in parts]
        paths = [reach.path for reach in reaches if not reach.once]
        if len(paths) < len(parts) or not all(p.text and p.scope is paths[0].scope for p in paths):
            return None
        text = ", ".join(path.text for path in paths)
        if parts == [container]:
            text = f"*{text}.values()" if by_key or container is not walked else f"*{text}"
        return loop, Spelling(f"[{text}]", paths[0].scope)

    def _gradients(self, frame: Frame, call: ast.Call) -> Effects | None:
        """`torch.set_grad_enabled(train)`, which leaves gradients on or off."""
        name = self.program.names.qualified(frame.source, frame.scope, call.func)
        if name not in SWITCHES_GRADIENTS or len(call.args) != 1:
            return None
        on = decided(call.args[0], self._fixed)
        if on is None:
            return None
        flag = Spelling(name, frame.source.tree)
        mode = Mode(flag, frame.scope, name, frozenset({State(on)}), is_flag=True)
        return Effects(modes={mode.key: mode})

    def _walk(self, frame: Frame, iterable: ast.expr, found: Effects, *, certain: bool) -> None:
        """Walking over something uses an iterator up, runs `__iter__`, seeds a loader's order."""
        if isinstance(iterable, ast.Name) and self._is_of_arguments(frame, iterable.id):
            return
        reach = self.storage.of(frame, iterable)
        if reach.once:
            found.add(changes(frame, iterable, reach.cells))
        self._begin(self._walks.over(frame, iterable), found, certain=certain)
        self._special(frame, iterable, found)

    def _is_of_arguments(self, frame: Frame, name: str) -> bool:
        """The tuple of `*args`, or the table of `**named`, that a function gets."""
        bound = self.program.names.bound(frame.source, frame.scope, name)
        return bool(bound) and all(
            isinstance(b, Parameter)
            and b.argument in (b.function.args.vararg, b.function.args.kwarg)
            for b in bound
        )

    def _begin(self, begun: Iterable[Spelling], found: Effects, *, certain: bool) -> None:
        """What beginning to walk over data loaders draws."""
        found.draws += begun if certain else [NOWHERE for _ in begun]

    def _sometimes(self, node: ast.AST) -> Iterator[ast.AST]:
        """Parts of an expression that it runs never, or several times."""
        parts: list[ast.AST]
        match node:
            case ast.IfExp(test=test, body=one, orelse=other):
                parts = [one, other] if decided(test, self._fixed) is None else []
            case ast.BoolOp(values=values):
                parts = [*values[1:]]
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part):
                parts = [part, *node.generators[0].ifs, *node.generators[1:]]
            case ast.DictComp(key=key, value=part):
                parts = [key, part, *node.generators[0].ifs, *node.generators[1:]]
            case _:
                return
        for each in parts:
            yield from (each, *below(each))

    def _comes_to(self, frame: Frame, binding: Binding) -> bool:
        """Whether what binds a name runs, with what is constant in the call that is read."""
        at = frame.source.statement_of(binding.value) if isinstance(binding, Bound) else None
        return at is None or not any(
            s in self._out or frame.source.places[s].suite[0] in self.never
            for s in (at, *frame.source.parents(at))
            if s in frame.source.places
        )

    def _special(self, frame: Frame, owner: ast.expr, found: Effects) -> None:
        """Methods of the program's classes that no call names."""
        owner = self.objects.within(frame.source, frame.scope, owner)
        runs = Effects()
        methods = self._methods.special(frame.source, frame.scope, owner)
        self._run(frame, owner, methods, runs)
        values = self.program.names.of(frame.source, frame.scope, owner)
        walked = self.storage.of(frame, owner)
        if walked.once and (walked.cells or not walked.fresh):  # else it counts where it is called
            for value in values:
                runs.add(self._resumed(owner, value))
        runs.draws = self._seeds_within(frame, owner, runs.draws)
        found.add(runs)

    def _resumed(self, walked: ast.expr, value: Value) -> Effects:
        """What a generator does that was called elsewhere."""
        if not isinstance(value, Object) or value.where is None:
            return Effects()
        made, call = value.made_by, value.node
        if isinstance(made, Function) and isinstance(call, ast.Call) and call is not walked:
            if suspends(made.node):
                given = self.storage.arguments(Frame(*value.where), call, made)
                given = tuple((name, reach.unnamed) for name, reach in given)
                fixed = asked_of(self.program, value.where[1], call, made, {})
                return self._summary(made, given, fixed)
        return Effects()

    def _seeds_within(self, frame: Frame, owner: ast.expr, draws: list[Spelling]) -> list[Spelling]:
        """Seeds of loaders that an object holds, which is not sure to be one that holds them.

        Where it may be a loader itself, what draws its seeds tells at run time which it is.
        """
        whole = self.storage.of(frame, owner).path
        inside = [d for d in draws if whole.text and d.text.startswith(f"{whole.text}.")]
        others = [d for d in draws if d not in inside]
        told = inside and not self._walks.is_a_loader(frame, owner)
        return [*others, NOWHERE] if told else others

    def _run(
        self, frame: Frame, owner: ast.expr, methods: Iterator[Function], found: Effects
    ) -> None:
        for method in methods:
            if itself := own_parameter(method):
                own = ((itself, self.storage.of(frame, owner)),)
                found.add(self._summary(method, own))

    def _summary(self, function: Function, given: Arguments, fixed: Constants = _NONE) -> Effects:
        """What a function does when it is given that, some of it constant.

        One that comes to itself again and again, with more each time, as transforms of transforms
        do, is read for all these calls at once.
        """
        around = self._open.setdefault(function.node, [])
        if len(around) >= _ALIKE:
            given, fixed = _either(around[-1], given), _NONE
        frame = Frame(function.source, function.node, given, "called")
        if self._depth >= _DEPTH:
            return unread(frame, function.node, "too deep")
        question = (frame, key_of(fixed))
        self._depth += 1
        around.append(given)
        try:
            return self._answers.ask(
                question, lambda: self._body(frame, function, fixed), Effects()
            )
        finally:
            self._depth -= 1
            around.pop()

    def _body(self, frame: Frame, function: Function, fixed: Constants) -> Effects:
        found, nodes = Effects(), own_nodes(function.node)
        around = self._fixed, self._out, self._switches
        self._fixed, self._out, self._switches = fixed, unreached(function, fixed), {}
        outside = function.source.scope_of(function.node)
        for decorator in function.node.decorator_list:
            name = self._decorates_as(function.source, outside, decorator)
            if name == "functools.wraps":
                continue
            if name in _KEEPS and not hangs_on_what_it_is_given(self.program, function):
                home = None if function.node in function.source.class_of else outside
                found.add(replaces(frame, decorator, [Cell(function.name, home)]))
            for value in self.program.names.of(function.source, outside, decorator):
                found.add(self._decorated(frame, decorator, value))
        self._suite(frame, function.node.body, found, certain=True)
        if self._switches:
            found.modes = self._left(frame, flow_with(function, fixed))
        if not any(isinstance(n, FUNCTIONS) and n in self.program.handed for n in nodes):
            for cells in (found.changed, found.replaced):  # each call has variables of its own
                for cell in [c for c in cells if c.scope is function.node]:
                    del cells[cell]
        self._fixed, self._out, self._switches = around
        return found


def _either(one: Arguments, other: Arguments) -> Arguments:
    """What parameters reach that are given the one or the other."""
    known = dict(one)
    return tuple(
        (name, known[name].either(reach).view if name in known else reach)
        for name, reach in sorted((known | dict(other)).items())
    )


def _mode(frame: Frame, node: ast.expr, module: Reach) -> Mode:
    """A module that may be in either mode."""
    ends = frozenset({State(True), State(False)})
    return Mode(module.path, frame.scope, ast.unparse(node), ends, one_of=module.maybe)


def _maker(value: Value) -> Value:
    return value.made_by if isinstance(value, Object) else value


def _is_untold(value: Value) -> bool:
    """What is called may be any function: a parameter that nobody gives, an element of what is."""
    match value:
        case Opaque(node=node):
            return not isinstance(node, ast.Lambda)
        case Item(owner=Group()) | Item(owner=Opaque()) | Free() | Group():
            return True
    return False


def _is_a_lambda(value: Value) -> bool:
    return isinstance(value, Opaque) and isinstance(value.node, ast.Lambda)


def _is_given_back(scope: ScopeNode, node: ast.expr) -> bool:
    """`return net`"""
    values = returned(scope)
    return any(ast.unparse(node) in map(ast.unparse, (v, *below(v))) for v in values)


def _switches_itself(node: ast.AST) -> bool:
    """`model = model.eval()`, which binds the name to what it has."""
    match node:
        case ast.Assign(
            targets=[target], value=ast.Call(func=ast.Attribute(value=owner, attr=word), args=[])
        ):
            return word in ("eval", "train") and ast.unparse(target) == ast.unparse(owner)
    return False


def _only_raises(function: Function) -> bool:
    """Left to a class that is derived from its own."""
    return isinstance(function.node.body[-1], ast.Raise)


def _suites(statement: ast.stmt, certain: bool) -> Iterator[tuple[list[ast.stmt], bool]]:
    for name in ("body", "orelse", "finalbody"):
        part = getattr(statement, name, None)
        if isinstance(part, list) and part and isinstance(part[0], ast.stmt):
            yield part, certain
    for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield handler.body, False


def _follows_the_mode(call: ast.Call) -> bool:
    """`dropout(x, p, self.training)`"""
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    return any(isinstance(a, ast.Attribute) and a.attr == "training" for a in given)
