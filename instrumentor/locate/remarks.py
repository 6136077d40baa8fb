"""What a reader of the figures should know of a script: its own timers, profilers, limits."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Sequence

from instrumentor.locate.experiment_yaml import mesh_default_warning
from instrumentor.locate.loop.counter import counters, header_count
from instrumentor.locate.loop.loops import UNKNOWN, Candidate, outwards
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.roles import Role
from instrumentor.locate.region.modes import Region
from instrumentor.locate.rules.frameworks import imported_roots
from instrumentor.read.constants import written_out
from instrumentor.read.control_flow import START, flow_of
from instrumentor.read.syntax import Source, argument, callee, dotted, own_nodes
from instrumentor.shared.project import seen_from_here
from instrumentor_analysis.shared.caveats import UNCALLED_TEST, Caveat

_TEST_FILE = re.compile(r"test_.*\.py|.*_test\.py")  # as pytest finds them
#: Of a run without --steps.
_MOST_SAMPLES = 200
#: What a call is told of by its role: kind and text, with the call's name.
_TOLD = {
    Role.DEBUGGER: ("breakpoint", "{}() would wait for input."),
    Role.PROFILER: ("own-profiler", "The script profiles itself ({}). That stays and costs time."),
    Role.SPAWN: ("several-processes", "{} may start workers. Only the main process records."),
    Role.PROCESS: (
        "outlives-stop",
        "A process started here may outlive the early stop; the run would wait for it.",
    ),
    Role.DISTRIBUTED: (
        "several-processes",
        "{} is measured as one process here. Several have to be started by torchrun, all on this "
        "machine, for example: instrument run torchrun --nproc_per_node 2 train.py",
    ),
}


def one_of_several(function: str, place: str, others: Sequence[str]) -> Caveat:
    """That one of several loops that run is measured.

    Args:
        function: with the loop; '' where it is in none.
        others: what chooses each of the others.
    """
    what = f"the loop of {function}()" if function else "one loop"
    which = f"the other one{'s' if others[1:] else ''}: {', '.join(others)}"
    text = f"Only {what} is measured, the first that runs; {which}."
    return Caveat("one-loop", text, place=place)


def of_the_program(candidate: Candidate) -> Iterator[Caveat]:
    """Of the entry and of the module with the loop, what may disturb a run or its times."""
    for source in dict.fromkeys((candidate.program.entry, candidate.source)):
        yield from _of_the_calls(candidate, source)
        own = imported_roots(source).get("tracy")
        if own is not None:
            text = "The script has Tracy signposts of its own. They stay."
            yield Caveat("own-signposts", text, place=source.at(own.lineno))
    yield from _own_limits(candidate)
    mesh = mesh_default_warning(list(candidate.program.sources.values()))
    if mesh:
        yield mesh
    if candidate.updates and candidate.updates[0].optimizer == UNKNOWN:
        yield Caveat(
            "no-optimizer-step",
            "No optimizer step was found here, so the run ends after an iteration, wherever the "
            "update is.",
            place=candidate.source.at(candidate.loop.lineno),
        )


def of_a_test(candidate: Candidate) -> Iterator[Caveat]:
    """That the loop runs in tests of the entry which pytest calls, and nothing in the file does."""
    program, scope = candidate.program, candidate.scope
    entry, loop = program.entry.path, candidate.source.at(candidate.loop.lineno)
    tests = [test for test, run in program.tests.items() if scope in (test, *run)]
    if tests and _TEST_FILE.fullmatch(entry.name) and scope not in program.reached:
        command = shlex.join(["instrument", "run", "-m", "pytest", str(seen_from_here(entry))])
        text = f"The loop runs in {tests[0].name}, which pytest calls, not the script."
        yield Caveat(UNCALLED_TEST, text, place=loop, hint=command)


def _of_the_calls(candidate: Candidate, source: Source) -> Iterator[Caveat]:
    distributed = False
    for call in source.calls:
        role = _role(candidate.knowledge, source, call)
        if role not in _TOLD or not _matters(candidate, source, call, role):
            continue
        if role is Role.DISTRIBUTED and distributed:
            continue  # the first call tells
        distributed |= role is Role.DISTRIBUTED
        kind, text = _TOLD[role]
        yield Caveat(kind, text.format(dotted(call.func)), place=source.at(call.lineno))


def _role(knowledge: Knowledge, source: Source, call: ast.Call) -> Role | None:
    scope = knowledge.program.scope_of(source, call)
    role = knowledge.role(source, scope, call)
    if role is None and callee(call) == "Process":  # of a context: `get_context("spawn")`
        known = knowledge.program.names.qualified(source, scope, call.func)
        return None if known else Role.PROCESS
    return role


def _matters(candidate: Candidate, source: Source, call: ast.Call, role: Role) -> bool:
    """Whether the run comes to a call, and its own end does not end what is started there."""
    if role is Role.DEBUGGER:
        return _before_stop(candidate, source, call)
    if role is Role.SPAWN:
        at = source.statement_of(call)
        return at is None or candidate.knowledge.may_run(source, at)
    if role is Role.DISTRIBUTED:
        return candidate.program.scope_of(source, call) in candidate.program.reached
    return role is not Role.PROCESS or argument(call, "daemon") is None


def _before_stop(candidate: Candidate, source: Source, node: ast.AST) -> bool:
    """Whether a run may come to it before the loop, or a call that leads there, is complete."""
    program, statement = candidate.program, source.statement_of(node)
    scope = program.scope_of(source, node)
    if statement is None:
        return True
    places = outwards(program, candidate.source, candidate.scope, candidate.loop)
    here = [at for _, where, at in places if where is scope]
    flow = flow_of(scope)
    return not here or flow.path(START, flow.before(statement), {flow.after(at) for at in here})


def _own_limits(candidate: Candidate) -> Iterator[Caveat]:
    """Timers of the loop's own, and a `break` on a count that may come before our stop."""
    source, scope = candidate.source, candidate.scope
    loops = [candidate.loop, *source.loops_around(candidate.loop)]
    counted = {c for loop in loops for c, _ in counters(loop)} | set(map(header_count, loops))
    for node in candidate.flow.statements:
        place = source.at(node.lineno)
        if isinstance(node, ast.If) and _counts_out(candidate, node, counted - {""}):
            text = (
                "The script ends its loop by a count of its own, which may leave too few steps to "
                "measure."
            )
            yield Caveat("own-limit", text, place=place)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            if candidate.knowledge.role(source, scope, node.value) is Role.CLOCK:
                yield Caveat("own-timer", "The script's own timer stays.", place=place)


