"""Proofs 'undefined' and 'collisions': what the edits do to the names of a file."""

from __future__ import annotations

import ast
import builtins
import symtable
import warnings
from collections import defaultdict
from collections.abc import Collection, Sequence

from msgspec import Struct, field

from instrumentor.read.syntax import address, bound_by, own_nodes
from instrumentor.rewrite.engine.parsing import parse
from instrumentor.shared.edits import Edit, Kind
from instrumentor.shared.errors import ProofFailed

# A module also has some names that it never binds and that `builtins` lacks.
_ALWAYS_DEFINED = frozenset(dir(builtins)) | {
    "__annotations__",
    "__builtins__",
    "__cached__",
    "__file__",
    "__path__",
}


class Names(Struct):
    """The names of one file.

    Attributes:
        all: every name that any scope reads or binds.
        of_module: names bound at module level, by ``global`` statements too.
        from_module: per scope (its dotted path) the names it reads from module level or builtins.
        from_function: per scope the names it reads from itself or from a function around it.
    """

    all: set[str] = field(default_factory=set)
    of_module: set[str] = field(default_factory=set)
    from_module: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    from_function: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def undefined(self, scope: str) -> set[str]:
        """Names that a scope reads and nobody binds."""
        return self.from_module[scope] - self.of_module - _ALWAYS_DEFINED


def collect_names(source: str | bytes) -> Names:
    """Collect the names of code that compiles."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        top = symtable.symtable(source, "<source>", "exec")  # type: ignore[arg-type]
    names = Names()
    scopes = [("", top)]
    while scopes:
        path, table = scopes.pop()
        _collect(names, path, table)
        scopes.extend((f"{path}.{child.get_name()}", child) for child in table.get_children())
    return names


def check_undefined(
    old: Names, instrumented: bytes, after: ast.Module, allowed: Collection[str]
) -> None:
    """Check that no reader lost the binding it had.

    Scopes of one path (two methods of one name, say) are judged together.

    Args:
        old: names of the original.
        after: syntax tree of the instrumented file, for the line of a reader.
        allowed: names that inserted code may read without binding them.

    Raises:
        ProofFailed: naming the variable and the line of its reader.
    """
    new = collect_names(instrumented)
    undefined_before = {name for scope in list(old.from_module) for name in old.undefined(scope)}
    fine = undefined_before.union(allowed)
    for scope in list(new.from_module):
        lost = new.undefined(scope) - fine
        # A local that became a global: its binding went, a global of that name only hides it.
        lost |= new.from_module[scope] & old.from_function[scope] - old.from_module[scope]
        for name in sorted(lost):
            line = _line_of_reader(after, name)
            raise ProofFailed(f"proof 'undefined' failed at line {line}: '{name}' is not bound")


def check_collisions(
    original: bytes, old: Names, edits: Sequence[Edit], allowed: Collection[str]
) -> None:
    """Check that inserted code binds no name of the original.

    A prelude may bind none at all. Other code may rebind what the disabled and moved statements
    bound, for that is how a skipped result gets a value.

    Args:
        old: names of the original.
        allowed: names of the original that inserted code may bind all the same.

    Raises:
        ProofFailed: naming the variable and the line of the edit's statement.
    """
    taken = old.all - set(allowed)
    off = {edit.at for edit in edits if edit.kind in (Kind.DISABLE, Kind.MOVE_AFTER)}
    released = {
        name
        for node in (ast.walk(parse(original)) if off else ())
        if isinstance(node, ast.stmt) and address(node) in off
        for part in (node, *own_nodes(node))
        for name in bound_by(part)
    }
    for edit in edits:
        collisions = collect_names(edit.code).of_module & taken
        if edit.kind is not Kind.PRELUDE:
            collisions -= released
        for name in sorted(collisions):
            line = edit.at.line if edit.at is not None else 1
            raise ProofFailed(
                f"proof 'collisions' failed at line {line} of the original: inserted code binds "
                f"'{name}', which the file uses itself"
            )


def _collect(names: Names, path: str, table: symtable.SymbolTable) -> None:
    at_top = table.get_type() == "module"
    for symbol in table.get_symbols():
        name = symbol.get_name()
        names.all.add(name)
        bound = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
        if bound and (at_top or symbol.is_declared_global()):
            names.of_module.add(name)
        if symbol.is_referenced():
            where = names.from_module if at_top or symbol.is_global() else names.from_function
            where[path].add(name)


def _line_of_reader(tree: ast.Module, name: str) -> int:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name)
    return min((node.lineno for node in nodes if isinstance(node.ctx, ast.Load)), default=1)
