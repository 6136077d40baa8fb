"""Parameters that a call fixes to constants, and the tests that they decide."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import takewhile
from typing import Any

from msgspec import Struct

from instrumentor.read import handed_on
from instrumentor.read.bindings import Bound
from instrumentor.read.callers import is_called_as_written
from instrumentor.read.control_flow import END, Flow
from instrumentor.read.names import external_name
from instrumentor.read.names_used import binds
from instrumentor.read.program import Class, Function, Program
from instrumentor.read.signatures import default_of
from instrumentor.read.syntax import (
    FUNCTIONS,
    FunctionNode,
    ScopeNode,
    Source,
    arguments,
    below,
    callee,
    contains,
    dotted,
    last,
    own_calls,
    own_nodes,
    parameters,
)
from instrumentor.read.values import Object

#: Values by name; by dotted name for attributes.
_WRAPPERS = frozenset(n for n in handed_on.RETURNS_ARGUMENT if n.startswith("torch"))
Constants = Mapping[str, object]
#: What a name or an attribute is where it stands, or UNKNOWN.
Lookup = Callable[[ast.expr], object]
#: The same, to be looked up by: names, types, values.
Key = tuple[tuple[str, type, object], ...]
#: So many ways of calling a function are told apart.
_WAYS = 12
#: Largest number that is computed; it also bounds the work of multiplying.
_LARGEST = 1 << 48
_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
#: Of an expression that comes to no known value.
UNKNOWN = object()


def is_ruled_out(program: Program, scope: ScopeNode, statement: ast.stmt) -> bool:
    """Whether what all callers of a function pass, or leave to its default, leaves it out."""
    if not isinstance(scope, FUNCTIONS):
        return False
    source = program.source_of_scope[scope]
    tested = any(isinstance(p, (ast.If, ast.Match)) for p in source.parents(statement))
    known = of_all_callers(program, Function(source, scope)) if tested else {}
    # who is handed a function may call it with anything
    return leaves_out(source, statement, known) and scope not in program.handed


def passed_over(
    program: Program,
    scope: ScopeNode,
    call: ast.Call,
    functions: Sequence[Function],
    statement: ast.stmt,
    known: Constants | None = None,
) -> bool:
    """Whether what a call writes out (`step(batch, phase=Phase.VAL)`) leaves a statement out.

    Args:
        functions: those on the way to the statement: the called one, what it calls, and so on.
        known: what the calls ahead of this one have written out.
    """
    function, *inner = functions
    if not is_called_as_written(function):
        return False
    kept = captured(program, scope, call, function)
    if not (call.args or call.keywords or kept):
        return False
    source = program.source_of_scope[scope]
    written = {*kept, *(name for name, _ in program.given(source, scope, call, function))}
    found = fixed(program, scope, call, function, known or {})
    own = {n: v for n, v in found.items() if n in written or "." in n}
    if not own:
        return False
    passes_by = partial(_passes_by, function, own)
    if not inner:
        return passes_by(statement)
    calls = program.calls_between(function, inner[0])
    return bool(calls) and all(
        passes_by(at) or passed_over(program, function.node, each, inner, statement, own)
        for each, at in calls
    )


def _passes_by(function: Function, known: Constants, statement: ast.stmt) -> bool:
    """Whether with these constants no call comes to a statement: by a branch, or a `return`."""
    return statement in unreached(function, known)


def unreached(function: Function, known: Constants) -> frozenset[ast.stmt]:
    """Statements of a function that no call with these constants comes to."""
    return _unreached(function, key_of(known)) if known else frozenset()


def flow_with(function: Function, known: Constants) -> Flow:
    """The paths through a function with these constants."""
    return Flow(function.node.body, partial(decided, known=known), returned=END)


@lru_cache(maxsize=1024)
def _unreached(function: Function, key: Key) -> frozenset[ast.stmt]:
    known = {name: value for name, _, value in key}
    answer, flow = partial(decided, known=known), flow_with(function, known)
    tests = (n for n in own_nodes(function.node) if isinstance(n, (ast.If, ast.Match)))
    out = (s for test in tests for s in left_out(test, answer))
    inside = (n for s in out for n in (s, *own_nodes(s)) if isinstance(n, ast.stmt))
    return frozenset((*flow.unreached(), *inside))


def key_of(known: Constants) -> Key:
    """Constants as what a memory may be asked by: 1 is not True."""
    return tuple((name, type(known[name]), known[name]) for name in sorted(known))


def asked_of(
    program: Program, scope: ScopeNode, call: ast.Call, function: Function, known: Constants
) -> Constants:
    """What is constant at a call, as far as the function asks for it, or hands it on.

    Args:
        known: what is constant in the scope of the call.
    """
    asked = _asked(function.node)
    if not asked or not is_called_as_written(function):
        return {}
    found = fixed(program, scope, call, function, known)
    return {name: value for name, value in found.items() if name.partition(".")[0] in asked}


@lru_cache(maxsize=1024)
def _asked(node: FunctionNode) -> frozenset[str]:
    """Names of which a test of a function asks, or that a call in it is given."""
    found: set[str] = set()
    for part in own_nodes(node):
        match part:
            case ast.If(test=asked) | ast.While(test=asked) | ast.Match(subject=asked):
                found.update(n.id for n in below(asked) if isinstance(n, ast.Name))
            case ast.Call():
                given = arguments(part)
                found.update(n.id for n in given if isinstance(n, ast.Name))
    return frozenset(found)


class Running(Struct):
    """Functions that statements run, each with those of its statements that no call comes to."""

    functions: dict[ScopeNode, frozenset[ast.stmt]] = {}

    def calls(self, program: Program) -> Iterator[tuple[Source, ScopeNode, ast.Call]]:
        """The calls in these functions that one of theirs comes to."""
        for node, out in self.functions.items():
            source = program.source_of_scope[node]
            for call in own_calls(node):
                if source.statement_of(call) not in out:
                    yield source, node, call


def run_by(program: Program, scope: ScopeNode, body: Sequence[ast.stmt]) -> Running:
    """What statements of a scope run, themselves or through others, by what their calls write out.

    As `Program.called_from`, in the same order, without what constants leave out.
    """
    inside = {n for top in body for n in (top, *own_nodes(top))}
    none: Constants = {}
    stack = [(scope, call, none) for call, s in program.calls.get(scope, ()) if s in inside]
    found: dict[ScopeNode, frozenset[ast.stmt]] = {}
    seen: dict[FunctionNode, set[Key]] = {}
    while stack:
        where, call, known = stack.pop()
        source = program.source_of_scope[where]
        handed = [a for a in arguments(call) if isinstance(a, (ast.Name, ast.Attribute))]
        for each in (call.func, *handed):
            for function in program.run_by(source, where, each):
                node, ways = function.node, seen.setdefault(function.node, set())
                one = each is call.func and len(ways) < _WAYS
                given = asked_of(program, where, call, function, known) if one else {}
                if key_of(given) in ways:
                    continue
                ways.add(key_of(given))
                out = unreached(function, given)
                found[node] = found.get(node, out) & out
                calls = program.calls.get(node, ())
                stack += [(node, inner, given) for inner, at in calls if at not in out]
    return Running(found)


def leaves_out(source: Source, statement: ast.stmt, known: Constants) -> bool:
    """Whether these constants decide an `if` around a statement against it."""
    return decided_against(source, statement, lambda test: decided(test, known))


def decided_against(
    source: Source, statement: ast.stmt, answer: Callable[[ast.expr], bool | None]
) -> bool:
    """Whether the answers to the tests around a statement leave it out."""
    return any(
        contains(s, statement) for test in source.parents(statement) for s in left_out(test, answer)
    )


def left_out(test: ast.AST, answer: Callable[[ast.expr], bool | None]) -> Iterator[ast.stmt]:
    """The statements of an `if` or a `match` that the answers leave out."""
    if isinstance(test, ast.If):
        yield from {True: test.orelse, False: test.body, None: []}[answer(test.test)]
    elif isinstance(test, ast.Match):
        found = False
        for case in test.cases:
            said = _matches(test.subject, case.pattern, answer)
            if found or said is False:
                yield from case.body
            found |= said is True and case.guard is None


def _matches(
    subject: ast.expr, pattern: ast.pattern, answer: Callable[[ast.expr], bool | None]
) -> bool | None:
    """Whether a subject matches a pattern of written-out values; None of any other."""
    each = pattern.patterns if isinstance(pattern, ast.MatchOr) else [pattern]
    values = [p.value for p in each if isinstance(p, ast.MatchValue)]
    if len(values) < len(each):
        return None
    return answer(ast.Compare(subject, [ast.In()], [ast.Tuple(values, ast.Load())]))


def passes_over(test: ast.AST, node: ast.AST, known: Constants) -> bool:
    """Whether constants decide an `and`, an `or` or an `x if y else z` before a part of it."""
    if isinstance(test, ast.BoolOp):
        ahead = takewhile(lambda value: not contains(value, node), test.values)
        settles = isinstance(test.op, ast.Or)
        return contains(test, node) and any(decided(value, known) is settles for value in ahead)
    if isinstance(test, ast.IfExp):
        answer = decided(test.test, known)
        return answer is not None and contains(test.orelse if answer else test.body, node)
    return False


def of_all_callers(
    program: Program,
    function: Function,
    runs: Callable[[ScopeNode, ast.Call], bool] = lambda *_: True,
) -> Constants:
    """Parameters with the one constant that they have in all calls of a function that run."""
    if not is_called_as_written(function):
        return {}
    callers = program.callers.get(function.node, ())
    calls = [(scope, call) for scope, call, _ in callers if runs(scope, call)]
    # a method of an object whose type is not known may be this one
    calls += [
        (scope, call)
        for source, scope, call in program.calls_named(function.name)
        if calls and not program.resolve(source, scope, call)
    ]
    return shared([fixed(program, scope, call, function, {}) for scope, call in calls])


def shared(each: list[dict[str, object]]) -> Constants:
    """What is the same constant in all of several calls."""
    return {
        name: value
        for name, value in (each[0] if each else {}).items()
        if all(name in other and is_same(other[name], value) for other in each)
    }


def fixed(
    program: Program, scope: ScopeNode, call: ast.Call, function: Function, known: Constants
) -> dict[str, object]:
    """Parameters whose value is a constant at this call, by argument or by default.

    Nothing is known when the function is called by another name, a partial may have set some,
    unless what is called is an object, whose class says what that runs, or made by a factory.
    """
    node = function.node
    factory = _factory(program, scope, call, function)
    named = callee(call) == function.name or factory is not None
    if not named and not _is_of_an_object(program, scope, call):
        return {}
    found = captured(program, scope, call, function) if factory is not None else {}
    found |= {name: came_to(default_of(node, name), {}) for name in parameters(node)}
    source = program.source_of_scope[scope]
    for name, value in program.given(source, scope, call, function):
        members = _members(program, source, scope, value)
        found |= members | {name: came_to(value, {**known, **members})}
    rebound = _rebound(node)
    return {n: v for n, v in found.items() if v is not UNKNOWN and n not in rebound}


def captured(
    program: Program, scope: ScopeNode, call: ast.Call, function: Function
) -> dict[str, object]:
    """Constants of the factory by which a called function was made, as far as it may use them.

    `step = make_step(model, train=True)`: whatever `step` is given, it trains.
    """
    made = _factory(program, scope, call, function)
    if made is None:
        return {}
    where, factory, making = made
    found = fixed(program, where, making, factory, {})
    return {name: value for name, value in found.items() if name not in binds(function.node)}


def _factory(
    program: Program, scope: ScopeNode, call: ast.Call, function: Function
) -> tuple[ScopeNode, Function, ast.Call] | None:
    """The function in which a called one is defined, and the one call that has made it."""
    around = function.source.scope_of(function.node)
    if not isinstance(around, FUNCTIONS) or not isinstance(call.func, ast.Name | ast.Attribute):
        return None
    bound = _bound_once(program, program.source_of_scope[scope], scope, call.func)
    if bound is None:
        return None
    where, making = bound
    if not isinstance(making, ast.Call):
        return None
    factory = Function(function.source, around)
    made = program.resolve(program.source_of_scope[where], where, making)
    return (where, factory, making) if made == [factory] else None


def _bound_once(
    program: Program, source: Source, scope: ScopeNode, node: ast.expr
) -> tuple[ScopeNode, ast.expr] | None:
    """The one expression that a name, or an attribute of `self`, is bound to, and where."""
    if isinstance(node, ast.Name):
        where = program.binder(source, scope, node.id)
        bindings = program.bound(source, where, node.id) if where is not None else []
        if where is not None and len(bindings) == 1 and isinstance(bindings[0], Bound):
            return None if bindings[0].path else (where, bindings[0].value)
    elif isinstance(node, ast.Attribute) and program.class_of_self(source, scope, node.value):
        puts = [*program.puts_of(node.attr)]
        if len(puts) == 1 and not puts[0][1].bound.path:
            return puts[0][1].scope, puts[0][1].bound.value
    return None


def _is_of_an_object(program: Program, scope: ScopeNode, call: ast.Call) -> bool:
    """`step(x)` where `step` is made of a class with a `__call__` or a `forward`.

    Also in a wrapper of torch, which hands on what it is given.
    """
    meant = program.of(program.source_of_scope[scope], scope, call.func)
    return bool(meant) and all(
        isinstance(v, Object)
        and (isinstance(v.made_by, Class) or external_name(v.made_by) in _WRAPPERS)
        for v in meant
    )


@lru_cache(maxsize=256)
def _rebound(node: FunctionNode) -> frozenset[str]:
    """Names that a function gives a value of its own, by a function in it too."""
    inner = (n.names for n in below(node) if isinstance(n, ast.Nonlocal))
    return frozenset(binds(node).union(*inner))


def _members(
    program: Program, source: Source, scope: ScopeNode, node: ast.expr
) -> dict[str, object]:
    """Of `Phase.TRAIN` all members of that enumeration, each as itself."""
    if not isinstance(node, ast.Attribute) or not dotted(node.value):
        return {}
    of = [v for v in program.of(source, scope, node.value) if isinstance(v, Class)]
    return {
        f"{dotted(node.value)}.{name}": f"{dotted(node.value)}.{name}"
        for cls in of
        if any(last(base).endswith(("Enum", "Flag")) for base in program.external_bases(cls))
        for statement in cls.node.body
        for name in binds(statement)
    }


def decided(test: ast.expr, known: Constants | Lookup) -> bool | None:
    """What a test comes to with these constants; None when they do not decide it."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            answer = decided(operand, known)
            return None if answer is None else not answer
        case ast.BoolOp(op=op, values=values):
            parts, settles = {decided(value, known) for value in values}, isinstance(op, ast.Or)
            if settles in parts:
                return settles
            return None if None in parts else not settles
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            sides = came_to(left, known), came_to(right, known)
            compare = _COMPARED.get(type(op))
            unknown = any(side is UNKNOWN for side in sides)
            return None if compare is None or unknown else compare(*sides)
        case ast.Compare():
            return None
    value = came_to(test, known)
    return None if value is UNKNOWN else bool(value)


