"""A setting as edits of the copy, and the same changes as a patch that a user may apply."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from instrumentor.engine import apply_edits
from instrumentor.errors import InstrumentError
from instrumentor.prepare import Prepared, prepare
from instrumentor.rewrite import unified_patch
from instrumentor.tune import (
    batch_size,
    call_options,
    compile_options,
    precision,
    trace,
    yaml_override,
)
from instrumentor.tune.accept import accept
from instrumentor.tune.levers import LEVERS, Lever, Setting, Value
from instrumentor.tune.statements import Changes
from instrumentor.tune.target import NotApplicable, Target
from instrumentor.variant import Variant


@dataclass(frozen=True)
class Applied:
    """A setting, ready to be run: edits, and the script's arguments as they are then."""

    variant: Variant
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Site:
    """Where a lever acts on a script.

    Attributes:
        line: of ``file``; the first line that is touched.
        how: in words.
        own: the value that the script has itself; None when it is not plain to see.
    """

    lever: str
    file: Path
    line: int
    how: str
    own: Value | None


@dataclass(frozen=True)
class Refusal:
    """Why a lever does not act on a script."""

    lever: str
    file: Path
    line: int
    reason: str


def applied(target: Target, setting: Setting) -> Applied:
    """A setting as edits.

    Raises:
        NotApplicable: with file, line and reason.
    """
    changes = Changes()
    options: dict[str, Value] = {}
    of_calls: dict[str, Value] = {}
    crank = call_options.used(target)
    arguments = target.arguments
    for lever in LEVERS:
        value = setting.get(lever.name)
        if value is None:
            continue
        if lever.name == "batch_size":
            arguments = batch_size.apply(target, int(value), changes)
            continue
        if lever.name == "trace" and not crank:
            trace.apply(target, changes)
        if lever.yaml_key and yaml_override.own_value(target, lever) is not None:
            yaml_override.set_value(target, lever, value, changes)
        elif lever.name == "dtype":
            precision.apply(target, changes)
        elif crank and lever.call_option:
            of_calls[lever.call_option] = value
        elif lever.option and not crank:
            options[lever.option] = value
        else:
            raise _elsewhere(target, lever)
    compile_options.apply(target, options, changes)
    call_options.apply(target, of_calls, changes)
    return Applied(changes.variant(), arguments)


def _elsewhere(target: Target, lever: Lever) -> NotApplicable:
    """That a lever is another runtime's, or a key that the YAML does not have."""
    if lever.option or lever.call_option:
        other = "tt-xla" if lever.option else "tt-crank"
        return NotApplicable(
            target.script, 1, f"an option of {other}, through which it does not run"
        )
    return NotApplicable(target.script, 1, f"the run's YAML has no {lever.yaml_key}")


def prepared(target: Target, setting: Setting) -> Prepared:
    """The instrumented copy of a script with a setting, proven; nothing is written.

    Raises:
        NotApplicable: with file, line and reason.
        ProofFailed: the changes and the measuring get into each other's way.
    """
    one = applied(target, setting)
    options = dataclasses.replace(target.options, variant=one.variant)
    return prepare(target.script, options, one.arguments)


def patch(target: Target, setting: Setting) -> bytes:
    """Unified diff, script as it is -> script with the setting, for `git apply` at the root.

    Empty when only the script's arguments change.

    Raises:
        NotApplicable, ProofFailed: as :func:`prepared`.
    """
    variant = applied(target, setting).variant
    files: dict[Path, tuple[bytes, bytes]] = {}
    for path in variant.modules:
        before = path.read_bytes()
        edits = [edit for file, edit in variant.edits if file == path]
        files[path.resolve()] = before, accept(apply_edits(before, edits))
    for path, data in variant.files:
        files[path.resolve()] = path.read_bytes(), data
    return unified_patch(files, target.project.root)


def survey(target: Target, levers: Sequence[Lever]) -> Mapping[str, Site | Refusal]:
    """For each lever where it acts, or why not; each is tried out on the text, nothing is run."""
    return {lever.name: _site(target, lever) for lever in levers}


def _site(target: Target, lever: Lever) -> Site | Refusal:
    try:
        site = _found(target, lever)
        own = own_dtype(target)
        for name, value in lever.needs.items():
            if name == "dtype" and own != value:
                applied(target, Setting.of({name: value}))
        tried = next((v for v in lever.values if v != site.own), None)
        if tried is not None:
            prepared(target, Setting.of({lever.name: tried}))
        return site
    except NotApplicable as error:
        return Refusal(lever.name, error.file, error.line, error.reason)
    except InstrumentError as error:
        return Refusal(lever.name, target.script, 1, error.message)


def own_dtype(target: Target) -> Value | None:
    """`bfloat16` when the script is that by itself, another word or None when not."""
    from instrumentor.tune.levers import DTYPE

    in_yaml = yaml_override.own_value(target, DTYPE)
    if in_yaml is not None:
        return in_yaml[1]
    return "bfloat16" if precision.own_value(target) is not None else None


def _found(target: Target, lever: Lever) -> Site:
    in_yaml = yaml_override.own_value(target, lever) if lever.yaml_key else None
    if in_yaml is not None and target.config is not None:
        how = f"{lever.yaml_key} in {target.config.path.name}"
        return Site(lever.name, target.config.path, in_yaml[0], how, in_yaml[1])
    if lever.name == "batch_size":
        place = batch_size.find(target)
        return Site(lever.name, place.source.path, place.line, place.how, place.value)
    if lever.name == "dtype":
        own = precision.own_value(target)
        source, line = own or precision.where(target)
        return Site(lever.name, source.path, line, lever.how, "bfloat16" if own else None)
    crank = call_options.used(target)
    option = lever.call_option if crank else lever.option
    if not option:
        raise _elsewhere(target, lever)
    module = call_options if crank else compile_options
    set_by = module.own_option(target, option)
    if set_by is not None:
        source, line, value = set_by
        return Site(lever.name, source.path, line, lever.how, value)
    source, line = module.where(target)
    return Site(lever.name, source.path, line, lever.how, lever.default)