def _counts_out(candidate: Candidate, node: ast.If, counted: set[str]) -> bool:
    """`if step >= max_steps: break`, of the loop itself and of none in its iterations."""
    leaves = candidate.source.loops_around(node)[:1] == [candidate.loop]
    return (
        leaves
        and any(isinstance(s, ast.Break) for s in node.body)
        and any(
            isinstance(test, ast.Compare)
            and any(isinstance(op, (ast.Gt, ast.GtE, ast.Eq)) for op in test.ops)
            and dotted(test.left) in counted
            and not _is_ample(candidate, test.comparators[0])
            for test in (node.test, *own_nodes(node.test))
        )
    )


def _is_ample(candidate: Candidate, limit: ast.expr) -> bool:
    """Whether a limit comes to a number, and to one that no run reaches."""
    options = candidate.knowledge.options
    told = written_out(limit)
    most = told.value if told else options and options.value(candidate.source, limit)
    return isinstance(most, (int, float)) and most > _MOST_SAMPLES


def of_the_syncs(regions: Sequence[Region]) -> Iterator[Caveat]:
    """On XLA an inserted sync makes other graphs than the script would."""
    for region in regions:
        if region.candidate.program.uses_xla and region.sync.action == "insert":
            yield Caveat(
                "sync-inserted",
                "A sync is inserted here. It cuts the graph where the script does not, and from "
                "the second step on the device draws other random numbers.",
                place=region.sync.source.at(region.end.lineno),
            )
