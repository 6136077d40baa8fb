"""The modules of a program: which file an import means, and the calls and classes written in them.

Nothing is resolved here: :mod:`instrumentor.read.names` does that, on these tables.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

from msgspec import Struct, field

from instrumentor.read.bindings import Bindings, Put
from instrumentor.read.configured import classes_by_key
from instrumentor.read.import_folders import Added, Adder, added_by, adders_of
from instrumentor.read.signatures import own_parameter
from instrumentor.read.syntax import (
    FUNCTIONS,
    ScopeNode,
    Source,
    below,
    callee,
    dotted,
    is_main_guard,
    last,
)
from instrumentor.read.values import Class, Function
from instrumentor.read.written_texts import ANY, text_of

_IMPORTS = ("import_module", "__import__")


class Modules(Struct, eq=False, dict=True):
    """Modules by path, the entry first.

    Attributes:
        roots: folders from which the program's own modules are imported.
        broken: imported files that do not parse.
    """

    entry: Source
    roots: tuple[Path, ...] = ()
    sources: dict[Path, Source] = field(default_factory=dict)
    bindings: dict[Source, Bindings] = field(default_factory=dict)
    broken: dict[Path, SyntaxError] = field(default_factory=dict)
    _modules: dict[tuple[str, Path, int], Path | None] = field(default_factory=dict)
    _heads: dict[tuple[str, Path, int], list[Path]] = field(default_factory=dict)
    _held: dict[tuple[Path, str], bool] = field(default_factory=dict)
    _additions: dict[tuple[Path, int, bool], Added] = field(default_factory=dict)
    _adders: dict[str, Adder] = field(default_factory=dict)
    _adding: list[Path] = field(default_factory=list)
    _looked_at: int = 0

    # -- imports ---------------------------------------------------------------------------

    def find_module(self, name: str, near: Path, level: int = 0) -> Path | None:
        """The file of a module inside the roots: `a/b/__init__.py` or `a/b.py`, else None."""
        key = (name, near, level)
        if key not in self._modules:
            above, head = near.parents, name.partition(".")[0]
            bases = [above[min(level, len(above)) - 1]] if level else self._holding(head, near)
            found = (_module_in(base, name) for base in bases)
            self._modules[key] = next((path for path in found if path is not None), None)
        return self._modules[key]

    def _holding(self, head: str, near: Path) -> list[Path]:
        """Where a module looks for others, if modules of that first name may lie there."""
        self._look_for_adding()
        key = head, near, len(self._adding)
        if key not in self._heads:
            self._heads[key] = [b for b in self._search_path(near) if self._holds(b, head)]
        return self._heads[key]

    def _search_path(self, near: Path) -> list[Path]:
        """The roots, a module's folder, and what the program adds."""
        added = [self._added(path) for path in dict.fromkeys((self.entry.path, near))]
        added += [self._added(path, on_import=True) for path in self._adding]
        first = [folder for one in added for folder in one.first]
        last = [folder for one in added for folder in one.last]
        return list(dict.fromkeys([*first, *self.roots, near.parent, *last]))

    def _look_for_adding(self) -> None:
        """Note modules that were read since that add folders for all others when they run."""
        for path in islice(self.sources, self._looked_at, None):
            source = self.sources[path]
            if b"sys.path" in source.data:
                self._adding.append(path)
                self._adders |= adders_of(source)
        self._looked_at = len(self.sources)

    def _added(self, path: Path, *, on_import: bool = False) -> Added:
        key = path, len(self._adding), on_import
        if key not in self._additions:
            source = self.sources.get(path)
            found = Added()
            if source is not None:
                bindings = self.bindings_of(source)
                found = added_by(bindings, self.roots, self._adders, on_import=on_import)
            self._additions[key] = found
        return self._additions[key]

    def _holds(self, base: Path, head: str) -> bool:
        """Whether modules of that first name may lie there: asked of `torch` once, not by each."""
        if (base, head) not in self._held:
            there = (base / f"{head}.py").is_file() or (base / head).is_dir()
            self._held[base, head] = there
        return self._held[base, head]

    def imported_files(self, source: Source) -> Iterator[Path]:
        """Files of the modules that a module imports; of computed names, any that they may mean."""
        # most modules have no such call: their nodes need not be listed for it
        for call in computed_imports(source) if b"import_" in source.data else ():
            yield from modules_of(source, self.bindings_of(source), call, self.roots)
        if b"instantiate" in source.data:
            made = map(self.module_of_class, self.configured.get("", []))
            yield from (path for path in made if path is not None)
        yield from (path for _, path in self._imported_by_statements(source))

    def imported_anyhow(self, source: Source) -> set[Path]:
        """Files that a module imports under no test and no `try`, in its functions too."""
        return {
            path
            for statement, path in self._imported_by_statements(source)
            if not any(map(_may_pass_by, source.parents(statement)))
        }

    def missed(self, source: Source) -> Iterator[tuple[ast.stmt, str, Path]]:
        """Imports that are not found, of which one file below the roots has the name.

        Out: the statement, the name, and the folder that is not searched for it.
        """
        for statement, name in _imports(source) if self.roots else ():
            relative = isinstance(statement, ast.ImportFrom) and bool(statement.level)
            head = name.partition(".")[0]
            if relative or head in sys.stdlib_module_names or self._holding(head, source.path):
                continue
            folders = {path.parent for root in self.roots for path in self._files_named(root, head)}
            if len(folders) == 1:
                yield statement, head, folders.pop()

    @staticmethod
    def _files_named(root: Path, name: str) -> Iterator[Path]:
        """Files of that module in a few folders below a root."""
        for folder in ("*", "*/*", "*/*/*"):
            yield from islice(root.glob(f"{folder}/{name}.py"), _FOLDERS)

    def _imported_by_statements(self, source: Source) -> Iterator[tuple[ast.stmt, Path]]:
        for statement, name in _imports(source):
            level = statement.level if isinstance(statement, ast.ImportFrom) else 0
            path = self.find_module(name, source.path, level)
            if path is not None:
                yield statement, path

    @cached_property
    def configured(self) -> dict[str, list[str]]:
        """Classes that the script's configuration names, by key."""
        return classes_by_key(self.entry) if b"hydra" in self.entry.data else {}

    def module_of_class(self, name: str) -> Path | None:
        """The file of the module of a class by its dotted name, in the roots."""
        return self.find_module(name.rpartition(".")[0], self.entry.path)

    def bindings_of(self, source: Source) -> Bindings:
        """What a module binds, read once."""
        found = self.bindings.get(source)
        if found is None:
            found = self.bindings[source] = Bindings(source)
        return found

    # -- calls -----------------------------------------------------------------------------

    @cached_property
    def calls(self) -> dict[ScopeNode, list[tuple[ast.Call, ast.stmt]]]:
        """Calls by the scope that makes them (decorators and defaults belong to the outside)."""
        table: dict[ScopeNode, list[tuple[ast.Call, ast.stmt]]] = defaultdict(list)
        for source in self.sources.values():
            later = {node for inner in source.lambdas for node in below(inner)}
            made: dict[ast.stmt | None, list[ast.Call]] = defaultdict(list)
            for call in source.calls:
                made[source.statement_of(call)] += [call] if call not in later else []
            # not in source order: module level goes before the functions, so that what a script
            # itself passes is met before what a helper passes on (the first value names the type)
            for statement, place in source.places.items():
                table[place.scope] += [(call, statement) for call in made.get(statement, ())]
        for entries in table.values():
            entries.sort(key=lambda e: (e[0].lineno, e[0].col_offset))
        return table

    @cached_property
    def source_of_scope(self) -> dict[ScopeNode, Source]:
        return {scope: s for s in self.sources.values() for scope in (s.tree, *s.functions)}

    @cached_property
    def all_calls(self) -> list[tuple[Source, ScopeNode, ast.Call]]:
        return [
            (self.source_of_scope[scope], scope, call)
            for scope, entries in self.calls.items()
            for call, _ in entries
        ]

    def calls_named(self, word: str) -> list[tuple[Source, ScopeNode, ast.Call]]:
        """Calls whose function is written with this last word."""
        return self._calls_by_word.get(word, [])

    @cached_property
    def _calls_by_word(self) -> dict[str, list[tuple[Source, ScopeNode, ast.Call]]]:
        table: dict[str, list[tuple[Source, ScopeNode, ast.Call]]] = defaultdict(list)
        for made in self.all_calls:
            table[callee(made[2])].append(made)
        return table

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
                elif isinstance(node, ast.ImportFrom):
                    for alias in node.names:
                        if alias.asname:
                            table[alias.name].add(alias.asname)
        return table

    # -- scopes and classes ----------------------------------------------------------------

    @staticmethod
    def scope_of(source: Source, node: ast.AST) -> ScopeNode:
        """The scope in which an expression stands."""
        return source.scope_of(node)

    def puts_of(self, attribute: str) -> list[tuple[Source, Put]]:
        """Where an attribute of that name is set, on any object; '' for elements."""
        return self._puts.get(attribute, [])

    @cached_property
    def _puts(self) -> dict[str, list[tuple[Source, Put]]]:
        found: dict[str, list[tuple[Source, Put]]] = defaultdict(list)
        for source in self.sources.values():
            for put in self.bindings_of(source).puts:
                found[put.name].append((source, put))
        return found

    @cached_property
    def fills(self) -> list[tuple[Source, Put]]:
        """Where a list or a dict may be made longer by `+=`."""
        sources = self.sources.values()
        return [(source, put) for source in sources for put in self.bindings_of(source).fills]

    @cached_property
    def sets(self) -> list[tuple[Source, Put]]:
        """Where attributes of whatever name are set."""
        sources = self.sources.values()
        return [(source, put) for source in sources for put in self.bindings_of(source).sets]

    def is_of_a_class(self, attribute: str) -> bool:
        """Whether the body of a class binds an attribute of that name: a value, a method."""
        return attribute in self._class_attributes

    @cached_property
    def _class_attributes(self) -> frozenset[str]:
        bodies = [self.bindings_of(source).classes for source in self.sources.values()]
        return frozenset(name for body in bodies for table in body.values() for name in table)

    @cached_property
    def methods_by_name(self) -> dict[str, list[Function]]:
        table: dict[str, list[Function]] = defaultdict(list)
        for source in self.sources.values():
            for function in source.class_of:
                table[function.name].append(Function(source, function))
        return table

    @staticmethod
    def method(cls: Class, name: str) -> Function | None:
        """A method that the class itself defines; of several definitions the last one counts."""
        found = cls.source.methods.get((cls.node, name), ())
        read = [s for s in found if not any(map(_is_setter, s.decorator_list))]
        return Function(cls.source, read[-1]) if read else None

    @staticmethod
    def enclosing_class(source: Source, scope: ScopeNode) -> Class | None:
        """The class in one of whose methods a scope lies."""
        while isinstance(scope, FUNCTIONS):
            if scope in source.class_of:
                return Class(source, source.class_of[scope])
            scope = source.scope_of(scope)
        return None

    def class_of_self(self, source: Source, scope: ScopeNode, node: ast.expr) -> Class | None:
        """The class whose object a plain name is, as the first parameter of a method."""
        while isinstance(scope, FUNCTIONS) and scope not in source.class_of:
            scope = source.scope_of(scope)
        if not isinstance(node, ast.Name) or not isinstance(scope, FUNCTIONS):
            return None
        own = own_parameter(Function(source, scope)) == node.id
        return Class(source, source.class_of[scope]) if own else None


