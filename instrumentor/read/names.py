"""What an expression refers to: one resolver for training scripts and for kernels.

Names are followed through imports and their aliases, assignments and unpacking, containers,
attributes of modules, classes and objects, what functions return, and from a parameter to what
its callers pass. An answer is a tuple, because a name may be bound in several branches.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Container, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache, partial
from importlib import import_module
from itertools import chain
from typing import TypeGuard

from msgspec import field

from instrumentor.read import handed_on
from instrumentor.read.bindings import Binding, Bound, Defined, Imported, Parameter
from instrumentor.read.configured import INSTANTIATE, key_of
from instrumentor.read.fixpoint import Answers
from instrumentor.read.modules import Modules, modules_of
from instrumentor.read.signatures import (
    default_of,
    is_decorated,
    is_method,
    is_property,
    on_class,
    passed,
)
from instrumentor.read.syntax import (
    FUNCTIONS,
    FunctionNode,
    ScopeNode,
    Source,
    alternatives,
    argument,
    callee,
    last,
    own_calls,
    returned,
)
from instrumentor.read.values import (
    MORE,
    NOTHING,
    PLAIN_BASES,
    Class,
    External,
    Free,
    Function,
    Group,
    Item,
    Member,
    Object,
    Opaque,
    Value,
    Values,
    is_own,
)
from instrumentor.read.written_texts import ANY, text_of

_BUILTINS = frozenset(dir(builtins))
#: A name with more meanings than this is generated code or a dispatch table.
_MANY = 12
#: Callers of a function that are asked what they give.
_CALLERS = 24
#: By which a module gets names that nothing in it binds.
_OWN_TABLE = ("globals", "vars", "locals", "exec", "__dict__")
_TABLES = ("dict", "collections.OrderedDict", "collections.defaultdict")


class Names(Modules, eq=False, dict=True):
    """Resolves expressions of a program's modules; answers are kept."""

    _answers: Answers = field(default_factory=Answers)
    _bases: dict[ast.ClassDef, list[Class]] = field(default_factory=dict)

    def _kept(self, question: object, answer: Callable[[], Values]) -> Values:
        return self._answers.ask(question, answer, NOTHING)

    # -- expressions -----------------------------------------------------------------------

    def of(self, source: Source, scope: ScopeNode, node: ast.AST) -> Values:
        """What an expression may refer to where it stands."""
        match node:
            case ast.Name(id=name):
                given = source.given_to_lambdas.get(node)
                return self.named(source, scope, name) if given is None else (Opaque(given),)
            case ast.Attribute(value=owner, attr=name):
                return _union(self.attribute(one, name) for one in self.of(source, scope, owner))
            case ast.Call():
                return self._kept(node, lambda: self._called(source, scope, node))
            case ast.Subscript():
                return self._kept(node, lambda: self._subscript(source, scope, node))
            case ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
                return self._kept(node, lambda: (self._group(source, scope, node),))
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part):
                return (Group(node, (self.of(source, scope, part),)),)
            case ast.DictComp(value=part):
                return (Group(node, (self.of(source, scope, part),)),)
            case ast.Starred(value=part) | ast.Await(value=part):
                return self.of(source, scope, part)
            case ast.IfExp() | ast.BoolOp() | ast.NamedExpr():
                return _union(self.of(source, scope, part) for part in alternatives(node))
            case ast.Lambda():
                return (Opaque(node),)
        return NOTHING

    def known(self, source: Source, scope: ScopeNode, node: ast.expr) -> Values:
        """As :meth:`of`; of what nothing tells, the expression itself, and nothing of constants."""
        return self.of(source, scope, node) or (
            NOTHING if isinstance(node, ast.Constant) else (Opaque(node),)
        )

    def _subscript(self, source: Source, scope: ScopeNode, node: ast.Subscript) -> Values:
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return _union(self.item(value, index) for value in self.of(source, scope, node.value))

    def named(self, source: Source, scope: ScopeNode, name: str) -> Values:
        """What a name may refer to where it is read."""
        where = self.binder(source, scope, name)
        if where is not None:
            return self._kept(
                (where, name),
                lambda: self._of_bindings(source, where, self.bound(source, where, name)),
            )
        for star in self.bindings_of(source).stars:
            module = self.module(star.module, source, star.level)
            if isinstance(module, Source) and module is not source:
                starred = self.named(module, module.tree, name)
                if starred and starred != (Free(name),):
                    return starred
            if isinstance(module, External) and name in _of_python(module.name):
                return (External(f"{module.name}.{name}"),)
        return (External(f"builtins.{name}") if name in _BUILTINS else Free(name),)

    def binder(self, source: Source, scope: ScopeNode, name: str) -> ScopeNode | None:
        """The scope that binds a name, from the given one outwards."""
        tables = self.bindings_of(source).scopes
        current = scope
        while True:
            table = tables.get(current)
            if table is not None and table.get(name):
                return current
            if not isinstance(current, FUNCTIONS):
                return None
            current = source.scope_of(current)

    def bound(self, source: Source, scope: ScopeNode, name: str) -> list[Binding]:
        """What binds a name in the scope whose variable it is."""
        return self.bindings_of(source).scopes.get(scope, {}).get(name, [])

    def is_imported(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Whether a name or dotted name starts at an import."""
        while isinstance(node, ast.Attribute):
            node = node.value
        where = self.binder(source, scope, node.id) if isinstance(node, ast.Name) else None
        if where is None or not isinstance(node, ast.Name):
            return False
        return any(isinstance(b, Imported) for b in self.bound(source, where, node.id))

    def is_of_a_library(self, source: Source, scope: ScopeNode, node: ast.expr) -> bool:
        """Whether such a name means nothing of the program's own as well."""
        values = self.of(source, scope, node)
        return self.is_imported(source, scope, node) and all(map(external_name, values))

    def qualified(self, source: Source, scope: ScopeNode, node: ast.AST) -> str:
        """`torch.optim.SGD` for whatever spelling of it; '' for anything of the program's own."""
        return next(filter(None, map(external_name, self.of(source, scope, node))), "")

    def _of_bindings(self, source: Source, scope: ScopeNode, bindings: Iterable[Binding]) -> Values:
        return _union(self._of_binding(source, scope, one) for one in bindings)

    def _of_binding(self, source: Source, scope: ScopeNode, binding: Binding) -> Values:
        if isinstance(binding, Bound):
            return self._part(source, scope, binding)
        if isinstance(binding, Imported):
            return self._imported(source, binding)
        if isinstance(binding, Parameter):
            return self._kept(binding.argument, lambda: self._given(source, binding))
        if isinstance(binding.node, ast.ClassDef):
            return (Class(source, binding.node),)
        return (Function(source, binding.node),)

    def _part(self, source: Source, scope: ScopeNode, bound: Bound) -> Values:
        if isinstance(bound.value, ast.Constant):
            return NOTHING
        values = self.of(source, scope, bound.value)
        if not values and (self._answers.incomplete or not bound.path):
            return NOTHING if self._answers.incomplete else (Opaque(bound.value),)
        for index in bound.path:
            values = _union(self.item(value, index) for value in values) or (
                Item(Opaque(bound.value), index),
            )
        return values

    # -- modules ---------------------------------------------------------------------------

    def _imported(self, source: Source, binding: Imported) -> Values:
        package = self.module(binding.module, source, binding.level)
        if not binding.name:
            return (package,)
        if isinstance(package, Source):
            # a name of the package goes before a module of that name within it; `from . import x`
            # in the package itself leads back to the question, and means the module
            found = self.named(package, package.tree, binding.name)
            if found not in (NOTHING, (Free(binding.name),)):
                return found
        whole = f"{binding.module}.{binding.name}" if binding.module else binding.name
        return (self.module(whole, source, binding.level),)

    def module(self, name: str, source: Source, level: int = 0) -> Source | External:
        """The program's module of that name, else the installed one."""
        if len(self.sources) > 1:
            path = self.find_module(name, source.path, level)
            found = self.sources.get(path) if path is not None else None
            if found is not None:
                return found
        return External(handed_on.today(name))

    # -- attributes ------------------------------------------------------------------------

    def attribute(self, owner: Value, name: str) -> Values:
        """What `owner.name` may refer to."""
        if isinstance(owner, Source):
            found = self.named(owner, owner.tree, name)
            if found != (Free(name),):
                return found
            if name == "__dict__":
                classes = (c for c in owner.tree.body if isinstance(c, ast.ClassDef))
                return (Group(owner.tree, (tuple(Class(owner, c) for c in classes),)),)
            inner = self.module(name, owner, 1) if owner.path.stem == "__init__" else None
            return (inner,) if isinstance(inner, Source) else (Member(owner, name),)
        if isinstance(owner, External):
            whole = f"{owner.name}.{name}"
            return (self.module(whole, self.entry),)
        if isinstance(owner, Class):
            found = self._of_class(owner, owner, name) or self._put_on_class(owner, name)
            return found or (Member(owner, name),)
        if isinstance(owner, Object):
            return self._kept((owner, name), lambda: self._of_object(owner, name))
        return (Member(owner, name),)

    def _of_object(self, owner: Object, name: str) -> Values:
        cls = owner.made_by
        if isinstance(cls, Class):
            found = self._of_class(cls, owner, name)
            stored = self._stored(owner, cls, name) if self.puts_of(name) else NOTHING
            if not any(isinstance(v, Function) for v in found):
                found = _union([found, stored, self._field(owner, cls, name)])
            found = _union([found, stored, self._set_from_outside(owner, cls, name)])
        elif external_name(cls) == "builtins.super":
            found = self._of_super(owner, name)
        else:
            found = self._of_namespace(owner, name)
        return found or (Member(owner, name),)

    def _of_super(self, owner: Object, name: str) -> Values:
        own = self.enclosing_class(*owner.where) if owner.where else None
        bases = self.bases(own)[1:] if own is not None else ()
        methods = ((self.method(base, name), Object(base)) for base in bases)
        return next(((Function(m.source, m.node, of),) for m, of in methods if m), NOTHING)

    def _of_namespace(self, owner: Object, name: str) -> Values:
        """`SimpleNamespace(model=...)`, `DataLoader(data).dataset`: what the call gave."""
        if owner.node is None or not owner.where or not isinstance(owner.made_by, External):
            return NOTHING
        first = handed_on.FIRST_AS.get(owner.made_by.name) == name
        given = argument(owner.node, name, at=0 if first else None)
        return NOTHING if given is None else self.known(*owner.where, given)

    def _of_class(self, cls: Class, owner: Class | Object, name: str) -> Values:
        """A method or class-level name, found upwards; overrides too when any instance is meant."""
        every = isinstance(owner, Object) and owner.node is None
        methods = self.methods(cls, name, overrides=every)
        if any(is_property(m.node) for m in methods):
            return _union(self._returned(m) for m in methods)
        if methods:
            of = owner if isinstance(owner, Object) else None
            return tuple(Function(m.source, m.node, of) for m in methods)
        for base in self.bases(cls):
            table = self.bindings_of(base.source).classes.get(base.node, {})
            bound = [b for b in table.get(name, ()) if isinstance(b, Bound)]
            found = self._of_bindings(base.source, base.source.tree, bound)
            if found:
                return found
        return NOTHING

    def _put_on_class(self, cls: Class, name: str) -> Values:
        """What is assigned to an attribute of a class from outside: `Logger.current = Logger()`."""
        return self._kept(
            ("put on", cls, name),
            lambda: _union(
                self._part(source, put.scope, put.bound)
                for source, put in self.puts_of(name)
                if cls in self.of(source, put.scope, put.owner)
            ),
        )

    def _stored(self, owner: Object, cls: Class, name: str) -> Values:
        """What is assigned to the attribute: `self.x = ...` in the family, `obj.x = ...`."""
        family = {c.node for c in self.bases(cls)}
        if owner.node is None:
            family |= {c.node for sub in self.subclasses.get(cls.node, ()) for c in self.bases(sub)}
        found: list[Values] = []
        for source, put in self.puts_of(name):
            own = self.class_of_self(source, put.scope, put.owner)
            if own is None:
                owners = self.of(source, put.scope, put.owner)
                if not any(isinstance(v, Object) and v.made_by == cls for v in owners):
                    continue
            elif own.node not in family:
                continue
            found.append(self._part(source, put.scope, put.bound))
        return _union(found)

    def _set_from_outside(self, owner: Object, cls: Class, name: str) -> Values:
        """What the class has of that name, and functions that are set by whatever name."""
        on_class = self.bases(cls) if self.puts_of(name) else ()
        found = [self._put_on_class(base, name) for base in on_class]
        for source, put in self.sets:
            owners = self.of(source, put.scope, put.owner)
            if any(isinstance(v, Object) and v.made_by == cls for v in owners):
                values = self._part(source, put.scope, put.bound)
                found.append(tuple(v for v in values if _is_callable(v)))
        return _union(found)

    def _field(self, owner: Object, cls: Class, name: str) -> Values:
        """A dataclass field: what the constructor is given, else what its annotation says."""
        fields = {
            s.target.id: (base.source, s.annotation)
            for base in reversed(self.bases(cls))
            for s in base.node.body
            if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
        }
        if name not in fields:
            return NOTHING
        arguments = ast.arguments([], [*map(ast.arg, fields)], None, [], [], None, [])
        init = ast.Lambda(arguments, ast.Constant(None))
        given = _union(
            self.known(source, scope, value)
            for source, scope, call in self._constructions(owner, cls)
            for to, value in passed(call, init, bound=False)
            if to == name and not isinstance(value, ast.Starred)
        )
        source, annotation = fields[name]
        return given or self._annotated(source, source.tree, annotation)

    def _constructions(
        self, owner: Object, cls: Class
    ) -> Iterator[tuple[Source, ScopeNode, ast.Call]]:
        if owner.node is not None and owner.where is not None:
            return iter([(*owner.where, owner.node)])
        calls = self.calls_named(cls.node.name)
        return (made for made in calls if cls in self.of(*made[:2], made[2].func))

    # -- containers ------------------------------------------------------------------------

    def _group(
        self, source: Source, scope: ScopeNode, node: ast.Tuple | ast.List | ast.Set | ast.Dict
    ) -> Group:
        parts = node.values if isinstance(node, ast.Dict) else node.elts
        named = node.keys if isinstance(node, ast.Dict) else []
        keys = [key.value if isinstance(key, ast.Constant) else None for key in named]
        if len(parts) > 64:  # a table of data
            return Group(node, ())
        items = tuple(self.known(source, scope, part) for part in parts)
        return Group(node, items, tuple(keys))

    def item(self, owner: Value, index: object) -> Values:
        """What `owner[index]` may refer to; None for any element, as a loop binds them."""
        if isinstance(owner, Group):
            return self._of_group(owner, index)
        if isinstance(owner, Object) and owner.node is not None and owner.where is not None:
            question = ("item", owner, index)
            found = self._kept(question, lambda: self._of_result(owner, owner.node, index))
            if found:
                return found
        return (Item(owner, index if isinstance(index, int) else None),)

    def _of_result(self, owner: Object, call: ast.Call | None, index: object) -> Values:
        """An element of what `enumerate`, `zip`, `dict` or `prepare` made of its arguments."""
        if call is None or owner.where is None:
            return NOTHING
        given = [self.of(*owner.where, argument) for argument in call.args]
        if isinstance(owner.made_by, Member) and owner.made_by.name in handed_on.GIVES_BACK:
            if not (isinstance(index, int) and index < len(given) > 1):
                return NOTHING
            # `model, optimizer = prepare(model, optimizer)` leads back to the question
            return tuple(value for value in given[index] if value != Item(owner, index))
        if isinstance(owner.made_by, Class):
            looked_up = self.methods(owner.made_by, "__getitem__", overrides=False)
            return _union(self._returned(method) for method in looked_up)
        word = external_name(owner.made_by).removeprefix("builtins.")
        if word in _TABLES:
            return self._of_table(owner, call, index)
        if word not in ("enumerate", "zip"):
            return NOTHING
        elements = tuple(_union(self.item(v, None) for v in values) for values in given)
        if index is not None:
            return NOTHING
        return (Group(call, elements if word == "zip" else (NOTHING, *elements[:1])),)

    def _of_table(self, owner: Object, call: ast.Call, index: object) -> Values:
        """`dict(a=x)`, `OrderedDict([("a", x)])`, `defaultdict(X)`, and what is put there later."""
        where, key = owner.where, index if isinstance(index, str) else None
        if where is None:
            return NOTHING
        makes = external_name(owner.made_by) == "collections.defaultdict"
        found = [self._put_into(owner, key)]
        for keyword in call.keywords:
            values = self.known(*where, keyword.value)
            if keyword.arg is None:
                found += [self.item(value, None) for value in values]
            elif key in (keyword.arg, None):
                found.append(values)
        for node in call.args[makes:]:
            for value in self.of(*where, node):
                is_table = isinstance(value, Group) and isinstance(value.node, ast.Dict)
                pairs = () if is_table else self.item(value, None)
                found += [self.item(value, key)] if is_table else []
                found += [self.item(pair, 1) for pair in pairs]
        if makes:
            factories = (value for node in call.args[:1] for value in self.of(*where, node))
            found += map(self._of_factory, factories)
        return _union(found)

    def _of_factory(self, factory: Value) -> Values:
        """What a function gives that nothing is given to; of a library nothing is told."""
        if isinstance(factory, Class):
            return (Object(factory),)
        if isinstance(factory, Function):
            return self._returned(factory)
        if isinstance(factory, Opaque) and isinstance(factory.node, ast.Lambda):
            node = factory.node
            home = next(s for s in self.sources.values() if node in s.lambdas)
            made = self.of(home, home.scope_of(node), node.body)
            return tuple(Object(v.made_by) if is_own(v) else v for v in made)
        return NOTHING

    def _of_group(self, group: Group, index: object) -> Values:
        return self._in_group(group, index) or (Item(group, None),)

    def _in_group(self, group: Group, index: object) -> Values:
        """What is written out or put there under an index; of others, what is under none."""
        spread = _spread(group)
        if index is not None and index in group.keys:
            return group.items[len(group.keys) - 1 - group.keys[::-1].index(index)]
        literal = isinstance(index, int) and not group.keys and not spread
        if literal and isinstance(index, int) and -len(group.items) <= index < len(group.items):
            return group.items[index]
        key = index if isinstance(index, str) else None
        items = list[Values]()
        for at, item in enumerate(group.items):
            if at in spread:  # `**others`, `*others`
                items.append(_union(self._taken(value, key) for value in item))
            elif key is None or not group.keys or group.keys[at] is None:
                items.append(item)  # not under the keys that are written out
        return _union([*items, self._put_into(group, key)])

    def _taken(self, value: Value, key: str | None) -> Values:
        return self._in_group(value, key) if isinstance(value, Group) else self.item(value, key)

    def _put_into(self, group: Group | Object, key: str | None) -> Values:
        """What is put into a container later: under a key, or under any where that is None."""

        def compute() -> Values:
            return _union(
                self._part(source, put.scope, put.bound)
                for source, put in (*self.puts_of(""), *self.fills)
                if key is None or put.key in (key, None)
                if group in self.of(source, put.scope, put.owner)
            )

        return self._kept(("put", group, key), compute)

    # -- calls -----------------------------------------------------------------------------

    def _called(self, source: Source, scope: ScopeNode, call: ast.Call) -> Values:
        made = [self._result(source, scope, call, f) for f in self.of(source, scope, call.func)]
        return _union(made)

    def _result(self, source: Source, scope: ScopeNode, call: ast.Call, function: Value) -> Values:
        """What one of the functions that a call may mean returns; else something new."""
        where = (source, scope)
        if isinstance(function, Function):
            found = tuple(
                Object(v.made_by, call, where) if _built(v, function) else v
                for v in self._returned(function)
            )
        elif isinstance(function, Object):  # the decorator that `torch.compile(backend=...)` makes
            made = external_name(function.made_by)
            wraps = made in handed_on.RETURNS_ARGUMENT and function.node and not function.node.args
            found = self._first(source, scope, call) if wraps else NOTHING
        elif isinstance(function, Member):
            found = self._of_member(source, scope, call, function)
        elif external_name(function) == "builtins.getattr":
            found = self._looked_up(source, scope, call)
        elif external_name(function) in ("importlib.import_module", "builtins.__import__"):
            found = self._imported_by_name(source, call)
        elif external_name(function) in INSTANTIATE:
            found = self._instantiated(source, scope, call)
        else:
            given = external_name(function) in handed_on.RETURNS_ARGUMENT
            found = self._first(source, scope, call) if given else NOTHING
        return found or (Object(function, call, where),)

    def _of_member(
        self, source: Source, scope: ScopeNode, call: ast.Call, method: Member
    ) -> Values:
        """A method that is not to be read: of a container, of a model, of what wraps others."""
        if method.name in ("values", "items", "copy", "pop") and len(call.args) < 2:
            return self._taken_from(method.owner, method.name, call)
        if method.name in ("get", "setdefault", "pop") and _is_table(method.owner):
            asked, *default = call.args or [ast.Constant(None)]
            key = asked.value if isinstance(asked, ast.Constant) else None
            others = [self.known(source, scope, each) for each in default]
            return _union([self.item(method.owner, key), *others])
        if method.name in handed_on.RETURNS_SELF:
            return (method.owner,)
        if isinstance(method.owner, Class) and method.name.startswith("from_"):
            return (Object(method.owner, call, (source, scope)),)  # by a library's base
        if method.name in handed_on.GIVES_BACK and len(call.args) == 1:
            return self._first(source, scope, call)
        return NOTHING

    def _looked_up(self, source: Source, scope: ScopeNode, call: ast.Call) -> Values:
        """`getattr(module, "name")`: the attribute; by a computed name any that it may spell."""
        if len(call.args) < 2 or call.keywords:
            return NOTHING
        owners = self.of(source, scope, call.args[0])
        text = text_of(self.bindings_of(source), scope, call.args[1])
        found = _union(
            self.attribute(owner, name) for owner in owners for name in self._spelled(owner, text)
        )
        if ANY in text:  # it may be any that is there, or that a base of a library has
            inherits = any(map(self._inherits, owners))
            found = tuple(v for v in found if not isinstance(v, (Member, Source)))
            found = (*found, MORE) if found and inherits else found
        others = [self.of(source, scope, each) for each in call.args[2:]]
        return _union([found, *others]) if found else NOTHING

    def called(self, source: Source, scope: ScopeNode, node: ast.expr) -> Values:
        """What calling an expression may run: as :meth:`of`, but nothing that cannot be called.

        Of a module that is asked for a computed name, all that it has, however many.
        """
        modules = self._looked_into(source, scope, node)
        if not modules:
            return self.of(source, scope, node)
        return self._kept(("called", *modules), lambda: self._callable_in(modules))

    def _looked_into(self, source: Source, scope: ScopeNode, node: ast.expr) -> list[Source]:
        """The modules of `f = getattr(module, name)`; none where it may be something else."""
        looks = [(scope, node)]
        if isinstance(node, ast.Name):
            where = self.binder(source, scope, node.id)
            bound = self.bound(source, where, node.id) if where is not None else []
            looks = [
                (where or scope, b.value if isinstance(b, Bound) and not b.path else node)
                for b in bound
            ]
        found: list[Source] = []
        for at, look in looks:
            modules = self._asked_for_any(source, at, look)
            if not modules:
                return []
            found += modules
        return list(dict.fromkeys(found))

    def _asked_for_any(self, source: Source, scope: ScopeNode, look: ast.expr) -> list[Source]:
        match look:
            case ast.Call(func=ast.Name() as function, args=[owner, name], keywords=[]):
                computed = ANY in text_of(self.bindings_of(source), scope, name)
                if computed and self.qualified(source, scope, function) == "builtins.getattr":
                    owners = self.of(source, scope, owner)
                    modules = [value for value in owners if isinstance(value, Source)]
                    return modules if len(modules) == len(owners) else []
        return []

    def _callable_in(self, modules: Iterable[Source]) -> Values:
        """Functions, classes and objects of modules; with `MORE` where they may have others."""
        found = list[Value]()
        for module in modules:
            table = self.bindings_of(module).scopes.get(module.tree, {})
            found += [] if self._has_no_others(module, table) else [MORE]
            walked = {n.iter for n in module.nodes if isinstance(n, ast.comprehension)}
            for bound in (b for bindings in table.values() for b in bindings):
                if not _is_no_attribute(bound, walked):
                    found += self._of_binding(module, module.tree, bound)
        return tuple(dict.fromkeys(v for v in found if not _is_never_called(v)))

    def _has_no_others(self, module: Source, table: Iterable[str]) -> bool:
        """Whether the names of a module are those that it binds: nobody puts others there."""
        puts = [(s, p.scope, _table_of(p.owner)) for each in self._puts.values() for s, p in each]
        puts = [each for each in puts if self.is_imported(*each)]
        sets = ((source, put.scope, put.owner) for source, put in self.sets)
        words = {word for word in _OWN_TABLE if word in module.mentions}
        return not (words or "__getattr__" in table or self.bindings_of(module).stars) and not any(
            module in self.of(*owner) for owner in (*puts, *sets)
        )

    def _inherits(self, owner: Value) -> bool:
        """Whether an object of the program, or a class, has what a library defines."""
        cls = owner.made_by if isinstance(owner, Object) else owner
        return isinstance(cls, Class) and not {
            External(name) for name in self.external_bases(cls)
        }.issubset(PLAIN_BASES)

    def _spelled(self, owner: Value, text: str) -> Iterator[str]:
        """Names of an object, `*` in a text for what is computed: functions and classes first."""
        if ANY not in text:
            yield text
            return
        names: Iterable[str] = ()
        if isinstance(owner, Source):
            tables = [self.bindings_of(owner).scopes.get(owner.tree, {})]
            names = (n for table in tables for n in sorted(table, key=lambda n: _rank(table[n])))
        elif isinstance(owner, Class) or (isinstance(owner, Object) and text.strip(ANY)):
            cls = owner if isinstance(owner, Class) else owner.made_by
            every = [*self.bases(cls), *self.subclasses.get(cls.node, ())] if _is_class(cls) else []
            tables = [self.bindings_of(base.source).classes.get(base.node, {}) for base in every]
            names = dict.fromkeys(n for table in tables for n in table)
            names = [*names, *(n for n in self._puts if n and n not in names)]
        yield from (n for n in names if fnmatchcase(n, text))

    def _imported_by_name(self, source: Source, call: ast.Call) -> Values:
        """`importlib.import_module(name)`: the module, or any that a computed name may mean."""
        paths = modules_of(source, self.bindings_of(source), call, self.roots)
        return tuple(self.sources[path] for path in paths if path in self.sources)

    def _instantiated(self, source: Source, scope: ScopeNode, call: ast.Call) -> Values:
        """`hydra.utils.instantiate(cfg.agent)`: an object of a class that the configuration names.

        Of another key than those there, of any of them.
        """
        named = self.configured.get(key_of(call)) or self.configured.get("", [])
        made: list[Value] = []
        for name in named:
            path, word = self.module_of_class(name), name.rpartition(".")[2]
            module = self.sources.get(path) if path is not None else None
            if module is not None:
                classes = self.named(module, module.tree, word)
                made += [value for value in classes if isinstance(value, Class)]
            elif path is None:
                made.append(External(name))
        return tuple(Object(each, call, (source, scope)) for each in dict.fromkeys(made))[:_MANY]

    def _first(self, source: Source, scope: ScopeNode, call: ast.Call) -> Values:
        return self.of(source, scope, call.args[0]) if call.args else NOTHING

    def _taken_from(self, owner: Value, name: str, call: ast.Call) -> Values:
        """`d.values()`, `d.items()`, `d.copy()`, `d.pop()`."""
        if name in ("values", "copy"):
            return (owner,)
        every = self.item(owner, None)
        if name == "items":
            pair = Group(call.func, (NOTHING, every), of=owner)
            return (Group(call, ((pair,),), of=owner),)
        return every

    def _returned(self, function: Function) -> Values:
        node = function.node

        def compute() -> Values:
            return _union(self.of(function.source, node, value) for value in returned(node))

        return self._kept(("returned", node), compute)

    # -- parameters ------------------------------------------------------------------------

    def _given(self, source: Source, parameter: Parameter) -> Values:
        """What callers pass, with the default and the annotation; itself when nobody tells."""
        function = parameter.function
        if parameter.position == 0 and is_method(Function(source, function)):
            whole = Class(source, source.class_of[function])
            return (whole,) if is_decorated(function, "classmethod") else (Object(whole),)
        found = list(self._passed(source, parameter))
        default = default_of(function, parameter.argument.arg)
        if default is not None:
            found.append(self.of(source, source.scope_of(function), default))
        values = _union(found)
        if parameter.argument in (function.args.vararg, function.args.kwarg):
            return (
                (Group(parameter.argument, (values,)),) if values else (Opaque(parameter.argument),)
            )
        if parameter.argument.annotation is not None and not values:
            scope = source.scope_of(function)
            values = self._annotated(source, scope, parameter.argument.annotation)
        return values or (Opaque(parameter.argument),)

    def _passed(self, source: Source, parameter: Parameter) -> Iterator[Values]:
        function = Function(source, parameter.function)
        callers = self._callers_of(function)
        for where, scope, call in callers[:_CALLERS]:
            for name, value in self.given(where, scope, call, function):
                if name != parameter.argument.arg:
                    continue
                if not isinstance(value, ast.Starred):
                    yield self.known(where, scope, value)
                elif value.value in call.args:
                    yield self.known(where, scope, value.value)  # one of those behind `*`
                elif parameter.argument.annotation is None:
                    yield _union(self.item(v, None) for v in self.known(where, scope, value))
        if len(callers) > _CALLERS:
            yield (MORE,)
        if parameter.position == int(is_method(function)) and self._may_decorate(function):
            yield from self._decorated_by(function)

    def _may_decorate(self, function: Function) -> bool:
        """Whether a decorator is written with its name, or that of what it lies in."""
        around = function.source.scope_of(function.node)
        cls = function.source.class_of.get(function.node)
        words = {function.name, getattr(around, "name", ""), cls.name if cls is not None else ""}
        words = words.union(*(self.other_words.get(word, ()) for word in words))
        return not self._words_of_decorators.isdisjoint(words)

    @cached_property
    def _words_of_decorators(self) -> frozenset[str]:
        nodes = (node for _, _, decorator in self._decorators for node in ast.walk(decorator))
        words = (getattr(node, "id", getattr(node, "attr", "")) for node in nodes)
        return frozenset(words)

    def _decorated_by(self, function: Function) -> Iterator[Values]:
        """Functions and classes that it is given as their decorator."""
        for source, node, decorator in self._decorators:
            if function in self.run_by(source, source.scope_of(node), decorator):
                if isinstance(node, ast.ClassDef):
                    yield (Class(source, node),)
                else:
                    yield (Function(source, node),)

    @cached_property
    def _decorators(self) -> list[tuple[Source, FunctionNode | ast.ClassDef, ast.expr]]:
        """With what each decorates, those that Python itself has left out."""
        return [
            (source, node, decorator)
            for source in self.sources.values()
            for node in (*source.functions, *source.classes)
            for decorator in node.decorator_list
            if not (isinstance(decorator, ast.Name) and decorator.id in _BUILTINS)
        ]

    def given(
        self, source: Source, scope: ScopeNode, call: ast.Call, function: Function
    ) -> Iterator[tuple[str, ast.expr]]:
        """Parameters of a function with what a call gives them, its object left out."""
        bound = is_method(function) and not on_class(self.of(source, scope, call.func))
        return passed(call, function.node, bound=bound)

    def _callers_of(self, function: Function) -> list[tuple[Source, ScopeNode, ast.Call]]:
        """Calls that run a function, found by the words that it goes by."""
        return self._answers.ask(("callers", function), lambda: self._calls_of(function), [])

    def _calls_of(self, function: Function) -> list[tuple[Source, ScopeNode, ast.Call]]:
        words = {function.name}
        cls = function.source.class_of.get(function.node)
        if function.name == "__init__" and cls is not None:
            words.update((cls.name, *(c.node.name for c in self.subclasses.get(cls, ()))))
        for word in tuple(words):
            words |= self.other_words.get(word, set())
        found = []
        for word in sorted(words):
            for source, scope, call in self.calls_named(word):
                if function in self.resolve(source, scope, call):
                    found.append((source, scope, call))
        return found

    def _annotated(self, source: Source, scope: ScopeNode, annotation: ast.expr) -> Values:
        match annotation:
            case ast.Constant(value=str(text)):
                try:
                    inner = ast.parse(text, mode="eval").body
                except SyntaxError:
                    return NOTHING
                return self._annotated(source, scope, inner)
            case ast.Subscript(value=of, slice=inner):  # Optional[Model]; a container tells nothing
                optional = self.qualified(source, scope, of).endswith("Optional")
                return self._annotated(source, scope, inner) if optional else NOTHING
            case ast.BinOp(left=one, right=other):
                return _union(self._annotated(source, scope, side) for side in (one, other))
        return tuple(
            Object(value)
            for value in self.of(source, scope, annotation)
            if isinstance(value, Class)
            or (isinstance(value, External) and last(value.name)[:1].isupper())
        )

    # -- functions -------------------------------------------------------------------------

    def resolve(self, source: Source, scope: ScopeNode, call: ast.Call) -> list[Function]:
        """The program's functions that a call may run; empty when it leaves the program."""
        return self.run_by(source, scope, call.func)

    def run_by(self, source: Source, scope: ScopeNode, called: ast.expr) -> list[Function]:
        """The program's functions that calling an expression may run."""
        return self._answers.ask(
            ("functions", called), lambda: self._run_by(source, scope, called), []
        )

    def _run_by(self, source: Source, scope: ScopeNode, called: ast.expr) -> list[Function]:
        values = self.called(source, scope, called)
        found: list[Function] = []
        for value in values:
            if isinstance(value, Function):
                found.append(value)
            elif isinstance(value, Class):
                found += self.methods(value, "__init__", overrides=False)
            elif isinstance(value, Object) and isinstance(value.made_by, Class):
                own = self.methods(value.made_by, "__call__", overrides=False)
                found += own or self._training_forward(value.made_by)
        if not found and isinstance(called, ast.Attribute):
            if all(isinstance(v, Member) and _is_unknown(v.owner) for v in values):
                found = self._only_method(source, scope, called.attr)
        return list(dict.fromkeys(found))

    def properties(self, source: Source, scope: ScopeNode, node: ast.Attribute) -> list[Function]:
        """The program's functions that reading an attribute may run."""
        if not any(is_property(method.node) for method in self.methods_by_name.get(node.attr, ())):
            return []
        owners = [v for v in self.of(source, scope, node.value) if isinstance(v, Object)]
        found = [
            method
            for v in owners
            if isinstance(v.made_by, Class)
            for method in self.methods(v.made_by, node.attr, overrides=v.node is None)
        ]
        return [method for method in dict.fromkeys(found) if is_property(method.node)]

    def _training_forward(self, cls: Class) -> list[Function]:
        """The `forward` that calling a module runs, where it holds a backward of its own.

        What any other forward does is told by its module's type.
        """
        found = self.methods(cls, "forward", overrides=False)
        return [f for f in found if any(callee(c) == "backward" for c in own_calls(f.node))]

    def _only_method(self, source: Source, scope: ScopeNode, name: str) -> list[Function]:
        """On an object of unknown type: the program's only method of that name (by spelling)."""
        found = self.methods_by_name.get(name, [])
        if len(found) != 1 or name in handed_on.COMMON_METHODS:
            return []
        own = self.enclosing_class(source, scope)
        # `self.part.step()` is another object's method, not the class's own
        return [] if own is not None and self.method(own, name) == found[0] else found

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
        return [v for base in cls.node.bases for v in self.of(cls.source, scope, base)]

    @cached_property
    def subclasses(self) -> dict[ast.ClassDef, list[Class]]:
        table: dict[ast.ClassDef, list[Class]] = {}
        for cls in (Class(s, c) for s in self.sources.values() for c in s.classes):
            for base in self.bases(cls)[1:]:
                table.setdefault(base.node, []).append(cls)
        return table

    def methods(self, cls: Class, name: str, *, overrides: bool) -> list[Function]:
        """The definition found from `cls` upwards, plus those found from its subclasses.

        What a part of a class calls may be defined in another part of it: `Trainer(Model, Loss)`.
        """
        subclasses = self.subclasses.get(cls.node, ()) if overrides else ()
        each = (map(partial(self.method, name=name), self.bases(c)) for c in (cls, *subclasses))
        found = (next(filter(None, methods), None) for methods in each)
        return list(dict.fromkeys(filter(None, found)))


def _spread(group: Group) -> set[int]:
    """At which places other containers are written out in it: `{**first, "b": 2}`, `[*parts]`."""
    node = group.node
    if isinstance(node, ast.Dict):
        return {at for at, key in enumerate(node.keys) if key is None and group.keys}
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return {at for at, part in enumerate(node.elts) if isinstance(part, ast.Starred)}
    return set()


@lru_cache(maxsize=64)
def _of_python(module: str) -> frozenset[str]:
    """What `from os.path import *` binds; nothing for a package that is not Python's own."""
    known = module in ("os.path", "math", "itertools", "functools", "operator", "glob", "copy")
    loaded = import_module(module) if known else None
    public = (name for name in dir(loaded) if not name.startswith("_"))
    return frozenset(getattr(loaded, "__all__", public) if known else ())


def _built(value: Value, function: Function) -> TypeGuard[Object]:
    """Whether a function makes what it returns of a type that nobody knows.

    `instantiate(config)` makes the model and the optimizer: each call makes another object.
    """
    return (
        isinstance(value, Object)
        and not isinstance(value.made_by, (Class, External))
        and value.where == (function.source, function.node)
    )


def external_name(value: Value) -> str:
    """Qualified name of what is no part of the program; '' for the program's own."""
    if isinstance(value, (External, Free)):
        return value.name
    if isinstance(value, Member):
        owner = external_name(value.owner)
        return f"{owner}.{value.name}" if owner else ""
    return ""


def _is_unknown(value: Value) -> bool:
    """Nothing tells of what type the object is."""
    if isinstance(value, (Member, Item)):
        return _is_unknown(value.owner)
    if isinstance(value, Object):
        return isinstance(value.made_by, Function) or _is_unknown(value.made_by)
    return isinstance(value, (Opaque, Free))


def _is_callable(value: Value) -> bool:
    """A function or a class that the program defines, a lambda included."""
    is_lambda = isinstance(value, Opaque) and isinstance(value.node, ast.Lambda)
    return is_lambda or isinstance(value, (Function, Class))


def _is_never_called(value: Value) -> bool:
    """A module, a container, a number, or an object of a library that has no `__call__`."""
    match value:
        case Source() | Group():
            return True
        case Item(owner=Group(items=items)):  # of numbers and texts
            return bool(items) and not any(items)
        case Opaque(node=node):
            return _is_written_out(node)
        case Object(made_by=made):
            return external_name(made) in handed_on.NEVER_CALLED
    return False


def _is_written_out(node: ast.AST) -> bool:
    """Texts, numbers and lists, and sums of them."""
    if isinstance(node, ast.BinOp):
        return _is_written_out(node.left) and _is_written_out(node.right)
    parts = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Constant)
    return isinstance(node, parts) and node is not MORE.node


