"""What a timed region runs that is no part of the step: named with its place, since it is timed.

The search follows the region's calls through the functions of the program, the forwards of its
models and methods that are looked up by a text (`getattr(callback, "on_forward_end")(...)`).
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.locate.gradients.leading import leading_to
from instrumentor.locate.gradients.walk import gradients_of
from instrumentor.locate.meaning import libraries, methods
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.host_values import host_reads, is_validation_name
from instrumentor.locate.meaning.roles import Kind
from instrumentor.locate.region.fetched import is_fetch
from instrumentor.locate.region.modes import Region
from instrumentor.read.constants import Constants, fixed
from instrumentor.read.names import external_name
from instrumentor.read.names_used import binds
from instrumentor.read.program import Class, Function
from instrumentor.read.syntax import (
    FUNCTIONS,
    LOOPS,
    ScopeNode,
    Source,
    arguments,
    called_on,
    callee,
    contains,
    dotted,
    parameters,
)
from instrumentor.read.values import External, Free, Member, Object, Opaque, Value, Values
from instrumentor_analysis.shared.caveats import Caveat

#: Functions that one region is searched through, and places of a kind that are named.
_MOST_FUNCTIONS, _MOST_PLACES = 500, 8


class _Called(NamedTuple):
    """A call, where it stands, what the calls that lead to it fix, and whether a model makes it."""

    source: Source
    scope: ScopeNode
    call: ast.Call
    known: Constants
    of_model: bool = False


def beside_the_step(
    regions: Sequence[Region],
    taken_out: Collection[ast.stmt] = (),
    staying: Mapping[ast.stmt, str] | None = None,
) -> Iterator[Caveat]:
    """Host reads, saves, fetches, copies and evaluations, of helpers a few of each kind.

    What is in a branch that the script's options leave out, or of an object made there, is not.

    Args:
        taken_out: statements that the run does without, or behind the clock.
        staying: evaluations and saves that are kept in the timed regions, and what each is.
    """
    reads = {c.place: c for region in regions for c in _reads_in_blocks(region, taken_out)}
    yield from reads.values()
    found: dict[str, dict[str, Caveat]] = {}
    for region in regions:
        for caveat in (*_of_region(region, taken_out), *_kept(region, staying or {})):
            if caveat.place not in reads or caveat.kind != "host-read-inside":
                found.setdefault(caveat.kind, {}).setdefault(caveat.place, caveat)
    for each in found.values():
        yield from islice(each.values(), _MOST_PLACES)


def _of_region(region: Region, taken_out: Collection[ast.stmt]) -> Iterator[Caveat]:
    everywhere = region.candidate.knowledge.everywhere
    region = replace(region, candidate=replace(region.candidate, knowledge=everywhere))
    body, knowledge = region.candidate, everywhere
    inside = _inside(region, taken_out)
    calls = [(c, s) for c, s in body.program.calls.get(body.scope, ()) if s in inside]
    ahead = region.begin if region.fetch is not None else None
    for call, statement in calls:
        if knowledge.is_save(body.source, body.scope, call):
            yield _told(knowledge, "save", "a save", "", body.source, call)
        elif _is_copy(knowledge, body.source, body.scope, call):
            yield _told(knowledge, "copy", "a copy to the device", "", body.source, call)
        elif is_fetch(knowledge, body.source, body.scope, call) and statement is not ahead:
            text = "The next batch is fetched inside the timed region."
            yield Caveat("fetch-inside", text, place=body.source.at(call.lineno))
    for call in _syncs_ahead(region, calls):
        yield _told(knowledge, "host-read", "a sync", "", body.source, call)
    inside_of = f"{body.scope.name}()" if isinstance(body.scope, FUNCTIONS) else ""
    for call in _evaluations(region, calls):
        yield _told(knowledge, "validation", "an evaluation", inside_of, body.source, call)
    start = (_Called(body.source, body.scope, call, {}) for call, _ in calls)
    search = _Search(knowledge)
    for function, of_model in search.functions(start):
        yield from search.in_function(function)
        yield from search.evaluations(function)
        yield from search.copies(function, of_model=of_model)
        if region.sites and not region.whole:
            yield from search.updates(function)


def _kept(region: Region, staying: Mapping[ast.stmt, str]) -> Iterator[Caveat]:
    body, inside = region.candidate, _inside(region)
    inside_of = f"{body.scope.name}()" if isinstance(body.scope, FUNCTIONS) else ""
    for statement, kind in staying.items():
        if statement in inside:
            told = ("save", "a save") if kind == "checkpoint" else (kind, "an evaluation")
            yield _told(body.knowledge, *told, inside_of, body.source, statement)


def holds(region: Region, source: Source, statement: ast.stmt) -> bool:
    """Whether a statement is timed with a region."""
    return source is region.candidate.source and statement in _inside(region)


def _syncs_ahead(region: Region, calls: Iterable[tuple[ast.Call, ast.stmt]]) -> Iterator[ast.Call]:
    """Syncs ahead of the last backward of a sample, by a function of the script's own as well."""
    body, flow = region.candidate, region.candidate.flow
    sites, ends = [s.statement for s in region.sites], {flow.after(e.after) for e in region.ends}
    for call, at in calls:
        ahead = sites and at not in sites and at in flow.begins
        if ahead and flow.path(flow.after(at), flow.before(sites[-1]), ends):
            if body.knowledge.is_sync(body.source, body.scope, call):
                yield call


