"""One parsed file: positions, parents, scopes. Everything here is read-only after parsing."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from instrumentor.shared.edits import Statement
from instrumentor.shared.project import seen_from_here

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode: TypeAlias = ast.Module | FunctionNode
LoopNode: TypeAlias = ast.For | ast.While | ast.AsyncFor
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.While, ast.AsyncFor)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_NO_NODES = frozenset([
    "ctx", "op", "ops", "id", "attr", "arg", "level", "module", "asname", "type_comment",
    "is_async", "simple", "conversion", "type_ignores",
])  # fmt: skip
#: Attribute by which a statement knows its file.
_FILE = "file"
_parts: dict[type[ast.AST], tuple[str, ...]] = {}  # fields that may hold nodes


def dotted(node: ast.AST | None) -> str:
    """`a.b.c` for a chain of names and attributes, `a.b()` through calls; '' for anything else."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call):
            parts.append("()")
            node = node.func
        elif isinstance(node, ast.Name):
            parts.append(node.id)
            return ".".join(reversed(parts)).replace(".()", "()")
        elif isinstance(node, ast.Subscript):
            parts.append("[]")
            node = node.value
        elif isinstance(node, ast.Await):
            node = node.value
        else:
            return ""


def root_name(node: ast.AST) -> str:
    """The leftmost name of a chain of attributes, subscripts and calls, or ''."""
    return dotted(node).split(".", 1)[0].split("(", 1)[0].split("[", 1)[0]


