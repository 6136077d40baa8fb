"""Shapes that cannot be instrumented correctly, each with its line, reason and what would work.

Every check looks at the program (before a loop is chosen) or at the chosen candidate and yields
reasons; nothing is instrumented as long as one stands.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from instrumentor.locate.config import MULTI_CHIP_FOLDERS
from instrumentor.locate.constants import Constants, along, decided, may_run
from instrumentor.locate.knowledge import Knowledge
from instrumentor.locate.loops import Candidate, Update
from instrumentor.locate.model import Reason
from instrumentor.locate.program import Class, Function, Program
from instrumentor.locate.syntax import (
    FUNCTIONS,
    LOOPS,
    FunctionNode,
    ScopeNode,
    Source,
    below,
    callee,
    dotted,
    last,
    own_calls,
    own_nodes,
    receiver,
    root_name,
)
from instrumentor.locate.tree import contains, exclusive, path_to

FOREIGN_RUNTIMES = {
    "forge": "tt-forge's compiled model runs its own backward",
    "pybuda": "PyBuda runs its own backward",
    "ttml": "ttml runs its own autograd",
    "tt_train": "tt-train runs its own autograd",
}
_JAX = ("jax", "flax", "optax", "easydel")
_LIGHTNING = ("pytorch_lightning", "lightning", "lightning_fabric")


def imported_roots(source: Source) -> dict[str, int]:
    """Top-level packages that a module imports, with the line of the first import."""
    found: dict[str, int] = {}
    for statement in source.places:
        names: list[str] = []
        if isinstance(statement, ast.Import):
            names = [a.name for a in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            names = [statement.module or ""]
        for name in names:
            line = found.get(name.split(".")[0], statement.lineno)
            found[name.split(".")[0]] = min(line, statement.lineno)
    return found


def no_loop(program: Program, knowledge: Knowledge, without_update: list[Candidate]) -> Reason:
    """The most telling reason why no training loop was found in the entry script."""
    source = program.entry
    path, roots = source.path, imported_roots(source)
    for call, line in _calls(source):
        word, owner = callee(call), receiver(call)
        if word in ("fit", "train") and _made_by(
            source, owner, ("Trainer", "SFTTrainer", "DPOTrainer", "Seq2SeqTrainer")
        ):
            library = next((r for r in roots if r in (*_LIGHTNING, "transformers", "trl")), "")
            if library:
                kind = "lightning" if library in _LIGHTNING else "hf-trainer"
                return Reason(
                    path,
                    line,
                    kind,
                    f"the loop is inside {library}'s Trainer, an installed package",
                    _OWN_LOOP,
                )
    if any(r in roots for r in _LIGHTNING):
        line = next(roots[r] for r in _LIGHTNING if r in roots)
        return Reason(path, line, "lightning", "Lightning holds the training loop", _OWN_LOOP)
    for root in _JAX:
        if root in roots:
            return Reason(
                path,
                roots[root],
                "jax",
                f"a {root} script: gradients come from transformations, not from backward()",
                _AS_A_WHOLE,
            )
    for root, why in FOREIGN_RUNTIMES.items():
        if root in roots:
            return Reason(path, roots[root], "foreign-runtime", why, _AS_A_WHOLE)
    for call, line in _calls(source):
        if re.search(r"(loss_)?scaler$", dotted(call.func)) and len(call.args) >= 2:
            return Reason(
                path,
                line,
                "hidden-backward",
                f"backward and optimizer step are hidden in {dotted(call.func)}(...) of "
                "another package",
                "Write loss.backward() and optimizer.step() in the loop.",
            )
        if callee(call) in ("train_batch", "fit"):
            return Reason(
                path,
                line,
                "hidden-backward",
                f"the step is hidden in {dotted(call.func)}(...) of an installed package",
                _OWN_LOOP,
            )
    compiled = _handed_to_a_compiler(program)
    if compiled is not None:
        return compiled
    for candidate in without_update:
        perturbed = _two_part_step(candidate)
        if perturbed is not None:
            return perturbed
    for candidate in without_update:
        return Reason(
            candidate.source.path,
            candidate.loop.lineno,
            "no-optimizer-step",
            "a backward runs in this loop, but no optimizer step follows it",
            "A training loop steps an optimizer; name the loop with --loop FILE:LINE if "
            "this is one.",
        )
    if "transformers" in roots and any(
        callee(c) == "train" and "trainer" in receiver(c).lower() for c, _ in _calls(source)
    ):
        return Reason(
            path,
            roots["transformers"],
            "hf-trainer",
            "the loop is inside transformers' Trainer, an installed package",
            _OWN_LOOP,
        )
    return Reason(
        path,
        1,
        "no-loop",
        "no loop with forward, backward() and an optimizer step was found",
        "Give the script that holds the loop, or one that reaches it through imports of "
        "its own repository.",
    )


def _two_part_step(candidate: Candidate) -> Reason | None:
    """`optimizer.first_step(); ...; optimizer.second_step()` of sharpness-aware minimization."""
    places: list[tuple[Source, ast.AST]] = [(candidate.source, candidate.loop)]
    places += [(f.source, f.node) for s in candidate.sites for f in s.chain]
    for source, place in places:
        calls = [c for c in own_calls(place) if callee(c) in ("first_step", "second_step")]
        if {callee(c) for c in calls} == {"first_step", "second_step"}:
            first = next(c for c in calls if callee(c) == "first_step")
            owner = receiver(first)
            return Reason(
                source.path,
                first.lineno,
                "several-steps",
                f"{owner}.first_step() and {owner}.second_step() make one update of two "
                "forward + backward: there is no single one",
                "Time the lines of the whole step with --region FILE:START-END, or use an "
                "optimizer with one step().",
            )
    return None


_OWN_LOOP = (
    "Give a script with the loop written out "
    "(for batch in loader: loss.backward(); optimizer.step())."
)
_AS_A_WHOLE = (
    "Its device operations: `instrument profile python3 SCRIPT`. The time of chosen lines: "
    "`instrument run --region FILE:START-END SCRIPT`."
)
_SPLIT = "Name one loop with --loop FILE:LINE, or give a script that trains one network at a time."


def _calls(source: Source) -> Iterator[tuple[ast.Call, int]]:
    for node in source.calls:
        yield node, node.lineno


def _made_by(source: Source, name: str, classes: tuple[str, ...]) -> bool:
    for node in source.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            if last(dotted(node.value.func)).endswith(classes) and any(
                dotted(t) == name for t in node.targets
            ):
                return True
    return name.endswith("Trainer()")


def several(candidates: list[Candidate]) -> list[Reason]:
    """One reason per loop, so that the list can be shown."""
    return [
        Reason(
            c.source.path,
            c.loop.lineno,
            "several-loops",
            f"one of {len(candidates)} training loops"
            + (f", in {c.scope.name}()" if isinstance(c.scope, FUNCTIONS) else ""),
            "Say which one: "
            + " or ".join(f"--loop {x.source.path.name}:{x.loop.lineno}" for x in candidates),
        )
        for c in candidates
    ]


def of_candidate(program: Program, knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """Reasons against a chosen loop."""
    yield from _foreign(program, candidate)
    yield from _several_optimizers(candidate)
    yield from _closures(program, knowledge, candidate)
    yield from _generators(program, candidate)
    yield from _compiled_step(program, candidate)
    yield from _phases(program, candidate)
    yield from _overrides(program, knowledge, candidate)
    yield from _line_search(knowledge, candidate)
    yield from _own_process(program, candidate)
    yield from _early_return(program, candidate)
    yield from _distributed(program, candidate)
    if isinstance(candidate.loop, ast.AsyncFor) or isinstance(
        candidate.scope, ast.AsyncFunctionDef
    ):
        yield Reason(
            candidate.source.path,
            candidate.loop.lineno,
            "async",
            "the loop is asynchronous: other work runs between its statements",
            "Use a plain for or while loop.",
        )
    for site in candidate.sites:
        if callee(site.backward) == "manual_backward":
            yield Reason(
                site.backward_source.path,
                site.backward.lineno,
                "lightning",
                "manual_backward: Lightning calls this step from its own loop",
                _OWN_LOOP,
            )
            return


def _foreign(program: Program, candidate: Candidate) -> Iterator[Reason]:
    for source in dict.fromkeys((candidate.source, program.entry)):
        roots = imported_roots(source)
        for root, why in FOREIGN_RUNTIMES.items():
            if root in roots:
                yield Reason(source.path, roots[root], "foreign-runtime", why, _AS_A_WHOLE)
                return
        for statement in source.places:
            if isinstance(statement, ast.ImportFrom) and re.search(
                r"(^|\.)(tt_train|ttml)(\.|$)", statement.module or ""
            ):
                yield Reason(
                    source.path,
                    statement.lineno,
                    "foreign-runtime",
                    f"{statement.module} runs the step itself",
                    _AS_A_WHOLE,
                )
                return
    for site in candidate.sites:
        owner = receiver(site.backward)
        if (
            re.search(r"compiled_(model|fw)|framework_compiled|tt_model", owner)
            and not site.backward.args
        ):
            yield Reason(
                site.backward_source.path,
                site.backward.lineno,
                "foreign-runtime",
                f"{owner}.backward() is a compiled model's own backward",
                _AS_A_WHOLE,
            )
            return


def _several_optimizers(candidate: Candidate) -> Iterator[Reason]:
    updates = [u for u in candidate.updates if not u.manual]
    for position, second in enumerate(updates):
        for first in updates[:position]:
            if first.source is not second.source or first.scope is not second.scope:
                continue
            if exclusive(first.source, first.statement, second.statement):
                continue
            if first.optimizer != second.optimizer and not _share(candidate, first, second):
                yield Reason(
                    second.source.path,
                    second.statement.lineno,
                    "several-optimizers",
                    f"two optimizers are stepped in one iteration ({first.optimizer}, "
                    f"{second.optimizer}): "
                    "there is no single forward + backward",
                    _SPLIT,
                )
                return
            if (
                first.optimizer == second.optimizer
                and first.statement is not second.statement
                and _backward_between(candidate, first, second)
            ):
                yield Reason(
                    second.source.path,
                    second.statement.lineno,
                    "several-steps",
                    f"{first.optimizer} is stepped twice in one iteration, with a "
                    "backward in between",
                    _SPLIT,
                )
                return


def _share(candidate: Candidate, first: Update, second: Update) -> bool:
    """Two optimizers of one network: both use the gradients of the one backward before them."""
    loops = first.source.loops_around
    return (
        len(candidate.sites) == 1
        and loops(first.statement) == loops(second.statement)
        and not _backward_between(candidate, first, second)
    )


def _backward_between(candidate: Candidate, first: Update, second: Update) -> bool:
    """A backward that runs after the one step and before the other, on one path."""
    low, high = sorted((first.statement.lineno, second.statement.lineno))
    return any(
        (
            low < site.statement.lineno < high
            and not exclusive(first.source, first.statement, site.statement)
            and not exclusive(first.source, second.statement, site.statement)
        )
        or (site.chain and site.statement in (first.statement, second.statement))
        for site in candidate.sites
    )


def _closures(program: Program, knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    scopes: list[tuple[Source, ScopeNode]] = [(candidate.source, candidate.scope)]
    scopes += [(f.source, f.node) for s in candidate.sites for f in s.chain]
    for source, scope in scopes:
        for call, _ in program.calls.get(scope, ()):
            if callee(call) == "step" and isinstance(call.func, ast.Attribute):
                arguments = [*call.args, *(k.value for k in call.keywords if k.arg == "closure")]
                for argument in arguments:
                    name = dotted(argument)
                    if isinstance(argument, ast.Lambda) or _is_backward_closure(
                        program, knowledge, source, scope, name
                    ):
                        yield Reason(
                            source.path,
                            call.lineno,
                            "closure",
                            "forward and backward run inside a closure that the "
                            "optimizer calls, several times per step",
                            "Use an optimizer without closure (not LBFGS), or time the "
                            "whole step by hand.",
                        )
                        return
    for site in candidate.sites:
        for function in site.chain:
            if function.name in ("closure", "_closure", "closure_fn") and _is_handed_on(function):
                yield Reason(
                    function.source.path,
                    function.node.lineno,
                    "closure",
                    "forward and backward run inside a closure",
                    "Use an optimizer without closure.",
                )
                return


def _is_handed_on(function: Function) -> bool:
    """Whether a function is used as a value; one that is only called runs where it is called."""
    nodes = list(below(function.source.places[function.node].scope))
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    return any(
        isinstance(n, ast.Name)
        and n.id == function.name
        and isinstance(n.ctx, ast.Load)
        and id(n) not in called
        for n in nodes
    )


def _is_backward_closure(
    program: Program, knowledge: Knowledge, source: Source, scope: ScopeNode, name: str
) -> bool:
    if not name:
        return False
    probe = (
        ast.Call(func=ast.parse(name, mode="eval").body, args=[], keywords=[])
        if re.fullmatch(r"[\w.]+", name)
        else None
    )
    if probe is None:
        return False
    return any(knowledge.has_backward(f) for f in program.resolve(source, scope, probe))


def closure_reason(program: Program, knowledge: Knowledge) -> Reason | None:
    """A backward only inside a closure given to an optimizer (LBFGS), when no loop was found."""
    for source in program.sources.values():
        for scope, entries in list(program.calls.items()):
            if program.source_of_scope[scope] is not source:
                continue
            for call, _ in entries:
                if callee(call) == "step" and (call.args or call.keywords):
                    for argument in [*call.args, *(k.value for k in call.keywords)]:
                        if _is_backward_closure(
                            program, knowledge, source, scope, dotted(argument)
                        ):
                            return Reason(
                                source.path,
                                call.lineno,
                                "closure",
                                "forward and backward run inside a closure that the "
                                "optimizer calls, several times per step",
                                "Use an optimizer without closure (not LBFGS).",
                            )
    return None


def _generators(program: Program, candidate: Candidate) -> Iterator[Reason]:
    scopes: list[tuple[Source, ScopeNode, list[ast.stmt]]] = [
        (candidate.source, candidate.scope, candidate.loop.body)
    ]
    scopes += [(f.source, f.node, f.node.body) for s in candidate.sites for f in s.chain]
    for source, scope, body in scopes:
        if not isinstance(scope, FUNCTIONS):
            continue
        for top in body:
            for node in (top, *own_nodes(top)):
                if isinstance(node, (ast.Yield, ast.YieldFrom)):
                    yield Reason(
                        source.path,
                        node.lineno,
                        "generator",
                        "the loop yields in the middle of a step: its caller's time "
                        "would be measured too",
                        "Return after the step instead of yielding inside it.",
                    )
                    return


_COMPILERS = ("torch_xla.compile", "torch_xla.experimental.compile")


def _compiled_step(program: Program, candidate: Candidate) -> Iterator[Reason]:
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


def _handed_to_a_compiler(program: Program) -> Reason | None:
    """`self.step = torch_xla.compile(self.step_fn)`, where step_fn holds the backward."""
    with_backward = {
        scope.name
        for scope, calls in program.calls.items()
        if isinstance(scope, FUNCTIONS) and any(callee(call) == "backward" for call, _ in calls)
    }
    for source in program.sources.values():
        for call, line in _calls(source):
            if dotted(call.func) in _COMPILERS and call.args:
                if last(dotted(call.args[0])) in with_backward:
                    return _compiled(source, line)
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
        remedy = "Time the line that calls it with --region FILE:START-END."
    return Reason(
        source.path,
        block.lineno,
        "compiled-step",
        f"{name} runs {whole} as one graph and syncs at its end: forward + backward cannot be "
        "cut out of it",
        remedy,
    )


def _compiled(source: Source, line: int) -> Reason:
    return Reason(
        source.path,
        line,
        "compiled-step",
        "the whole step is one torch_xla.compile graph: forward + backward cannot be cut out of it",
        "Time the line that calls it with --region FILE:START-END, or run without "
        "torch_xla.compile(full_graph).",
    )


_PHASE = re.compile(
    r"(^|\.|_)(phase|split|mode|is_train|is_training|training|train|do_train|train_mode)$", re.I
)


def _phases(program: Program, candidate: Candidate) -> Iterator[Reason]:
    for site in candidate.sites:
        found = _phase_of(candidate.source, candidate.loop, site.statement, {})
        if found is not None:
            yield _two_phases(candidate.source, found, "loop")
            return
        for function, known in along(program, site):
            innermost = function is site.chain[-1]
            at = site.backward_statement if innermost else function.node.body[0]
            found = _phase_of(function.source, function.node, at, known)
            if found is not None:
                yield _two_phases(function.source, found, "function")
                return


def _phase_of(source: Source, top: ast.AST, at: ast.stmt, known: Constants) -> ast.If | None:
    """The `if` on a phase that the statement stands in, or that leaves ahead of it.

    One that the call's own arguments decide in favour of the statement is none.
    """
    for parent in source.parents(at):
        if parent is top:
            break
        if isinstance(parent, ast.If) and _is_phase_test(parent.test):
            answer = decided(parent.test, known)
            if answer is None or not any(contains(s, at) for s in may_run(parent, known)):
                return parent
    for suite, index in path_to(source, top, at):
        for statement in suite[:index]:
            if isinstance(statement, ast.If) and _is_phase_test(statement.test):
                if decided(statement.test, known) is False:
                    continue
                if isinstance(statement.body[-1], (ast.Continue, ast.Return)):
                    return statement
    return None


def _two_phases(source: Source, test: ast.If, what: str) -> Reason:
    return Reason(
        source.path,
        test.lineno,
        "train-and-eval",
        f"one {what} serves training and evaluation: the backward runs only in one of its phases",
        f"Give training a {what} of its own.",
    )


def _overrides(program: Program, knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """`self.step()` in a loop that instances of two classes run, one without a backward."""
    for site in candidate.sites:
        functions = list(site.chain)
        if isinstance(candidate.scope, FUNCTIONS):
            functions.insert(0, Function(candidate.source, candidate.scope))
        for caller, called in pairwise(functions):
            for other in _run_instead(program, knowledge, caller, called):
                if not knowledge.has_backward(other) and not _is_abstract(other):
                    yield Reason(
                        other.source.path,
                        other.node.lineno,
                        "train-and-eval",
                        f"{caller.name}() serves training and evaluation: this "
                        f"{other.name}() runs in its loop too, without a backward",
                        "Give training a loop of its own.",
                    )
                    return


def _run_instead(
    program: Program, knowledge: Knowledge, caller: Function, called: Function
) -> Iterator[Function]:
    """Methods that run in place of the called one, in instances of the classes that are made.

    Where none is made (a library's file by itself), those that switch gradients off.
    """
    owner = caller.source.class_of.get(caller.node)
    if owner is None or called.node not in called.source.class_of:
        return
    if not any(
        callee(c) == called.name and receiver(c) == "self"
        for c, _ in program.calls.get(caller.node, ())
    ):
        return
    family = [Class(caller.source, owner), *program.subclasses.get(owner, ())]
    made = [cls for cls in family if _is_made(program, cls)]
    for cls in made or family:
        running = program.methods(cls, caller.name, overrides=False)
        found = program.methods(cls, called.name, overrides=False)
        if not running or running[0].node is not caller.node or not found:
            continue
        if found[0].node is not called.node and (made or knowledge.evaluates(found[0])):
            yield found[0]


def _is_made(program: Program, cls: Class) -> bool:
    """Whether the program makes an instance of just this class."""
    for source in program.sources.values():
        for call in source.calls:
            name = dotted(call.func)
            if last(name) == cls.node.name or isinstance(call.func, ast.Name):
                target = program.lookup(source, name)
                if isinstance(target, Class) and target.node is cls.node:
                    return True
    return False


def _is_abstract(function: Function) -> bool:
    """A body that only raises, passes or documents."""
    return all(
        isinstance(s, (ast.Raise, ast.Pass))
        or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in function.node.body
    )


def _leaves(test: ast.If, known: Constants) -> bool:
    """Whether a branch of an `if` that may run with these constants returns."""
    return any(
        isinstance(s, ast.Return) or (isinstance(s, ast.If) and _leaves(s, known))
        for s in may_run(test, known)
    )


def _early_return(program: Program, candidate: Candidate) -> Iterator[Reason]:
    """A helper that leaves ahead of its backward: its calls would be samples of nothing."""
    for site in candidate.sites:
        for function, known in along(program, site):
            if function is not site.chain[-1]:
                continue
            for suite, index in path_to(function.source, function.node, site.backward_statement):
                for statement in suite[:index]:
                    if isinstance(statement, ast.If) and _leaves(statement, known):
                        yield Reason(
                            function.source.path,
                            statement.lineno,
                            "conditional-step",
                            f"{function.name}() may return ahead of its backward: such a call "
                            "would count as a sample",
                            "Call the helper only when it makes a step.",
                        )
                        return


def _own_process(program: Program, candidate: Candidate) -> Iterator[Reason]:
    """The loop only runs as the target, or in run(), of a Process or Thread of its own.

    Stopping it there does not end the run.
    """
    scope: ScopeNode = candidate.scope
    for _ in range(6):
        if not isinstance(scope, FUNCTIONS):
            return
        callers = program.callers.get(scope, ())
        source = program.source_of_scope[scope]
        kind = _worker_class(program, Function(source, scope))
        if kind and all(_on_a_module(program, where, call) for where, call, _ in callers):
            yield Reason(
                source.path,
                scope.lineno,
                "own-process",
                f"the loop runs in a {kind} of its own: stopping it does not end the run",
                "Give a script whose main thread trains.",
            )
            return
        if callers:
            scope = callers[0][0]
            continue
        for call in source.calls:
            targets = [k.value for k in call.keywords if k.arg == "target"]
            if callee(call) in ("Process", "Thread") and any(
                last(dotted(t)) == scope.name for t in targets
            ):
                yield Reason(
                    source.path,
                    call.lineno,
                    "own-process",
                    f"the loop runs in a {callee(call).lower()} of its own: stopping it does not "
                    "end the run",
                    "Give a script whose main process trains.",
                )
        return


def _worker_class(program: Program, function: Function) -> str:
    """`thread` or `process` when the function is run() of a subclass of one, else ''."""
    owner = function.source.class_of.get(function.node)
    if owner is None or function.name != "run":
        return ""
    for cls in program.bases(Class(function.source, owner)):
        for base in cls.node.bases:
            if last(dotted(base)) in ("Thread", "QThread", "Process"):
                return "process" if last(dotted(base)) == "Process" else "thread"
    return ""


def _on_a_module(program: Program, scope: ScopeNode, call: ast.Call) -> bool:
    """`subprocess.run(...)`: an installed module's function, not a method of that name."""
    return root_name(call.func) in imported_roots(program.source_of_scope[scope])


def _line_search(knowledge: Knowledge, candidate: Candidate) -> Iterator[Reason]:
    """The optimizer stepped in an inner loop that runs the forward again."""
    for update in candidate.updates:
        if update.scope is not candidate.scope:
            continue  # a caller's: its loops are around this one, not inside
        for parent in update.source.parents(update.statement):
            if parent is candidate.loop or any(
                contains(parent, s.statement) for s in candidate.sites
            ):
                break
            if isinstance(parent, LOOPS) and (
                knowledge.forward_call(update.source, update.scope, parent) is not None
            ):
                if any(callee(c) == "backward" for c in own_calls(parent)):
                    yield Reason(
                        update.source.path,
                        parent.lineno,
                        "several-steps",
                        "a loop inside the iteration makes steps of its own: there is no single "
                        "forward + backward",
                        _SPLIT,
                    )
                    return
                yield Reason(
                    update.source.path,
                    parent.lineno,
                    "line-search",
                    "a line search: the optimizer is stepped in a loop that runs the forward again",
                    "Give a script with one optimizer step per backward.",
                )
                return


def _is_phase_test(test: ast.expr) -> bool:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    if isinstance(test, ast.Compare):
        names = [test.left, *test.comparators]
        if any(
            isinstance(n, ast.Constant) and n.value in ("train", "training", "Train") for n in names
        ):
            return True
        if (
            len(names) == 2
            and isinstance(test.ops[0], ast.IsNot)
            and "optim" in dotted(names[0]).lower()
        ):
            return isinstance(names[1], ast.Constant) and names[1].value is None
        return False
    return (
        bool(dotted(test)) and bool(_PHASE.search(dotted(test))) and not dotted(test).endswith("()")
    )


_DISTRIBUTED = (
    "init_process_group",
    "init_distributed",
    "DistributedDataParallel",
    "DDP",
    "FullyShardedDataParallel",
    "FSDP",
    "fully_shard",
)


_COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "barrier",
    "broadcast",
    "reduce",
    "destroy_process_group",
)


