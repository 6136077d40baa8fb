"""Compile options, merged into the calls that take them, or into a call of ours.

tt-xla has one call for all graphs, `torch_xla.set_custom_compile_options(OPTIONS)`. A later call
replaces an earlier one, so every call that is there gets the options. Without a call ours goes
where the device is open and nothing is compiled yet: setting options opens the device, so it must
not come before the script has chosen one.

tt-crank takes them in each `torch.compile(..., backend="tt", options=OPTIONS)`, where OPTIONS may
be None or a dictionary with the members of CompileOption as keys, which are texts.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeAlias

from instrumentor.read.syntax import LOOPS, ScopeNode, Source, argument, callee, dotted, own_calls
from instrumentor.shared.edits import Kind
from instrumentor.tune.settings import Value
from instrumentor.tune.statements import Changes, Own, text_of
from instrumentor.tune.target import NotApplicable, Target

CALL = "set_custom_compile_options"
#: tt-crank's options that are members of an enumeration, by the settings' values.
ENUMERATED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "math_fidelity": ("MathFidelity", {}),
    "experimental_weight_dtype": ("BfpDtype", {"bfp_bf8": "BfpBf8", "bfp_bf4": "BfpBf4"}),
}
_ENUMERATIONS = "tt_crank.torch._compile"
#: Members of CompileOption that are not called like their option in capitals.
_MEMBERS = {"optimization_level": "OPT_LEVEL"}
_LONG = 76  # with the indentation of a function or two, still a line
_OPENS_DEVICE = ("torch_xla.device", "xm.xla_device", "xla_model.xla_device", "xla_device")

#: An option with its value, as it is spelled in the place of an expression (None: anew).
_Spell: TypeAlias = Callable[[str, Value, "ast.expr | None"], str]
_Taker: TypeAlias = "tuple[Source, ScopeNode, ast.stmt, ast.Call]"


def uses_crank(target: Target) -> bool:
    """Whether the script runs through tt-crank."""
    return any(b"tt_crank" in source.data for source in target.sources)


def own_option(target: Target, option: str) -> Own | None:
    """Where the script sets an option itself, and to what."""
    keys = option, f"CompileOption.{_MEMBERS.get(option, option.upper())}"
    for source, scope, _, call in _takers(target):
        value = _lookup(source, scope, _options(call), keys)
        if value is not None:
            return source.path, value.lineno, _in_words(option, value)
    return None


def apply(target: Target, changes: Changes) -> None:
    """Put the options of the changes into every call, or into one of ours.

    Raises:
        NotApplicable: nothing reads them, or a call cannot be rewritten.
    """
    options = changes.options
    if not options:
        return
    reason = f"compile options: {', '.join(options)}"
    takers = list(_takers(target))
    crank = uses_crank(target)
    for source, _, statement, call in takers:
        if crank:
            _into_compile(source, statement, call, changes, reason)
        elif len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
            raise NotApplicable(
                source.path, call.lineno, f"{CALL} is not called with one dictionary"
            )
        else:
            _merge(source, call.args[0], _spell_for_xla, changes, reason)
    if not takers and crank:
        raise NotApplicable(
            target.script, 1, 'the script\'s modules have no torch.compile(..., backend="tt")'
        )
    if not takers:
        _insert(target, changes, reason)


def _takers(target: Target) -> Iterator[_Taker]:
    """The calls that take options."""
    if not uses_crank(target):
        yield from target.calls(CALL)
        return
    for taker in target.calls("compile"):
        backend = argument(taker[3], "backend")
        if isinstance(backend, ast.Name):  # often a constant that the modules share
            backend = _bound(target, backend.id)
        if _is_constant(backend, ("tt",)):
            yield taker


def _bound(target: Target, name: str) -> ast.expr | None:
    for source in target.sources:
        for statement in source.tree.body:
            if isinstance(statement, ast.Assign) and name in map(dotted, statement.targets):
                return statement.value
    return None


def _options(call: ast.Call) -> ast.expr | None:
    """The expression in the place of the options; None where a call has none."""
    return argument(call, at=0) if callee(call) == CALL else argument(call, "options")


def _into_compile(
    source: Source, statement: ast.stmt, call: ast.Call, changes: Changes, reason: str
) -> None:
    """Into a `torch.compile`, with an import of the enumerations whose members they need."""
    given, fresh = _options(call), f"{{{_pairs(changes.options, _spell_for_crank)}}}"
    if given is None:
        last = (*call.args, *(k.value for k in call.keywords))[-1]
        changes.replace(source, last, f"{text_of(source, last)}, options={fresh}", reason)
    elif _is_constant(given, (None,)):
        changes.replace(source, given, fresh, reason)
    else:
        # None is a valid value there, and cannot be unpacked.
        _merge(source, given, _spell_for_crank, changes, reason, if_none=" or {}")
    names = tuple(sorted({ENUMERATED[name][0] for name in changes.options if name in ENUMERATED}))
    if names:
        code = f"from {_ENUMERATIONS} import {', '.join(names)}"
        changes.insert(Kind.INSERT_BEFORE, source, statement, code, reason, rebinds=names)


def _merge(
    source: Source,
    given: ast.expr,
    spell: _Spell,
    changes: Changes,
    reason: str,
    if_none: str = "",
) -> None:
    """Options over those of an expression: a dictionary keeps its layout, others are unpacked."""
    options = changes.options
    if not isinstance(given, ast.Dict) or not given.keys:
        plain = isinstance(given, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
        text = text_of(source, given)
        text = text if plain and not if_none else f"({text}{if_none})"
        own = "" if isinstance(given, ast.Dict) else f"**{text}, "
        changes.replace(source, given, f"{{{own}{_pairs(options, spell)}}}", reason)
        return
    present: dict[str, ast.expr] = {}
    for key, value in zip(given.keys, given.values, strict=True):
        if key is None:  # what is unpacked here goes over what stands before it
            present.clear()
        elif isinstance(key, ast.Constant) and key.value in options:
            present[str(key.value)] = value
    texts = {node: spell(name, options[name], node) for name, node in present.items()}
    left = {name: value for name, value in options.items() if name not in present}
    if left:
        last_key, last = given.keys[-1], given.values[-1]
        first = last_key or last
        # The ** stands two columns before what it unpacks.
        column = first.col_offset - (0 if last_key else 2)
        joint = ",\n" + " " * column if first.lineno > given.lineno else ", "
        before = texts.get(last) or text_of(source, last)
        texts[last] = before + joint + _pairs(left, spell, joint)
    for node, text in texts.items():
        changes.replace(source, node, text, reason)


def _pairs(options: Mapping[str, Value], spell: _Spell, joint: str = ", ") -> str:
    return joint.join(f'"{name}": {spell(name, value, None)}' for name, value in options.items())


def _spell_for_xla(option: str, value: Value, old: ast.expr | None) -> str:
    """A value as tt-xla's guide writes it, or as the script writes the one it replaces."""
    own = old.value if isinstance(old, ast.Constant) else None
    if isinstance(value, bool):
        return str(value) if isinstance(own, bool) else f'"{str(value).lower()}"'
    return f'"{value}"' if isinstance(own, str) else str(value)


