"""What enters the forward, by names that are bound for certain when a region ends.

They tell how many samples a step has where the loop itself has no batch: `X, Y = get_batch()`, or
a slice of the data that is made within the region. What the forward returned comes last: its first
axis is the batch's, too. Nothing is evaluated: a slice would be one more operation on the device.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.region.modes import Region
from instrumentor.read.syntax import own_nodes

_MOST = 3  # names that the recorder looks at
_WITH = (ast.With, ast.AsyncWith)


def entered(region: Region) -> tuple[str, ...]:
    """Names for the recorder to look at behind the clock; none where the loop names the batch.

    One name of the loop that is not what the model is given may be a batch or a number.
    """
    statement, loop = region.forward.statement, region.candidate.loop
    if len(region.batch) > 1 or region.fetch is not None or not _certainly_bound(region):
        return ()
    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)) or statement.value is None:
        return ()
    # After `del batch` the name may be unbound where the region ends.
    gone = {
        node.id
        for node in own_nodes(loop)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)
    }
    body = region.candidate
    given = [
        name.id
        for name in _given(statement.value)
        # `torch` of an argument `torch.randn(8, 4)`
        if not body.program.is_imported(body.source, body.scope, name)
    ]
    if set(given) & set(region.batch):
        return ()
    names = dict.fromkeys([*given, *_targets(statement)])
    no_data = {*gone, *region.hints, "_", "self"}
    return tuple(name for name in names if name not in no_data)[:_MOST]


def _certainly_bound(region: Region) -> bool:
    """Whether the forward stands in the body itself, in no branch and in no helper."""
    source, loop = region.candidate.source, region.candidate.loop
    forward = region.forward.statement
    if region.forward.source is not source or forward is loop:
        return False
    if source.scope_of(forward) is not region.candidate.scope:
        return False
    around = (p for p in source.parents(forward) if not isinstance(p, _WITH))
    return next(around, source.scope_of(forward)) is loop


def _given(value: ast.expr) -> Iterator[ast.Name]:
    """Names that calls are given, of the innermost call first: `criterion(model(x), y)`."""
    while isinstance(value, (ast.Attribute, ast.Subscript)):
        value = value.value
    if isinstance(value, ast.BinOp):
        yield from _given(value.left)
        yield from _given(value.right)
    if not isinstance(value, ast.Call):
        return
    yield from _given(value.func)
    given = [*value.args, *(keyword.value for keyword in value.keywords)]
    for argument in given:
        yield from _given(argument)
    for argument in given:
        if isinstance(argument, ast.Starred):
            argument = argument.value
        name = _moved(argument)
        if name is not None:
            yield name


def _moved(argument: ast.expr) -> ast.Name | None:
    """`x` of `x`, `x.to(device)` and `batch["x"]`; a slice is a part of it only."""
    while True:
        if isinstance(argument, ast.Name):
            return argument
        if isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute):
            argument = argument.func.value
        elif isinstance(argument, ast.Subscript) and isinstance(argument.slice, ast.Constant):
            argument = argument.value
        else:
            return None


def _targets(statement: ast.Assign | ast.AnnAssign | ast.Expr) -> Iterator[str]:
    targets = (
        statement.targets
        if isinstance(statement, ast.Assign)
        else [statement.target]
        if isinstance(statement, ast.AnnAssign)
        else []
    )
    for target in targets:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        yield from (part.id for part in parts if isinstance(part, ast.Name))
