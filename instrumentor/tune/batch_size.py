"""The batch size where the script has it: its own argument, the YAML, or a number in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial

from instrumentor.read.syntax import Source
from instrumentor.run.batch_size import Declared, declared, in_arguments
from instrumentor.tune import yaml_override
from instrumentor.tune.settings import BATCH_SIZE, Value
from instrumentor.tune.statements import Changes, Way
from instrumentor.tune.target import NotApplicable, Target

#: Names of what holds the data of validation; not `device`, not `value`.
NOT_TRAINING = re.compile(
    r"(?<![a-z])(val(id(ate|ation)?)?|test(ing)?|eval(uation)?|dev)(?=loader|set|data|d[ls]|_|\W|$)",
    re.I,
)
#: Kinds of places, the one that decides over the others first.
_HOW = {"option": "default of {}", "name": "`{}`", "keyword": "batch_size of {}"}


def way(target: Target) -> Way:
    """By the one place that decides the batch size.

    Raises:
        NotApplicable: there is none, or several.
    """
    for position, option, size in in_arguments(target.arguments):
        how = f"the script's argument {option}"
        return Way(how, (target.script, 1, size), partial(_set_argument, position))
    in_yaml = yaml_override.way(target, BATCH_SIZE)
    if in_yaml is not None:
        return in_yaml
    for kind, how in _HOW.items():
        places = list(_written(target, kind))
        if len(places) > 1:
            lines = ", ".join(str(one.node.lineno) for _, one in places)
            source, first = places[0]
            raise NotApplicable(
                source.path, first.node.lineno, f"several batch sizes, at lines {lines}"
            )
        for source, one in places:
            own = source.path, one.node.lineno, one.size
            return Way(how.format(one.name), own, partial(_set_number, source, one.node))
    raise NotApplicable(
        target.script, 1, "neither the script nor its YAML gives the batch size as a number"
    )


def _set_argument(position: int, value: Value, changes: Changes) -> None:
    # `--batch-size=8` is one word; of `--batch-size 8` the position is that of the number.
    option, equals, _ = changes.arguments[position].partition("=")
    changes.arguments[position] = f"{option}={value}" if equals else str(value)


def _set_number(source: Source, node: ast.expr, value: Value, changes: Changes) -> None:
    changes.replace(source, node, str(value), f"batch size {value}")


def _written(target: Target, kind: str) -> Iterator[tuple[Source, Declared]]:
    """Numbers in the source; calls and variables of the script and the loop's module alone."""
    found: list[tuple[Source, Declared]] = []
    training: list[tuple[Source, Declared]] = []
    for source in target.sources:
        near = source in (target.entry, target.loop_source)
        for one in declared(source):
            statement = source.statement_of(one.node)
            # A field of a configuration class counts wherever it is.
            is_field = isinstance(statement, ast.AnnAssign)
            if one.kind == kind and (near or is_field or kind == "option"):
                found.append((source, one))
                if statement is None or not NOT_TRAINING.search(ast.unparse(statement)):
                    training.append((source, one))
    # A validation loader's batch size does not decide the step's.
    yield from training if training and kind == "keyword" else found
