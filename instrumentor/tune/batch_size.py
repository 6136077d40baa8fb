"""The batch size where the script has it: its own argument, the YAML, or a number in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from instrumentor.batch_size import declared, in_arguments
from instrumentor.locate.syntax import Source
from instrumentor.tune import yaml_override
from instrumentor.tune.settings import BATCH_SIZE
from instrumentor.tune.statements import Changes
from instrumentor.tune.target import NotApplicable, Target

_NOT_TRAINING = re.compile(r"val|test|eval|dev", re.I)
_HOW = {"option": "default of {}", "name": "`{}`", "keyword": "batch_size of {}"}


class Occurrence(Struct, frozen=True):
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


def find(target: Target) -> Occurrence:
    """The one place that decides the batch size.

    Raises:
        NotApplicable: there is none, or several.
    """
    for position, option, size in in_arguments(target.arguments):
        return Occurrence(target.entry, 1, f"the script's argument {option}", size, position)
    in_yaml = yaml_override.own_value(target, BATCH_SIZE)
    if in_yaml is not None and target.config is not None:
        line, own = in_yaml
        number = own if isinstance(own, int) else None
        how = f"batch_size in {target.config.path.name}"
        return Occurrence(target.entry, line, how, number, yaml=True)
    for kind in ("option", "name", "keyword"):
        places = list(_written(target, kind))
        if len(places) == 1:
            return places[0]
        if places:
            lines = ", ".join(str(place.line) for place in places)
            raise NotApplicable(
                places[0].source.path, places[0].line, f"several batch sizes, at lines {lines}"
            )
    raise NotApplicable(
        target.script, 1, "neither the script nor its YAML gives the batch size as a number"
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


def _written(target: Target, kind: str) -> Iterator[Occurrence]:
    """Numbers in the source; calls and variables of the script and the loop's module alone."""
    near = tuple(dict.fromkeys((target.entry, target.loop_source)))
    found: list[tuple[Occurrence, str]] = []
    for source in target.sources:
        for one in declared(source):
            statement = source.statement_of(one.node)
            apart = source not in near and not isinstance(statement, ast.AnnAssign)
            if one.kind == kind and not (apart and kind != "option"):
                how = _HOW[kind].format(one.name)
                place = Occurrence(source, one.node.lineno, how, one.size, node=one.node)
                found.append((place, ast.unparse(statement) if statement is not None else ""))
    training = [place for place, text in found if not _NOT_TRAINING.search(text)]
    yield from training if training and kind == "keyword" else [place for place, _ in found]
