"""A script -> its kernels, every way in which they are invoked, and the sizes it shows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path

from instrumentor.errors import UsageError
from instrumentor.kernels.constants import Constants
from instrumentor.kernels.describe import kernels_of
from instrumentor.kernels.model import Found, Invocation, Kernel, Site, shortened
from instrumentor.kernels.spelling import Spelling
from instrumentor.kernels.tensors import tensors_of
from instrumentor.kernels.values import Meanings, Plain
from instrumentor.locate.program import Program
from instrumentor.locate.syntax import FUNCTIONS, FunctionNode, Source, own_calls, parse

#: Ways to one call that are listed; a script with more is generated code.
PATH_LIMIT = 200


def find_kernels(script: Path, roots: Sequence[Path] = ()) -> Found:
    """Read a script and the project's modules that it imports.

    Args:
        script: absolute path.
        roots: folders from which the project's modules are imported.

    Raises:
        UsageError: the script cannot be read or is no Python.
    """
    try:
        entry = parse(script, script.read_bytes())
    except OSError as error:
        raise UsageError(f"{script}: cannot be read: {error.strerror}") from error
    except SyntaxError as error:
        raise UsageError(f"{script}:{error.lineno or 1}: no Python: {error.msg}") from error
    return find_in(Program.load(entry, roots))


def find_in(program: Program) -> Found:
    """The kernels of a program and their invocations."""
    sources = tuple(program.sources.values())
    constants = {source.path: Constants(source) for source in sources}
    kernels = tuple(
        kernel
        for source in sources
        for kernel in kernels_of(source, Spelling(source), constants[source.path])
    )
    meanings = Meanings(program, kernels)
    sites, callers = _sites(meanings, sources, kernels)
    warnings: list[str] = []
    invocations = _invocations(kernels, sites, callers, warnings)
    tensors = tuple(
        tensor for source in sources for tensor in tensors_of(source, constants[source.path])
    )
    return Found(
        program.entry.path,
        sources,
        kernels,
        invocations,
        sites,
        tensors,
        tuple(warnings),
        _composed(meanings, kernels),
    )


def _sites(
    meanings: Meanings, sources: Iterable[Source], kernels: Sequence[Kernel]
) -> tuple[tuple[Site, ...], dict[FunctionNode, list[Site]]]:
    """Calls of kernels, and calls of the project's functions by the function called."""
    leaves: list[Site] = []
    callers: dict[FunctionNode, list[Site]] = {}
    inside = {(k.source.path, line) for k in kernels for line in range(k.line, k.end_line + 1)}
    for source in sources:
        statements = sorted(source.places, key=lambda s: (s.lineno, s.col_offset))
        for statement in statements:
            if (source.path, statement.lineno) in inside:
                continue
            for call in _calls(statement):
                scope = source.places[statement].scope
                values = meanings.of(source, scope, call.func)
                if not values:
                    continue
                called = tuple(value for value in values if isinstance(value, Kernel))
                site = _site(source, statement, call, called)
                if called:
                    leaves.append(site)
                for value in values:
                    if isinstance(value, Plain):
                        callers.setdefault(value.node, []).append(site)
    return tuple(leaves), callers


def _composed(meanings: Meanings, kernels: Sequence[Kernel]) -> frozenset[Kernel]:
    """Kernels that the body of another one names: tt-lang builds that one from them."""
    found: set[Kernel] = set()
    for kernel in kernels:
        for function in kernel.source.functions:
            if not kernel.line <= function.lineno <= kernel.end_line:
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Call):
                    values = meanings.of(kernel.source, function, node.func)
                    found.update(v for v in values if isinstance(v, Kernel) and v is not kernel)
    return frozenset(found)


def _calls(statement: ast.stmt) -> list[ast.Call]:
    """The calls of a statement itself: not those of the statements in its blocks."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return []
    found: list[ast.Call] = []
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.withitem):
            found.extend(own_calls(child.context_expr))
        elif isinstance(child, ast.expr):
            found.extend(n for n in ast.walk(child) if isinstance(n, ast.Call))
    return sorted(found, key=lambda c: (c.lineno, c.col_offset))


def _site(source: Source, statement: ast.stmt, call: ast.Call, kernels: tuple[Kernel, ...]) -> Site:
    scope = source.places[statement].scope
    text = source.data.decode("utf-8", "replace").splitlines()
    loops = [
        (loop.lineno, shortened(text[loop.lineno - 1]).rstrip(":"))
        for loop in reversed(source.loops_around(statement))
        if loop.lineno <= len(text)
    ]
    loops += [
        (node.lineno, shortened(f"for ... in {ast.unparse(node.generators[0].iter)}"))
        for node in _comprehensions(statement, call)
    ]
    name = scope.name if isinstance(scope, FUNCTIONS) else ""
    return Site(source, call, statement, scope, kernels, name, tuple(loops))


def _comprehensions(
    statement: ast.stmt, call: ast.Call
) -> list[ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp]:
    """Comprehensions of the statement that repeat the call."""
    return [
        node
        for node in ast.walk(statement)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
        and any(inner is call for inner in ast.walk(node))
    ]


def _invocations(
    kernels: Sequence[Kernel],
    leaves: Sequence[Site],
    callers: dict[FunctionNode, list[Site]],
    warnings: list[str],
) -> tuple[Invocation, ...]:
    found: list[Invocation] = []
    for kernel in kernels:
        paths = [
            path
            for site in leaves
            if kernel in site.kernels
            for path in _paths(site, callers, frozenset())
        ]
        if len(paths) > PATH_LIMIT:
            warnings.append(
                f"{kernel.qualified}: only the first {PATH_LIMIT} of {len(paths)} ways to its "
                "calls are listed"
            )
        for number, path in enumerate(paths[:PATH_LIMIT], 1):
            apart = tuple(s for s in path[:-1] if _alternatives(s, callers) > 1)
            found.append(Invocation(kernel, number, path, (*apart, path[-1])))
    return tuple(found)


def _paths(
    site: Site, callers: dict[FunctionNode, list[Site]], seen: frozenset[FunctionNode]
) -> list[tuple[Site, ...]]:
    """The chains of calls that lead to a call, outermost first."""
    scope = site.scope
    if not isinstance(scope, FUNCTIONS) or scope in seen:
        return [(site,)]
    outer = callers.get(scope, [])
    if not outer:
        return [(site,)]
    found = []
    for caller in outer:
        found += [(*path, site) for path in _paths(caller, callers, seen | {scope})]
        if len(found) > PATH_LIMIT:
            break
    return found


def _alternatives(site: Site, callers: dict[FunctionNode, list[Site]]) -> int:
    """In how many places the function that this call runs is called."""
    return max((len(sites) for sites in callers.values() if site in sites), default=0)
