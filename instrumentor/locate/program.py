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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from instrumentor.locate.syntax import (
    FUNCTIONS,
    FunctionNode,
    ScopeNode,
    Source,
    children,
    dotted,
    own_calls,
    parse,
)
from instrumentor.locate.vocabulary import callee, looks_like_model, looks_like_optimizer

MODULE_LIMIT = 400
_WRAPPERS = frozenset({"compile", "partial", "jit", "no_grad", "script", "checkpoint", "wraps"})


@dataclass(frozen=True)
class Function:
    """A function or method of one of the program's modules."""

    source: Source
    node: FunctionNode

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(frozen=True)
class Class:
    source: Source
    node: ast.ClassDef


@dataclass(eq=False)
class Program:
    """Modules by path, the entry first; resolution of names, methods and imports."""

    entry: Source
    roots: tuple[Path, ...] = ()
    sources: dict[Path, Source] = field(default_factory=dict)

    @classmethod
    def single(cls, source: Source) -> Program:
        return cls(source, (), {source.path: source})

    @classmethod
    def load(cls, source: Source, roots: Sequence[Path]) -> Program:
        """Follow the imports of `source` within `roots` (files that do not parse are left out)."""
        program = cls(source, tuple(roots), {source.path: source})
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

    # -- imports ---------------------------------------------------------------------------

    def find_module(self, name: str, near: Path, level: int = 0) -> Path | None:
        """The file of a module inside the roots: `a/b.py` or `a/b/__init__.py`, else None."""
        if level:
            base = near.parent
            for _ in range(level - 1):
                base = base.parent
            bases: Sequence[Path] = (base,)
        else:
            bases = (*self.roots, near.parent)
        parts = name.split(".") if name else []
        for base in bases:
            package = base.joinpath(*parts)
            candidates = [package / "__init__.py"]
            if parts:
                candidates.insert(0, package.with_name(f"{parts[-1]}.py"))
            for candidate in candidates:
                if candidate.is_file():
                    return candidate
        return None

    def imported_files(self, source: Source) -> Iterator[Path]:
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

    def _bindings(self, source: Source) -> dict[str, object]:
        cached = self._binding_cache.get(source.path)
        if cached is not None:
            return cached
        names: dict[str, object] = {}
        self._binding_cache[source.path] = names
        for statement, place in source.places.items():
            if isinstance(statement, ast.ImportFrom):
                module = statement.module or ""
                origin = self.find_module(module, source.path, statement.level)
                for alias in statement.names:
                    full = f"{module}.{alias.name}" if module else alias.name
                    inner = self.find_module(full, source.path, statement.level)
                    if inner is not None and inner in self.sources:
                        names[alias.asname or alias.name] = self.sources[inner]
                    elif origin is not None and origin in self.sources:
                        names[alias.asname or alias.name] = (self.sources[origin], alias.name)
            elif isinstance(statement, ast.Import):
                for alias in statement.names:
                    path = self.find_module(alias.name, source.path)
                    if path is not None and path in self.sources:
                        names[alias.asname or alias.name] = self.sources[path]
            elif place.scope is source.tree:
                if isinstance(statement, FUNCTIONS) and statement not in source.class_of:
                    names[statement.name] = Function(source, statement)
                elif isinstance(statement, ast.ClassDef):
                    names[statement.name] = Class(source, statement)
        return names

    @cached_property
    def _binding_cache(self) -> dict[Path, dict[str, object]]:
        return {}

    def lookup(self, source: Source, name: str, depth: int = 0) -> Function | Class | Source | None:
        """What a module-level (dotted) name means, through re-exports."""
        head, _, rest = name.partition(".")
        value = self._bindings(source).get(head)
        if isinstance(value, tuple):
            value = self.lookup(value[0], value[1], depth + 1) if depth < 12 else None
        if rest and isinstance(value, Source):
            return self.lookup(value, rest, depth + 1) if depth < 12 else None
        if rest:
            dotted_module = self._bindings(source).get(name.rpartition(".")[0])
            if isinstance(dotted_module, Source):
                return self.lookup(dotted_module, name.rpartition(".")[2], depth + 1)
            return None
        return value if isinstance(value, (Function, Class, Source)) else None

    # -- classes ---------------------------------------------------------------------------

    def bases(self, cls: Class) -> list[Class]:
        """The class and its bases within the program, nearest first."""
        found = [cls]
        for base in cls.node.bases:
            target = self.lookup(cls.source, dotted(base))
            if isinstance(target, Class) and target not in found:
                found.extend(c for c in self.bases(target) if c not in found)
        return found

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

    def methods(self, cls: Class, name: str, *, overrides: bool) -> list[Function]:
        """The definition found from `cls` upwards, plus those of its subclasses."""
        found: list[Function] = []
        for owner in self.bases(cls):
            method = _method(owner, name)
            if method is not None:
                found.append(method)
                break
        if overrides:
            for sub in self.subclasses.get(cls.node, []):
                method = _method(sub, name)
                if method is not None and method not in found:
                    found.append(method)
        return found

    # -- calls -----------------------------------------------------------------------------

    def resolve(self, source: Source, scope: ScopeNode, call: ast.Call) -> list[Function]:
        """The program's functions a call may run; empty when it leaves the program."""
        function = call.func
        if isinstance(function, ast.Name):
            return self._resolve_name(source, scope, function.id)
        if not isinstance(function, ast.Attribute):
            return []
        name, owner = function.attr, dotted(function.value)
        if owner in ("self", "cls") or owner == "super()":
            cls = self._enclosing_class(source, scope)
            if cls is None:
                return []
            if owner == "super()":
                return [
                    m for b in self.bases(cls)[1:] for m in self.methods(b, name, overrides=False)
                ][:1]
            found = self.methods(cls, name, overrides=True)
            return found or self._attribute_alias(source, cls, name)
        target = self.lookup(source, f"{owner}.{name}") if owner else None
        if isinstance(target, Function):
            return [target]
        for cls in self._types(source, scope, function.value):
            found = self.methods(cls, name, overrides=False)
            if found:
                return found
        return self._by_method_name(source, scope, owner, name, call)

    def _resolve_name(
        self, source: Source, scope: ScopeNode, name: str, depth: int = 0
    ) -> list[Function]:
        local = self._local_function(source, scope, name)
        if local is not None:
            return [local]
        if depth < 4:
            for value in self._assigned(source, scope).get(name, ()):
                inner = _wrapped_function(value)
                if inner and inner != name:
                    found = self._resolve_name(source, scope, inner, depth + 1)
                    if found:
                        return found
        target = self.lookup(source, name)
        if isinstance(target, Function):
            return [target]
        if isinstance(target, Class):
            return self.methods(target, "__init__", overrides=False)
        return []

    def _local_function(self, source: Source, scope: ScopeNode, name: str) -> Function | None:
        """A function defined in the scope itself or one around it, the module's left out."""
        current: ScopeNode = scope
        while isinstance(current, FUNCTIONS):
            function = self._nested(source).get((current, name))
            if function is not None:
                return Function(source, function)
            current = source.places[current].scope
        return None

    def _nested(self, source: Source) -> dict[tuple[ScopeNode, str], FunctionNode]:
        table = self._nested_cache.get(source.path)
        if table is None:
            table = {
                (source.places[f].scope, f.name): f
                for f in source.functions
                if f not in source.class_of
            }
            self._nested_cache[source.path] = table
        return table

    @cached_property
    def _nested_cache(self) -> dict[Path, dict[tuple[ScopeNode, str], FunctionNode]]:
        return {}

    def _attribute_alias(self, source: Source, cls: Class, name: str) -> list[Function]:
        """`self.step_fn = compute` / `= torch.compile(compute)` set anywhere in the class."""
        for owner in self.bases(cls):
            for inner in self._attribute_functions(owner).get(name, ()):
                target = self.lookup(owner.source, inner)
                if isinstance(target, Function):
                    return [target]
        return []

    def _attribute_functions(self, cls: Class) -> dict[str, list[str]]:
        """Attributes of `self` by name, with the names of what is assigned to them."""
        table = self._attribute_cache.get(cls.node)
        if table is None:
            table = defaultdict(list)
            for node in ast.walk(cls.node):
                if isinstance(node, ast.Assign):
                    inner = _wrapped_function(node.value)
                    for target in node.targets if inner else ():
                        owner, _, attribute = dotted(target).rpartition(".")
                        if owner == "self":
                            table[attribute].append(inner)
            self._attribute_cache[cls.node] = table
        return table

    @cached_property
    def _attribute_cache(self) -> dict[ast.ClassDef, dict[str, list[str]]]:
        return {}

    def _assigned(self, source: Source, scope: ScopeNode) -> dict[str, list[ast.expr]]:
        """Values assigned to plain names in a scope and the module."""
        key = (source.path, id(scope))
        cached = self._assigned_cache.get(key)
        if cached is None:
            cached = defaultdict(list)
            for node in self._assignments_by_scope(source).get(id(scope), []):
                for target in node.targets:
                    if isinstance(target, (ast.Name, ast.Attribute)):
                        cached[dotted(target)].append(node.value)
            if scope is not source.tree:
                for name, values in self._assigned(source, source.tree).items():
                    cached[name].extend(values)
            self._assigned_cache[key] = cached
        return cached

    def _assignments_by_scope(self, source: Source) -> dict[int, list[ast.Assign]]:
        table = self._scope_assignments.get(source.path)
        if table is None:
            table = defaultdict(list)
            for statement, place in source.places.items():
                if isinstance(statement, ast.Assign):
                    table[id(place.scope)].append(statement)
            self._scope_assignments[source.path] = table
        return table

    @cached_property
    def _scope_assignments(self) -> dict[Path, dict[int, list[ast.Assign]]]:
        return {}

    @cached_property
    def _assigned_cache(self) -> dict[tuple[Path, int], dict[str, list[ast.expr]]]:
        return {}

    def _types(self, source: Source, scope: ScopeNode, node: ast.expr) -> Iterator[Class]:
        """Classes that an expression may be an instance of."""
        if isinstance(node, ast.Call):
            target = self.lookup(source, dotted(node.func))
            if isinstance(target, Class):
                yield target
            return
        name = dotted(node)
        values: list[ast.expr] = list(self._assigned(source, scope).get(name, ()))
        if name.startswith("self."):
            cls = self._enclosing_class(source, scope)
            for method in cls.node.body if cls is not None else ():
                if isinstance(method, FUNCTIONS):
                    values.extend(self._assigned(source, method).get(name, ()))
        for value in values:
            if isinstance(value, ast.Call):
                target = self.lookup(source, dotted(value.func))
                if isinstance(target, Class):
                    yield target
        annotation = _annotation_of(scope, name)
        if annotation:
            target = self.lookup(source, annotation)
            if isinstance(target, Class):
                yield target
                yield from self.subclasses.get(target.node, [])

    def _by_method_name(
        self, source: Source, scope: ScopeNode, owner: str, name: str, call: ast.Call
    ) -> list[Function]:
        """Receiver of unknown type: the only method of that name, unless it is a plain module's."""
        if (
            not owner
            or name in _COMMON_METHODS
            or owner.split(".")[0] in ("torch", "nn", "np", "F")
        ):
            return []
        if looks_like_optimizer(owner):
            return []
        if looks_like_model(owner) and name in ("train", "eval", "backward", "step", "forward"):
            return []
        found = self._methods_by_name.get(name, [])
        if name in ("train", "fit", "step", "run", "forward") and not call.args and len(found) > 1:
            return []
        if len(found) != 1:
            return []
        own = self._enclosing_class(source, scope)
        # `self.part.step()` is another object's method, not the class's own
        return [] if own is not None and _method(own, name) == found[0] else found

    @cached_property
    def _methods_by_name(self) -> dict[str, list[Function]]:
        table: dict[str, list[Function]] = defaultdict(list)
        for cls in self.all_classes:
            for statement in cls.node.body:
                if isinstance(statement, FUNCTIONS):
                    table[statement.name].append(Function(cls.source, statement))
        return table

    def _enclosing_class(self, source: Source, scope: ScopeNode) -> Class | None:
        current = scope
        while isinstance(current, FUNCTIONS):
            if current in source.class_of:
                return Class(source, source.class_of[current])
            current = source.places[current].scope
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

    @cached_property
    def source_of_scope(self) -> dict[ScopeNode, Source]:
        table: dict[ScopeNode, Source] = {}
        for source in self.sources.values():
            table[source.tree] = source
            for function in source.functions:
                table[function] = source
        return table

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


