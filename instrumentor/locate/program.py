"""The modules a script is made of, and which function a call means.

`Program.single` holds one module (what `rewrite()` sees); `Program.load` follows imports of the
entry script inside its repository, never into installed packages, and reads only what is
reachable. Types are inferred by what is instantiated (`trainer = LoraTrainer(...)`), with
overrides of subclasses and definitions of base classes both counted.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field

from instrumentor.locate.bindings import Bindings
from instrumentor.locate.dynamic_imports import computed_imports, modules_of
from instrumentor.locate.names import Names, external_name
from instrumentor.locate.syntax import (
    FUNCTIONS,
    FunctionNode,
    ScopeNode,
    Source,
    all_parameters,
    arguments,
    callee,
    children,
    dotted,
    last,
    own_calls,
    own_nodes,
    parse,
)
from instrumentor.locate.values import Class, Function, Method, Value

MODULE_LIMIT = 400
__all__ = ["Class", "Function", "Program"]


class Program(Struct, eq=False, dict=True):
    """Modules by path, the entry first; resolution of names, methods and imports."""

    entry: Source
    roots: tuple[Path, ...] = ()
    sources: dict[Path, Source] = field(default_factory=dict)
    bindings: dict[Source, Bindings] = field(default_factory=dict)
    _modules: dict[tuple[str, Path, int], Path | None] = field(default_factory=dict)
    _heads: dict[tuple[Path, str], bool] = field(default_factory=dict)

    @classmethod
    def single(cls, source: Source, roots: Sequence[Path] = ()) -> Program:
        return cls(source, tuple(roots), {source.path: source})

    @cached_property
    def whole(self) -> Program:
        """With the modules that the entry imports; itself when there is nowhere to look."""
        if len(self.sources) > 1 or not self.roots:
            return self
        return Program.load(self.entry, self.roots, self.bindings)

    @classmethod
    def load(
        cls,
        source: Source,
        roots: Sequence[Path],
        bindings: Mapping[Source, Bindings] | None = None,
    ) -> Program:
        """Follow the imports of `source` within `roots` (files that do not parse are left out)."""
        program = cls(source, tuple(roots), {source.path: source}, dict(bindings or {}))
        queue = [source]
        while queue and len(program.sources) < MODULE_LIMIT:
            current = queue.pop(0)
            for path in program.imported_files(current):
                if path in program.sources:
                    continue
                try:
                    found = parse(path, path.read_bytes())
                except (SyntaxError, OSError):
                    continue
                program.sources[path] = found
                queue.append(found)
        return program

    @cached_property
    def uses_xla(self) -> bool:
        """Whether a module of it speaks of torch_xla."""
        return any(b"torch_xla" in source.data for source in self.sources.values())

    # -- imports ---------------------------------------------------------------------------

    def find_module(self, name: str, near: Path, level: int = 0) -> Path | None:
        """The file of a module inside the roots: `a/b.py` or `a/b/__init__.py`, else None."""
        key = (name, near, level)
        if key not in self._modules:
            above = near.parents
            bases = [above[min(level, len(above)) - 1]] if level else [*self.roots, near.parent]
            head = name.partition(".")[0]
            found = (_module_in(base, name) for base in bases if self._holds(base, head))
            self._modules[key] = next((path for path in found if path is not None), None)
        return self._modules[key]

    def _holds(self, base: Path, head: str) -> bool:
        """Whether modules of that first name may lie there: asked of `torch` once, not by each."""
        if (base, head) not in self._heads:
            there = (base / f"{head}.py").is_file() or (base / head).is_dir()
            self._heads[base, head] = there
        return self._heads[base, head]

    def imported_files(self, source: Source) -> Iterator[Path]:
        """Files of the modules that a module imports; of computed names, any that they may mean."""
        for call in computed_imports(source) if b"import_" in source.data else ():
            yield from modules_of(source, self.bindings_of(source), call, self.roots)
        for statement in source.places:
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    path = self.find_module(alias.name, source.path)
                    if path is not None:
                        yield path
            elif isinstance(statement, ast.ImportFrom):
                module = statement.module or ""
                path = self.find_module(module, source.path, statement.level)
                if path is not None:
                    yield path
                for alias in statement.names:
                    name = f"{module}.{alias.name}" if module else alias.name
                    path = self.find_module(name, source.path, statement.level)
                    if path is not None:
                        yield path

    def bindings_of(self, source: Source) -> Bindings:
        """What a module binds, read once."""
        found = self.bindings.get(source)
        if found is None:
            found = self.bindings[source] = Bindings(source)
        return found

    # -- names -----------------------------------------------------------------------------

    @cached_property
    def names(self) -> Names:
        return Names(self)

    def resolve(self, source: Source, scope: ScopeNode, call: ast.Call) -> list[Function]:
        """The program's functions a call may run; empty when it leaves the program."""
        return self.names.functions(source, scope, call)

    def lookup(self, source: Source, name: str) -> Function | Class | Source | None:
        """What a module-level (dotted) name means, through re-exports; None outside the program."""
        if not re.fullmatch(r"\w+(\.\w+)*", name):
            return None
        head, *rest = name.split(".")
        values = self.names.named(source, source.tree, head)
        for word in rest:
            values = tuple(v for owner in values for v in self.names.attribute(owner, word))
        return next((v for v in values if isinstance(v, (Function, Class, Source))), None)

    # -- classes ---------------------------------------------------------------------------

    def bases(self, cls: Class) -> list[Class]:
        """The class and its bases within the program, nearest first."""
        cached = self._bases.get(cls.node)
        if cached is None:
            cached = self._bases[cls.node] = [cls]
            for target in self._base_values(cls):
                if isinstance(target, Class) and target not in cached:
                    cached.extend(c for c in self.bases(target) if c not in cached)
        return cached

    def external_bases(self, cls: Class) -> list[str]:
        """Qualified names of the installed classes that a class is derived from."""
        values = [v for own in self.bases(cls) for v in self._base_values(own)]
        return [name for name in map(external_name, values) if name]

    def _base_values(self, cls: Class) -> list[Value]:
        scope = cls.source.scope_of(cls.node)
        return [v for base in cls.node.bases for v in self.names.of(cls.source, scope, base)]

    @cached_property
    def _bases(self) -> dict[ast.ClassDef, list[Class]]:
        return {}

    @cached_property
    def all_classes(self) -> list[Class]:
        return [Class(s, c) for s in self.sources.values() for c in s.classes]

    @cached_property
    def subclasses(self) -> dict[ast.ClassDef, list[Class]]:
        table: dict[ast.ClassDef, list[Class]] = defaultdict(list)
        for cls in self.all_classes:
            for base in self.bases(cls)[1:]:
                table[base.node].append(cls)
        return table

    def method(self, cls: Class, name: str) -> Function | None:
        """A method that the class itself defines; of several definitions the last one counts."""
        found = [
            s
            for s in cls.node.body
            if isinstance(s, FUNCTIONS) and s.name == name and not _is_setter(s)
        ]
        return Function(cls.source, found[-1]) if found else None

    def methods(self, cls: Class, name: str, *, overrides: bool) -> list[Function]:
        """The definition found from `cls` upwards, plus those of its subclasses."""
        owners = [self.method(owner, name) for owner in self.bases(cls)]
        found = [method for method in owners if method is not None][:1]
        for sub in self.subclasses.get(cls.node, ()) if overrides else ():
            method = self.method(sub, name)
            if method is not None and method not in found:
                found.append(method)
        return found

    @cached_property
    def methods_by_name(self) -> dict[str, list[Function]]:
        table: dict[str, list[Function]] = defaultdict(list)
        for source in self.sources.values():
            for function in source.class_of:
                table[function.name].append(Function(source, function))
        return table

    def enclosing_class(self, source: Source, scope: ScopeNode) -> Class | None:
        current = scope
        while isinstance(current, FUNCTIONS):
            if current in source.class_of:
                return Class(source, source.class_of[current])
            current = source.scope_of(current)
        return None

    def class_of_self(self, source: Source, scope: ScopeNode, node: ast.expr) -> Class | None:
        """The class whose object a plain name is, as the first parameter of a method."""
        current = scope
        while isinstance(node, ast.Name) and isinstance(current, FUNCTIONS):
            if current in source.class_of:
                first = next(iter(all_parameters(current)), None)
                own = first is not None and first.arg == node.id
                return Class(source, source.class_of[current]) if own else None
            current = source.scope_of(current)
        return None

    # -- call graph ------------------------------------------------------------------------

    @cached_property
    def calls(self) -> dict[ScopeNode, list[tuple[ast.Call, ast.stmt]]]:
        """Calls by the scope that makes them (decorators and defaults belong to the outside)."""
        table: dict[ScopeNode, list[tuple[ast.Call, ast.stmt]]] = defaultdict(list)
        for source in self.sources.values():
            for statement, place in source.places.items():
                for child in children(statement):
                    if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                        continue
                    for call in own_calls(child):
                        table[place.scope].append((call, statement))
                for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                    for call in _header_calls(part):
                        table[place.scope].append((call, statement))
        for entries in table.values():
            entries.sort(key=lambda e: (e[0].lineno, e[0].col_offset))
        return table

    @staticmethod
    def scope_of(source: Source, node: ast.AST) -> ScopeNode:
        """The scope in which an expression stands."""
        statement = source.statement_of(node)
        return source.tree if statement is None else source.scope_of(statement)

    @cached_property
    def handed(self) -> dict[FunctionNode, list[tuple[ScopeNode, ast.expr]]]:
        """Where functions are named and not called there: who gets them may call them."""
        words = {f.name for source in self.sources.values() for f in source.functions}
        found: dict[FunctionNode, list[tuple[ScopeNode, ast.expr]]] = defaultdict(list)
        for source in self.sources.values():
            called = {call.func for call in source.calls}
            for node in source.nodes:
                if not isinstance(node, (ast.Name, ast.Attribute)) or node in called:
                    continue
                if last(dotted(node)) in words and isinstance(node.ctx, ast.Load):
                    scope = self.scope_of(source, node)
                    for value in self.names.of(source, scope, node):
                        function = value.function if isinstance(value, Method) else value
                        if isinstance(function, Function):
                            found[function.node].append((scope, node))
        return found

    @cached_property
    def in_lambdas(self) -> dict[FunctionNode, list[tuple[ScopeNode, ast.expr]]]:
        """Calls in lambdas of each function: they may run at any time."""
        found: dict[FunctionNode, list[tuple[ScopeNode, ast.expr]]] = defaultdict(list)
        for source in self.sources.values():
            for call in (c for inner in source.lambdas for c in own_calls(inner)):
                scope = self.scope_of(source, call)
                for function in self.resolve(source, scope, call):
                    found[function.node].append((scope, call))
        return found

    @cached_property
    def source_of_scope(self) -> dict[ScopeNode, Source]:
        table: dict[ScopeNode, Source] = {}
        for source in self.sources.values():
            table[source.tree] = source
            for function in source.functions:
                table[function] = source
        return table

    def called_from(self, scope: ScopeNode, body: Sequence[ast.stmt]) -> set[ScopeNode]:
        """Functions that statements of a scope run, themselves or through others."""
        inside = {n for top in body for n in (top, *own_nodes(top))}
        first = [call for call, s in self.calls.get(scope, ()) if s in inside]
        found: set[ScopeNode] = set()
        stack = [(scope, call) for call in first]
        while stack:
            where, call = stack.pop()
            source = self.source_of_scope[where]
            handed = [ast.Call(a, [], []) for a in arguments(call) if isinstance(a, _NAMED)]
            for each in (call, *handed):
                for function in self.names.functions(source, where, each):
                    if function.node not in found:
                        found.add(function.node)
                        stack += [(function.node, c) for c, _ in self.calls.get(function.node, ())]
        return found

    @cached_property
    def reached(self) -> set[ScopeNode]:
        """Scopes that the entry's module-level code may come to, what it hands on included."""
        entry = self.entry.tree
        return {entry} | self.called_from(entry, entry.body)

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

    @cached_property
    def all_calls(self) -> list[tuple[Source, ScopeNode, ast.Call]]:
        return [call for calls in self._calls_by_word.values() for call in calls]

    def calls_named(self, word: str) -> list[tuple[Source, ScopeNode, ast.Call]]:
        """Calls whose function is written with this last word."""
        return self._calls_by_word.get(word, [])

    @cached_property
    def _calls_by_word(self) -> dict[str, list[tuple[Source, ScopeNode, ast.Call]]]:
        table: dict[str, list[tuple[Source, ScopeNode, ast.Call]]] = defaultdict(list)
        for scope, entries in self.calls.items():
            source = self.source_of_scope[scope]
            for call, _ in entries:
                table[callee(call)].append((source, scope, call))
        return table

    @cached_property
    def backward_words(self) -> set[str]:
        """Other names under which a backward may be called."""
        imported = {
            alias.asname
            for source in self.sources.values()
            for node in source.places
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.name == "backward" and alias.asname
        }
        return imported | self.other_words.get("backward", set())

    @cached_property
    def other_words(self) -> dict[str, set[str]]:
        """Names that are bound to something written with a word: `run` of `run = self.step`."""
        table: dict[str, set[str]] = defaultdict(set)
        for source in self.sources.values():
            for node in source.places:
                if isinstance(node, ast.Assign) and isinstance(node.value, _MAY_ALIAS):
                    given = node.value.args if isinstance(node.value, ast.Call) else ()
                    words = {last(dotted(value)) for value in (node.value, *given)}
                    for target in map(dotted, node.targets):
                        for word in words - {"", last(target)}:
                            table[word].add(last(target))
        return table


def _module_in(base: Path, name: str) -> Path | None:
    package = base.joinpath(*name.split("."))
    module = [package.with_name(f"{package.name}.py")] if name else []
    return next((path for path in (*module, package / "__init__.py") if path.is_file()), None)


_NAMED = (ast.Name, ast.Attribute)
_MAY_ALIAS = (ast.Name, ast.Attribute, ast.Call)


def _is_setter(function: FunctionNode) -> bool:
    """`@x.setter` or `@x.deleter`: not what reading the attribute runs."""
    words = [d.attr for d in function.decorator_list if isinstance(d, ast.Attribute)]
    return not {"setter", "deleter"}.isdisjoint(words)


def _header_calls(part: ast.AST) -> Iterator[ast.Call]:
    for name in ("type", "guard", "pattern"):
        value = getattr(part, name, None)
        if isinstance(value, ast.AST):
            yield from own_calls(value)