def written_out(node: ast.AST | None) -> ast.Constant | None:
    """The constant that an expression writes out: also `-1`, which is an operation on 1."""
    match node:
        case ast.Constant():
            return node
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return ast.Constant(-number)
    return None


def came_to(node: ast.expr | None, known: Constants | Lookup) -> object:
    """What an expression comes to with these constants; UNKNOWN when they do not decide it."""
    constant = written_out(node)
    if constant is not None:
        return constant.value
    found: object = UNKNOWN
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            parts = [came_to(element, known) for element in elements]
            return UNKNOWN if any(part is UNKNOWN for part in parts) else tuple(parts)
        case ast.Call(func=ast.Name(id="len"), args=[held]):
            found = came_to(held, known)
            return len(found) if isinstance(found, (str, tuple)) else UNKNOWN
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            said = decided(node, known)
            return UNKNOWN if said is None else said
        case ast.UnaryOp(op=ast.USub(), operand=one):
            return _computed(ast.Sub(), 0, came_to(one, known))
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(op, came_to(left, known), came_to(right, known))
        case ast.IfExp(test=test, body=one, orelse=other):
            said = decided(test, known)
            return UNKNOWN if said is None else came_to(one if said else other, known)
        case ast.BoolOp(op=op, values=values):
            for value in values:
                found = came_to(value, known)
                if found is UNKNOWN or bool(found) is isinstance(op, ast.Or):
                    break
        case ast.expr():
            found = known(node) if callable(known) else known.get(dotted(node), UNKNOWN)
    return found


