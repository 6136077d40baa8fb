"""Which reads of a name see the value that a statement gives it.

They are met on the paths from there until the name is bound anew. Exceptions count: whatever a
`try` guards may go on in its handlers, and in its `finally`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import takewhile

from instrumentor.read.control_flow import END, Flow
from instrumentor.read.names_used import binds
from instrumentor.read.program import Program
from instrumentor.read.syntax import (
    ScopeNode,
    Source,
    bound_by,
    callee,
    contains,
    own_nodes,
    parameters,
)


def reads_of(
    program: Program,
    scope: ScopeNode,
    name: str,
    definitions: Collection[ast.stmt],
    removed: Collection[ast.stmt],
) -> set[ast.Name]:
    """Reads of `name` that may see what one of `definitions` binds to it.

    Args:
        scope: the function or module that the definitions stand in.
        definitions: statements of the scope, of which some bind the name.
        removed: statements that are taken out: what they read and bind does not count.
    """
    source = program.source_of_scope[scope]
    found: set[ast.Name] = set()
    reads: dict[ast.stmt, set[ast.Name]] = defaultdict(set)
    for node in variables(program, source, scope, name):
        statement = source.statement_of(node)
        # `del` needs the name bound as well, and so does `+=`
        grows = isinstance(statement, ast.AugAssign) and statement.target is node
        if statement is not None and (grows or not isinstance(node.ctx, ast.Store)):
            (found if _is_delayed(source, scope, statement, node) else reads[statement]).add(node)
    flow = _flow(scope)
    starting = {point: statement for statement, point in flow.begins.items()}
    binding = (d for d in definitions if name in binds(d))
    waiting = [after for d in binding for after in _leaving(flow, flow.after(d))]
    seen: set[int] = set()
    while waiting:
        point = waiting.pop()
        if point in seen:
            continue
        seen.add(point)
        statement = starting.get(point)
        if statement is None or statement in removed:
            waiting += _leaving(flow, point if statement is None else flow.after(statement))
            continue
        found |= reads[statement]
        waiting += _leaving(flow, point, bound=_binds(statement, name))
    return found


def variables(program: Program, source: Source, scope: ScopeNode, name: str) -> list[ast.Name]:
    """Where a scope's variable is named, in it and in the functions inside of it."""
    return [
        node
        for node in source.mentions.get(name, ())
        if isinstance(node, ast.Name)
        and (program.names.binder(source, program.scope_of(source, node), name) or source.tree)
        is scope
        and not any(name in parameters(f) and contains(f.body, node) for f in source.lambdas)
    ]


def _is_delayed(source: Source, scope: ScopeNode, statement: ast.stmt, node: ast.Name) -> bool:
    """In a closure, a lambda or the body of a class, which no path goes through."""
    inside = takewhile(lambda parent: parent is not scope, source.ancestors(statement))
    return (
        source.scope_of(statement) is not scope
        or any(contains(f, node) for f in source.lambdas)
        or any(isinstance(parent, ast.ClassDef) for parent in inside)
    )


def _flow(scope: ScopeNode) -> Flow:
    """The paths through a scope, made once; also those of exceptions that no handler takes."""
    kept: Flow | None = scope.__dict__.get("_paths")
    if kept is not None:
        return kept
    flow = scope.__dict__["_paths"] = Flow(scope.body, returned=END)
    for statement in flow.statements:
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            # `contextlib.suppress`: what stands behind the block may run without what is in it
            calls = [i.context_expr for i in statement.items]
            if not any(isinstance(c, ast.Call) and callee(c) == "suppress" for c in calls):
                continue
            then = flow.after(statement)
        elif final := getattr(statement, "finalbody", ()):
            then = flow.before(final[0])
        else:
            continue
        for inner in own_nodes(statement):
            if isinstance(inner, ast.stmt) and inner in flow.begins:
                for point in {flow.before(inner), flow.after(inner)}:
                    flow.failing[point].append(then)
    return flow


def _leaving(flow: Flow, point: int, *, bound: bool = False) -> list[int]:
    """Where paths lead from a point on which the name keeps its value.

    Args:
        bound: the statement that begins there binds it: a loop does not when it has no turn.
    """
    following: Sequence[int] = flow.following[point]
    return [*(following[1:] if bound else following), *flow.failing.get(point, ())]


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether a statement certainly binds a name anew: not in a branch of an expression."""
    match statement:
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return any(name in bound_by(alias) for alias in aliases)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return statement.name == name
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return any(name in binds(target) for target in targets)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return any(name in binds(i.optional_vars) for i in items if i.optional_vars)
        case ast.AnnAssign(value=None):
            return False
        case ast.AnnAssign() | ast.AugAssign() | ast.For() | ast.AsyncFor():
            return name in binds(statement.target)
    return False
