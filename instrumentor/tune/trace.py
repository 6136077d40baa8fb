"""Runtime trace: the room for it on the device, before torch_xla is imported.

The compile option is set with the others (:mod:`instrumentor.tune.compile_options`). A traced step
replays addresses, so with accumulation the gradients must stay where they are: `zero_grad` has to
fill them with zeros instead of letting them go.
"""

from __future__ import annotations

import ast
import os
import sys

from instrumentor.read.syntax import Source, argument
from instrumentor.shared.edits import Kind
from instrumentor.tune.settings import PROGRAM_CACHE, TRACE_REGION, TRACE_REGION_BYTES
from instrumentor.tune.statements import Changes, text_of
from instrumentor.tune.target import NotApplicable, Target

_REASON = "room for runtime trace, before torch_xla is imported"


def apply(target: Target, changes: Changes) -> None:
    """Set the size of the trace region, and keep gradients where they are.

    Raises:
        NotApplicable: the program cache is off.
    """
    source = target.entry
    _refuse_without_cache(target)
    if target.located.accumulation != "none":
        _keep_gradients(target, changes)
    # The script sets a size of its own.
    if TRACE_REGION.encode() in source.data:
        return
    # As a default: a larger region that the user exports stays.
    line = f'os.environ.setdefault("{TRACE_REGION}", "{TRACE_REGION_BYTES}")'
    early = _early_os_import(source)
    if early is not None:
        changes.insert(Kind.INSERT_AFTER, source, early, line, _REASON)
        return
    code = f"import os\n\n{line}\n"
    changes.insert(Kind.PRELUDE, source, None, code, _REASON, rebinds=("os",))


def _refuse_without_cache(target: Target) -> None:
    if os.environ.get(PROGRAM_CACHE) == "0":
        raise NotApplicable(
            target.script, 1, f"{PROGRAM_CACHE}=0 in the environment: trace needs the cache"
        )
    for source in target.sources:
        for node in source.nodes if PROGRAM_CACHE.encode() in source.data else ():
            if isinstance(node, ast.Assign) and PROGRAM_CACHE in ast.unparse(node.targets[0]):
                if isinstance(node.value, ast.Constant) and node.value.value == "0":
                    raise NotApplicable(
                        source.path, node.lineno, "the program cache, which trace needs, is off"
                    )


def _early_os_import(source: Source) -> ast.stmt | None:
    """A plain `import os` with only the docstring and the standard library before it."""
    for statement in source.tree.body:
        match statement:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=module, level=0):
                modules = [module or ""]
            case ast.Expr(value=ast.Constant()):
                continue
            case _:
                return None
        if not {name.partition(".")[0] for name in modules} <= sys.stdlib_module_names:
            return None
        if isinstance(statement, ast.Import) and ("os", None) in [
            (alias.name, alias.asname) for alias in statement.names
        ]:
            return statement
    return None


def _keep_gradients(target: Target, changes: Changes) -> None:
    reason = "a traced step replays addresses: gradients must keep theirs"
    for source, _, _, call in target.calls("zero_grad"):
        value = argument(call, "set_to_none")
        if isinstance(value, ast.Constant) and value.value is not False:
            changes.replace(source, value, "False", reason)
        elif not (call.keywords or call.args):
            text = f"{text_of(source, call.func)}(set_to_none=False)"
            changes.replace(source, call, text, reason)
