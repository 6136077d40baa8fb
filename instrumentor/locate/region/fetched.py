"""A batch that the forward's own statement fetches: `loss = model(next(batches).cuda())`.

The clock begins between the two where the fetch is what the statement evaluates first: to make it
a statement of its own changes no order.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from instrumentor.locate.loop.loops import Candidate
from instrumentor.locate.meaning import spelling
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.host_values import host_read
from instrumentor.locate.meaning.roles import Role
from instrumentor.read.syntax import ScopeNode, Source, arguments, callee

#: What a `next` takes from where it takes no batch: `next(model.parameters()).device`.
_PARTS = ("parameters", "named_parameters", "buffers", "modules", "children", "iter")
#: Methods of a batch that only copy it.
_COPIES = ("to", "cuda", "long", "float", "half", "double", "int")
_PURE = (ast.Name, ast.Constant, ast.Attribute, ast.Starred)
#: Expressions whose parts are all evaluated, in the order of their fields.
_IN_ORDER = (*_PURE, ast.Call, ast.BinOp, ast.Tuple, ast.List, ast.Subscript, ast.keyword)


def is_fetch(knowledge: Knowledge, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
    """Whether a call takes the next batch: `next(batches)`, `memory.get_batch()`."""
    iterates = isinstance(call.func, ast.Attribute) and callee(call) == "next" and not call.args
    if spelling.FETCH.fits(callee(call)) or iterates:
        return True
    if knowledge.role(source, scope, call) is not Role.FETCH or not call.args:
        return False
    taken = call.args[0]
    parts = isinstance(taken, ast.Call) and callee(taken) in _PARTS
    return not parts and not isinstance(taken, ast.GeneratorExp)


def fetched(body: Candidate, begin: ast.stmt) -> ast.expr | None:
    """The part of a region's first statement that fetches its batch, copies of it included.

    None where there is none, or where something that may have an effect is evaluated ahead of it.
    """
    if not isinstance(begin, (ast.Assign, ast.AnnAssign, ast.Expr)) or begin.value is None:
        return None
    if host_read(begin, frozenset()) is not None:
        return None
    for node in _evaluated(begin.value):
        if isinstance(node, ast.Call) and is_fetch(body.knowledge, body.source, body.scope, node):
            return _with_copies(begin.value, node)
        if not isinstance(node, _PURE):
            return None
    return None


def without(statement: ast.stmt, part: ast.expr, name: str) -> str:
    """The text of a statement with a name in place of a part."""
    put = ast.Name(name, ast.Load())
    return ast.unparse(copy.deepcopy(statement, {id(part): put}))


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Expressions as they are evaluated; of one whose order hangs on values nothing but itself."""
    if isinstance(node, _IN_ORDER):
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.expr_context, ast.operator)):
                yield from _evaluated(child)
    if not isinstance(node, ast.keyword):
        yield node


def _with_copies(value: ast.expr, fetch: ast.expr) -> ast.expr:
    """The fetch with the methods around it that only copy what it gives."""
    for node in _evaluated(value):
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=word)) if inner is fetch:
                if word in _COPIES and all(isinstance(a, _PURE) for a in arguments(node)):
                    fetch = node
    return fetch
