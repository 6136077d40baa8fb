"""Automatic mixed precision: the forward and the loss under `torch.autocast` with bfloat16.

The statements from the forward to the one that makes the loss go into a `with` block, as PyTorch's
own recipe has them; backward and optimizer stay outside. bfloat16 needs no GradScaler; float16
does, around every backward, clipping and step, and is not tried.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence

from instrumentor.read.syntax import Source, callee, dotted, own_nodes, root_name, suites
from instrumentor.tune.model_places import forward
from instrumentor.tune.settings import Value
from instrumentor.tune.statements import Changes, Way, written
from instrumentor.tune.target import NotApplicable, Target

_REASON = "autocast: forward and loss in bfloat16 where that is safe; backward outside"
_MANAGED = ("autocast", "GradScaler", "Accelerator")


def way(target: Target) -> Way:
    """How autocast is put around the forward.

    Raises:
        NotApplicable: the script manages mixed precision itself.
    """
    for word in _MANAGED:
        for source, _, _, call in target.calls(word):
            reason = f"the script manages mixed precision itself ({word})"
            raise NotApplicable(source.path, call.lineno, reason)

    def apply(value: Value, changes: Changes) -> None:
        source, call = forward(target)
        span = _span(target, source)
        device = f"next({dotted(call.func)}.parameters()).device.type"
        head = f"with torch.autocast({device}, dtype=torch.{value}):"
        code = _block(source, head, span)
        for at in span:
            changes.disable(source, at, code if at is span[0] else "", _REASON)

    return Way("torch.autocast around the forward and the loss", None, apply)


def _span(target: Target, source: Source) -> Sequence[ast.stmt]:
    """The statements from the forward to the last one that binds what the backward starts from."""
    regions = target.located.regions
    at = regions[0].forward.statement
    if len(regions) > 1 or len(regions[0].sites) != 1:
        reason = "several backwards: it is not clear which forward belongs to which"
        raise NotApplicable(source.path, at.lineno, reason)
    block = _block_of(source, at)
    rest = block[block.index(at) :]
    for position, statement in enumerate(rest):
        starts = _started_from(statement)
        if starts is not None and position:
            return _binding(rest[:position], starts)
        if starts is not None:
            break
    reason = "forward and backward are no statements of one block: autocast must end between them"
    raise NotApplicable(source.path, at.lineno, reason)


def _block_of(source: Source, at: ast.stmt) -> list[ast.stmt]:
    owner = next(source.parents(at), source.scope_of(at))
    return next(suite for suite in suites(owner) if at in suite)


def _started_from(statement: ast.stmt) -> str | None:
    """The variable that a `backward()` of the statement is called on; None without one."""
    for node in own_nodes(statement):
        if isinstance(node, ast.Call) and callee(node) == "backward":
            return root_name(node.func)
    return None


def _binding(statements: Sequence[ast.stmt], name: str) -> Sequence[ast.stmt]:
    """Up to the last one that binds the name; what only reads it stays outside."""
    binds = [
        position
        for position, statement in enumerate(statements)
        for node in own_nodes(statement)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    return statements[: binds[-1] + 1] if binds else statements


def _block(source: Source, head: str, span: Sequence[ast.stmt]) -> str:
    """The statements under another header, meaning what they meant.

    Raises:
        NotApplicable: a text in quotes would change with its indentation.
    """
    body = "\n".join(written(source, statement) for statement in span)
    code = f"{head}\n{textwrap.indent(body, ' ' * 4)}"
    made = ast.parse(code).body[0]
    assert isinstance(made, ast.With)
    if list(map(ast.dump, made.body)) != list(map(ast.dump, span)):
        reason = "a text of several lines stands between forward and backward"
        raise NotApplicable(source.path, span[0].lineno, reason)
    return code