_MAY_ALIAS = (ast.Name, ast.Attribute, ast.Call)


def _is_setter(decorator: ast.expr) -> bool:
    """`@x.setter` or `@x.deleter`: not what reading the attribute runs."""
    return isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter")


#: So many files of one name are looked for.
_FOLDERS = 9


def _module_in(base: Path, name: str) -> Path | None:
    package = base.joinpath(*name.split("."))
    module = [package.with_name(f"{package.name}.py")] if name else []
    # as Python looks: a package goes ahead of a module of its name beside it
    return next((path for path in (package / "__init__.py", *module) if path.is_file()), None)


def _may_pass_by(around: ast.stmt) -> bool:
    """Whether what stands in a statement may be left out, or fail without an end."""
    return isinstance(around, ast.Try) or (
        isinstance(around, ast.If) and not is_main_guard(around.test)
    )


def _imports(source: Source) -> Iterator[tuple[ast.stmt, str]]:
    """Statements with the modules they name; what is imported from one may be a module, too."""
    for statement in source.places:
        if isinstance(statement, ast.Import):
            yield from ((statement, alias.name) for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            module = statement.module or ""
            inside = f"{module}." if module else ""
            for name in (module, *(inside + alias.name for alias in statement.names)):
                yield statement, name


# -- computed names ------------------------------------------------------------------------------


def computed_imports(source: Source) -> Iterator[ast.Call]:
    """Calls that import by a name: `import_module(f"models.{name}_model")`."""
    yield from (call for call in source.calls if callee(call) in _IMPORTS)


def modules_of(
    source: Source, bindings: Bindings, call: ast.Call, roots: Sequence[Path]
) -> Iterator[Path]:
    """Files of the modules that a call may import, in the roots; none when any module may be."""
    if not call.args:
        return
    pattern = text_of(bindings, source.scope_of(call), call.args[0])
    if re.search(r"[^*./]", pattern) is None or pattern.startswith((".", "/", ANY)):
        return
    for root in roots:
        found = sorted(root.glob(pattern.replace(".", "/") + ".py"))
        if found:
            yield from found
            return