def _spell_for_crank(option: str, value: Value, old: ast.expr | None) -> str:
    if option not in ENUMERATED:
        return repr(value)
    enumeration, members = ENUMERATED[option]
    return f"{enumeration}.{members.get(str(value), value)}"


def _insert(target: Target, changes: Changes, reason: str) -> None:
    """A call of ours for tt-xla."""
    source, statement, kind = _place(target)
    module, guarded = _module_name(source)
    name, rebinds = module or "torch_xla", () if module else ("torch_xla",)
    code = f"{name}.{CALL}({{{_pairs(changes.options, _spell_for_xla)}}})"
    if len(code) > _LONG:
        rows = _pairs(changes.options, _spell_for_xla, ",\n        ")
        code = f"{name}.{CALL}(\n    {{\n        {rows},\n    }}\n)"
    if module is None:
        code = f"import torch_xla\n{code}"
    elif guarded:
        code = f"if {module} is not None:\n" + textwrap.indent(code, "    ")
    changes.insert(kind, source, statement, code, reason, rebinds=rebinds)


def _place(target: Target) -> tuple[Source, ast.stmt, Kind]:
    if not any(b"torch_xla" in source.data for source in target.sources):
        raise NotApplicable(
            target.script, 1, "no module of the script imports torch_xla, which would read them"
        )
    # Right after the call that opens the device; without one, before the first thing is compiled or
    # moved to it.
    for source in dict.fromkeys((target.entry, target.loop_source)):
        for statement in _straight(source):
            if any(dotted(call.func) in _OPENS_DEVICE for call in own_calls(statement)):
                return source, statement, Kind.INSERT_AFTER
    source, outer = target.loop_source, target.outermost_loop()
    ahead = (
        statement
        for statement in _straight(source)
        if source.scope_of(statement) is source.scope_of(outer) and statement.lineno < outer.lineno
    )
    return source, next(filter(_prepares_model, ahead), outer), Kind.INSERT_BEFORE


