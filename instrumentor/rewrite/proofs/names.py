"""Proofs 'undefined' and 'collisions': what the edits do to the names of a file."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Sequence

from instrumentor.read.syntax import address
from instrumentor.rewrite.engine.parsing import parse
from instrumentor.rewrite.proofs.scopes import Names, collect_names
from instrumentor.shared.edits import Edit, Kind
from instrumentor.shared.errors import ProofFailed

# What inserted code may read although no file binds it, and `builtins` lacks the last.
_ALWAYS_DEFINED = frozenset({*dir(builtins), "__file__"})


def check_undefined(old: Names, after: ast.Module, allowed: Collection[str]) -> None:
    """Check that no reader lost the binding it had.

    Scopes of one path (two methods of one name, say) are judged together.

    Args:
        old: names of the original.
        after: syntax tree of the instrumented file.
        allowed: names that inserted code may read without binding them.

    Raises:
        ProofFailed: naming the variable and the line of its reader.
    """
    new = collect_names(after)
    undefined_before = {name for scope in old.from_module for name in _undefined(old, scope)}
    fine = undefined_before.union(allowed)
    for scope in new.from_module:
        lost = _undefined(new, scope) - fine
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
        for name in collect_names(ast.Module([node], [])).of_module
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


def _undefined(names: Names, scope: str) -> set[str]:
    """Names that a scope reads and nobody binds."""
    return names.from_module[scope] - names.of_module - _ALWAYS_DEFINED


def _line_of_reader(tree: ast.Module, name: str) -> int:
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name)
    return min(node.lineno for node in names if isinstance(node.ctx, ast.Load))