def _computed(kind: ast.operator, left: object, right: object) -> object:
    """What two whole numbers come to; UNKNOWN of all else."""
    operation = _OPERATIONS.get(type(kind))
    if operation is None or type(left) is not int or type(right) is not int:
        return UNKNOWN
    if not right and operation in (operator.floordiv, operator.mod):
        return UNKNOWN
    value = operation(left, right)
    return value if abs(value) <= _LARGEST else UNKNOWN


def is_same(left: object, right: object) -> bool:
    """As `is` has it for constants: 1 is not True."""
    return type(left) is type(right) and left == right


def _among(left: object, right: object) -> bool | None:
    """`left in right` for a written-out list or a text; None for what may be anything."""
    if isinstance(right, tuple):
        return left in right
    return left in right if isinstance(left, str) and isinstance(right, str) else None


def _not_among(left: object, right: object) -> bool | None:
    found = _among(left, right)
    return None if found is None else not found


def _ordered(
    compare: Callable[[Any, Any], bool],
) -> Callable[[object, object], bool | None]:
    """A comparison of numbers, or of texts; None for what has no order."""

    def found(left: object, right: object) -> bool | None:
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        texts = isinstance(left, str) and isinstance(right, str)
        return compare(left, right) if numbers or texts else None

    return found


_COMPARED: dict[type[ast.cmpop], Callable[[object, object], bool | None]] = {
    ast.In: _among,
    ast.NotIn: _not_among,
    ast.Is: is_same,
    ast.IsNot: lambda left, right: not is_same(left, right),
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: _ordered(operator.lt),
    ast.LtE: _ordered(operator.le),
    ast.Gt: _ordered(operator.gt),
    ast.GtE: _ordered(operator.ge),
}