def _reads_in_blocks(region: Region, taken_out: Collection[ast.stmt]) -> Iterator[Caveat]:
    """Host reads in blocks that are timed as a whole: with a backward, or at the end of a region.

    What stands beside a backward in a block moves nowhere: `if train_generator: ...`
    """
    body, ends = region.candidate, [end.after for end in region.ends]
    inside = _inside(region, taken_out)

    def is_whole(block: ast.stmt) -> bool:
        if not isinstance(block, (ast.If, ast.Match, ast.Try, *LOOPS)):
            return False
        held = any(contains(block, site.statement) for site in region.sites)
        return block in ends or (held and not any(contains(block, end) for end in ends))

    blocks = [*filter(is_whole, inside)]
    for statement in inside:
        if any(block is not statement and contains(block, statement) for block in blocks):
            for read in host_reads(statement, frozenset()):
                at = read if hasattr(read, "lineno") else statement
                yield _told(body.knowledge, "host-read", "a host read", "", body.source, at)


def _evaluations(region: Region, calls: Iterable[tuple[ast.Call, ast.stmt]]) -> Iterator[ast.Call]:
    """Calls that run a model with gradients off, and that no loss comes from."""
    body, gradients = region.candidate, gradients_of(region.candidate.knowledge)
    feeding = set[ast.stmt]().union(*(leading_to(body, site) for site in region.sites))
    for call, statement in calls:
        if statement in feeding or not body.evaluates(call):
            continue
        runs = (gradients.forwards(f.source, f.node, f.node.body) for f in body.called(call))
        if is_validation_name(callee(call)) or any(runs):
            yield call


def _inside(region: Region, taken_out: Collection[ast.stmt] = ()) -> list[ast.stmt]:
    """Statements of the body on a path from the begin of a region to one of its ends."""
    flow = region.candidate.flow
    ends = {flow.after(e.after) for e in region.ends}
    return [
        statement
        for statement in flow.statements
        if region.reaches(statement, ends)
        and (flow.after(statement) in ends or flow.path(flow.before(statement), ends))
        and not any(contains(out, statement) for out in taken_out)
    ]