def suites(statement: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statement lists directly inside a compound statement, in source order."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        value = getattr(statement, name, None)
        if not isinstance(value, list):
            continue
        if name in ("handlers", "cases"):
            for part in value:
                yield part.body
        elif value:
            yield value


def children(node: ast.AST) -> tuple[ast.AST, ...]:
    """The child nodes in source order, contexts and operators left out."""
    if isinstance(node, (ast.Name, ast.Constant)):
        return ()
    kind = type(node)
    if kind not in _parts:
        _parts[kind] = tuple(name for name in node._fields if name not in _NO_NODES)
    found: list[ast.AST] = []
    for name in _parts[kind]:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif value and isinstance(value, list):
            found += [item for item in value if isinstance(item, ast.AST)]
    return tuple(found)


def below(node: ast.AST) -> list[ast.AST]:
    """The node and all nodes below, nested scopes included, in source order."""
    found = [node]
    for child in own_nodes(node):
        found += below(child) if isinstance(child, SCOPES) else (child,)
    return found


def own_nodes(node: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes below in source order, without entering nested functions, classes or lambdas.

    Those of a statement are kept with it: trees here are looked through many times.
    """
    kept: tuple[ast.AST, ...] | None = node.__dict__.get("_below")
    if kept is not None:
        return kept
    found: list[ast.AST] = []
    stack = list(reversed(children(node)))
    while stack:
        current = stack.pop()
        found.append(current)
        if isinstance(current, ast.stmt):
            found += () if isinstance(current, SCOPES) else own_nodes(current)
        elif not isinstance(current, ast.Lambda):
            stack.extend(reversed(children(current)))
    kept = tuple(found)
    if isinstance(node, (ast.stmt, ast.Module)):
        node.__dict__["_below"] = kept
    return kept


def header(statement: ast.stmt) -> list[ast.AST]:
    """The statement and its nodes outside of its suites, those of handlers and cases included."""
    found: list[ast.AST] = []
    stack: list[ast.AST] = [statement]
    while stack:
        current = stack.pop()
        found.append(current)
        stack.extend(n for n in reversed(children(current)) if not isinstance(n, ast.stmt))
    return found


#: Nodes that may bind a name by themselves: few of all that are looked through.
BINDERS = frozenset(
    (
        *(*FUNCTIONS, ast.Name, ast.alias, ast.ClassDef, ast.ExceptHandler),
        *(ast.MatchAs, ast.MatchStar, ast.MatchMapping),
    )
)


def bound_by(node: ast.AST) -> list[str]:
    """Names that a node itself binds or deletes, those of its parts left out."""
    if type(node) not in BINDERS:
        return []
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, ast.alias):
        return [node.asname or node.name.partition(".")[0]]
    if isinstance(node, ast.MatchMapping):
        return [node.rest] if node.rest else []
    name: str | None = getattr(node, "name")  # noqa: B009  # that of all others
    return [name] if name else []


def last(name: str) -> str:
    """The last word of a dotted name, calls stripped: 'a.b()' -> 'b'."""
    return name.replace("()", "").replace("[]", "").rsplit(".", 1)[-1]


def receiver(call: ast.Call) -> str:
    """Dotted name of what the method is called on, '' for plain function calls."""
    return dotted(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def called_on(call: ast.Call) -> ast.expr:
    """What the method is called on; of a plain call what is called."""
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def alternatives(node: ast.expr) -> list[ast.expr]:
    """The expressions one of which a choice comes to, `a or b` and `(name := value)` included;
    empty for all others."""
    match node:
        case ast.IfExp(body=one, orelse=other):
            return [one, other]
        case ast.BoolOp(values=parts):
            return parts
        case ast.NamedExpr(value=one):
            return [one]
    return []


def callee(call: ast.Call) -> str:
    """The called function's or method's own name, '' when it has none."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def arguments(call: ast.Call) -> list[ast.expr]:
    """What a call is given, by position and by name."""
    return [*call.args, *(k.value for k in call.keywords)]


def argument(call: ast.Call, *names: str, at: int | None = None) -> ast.expr | None:
    """What a call gives by one of these names, else at a position; None where neither is."""
    named = (k.value for k in call.keywords if k.arg in names)
    return next(named, call.args[at] if at is not None and at < len(call.args) else None)


def turns_off(call: ast.Call, name: str) -> bool:
    """`DataCollatorForLanguageModeling(mlm=False)`"""
    told = argument(call, name)
    return isinstance(told, ast.Constant) and not told.value


def all_parameters(node: FunctionNode | ast.Lambda) -> list[ast.arg]:
    """A function's parameters, the positional ones first."""
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return every + [a for a in (given.vararg, given.kwarg) if a is not None]


def parameters(node: FunctionNode | ast.Lambda) -> set[str]:
    """Names of a function's parameters."""
    return {a.arg for a in all_parameters(node)}


def own_calls(node: ast.AST) -> list[ast.Call]:
    """Calls below a node in source order, nested scopes left out."""
    return [n for n in (node, *own_nodes(node)) if isinstance(n, ast.Call)]


def returned(function: ScopeNode) -> list[ast.expr]:
    """What the `return`s of a function give back, those without a value left out."""
    nodes = own_nodes(function)
    return [n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None]


def address(statement: ast.stmt) -> Statement:
    """Where the statement starts; its `def`/`class` keyword when decorated (as ast has it)."""
    return Statement(statement.lineno, statement.col_offset)


class Place(Struct, frozen=True):
    """A statement's position in the tree: its suite, its index there and its parent."""

    suite: list[ast.stmt]
    index: int
    parent: ast.AST
    scope: ScopeNode


class Source(Struct, eq=False, dict=True):
    """A parsed module.

    Raises:
        SyntaxError: from :func:`parse`, when the text is no Python of this interpreter's version.
    """

    path: Path
    data: bytes
    tree: ast.Module
    places: dict[ast.stmt, Place] = field(default_factory=dict)
    functions: list[FunctionNode] = field(default_factory=list)
    classes: list[ast.ClassDef] = field(default_factory=list)
    class_of: dict[FunctionNode, ast.ClassDef] = field(default_factory=dict)

    def at(self, line: int) -> str:
        """A line of it as messages name it: ``train.py:41``."""
        return f"{seen_from_here(self.path)}:{line}"

    def statement_of(self, node: ast.AST) -> ast.stmt | None:
        """The innermost statement that holds an expression node."""
        return self._owners.get(node)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the module in source order."""
        return below(self.tree)

    @cached_property
    def calls(self) -> list[ast.Call]:
        """All calls of the module, nested scopes included."""
        return [n for n in self.nodes if isinstance(n, ast.Call)]

    @cached_property
    def lambdas(self) -> list[ast.Lambda]:
        """All lambdas of the module."""
        return [n for n in self.nodes if isinstance(n, ast.Lambda)]

    @cached_property
    def given_to_lambdas(self) -> dict[ast.AST, ast.arg]:
        """Names in lambdas that are parameters of theirs."""
        found: dict[ast.AST, ast.arg] = {}
        for node in self.lambdas:  # the innermost one comes last
            own = {argument.arg: argument for argument in all_parameters(node)}
            if own:
                names = (n for n in below(node.body) if isinstance(n, ast.Name))
                found |= {name: own[name.id] for name in names if name.id in own}
        return found

    @cached_property
    def mentions(self) -> dict[str, list[ast.Name | ast.Attribute]]:
        """Names and attributes of the module by their word, in source order."""
        found: dict[str, list[ast.Name | ast.Attribute]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Name):
                found.setdefault(node.id, []).append(node)
            elif isinstance(node, ast.Attribute):
                found.setdefault(node.attr, []).append(node)
        return found

    def grown(self, word: str) -> Iterator[ast.AugAssign]:
        """Statements that count up a name or an attribute: `word += 1`."""
        for node in self.mentions.get(word, ()):
            statement = self.statement_of(node)
            if isinstance(statement, ast.AugAssign) and statement.target is node:
                yield statement

    @cached_property
    def methods(self) -> dict[tuple[ast.ClassDef, str], list[FunctionNode]]:
        """The functions that a class binds to a name, in source order."""
        found: dict[tuple[ast.ClassDef, str], list[FunctionNode]] = {}
        for function in self.functions:
            if (cls := self.class_of.get(function)) is not None:
                found.setdefault((cls, function.name), []).append(function)
        return found

    @cached_property
    def _owners(self) -> dict[ast.AST, ast.stmt]:
        owners: dict[ast.AST, ast.stmt] = {}
        for statement in self.places:  # the innermost one comes last
            owners.update(dict.fromkeys(own_nodes(statement), statement))
        for node in self.lambdas:
            owners.update(dict.fromkeys(below(node), owners[node]))
        return owners

    @cached_property
    def by_position(self) -> dict[Statement, ast.stmt]:
        return {address(statement): statement for statement in self.places}

    def parents(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """Enclosing statements, innermost first, within the same scope (its def excluded)."""
        place = self.places.get(statement)
        while place is not None and isinstance(place.parent, ast.stmt):
            if isinstance(place.parent, (*FUNCTIONS, ast.ClassDef)):
                return
            yield place.parent
            place = self.places.get(place.parent)

    def whole_if(self, statement: ast.stmt) -> ast.stmt:
        """The `if` that an `elif` belongs to; any other statement itself."""
        parent = self.places[statement].parent
        while (
            isinstance(statement, ast.If)
            and isinstance(parent, ast.If)
            and parent.orelse == [statement]
            and parent.col_offset == statement.col_offset
        ):
            statement, parent = parent, self.places[parent].parent
        return statement

    def ancestors(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """Enclosing statements up to the module, definitions included."""
        place = self.places.get(statement)
        while place is not None and isinstance(place.parent, ast.stmt):
            yield place.parent
            place = self.places.get(place.parent)

    def class_around(self, statement: ast.stmt) -> ast.ClassDef | None:
        """The class whose attributes a statement binds, below an `if` of its body as well."""
        for parent in self.ancestors(statement):
            if isinstance(parent, ast.ClassDef):
                return parent
            if isinstance(parent, FUNCTIONS):
                break
        return None

    def loops_around(self, statement: ast.stmt) -> list[LoopNode]:
        """Loops of the same scope around a statement, innermost first; loop bodies only."""
        found: list[LoopNode] = []
        child: ast.stmt = statement
        for parent in self.parents(statement):
            if isinstance(parent, LOOPS) and self.places[child].suite is parent.body:
                found.append(parent)
            child = parent
        return found

    def scope_of(self, node: ast.AST) -> ScopeNode:
        """The scope in which a statement or an expression stands."""
        statement = node if isinstance(node, ast.stmt) else self.statement_of(node)
        return self.tree if statement is None else self.places[statement].scope


def path_to(source: Source, loop: ast.AST, statement: ast.stmt) -> list[tuple[list[ast.stmt], int]]:
    """Suites and indices from the loop's body (outermost) down to a statement."""
    path: list[tuple[list[ast.stmt], int]] = []
    current: ast.AST = statement
    while isinstance(current, ast.stmt) and current is not loop:
        place = source.places[current]
        path.append((place.suite, place.index))
        current = place.parent
        if isinstance(current, (ast.ExceptHandler, ast.match_case)):
            break
    return path[::-1]


def is_main_guard(test: ast.expr) -> bool:
    """`__name__ == "__main__"`"""
    return any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(test))


def contains(outer: ast.AST, inner: ast.AST) -> bool:
    """Whether a node lies within another, judged by file and position (constant time).

    Statements know their file; an expression is taken to stand in the same one.
    """
    if outer is inner:
        return True
    one, other = vars(outer).get(_FILE), vars(inner).get(_FILE)
    if one != other and one is not None and other is not None:
        return False
    line, column, end_line, end_column = _span(outer)
    first, at, last_line, end = _span(inner)
    return (line, column) <= (first, at) and (last_line, end) <= (end_line, end_column)


_position = attrgetter("lineno", "col_offset", "end_lineno", "end_col_offset")


def _span(node: ast.AST) -> tuple[int, int, int, int]:
    try:
        line, column, end_line, end_column = _position(node)
    except AttributeError:  # a module has no position
        return 0, 0, 1 << 30, 0
    return line, column, end_line or 1 << 30, end_column or 0


def beside(source: Source, statement: ast.stmt, other: ast.stmt) -> ast.stmt:
    """The statement, or the one around it whose list of statements holds the other."""
    around = (statement, *source.parents(statement))
    held = (s for s in around if any(contains(n, other) for n in source.places[s].suite))
    return next(held, statement)


#: What is read of a program, in bytes: a file and all of its modules. Far more than a person
#: writes; to read so much takes about half a minute.
SOURCE_BYTES = 1024 * 1024
PROGRAM_BYTES = 8 * SOURCE_BYTES


class TooLarge(SyntaxError):
    """More Python in one file than is read."""


def parse(path: Path, data: bytes) -> Source:
    """Parse bytes (any declared encoding) into a Source.

    Raises:
        TooLarge: it has more than SOURCE_BYTES.
        SyntaxError: with line and column, also for null bytes and undecodable text.
    """
    if len(data) > SOURCE_BYTES:
        size = f"{len(data) / 2**20:.1f} MiB of Python"
        raise TooLarge(f"{size}, more than the {SOURCE_BYTES // 2**20} MiB that are read")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data, filename=str(path))
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error)) from error
    return source_of(path, data, tree)


def source_of(path: Path, data: bytes, tree: ast.Module) -> Source:
    """A parsed tree with the place of each of its statements."""
    source, file = Source(path, data, tree), str(path)
    vars(tree)[_FILE] = file
    stack: list[tuple[list[ast.stmt], ast.AST, ScopeNode]] = [(tree.body, tree, tree)]
    while stack:
        suite, parent, scope = stack.pop()
        for index, statement in enumerate(suite):
            source.places[statement] = Place(suite, index, parent, scope)
            vars(statement)[_FILE] = file
            inner: ScopeNode = scope
            if isinstance(statement, FUNCTIONS):
                source.functions.append(statement)
                if (cls := source.class_around(statement)) is not None:
                    source.class_of[statement] = cls
                inner = statement
            elif isinstance(statement, ast.ClassDef):
                source.classes.append(statement)
            stack.extend((body, statement, inner) for body in suites(statement))
    source.functions.sort(key=lambda f: (f.lineno, f.col_offset))
    return source
