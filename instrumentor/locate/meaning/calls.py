"""What the program's calls and functions do: step an optimizer, run a backward, a forward.

Of a function of the program its body is read, of one of an installed package its library; how
something is spelled is asked only when neither tells.
"""

from __future__ import annotations

import ast
from functools import cached_property
from itertools import chain

from msgspec import Struct

from instrumentor.locate.meaning import libraries, methods, spelling
from instrumentor.locate.meaning.kinds import Kinds
from instrumentor.locate.meaning.roles import Evidence, Kind, Role
from instrumentor.locate.meaning.trained import Trained
from instrumentor.locate.meaning.without_parameters import WithoutParameters
from instrumentor.read.bindings import Bound
from instrumentor.read.constants import asked_of, is_ruled_out, passed_over, unreached
from instrumentor.read.fixpoint import Answers
from instrumentor.read.names import external_name
from instrumentor.read.program import Function, Program
from instrumentor.read.script_options import ScriptOptions
from instrumentor.read.syntax import (
    LOOPS,
    ScopeNode,
    Source,
    below,
    called_on,
    callee,
    contains,
    dotted,
    last,
    own_calls,
    own_nodes,
    suites,
)
from instrumentor.read.values import Free, Member, Value, Values

#: `first_step` and `second_step` make one update of two forward + backward.
_STEPS = ("step", "first_step", "second_step")
_STEPPED = (Kind.OPTIMIZER, Kind.ENGINE)


