"""Which files calls open, as far as their paths are written out, and whether two may be one file.

A path is a row of texts with None for what is not known between them. Two are provably of two
files where their last characters differ, their first folders, or the format that the one is written
in and the other read; in doubt they are one.
"""

from __future__ import annotations

import ast
import os.path
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, product

from msgspec import Struct, field

from instrumentor.locate.changes.skips.effects import Effects, Files
from instrumentor.locate.changes.skips.facts import Facts
from instrumentor.locate.changes.skips.objects import WRITERS
from instrumentor.locate.changes.skips.storage import Frame
from instrumentor.locate.meaning import libraries, methods
from instrumentor.locate.meaning.roles import Effect
from instrumentor.read.bindings import Bound, Parameter, Put
from instrumentor.read.callers import given_by_all
from instrumentor.read.control_flow import END, START, flow_of
from instrumentor.read.names import external_name
from instrumentor.read.program import Class, Function
from instrumentor.read.syntax import (
    ScopeNode,
    Source,
    alternatives,
    argument,
    arguments,
    below,
    bound_by,
    callee,
    contains,
    last,
    own_nodes,
    returned,
    root_name,
)
from instrumentor.read.values import Object

#: Texts, and None for what is not known.
Path = tuple[str | None, ...]
UNKNOWN: Path = (None,)
_DEEP = 8
_MANY = 16
_DUMPS = ("pickle", "json", "yaml", "toml", "joblib", "dill", "cloudpickle")
#: Which argument is the path, by position; `f`, `file` and the like by name.
_SECOND = ("torch.save", "save_image", *(f"{each}.dump" for each in _DUMPS), "yaml.safe_dump")
_NAMED = ("f", "file", "fp", "fname", "filename", "filepath_or_buffer", "path", "path_or_buf")
#: What is read of these is no file.
_NO_FILES = ("os.popen", "subprocess.", "urllib.", "requests.", "sys.stdin", "io.")
#: Take one of several, or all of them in some order.
_CHOOSE = (
    *("builtins.sorted", "builtins.list", "builtins.iter", "builtins.next", "builtins.reversed"),
    *("builtins.set", "builtins.tuple", "random.choice", "random.sample", "numpy.random.choice"),
    *("builtins.enumerate", "tqdm.tqdm"),
)
_OF_TWO = ("os.rename", "os.replace", "os.symlink", "os.link")
_MOVE = (*_OF_TWO, "shutil.move")
_GLOBS = ("glob.glob", "glob.iglob")
_SAME = ("builtins.str", "os.fspath", "pathlib.Path", "pathlib.PurePath", "os.path.normpath")
_MADE_ABSOLUTE = ("os.path.abspath", "os.path.realpath", "os.path.expanduser")
#: Methods and functions that are given a file which has to be there.
_TAKES_FILE = re.compile(r"file|artifact|upload|^(save|remove|unlink|stat|chmod|getsize|getmtime)$")
_EXISTS = ("exists", "isfile", "is_file")
#: Do nothing with a file whose name they are given, or are told of otherwise.
_LEAVE = ("builtins.", "logging.", "torch.", "numpy.", "os.path.", "glob.", "re.", "argparse.")
#: Names of what `save_pretrained` of a model writes.
_OF_A_MODEL = (".json", ".bin", ".safetensors", ".md", ".py", ".pt", ".pth")
#: Formats that no reader of another one takes.
_FORMATS = {
    **dict.fromkeys(("torch.save", "torch.load"), "torch"),
    **dict.fromkeys(("numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.load"), "numpy"),
    **dict.fromkeys(("matplotlib.pyplot.savefig", "cv2.imwrite", "cv2.imread"), "image"),
    **dict.fromkeys(("torchvision.utils.save_image", "PIL.Image.open"), "image"),
    **dict.fromkeys(("pandas.read_csv", "numpy.savetxt", "numpy.loadtxt"), "text"),
}


class Opened(Struct, frozen=True):
    """A file that a call opens: all paths that it may have, and its format where that is known."""

    paths: tuple[Path, ...]
    format: str = ""

    def may_be(self, other: Opened) -> bool:
        if self.format and other.format and self.format != other.format:
            return False
        return any(_may_be_one(*pair) for pair in product(self.paths, other.paths))


