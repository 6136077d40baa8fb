"""From dataclasses of options to a verb as Typer takes it, and back.

A verb is a function whose parameters are Typer's own arguments and dataclasses with options
(:mod:`instrumentor.shared.option_fields`), of which ``Annotated[Group, Only(...)]`` takes some.
Typer sees each option as a parameter of its own, the function gets the dataclasses.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from instrumentor.cli.origins import named
from instrumentor.shared.option_fields import OUTPUT, PANELS, Option, options_of

_PATHS = tuple[Path, ...]


class Only:
    """The fields of a group that a verb takes."""

    others = False

    def __init__(self, *names: str) -> None:
        self.names = names

    def takes(self, name: str) -> bool:
        """Whether an option is among the verb's."""
        return (name in self.names) is not self.others


class Without(Only):
    """The fields of a group that a verb does not take."""

    others = True


@dataclass(frozen=True)
class Declared:
    """An option of a verb.

    Attributes:
        key: its name in a configuration file, and among the values that Typer hands over.
        type: what is typed, or None.
    """

    field: Field[Any]
    option: Option
    key: str
    type: Any
    default: Any

    @property
    def keys(self) -> tuple[str, ...]:
        """The names that a configuration file may give it."""
        return tuple(dict.fromkeys((self.key, *map(_key, self.option.flags))))

    @property
    def parameter(self) -> inspect.Parameter:
        """As Typer reads it."""
        said = self.option
        flags = said.flags or ("--" + self.field.name.replace("_", "-"),)
        variable = f"INSTRUMENT_{self.key.upper()}" if said.variable else None
        typed = typer.Option(
            *flags,
            envvar=variable,
            help=said.help,
            # Typer would write <bool> behind each flag, which takes no value.
            metavar="" if self.type is bool and said.metavar is None else said.metavar,
            show_envvar=False,
            rich_help_panel=said.panel,
            autocompletion=self._complete if said.choices or "|" in (said.metavar or "") else None,
        )
        return inspect.Parameter(
            self.key,
            inspect.Parameter.KEYWORD_ONLY,
            default=self.default,
            annotation=Annotated[self.type, typed],
        )

    def _complete(self, incomplete: str) -> list[str]:
        """The words, not the placeholders, among its alternatives."""
        words = self.option.choices or (self.option.metavar or "").split("|")
        return [word for word in words if word.islower() and word.startswith(incomplete)]

    def value(self, typed: Any) -> Any:
        """What the field gets, or ``...`` for its own default."""
        # Typer hands over a value for every option; what nobody typed is left to the dataclass.
        if typed is None or typed == self.default:
            return ...
        if self.option.convert is not None:
            return self.option.convert(typed)
        if self.field.default is True and self.default is False:
            return not typed
        return tuple(typed) if isinstance(typed, list) else typed


def _key(flag: str) -> str:
    return flag.partition("/")[0].lstrip("-").replace("-", "_")


def _declared(group: type, chosen: Only) -> Iterator[Declared]:
    """The options of a group that a verb takes."""
    for name, each in options_of(group).items():
        if not chosen.takes(name):
            continue
        said: Option = each.metadata["option"]
        long = [flag for flag in said.flags if flag.startswith("--")]
        key = _key(long[0]) if long else name
        kind, default = _typed(group, each, said)
        yield Declared(each, said, key, kind, default)


def _typed(group: type, each: Field[Any], said: Option) -> tuple[Any, Any]:
    """Type and default of what is typed for a field."""
    if said.type is not None:
        return said.type, each.default if isinstance(each.default, str) else None
    if said.convert is not None:
        return str, ""
    kind = _resolved(group, each)
    if kind == _PATHS:
        return list[Path] | None, None
    if kind is bool and each.default is True:
        return bool, False
    return kind, each.default


def _resolved(group: type, each: Field[Any]) -> Any:
    """The type of a field: other fields of its class may name what only a type checker knows."""
    # Not get_type_hints, which fails on the whole class for one name that is imported for types.
    owner = next(
        base for base in group.__mro__ if each.name in vars(base).get("__annotations__", {})
    )
    return (
        eval(each.type, vars(sys.modules[owner.__module__]))
        if isinstance(each.type, str)
        else each.type
    )


def _group(hint: Any) -> tuple[Any, Only]:
    """The type of a parameter, and what is taken of it."""
    if get_origin(hint) is not Annotated:
        return hint, Without()
    group, note = get_args(hint)[:2]
    return group, note


_BRACES = re.compile(r"\A\{(.*)\}((?:\.\.\.)?)\Z", re.DOTALL)


def _unbraced(found: re.Match[str]) -> str:
    """What stands in braces; with the dots behind them, where it has none of its own."""
    return found[1] if "..." in found[1] else found[1] + found[2]


class Command(typer.core.TyperCommand):
    """Has no type behind --help, which takes no value, and no panel for it alone.

    Paragraphs of its help are wrapped to the terminal; what is wrong with the value of a file or a
    variable is said of that one.
    """

    def __init__(self, *args: Any, help: str | None = None, **more: Any) -> None:
        paragraphs = (help or "").split("\n\n")
        text = "\n\n".join(" ".join(each.split()) for each in paragraphs)
        super().__init__(*args, help=text, **more)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Without braces around what a parameter is called; repetition is told once."""
        return [_BRACES.sub(_unbraced, each) for each in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with named(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with named(ctx):
            return super().invoke(ctx)

    def get_help_option(self, ctx: Any) -> Any:
        help_option: Any = untyped(super().get_help_option(ctx))
        if help_option is not None and any(p.param_type_name == "option" for p in self.params):
            help_option.rich_help_panel = OUTPUT
        return help_option


def untyped(option: Any) -> Any:
    """A flag without the type that Typer would write behind it."""
    if option is not None:
        option.metavar = ""
    return option


class Verb:
    """A function as Typer takes it; calling it makes the dataclasses of what was typed.

    Attributes:
        declared: its options by key.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._groups: dict[str, tuple[type, list[Declared]]] = {}
        self.declared: dict[str, Declared] = {}
        parameters: dict[str, inspect.Parameter] = {}
        # Not get_type_hints: up to CPython 3.10 it makes Optional[...] of what defaults to None,
        # and Typer finds no argument in that.
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
            group, chosen = _group(parameter.annotation)
            if not is_dataclass(group):
                parameters[name] = parameter.replace(kind=parameter.KEYWORD_ONLY)
                continue
            assert isinstance(group, type)
            found = list(_declared(group, chosen))
            self._groups[name] = group, found
            self.declared |= {each.key: each for each in found}
        # The help has its panels in the order of the options.
        by_panel = sorted(self.declared.values(), key=lambda each: PANELS.index(each.option.panel))
        parameters |= {each.key: each.parameter for each in by_panel}
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.__signature__ = inspect.Signature(list(parameters.values()))
        self.__annotations__ = {name: each.annotation for name, each in parameters.items()}

    def __call__(self, **typed: Any) -> Any:
        made = {name: _made(group, found, typed) for name, (group, found) in self._groups.items()}
        own = {name: value for name, value in typed.items() if name not in self.declared}
        return self._function(**own, **made)


def _made(group: type, declared: list[Declared], typed: Mapping[str, Any]) -> Any:
    values = {each.field.name: each.value(typed[each.key]) for each in declared}
    chosen = {name: value for name, value in values.items() if value is not ...}
    return group(**chosen)