_COMMON_METHODS = frozenset(
    [
        "append",
        "extend",
        "items",
        "keys",
        "values",
        "get",
        "update",
        "to",
        "cpu",
        "cuda",
        "item",
        "detach",
        "view",
        "reshape",
        "size",
        "mean",
        "sum",
        "copy",
        "join",
        "format",
        "split",
        "strip",
        "read",
        "write",
        "close",
        "open",
        "state_dict",
        "load_state_dict",
        "parameters",
        "zero_grad",
        "add",
        "info",
        "debug",
        "warning",
        "error",
        "exception",
        "log",
        "print",
        "set_postfix",
        "set_description",
    ]
)


def _header_calls(part: ast.AST) -> Iterator[ast.Call]:
    for name in ("type", "guard", "pattern"):
        value = getattr(part, name, None)
        if isinstance(value, ast.AST):
            yield from own_calls(value)


def _method(cls: Class, name: str) -> Function | None:
    for statement in cls.node.body:
        if isinstance(statement, FUNCTIONS) and statement.name == name:
            return Function(cls.source, statement)
    return None


def _wrapped_function(value: ast.expr) -> str:
    """`f` of `f`, `torch.compile(f, ...)`, `functools.partial(f, ...)`; '' otherwise."""
    if isinstance(value, ast.Name):
        return value.id
    if isinstance(value, ast.Call) and callee(value) in _WRAPPERS and value.args:
        return dotted(value.args[0])
    return ""


def _annotation_of(scope: ScopeNode, name: str) -> str:
    if isinstance(scope, FUNCTIONS):
        arguments = scope.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.arg == name and argument.annotation is not None:
                annotation = argument.annotation
                if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
                    return annotation.value if re.fullmatch(r"[\w.]+", annotation.value) else ""
                return dotted(annotation)
    return ""