class OpenedFiles(Struct, eq=False, dict=True):
    """What calls of a program open."""

    facts: Facts
    _known: dict[tuple[ast.Call, Frame, bool], Opened] = field(default_factory=dict)
    #: What the call that is asked of gives to parameters.
    _texts: dict[tuple[ScopeNode, str], str] = field(default_factory=dict)

    def written(self, effects: Effects) -> list[Opened]:
        """What is written or removed: folders that are made hold nothing yet."""
        found = []
        for (call, frame), files in effects.opened.items():
            if Files.WRITES in files and callee(call) not in ("makedirs", "mkdir"):
                found.append(self._opened(frame, call, reads=False))
        return [each for each in found if each.paths]

    def read(self, effects: Effects, written: Iterable[Opened]) -> tuple[Source, ast.Call] | None:
        """The first call that may read what is written."""
        for (call, frame), files in effects.opened.items():
            if Files.READS in files or self._reads_too(frame, call):
                one = self._opened(frame, call, reads=True)
                if any(one.may_be(each) for each in written):
                    return frame.source, call
        return None

    def needs(
        self, source: Source, scope: ScopeNode, call: ast.Call, written: Iterable[Opened]
    ) -> bool:
        """Whether a library is given what is written, and fails without it: to upload or remove."""
        program, word = self.facts.program, callee(call)
        name = program.names.qualified(source, scope, call.func)
        takes = _TAKES_FILE.search(word) is not None
        if not takes and (
            name.startswith(_LEAVE) or self.facts.objects.tells(source, scope, call) or not name
        ):
            return False
        removes = word in ("remove", "unlink")
        writes = libraries.effect_of(name) is Effect.SAVES and not removes
        if self._reads_too(frame := Frame(source, scope), call):
            return any(self._opened(frame, call, reads=True).may_be(each) for each in written)
        if writes or self.facts.objects.saves_weights(source, scope, call):
            return False
        if program.resolve(source, scope, call) or self._is_asked_for(source, call):
            return False
        given = [part for a in arguments(call) for part in getattr(a, "elts", [a])]
        if word in ("unlink", "stat") and not name and isinstance(call.func, ast.Attribute):
            given.append(call.func.value)
        kept = [one for one in map(_named, written) if one.paths]
        each = (_named(Opened(self.of(source, scope, a))) for a in given) if kept else ()
        return any(one.may_be(other) for one in each for other in kept)

    def folder_made_ahead(self, frame: Frame, call: ast.Call) -> list[tuple[Source, ast.stmt]]:
        """What makes the folder of a file ahead of it on every way there; empty where one lacks it.

        It stands in the function that opens the file, or in the constructor of the object whose
        attribute the folder is.
        """
        source, scope = frame.source, frame.scope
        name = self.facts.program.names.qualified(source, scope, call.func)
        folder = self._folder(source, scope, _path_given(name, call))
        at = source.statement_of(call)
        if folder is None or at is None:
            return []
        told = self._bound_once(source, scope, folder)
        return self._makers(source, scope, folder, told, flow_of(scope).before(at)) or [
            maker
            for home, init, put in self._in_constructor(source, scope, folder)
            for maker in self._makers(home, init, folder, [put], END)
        ]

    def _makers(
        self, source: Source, scope: ScopeNode, folder: ast.expr, told: Iterable[int], end: int
    ) -> list[tuple[Source, ast.stmt]]:
        """What makes a folder on every way from where its path is known."""
        flow = flow_of(scope)
        makes = [each for each in flow.begins if _makes(each, folder)]
        avoided = {flow.before(each) for each in makes}
        starts = list(told)
        if not makes or not starts or any(flow.path(start, end, avoided) for start in starts):
            return []
        return [(source, each) for each in makes]

    def _bound_once(self, source: Source, scope: ScopeNode, folder: ast.expr) -> Iterator[int]:
        """Where the variable that a folder is read from has the only value that it ever gets."""
        program, flow = self.facts.program, flow_of(scope)
        root = root_name(folder)
        bound = program.bound(source, scope, root)
        if program.binder(source, scope, root) is not scope or isinstance(bound[0], Parameter):
            yield START
        else:
            at = source.statement_of(bound[0].value) if isinstance(bound[0], Bound) else None
            if at in flow.begins and not isinstance(at, ast.For):
                yield flow.after(at)

    def _in_constructor(
        self, source: Source, scope: ScopeNode, folder: ast.expr
    ) -> Iterator[tuple[Source, ScopeNode, int]]:
        """Behind the only place that sets `self.folder`, in the constructor of each object."""
        program = self.facts.program
        match folder:
            case ast.Attribute(value=owner, attr=word):
                cls = program.class_of_self(source, scope, owner)
                puts = [p for p in program.puts_of(word) if cls and self._may_be_of(cls, *p)]
                if cls is not None and len(puts) == 1 and not program.is_of_a_class(word):
                    home, init = puts[0][0], puts[0][1].scope
                    at = home.statement_of(puts[0][1].owner)
                    own = program.class_of_self(home, init, puts[0][1].owner)
                    made = own == cls and getattr(init, "name", "") == "__init__"
                    if made and at is not None and at in flow_of(init).begins:
                        yield home, init, flow_of(init).after(at)

    def _may_be_of(self, cls: Class, source: Source, put: Put) -> bool:
        """Whether an attribute that is set there may be one of a class's objects."""
        program, where = self.facts.program, (source, put.scope, put.owner)
        own = program.class_of_self(*where)
        if own is None:
            return not self.facts.objects.is_namespace(*where)
        return own in program.bases(cls) or cls in program.bases(own)

    def _is_asked_for(self, source: Source, call: ast.Call) -> bool:
        """Below `if os.path.exists(path):`, or in a `try`."""
        at = source.statement_of(call)
        return at is not None and any(
            isinstance(around, ast.Try)
            or (
                isinstance(around, ast.If)
                and any(callee(c) in _EXISTS for c in below(around.test) if isinstance(c, ast.Call))
            )
            for around in source.parents(at)
        )

    def _reads_too(self, frame: Frame, call: ast.Call) -> bool:
        """What copies a file, or gives it another name."""
        name = self.facts.program.names.qualified(frame.source, frame.scope, call.func)
        return name in _OF_TWO or name.startswith(("shutil.copy", "shutil.move"))

    def _opened(self, frame: Frame, call: ast.Call, *, reads: bool) -> Opened:
        question = (call, frame, reads)
        if question not in self._known:
            self._texts = {
                (frame.scope, name): reach.constant for name, reach in frame.given if reach.constant
            }
            self._known[question] = self._open(frame, call, reads=reads)
            self._texts = {}
        return self._known[question]

    def _open(self, frame: Frame, call: ast.Call, *, reads: bool) -> Opened:
        source, scope = frame.source, frame.scope
        name = self.facts.program.names.qualified(source, scope, call.func)
        if _is_none(name):
            return Opened(())
        given = _path_given(name, call)
        method = isinstance(call.func, ast.Attribute) and "." not in name
        if method and isinstance(call.func, ast.Attribute):
            return self._by_method(frame, call, call.func, given, reads=reads)
        if given is None:
            return Opened((UNKNOWN,))
        if name in _OF_TWO or name.startswith("shutil."):
            pair = [argument(call, "src", "path", at=0), argument(call, "dst", at=1)]
            each = [self._of_file(source, scope, a).paths for a in pair if a is not None]
            alone = name == "shutil.rmtree"
            named = each[:1] if reads else each if name in _MOVE else each[1:]
            inside = each[:1] if reads or alone else each[1:]
            folders = (p for p in chain(*inside) if not _is_named(p))
            return Opened((*chain(*named), *(_joined((*p, "/", None)) for p in folders)))
        found = self._of_file(source, scope, given)
        if name.endswith(".from_pretrained"):
            return Opened(tuple((*p, None) for p in found.paths))
        kind = _format_of_open(call) if name == "builtins.open" else _FORMATS.get(name, "")
        return Opened(found.paths, kind or found.format)

    def _by_method(
        self,
        frame: Frame,
        call: ast.Call,
        function: ast.Attribute,
        given: ast.expr | None,
        *,
        reads: bool,
    ) -> Opened:
        source, scope, word = frame.source, frame.scope, function.attr
        if word in (*_OF_FILE, *methods.METHODS_OF_PATHS):
            found = self._of_file(source, scope, function.value)
            text = word.endswith("_text")
            return Opened(found.paths, "text" if text else found.format)
        if given is None:
            return Opened((UNKNOWN,))
        found = self._of_file(source, scope, given)
        if word in methods.MODULE_SAVES and word == "save_pretrained":
            if self.facts.objects.is_module(source, scope, function.value):
                ends = product(found.paths, _OF_A_MODEL)
                return Opened(tuple((*path, "/", None, end) for path, end in ends))
            return Opened(tuple((*path, "/", None) for path in found.paths))
        if reads:
            return Opened(tuple((*path, None) for path in found.paths))
        kind = {"savefig": "image", "to_csv": "text"}.get(word, "")
        return Opened(found.paths, kind) if kind else Opened((UNKNOWN,))

    def _of_file(self, source: Source, scope: ScopeNode, node: ast.expr) -> Opened:
        """Of what is given as a file: an open one, or a path."""
        found: list[Opened] = []
        node = _opened_around(source, node)
        told = self.of(source, scope, node)
        if told and UNKNOWN not in told:
            return Opened(told)
        values = self.facts.program.names.of(source, scope, node)
        for value in self.facts.objects.put_on_options(values):
            name = external_name(value) or (
                external_name(value.made_by) if isinstance(value, Object) else ""
            )
            if _is_none(name):
                continue
            if not isinstance(value, Object) or value.node is None or value.where is None:
                found.append(Opened(self.of(source, scope, node)))
            elif name == "builtins.open" and value.node.args:
                paths = self.of(*value.where, value.node.args[0])
                found.append(Opened(paths, _format_of_open(value.node)))
            elif name in WRITERS and value.node.args:
                found.append(self._of_file(*value.where, value.node.args[0]))
            elif isinstance(value.node.func, ast.Attribute) and value.node.func.attr == "open":
                paths = self.of(*value.where, value.node.func.value)
                found.append(Opened(paths))
            else:
                found.append(Opened(self.of(source, scope, node)))
        if not values:
            found.append(Opened(self.of(source, scope, node)))
        kinds = {each.format for each in found}
        paths = tuple(dict.fromkeys(chain.from_iterable(each.paths for each in found)))
        return Opened(paths, kinds.pop() if len(kinds) == 1 else "")

    def _folder(self, source: Source, scope: ScopeNode, path: ast.expr | None) -> ast.expr | None:
        """The name of a folder in which a path is, and that means one folder in its scope."""
        match path:
            case ast.Name(id=name):
                match self.facts.program.bound(source, scope, name):
                    case [Bound(value=value, path=())] if not isinstance(value, ast.Name):
                        return self._folder(source, scope, value)
                return None
            case ast.Call(args=[folder, ast.Constant(value=str(file))]) if callee(path) == "join":
                pass
            case ast.BinOp(left=folder, op=ast.Div(), right=ast.Constant(value=str(file))):
                pass
            case ast.BinOp(left=folder, op=ast.Add(), right=ast.Constant(value=str(file))):
                file = file.removeprefix("/") if file.startswith("/") else "/"
            case _:
                return None
        root = folder
        while isinstance(root, ast.Attribute):
            root = root.value
        once = isinstance(root, ast.Name) and len(self.facts.program.bound(source, scope, root.id))
        return folder if once == 1 and "/" not in file else None

    def _calls(self, *words: str) -> bool:
        return any(any(self.facts.program.calls_named(word)) for word in words)

    @cached_property
    def _have_one_name(self) -> bool:
        return not self._calls("symlink", "symlink_to", "link", "hardlink_to")

    @cached_property
    def _changes_folder(self) -> bool:
        return self._calls("chdir")

    # -- paths ---------------------------------------------------------------------------------

    def of(
        self, source: Source, scope: ScopeNode, node: ast.expr, deep: int = _DEEP
    ) -> tuple[Path, ...]:
        """All paths that an expression may come to; none where nobody gives it one."""
        outermost, deep = deep == _DEEP, deep if self._have_one_name else 0
        if not deep:
            return (UNKNOWN,)
        found = dict.fromkeys(map(_joined, self._of(source, scope, node, deep)))
        if outermost and self._changes_folder:
            found = dict.fromkeys(_joined((None, "/", *path)) for path in found)
        return tuple(found) if len(found) <= _MANY else (UNKNOWN,)

    def _of(self, source: Source, scope: ScopeNode, node: ast.expr, deep: int) -> Iterable[Path]:
        where, less = (source, scope), deep - 1
        match node:
            case ast.Constant(value=value):
                return [(str(value),)]
            case ast.JoinedStr(values=parts):
                return self._together([self._of_part(*where, part, less) for part in parts])
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._together([self.of(*where, side, less) for side in (left, right)])
            case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
                return [_holes(re.split(r"%[-+ #0-9.]*[a-zA-Z]", text.replace("%%", "%")))]
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._below([left, right], where, less)
            case ast.IfExp() | ast.BoolOp():
                return [p for part in alternatives(node) for p in self.of(*where, part, less)]
            case ast.Subscript(value=value):
                return self._elements(*where, value, less)
            case ast.Call():
                return self._of_call(*where, node, less)
            case ast.Name():
                return self._of_name(*where, node, less)
            case ast.Attribute():
                return self._of_attribute(*where, node, less)
        return [UNKNOWN]

    def _of_part(
        self, source: Source, scope: ScopeNode, part: ast.expr, deep: int
    ) -> Iterable[Path]:
        if isinstance(part, ast.FormattedValue):
            return (
                self.of(source, scope, part.value, deep) if part.format_spec is None else [UNKNOWN]
            )
        return self.of(source, scope, part, deep)

    def _together(self, parts: list[Iterable[Path]]) -> list[Path]:
        return [tuple(chain.from_iterable(each)) for each in product(*parts)][: _MANY + 1]

    def _below(
        self, parts: list[ast.expr], where: tuple[Source, ScopeNode], deep: int
    ) -> list[Path]:
        """Folders, and what lies in them; an absolute path lies in none."""
        found: list[Path] = [()]
        for part in parts:
            inner = self.of(*where, part, deep)
            found = [_join(path, each) for path, each in product(found, inner)]
        return found[: _MANY + 1]

    def _of_call(
        self, source: Source, scope: ScopeNode, call: ast.Call, deep: int
    ) -> Iterable[Path]:
        program, where = self.facts.program, (source, scope)
        name = program.names.qualified(source, scope, call.func)
        if name == "os.path.join" or (name in _SAME and len(call.args) > 1):
            return self._below(call.args, where, deep)
        if (name in _SAME or name in _MADE_ABSOLUTE) and len(call.args) == 1:
            paths = self.of(source, scope, call.args[0], deep)
            return [(None, *p) for p in paths] if name in _MADE_ABSOLUTE else paths
        if name in _GLOBS and call.args:
            paths = self.of(source, scope, call.args[0], deep)
            return [_join((), path) for path in map(_of_glob, paths)]
        if name in _CHOOSE and call.args:
            return self._elements(source, scope, call.args[0], deep)
        if isinstance(call.func, ast.Attribute) and not name.startswith(("os.", "glob.")):
            found = self._of_own_method(source, scope, call, call.func, deep)
            if found is not None:
                return found
        functions = program.resolve(source, scope, call)
        made = any(isinstance(v, Class) for v in program.names.of(source, scope, call.func))
        if functions and not made:
            return [
                path
                for function in functions
                for value in returned(function.node)
                for path in self.of(function.source, function.node, value, deep)
            ]
        return [UNKNOWN]

    def _of_own_method(
        self, source: Source, scope: ScopeNode, call: ast.Call, function: ast.Attribute, deep: int
    ) -> Iterable[Path] | None:
        """What a method of a text or of a path gives; None of any other."""
        owner, given = function.value, call.args[:1]
        match function.attr:
            case "format":
                return [_join_holes(path) for path in self.of(source, scope, owner, deep)]
            case "joinpath":
                return self._below([owner, *call.args], (source, scope), deep)
            case "glob" | "rglob" if given:
                inner = self.of(source, scope, given[0], deep)
                return [(None, "/", *_of_glob(path)) for path in inner]
            case "absolute" | "resolve" | "expanduser" | "as_posix":
                return [(None, *path) for path in self.of(source, scope, owner, deep)]
            case "with_suffix" if given:
                return [(None, *path) for path in self.of(source, scope, given[0], deep)]
        return None

    def _elements(
        self, source: Source, scope: ScopeNode, node: ast.expr, deep: int
    ) -> Iterable[Path]:
        """Of what walking over something gives: a list of files, what `glob` finds."""
        match node:
            case ast.List(elts=parts) | ast.Tuple(elts=parts) if parts:
                return [path for part in parts for path in self.of(source, scope, part, deep)]
            case ast.Call():
                name = self.facts.program.names.qualified(source, scope, node.func)
                if name in (*_GLOBS, *_CHOOSE) or callee(node) in ("glob", "rglob"):
                    return self._of_call(source, scope, node, deep)
            case ast.Name() if deep:
                return self._of_name(source, scope, node, deep - 1, elements=True)
            case ast.IfExp() if deep:
                parts = alternatives(node)
                return [p for a in parts for p in self._elements(source, scope, a, deep - 1)]
            case ast.BinOp(op=ast.Div()):
                return []  # a path, which nobody walks over
        return [UNKNOWN]

    def _of_name(
        self, source: Source, scope: ScopeNode, node: ast.Name, deep: int, *, elements: bool = False
    ) -> Iterable[Path]:
        program, name = self.facts.program, node.id
        walked = None if elements else _walked_around(source, node)
        if walked is not None and deep:
            return self._elements(source, scope, walked, deep)
        binder = program.binder(source, scope, name)
        if binder is None or not deep or any(source.grown(name)):
            return [UNKNOWN]
        if elements and self.facts.storage.is_filled(name):
            return [UNKNOWN]
        home = program.source_of_scope.get(binder, source)
        ask = self._elements if elements else self.of
        found: list[Path] = []
        ahead = self.facts.storage.bound_ahead(Frame(source, scope), node)
        for binding in ahead or program.bound(source, binder, name):
            match binding:
                case Bound(value=value, path=()):
                    found += ask(home, binder, value, deep) if _is_told(value) else []
                case Bound(value=value) if not elements:
                    found += self._elements(home, binder, value, deep)
                case Parameter(function=function):
                    found += self._passed(Function(home, function), name, deep, elements=elements)
                case _:
                    return [UNKNOWN]
        return found

    def _passed(
        self, function: Function, name: str, deep: int, *, elements: bool = False
    ) -> Iterator[Path]:
        if text := self._texts.get((function.node, name)):
            yield (text,)
            return
        given = given_by_all(self.facts.program, function, name, self._runs)
        if given is None:
            yield UNKNOWN
        for place in given or ():
            if _is_told(place[2]):
                found = self.of(*place, deep)
                one = UNKNOWN not in found
                walked = () if one else self._elements(*place, deep)
                several = isinstance(place[2], (ast.List, ast.Tuple))  # no path itself
                yield from walked if elements else () if several else found

    def _runs(self, scope: ScopeNode, call: ast.Call) -> bool:
        return not self.facts.is_dead(scope, call)

    def _of_attribute(
        self, source: Source, scope: ScopeNode, node: ast.Attribute, deep: int
    ) -> Iterable[Path]:
        """What the options say, or all that is set as an attribute of that name."""
        told = self.facts.options.value(source, node)
        if isinstance(told, str):
            return [(told,)]
        program = self.facts.program
        cls = program.class_of_self(source, scope, node.value)
        if cls is None or any(source.grown(node.attr)) or program.is_of_a_class(node.attr):
            return [UNKNOWN]
        puts = program.puts_of(node.attr)
        if not (deep and puts) or any(put.bound.path for _, put in puts):
            return [UNKNOWN]
        return [p for s, put in puts for p in self.of(s, put.scope, put.bound.value, deep)]