class _Search(Struct, frozen=True):
    """The search through what a region calls, as far as the script's options let that run."""

    knowledge: Knowledge

    def functions(self, start: Iterable[_Called]) -> Iterator[tuple[Function, bool]]:
        """Functions that calls run, themselves or through others; whether a model runs them."""
        program = self.knowledge.program
        waiting, seen, told = [*start][::-1], set[object](), set[ScopeNode]()
        while waiting and len(seen) < _MOST_FUNCTIONS:
            called = waiting.pop()
            for function in self._run_by(called):
                known = fixed(program, called.scope, called.call, function, called.known)
                texts = {name: value for name, value in known.items() if isinstance(value, str)}
                visit = (function.node, *sorted(texts.items()))
                if visit in seen:
                    continue
                seen.add(visit)
                of_model = called.of_model or _is_of_model(self.knowledge, function)
                if function.node not in told:
                    told.add(function.node)
                    yield function, of_model
                waiting += [
                    _Called(function.source, function.node, call, texts, of_model)
                    for call in self._calls(function)
                ][::-1]

    def _calls(self, function: Function) -> list[ast.Call]:
        calls = self.knowledge.program.calls.get(function.node, ())
        return [c for c, at in calls if self.knowledge.may_run(function.source, at)]

    def _run_by(self, called: _Called) -> Iterator[Function]:
        """Functions that a call runs: its own, a model's forward, or what it is given."""
        program, call = self.knowledge.program, called.call
        called_on = program.of(called.source, called.scope, call.func)
        made = {
            v.made_by: v
            for v in called_on
            if isinstance(v, Object) and self.knowledge.may_be_made(v)
        }
        yield from self._resolved(called, called_on)
        yield from program.ran.get(call, ())
        # of several models one is run, nobody knows which, unless one wraps the others
        if len(made) - len(_wrapped(self.knowledge, made)) <= 1:
            for cls in made:
                if isinstance(cls, Class):
                    yield from program.methods(cls, "forward", overrides=False)
        for handed in arguments(call):
            if isinstance(handed, (ast.Name, ast.Attribute)):
                yield from program.run_by(called.source, called.scope, handed)
        yield from _dispatched(self.knowledge, called)

    def _resolved(self, called: _Called, called_on: Values) -> Iterator[Function]:
        """Those of the program, without methods of objects that the options never make."""
        of = {id(v.node): v.owner for v in called_on if isinstance(v, Function)}
        for function in self.knowledge.program.resolve(called.source, called.scope, called.call):
            if self.knowledge.may_be_made(of.get(id(function.node))):
                yield function

    # -- what a function does ----------------------------------------------------------------

    def evaluations(self, function: Function) -> Iterator[Caveat]:
        """Calls that run a model with gradients off, whose value goes nowhere or to be looked at.

        A value that is given a name may be the loss's: of such calls those named as evaluations.
        """
        knowledge, gradients = self.knowledge, gradients_of(self.knowledge)
        source, scope = function.source, function.node
        for call in self._calls(function):
            named = is_validation_name(callee(call))
            if not named and not isinstance(source.statement_of(call), ast.Expr):
                continue
            run = [
                f
                for f in knowledge.program.resolve(source, scope, call)
                if knowledge.evaluates(f) and not knowledge.has_backward(f)
            ]
            if run and (
                named or any(gradients.forwards(f.source, f.node, f.node.body) for f in run)
            ):
                inside = _named(function)
                yield _told(knowledge, "validation", "an evaluation", inside, source, call)

    def in_function(self, function: Function) -> Iterator[Caveat]:
        """What one of the functions does that is no part of a step."""
        knowledge, source, scope = self.knowledge, function.source, function.node
        inside = _named(function)
        for read in host_reads(ast.Module(scope.body, []), frozenset()):
            at = source.statement_of(read)
            if at is None or not knowledge.may_run(source, at):
                continue
            if not _is_of_host_library(knowledge, source, scope, read):
                where = read if hasattr(read, "lineno") else at
                yield _told(knowledge, "host-read", "a host read", inside, source, where)
        for call in self._calls(function):
            if knowledge.is_save(source, scope, call):
                yield _told(knowledge, "save", "a save", inside, source, call)
            elif is_fetch(knowledge, source, scope, call):
                if not _walks_what_it_has(knowledge, function, call):
                    what = "a fetch of the next batch"
                    yield _told(knowledge, "fetch", what, inside, source, call)

    def updates(self, function: Function) -> Iterator[Caveat]:
        """Optimizer steps of what a module trains by itself, within its forward."""
        for call in self._calls(function):
            if self.knowledge.is_step(function.source, function.node, call):
                text = (
                    f"{_named(function)} trains something else by itself: where the timed region "
                    "runs it, a sample covers that too."
                )
                yield Caveat("longer-sample", text, place=function.source.at(call.lineno))

    def copies(self, function: Function, *, of_model: bool) -> Iterator[Caveat]:
        """Copies to the device in a function whose call is timed.

        A model may have to move what it has computed, as one in parts does: of what it runs only
        copies of what it is given, or makes on the host, are told.
        """
        knowledge, source, scope = self.knowledge, function.source, function.node
        inside = _named(function)
        for call in self._calls(function):
            if not _is_copy(knowledge, source, scope, call):
                continue
            if not of_model or _is_of_host(knowledge, function, call):
                yield _told(knowledge, "copy", "a copy to the device", inside, source, call)


