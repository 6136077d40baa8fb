"""What is done to the model of PyTorch once, where it is made: compiled, or its weights laid out.

`model.compile()` compiles in place: the model keeps its type and the names in its state, which
`torch.compile(model)` would change for every checkpoint.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from instrumentor.read.syntax import Source, called_on, callee, dotted, receiver
from instrumentor.shared.edits import Kind
from instrumentor.tune.model_places import forward, has_torch, made
from instrumentor.tune.settings import Value
from instrumentor.tune.statements import Changes, Own, Way
from instrumentor.tune.target import NotApplicable, Target


def compiled(target: Target) -> Way:
    """By `model.compile()` behind the statement that makes the model."""
    return Way(
        "model.compile()",
        _found(target, _compiles),
        _behind_the_model(target, "{0}.compile()", "compiled in place: the state keeps its names"),
    )


def channels_last(target: Target) -> Way:
    """By the memory format of the weights, which the convolutions hand on."""
    return Way(
        "model.to(memory_format=torch.channels_last)",
        _found(target, lambda target, source, call: "channels_last" in ast.unparse(call)),
        _behind_the_model(
            target,
            "{0} = {0}.to(memory_format=torch.channels_last)",
            "images as height x width x channels",
        ),
    )


def tf32(target: Target) -> Way:
    """By PyTorch's own switch, before anything is computed.

    Raises:
        NotApplicable: the script does not import torch by that name.
    """

    def apply(value: Value, changes: Changes) -> None:
        source = target.entry
        at = _behind_imports(source)
        code = 'torch.set_float32_matmul_precision("high")'
        reason = "matrix products of float32 in TF32: 10 bits of mantissa instead of 23"
        changes.insert(Kind.INSERT_AFTER, source, at, code, reason)

    own = _found(target, lambda target, _, call: callee(call) == "set_float32_matmul_precision")
    return Way('torch.set_float32_matmul_precision("high")', own or _allowed(target), apply)


def _behind_the_model(target: Target, code: str, reason: str) -> Callable[[Value, Changes], None]:
    def apply(value: Value, changes: Changes) -> None:
        source, call = forward(target)
        name = dotted(call.func)
        at, rebinds = made(source, name, call), (name.split(".")[0],)
        code_here = code.format(name)
        changes.insert(Kind.INSERT_AFTER, source, at, code_here, reason, rebinds=rebinds)

    return apply


def _found(target: Target, is_it: Callable[[Target, Source, ast.Call], bool]) -> Own | None:
    """Where the script does the same itself."""
    for source in target.sources:
        for call in source.calls:
            if is_it(target, source, call):
                return source.path, call.lineno, True
    return None


def _compiles(target: Target, source: Source, call: ast.Call) -> bool:
    if callee(call) != "compile":
        return False
    if receiver(call) == "torch":
        return has_torch(target, source)
    scope = target.program.scope_of(source, call)
    owner = called_on(call)
    return target.located.knowledge.is_model_named(source, scope, owner)


def _allowed(target: Target) -> Own | None:
    """`torch.backends.cuda.matmul.allow_tf32 = True`."""
    for source in target.sources:
        for node in source.nodes if b"allow_tf32" in source.data else ():
            if isinstance(node, ast.Assign) and dotted(node.targets[0]).endswith("allow_tf32"):
                value = node.value.value if isinstance(node.value, ast.Constant) else None
                return source.path, node.lineno, value if isinstance(value, bool) else None
    return None


def _behind_imports(source: Source) -> ast.stmt:
    """The last of the imports that torch's stands among.

    Raises:
        NotApplicable: the script does not import torch by that name.
    """
    found: ast.stmt | None = None
    for statement in source.tree.body:
        if _imports_torch(statement) or (
            found is not None and isinstance(statement, (ast.Import, ast.ImportFrom))
        ):
            found = statement
        elif found is not None:
            return found
    if found is None:
        reason = "the script does not import torch at its top"
        raise NotApplicable(source.path, 1, reason)
    return found


def _imports_torch(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import) and any(
        (alias.name, alias.asname) == ("torch", None) for alias in statement.names
    )
