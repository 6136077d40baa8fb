"""Which kernel and which call of it runs, and the calls that cannot be held back."""

from __future__ import annotations

import ast

from instrumentor.kernels.model import CallSite, Found, Invocation, Kernel
from instrumentor.kernels.options import Choice
from instrumentor.locate.located import Declined
from instrumentor.locate.rules.kernels import (
    CompoundHeader,
    NoKernel,
    ResultUsed,
    SeveralKernels,
)
from instrumentor.shared.errors import UsageError


def choose_kernel(found: Found, choice: Choice) -> Kernel:
    """The kernel that is named, or the only one that is invoked.

    Raises:
        UsageError: no kernel has that name, or several have.
        Declined: none is named and it is not clear which one is meant.
    """
    if not found.kernels:
        raise Declined(NoKernel.of(found.script))
    if choice.kernel:
        return _named(found, choice.kernel)
    invoked = [k for k in found.kernels if found.of(k)]
    invoked = invoked or [k for k in found.kernels if k not in found.composed]
    invoked = invoked or list(found.kernels)
    if len(invoked) == 1:
        return invoked[0]
    names = ", ".join(f"{k.qualified} (line {k.line})" for k in invoked)
    first = invoked[0]
    raise Declined(SeveralKernels.of(found.script, first.line, names=names, first=first.qualified))


def _named(found: Found, name: str) -> Kernel:
    matches = [k for k in found.kernels if k.qualified == name]
    matches = matches or [k for k in found.kernels if name in (k.name, k.bound)]
    known = ", ".join(k.qualified for k in found.kernels)
    if not matches:
        raise UsageError(f"--kernel {name}: there is no such kernel", f"There are: {known}.")
    if len(matches) > 1:
        raise UsageError(
            f"--kernel {name}: several kernels have this name", f"Give one of: {known}."
        )
    return matches[0]


def choose_call(found: Found, kernel: Kernel, choice: Choice) -> Invocation | None:
    """The call that is numbered, or the first one; None when no call is visible.

    Raises:
        UsageError: there is no call of that number.
    """
    invocations = found.of(kernel)
    if choice.call is None:
        return invocations[0] if invocations else None
    if not 1 <= choice.call <= len(invocations):
        raise UsageError(
            f"--call {choice.call}: {kernel.qualified} has {len(invocations)} visible invocations",
            "See them with `instrument kernel explain`.",
        )
    return invocations[choice.call - 1]


def refuse_lost_results(found: Found, chosen: Invocation | None) -> None:
    """Decline when a held-back call's result is used and nothing can stand for it.

    Raises:
        Declined: naming the call.
    """
    for invocation in found.invocations:
        leaf = invocation.leaf
        # In a loop the chosen call too is held back, from the second iteration on.
        if (invocation is chosen and not invocation.loops) or not _is_used(leaf):
            continue
        if invocation.kernel.returns is None:
            why = "the kernel returns something that only a real run can produce"
        elif not leaf.call.args and not leaf.call.keywords:
            why = "it has no argument that could stand for its result"
        else:
            continue
        name = invocation.kernel.qualified
        raise Declined(ResultUsed.of(leaf.source.path, leaf.line, kernel=name, why=why))


def _is_used(site: CallSite) -> bool:
    statement = site.statement
    return not (isinstance(statement, ast.Expr) and statement.value is site.call)


def refuse_unwrappable(site: CallSite) -> None:
    """Decline a call that cannot say where it stands.

    Raises:
        Declined: it stands where nothing is rewritten.
    """
    if not wrappable(site):
        raise Declined(CompoundHeader.of(site.source.path, site.line))


def wrappable(site: CallSite) -> bool:
    """Whether a call can be written again within its statement."""
    # Before Python 3.12 positions inside an f-string are not those of the file.
    strings = [n for n in ast.walk(site.statement) if isinstance(n, ast.JoinedStr)]
    inside = any(node is site.call for string in strings for node in ast.walk(string))
    assigns = (ast.Assign, ast.AnnAssign, ast.AugAssign)
    simple = (*assigns, ast.Expr, ast.Return, ast.Assert, ast.Raise)
    return not inside and isinstance(site.statement, simple)
