"""A script -> its kernels, every way in which they are invoked, and the sizes it shows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from instrumentor.kernels.describe import MODULES, kernels_of
from instrumentor.kernels.model import CallSite, Found, Invocation, Kernel, shortened
from instrumentor.kernels.sizes import Sizes
from instrumentor.kernels.tensors import tensors_of
from instrumentor.locate import parse_source
from instrumentor.read.program import Program
from instrumentor.read.syntax import FUNCTIONS, FunctionNode, ScopeNode, Source, contains
from instrumentor.read.values import Function, Object
from instrumentor_analysis.shared.files import read_bytes

#: Ways to one call that are listed; a script with more is generated code.
PATH_LIMIT = 200


def find_kernels(script: Path, roots: Sequence[Path] = ()) -> Found:
    """Read a script and the project's modules that it imports.

    Args:
        script: absolute path.
        roots: folders from which the project's modules are imported.

    Raises:
        Declined: the script is no Python.
    """
    program = Program.load(parse_source(script, read_bytes(script)), roots)
    for path in [p for p in program.sources if p != program.entry.path and _is_tt_lang(p, roots)]:
        del program.sources[path]
    return find_in(program)


def _is_tt_lang(path: Path, roots: Sequence[Path]) -> bool:
    """A module of tt-lang's own, in a checkout of it: it is called, not looked into.

    A folder of kernels may well be called ttlang; tt-lang's is a package.
    """
    inside = [path.relative_to(root).with_suffix("") for root in roots if path.is_relative_to(root)]
    if any(module.name in MODULES for module in inside):
        return True
    packages = [folder for folder in path.parents if folder.name in MODULES]
    return bool(inside) and any((folder / "__init__.py").is_file() for folder in packages)


def find_in(program: Program) -> Found:
    """The kernels of a program and their invocations."""
    sources = tuple(program.sources.values())
    sizes = [Sizes(program.names, source) for source in sources]
    kernels = tuple(kernel for each in sizes for kernel in kernels_of(each))
    meanings = _Meanings(program, kernels)
    sites, callers = _sites(meanings, sources)
    warnings: list[str] = []
    invocations = [i for kernel in kernels for i in _invocations(kernel, sites, callers, warnings)]
    return Found(
        program.entry.path,
        sources,
        kernels,
        tuple(invocations),
        tuple(tensor for each in sizes for tensor in tensors_of(each)),
        tuple(warnings),
        _composed(meanings),
    )


class _Meanings:
    """Which kernels and which other functions of the program an expression may be."""

    def __init__(self, program: Program, kernels: Sequence[Kernel]) -> None:
        self.names = program.names
        self.kernels = kernels
        self.kernel_of: dict[ast.AST, Kernel] = {}
        for kernel in kernels:
            made = kernel.statement
            self.kernel_of[made.value if isinstance(made, ast.Assign) else made] = kernel

    def of(
        self, source: Source, scope: ScopeNode, node: ast.expr
    ) -> tuple[tuple[Kernel, ...], tuple[FunctionNode, ...]]:
        kernels: list[Kernel] = []
        functions: list[FunctionNode] = []
        for value in self.names.of(source, scope, node):
            made = value.node if isinstance(value, (Function, Object)) else None
            if made in self.kernel_of:
                kernels.append(self.kernel_of[made])
            elif isinstance(made, FUNCTIONS):
                functions.append(made)
        return tuple(kernels), tuple(functions)


def _sites(
    meanings: _Meanings, sources: Iterable[Source]
) -> tuple[list[CallSite], dict[FunctionNode, list[CallSite]]]:
    """Calls of kernels, and calls of the project's functions by the function called."""
    leaves: list[CallSite] = []
    callers: dict[FunctionNode, list[CallSite]] = {}
    for source in sources:
        own = [kernel for kernel in meanings.kernels if kernel.source is source]
        for call in sorted(source.calls, key=lambda c: (c.lineno, c.col_offset)):
            statement = source.statement_of(call)
            if statement is None or isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                continue
            # tt-lang compiles a kernel's body: a call in there runs no kernel of its own.
            if any(kernel.line <= statement.lineno <= kernel.end_line for kernel in own):
                continue
            called, functions = meanings.of(source, source.scope_of(statement), call.func)
            if called or functions:
                site = _site(source, statement, call, called)
                leaves += [site] if called else []
                for function in functions:
                    callers.setdefault(function, []).append(site)
    return leaves, callers


def _composed(meanings: _Meanings) -> frozenset[Kernel]:
    """Kernels that the body of another one names: tt-lang builds that one from them."""
    return frozenset(
        one
        for kernel in meanings.kernels
        for function in kernel.source.functions
        if kernel.line <= function.lineno <= kernel.end_line
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        for one in meanings.of(kernel.source, function, node.func)[0]
        if one is not kernel
    )


def _site(
    source: Source, statement: ast.stmt, call: ast.Call, kernels: tuple[Kernel, ...]
) -> CallSite:
    scope = source.places[statement].scope
    text = source.data.decode("utf-8", "replace").splitlines()
    loops = [
        (loop.lineno, shortened(text[loop.lineno - 1]).rstrip(":"))
        for loop in reversed(source.loops_around(statement))
        if loop.lineno <= len(text)
    ]
    loops += [
        (node.lineno, shortened(f"for ... in {ast.unparse(node.generators[0].iter)}"))
        for node in ast.walk(statement)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
        and contains(node, call)
    ]
    name = scope.name if isinstance(scope, FUNCTIONS) else ""
    return CallSite(source, call, statement, scope, kernels, name, tuple(loops))


def _invocations(
    kernel: Kernel,
    leaves: Iterable[CallSite],
    callers: Mapping[FunctionNode, list[CallSite]],
    warnings: list[str],
) -> Iterator[Invocation]:
    own = (site for site in leaves if kernel in site.kernels)
    paths = [path for site in own for path in _paths(site, callers, frozenset())]
    if len(paths) > PATH_LIMIT:
        warnings.append(
            f"{kernel.qualified}: only the first {PATH_LIMIT} of {len(paths)} ways to its "
            "calls are listed"
        )
    for number, path in enumerate(paths[:PATH_LIMIT], 1):
        # The only call of a function needs no number: it does not distinguish one way from another.
        apart = (s for s in path[:-1] if any(s in c and len(c) > 1 for c in callers.values()))
        yield Invocation(kernel, number, path, (*apart, path[-1]))


def _paths(
    site: CallSite,
    callers: Mapping[FunctionNode, list[CallSite]],
    seen: frozenset[FunctionNode],
) -> list[tuple[CallSite, ...]]:
    """The chains of calls that lead to a call, outermost first."""
    scope = site.scope
    if not isinstance(scope, FUNCTIONS) or scope in seen:
        return [(site,)]
    found: list[tuple[CallSite, ...]] = []
    for caller in callers.get(scope, ()):
        found += [(*path, site) for path in _paths(caller, callers, seen | {scope})]
        if len(found) > PATH_LIMIT:
            break
    return found or [(site,)]