def _makes(statement: ast.stmt, folder: ast.expr) -> bool:
    """`os.makedirs(folder)`, `folder.mkdir()`, and either below `if not os.path.exists(folder):`"""
    match statement:
        case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=ast.Call() as call), body=body):
            asks = callee(call) in ("exists", "isdir", "is_dir") and _is_of(call, folder)
            return asks and any(_makes(each, folder) for each in body)
        case ast.Expr(value=ast.Call() as call):
            return callee(call) in ("makedirs", "mkdir") and _is_of(call, folder)
    return False


def _is_of(call: ast.Call, path: ast.expr) -> bool:
    """`os.mkdir(path)`, `path.mkdir()`"""
    own = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return ast.unparse(path) in map(ast.unparse, (*own, *call.args[:1]))


def _named(opened: Opened) -> Opened:
    """With the paths alone that end in the name of a file."""
    return Opened(tuple(filter(_is_named, opened.paths)))


def _is_named(path: Path) -> bool:
    return re.search(r"\.\w+$", path[-1] or "") is not None


_OF_FILE = methods.WRITES_FILE | {"read", "readline", "readlines", "open"}


def _is_told(node: ast.expr) -> bool:
    """Nothing is opened by None, which a name is bound to until it is known."""
    return not (isinstance(node, ast.Constant) and node.value is None)