class Knowledge(Struct, eq=False, dict=True):
    """Facts about a program, computed on demand and kept.

    options: what the script is called with; None where that is not asked.
    """

    program: Program
    options: ScriptOptions | None = None

    @cached_property
    def everywhere(self) -> Knowledge:
        """The same of all modules of the program: what is called may stand in other files."""
        whole = self.program.whole
        if whole is self.program:
            return self
        arguments = self.options.arguments if self.options is not None else ()
        return Knowledge(whole, ScriptOptions(whole, arguments))

    @cached_property
    def _answers(self) -> Answers:
        return Answers()

    @cached_property
    def kinds(self) -> Kinds:
        return Kinds(self.program)

    @cached_property
    def trained(self) -> Trained:
        return Trained(self.kinds)

    @cached_property
    def without_parameters(self) -> WithoutParameters:
        return WithoutParameters(self.trained)

    def values(self, source: Source, scope: ScopeNode, node: ast.expr) -> Values:
        return self.program.of(source, scope, node)

    def may_run(self, source: Source, statement: ast.stmt) -> bool:
        """Whether the options let a run come to a statement."""
        return self.options is None or not self.options.rule_out(source, statement)

    def may_be_made(self, value: Value | None) -> bool:
        """Whether they let it come to where an object is made."""
        return self.options is None or self.options.makes(value)

    def role(self, source: Source, scope: ScopeNode, call: ast.Call) -> Role | None:
        """What a call of an installed package's function does, whatever it is called here."""
        names = map(external_name, self.values(source, scope, call.func))
        return next(filter(None, map(libraries.role_of, names)), None)

    def is_save(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        """Saving weights or state; of a function that is not known by its name alone."""
        role = self.role(source, scope, call)
        if role:
            return role is Role.SAVE
        if isinstance(call.func, ast.Attribute) and call.func.attr in methods.ACCELERATOR_SAVES:
            if self.kinds.is_a(source, scope, call.func.value, Kind.ACCELERATOR):
                return True
        return spelling.SAVE.fits(callee(call))

    # -- models ----------------------------------------------------------------------------

    def is_model(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Whether an expression stands for a model that may be trained."""
        return self.kinds.is_a(source, scope, node, Kind.MODEL, Kind.ENGINE)

    def is_model_named(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Whether it goes by names alone: `self.model`."""
        return _is_chain(node) and self.is_model(source, scope, node)

    # -- optimizer steps ---------------------------------------------------------------------

    def is_step(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        return self.optimizer_of(source, scope, call) is not None

    def optimizer_of(self, source: Source, scope: ScopeNode, call: ast.Call) -> ast.expr | None:
        """The expression of the optimizer that a call steps itself, or None."""
        meant = self.values(source, scope, call.func)
        found = (self._step_of(source, scope, call, value) for value in meant)
        optimizer = next((node for node in found if node is not None), None)
        runs = optimizer is not None and self._may_run(source, scope, call)
        return optimizer if runs else None

    def _may_run(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        """Whether some caller of its function lets a call run."""
        statement = source.statement_of(call)
        return statement is None or not is_ruled_out(self.program, scope, statement)

    def _step_of(
        self, source: Source, scope: ScopeNode, call: ast.Call, function: Value
    ) -> ast.expr | None:
        owner = called_on(call)
        if isinstance(function, Member) and function.name in _STEPS:
            return self._step_of_object(source, scope, call, function)
        if isinstance(function, Function) and function.owner and function.name in _STEPS:
            kind = self.kinds.of_value(function.owner)
            return owner if kind is not None and kind[0] in _STEPPED else None
        if isinstance(function, Function):
            named = spelling.STEP.fits(function.name) and not self.stepped(function)
            return call.func if named else None
        if libraries.role_of(external_name(function)) is Role.STEP:
            return call.args[0] if call.args else owner
        return self._by_word(source, scope, call)

    def _step_of_object(
        self, source: Source, scope: ScopeNode, call: ast.Call, method: Member
    ) -> ast.expr | None:
        """What `.step()` of an object that is not to be read steps: itself, or what it is given."""
        owner = called_on(call)
        found = self.kinds.of_value(method.owner)
        if found is None and owner is not call.func:
            found = self.kinds.of(source, scope, owner)
        if found is None:
            return self._given_optimizer(source, scope, call)
        if found[0] is Kind.SCALER:
            return call.args[0] if call.args else owner
        # `optims.generator.step()`: of a name that says nothing else the whole is asked
        words = dotted(owner).split(".") if found[1] is Evidence.SPELLING else ()
        spelled = any(spelling.spelled_as(word) is Kind.OPTIMIZER for word in words)
        return owner if found[0] in _STEPPED or spelled else None

    def _given_optimizer(self, source: Source, scope: ScopeNode, call: ast.Call) -> ast.expr | None:
        return next(
            (a for a in call.args if self.kinds.is_a(source, scope, a, Kind.OPTIMIZER)), None
        )

    def _by_word(self, source: Source, scope: ScopeNode, call: ast.Call) -> ast.expr | None:
        """A function that steps what it is given, as far as its name tells."""
        word = callee(call)
        named = spelling.STEP.fits(word)
        other = spelling.BESIDE_STEP.fits(word)
        # `MultiStepLR(optimizer)` makes an object, as the capital says
        if not named and (other or "step" not in word.lower() or word[:1].isupper()):
            return None
        return self._given_optimizer(source, scope, call) or (call.func if named else None)

    def stepped(self, function: Function) -> tuple[str, ...]:
        """Optimizers that a function steps, itself or through what it calls."""
        return tuple(dict.fromkeys(name for name, _ in self._steps(function)))

    def _steps(self, function: Function) -> tuple[tuple[str, ast.stmt], ...]:
        """The optimizers that a function steps, each with a statement of its own that does."""

        def found() -> tuple[tuple[str, ast.stmt], ...]:
            calls = self.program.calls.get(function.node, ())
            return tuple(
                (name, statement)
                for call, statement in calls
                for name in self.stepped_by(function.source, function.node, call)
            )

        return self._answers.ask(("steps", function.node), found, ())

    def stepped_in(self, scope: ScopeNode, call: ast.Call, function: Function) -> tuple[str, ...]:
        """Those that one call of a function steps: what it writes out may leave some out."""
        steps = self._steps(function)
        left = (n for n, at in steps if not passed_over(self.program, scope, call, [function], at))
        return tuple(dict.fromkeys(left))

    def stepped_by(self, source: Source, scope: ScopeNode, call: ast.Call) -> tuple[str, ...]:
        """Optimizers that one call steps: `self.optimizer_step()` is what its method steps."""
        functions = self.program.resolve(source, scope, call)
        inner = (*chain.from_iterable(self.stepped_in(scope, call, f) for f in functions),)
        optimizer = self.optimizer_of(source, scope, call)
        if optimizer is None or (inner and optimizer is call.func):
            return tuple(dict.fromkeys(inner))
        return (self._shown(source, scope, optimizer),)

    def _shown(self, source: Source, scope: ScopeNode, optimizer: ast.expr) -> str:
        """How an optimizer is called: by what a loop walks over where a loop binds it."""
        if isinstance(optimizer, ast.Name):
            return dotted(_walked(self.program, source, optimizer)) or optimizer.id
        if isinstance(optimizer, ast.Attribute) and optimizer.attr != "step":
            return dotted(optimizer)
        name = dotted(optimizer)
        return ast.unparse(optimizer) if name.endswith("[]") else name or ast.unparse(optimizer)

    # -- syncs -------------------------------------------------------------------------------

    def _cuts(self, source: Source, scope: ScopeNode, call: ast.Call) -> str | None:
        """When a call cuts the XLA graph: 'True', a question to its function, or None for never."""
        values = self.values(source, scope, call.func)
        cutting = [libraries.role_of(external_name(v)) is Role.SYNC for v in values]
        if all(cutting):
            return "True"
        if not any(cutting) or not isinstance(call.func, ast.Name):
            return None
        return f'getattr({call.func.id}, "__module__", "").startswith("torch_xla")'

    def is_sync(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        """An explicit graph cut or device wait of the script's own, also behind a function."""
        if self.role(source, scope, call) in (Role.SYNC, Role.WAIT):
            return True
        functions = self.program.resolve(source, scope, call)
        if functions:
            return all(self._only_syncs(f) for f in functions)
        if not spelling.SYNC.fits(callee(call)):
            return False
        values = self.values(source, scope, call.func)
        return all(isinstance(v, (Member, Free)) for v in values) and not any(
            self.kinds.of_value(v.owner) for v in values if isinstance(v, Member)
        )

    def _only_syncs(self, function: Function) -> bool:
        """A function that syncs, and whose other calls do nothing to the step."""

        def only() -> bool:
            calls = self.program.calls.get(function.node, ())
            return (
                any(self.is_sync(function.source, function.node, call) for call, _ in calls)
                and not self.has_backward(function)
                and not self.stepped(function)
                and not any(isinstance(s, LOOPS) for s in own_nodes(function.node))
                and not self.evaluates(function)
            )

        return self._answers.ask(("syncs", function.node), only, False)

    def sync_of(self, source: Source, statement: ast.AST) -> ast.Call | None:
        """The sync when a statement is one, bare or guarded by `if`s that hold only syncs."""
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            scope = source.scope_of(statement)
            return statement.value if self.is_sync(source, scope, statement.value) else None
        if not isinstance(statement, ast.If):
            return None
        inner = [s for suite in suites(statement) for s in suite if not isinstance(s, ast.Pass)]
        calls = [self.sync_of(source, s) for s in inner]
        return next((c for c in calls), None) if all(calls) else None

    def sync_condition(self, source: Source, statement: ast.stmt) -> str | None:
        """When a statement certainly cuts the XLA graph: 'True', a guard's name, or None."""
        call = self.sync_of(source, statement)
        cuts = None if call is None else self._cuts(source, source.scope_of(statement), call)
        if cuts is None or isinstance(statement, ast.Expr):
            return cuts  # waiting for a device cuts no XLA graph
        if cuts == "True" and isinstance(statement, ast.If) and not statement.orelse:
            if _is_chain(statement.test):
                return f"bool({dotted(statement.test)})"
        return None

    # -- backward ----------------------------------------------------------------------------

    def is_backward(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        """`loss.backward()`, `accelerator.backward(loss)`, `torch.autograd.backward(losses)`.

        So is `torch.autograd.grad` where its function gives parameters their gradients.
        """
        found = self._means_backward(source, scope, call) or self.is_gradient(source, scope, call)
        return found and self._may_run(source, scope, call)

    def is_gradient(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        """`torch.autograd.grad` in a function that stores into `.grad`, for an optimizer."""
        word = callee(call)
        if word != "grad" and word not in self.program.other_words.get("grad", ()):
            return False
        return self.program.qualified(source, scope, call.func) == "torch.autograd.grad" and any(
            isinstance(n, ast.Attribute) and n.attr == "grad" and isinstance(n.ctx, ast.Store)
            for n in own_nodes(scope)
        )

    def _means_backward(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        word = callee(call)
        if word != "backward" and word not in self.program.other_words.get("backward", ()):
            return word == "manual_backward"
        if word != "backward" or isinstance(call.func, ast.Name):
            return any(
                external_name(v) == "torch.autograd.backward"
                or (word != "backward" and isinstance(v, Member) and v.name == "backward")
                for v in self.values(source, scope, call.func)
            )
        own = self.program.resolve(source, scope, call)
        if own and not all(map(is_stub, own)):
            return False  # torch's own is in it, or none is
        return not self._delegates(source, scope, call)

    def _delegates(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        """`super().backward(...)`, or `Other.backward(ctx, grad)` within an autograd.Function."""
        base = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(base, ast.Call) and dotted(base.func) == "super":
            return True
        around = self.program.enclosing_class(source, scope)
        bases = [] if around is None else self.program.external_bases(around)
        return any(name.endswith("autograd.Function") for name in bases)

    def loss_of(self, source: Source, scope: ScopeNode, call: ast.Call) -> ast.expr:
        """The expression that a backward differentiates."""
        if not isinstance(call.func, ast.Attribute):
            return call.args[0] if call.args else call.func
        base = call.func.value
        if not call.args or isinstance(base, (ast.Call, ast.BinOp)):
            return base
        given = (
            self.program.qualified(source, scope, call.func).startswith("torch.autograd")
            or self.kinds.is_a(source, scope, base, *_WRAPS_BACKWARD)
            or self.program.resolve(source, scope, call)
            or dotted(base) == "self"
        )
        return call.args[0] if given else base

    def has_backward(self, function: Function) -> bool:
        """Whether a function calls a backward, itself or through what it calls."""
        return bool(self._backwards(function))

    def _backwards(self, function: Function) -> tuple[ast.stmt, ...]:
        """The statements of a function that run a backward, themselves or by what they call."""

        def runs(call: ast.Call) -> bool:
            made = function.source, function.node, call
            return self.is_backward(*made) or any(
                not passed_over(self.program, function.node, call, [inner], at)
                for inner in self.program.resolve(*made)
                for at in self._backwards(inner)
            )

        def found() -> tuple[ast.stmt, ...]:
            calls = self.program.calls.get(function.node, ())
            return tuple(dict.fromkeys(at for call, at in calls if runs(call)))

        return self._answers.ask(("backward", function.node), found, ())

    def trains(self, scope: ScopeNode, call: ast.Call, function: Function) -> bool:
        """Whether one call of a function runs a backward or steps an optimizer.

        What it writes out, or leaves to a default, may leave both out: `run(loader, None)`.
        """
        out = unreached(function, asked_of(self.program, scope, call, function, {}))
        steps = (at for _, at in self._steps(function))
        return any(at not in out for at in chain(self._backwards(function), steps))

    # -- forward -----------------------------------------------------------------------------

    def is_no_grad(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """`torch.no_grad()`, `torch.inference_mode()`, `set_grad_enabled(False)`, called or not."""
        function = node.func if isinstance(node, ast.Call) else node
        for name in map(external_name, self.values(source, scope, function)):
            if libraries.role_of(name) is Role.NO_GRAD:
                return True
            if last(name) == "set_grad_enabled" and isinstance(node, ast.Call) and node.args:
                first = node.args[0]
                return isinstance(first, ast.Constant) and first.value is False
        return False

    def without_gradients(self, source: Source, statement: ast.AST) -> bool:
        """Whether a statement is a `with torch.no_grad():` block."""
        return isinstance(statement, (ast.With, ast.AsyncWith)) and any(
            self.is_no_grad(source, source.scope_of(statement), item.context_expr)
            for item in statement.items
        )

    def is_no_grad_function(self, function: Function) -> bool:
        """Whether it is decorated with `@torch.no_grad()` or the like."""
        source, node = function.source, function.node
        return any(self.is_no_grad(source, source.scope_of(node), d) for d in node.decorator_list)

    def is_gradless(self, function: Function) -> bool:
        """Whether whatever a function runs, it runs with gradients off."""
        running = [s for s in function.node.body if any(isinstance(n, ast.Call) for n in below(s))]
        off = bool(running) and all(self.without_gradients(function.source, s) for s in running)
        return off or self.is_no_grad_function(function)

    def evaluates(self, function: Function) -> bool:
        """Gradients off or `.eval()` somewhere in the function."""
        return (
            self.is_no_grad_function(function)
            or any(self.without_gradients(function.source, s) for s in own_nodes(function.node))
            or any(callee(c) == "eval" and not c.args for c in own_calls(function.node))
        )


_WRAPS_BACKWARD = (Kind.ACCELERATOR, Kind.ENGINE, Kind.OPTIMIZER, Kind.SCALER, Kind.MODEL)


def is_stub(function: Function) -> bool:
    """A function without a body of its own: `...`, `pass`, `raise NotImplementedError`."""
    return all(
        isinstance(s, (ast.Pass, ast.Raise))
        or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in function.node.body
    )


def _is_chain(node: ast.expr) -> bool:
    return dotted(node).replace(".", "_").isidentifier()


def _walked(program: Program, source: Source, name: ast.Name) -> ast.expr:
    """What the loop around a name walks over: `optimizers` of `enumerate(optimizers.values())`."""
    scope = source.scope_of(name)
    bound = program.bound(source, program.binder(source, scope, name.id) or scope, name.id)
    walked = [b.value for b in bound if isinstance(b, Bound) and None in b.path[:1]]
    around = [w for w in walked if (at := source.statement_of(w)) and contains(at, name)]
    node: ast.expr = around[-1] if around else name
    while isinstance(node, ast.Call):
        if node.args:
            node = node.args[-1 if callee(node) == "zip" else 0]
        elif isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            break
    return node
