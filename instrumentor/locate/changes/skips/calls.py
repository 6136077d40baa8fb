"""What a call changes that leaves the program: by its library, else whatever it is given."""

from __future__ import annotations

import ast

from msgspec import Struct

from instrumentor.locate.changes.skips.effects import (
    Effects,
    Files,
    cells_of,
    changes,
    replaces,
    unread,
)
from instrumentor.locate.changes.skips.objects import Objects
from instrumentor.locate.changes.skips.storage import (
    NOWHERE,
    UNKNOWN,
    Cell,
    Frame,
    Reach,
    Storage,
    anywhere,
)
from instrumentor.locate.meaning import libraries, methods
from instrumentor.locate.meaning.libraries.library import fits
from instrumentor.locate.meaning.roles import Effect, Kind, Role
from instrumentor.read.names import external_name
from instrumentor.read.syntax import argument, arguments, last, turns_off
from instrumentor.read.values import Class, External, Group, Member, Object

_MAKES_FILE = Files.WRITES | Files.NEEDS_FOLDER
_FOLDER = Files.WRITES | Files.MAKES_FOLDER
#: Of those that save the ones that make no file.
_FOLDERS = {
    **dict.fromkeys(("os.makedirs", "os.mkdir", "mkdir"), _FOLDER),
    # into what is open, or is there
    **dict.fromkeys(("write", "writelines", "unlink", "rmdir", "os.remove"), Files.WRITES),
    **dict.fromkeys(("os.unlink", "os.rmdir", "shutil.rmtree"), Files.WRITES),
}


#: Whose methods leave their objects as they are.
_NEVER_CHANGED = "torch.distributions."


