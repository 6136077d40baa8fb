"""What may be done with an object without harm: a torch module, a logger, one of a library."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from instrumentor.locate.meaning import libraries, methods, spelling
from instrumentor.locate.meaning.calls import Knowledge
from instrumentor.locate.meaning.roles import Effect, Evidence, Kind, Role
from instrumentor.read import handed_on
from instrumentor.read.names import external_name
from instrumentor.read.script_options import is_namespace
from instrumentor.read.syntax import ScopeNode, Source, argument, arguments, dotted, last
from instrumentor.read.values import (
    Class,
    External,
    Group,
    Item,
    Member,
    Object,
    Value,
    Values,
    is_own,
)

_MODULES = (Kind.MODEL, Kind.LOSS, Kind.ENGINE)
#: Modules that hold others, which walking over them and an index give.
CONTAINERS = ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict")
_WALKED_THROUGH = handed_on.RETURNS_ARGUMENT | {"builtins.enumerate", "builtins.zip"}
_LOADER = "DataLoader"
_CHANGES = (Effect.GIVEN, Effect.FIRST, Effect.PROCESS)
#: What they write goes to the file that they are given.
WRITERS = ("csv.writer", "csv.DictWriter")
_TRAINS = (Kind.AVERAGE, Kind.OPTIMIZER, Kind.SCHEDULER, Kind.SCALER, Kind.ACCELERATOR)


class Objects(Struct, eq=False):
    """Objects of a program by their type and their use; how they are called tells nothing here."""

    knowledge: Knowledge
    #: What the step itself calls: calling it once more changes nothing that it does not.
    called_by_the_step: frozenset[Value] = frozenset()

    def is_module(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """A torch module: made by a class of modules, or used as only modules are."""
        return any(
            v in self.called_by_the_step or self._module(v)
            for v in self._values(source, scope, node)
        )

    def runs(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        """A module that is called, or a method of one that may run it, as `load_from` does not."""
        word = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        asks = not arguments(call) and word != "forward"  # `layers.values()`
        told = asks or methods.changes_module(word) or word in methods.WALKS_MODULE
        if word in methods.GENERATES and isinstance(call.func, ast.Attribute):
            return self.is_module(source, scope, call.func.value)
        return not (word and told) and self.is_module(source, scope, call.func)

    def is_on_a_module(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        """Of a library's object that was made with a module: `ODE(net).solve(x)`, `sampler(x)`.

        Not of those that train or log, nor what takes nothing.
        """
        owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        return bool(arguments(call)) and any(
            isinstance(value, Object)
            and isinstance(value.node, ast.Call)
            and value.where is not None
            and _is_of_an_unknown_kind(external_name(value.made_by))
            and any(self.is_module(*value.where, given) for given in value.node.args)
            for value in self._values(source, scope, owner)
        )

    def is_known(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Whether its type or its use tells what it is, or the step itself calls it."""
        if any(v in self.called_by_the_step for v in self._values(source, scope, node)):
            return True
        found = self.knowledge.kinds.of(source, scope, node)
        return found is not None and found[1] is not Evidence.SPELLING

    def is_own(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """An instance of one of the program's classes: only its own code reads what it holds."""
        values = self._values(source, scope, node)
        return any(map(is_own, values))

    def is_namespace(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """What a parser of options gave: whoever is given it may read all its attributes."""
        values = self._values(source, scope, node)
        return bool(values) and all(map(is_namespace, values))

    def is_of_options(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """A namespace, or the table that it keeps them in: `vars(args)`, `args.__dict__`."""
        for value in self._values(source, scope, node):
            match value:
                case Member(owner=owner, name="__dict__") if is_namespace(owner):
                    return True
                case Object(made_by=External(name="builtins.vars"), node=ast.Call(args=[one])):
                    if value.where is not None and self.is_namespace(*value.where, one):
                        return True
        return self.is_namespace(source, scope, node)

    def is_sink(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Takes values and gives none back: a logger, a progress bar.

        What the program's own class does instead, if it may be one, is read by itself.
        """
        values = self._values(source, scope, node)
        others = [v for v in values if not is_own(v)]
        return bool(others or self.is_on_a_sink(source, scope, node)) and all(
            libraries.made_by(external_name(v)) is Kind.LOGGER
            or self.knowledge.kinds.of_value(v) == (Kind.LOGGER, Evidence.TYPE)
            or _is_drawn(v)
            for v in others
        )

    def is_file(
        self, source: Source, scope: ScopeNode, node: ast.expr, *, written: bool = False
    ) -> bool:
        """What was opened, or a writer of rows on that.

        Args:
            written: opened to be written alone: nobody reads it back.
        """
        values = [*self.put_on_options(self._values(source, scope, node))]
        return bool(values) and all(self._is_file(value, written) for value in values)

    def put_on_options(self, values: Values) -> Iterator[Value]:
        """Values, and of an attribute of options what the program sets it to: `args.log = open(p)`.

        What the command line gave it first is a text, a number or nothing.
        """
        names = self.knowledge.program.names
        for value in values:
            found = list[Value]()
            if isinstance(value, Member) and is_namespace(value.owner):
                for source, put in names.puts_of(value.name):
                    if self.is_namespace(source, put.scope, put.owner) and not put.bound.path:
                        found += names.of(source, put.scope, put.bound.value)
            yield from found or (value,)

    def _is_file(self, value: Value, written: bool) -> bool:
        if not (isinstance(value, Object) and value.node is not None and value.where is not None):
            return False
        name, made = external_name(value.made_by), value.node
        if name in WRITERS and made.args:
            return self.is_file(*value.where, made.args[0], written=written)
        opens = name == "builtins.open"
        mode = argument(made, "mode", at=int(opens))  # `path.open("w")`
        known = isinstance(mode, ast.Constant) and {*str(mode.value)} <= {*"rwaxbt+"}
        if not opens and not (known and isinstance(made.func, ast.Attribute)):
            return False
        if not opens and getattr(made.func, "attr", "") != "open":
            return False
        return not written or (isinstance(mode, ast.Constant) and not {*"r+"} & {*str(mode.value)})

    def is_on_a_sink(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Of a class of the program on a library's logger, whose methods only take."""
        names = self.knowledge.program.names
        made = [
            v.made_by if isinstance(v, Object) else v for v in self._values(source, scope, node)
        ]
        return bool(made) and all(
            isinstance(cls, Class)
            and any(libraries.made_by(n) is Kind.LOGGER for n in names.external_bases(cls))
            for cls in made
        )

    def tells(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        """A library's call that shows what it is given, or writes it to a file."""
        if isinstance(call.func, ast.Attribute):
            if self.is_sink(source, scope, call.func.value):
                return True
            if call.func.attr in methods.METHODS_THAT_SAVE:
                return not self.is_own(source, scope, call.func.value)
        name = self.knowledge.program.names.qualified(source, scope, call.func)
        return libraries.role_of(name) is Role.LOG or libraries.effect_of(name) is Effect.SAVES

    def trains(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Changes what it was made from: an optimizer, an average of weights, a scaler."""
        return self.knowledge.kinds.is_a(source, scope, node, *_TRAINS)

    def is_accelerator(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """What a library moves models and batches with, by its type."""
        values = self._values(source, scope, node)
        made = [external_name(v.made_by) if isinstance(v, Object) else "" for v in values]
        return bool(made) and all(libraries.made_by(n) is Kind.ACCELERATOR for n in made)

    def keeps(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """An object of a library which may change what it was made of, or was given later.

        Not those of libraries that are known to change nothing that they are given.
        """
        return any(
            libraries.effect_of(name) in _CHANGES
            for value in self._values(source, scope, node)
            for name in self._makers(value)
        )

    def _makers(self, value: Value) -> Iterator[str]:
        """Qualified names of the library classes and functions that an object comes from."""
        if isinstance(value, Object) and isinstance(value.made_by, Class):
            yield from self.knowledge.program.names.external_bases(value.made_by)
        elif isinstance(value, Object):
            yield from filter(None, [external_name(value.made_by)])

    def saves_weights(self, source: Source, scope: ScopeNode, call: ast.Call) -> bool:
        """A library's call that writes weights or the state of an optimizer."""
        names = self.knowledge.program.names
        if libraries.role_of(names.qualified(source, scope, call.func)) is Role.SAVE:
            return True
        if not isinstance(call.func, ast.Attribute):
            return False
        where, word = (source, scope, call.func.value), call.func.attr
        return (word in methods.MODULE_SAVES and self.is_module(*where)) or (
            word in methods.ACCELERATOR_SAVES and self.object_of(*where).startswith("accelerate.")
        )

    def walked(self, source: Source, scope: ScopeNode, node: ast.expr) -> ast.expr | None:
        """The data loader that a loop walks over, through `enumerate` and progress bars."""
        node = self.within(source, scope, node)
        values = self._values(source, scope, node)
        made = [external_name(v.made_by) if isinstance(v, Object) else "" for v in values]
        if any(name.endswith(_LOADER) for name in made):
            return node
        if made and all(made):
            return None
        return node if self.knowledge.kinds.is_a(source, scope, node, Kind.DATA) else None

    def within(self, source: Source, scope: ScopeNode, node: ast.expr) -> ast.expr:
        """What is walked over in the end, through such calls."""
        while isinstance(node, ast.Call) and self.is_walked_through(source, scope, node):
            node = node.args[0]
        return node

    def is_walked_through(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """A call which walks over what it is given first where it is walked over."""
        if not (isinstance(node, ast.Call) and node.args):
            return False
        name = self.knowledge.program.names.qualified(source, scope, node.func)
        return name in _WALKED_THROUGH

    def is_loader(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Made by a library's loader, or what nobody tells and is called a loader."""
        values = self._values(source, scope, node)
        if any(self.is_made_a_loader(value) for value in values):
            return True
        spelled = self.knowledge.kinds.of(source, scope, node) == (Kind.DATA, Evidence.SPELLING)
        return spelled and spelling.LOADER.fits(last(dotted(node)).lower())

    def is_made_a_loader(self, value: Value) -> bool:
        return isinstance(value, Object) and any(
            name.endswith(_LOADER) for name in self._makers(value)
        )

    def seeds(self, source: Source, scope: ScopeNode, loader: ast.expr) -> bool:
        """Whether walking over data may draw seeds: not over a batch, nor an array of numbers."""
        found = self.knowledge.kinds.of(source, scope, loader)
        spelled = found is not None and found[1] is Evidence.SPELLING
        values = self._values(source, scope, loader)
        if any(map(self.is_made_a_loader, values)):
            return True  # whatever else it may be
        if values and all(map(self._is_of_a_batch, values)):
            return False
        return not (spelled and spelling.BATCH.fits(last(dotted(loader)))) and not any(
            libraries.is_on_host(name.partition(".")[0])
            for value in values
            for name in self._makers(value.owner if isinstance(value, Item) else value)
        )

    def _is_of_a_batch(self, value: Value) -> bool:
        """What a loader gives, a part of that, or several values in one."""
        if isinstance(value, Item):
            return self.is_made_a_loader(value.owner) or self._is_of_a_batch(value.owner)
        return isinstance(value, Group)

    def is_library(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """A module, function or class of an installed package, not one of its objects."""
        return any(isinstance(v, External) for v in self._values(source, scope, node))

    def is_own_too(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Whether it may be something else than what installed packages define."""
        return not all(map(external_name, self._values(source, scope, node)))

    def object_of(self, source: Source, scope: ScopeNode, node: ast.expr) -> str:
        """Qualified name of the library class or function that an object comes from."""
        for value in self._values(source, scope, node):
            if isinstance(value, Object) and external_name(value.made_by):
                return external_name(value.made_by)
        return ""

    def _values(self, source: Source, scope: ScopeNode, node: ast.expr) -> Values:
        return self.knowledge.program.names.of(source, scope, node)

    def _module(self, value: Value) -> bool:
        if isinstance(value, Item) and isinstance(value.owner, Object):  # `self.layers[0]`
            if external_name(value.owner.made_by) in CONTAINERS:
                return True
        found = self.knowledge.kinds.of_value(value)
        return found is not None and found[0] in _MODULES


def _is_of_an_unknown_kind(name: str) -> bool:
    """Whether calling a qualified name makes an object of which nothing is known."""
    own = not name or name.startswith(("builtins.", "torch."))
    return not own and libraries.made_by(name) is None


def _is_drawn(value: Value) -> bool:
    """`figure.subplots(2)[0]`: what a figure or a part of one gives is a part of it."""
    if isinstance(value, Object):
        return external_name(value.made_by).startswith("matplotlib.") or _is_drawn(value.made_by)
    return isinstance(value, (Item, Member)) and _is_drawn(value.owner)
