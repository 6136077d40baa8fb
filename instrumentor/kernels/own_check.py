"""Whether a script itself looks at what its kernel computed.

A check that fails ends the script: an assertion, a library's (``torch.testing.assert_close``), an
exit or an error with a reason. It says that a result is right only where it stands behind the call,
where nothing catches it, and where it reads values that come from what the kernel wrote.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping

from instrumentor.kernels.model import Found, Invocation
from instrumentor.read.syntax import dotted

#: What a tensor is like, and not what it holds.
_SHAPES = frozenset(
    {"shape", "dtype", "ndim", "size", "numel", "dim", "device", "layout", "memory_config"}
)
_CATCHING = frozenset({"", "AssertionError", "Exception", "BaseException"})


def own_check(
    found: Found, call: Invocation | None = None, outputs: Collection[str] | None = None
) -> int:
    """The first line at which the script itself checks a result, outside of kernels; 0 for none.

    Args:
        call: of a call in the script only what stands behind it is a check of its result.
        outputs: variables that hold what the kernel writes; None where they are not known.
    """
    script = next(source for source in found.sources if source.path == found.script)
    behind = call.leaf.line if call is not None and call.leaf.source is script else 0
    kernels = [(k.line, k.end_line) for k in found.kernels if k.source is script]

    def counts(line: int) -> bool:
        return line > behind and not any(a <= line <= b for a, b in kernels)

    parents = {
        child: node for node in ast.walk(script.tree) for child in ast.iter_child_nodes(node)
    }
    derived = None if outputs is None else _derived(script.tree, outputs, kernels)
    lines = [
        node.lineno
        for node in ast.walk(script.tree)
        if isinstance(node, (ast.Assert, ast.Raise, ast.Call))
        and counts(node.lineno)
        and _ends(node)
        and not _caught(node, parents)
        and (read := set(_read(node, parents)))
        and (derived is None or not derived.isdisjoint(read))
    ]
    return min(lines, default=0)


def _ends(node: ast.Assert | ast.Raise | ast.Call) -> bool:
    """Whether a statement or a call ends the script with a reason where a result is wrong."""
    if isinstance(node, ast.Assert):
        return True
    call = node.exc if isinstance(node, ast.Raise) else node
    if not isinstance(call, ast.Call):
        return False
    word = dotted(call.func).rpartition(".")[2]
    if word in ("exit", "SystemExit"):
        # What exit(main()) ends with is no verdict that can be seen.
        reasons = [each for each in call.args[:1] if not isinstance(each, ast.Call)]
        return any(not isinstance(each, ast.Constant) or each.value for each in reasons)
    return word.startswith("assert") or word == "AssertionError"


def _caught(
    node: ast.AST, parents: Mapping[ast.AST, ast.AST], seen: frozenset[str] = frozenset()
) -> bool:
    """Whether a handler goes on as if nothing had been found: around it, or around a call of the
    function that it stands in."""
    child = node
    while (parent := parents.get(child)) is not None:
        if isinstance(child, ast.FunctionDef):
            calls = [] if child.name in seen else _calls(parents, child.name)
            return any(_caught(call, parents, seen | {child.name}) for call in calls)
        if isinstance(parent, ast.Try) and child in parent.body:
            handlers = [h for h in parent.handlers if _CATCHING.intersection(_caught_names(h))]
            if any(not _goes_on_up(handler) for handler in handlers):
                return True
        if isinstance(parent, ast.With) and any(map(_suppresses, parent.items)):
            return True
        child = parent
    return False


def _calls(nodes: Iterable[ast.AST], name: str) -> list[ast.Call]:
    found = [node for node in nodes if isinstance(node, ast.Call)]
    return [call for call in found if isinstance(call.func, ast.Name) and call.func.id == name]


def _suppresses(item: ast.withitem) -> bool:
    call = item.context_expr
    return isinstance(call, ast.Call) and dotted(call.func).rpartition(".")[2] == "suppress"


def _caught_names(handler: ast.ExceptHandler) -> list[str]:
    kind = handler.type
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind] if kind is not None else []
    return [dotted(each).rpartition(".")[2] for each in kinds] or [""]


def _goes_on_up(handler: ast.ExceptHandler) -> bool:
    return any(
        isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _ends(node))
        for node in ast.walk(handler)
    )


def _read(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> Iterator[str]:
    """The variables whose values decide over a check."""
    yield from _values(node.test if isinstance(node, ast.Assert) else node)
    child = node
    while (parent := parents.get(child)) is not None:
        if isinstance(parent, ast.If) and not isinstance(node, ast.Assert):
            yield from _values(parent.test)
        child = parent


def _values(node: ast.AST) -> Iterator[str]:
    """The variables whose values, and not only shapes, an expression reads."""
    if isinstance(node, ast.Attribute) and node.attr in _SHAPES:
        return
    if isinstance(node, ast.Name):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _values(child)


def _derived(
    tree: ast.Module, outputs: Collection[str], kernels: Collection[tuple[int, int]]
) -> set[str]:
    """The outputs, and all variables and functions that get their values from them."""
    flows = list(_flows(tree, kernels))
    found, before = set(outputs), -1
    while len(found) != before:
        before = len(found)
        for targets, sources in flows:
            if not found.isdisjoint(sources):
                found |= targets
    return found


def _flows(
    tree: ast.Module, kernels: Collection[tuple[int, int]]
) -> Iterator[tuple[set[str], set[str]]]:
    """(variables that get, variables that give) of each statement outside of kernels."""
    nodes = [
        node
        for node in ast.walk(tree)
        if not any(a <= getattr(node, "lineno", 0) <= b for a, b in kernels)
    ]
    functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in nodes
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                yield {name for target in targets for name in _values(target)}, set(_values(value))
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
                | ast.For(target=target, iter=value)
                | ast.comprehension(target=target, iter=value)
                | ast.withitem(context_expr=value, optional_vars=ast.expr() as target)
            ):
                yield set(_values(target)), set(_values(value))
            case ast.Call(func=ast.Name(id=name)) if name in functions:
                yield from _bound(node, functions[name])
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name not in imported:
                # rows.append(y): what a method is given may be kept.
                given = [*node.args, *(each.value for each in node.keywords)]
                yield {name}, {read for each in given for read in _values(each)}
    for name, function in functions.items():
        returned = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
        yield {name}, {read for node in returned for read in _values(node)}


def _bound(call: ast.Call, function: ast.FunctionDef) -> Iterator[tuple[set[str], set[str]]]:
    """What the parameters of a function of the script's get."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    for name, value in zip(names, call.args, strict=False):
        yield {name}, set(_values(value))
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield {keyword.arg}, set(_values(keyword.value))