def _prepares_model(statement: ast.stmt) -> bool:
    """It moves something to the device, or compiles it."""
    words = {callee(call) for call in own_calls(statement)}
    return "compile" in words or ("to" in words and "device" in ast.unparse(statement))


def _straight(source: Source) -> list[ast.stmt]:
    """Simple statements outside of loops, in order."""
    simple = (s for s in source.places if isinstance(s, (ast.Assign, ast.AnnAssign, ast.Expr)))
    found = [s for s in simple if not any(isinstance(p, LOOPS) for p in source.ancestors(s))]
    return sorted(found, key=lambda s: (s.lineno, s.col_offset))


def _module_name(source: Source) -> tuple[str | None, bool]:
    """The name of torch_xla in a module, and whether a failed import may leave it None there."""
    for statement, place in source.places.items():
        for alias in statement.names if isinstance(statement, ast.Import) else ():
            package = alias.name.startswith("torch_xla.") and not alias.asname
            if place.scope is source.tree and (alias.name == "torch_xla" or package):
                return alias.asname or "torch_xla", isinstance(place.parent, ast.Try)
    return None, False


def _lookup(
    source: Source, scope: ScopeNode, given: ast.expr | None, keys: Collection[str]
) -> ast.expr | None:
    """The expression that an option gets in a dictionary that is written out, or bound to a name.

    Of `name = {...}` and `name["option"] = value`, in the scope or the module, the last one counts.
    """
    if not isinstance(given, ast.Name):
        return _in_literal(given, keys)
    found: ast.expr | None = None
    for statement, place in source.places.items():
        if isinstance(statement, ast.Assign) and place.scope in (scope, source.tree):
            for bound in statement.targets:
                if isinstance(bound, ast.Name) and bound.id == given.id:
                    found = _in_literal(statement.value, keys) or found
                elif isinstance(bound, ast.Subscript) and dotted(bound.value) == given.id:
                    found = statement.value if _is_constant(bound.slice, keys) else found
    return found


def _in_literal(node: ast.expr | None, keys: Collection[str]) -> ast.expr | None:
    if not isinstance(node, ast.Dict):
        return None
    # If a key occurs twice the last one counts, as in Python.
    pairs = reversed([*zip(node.keys, node.values, strict=True)])
    return next((v for k, v in pairs if _is_constant(k, keys) or dotted(k) in keys), None)


def _is_constant(node: ast.expr | None, values: Collection[object]) -> bool:
    return isinstance(node, ast.Constant) and node.value in values


def _in_words(option: str, node: ast.expr) -> Value | None:
    """A value in the settings' words: a member by its name, numbers also where they are texts."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, str):
        known: dict[str, Value] = {"true": True, "false": False}
        return int(value) if value.isdigit() else known.get(value.lower())
    if isinstance(value, (bool, int)) or option not in ENUMERATED:
        return value if isinstance(value, (bool, int)) else None
    enumeration, members = ENUMERATED[option]
    head, _, member = dotted(node).rpartition(".")
    words = {name: word for word, name in members.items()}
    return words.get(member, member) if head.rpartition(".")[2] == enumeration else None