def _is_none(name: str) -> bool:
    return any(name == each or name.startswith(each) for each in _NO_FILES)


def _path_given(name: str, call: ast.Call) -> ast.expr | None:
    at = 1 if name in _SECOND or last(name) == "save_image" else 0
    return argument(call, *_NAMED, at=at)


def _format_of_open(call: ast.Call) -> str:
    """Text in a mode that tells so, unless what is no text is passed over."""
    mode = argument(call, "mode", at=1) or ast.Constant("r")
    lenient = argument(call, "errors", "encoding") is not None
    told = isinstance(mode, ast.Constant) and "b" not in str(mode.value)
    return "text" if told and not lenient else ""


def _opened_around(source: Source, node: ast.expr) -> ast.expr:
    """What the innermost `with ... as file` gives that name."""
    statement = source.statement_of(node) if isinstance(node, ast.Name) else None
    for around in (statement, *source.parents(statement)) if statement is not None else ():
        for item in around.items if isinstance(around, ast.With) else ():
            name = item.optional_vars
            if isinstance(name, ast.Name) and name.id == getattr(node, "id", ""):
                return item.context_expr
    return node


def _walked_around(source: Source, node: ast.Name) -> ast.expr | None:
    """What the innermost loop around a name walks over that gives it its value."""
    statement = source.statement_of(node)
    for around in source.parents(statement) if statement is not None else ():
        binding = [n for n in own_nodes(around) if node.id in bound_by(n)]
        if binding:
            if not isinstance(around, ast.For) or binding != [around.target]:
                return None
            return around.iter if any(contains(s, node) for s in around.body) else None
    return None