def _is_of_model(knowledge: Knowledge, function: Function) -> bool:
    cls = function.source.class_of.get(function.node)
    of_class = knowledge.kinds.of_class(Class(function.source, cls)) if cls is not None else None
    return of_class is Kind.MODEL


def _wrapped(knowledge: Knowledge, made: Mapping[Value, Object]) -> set[Value]:
    """Makers of objects that another of these is made of: `net` of `Wrapper(net)`."""
    found = set[Value]()
    for maker, value in made.items():
        if value.node is None or value.where is None:
            continue
        for node in arguments(value.node):
            inner = knowledge.program.of(*value.where, node)
            found |= {v.made_by for v in inner if isinstance(v, Object)} - {maker}
    return found & made.keys()


def _dispatched(knowledge: Knowledge, called: _Called) -> Iterator[Function]:
    """Methods that `getattr(each, name)(...)` may run, where the name is told on the way to it."""
    program = knowledge.program
    for value in program.of(called.source, called.scope, called.call.func):
        if not isinstance(value, Object) or value.node is None:
            continue
        if external_name(value.made_by) != "builtins.getattr":
            continue
        owner, name, *_ = [*value.node.args, None, None]
        word = name.value if isinstance(name, ast.Constant) else called.known.get(dotted(name))
        if isinstance(word, str) and owner is not None:
            owners = program.of(called.source, called.scope, owner)
            made = [o.made_by for o in owners if isinstance(o, Object)]
            classes = [cls for cls in made if isinstance(cls, Class)]
            for cls in classes:
                yield from program.methods(cls, word, overrides=True)
            if not classes:
                yield from program.methods_by_name.get(word, ())


# -- single statements ----------------------------------------------------------------------------


def _walks_what_it_has(knowledge: Knowledge, function: Function, call: ast.Call) -> bool:
    """Whether `next` takes from an iterator that the same call of the function made, of no data.

    `steps = enumerate(scores)`, then `next(steps)`: a walk over what was computed.
    """
    source, scope = function.source, function.node
    taken = call.args[0] if call.args else call.func
    values = knowledge.values(source, scope, taken)
    made = [v.node for v in values if isinstance(v, Object) and v.where == (source, scope)]
    return 0 < len(made) == len(values) and not any(
        knowledge.kinds.is_a(source, scope, walked, Kind.DATA)
        for node in made
        for walked in (node.args if node is not None else ())
    )


def _is_of_host_library(
    knowledge: Knowledge, source: Source, scope: ScopeNode, read: ast.AST
) -> bool:
    """`tolist()` of what NumPy has made waits for no device."""
    if not isinstance(read, ast.Call) or not isinstance(read.func, ast.Attribute):
        return False
    values = knowledge.values(source, scope, read.func.value)
    names = [external_name(v.made_by if isinstance(v, Object) else v) for v in values]
    return bool(names) and all(libraries.is_on_host(name.partition(".")[0]) for name in names)