def _table_of(owner: ast.expr) -> ast.expr:
    """The object whose table of attributes that is: `vars(x)`, `x.__dict__`; else the owner."""
    match owner:
        case (
            ast.Call(func=ast.Name(id="vars"), args=[of]) | ast.Attribute(value=of, attr="__dict__")
        ):
            return of
    return owner


def _is_no_attribute(binding: Binding, walked: Container[ast.expr]) -> bool:
    """An imported module, or the variable of a comprehension, which ends with it."""
    if isinstance(binding, Imported):
        return not binding.name
    return isinstance(binding, Bound) and binding.value in walked


def _is_told_apart(value: Value) -> bool:
    """A function or an object of the program: another one may do other things."""
    return value == MORE or _is_callable(value) or is_own(value)


def _is_class(value: Value) -> TypeGuard[Class]:
    return isinstance(value, Class)


def _is_table(value: Value) -> TypeGuard[Group | Object]:
    """A dict that the program writes out or makes."""
    if isinstance(value, Group):
        return isinstance(value.node, ast.Dict)
    made = external_name(value.made_by) if isinstance(value, Object) else ""
    return made.removeprefix("builtins.") in _TABLES


def _rank(bindings: list[Binding]) -> int:
    """What is defined goes before what is bound, and that before what is imported."""
    return min((Defined, Parameter, Bound, Imported).index(type(each)) for each in bindings)


def _union(parts: Iterable[Values]) -> Values:
    found = tuple(dict.fromkeys(chain.from_iterable(parts)))
    more = found[_MANY:]
    # What a library gave again and again (`x = x.float()`) is no other than those that are told.
    return (*found[:_MANY], MORE) if any(map(_is_told_apart, more)) else found[:_MANY]