def distributed_calls(source: Source) -> Iterator[tuple[ast.Call, ast.stmt | None]]:
    for node in source.nodes:
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            word = last(name)
            collective = word in _COLLECTIVES and name.startswith(("dist.", "torch.distributed."))
            if (
                collective
                or word in _DISTRIBUTED
                or name
                in (
                    "mp.spawn",
                    "torch.multiprocessing.spawn",
                    "multiprocessing.spawn",
                    "xmp.spawn",
                )
            ):
                yield node, source.statement_of(node)


def _one_process(call: ast.Call) -> bool:
    """`xmp.spawn(fn, nprocs=1)` runs in the process itself."""
    return any(
        k.arg == "nprocs" and isinstance(k.value, ast.Constant) and k.value.value == 1
        for k in call.keywords
    )


def _distributed(program: Program, candidate: Candidate) -> Iterator[Reason]:
    for source in dict.fromkeys((program.entry, candidate.source)):
        for call, statement in distributed_calls(source):
            if dotted(call.func) == "xmp.spawn" and _one_process(call):
                continue
            if statement is not None and not conditional(program, source, statement):
                yield Reason(
                    source.path,
                    call.lineno,
                    "distributed",
                    f"{dotted(call.func)}: several processes train together",
                    "Run the single-process version of the script; multi-chip runs are "
                    "out of scope.",
                )
                return