def _is_of_host(knowledge: Knowledge, function: Function, call: ast.Call) -> bool:
    """Whether what a call moves is a batch as a model gets it, or was made where it stands."""
    source, scope = function.source, function.node
    node = called_on(call)
    while not isinstance(node, ast.Name):
        if any(map(_is_made_on_host, knowledge.values(source, scope, node))):
            return True
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        else:
            return False
    if any(map(_is_made_on_host, knowledge.values(source, scope, node))):
        return True
    given = parameters(scope) - {"self", "cls"} if scope in source.class_of else set[str]()
    bound = (s for s in scope.body if s.lineno < call.lineno and node.id in binds(s))
    return node.id in given and next(bound, None) is None


def _is_made_on_host(value: Value) -> bool:
    """`torch.zeros(8)`: a tensor for which nothing says on which device it is to be."""
    if not isinstance(value, Object) or value.node is None:
        return False
    root, _, word = external_name(value.made_by).rpartition(".")
    placed = any(k.arg in ("device", None) for k in value.node.keywords)
    return root == "torch" and word in methods.MAKES_DATA and not placed


def _told(
    knowledge: Knowledge, kind: str, what: str, inside: str, source: Source, at: ast.AST
) -> Caveat:
    text = f"{what[:1].upper()}{what[1:]} inside {inside}" if inside else what.capitalize()
    place = source.at(getattr(at, "lineno", 1))
    alike = [path for path in knowledge.program.sources if path.name == source.path.name]
    if len(alike) > 1 and source is not knowledge.program.entry:
        place = f"{source.path.parent.name}/{place}"
    return Caveat(f"{kind}-inside", f"{text} is inside the timed region.", place=place)


def _named(function: Function) -> str:
    """`Net.forward()`: many classes have one."""
    cls = function.source.class_of.get(function.node)
    owner = f"{cls.name}." if cls is not None and function.name == "forward" else ""
    return f"{owner}{function.name}()"


def _is_copy(knowledge: Knowledge, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
    """`x.cuda()`, `x.to(device)`, or a tensor of what NumPy or the host holds."""
    match call:
        case ast.Call(func=ast.Attribute(attr="cuda" | "to" as word, value=owner)):
            moved = word == "cuda" or any(
                _is_device(knowledge, source, scope, given) for given in arguments(call)
            )
            return moved and not knowledge.is_model(source, scope, owner)
    names = map(external_name, knowledge.values(source, scope, call.func))
    return any(name in methods.COPIES_FROM_HOST for name in names) and not all(
        isinstance(node, (ast.Constant, ast.List, ast.UnaryOp)) for node in call.args
    )


def _is_device(knowledge: Knowledge, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
    """Whether an argument of `to` says where to: by its value, not by a variable's name."""
    match node:
        case ast.Constant(value=str(text)):
            return text.split(":")[0] != "cpu"
        case ast.Attribute(attr=word) if "device" in word.lower():
            return True
    return any(map(_stands_for_device, knowledge.values(source, scope, node)))


def _stands_for_device(value: Value) -> bool:
    match value:
        case Object(made_by=maker, node=made):
            return not _names_the_cpu(made) and _stands_for_device(maker)
        case Free(name=name) | External(name=name) | Member(name=name):
            return "device" in name.lower()
        case Opaque(node=node):
            texts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
            kinds = {text.split(":")[0] for text in texts if isinstance(text, str)}
            return bool(kinds & {"cuda", "xla", "mps", "tt"})
    return False


def _names_the_cpu(made: ast.Call | None) -> bool:
    """`torch.device("cpu")`: what is copied there stays where it is."""
    match made:
        case ast.Call(args=[ast.Constant(value=str(text)), *_]):
            return text.split(":")[0] == "cpu"
    return False