def _holes(texts: list[str]) -> Path:
    """Texts with something unknown between them."""
    return tuple(chain.from_iterable((text, None) for text in texts))[:-1]


def _join_holes(path: Path) -> Path:
    """`'epoch_{:03d}.pt'.format(epoch)`"""
    each = [_holes(re.split(r"\{[^{}]*\}", part)) if part else (None,) for part in path]
    return tuple(chain.from_iterable(each))


def _of_glob(path: Path) -> Path:
    each = [_holes(re.split(r"[*?]+|\[[^\[\]]*\]", part)) if part else (None,) for part in path]
    return tuple(chain.from_iterable(each))


def _join(folder: Path, path: Path) -> Path:
    """As `os.path.join`: what begins unknown may be absolute."""
    if not folder or (path and (path[0] or "").startswith("/")):
        return path
    if path and path[0] is None:
        return path
    return (*folder, "/", *path)


def _joined(path: Path) -> Path:
    """Without empty texts, and with neighbours as one."""
    found: list[str | None] = []
    for part in path:
        if part and found and found[-1] is not None:
            found[-1] += part
        elif part or (part is None and found[-1:] != [None]):
            found.append(part)
    return tuple(found) or ("",)


def _may_be_one(one: Path, other: Path) -> bool:
    if not _may_end_alike(one, other):
        return False
    heads = [os.path.normpath(path[0]) if path[0] else "" for path in (one, other)]
    if _is_whole(one) and _is_whole(other):
        texts = sorted(heads, key=len)
        same_kind = texts[0].startswith("/") == texts[1].startswith("/")
        return texts[0] == texts[1] or (not same_kind and ".." not in "".join(texts))
    heads = [path[0] or "" for path in (one, other)]
    return not _begin_apart(*map(_plain_head, heads))


def _is_whole(path: Path) -> bool:
    return len(path) == 1 and path[0] is not None


def _plain_head(head: str) -> str:
    return re.sub(r"^(\./+)+", "", re.sub(r"/+", "/", head))


def _begin_apart(one: str, other: str) -> bool:
    """Two constant beginnings of which none goes on as the other does."""
    if not (one and other) or (one[0] == "/") != (other[0] == "/"):
        return False
    if ".." in one + other or "/." in one + other:
        return False
    return not (one.startswith(other) or other.startswith(one))


def _may_end_alike(one: Path, other: Path) -> bool:
    """By the last characters; a whole name of a file has no others ahead of it."""
    ends = [path[-1] or "" for path in (one, other)]
    names = [end.rpartition("/")[2] for end in ends]
    whole = ["/" in end or _is_whole(path) for end, path in zip(ends, (one, other), strict=True)]
    if all(whole):
        return names[0] == names[1]
    if whole[0]:
        return names[0].endswith(names[1])
    if whole[1]:
        return names[1].endswith(names[0])
    shorter = min(map(len, names))
    return not shorter or names[0][-shorter:] == names[1][-shorter:]
