"""The modules a script is made of, and which function a call means.

`Program.single` holds one module (what `rewrite()` sees); `Program.load` follows imports of the
entry script inside its repository, never into installed packages, and reads only what is
reachable. Types are inferred by what is instantiated (`trainer = LoraTrainer(...)`), with
overrides of subclasses and definitions of base classes both counted.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import field

from instrumentor.read.bindings import Bindings
from instrumentor.read.names import Names
from instrumentor.read.syntax import (
    PROGRAM_BYTES,
    SOURCE_BYTES,
    FunctionNode,
    ScopeNode,
    Source,
    arguments,
    dotted,
    last,
    own_calls,
    own_nodes,
    parse,
)
from instrumentor.read.values import Class, Function
from instrumentor_analysis.shared.files import read_bytes

MODULE_LIMIT = 400
__all__ = ["Class", "Function", "Program"]


class Program(Names, eq=False, dict=True):
    """Modules with their names resolved, and who calls whom.

    ran: functions that a run has seen a call to come to, beside those that reading shows. They may
    be some of many: nothing is concluded from what is not among them.
    """

    ran: dict[ast.Call, list[Function]] = field(default_factory=dict)

    @classmethod
    def single(cls, source: Source, roots: Sequence[Path] = ()) -> Program:
        return cls(source, tuple(roots), {source.path: source})

    @cached_property
    def whole(self) -> Program:
        """With the modules that the entry imports; itself when there is nowhere to look."""
        if len(self.sources) > 1 or not self.roots or self.ran:
            return self
        return Program.load(self.entry, self.roots, self.bindings)

    @classmethod
    def load(
        cls,
        source: Source,
        roots: Sequence[Path],
        bindings: Mapping[Source, Bindings] | None = None,
        also: Sequence[Source] = (),
    ) -> Program:
        """Follow the imports of `source` within `roots`.

        Files that do not parse are left out, and what follows after so many files or bytes.

        Args:
            also: modules that no import shows, whose imports are followed too.
        """
        queue = [source, *also]
        program = cls(source, tuple(roots), {s.path: s for s in queue}, dict(bindings or {}))
        left = PROGRAM_BYTES
        while queue and left > 0 and len(program.sources) < MODULE_LIMIT:
            for path in program.imported_files(queue.pop(0)):
                if path in program.sources or path in program.broken:
                    continue
                try:
                    found = parse(path, read_bytes(path, SOURCE_BYTES))
                except SyntaxError as error:
                    program.broken[path] = error
                    continue
                except OSError:
                    continue
                left -= len(found.data)
                program.sources[path] = found
                queue.append(found)
        return program

    @cached_property
    def uses_xla(self) -> bool:
        """Whether a module of it speaks of torch_xla."""
        return any(b"torch_xla" in source.data for source in self.sources.values())

    @property
    def names(self) -> Names:
        """The program as what resolves expressions."""
        return self

    # -- who calls whom --------------------------------------------------------------------

    @cached_property
    def callers(self) -> dict[FunctionNode, list[tuple[ScopeNode, ast.Call, ast.stmt]]]:
        """Who calls a function: scope, call and the statement that holds it."""
        table: dict[FunctionNode, list[tuple[ScopeNode, ast.Call, ast.stmt]]] = defaultdict(list)
        for scope, entries in self.calls.items():
            source = self.source_of_scope[scope]
            for call, statement in entries:
                for function in self.resolve(source, scope, call):
                    table[function.node].append((scope, call, statement))
        return table

    def callers_of(self, function: FunctionNode) -> list[tuple[ScopeNode, ast.Call, ast.stmt]]:
        """Who calls a function, as far as reading or a run shows it; there may be others."""
        return [*self.callers.get(function, ()), *self._callers_seen.get(function, ())]

    @cached_property
    def _callers_seen(self) -> dict[FunctionNode, list[tuple[ScopeNode, ast.Call, ast.stmt]]]:
        table: dict[FunctionNode, list[tuple[ScopeNode, ast.Call, ast.stmt]]] = defaultdict(list)
        for scope, entries in self.calls.items() if self.ran else ():
            for call, statement in entries:
                for function in self.ran.get(call, ()):
                    table[function.node].append((scope, call, statement))
        return table

    def calls_between(self, caller: Function, called: Function) -> list[tuple[ast.Call, ast.stmt]]:
        """Where one function calls another."""
        calls = self.callers.get(called.node, ())
        return [(call, at) for scope, call, at in calls if scope is caller.node]

    @cached_property
    def handed(self) -> dict[FunctionNode, list[tuple[ScopeNode, ast.expr]]]:
        """Where functions are named and not called there, or called by a lambda.

        Who gets them may call them, at any time.
        """
        words = {f.name for source in self.sources.values() for f in source.functions}
        found: dict[FunctionNode, list[tuple[ScopeNode, ast.expr]]] = defaultdict(list)
        for source in self.sources.values():
            called = {call.func for call in source.calls}
            named = [
                n
                for n in source.nodes
                if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Load)
                if last(dotted(n)) in words and n not in called
            ]
            for node in named:
                for value in self.of(source, source.scope_of(node), node):
                    if isinstance(value, Function):
                        found[value.node].append((source.scope_of(node), node))
            for call in (c for inner in source.lambdas for c in own_calls(inner)):
                for function in self.resolve(source, source.scope_of(call), call):
                    found[function.node].append((source.scope_of(call), call))
        return found

    def called_from(
        self, scope: ScopeNode, body: Sequence[ast.stmt], never: Iterable[ast.stmt] = ()
    ) -> dict[ScopeNode, None]:
        """Functions that statements of a scope run, themselves or through others, in one order.

        A set of nodes is in the order of their addresses: what is asked of them in turn, and what
        a budget then leaves unanswered, would differ from run to run.

        Args:
            never: statements anywhere that are not run, with what is in them.
        """
        out = {n for top in never for n in (top, *own_nodes(top))}
        inside = {n for top in body for n in (top, *own_nodes(top))} - out
        stack = [(scope, call) for call, s in self.calls.get(scope, ()) if s in inside]
        found: dict[ScopeNode, None] = {}
        while stack:
            where, call = stack.pop()
            for function in self._run_with(where, call):
                if function.node not in found:
                    found[function.node] = None
                    calls = self.calls.get(function.node, ())
                    stack += [(function.node, c) for c, s in calls if s not in out]
        return found

    def _run_with(self, scope: ScopeNode, call: ast.Call) -> list[Function]:
        """Functions that a call may run: the one that it calls, and those that it hands on."""

        def run() -> list[Function]:
            handed = [a for a in arguments(call) if isinstance(a, (ast.Name, ast.Attribute))]
            source = self.source_of_scope[scope]
            read = [f for each in (call.func, *handed) for f in self.run_by(source, scope, each)]
            return [*read, *self.ran.get(call, ())]

        return self._answers.ask(("with what it hands on", call), run, [])

    def reached_by_tests(self, test: str) -> dict[ScopeNode, None]:
        """Scopes that pytest may come to by tests of the entry.

        Args:
            test: `::TestClass::test_name[parameters]`, or its beginning; '' for all tests.
        """
        wanted = test.partition("[")[0].split("::")[1:]
        found: dict[ScopeNode, None] = {}
        for function, run in self.tests.items():
            around = self.entry.class_of.get(function)
            path = [*([around.name] if around else []), function.name]
            if path[: len(wanted)] == wanted:
                found[function] = None
                found |= run
        return found

    @cached_property
    def tests(self) -> dict[FunctionNode, dict[ScopeNode, None]]:
        """The entry's functions that pytest takes for tests, each with those that it runs."""
        found = (f for f in self.entry.functions if f.name.startswith("test"))
        return {test: self.called_from(test, test.body) for test in found}

    @cached_property
    def reached(self) -> dict[ScopeNode, None]:
        """Scopes that the entry's module-level code may come to, what it hands on included."""
        return {self.entry.tree: None} | self.called_from(self.entry.tree, self.entry.tree.body)
