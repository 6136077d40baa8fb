"""The batch size where the script has it: its own argument, the YAML, or a number in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from instrumentor.locate.syntax import Source, callee
from instrumentor.tune import yaml_override
from instrumentor.tune.levers import BATCH_SIZE
from instrumentor.tune.statements import Changes
from instrumentor.tune.target import NotApplicable, Target

_OPTION = re.compile(r"^--(per[-_]device[-_])?(train[-_])?batch[-_]?size$|^--bs$")
_NAME = re.compile(r"^(per_device_)?(train_)?batch_?size$|^bs$", re.I)
_NOT_TRAINING = re.compile(r"val|test|eval|dev", re.I)


@dataclass(frozen=True)
class Place:
    """Where the number stands.

    Attributes:
        how: for people.
        value: the number now.
        argument: index in the script's arguments, None elsewhere.
        node: the number in the source, None elsewhere.
    """

    source: Source
    line: int
    how: str
    value: int | None
    argument: int | None = None
    node: ast.expr | None = None
    yaml: bool = False


def find(target: Target) -> Place:
    """The one place that decides the batch size.

    Raises:
        NotApplicable: there is none, or several.
    """
    for position, argument in enumerate(target.arguments):
        option, equals, value = argument.partition("=")
        if not _OPTION.match(option):
            continue
        if not equals:
            position += 1
            value = target.arguments[position] if position < len(target.arguments) else ""
        number = int(value) if value.isdigit() else None
        return Place(target.entry, 1, f"the script's argument {option}", number, position)
    in_yaml = yaml_override.own_value(target, BATCH_SIZE)
    if in_yaml is not None and target.config is not None:
        line, own = in_yaml
        number = own if isinstance(own, int) else None
        how = f"batch_size in {target.config.path.name}"
        return Place(target.entry, line, how, number, yaml=True)
    for found in (_options(target), _assigned(target), _keywords(target)):
        places = list(found)
        if len(places) == 1:
            return places[0]
        if places:
            lines = ", ".join(str(place.line) for place in places)
            raise NotApplicable(
                places[0].source.path, places[0].line, f"several batch sizes, at lines {lines}"
            )
    raise NotApplicable(
        target.script, 1, "no number that is the batch size stands in the script or its YAML"
    )


def apply(target: Target, value: int, changes: Changes) -> tuple[str, ...]:
    """Set the batch size; returns the script's arguments as they are to be then.

    Raises:
        NotApplicable: as :func:`find`.
    """
    place = find(target)
    arguments = list(target.arguments)
    if place.argument is not None:
        option, equals, _ = arguments[place.argument].partition("=")
        arguments[place.argument] = f"{option}={value}" if equals else str(value)
    elif place.yaml:
        yaml_override.set_value(target, BATCH_SIZE, value, changes)
    else:
        assert place.node is not None
        changes.replace(place.source, place.node, str(value), f"batch size {value}")
    return tuple(arguments)


def _options(target: Target) -> Iterator[Place]:
    """`add_argument("--batch-size", default=32)`."""
    for source, _, _, call in target.calls("add_argument"):
        given = [a.value for a in call.args if isinstance(a, ast.Constant)]
        names = [name for name in given if isinstance(name, str) and _OPTION.match(name)]
        if not names:
            continue
        for keyword in call.keywords:
            number = _number(keyword.value)
            if keyword.arg == "default" and number is not None:
                how = f"default of {names[-1]}"
                yield Place(source, keyword.value.lineno, how, number, node=keyword.value)


def _assigned(target: Target) -> Iterator[Place]:
    """`batch_size = 32`, also as the field of a configuration class."""
    for source in target.sources:
        near = source in (target.entry, target.loop_source)
        for statement in source.places:
            if isinstance(statement, ast.Assign) and near:
                bound, value = statement.targets, statement.value
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                bound, value = [statement.target], statement.value
            else:
                continue
            number = _number(value)
            for each in bound:
                name = each.id if isinstance(each, ast.Name) else getattr(each, "attr", "")
                if number is not None and _NAME.match(name):
                    yield Place(source, value.lineno, f"`{name}`", number, node=value)


def _keywords(target: Target) -> Iterator[Place]:
    """`DataLoader(..., batch_size=32)` of what is trained on."""
    found: list[tuple[Place, str]] = []
    for source in dict.fromkeys((target.entry, target.loop_source)):
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Call):
                continue
            for keyword in node.keywords:
                number = _number(keyword.value)
                if keyword.arg == "batch_size" and number is not None:
                    how = f"batch_size of {callee(node)}"
                    place = Place(source, keyword.value.lineno, how, number, node=keyword.value)
                    statement = source.statement_of(node)
                    found.append((place, ast.unparse(statement) if statement else ""))
    training = [place for place, text in found if not _NOT_TRAINING.search(text)]
    yield from training or [place for place, _ in found]


def _number(value: ast.expr) -> int | None:
    if isinstance(value, ast.Constant) and type(value.value) is int and value.value > 0:
        return value.value
    return None
