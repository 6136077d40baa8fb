"""The whole step as one XLA graph: forward + backward cannot be separated."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate
from instrumentor.locate.model import Reason
from instrumentor.locate.program import Program
from instrumentor.locate.syntax import (
    FUNCTIONS,
    FunctionNode,
    Source,
    callee,
    dotted,
    last,
)

_COMPILERS = ("torch_xla.compile", "torch_xla.experimental.compile")


def reasons(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    for site in candidate.sites:
        for function in site.chain:
            for decorator in function.node.decorator_list:
                if dotted(decorator).startswith("torch_xla.step"):
                    yield _one_graph(function.source, function.node)
                    return
                if dotted(decorator).startswith(("torch_xla.compile", "xm.compile")):
                    yield _compiled(function.source, function.node.lineno)
                    return
        for source in (candidate.source, site.backward_source):
            for node in source.nodes:
                if isinstance(node, ast.Call) and dotted(node.func) in _COMPILERS:
                    names = {dotted(a) for a in node.args} | {k.arg or "" for k in node.keywords}
                    if "full_graph" in names or any(
                        f.name in {n.split(".")[-1] for n in names} for f in site.chain
                    ):
                        yield _compiled(source, node.lineno)
                        return
        for parent in candidate.source.parents(site.statement):
            if isinstance(parent, ast.With) and any(
                dotted(i.context_expr).startswith(("torch_xla.step", "torch_xla.compile"))
                for i in parent.items
            ):
                yield _one_graph(candidate.source, parent)
                return


def handed_to_a_compiler(program: Program) -> Reason | None:
    """`self.step = torch_xla.compile(self.step_fn)`, where step_fn holds the backward."""
    with_backward = {
        scope.name
        for scope, calls in program.calls.items()
        if isinstance(scope, FUNCTIONS) and any(callee(call) == "backward" for call, _ in calls)
    }
    for source in program.sources.values():
        for call in source.calls:
            if dotted(call.func) in _COMPILERS and call.args:
                if last(dotted(call.args[0])) in with_backward:
                    return _compiled(source, call.lineno)
    return None


def _one_graph(source: Source, block: ast.With | FunctionNode) -> Reason:
    """`with torch_xla.step():` cuts the graph where it begins and ends, and nowhere between."""
    if isinstance(block, ast.With):
        name, whole = dotted(block.items[0].context_expr), "its whole body"
        remedy = (
            "Time the whole step with --region "
            f"{source.path.name}:{block.lineno}-{block.end_lineno}, or call torch_xla.sync() "
            "after the step instead."
        )
    else:
        name, whole = "torch_xla.step()", f"all of {block.name}()"
        remedy = "Call torch_xla.sync() after the step instead of decorating it."
    return Reason(
        source.path,
        block.lineno,
        "compiled-step",
        f"{name} runs {whole} as one graph and syncs at its end: forward + backward cannot be "
        "separated",
        remedy,
    )


def _compiled(source: Source, line: int) -> Reason:
    return Reason(
        source.path,
        line,
        "compiled-step",
        "the whole step is one torch_xla.compile graph: forward + backward cannot be separated",
        "Run without torch_xla.compile(full_graph).",
    )