def conditional(program: Program, source: Source, statement: ast.stmt, depth: int = 0) -> bool:
    """Whether a statement runs only under an `if` (the `__main__` guard does not count)."""
    for parent in source.parents(statement):
        if isinstance(parent, ast.If) and "__name__" not in ast.unparse(parent.test):
            return True
    scope = source.scope_of(statement)
    if isinstance(scope, FUNCTIONS) and depth < 5:
        calls = program.callers.get(scope, [])
        here = [(program.source_of_scope[s], h) for s, _, h in calls if s is not scope]
        if here:
            return all(conditional(program, where, holder, depth + 1) for where, holder in here)
        return _passed_conditionally(source, scope)
    return False


def _passed_conditionally(source: Source, function: FunctionNode) -> bool:
    """A function only handed over (`mp.spawn(main_worker)`): conditional when that is."""
    uses = [
        source.statement_of(n)
        for n in source.nodes
        if isinstance(n, ast.Name) and n.id == function.name and isinstance(n.ctx, ast.Load)
    ]
    held = [u for u in uses if u is not None]
    return bool(held) and all(
        any(
            isinstance(p, ast.If) and "__name__" not in ast.unparse(p.test)
            for p in source.parents(u)
        )
        for u in held
    )


def folder_reason(script: Path) -> Reason | None:
    """Multi-chip experiments are kept in folders of the machine's name."""
    for part in script.parts[:-1]:
        if part.lower() in MULTI_CHIP_FOLDERS:
            return Reason(
                script,
                1,
                "multi-chip",
                f"the script lies in a {part} folder: a multi-chip experiment",
                "Give the single-chip variant; multi-chip runs are out of scope.",
            )
    return None


__all__ = [
    "closure_reason",
    "conditional",
    "contains",
    "distributed_calls",
    "folder_reason",
    "imported_roots",
    "no_loop",
    "of_candidate",
    "own_calls",
    "several",
]