class LibraryCalls(Struct, eq=False):
    """Effects of calls of libraries."""

    storage: Storage
    objects: Objects

    def of(self, frame: Frame, statement: ast.stmt, call: ast.Call) -> Effects:
        where = (frame.source, frame.scope)
        # an iterator that is handed on may come back used up
        used_up = (c for r in self._reaches(frame, call) if r.once for c in r.cells)
        found = changes(frame, call, used_up)
        name = self.objects.knowledge.program.names.qualified(*where, call.func)
        made_by = self.objects.object_of(*where, call.func)
        on_object = isinstance(call.func, ast.Attribute) and not self.objects.is_library(
            *where, call.func
        )
        if name.startswith("builtins."):
            found.add(self._builtin(frame, statement, call, name))
        elif (
            (self.objects.is_module(*where, call.func) and not self._changes(frame, call.func))
            or made_by in methods.TUPLES
            or self._reads(frame, call.func)
        ):
            pass
        elif made_by:  # an object of a library that is called: a loss, a metric, a transform
            own = self._changed_by(frame, call.func)
            if own and not made_by.startswith("torch.nn."):
                found.add(changes(frame, call, anywhere(own) | self._given(frame, call)))
        elif isinstance(call.func, ast.Attribute) and on_object:
            found.add(self._method(frame, statement, call, call.func))
        elif "." in name:
            for each in self._functions(frame, call.func) or (name,):
                found.add(self._function(frame, statement, call, each))
            if isinstance(call.func, ast.Attribute) and self.objects.is_own_too(*where, call.func):
                found.add(self._method(frame, statement, call, call.func))
        else:
            found.add(_unread(frame, call))
        if any(cell.name == "__dict__" for cell in found.changed):  # attributes of whatever name
            found.add(_unread(frame, call))
        return found

    def _functions(self, frame: Frame, called: ast.expr) -> list[str]:
        """The qualified names of all functions of libraries that a call may run."""
        values = self.objects.knowledge.program.names.called(frame.source, frame.scope, called)
        return [value.name for value in values if isinstance(value, External)]

    def draws(self, frame: Frame, call: ast.Call) -> bool:
        """Whether a call takes random numbers of the process: of a tensor in place as well."""
        name = self.objects.knowledge.program.names.qualified(frame.source, frame.scope, call.func)
        word = call.func.attr if isinstance(call.func, ast.Attribute) and not name else ""
        return _takes_numbers(name) or word in methods.DRAWING

    def _changes(self, frame: Frame, function: ast.expr) -> bool:
        """`model.reset_cache()` of a library's model, which its own modules are not told from."""
        values = self.objects.knowledge.program.names.of(frame.source, frame.scope, function)
        word = function.attr if isinstance(function, ast.Attribute) else ""
        return methods.changes_module(word) and all(isinstance(v, Member) for v in values)

    def _reads(self, frame: Frame, function: ast.expr) -> bool:
        """`unwrap = accelerator.unwrap_model`, a method by a name of its own."""
        values = self.objects.knowledge.program.names.of(frame.source, frame.scope, function)
        return isinstance(function, ast.Name) and all(
            isinstance(v, Member) and v.name in methods.READING_METHODS for v in values or (None,)
        )

    def _reaches(self, frame: Frame, call: ast.Call) -> list[Reach]:
        return [self.storage.of(frame, a) for a in arguments(call)]

    def _given(self, frame: Frame, call: ast.Call) -> set[Cell]:
        return {cell for reach in self._reaches(frame, call) for cell in cells_of(reach)}

    def _builtin(self, frame: Frame, statement: ast.stmt, call: ast.Call, name: str) -> Effects:
        given = call.args
        if name in ("builtins.map", "builtins.filter") and len(given) > 1:
            if isinstance(given[0], ast.Attribute):  # map(results.append, values)
                inner = ast.Call(given[0], given[1:], [])
                return self.of(frame, statement, ast.copy_location(inner, call))
        if name == "builtins.open":
            mode = argument(call, "mode", at=1)
            reads = mode is None or (isinstance(mode, ast.Constant) and "r" in str(mode.value))
            return Effects(files=Files.READS if reads else _MAKES_FILE)
        if name == "builtins.setattr" and len(given) == 3:
            owner = self.storage.of(frame, given[0])
            if owner.is_new:
                return Effects()
            attribute = self.storage.of(frame, given[1]).constant
            if attribute:
                return replaces(frame, call, [Cell(attribute)])
        return self._function(frame, statement, call, name)

    def _function(self, frame: Frame, statement: ast.stmt, call: ast.Call, name: str) -> Effects:
        if name == "torch.set_grad_enabled" and isinstance(statement, (ast.With, ast.AsyncWith)):
            return Effects()
        effect = libraries.effect_of(name)
        word = last(name)
        of_its_own = name.count(".") > 1 and word in methods.PUTS | methods.TAKES | {"update"}
        hooked = name == "torch.autograd.grad" and self._is_hooked
        if effect is Effect.PROCESS or hooked or (effect is Effect.GIVEN and of_its_own):
            return _unread(frame, call)  # `library.table.append(x)`
        found = Effects(draws=[NOWHERE] if _takes_numbers(name) else [])
        if effect is Effect.SAVES or libraries.role_of(name) is Role.SAVE:
            found.files = _FOLDERS.get(name, _MAKES_FILE)
        elif effect is Effect.LOADS and self._is_read_back(name):
            found.files = Files.READS
        if effect is Effect.GIVEN or _in_place(call):
            found.add(changes(frame, call, self._given(frame, call)))
        elif effect is Effect.FIRST and call.args:
            first = self.storage.of(frame, call.args[0])
            alone = name == "builtins.next"  # what it gives stays as it is
            if not (alone and _begins_to_walk(call.args[0])):
                found.add(changes(frame, call, first.cells if alone else cells_of(first)))
        return found

    @property
    def _is_hooked(self) -> bool:
        """Whether computing gradients may run functions of the program."""
        program = self.objects.knowledge.program
        return any(any(program.calls_named(word)) for word in methods.HOOKS_OF_GRADIENTS) or any(
            name.endswith("autograd.Function")
            for f in program.methods_by_name.get("backward", ())
            for name in program.names.external_bases(Class(f.source, f.source.class_of[f.node]))
        )

    def _is_read_back(self, name: str) -> bool:
        """Whether a function may read what the program writes: pictures if it writes some."""
        written = self.objects.knowledge.program.calls_named
        picture = any(fits(name, row) for row in methods.READS_PICTURES)
        return not picture or any(map(written, methods.WRITES_PICTURES))

    def _method(
        self, frame: Frame, statement: ast.stmt, call: ast.Call, function: ast.Attribute
    ) -> Effects:
        found = self._of_method(frame, statement, call, function)
        if function.attr in methods.DRAWING or self._samples(frame, call, function):
            found.draws.append(NOWHERE)
        return found

    def _samples(self, frame: Frame, call: ast.Call, function: ast.Attribute) -> bool:
        """`model.generate(x)`, which draws what comes next unless it is told not to."""
        return (
            function.attr in methods.GENERATES
            and not turns_off(call, "do_sample")
            and self.objects.is_module(frame.source, frame.scope, function.value)
        )

    def _of_method(
        self, frame: Frame, statement: ast.stmt, call: ast.Call, function: ast.Attribute
    ) -> Effects:
        word = function.attr
        where = (frame.source, frame.scope, function.value)
        own = self.storage.of(frame, function.value)
        if word in ("backward", "step") or (word == "load_state_dict" and own.cells | own.held):
            return _unread(frame, call)
        if self.objects.is_module(*where):
            to = self._moved_to(frame, call, word)
            if to is not None and own.is_new:
                return Effects()
            if to is not None:
                key = (frame.source, frame.scope, ast.unparse(function.value))
                return Effects(moved={key: (to == "cpu", (frame.source, call))})
            loss = libraries.made_by(self.objects.object_of(*where)) is Kind.LOSS  # of tensors
            held = frozenset[Cell]() if loss else own.held
            every = anywhere(own.cells | held) if methods.changes_module(word) else ()
            found = changes(frame, call, every)
            if word in methods.MODULE_SAVES:
                found.files = _FOLDER
            return found
        if self.objects.saves_weights(frame.source, frame.scope, call):
            return Effects(files=_FOLDER)
        if word in methods.WRITES_FILE and self.objects.is_file(*where, written=word == "close"):
            return Effects(files=Files.WRITES)
        if word in methods.METHODS_THAT_SAVE | methods.METHODS_THAT_LOAD:
            found = changes(frame, call, () if word in methods.METHODS_OF_PATHS else own.cells)
            saves = word in methods.METHODS_THAT_SAVE
            found.files = _FOLDERS.get(word, _MAKES_FILE) if saves else Files.READS
            return found
        in_place = _in_place(call) or (
            word in methods.IN_PLACE_UNLESS_A_TENSOR
            and isinstance(statement, ast.Expr)
            and statement.value is call
        )
        if word == "__iter__":
            return changes(frame, call, own.cells if own.once else ())
        if word == "get":  # of a queue, which has it no longer
            in_place = not call.args or self.objects.object_of(*where).endswith("Queue")
        reads = word in methods.READING_METHODS and not in_place
        reads |= self.objects.object_of(*where).startswith(_NEVER_CHANGED)
        reads |= word in methods.SHOWS and self.objects.is_accelerator(*where)
        if reads or self.objects.is_sink(*where) or self.objects.is_on_a_sink(*where):
            return Effects()
        if own.plain and word not in methods.PUTS | methods.TAKES:
            return Effects()  # of a number or a text
        if own == UNKNOWN:
            return _unread(frame, call)  # a change of nobody knows what
        if word in methods.PUTS | methods.TAKES or self._fills(frame, function):
            # what lies there stays as it is; a number that has elements is none
            return (replaces if own.plain else changes)(frame, call, own.cells)
        every = self._changed_by(frame, function.value)
        device = word in methods.IN_PLACE_UNLESS_A_TENSOR  # or a type, all that these are given
        given = set() if device else self._given(frame, call)
        return changes(frame, call, anywhere(every) | given)

    def _fills(self, frame: Frame, function: ast.Attribute) -> bool:
        """`table.update(others)` of a table that is written out."""
        names = self.objects.knowledge.program.names
        values = names.of(frame.source, frame.scope, function.value)
        return function.attr == "update" and all(isinstance(v, Group) for v in values or (None,))

    def _moved_to(self, frame: Frame, call: ast.Call, word: str) -> str | None:
        """`model.cpu()`, `model.to(device)`: the same values and parameters, elsewhere."""
        if word in methods.MOVES:
            return word
        if word != "to" or len(call.args) != 1 or call.keywords:
            return None
        device = call.args[0]
        if isinstance(device, ast.Constant) and isinstance(device.value, str):
            return device.value
        values = self.objects.knowledge.program.names.of(frame.source, frame.scope, device)
        for value in values:
            if not isinstance(value, Object) or external_name(value.made_by) != "torch.device":
                return None
            given = arguments(value.node) if isinstance(value.node, ast.Call) else []
            if [ast.unparse(a) for a in given] == ["'cpu'"]:
                return "cpu"
        return ast.unparse(device) if values else None

    def _changed_by(self, frame: Frame, node: ast.expr) -> frozenset[Cell]:
        """Storage that leads to what an object may change when it is used."""
        where, own = (frame.source, frame.scope, node), self.storage.of(frame, node)
        keeps = self.objects.trains(*where) or self.objects.keeps(*where)
        return own.cells | own.held if keeps else own.cells

    def uses(self, frame: Frame, node: ast.expr) -> frozenset[Cell]:
        """What syntax does with an object of a library: `with keeper:`, `keeper += 1`."""
        keeps = self.objects.keeps(frame.source, frame.scope, node)
        return anywhere(self._changed_by(frame, node)) if keeps else frozenset()


def _takes_numbers(name: str) -> bool:
    return libraries.draws(name) or libraries.draws_if_made(name)


def _begins_to_walk(node: ast.expr) -> bool:
    """`model.parameters()`, an iterator that nobody else has."""
    match node:
        case ast.Call(func=ast.Attribute(attr=word)):
            return word in methods.WALKS_MODULE
    return False


def _in_place(call: ast.Call) -> bool:
    """Writes into what it is given, or takes numbers from its generator."""
    return any(k.arg in ("out", "inplace", "generator") for k in call.keywords)


def _unread(frame: Frame, call: ast.Call) -> Effects:
    return unread(frame, call, f"{ast.unparse(call.func)}()")
